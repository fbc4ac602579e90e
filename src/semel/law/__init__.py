"""The laws as pure code: no clock, no random, no await, no SQL, no files. Time and ids come in as arguments."""

from semel.acp_stream import fold

__all__ = ["fold"]
