"""What faces use: the gateway itself, sessions, reads, search, export and import."""
