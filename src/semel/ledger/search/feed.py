"""The input of the search index: the ledger, read in pages. Each function is the body of a read transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.ledger.search.words import Term, snippet
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript.entries import load

Json = dict[str, Any]
PAGE = 100


@dataclass(frozen=True)
class Doc:
    """An entry as the index stores it. `text` is empty if there is nothing to find, or nothing any more."""

    id: int
    seq: int
    at: int
    role: str
    text: str


@dataclass(frozen=True)
class Page:
    """What changed in a session: `docs`, up to `rev`; `more`: there is another page.

    Entries up to `erased` were deleted: their words must leave the index.
    """

    key: str
    head: int
    rev: int
    docs: tuple[Doc, ...]
    more: bool
    erased: int


def name(tx: Tx) -> str:
    """The ledger's name and incarnation: a restored ledger has another incarnation, and so another index."""
    row = tx.one("ledger_get")
    assert row is not None
    return f"{row.name}.{row.incarnation}"


def revs(tx: Tx, after: int, limit: int = 1000) -> list[tuple[int, int]]:
    """(session, last change), a page of sessions by id."""
    return [(int(r.id), int(r.rev)) for r in tx.all("search_sessions", after=after, limit=limit)]


def page(tx: Tx, session: int, after: int) -> Page | None:
    """What changed after a rev; None where there is no such session."""
    head = tx.one("session_by_id", id=session)
    if head is None:
        return None
    rows = tx.all("search_entries", session=session, after=after, limit=PAGE)
    more = len(rows) == PAGE
    erased = head.erased if head.deleted is None else head.seq
    docs = tuple(Doc(r.id, r.seq, r.at, r.role, findable(r)) for r in rows if r.seq > erased)
    return Page(head.key, head.rev, rows[-1].rev if more else head.rev, docs, more, erased)


def findable(row: Row) -> str:
    """The searchable text of an entry: its text and the names of its files.

    "" while it streams, as an entry that changes 30 times a second is indexed when it is final; and "" if it was
    superseded, as the same text stands below it.
    """
    if row.live or row.superseded:
        return ""
    files = load(row.more).get("files") if row.more and '"files"' in row.more else None
    names = [str(file.get("name", "")) for file in files or () if isinstance(file, dict)]
    return "\n".join([row.text, *names]) if names else str(row.text)


def hits(tx: Tx, found: Sequence[tuple[int, int]], terms: Sequence[Term]) -> list[Json | None]:
    """The hits as the ledger has them now, as the index may be older. None for an entry that is gone."""
    return [_hit(tx, session, seq, terms) for session, seq in found]


def _hit(tx: Tx, session: int, seq: int, terms: Sequence[Term]) -> Json | None:
    row = tx.one("search_hit", session=session, seq=seq)
    if row is None or not (text := findable(row)).strip():
        return None
    more = load(row.more)
    out: Json = {"session": row.key, "seq": row.seq, "at": row.at, "role": row.role}
    out.update({name: more[name] for name in ("sender", "kind", "from") if more.get(name)})
    if row.title:
        out["title"] = row.title
    return {**out, "snippet": snippet(text, terms)}
