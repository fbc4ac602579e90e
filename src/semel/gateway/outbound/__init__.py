"""What goes out: the outbox, attempts to send, previews, typing, and the destinations of a session."""
