"""Semel: every message is recorded once and shown once, never sent twice by our doing, never silently lost.

Programs that talk with a running gateway (docs/python.md):

    Client, AsyncClient            send messages, wait for answers, watch sessions, read transcripts, answer requests
    Answer                         what the agent said to one message
    EntryUpdate, ItemUpdate,       what `watch` yields
    SessionUpdate
    SessionListSnapshot,           what `watch_sessions` yields, and what is in the changes
    SessionListChanges,
    SessionListed, SessionGone
    Entry, SessionRow, Accepted    what the clients return: a row of a transcript, a session, an accepted message
    UploadedFile                   a file that waits for its message
    ToolItem, PermissionItem,      some of the items that are shown beside the transcript
    AskItem
    NoGateway, RequestRefused,     what the clients raise
    OutcomeUnknown

Programs that read what agents stream (docs/agents.md):

    fold                           fold a recorded ACP stream into the view that a person would have seen

Programs that extend Semel (docs/write-a-channel.md):

    semel.gateway.ports            what a channel implements, and what it is given
    semel.testing                  doubles, the scripted agent, the conformance suite

A name is imported when it is used, so `import semel` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.acp_stream.view import fold
    from semel.faces.api_types import Accepted, AskItem, Entry, PermissionItem, SessionRow, ToolItem, UploadedFile
    from semel.faces.client import (
        Answer,
        AsyncClient,
        Client,
        EntryUpdate,
        ItemUpdate,
        NoGateway,
        OutcomeUnknown,
        RequestRefused,
        SessionUpdate,
    )
    from semel.faces.frame_types import SessionGone, SessionListChanges, SessionListed, SessionListSnapshot

__version__ = "0.2.0"

_MODULES = {
    "semel.acp_stream.view": ("fold",),
    "semel.faces.api_types": (
        "Accepted", "AskItem", "Entry", "PermissionItem", "SessionRow", "ToolItem", "UploadedFile",
    ),
    "semel.faces.client": (
        "Answer", "AsyncClient", "Client", "EntryUpdate", "ItemUpdate", "NoGateway", "OutcomeUnknown",
        "RequestRefused", "SessionUpdate",
    ),
    "semel.faces.frame_types": ("SessionGone", "SessionListChanges", "SessionListSnapshot", "SessionListed"),
}  # fmt: skip
"""Where each public name is defined."""

__all__ = [
    "Accepted",
    "Answer",
    "AskItem",
    "AsyncClient",
    "Client",
    "Entry",
    "EntryUpdate",
    "ItemUpdate",
    "NoGateway",
    "OutcomeUnknown",
    "PermissionItem",
    "RequestRefused",
    "SessionGone",
    "SessionListChanges",
    "SessionListSnapshot",
    "SessionListed",
    "SessionRow",
    "SessionUpdate",
    "ToolItem",
    "UploadedFile",
    "__version__",
    "fold",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(module), name)
            return value
    raise AttributeError(f"module 'semel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
