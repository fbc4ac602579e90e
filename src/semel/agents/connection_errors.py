"""Say why a server could not be reached."""

from __future__ import annotations

import socket

NOTHING_LISTENS = "nothing listens there"


def describe_root_cause(error: BaseException) -> str:
    """Describe the innermost exception: the outer ones only say "Connection error."."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, ConnectionRefusedError):
        return NOTHING_LISTENS
    if isinstance(error, socket.gaierror):
        return "its host name was not found"
    return str(error) or type(error).__name__
