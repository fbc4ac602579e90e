"""Find the entry that a reply, an edit, a deletion or a reaction refers to.

A platform refers to a message by the platform's own id. A person's message is found by the key of its event, a message
of Semel by the receipt of its part. Only the same session is searched: an id can be made up and must not reveal what
was said in another conversation. If no original is found, the new entry refers to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.rows import EntryRole, EntryRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.wellformed import shorten_to_line

QUOTED_CHARS = 160  # characters of the original quoted in the entry, so that it can be understood alone
MARKS = {"edit": "edited", "delete": "deleted"}


class OriginalReceipt(Row):
    """The entry of a message that Semel sent, found by the platform's receipt for it."""

    seq: int
    role: EntryRole
    text: str
    more: str | None


class OriginalMessage(OriginalReceipt):
    """The entry of a person's message, with the sender and payload of its event."""

    sender: str | None
    payload: str | None


@dataclass(frozen=True)
class Reference:
    """A platform id that an event refers to. `sender`: the account of the person who refers to that message."""

    message_id: str | None
    channel: str
    sender: str = ""


@dataclass(frozen=True)
class Original:
    """The entry that another entry refers to.

    `author_account`: the account of its author; "" if the author is no person.
    """

    seq: int
    role: str
    author_name: str
    text: str
    author_account: str = ""
    is_referrers_own: bool = False  # written by the person who refers to it

    def entry_fields(self) -> dict[str, Any]:
        """Return the fields about the original that go into `more` of the referring entry."""
        return {
            "of": self.seq,
            "quote": shorten_to_line(self.text, QUOTED_CHARS),
            **({"whose": self.author_name} if self.author_name else {}),
        }


def find_original(tx: Tx, session: SessionRow, source: str, reference: Reference | None) -> Original | None:
    """Return the entry that `reference` names. Return None if the session has no such entry, or has erased it."""
    if reference is None or reference.message_id is None:
        return None
    message = tx.one(OriginalMessage, "entry_of_event", session=session.id, source=source, key=reference.message_id)
    person: dict[str, Any] = {}
    if message is not None and message.payload:
        person = entries.read_object(entries.read_object(entries.load(message.payload), "data"), "from")
    row = message or tx.one(
        OriginalReceipt, "entry_of_receipt", session=session.id, channel=reference.channel, receipt=reference.message_id
    )
    if row is None or row.seq <= session.erased:
        return None
    more = entries.load(row.more)
    author_account = str(person.get("id") or "")
    author_name = str(more.get("sender") or "") if row.role == "user" else row.role
    return Original(
        row.seq,
        row.role,
        author_name,
        _current_text(tx, session.id, row, more),
        author_account,
        bool(author_account) and author_account == reference.sender,
    )


def mark_original(tx: Tx, session: int, original: Original, kind: str, seq: int) -> None:
    """Record in the original's entry that the entry `seq` edited or deleted it. Its text stays as recorded (Law 4)."""
    field = MARKS.get(kind)
    theirs = original.role == "user" and (original.is_referrers_own or kind == "delete")
    if field is not None and (theirs or (original.role == "agent" and kind == "delete")):
        entries.set_entry(tx, session, original.seq, more={field: seq})


def _current_text(tx: Tx, session: int, row: OriginalReceipt, more: dict[str, Any]) -> str:
    """Return the original's current text: that of its last edit, else its own, else the names of its files."""
    if "edited" in more and (newer := tx.one(EntryRow, "entry_get", session=session, seq=more["edited"])) is not None:
        return newer.text
    if row.text:
        return row.text
    return ", ".join(str(file.get("name") or "a file") for file in more.get("files") or ())
