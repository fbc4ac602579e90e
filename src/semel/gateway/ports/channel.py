"""The port of channels: what an adapter must be for the gateway to hear and send over a platform."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from semel.law.busy import Busy


class Safety(enum.StrEnum):
    """What a platform lets us know after a lost answer (docs/laws.md, safety classes)."""

    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True)
class Caps:
    """A channel's table of facts. Times in seconds; lengths in `unit`."""

    safety: Safety
    max_len: int | None = None
    unit: Literal["utf16", "char", "byte"] = "char"
    key_life: float = 0.0
    settle: float = 0.0
    finds: bool = False  # `find` works; always so for a reconcilable channel
    pace: float = 0.0  # least time between two sends to one destination
    timeout: float = 30.0  # one attempt
    edits: bool = False
    deletes: bool = False
    reactions: bool = False
    typing: bool = False
    threads: bool = False
    files: bool = False
    file_limit: int | None = None  # bytes of one file that may be sent
    caption_len: int | None = None  # of the text that goes with a file, where it is shorter than `max_len`
    dialect: str = "plain"
    numbered: bool = False  # ids of messages are PLACE/NUMBER, and the numbers of a place grow, ours among them


@dataclass(frozen=True)
class Answers:
    """The message that a part answers: the last one its turn was asked by, where it came by the same channel.

    For a reply mark, a thread or a subject line: `id`, `sender` and `data` are what the channel told of it.
    """

    id: str
    sender: str = ""  # Person.id
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Op:
    """One part as it leaves: a row of the outbox. `key` is the same on every retry."""

    key: str
    kind: Literal["post", "edit", "react", "file", "delete"]
    address: str  # the destination without its channel
    text: str  # Markdown, as the agent wrote it; of a reaction: the emoji
    target: str | None = None  # the platform's id of the message to edit, delete or react to
    file: Path | None = None
    name: str | None = None
    mime: str | None = None
    session: str = ""
    marked: bool = False  # a deliberate repeat
    at: float = 0.0  # when it was said, seconds since the epoch; the same on every retry
    n: int = 0  # which part of its message this is, from 0
    answers: Answers | None = None


@dataclass(frozen=True)
class Receipt:
    id: str


class NotSent(Exception):
    """Provably nothing left, or the platform says it did not take it (429, documented not-accepted answers)."""

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Rejected(Exception):
    """The platform's definite no."""


class Unknown(Exception):
    """Bytes left and no answer that settles it."""


class Offline(Exception):
    """`Channel.run` lost its platform. It is run again after a back-off, never before `retry_after` seconds."""

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Denied(Exception):
    """The platform refuses this account (a wrong token, a second bot on the same one). The message says what to do.

    `Channel.run` is run again much later; people see the message meanwhile.
    """


class TooLarge(Exception):
    """A received file is larger than what is kept."""


@dataclass(frozen=True)
class Person:
    """Who wrote. `id` is their account, stable and unique on the platform; `name` is what people see."""

    id: str
    name: str = ""
    bot: bool = False  # a program (Law 2: it does not wake)


@dataclass(frozen=True)
class Kept:
    """A received file, in the store. `id` is its blob's, `size` in bytes."""

    id: str
    size: int
    name: str
    mime: str


@dataclass(frozen=True)
class Missing:
    """A file that came with a message and is not there: too large, or gone. `why` is for people."""

    name: str
    why: str
    mime: str = "application/octet-stream"


