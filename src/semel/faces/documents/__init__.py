"""Export formats: a session as a document for people, or as JSON lines for programs (`semel export`).

Each writer takes the records that `Gateway.export` yields (docs/export.md), one page at a time. It keeps none of the
records, so memory use does not depend on the length of the session (Law 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from semel.faces.documents.html import HtmlDocument
from semel.faces.documents.markdown import MarkdownDocument
from semel.ledger.admin.export import ExportWriter
from semel.text.json_types import Json


class Document(Protocol):
    """A writer for one session. `media` is the media type of the document. `shows_items`: whether it takes the records
    of tool calls and permission requests, too.

    `page` returns the bytes for one page of records, `end` the bytes that follow the last page.
    """

    media: str
    shows_items: bool

    def page(self, records: Sequence[Json]) -> bytes: ...

    def end(self) -> bytes: ...


class JsonlDocument:
    """One JSON object per line, without loss: the format that `semel import` reads."""

    media = "application/jsonl"
    shows_items = False

    def __init__(self) -> None:
        self._writer = ExportWriter()

    def page(self, records: Sequence[Json]) -> bytes:
        return b"".join(map(self._writer.format_line, records))

    def end(self) -> bytes:
        return self._writer.end()


FORMATS: dict[str, type[Document]] = {"md": MarkdownDocument, "jsonl": JsonlDocument, "html": HtmlDocument}

__all__ = ["FORMATS", "Document", "HtmlDocument", "JsonlDocument", "MarkdownDocument"]
