"""The port of channels: the interface of a channel adapter, and the values it exchanges with the gateway."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from semel.law.busy import Busy


class Safety(enum.StrEnum):
    """How a part with unknown outcome can be resolved on a platform (docs/laws.md, safety classes)."""

    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True)
class Caps:
    """The capabilities and limits of a channel. Times are in seconds, lengths in `unit`."""

    safety: Safety
    max_len: int | None = None
    unit: Literal["utf16", "char", "byte"] = "char"
    key_life: float = 0.0
    settle: float = 0.0
    finds: bool = False  # `find` is implemented; required of a reconcilable channel
    pace: float = 0.0  # minimum time between two sends to one destination
    timeout: float = 30.0  # one attempt
    edits: bool = False
    deletes: bool = False
    reactions: bool = False
    typing: bool = False
    threads: bool = False
    files: bool = False
    file_limit: int | None = None  # bytes of one file that may be sent
    caption_len: int | None = None  # longest text sent along with a file, if shorter than `max_len`
    dialect: str = "plain"
    numbered: bool = False  # message ids are PLACE/NUMBER; all numbers of a place increase, ours too


@dataclass(frozen=True)
class Answers:
    """The message that a part answers: the last one that its turn was asked by, if it came through the same channel.

    Used for a reply marker, a thread or a subject line. `id`, `sender` and `data` are the channel's own values of it.
    """

    id: str
    sender: str = ""  # Person.id
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Op:
    """One part to send. `key` is an idempotency key, the same on every retry."""

    key: str
    kind: Literal["post", "edit", "react", "file", "delete"]
    address: str  # the destination without the channel's name
    text: str  # Markdown as the agent wrote it; for a reaction, the emoji
    target: str | None = None  # the platform's id of the message to edit, delete or react to
    file: Path | None = None
    name: str | None = None
    mime: str | None = None
    session: str = ""
    marked: bool = False  # a deliberate resend of a part that may have arrived; to be marked as such
    at: float = 0.0  # when it was said, seconds since the epoch; the same on every retry
    n: int = 0  # which part of its message this is, from 0
    answers: Answers | None = None


@dataclass(frozen=True)
class Receipt:
    id: str


class NotSent(Exception):
    """Provably not sent, or not accepted by the platform (429, documented not-accepted answers). It is retried."""

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Rejected(Exception):
    """The platform definitely refused the part. It is not retried."""


class Unknown(Exception):
    """Data was sent, but no answer says whether the part was accepted."""


class Offline(Exception):
    """`Channel.run` lost its connection. It is run again with backoff, not before `retry_after` seconds."""

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Denied(Exception):
    """The platform refuses this account (a wrong token, a second bot on the same one). The message says what to do.

    `Channel.run` is run again after ten minutes; the status shows the message meanwhile.
    """


class TooLarge(Exception):
    """A received file exceeds the size limit."""


@dataclass(frozen=True)
class Person:
    """The author of an event. `id` is their account, stable and unique on the platform; `name` is for display."""

    id: str
    name: str = ""
    bot: bool = False  # a program (Law 2: it does not wake)


@dataclass(frozen=True)
class Kept:
    """A received file that was stored. `id` is its blob id, `size` is in bytes."""

    id: str
    size: int
    name: str
    mime: str


@dataclass(frozen=True)
class Missing:
    """A file of a message that could not be stored: too large, or gone. `why` is shown to people."""

    name: str
    why: str
    mime: str = "application/octet-stream"


@dataclass(frozen=True)
class Incoming:
    """One event reported by a platform.

    The channel does not interpret it: access, routing and wake policy belong to the gateway.

    | kind | key | of | text |
    |---|---|---|---|
    | message | its id on the platform, as in a receipt and in `of` | what it replies to | what was written |
    | edit | the message's id and the version | the message | the new text |
    | delete | the message's id and that it is gone | the message | |
    | reaction | the reaction's own id | the message | the emoji |
    | echo | `Op.key` of a message of our own | the platform's id of it | |
    | failed | the report's own id | our message that failed after it was taken: its receipt, or `Op.key` | why |
    | unreadable | the platform's id, if it is known | | |

    A key is 1 to 512 characters, none of them a control character. `address` is the `Op.address` of an
    answer: a room, a chat or a thread in one; at most 120 bytes, and it never changes. `text` is plain text or Markdown
    without a leading mention of us and without `@us` after a command.
    """

    kind: Literal["message", "edit", "delete", "reaction", "echo", "failed", "unreadable"]
    key: str
    address: str = ""
    sender: Person | None = None
    text: str = ""
    at: float = 0.0  # seconds since the epoch, by the platform's clock
    of: str | None = None
    group: bool = False  # people other than the sender can read it
    mentioned: bool = False  # it names us, replies to us, or is a command addressed to us
    removed: bool = False  # a reaction was removed
    files: tuple[Kept | Missing, ...] = ()
    title: str = ""  # display name of the room or chat, if it has one
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON that `send` needs to answer (`Op.answers`). The agent's prompt shows two fields of it: "forwarded", the name
    of the original author, and "replied", {"from", "text"} of a message that `of` may not find."""
    raw: bytes = b""  # of an unreadable event: its raw content
    why: str = ""  # of an unreadable event: what is wrong with it


