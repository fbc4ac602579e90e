"""The gateway's API for faces (the command line, HTTP): sessions, queries, search, export and import."""