@dataclass(frozen=True)
class Incoming:
    """Something a platform told of. What it means (who may speak, which session, whether it wakes) is not its matter.

    | kind | key | of | text |
    |---|---|---|---|
    | message | its id on the platform, as in a receipt and in `of` | what it replies to | what was written |
    | edit | the message's id and the version | the message | the new text |
    | delete | the message's id and that it is gone | the message | |
    | reaction | the reaction's own id | the message | the emoji |
    | echo | `Op.key` of a message of our own | the platform's id of it | |
    | failed | the report's own id | our message that failed after it was taken: its receipt, or `Op.key` | why |
    | unreadable | the platform's id, as far as it can be told | | |

    A key is 1 to 512 characters, none of them a control character. `address` is what `Op.address` will be to answer
    there: a room, a chat, a thread of one; at most 120 bytes, and the same for ever. `text` is plain text or Markdown;
    a mention of us at its beginning, and `@us` behind a command, are taken away.
    """

    kind: Literal["message", "edit", "delete", "reaction", "echo", "failed", "unreadable"]
    key: str
    address: str = ""
    sender: Person | None = None
    text: str = ""
    at: float = 0.0  # seconds since the epoch, by the platform's clock
    of: str | None = None
    group: bool = False  # more people than the sender and us can read it
    mentioned: bool = False  # it names us, replies to us, or is a command to us
    removed: bool = False  # a reaction that was taken back
    files: tuple[Kept | Missing, ...] = ()
    title: str = ""  # what people call the place, if it has a name
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON: what `send` will need to answer (`Op.answers`). The agent is told two fields of it: "forwarded", the name
    of who wrote it first, and "replied", {"from", "text"} of a message that `of` may not find."""
    raw: bytes = b""  # unreadable: as it came
    why: str = ""  # unreadable: what is wrong with it


@dataclass(frozen=True)
class Heard:
    """What hearing an event came to. `status` is the outcome a repeat is answered with, too."""

    event: int
    status: Literal["accepted", "duplicate", "conflict"]
    digest: str = ""  # hex: of the content that is kept
    other: str = ""  # hex: of the content of this call, where it conflicts
    waiting: Busy | None = None  # the busy mode by which it waits for a turn, where it does
    place: int | None = None  # its place in the line of what waits, from 1
    why: str | None = None  # why it was not taken in the way it was asked for


class Inbox(Protocol):
    """Where a channel puts what it hears. Each call returns after the commit: acknowledge then."""

    async def cursor(self) -> str | None:
        """How far this account was read; None: never. Then begin at the present, and put that cursor."""

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        """What people did there, in its order, and the cursor behind it, in one transaction (Law 1).

        A repeat is folded, for ever. Whoever may not speak is refused and counted. What cannot be used is kept as
        quarantined. Raises only where nothing was committed (a full disk): let that out of `run`, which is run again.
        """

    async def known(self, sender: Person, group: str = "") -> bool:
        """Whether this person may speak here (in the group of that address): for an invitation, which is no message,
        and before a file is fetched."""

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        """Store a received file before its message is put. Raises TooLarge, and what `content` raises."""

    def online(self) -> None:
        """Connected, and what was missed was put. Told again after each reconnect."""

    async def hear(
        self,
        *,
        session: str | Sequence[str],
        key: str | None,
        text: str,
        kind: str = "message",
        sender: str | None = None,
        data: Mapping[str, Any] | None = None,
        stable: Sequence[str] = ("text",),
        wakes: bool | None = None,
        cursor: str | None = None,
        busy: Busy | None = None,
        automatic: bool = False,
        scope: Sequence[str] = (),
    ) -> Heard:
        """One event of a program that has shown a secret, such as a webhook's, and the cursor behind it.

        `scope`: session keys, or patterns of them, by which it may speak there. A new session is at home on this
        channel, on another one that one of them names to the letter, or else on the page.

        `stable` names the fields the digest covers: "text", "sender", "kind", "data" (all of it), "session"
        (those it is addressed to), or a key of `data`.
        `wakes=None` leaves it to the kind, and to whether a program sent it (`automatic`: a bot, an auto-reply).
        `busy`: what becomes of it while its session is busy (`semel.law.busy`); None: the session's mode.
        """


class Channel(Protocol):
    """Three methods and a table of facts.

    Beside them a channel may have `async def typing(self, address: str) -> None`, where `caps.typing` says so: it
    shows for some seconds that an answer is on its way, is called again while that is so, and may fail. And
    `async def receive(self, inbox, headers, body) -> tuple[int, Json]`, where the platform calls us over HTTP.
    """

    name: str
    caps: Caps

    async def run(self, inbox: Inbox) -> None:
        """Hear until cancelled. Raises Offline when the platform is lost, Denied when it refuses the account.

        There is no reconnecting inside: the gateway runs it again, and what was missed meanwhile is put first.
        """

    async def send(self, op: Op) -> Receipt:
        """Exactly one attempt. Raises NotSent, Rejected or Unknown; anything else counts as Unknown.

        Also while `run` is not running. Edits, deletions and reactions are idempotent: what is so already is a receipt.
        """

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Reconcilable channels: was this op sent since that time (seconds since the epoch)?"""
