"""Addresses of conversations, ids of messages, our own account, and which edits belong to which message.

The address of a person is the id of their account, that of a group `group:ID` with signal-cli's id of it. A message is
known by its author and the time at which it was sent, in milliseconds: `AUTHOR/TIME`, in receipts, keys and references
alike. The author of our own messages is `self`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from semel.channels.recent_map import RecentMap
from semel.channels.signal.settings import ACCOUNT_ID, PHONE_NUMBER
from semel.text.json_types import Json, objects_in, text_at, value_at

SELF = "self"
MAX_REMEMBERED_EDITS = 300
"""How many of the newest edits are remembered with the message that they change."""
_PERSON = re.compile(f"{ACCOUNT_ID}|{PHONE_NUMBER}")
_GROUP = re.compile(r"group:([A-Za-z0-9+/_-]{20,90}={0,2})")
_MESSAGE = re.compile(rf"({SELF}|{ACCOUNT_ID}|{PHONE_NUMBER})/([0-9]{{1,16}})")


@dataclass(frozen=True)
class SignalPlace:
    """A parsed address: either a group or a person."""

    person: str = ""
    group: str = ""

    @property
    def params(self) -> Json:
        """The place as parameters of signal-cli's commands."""
        return {"groupId": self.group} if self.group else {"recipient": [self.person]}

    def __str__(self) -> str:
        return f"group:{self.group}" if self.group else self.person


@dataclass(frozen=True)
class MessageId:
    """The id of a message. `author`: an account, or SELF. `time`: milliseconds since the epoch."""

    author: str
    time: int

    def __str__(self) -> str:
        return f"{self.author}/{self.time}"


def parse_address(address: str) -> SignalPlace:
    """Parse an address. Raises ValueError."""
    if (group := _GROUP.fullmatch(address)) is not None:
        return SignalPlace(group=group[1])
    if _PERSON.fullmatch(address):
        return SignalPlace(address)
    raise ValueError(
        f"{address!r} is not a Signal address; write a phone number with +, the id of an account, or group:ID"
    )


def parse_message_id(id: str) -> MessageId:
    """Parse the id of a message. Raises ValueError."""
    match = _MESSAGE.fullmatch(id)
    if match is None:
        raise ValueError(f"{id!r} is not the id of a Signal message, which looks like AUTHOR/TIME")
    return MessageId(match[1], int(match[2]))


@dataclass(frozen=True)
class OwnAccount:
    """The names by which Signal knows our account. `id`: "" if it is not known."""

    account: str
    id: str = ""

    def is_self(self, *names: object) -> bool:
        """Whether one of these ids or numbers is ours."""
        return any(name and name in (self.account, self.id) for name in names)

    def name_author(self, id: object, number: object) -> str:
        """Return the author of a message as in its id: SELF, the id of the account or, without one, its number."""
        return SELF if self.is_self(id, number) else str(id or number or "")


def read_own_account(account: str, config_folder: Path) -> OwnAccount:
    """Read the id of our account from signal-cli's list of accounts (`data/accounts.json` in its directory)."""
    try:
        listed = json.loads((config_folder / "data" / "accounts.json").read_bytes())
    except (OSError, ValueError):
        return OwnAccount(account)
    ids = (
        text_at(known, "uuid")
        for known in objects_in(value_at(listed, "accounts"))
        if account in (known.get("number"), known.get("uuid"))
    )
    return OwnAccount(account, next((id for id in ids if id), ""))


@dataclass
class EditedMessages:
    """Which message an edit changes, and when each message was changed last.

    Each edit has a time of its own, and later edits, quotes and reactions may name a message by it.
    """

    originals: RecentMap[str, str] = field(default_factory=lambda: RecentMap(MAX_REMEMBERED_EDITS))
    """The id of an edit -> the id of the message."""
    _latest: RecentMap[str, int] = field(default_factory=lambda: RecentMap(MAX_REMEMBERED_EDITS))

    def note_edit(self, message: MessageId, edited_at: int) -> None:
        """Remember an edit of a message. Ids that `parse_message_id` does not take are not remembered."""
        edit = str(MessageId(message.author, edited_at))
        if _MESSAGE.fullmatch(edit) and _MESSAGE.fullmatch(str(message)):
            self.originals[edit] = str(message)
            self._latest[str(message)] = edited_at

    def restore_edits(self, originals: Mapping[str, str]) -> None:
        """Remember the edits that were saved. `originals`: as in the field."""
        for edit, message in originals.items():
            with contextlib.suppress(ValueError):
                self.note_edit(parse_message_id(message), parse_message_id(edit).time)

    def find_original(self, message: MessageId) -> MessageId:
        """Return the message that this one is an edit of, or the message itself."""
        original = self.originals.get(str(message))
        return parse_message_id(original) if original is not None else message

    def find_latest(self, message: MessageId) -> int:
        """Return the time of a message's last edit that is known, or its own."""
        return self._latest.get(str(message), message.time)
