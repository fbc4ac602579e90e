"""Deliver messages: the outbox, attempts to send, previews, typing indicators, and the destinations of a session."""
