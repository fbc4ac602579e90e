"""The connection of one editor: its pipes, its requests, and the way to the gateway."""
