"""Read the ledger in pages, as input for the search index.

Each function that takes `tx` is the body of a read transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.ledger.search.words import SearchTerm, make_snippet
from semel.ledger.storage.rows import EntryRole, LedgerRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.entries import load
from semel.text.json_types import Json

PAGE = 100


class ChangedEntry(Row):
    """A changed entry, which must be indexed again."""

    id: int
    seq: int
    rev: int
    at: int
    role: EntryRole
    text: str
    live: int
    superseded: int
    more: str | None


class HitEntry(ChangedEntry):
    """An entry that a search found, with its session's key and title."""

    key: str
    title: str | None


@dataclass(frozen=True)
class IndexedEntry:
    """An entry for the index. `text` is empty if a search must not find the entry."""

    id: int
    seq: int
    at: int
    role: str
    text: str


@dataclass(frozen=True)
class ChangedPage:
    """A page of a session's changes: `docs` holds the changes up to the rev `rev`. `more`: another page follows.

    `head`: the session's current rev. `erased`: entries up to this seq were deleted, so their words must leave the
    index.
    """

    key: str
    head: int
    rev: int
    docs: tuple[IndexedEntry, ...]
    more: bool
    erased: int


def read_index_name(tx: Tx) -> str:
    """Return the name that an index of this ledger must have: "NAME.INCARNATION" of the ledger.

    A restored ledger has a new incarnation, and so needs a new index.
    """
    row = tx.get(LedgerRow, "ledger_get")
    return f"{row.name}.{row.incarnation}"


def read_revs(tx: Tx, after: int, limit: int = 1000) -> list[tuple[int, int]]:
    """Return a page of at most `limit` sessions with an id above `after`: the id and the current rev of each."""
    return tx.pairs(int, int, "search_sessions", after=after, limit=limit)


def read_page(tx: Tx, session: int, after: int) -> ChangedPage | None:
    """Return a page of a session's changes after the rev `after`; None if the session does not exist."""
    session_row = tx.one(SessionRow, "session_by_id", id=session)
    if session_row is None:
        return None
    rows = tx.all(ChangedEntry, "search_entries", session=session, after=after, limit=PAGE)
    more = len(rows) == PAGE
    erased = session_row.erased if session_row.deleted is None else session_row.seq
    docs = tuple(
        IndexedEntry(row.id, row.seq, row.at, row.role, searchable_text(row)) for row in rows if row.seq > erased
    )
    return ChangedPage(session_row.key, session_row.rev, rows[-1].rev if more else session_row.rev, docs, more, erased)


def searchable_text(row: ChangedEntry) -> str:
    """Return the text by which a search finds an entry: its text, the names of its files and what voice notes say.

    Return "" while the entry streams, because its text may change 30 times a second; it is indexed when it is final.
    Return "" for a superseded entry, because a later entry repeats its text.
    """
    if row.live or row.superseded:
        return ""
    files = load(row.more).get("files") if row.more and '"files"' in row.more else None
    names = [str(file.get(f, "")) for file in files or () if isinstance(file, dict) for f in ("name", "transcript")]
    return "\n".join([row.text, *filter(None, names)]) if names else row.text


def render_hits(tx: Tx, positions: Sequence[tuple[int, int]], terms: Sequence[SearchTerm]) -> list[Json | None]:
    """Return a JSON object with a snippet for each hit in `positions`, a list of (session id, seq).

    The index may be out of date, so texts are read from the ledger. A hit whose entry is gone becomes None.
    """
    return [_render_hit(tx, session, seq, terms) for session, seq in positions]


def _render_hit(tx: Tx, session: int, seq: int, terms: Sequence[SearchTerm]) -> Json | None:
    row = tx.one(HitEntry, "search_hit", session=session, seq=seq)
    if row is None or not (text := searchable_text(row)).strip():
        return None
    more = load(row.more)
    out: Json = {"session": row.key, "seq": row.seq, "at": row.at, "role": row.role}
    out.update({name: more[name] for name in ("sender", "kind", "from") if more.get(name)})
    if row.title:
        out["title"] = row.title
    return {**out, "snippet": make_snippet(text, terms)}
