"""What a reply, an edit, a deletion or a reaction is about: the entry of it, where this session has one.

A platform names the message meant by its own id: what a person wrote is found by the key of its event, what left from
here by the receipt of its part. Only in the same session: an id can be made up, and must not bring to light what was
said in another conversation. Without an original the entry stands by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.text.shorten import shorten_to_line

QUOTED_CHARS = 160  # characters of the original that an entry repeats, so that it can be understood by itself
MARKS = {"edit": "edited", "delete": "deleted"}


@dataclass(frozen=True)
class Refers:
    """`id`: the platform's, of the message meant; None: none is. `sender`: the account of who does it."""

    id: str | None
    channel: str
    sender: str = ""


@dataclass(frozen=True)
class Original:
    """An entry that another one is about. `by`: the account of who wrote it, where a person did."""

    seq: int
    role: str
    whose: str
    text: str
    by: str = ""
    own: bool = False  # who refers to it wrote it

    def more(self) -> dict[str, Any]:
        """What the entry that is about it says of it."""
        return {
            "of": self.seq,
            "quote": shorten_to_line(self.text, QUOTED_CHARS),
            **({"whose": self.whose} if self.whose else {}),
        }


def find(tx: Tx, session: Row, source: str, what: Refers | None) -> Original | None:
    """The entry meant; None: this session has none, or it was deleted with what was said before."""
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
    """The original says that it was edited or deleted, and by which entry. Its text stays as it was heard (Law 4)."""
    mark = MARKS.get(kind)
    theirs = about.role == "user" and (about.own or kind == "delete")
    if mark is not None and (theirs or (about.role == "agent" and kind == "delete")):
        entries.set_entry(tx, session, about.seq, more={mark: seq})


def _text(tx: Tx, session: int, row: Row, more: dict[str, Any]) -> str:
    """What it says now: as it was edited last."""
    if "edited" in more and (newer := tx.one("entry_get", session=session, seq=more["edited"])) is not None:
        return str(newer.text)
    if row.text:
        return str(row.text)
    return ", ".join(str(file.get("name") or "a file") for file in more.get("files") or ())
