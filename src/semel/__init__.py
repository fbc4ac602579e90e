"""Semel: every message is recorded once and shown once, never sent twice by our doing, never silently lost."""

__version__ = "0.1.0"