@dataclass(frozen=True)
class Heard:
    """The outcome of accepting an event. A repeat of the event gets the outcome "duplicate" or "conflict" (Law 1)."""

    event: int
    status: Literal["accepted", "duplicate", "conflict"]
    digest: str = ""  # hex digest of the stored content
    other: str = ""  # hex digest of the content of this call, if it conflicts
    waiting: Busy | None = None  # the busy mode by which it waits for a turn; None: it does not wait
    place: int | None = None  # its position in the queue, from 1
    why: str | None = None  # why the requested busy mode was not applied


class Inbox(Protocol):
    """Accepts a channel's events. Each call returns after the commit; acknowledge to the platform only then."""

    async def cursor(self) -> str | None:
        """The saved sync cursor; `None` on the first run: start at the present and save that cursor."""

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        """Accept events in the platform's order, and save the cursor after them, in one transaction (Law 1).

        Repeats are ignored forever. Events of people who may not speak are refused and counted. Unusable events go to
        quarantine. Raises only if nothing was committed (a full disk): let the error out of `run`, which is run again.
        """

    async def known(self, sender: Person, group: str = "") -> bool:
        """Whether this person may speak here, or in the group with that address.

        For use before accepting an invitation, which is not a message, and before downloading a file.
        """

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        """Store a received file before putting its message. Raises TooLarge, and whatever `content` raises."""

    def online(self) -> None:
        """Report that the channel is connected and has put what it missed. Call it again after each reconnect."""

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
        """Accept one event of a program that presented a secret, such as a webhook, and save the cursor after it.

        `scope`: the session keys, or patterns of them, that the program may address. The home of a new session is on
        this channel, on another channel that a pattern names literally, or else on the web page.

        `stable` names the fields that the digest covers: "text", "sender", "kind", "data" (all of it), "session"
        (those it is addressed to), or a key of `data`.
        `wakes=None`: the kind decides, and whether a program sent it (`automatic`: a bot, an auto-reply).
        `busy`: how it is treated while its session is busy (`semel.law.busy`); `None`: the session's mode.
        """


class Channel(Protocol):
    """A channel adapter: three methods and its capabilities.

    Two more methods are optional. `async def typing(self, address: str) -> None`, announced by `caps.typing`, shows a
    typing indicator for some seconds; it is called repeatedly and may fail. `async def receive(self, inbox, headers,
    body) -> tuple[int, Json]` handles HTTP requests of a platform that calls us (status, response body).
    """

    name: str
    caps: Caps

    async def run(self, inbox: Inbox) -> None:
        """Receive until cancelled. Raises Offline if the connection is lost, Denied if the account is refused.

        Do not reconnect inside: the gateway runs it again. Put first what was missed meanwhile.
        """

    async def send(self, op: Op) -> Receipt:
        """Make exactly one attempt. Raises NotSent, Rejected or Unknown; any other error counts as Unknown.

        May be called while `run` is not running. Edits, deletions and reactions are idempotent: if the message already
        is in the requested state, return a receipt.
        """

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Look for a message of this op sent after `since` (seconds since the epoch); `None` if there is none.

        Needed only of reconcilable channels.
        """
