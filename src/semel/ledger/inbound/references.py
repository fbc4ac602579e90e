"""Find the entry that a reply, an edit, a deletion or a reaction is about.

A platform refers to a message by its own id. A person's message is found by the key of its event, ours by the receipt
of its part. Only the same session is searched: an id can be made up and must not reveal what was said in another
conversation. If no original is found, the entry stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.text.shorten import shorten_to_line

QUOTED_CHARS = 160  # characters of the original quoted in the entry, so that it can be understood alone
MARKS = {"edit": "edited", "delete": "deleted"}


@dataclass(frozen=True)
class Refers:
    """`id`: the platform's id of the referenced message, or None. `sender`: the account of the referring person."""

    id: str | None
    channel: str
    sender: str = ""


@dataclass(frozen=True)
class Original:
    """The entry that another entry refers to. `by`: the account of its author, if a person wrote it."""

    seq: int
    role: str
    whose: str
    text: str
    by: str = ""
    own: bool = False  # written by the referring person

    def more(self) -> dict[str, Any]:
        """Fields that the referring entry gets in its `more`."""
        return {
            "of": self.seq,
            "quote": shorten_to_line(self.text, QUOTED_CHARS),
            **({"whose": self.whose} if self.whose else {}),
        }


def find(tx: Tx, session: Row, source: str, what: Refers | None) -> Original | None:
    """The referenced entry; None if this session has none, or it was erased with its session's earlier content."""
    if what is None or what.id is None:
        return None
    row = tx.one("entry_of_event", session=session.id, source=source, key=what.id)
    person: dict[str, Any] = {}
    if row is not None:
        person = entries.part(entries.part(entries.load(row.payload), "data"), "from") if row.payload else {}
    else:
        row = tx.one("entry_of_receipt", session=session.id, channel=what.channel, receipt=what.id)
    if row is None or row.seq <= session.erased:
        return None
    more = entries.load(row.more)
    by = str(person.get("id") or "")
    whose = str(more.get("sender") or "") if row.role == "user" else str(row.role)
    return Original(row.seq, row.role, whose, _text(tx, session.id, row, more), by, bool(by) and by == what.sender)


def mark(tx: Tx, session: int, about: Original, kind: str, seq: int) -> None:
    """Note in the original which entry edited or deleted it. Its text stays as it was recorded (Law 4)."""
    mark = MARKS.get(kind)
    theirs = about.role == "user" and (about.own or kind == "delete")
    if mark is not None and (theirs or (about.role == "agent" and kind == "delete")):
        entries.set_entry(tx, session, about.seq, more={mark: seq})


def _text(tx: Tx, session: int, row: Row, more: dict[str, Any]) -> str:
    """The original's current text: that of its last edit, its own, or the names of its files."""
    if "edited" in more and (newer := tx.one("entry_get", session=session, seq=more["edited"])) is not None:
        return str(newer.text)
    if row.text:
        return str(row.text)
    return ", ".join(str(file.get("name") or "a file") for file in more.get("files") or ())
