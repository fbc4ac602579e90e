"""The laws as pure code: no clock, no random, no await, no SQL, no files. Time and ids come in as arguments."""

from .stream import fold

__all__ = ["fold"]
