"""A session as a document for people, or as lines for programs: what `semel export` writes.

Each writer takes records as `Gateway.export` yields them (docs/export.md), a page at a time, and keeps nothing of
what it has written: a session of any length is written in the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from semel.faces.documents.html import HtmlDocument
from semel.faces.documents.markdown import MarkdownDocument
from semel.ledger.admin.export import Writer

Json = dict[str, Any]


class Document(Protocol):
    """Writes one session. `media` is its media type."""

    media: str

    def page(self, records: Sequence[Json]) -> bytes: ...

    def end(self) -> bytes: ...


class LinesDocument:
    """One JSON object a line, complete: what `semel import` reads."""

    media = "application/jsonl"

    def __init__(self) -> None:
        self._writer = Writer()

    def page(self, records: Sequence[Json]) -> bytes:
        return b"".join(map(self._writer.line, records))

    def end(self) -> bytes:
        return self._writer.end()


FORMATS: dict[str, type[Document]] = {"md": MarkdownDocument, "jsonl": LinesDocument, "html": HtmlDocument}

__all__ = ["FORMATS", "Document", "HtmlDocument", "LinesDocument", "MarkdownDocument"]
