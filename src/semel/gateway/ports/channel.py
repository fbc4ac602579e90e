"""The port of channels: the interface of a channel adapter, and the values that it exchanges with the gateway."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from semel.law.identity import QUESTION_PRESS_PREFIX
from semel.law.wake import Busy

REPEAT_PREFIX = "(repeat) "
"""The text with which a part begins if it may have arrived before (`Op.marked`). It is the same on every platform."""

CLOCK_MARGIN_S = 60.0
"""Seconds by which `since` of `Channel.find` lies before the part's first attempt, because clocks differ."""


class Safety(enum.StrEnum):
    """A safety class: how an unknown outcome is resolved on a platform (docs/laws.md, safety classes)."""

    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True)
class Caps:
    """The capabilities and limits of a channel. Times are in seconds, lengths in `unit`.

    `max_len`: the maximum length of one message. `key_life`: how long the platform recognises a repeated idempotency
    key. `settle`: how long after an attempt `find` reliably finds what was sent. `edits`, `deletes`, `reactions`,
    `files`: which kinds of `Op` it can send besides posts.
    """

    safety: Safety
    max_len: int | None = None
    unit: Literal["utf16", "char", "byte"] = "char"
    key_life: float = 0.0
    settle: float = 0.0
    finds: bool = False  # whether `find` is implemented; a reconcilable channel must have it
    pace: float = 0.0  # minimum time between two sends to one destination
    timeout: float = 30.0  # maximum time of one attempt to send
    edits: bool = False
    edits_replace: bool = True
    """Whether every reader's program shows an edit in the place of the message, and never as another message."""
    deletes: bool = False
    reactions: bool = False
    typing: bool = False
    threads: bool = False
    files: bool = False
    file_limit: int | None = None  # maximum size of one sent file, in bytes
    empty_files: bool = True  # whether it can send a file of 0 bytes
    caption_len: int | None = None  # maximum length of the text of a file, if less than `max_len`; 0: it has none
    dialect: str = "plain"
    numbered: bool = False
    """Whether message ids have the form PLACE/NUMBER. Numbers increase within a place, also for messages of Semel."""
    button_edits: bool = False
    """Whether an edit replaces the buttons of its message, too: with those of the `Op`, or with none. Once a request is
    over, the gateway then edits it: its buttons go away, and a line says how it was answered, and by whom."""
    button_reactions: bool = False
    """Whether a reaction is a button: the gateway reacts to a request with an emoji for each answer, and a person's
    reaction with one of these is a press. The channel only sends and reports reactions, and gets no `Op.buttons`."""
    one_reaction: bool = False
    """Whether an account can have only one reaction on a message. The gateway then puts none of its own under a request
    or a question: the text names the emoji, and people choose one."""
    account_refusals: tuple[str, ...] = ()
    """The reasons of `NotSent` that say that the platform refuses the account. A restart may bring a corrected one, so
    parts that wait after such a refusal are then tried at once."""

    @property
    def can_reserve(self) -> bool:
        """Whether a post needs to be sent in two steps, a placeholder and an edit, and can be (docs/outbox.md)."""
        return self.safety is Safety.AT_MOST_ONCE and self.edits and self.edits_replace and self.deletes


@dataclass(frozen=True)
class Answers:
    """The message that a part answers: the last message that asked for the part's turn, if it came on the same channel.

    The channel may use it for a reply marker, a thread or a subject line. `id`, `sender` and `data` are the values that
    the channel reported in its `Incoming`.
    """

    id: str
    sender: str = ""  # Person.id
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Button:
    """A button under a part: a press of it is an answer to the request or the question that the part asks.

    `answer`: the text for which a press stands, at most MAX_ANSWER_BYTES. `label`: shown on the button. A press is
    reported as a message of the person who pressed: `Incoming("message", press_key(...), text=answer, of=...,
    mentioned=True)`, where `of` is the id of the message with the button. The gateway decides what it is worth.
    """

    label: str
    answer: str
    style: Literal["", "allow", "deny"] = ""


MAX_ANSWER_BYTES = 64
"""The longest `Button.answer`, in UTF-8: Telegram's limit for the data of a button."""
MAX_BUTTONS = 25
"""How many buttons a part has at most: the limit of Slack and Discord for one message."""


def press_key(answer: str, message: str, press: str) -> str:
    """Return the `Incoming.key` of a press. `message`: the id of the message with the button. `press`: of the press.

    A question is answered by the first press of any of its buttons: all its presses share a key (Law 1). A command,
    such as /approve, has the key of its press, so that who presses too late is told who was first.
    """
    return f"press:{press}" if answer.startswith("/") else f"{QUESTION_PRESS_PREFIX}{message}"


@dataclass(frozen=True)
class Op:
    """One part to send. `key`: the idempotency key, the same on every retry."""

    key: str
    kind: Literal["post", "edit", "react", "file", "delete"]
    address: str  # the destination without the channel's name
    text: str  # Markdown as the agent wrote it; for a reaction, the emoji
    target: str | None = None  # the platform's id of the message to edit, delete or react to
    file: Path | None = None
    name: str | None = None
    mime: str | None = None
    session: str = ""
    marked: bool = False  # a deliberate resend of what may have arrived; its text begins with REPEAT_PREFIX
    at: float = 0.0  # when it was said, seconds since the epoch; the same on every retry
    n: int = 0  # which part of its message this is, from 0
    answers: Answers | None = None
    buttons: tuple[Button, ...] = ()  # of a post or an edit; a channel without buttons ignores them


@dataclass(frozen=True)
class Receipt:
    id: str


class NotSent(Exception):
    """The part was provably not sent, or the platform did not accept it (429 or a documented answer).

    It will be retried. `retry_after`: the seconds to wait before the retry, if the platform says so.
    """

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Rejected(Exception):
    """The platform definitely refused the part. It will not be retried."""


class Unknown(Exception):
    """The part may have been sent: no answer says whether the platform accepted it."""


class Offline(Exception):
    """`Channel.run` lost its connection. The gateway calls it again with backoff, not before `retry_after` seconds."""

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class Denied(Exception):
    """The platform refuses this account, for example because of a wrong token. The message says what to do.

    The gateway calls `Channel.run` again after `retry_after` seconds, or after ten minutes; until then, the channel's
    status shows the message. `settings`: the names of those that are refused, or of which one is. `semel channel add`
    asks for them again, and for all if there are none.
    """

    def __init__(self, why: str, settings: Sequence[str] = (), retry_after: float | None = None):
        super().__init__(why)
        self.settings = tuple(settings)
        self.retry_after = retry_after


class TooLarge(Exception):
    """A received file exceeds the size limit."""


@dataclass(frozen=True)
class Person:
    """The author of an event. `id`: their account, unique on the platform and never changed. `name`: for display."""

    id: str
    name: str = ""
    bot: bool = False  # whether it is a program, whose messages do not wake the agent (Law 2)


@dataclass(frozen=True)
class Kept:
    """A received file that was stored. `id`: its blob id. `size`: in bytes.

    `width`, `height`: of an image, in pixels, if they are known. `voice`: it is a voice note: what its sender says, and
    no song. `Inbox.keep` does not know that; the channel does.
    """

    id: str
    size: int
    name: str
    mime: str
    width: int | None = None
    height: int | None = None
    voice: bool = False


@dataclass(frozen=True)
class Missing:
    """A file of a message that could not be stored, because it was too large or gone.

    `why`: the reason, shown to people.
    """

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
    | failed | the report's own id | our message that failed after it was accepted: its receipt, or `Op.key` | why |
    | unreadable | the platform's id, if it is known | | |

    A key is 1 to 512 characters, none of them a control character. `address` is where an answer goes (`Op.address`): a
    room, a chat or a thread in one; it is at most 120 bytes and never changes. `text` is plain text or Markdown without
    a leading mention of Semel's account, and without `@account` after a command.
    """

    kind: Literal["message", "edit", "delete", "reaction", "echo", "failed", "unreadable"]
    key: str
    address: str = ""
    sender: Person | None = None
    text: str = ""
    at: float = 0.0  # seconds since the epoch, by the platform's clock
    of: str | None = None
    group: bool = False  # people other than the sender can read it
    mentioned: bool = False  # it names the account of Semel, replies to it, or is a command to it
    removed: bool = False  # a reaction was removed
    files: tuple[Kept | Missing, ...] = ()
    title: str = ""  # display name of the room or chat, if it has one
    opens: bool = False  # it only opens the conversation, as Telegram's /start does: the gateway greets the sender
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON that `send` needs to answer (`Op.answers`). The agent's prompt shows two fields of it: "forwarded", the name
    of the original author, and "replied", {"from", "text"} of the message `of`, which the ledger may not have."""
    raw: bytes = b""  # of an unreadable event: its raw content
    why: str = ""  # of an unreadable event: what is wrong with it


@dataclass(frozen=True)
class Heard:
    """The outcome of accepting an event. `event`: its id or, for a repeat, the id of the first event.

    `status`: "accepted" for a new event, "duplicate" for a repeat with the same content, "conflict" for one with other
    content (Law 1).
    """

    event: int
    status: Literal["accepted", "duplicate", "conflict"]
    digest: str = ""  # hex digest of the stored content
    other: str = ""  # hex digest of the content of this call, if it conflicts
    waiting: Busy | None = None  # the busy mode by which it waits for the running turn; None if it does not wait
    place: int | None = None  # its position in the queue, from 1
    why: str | None = None  # why the requested busy mode was not applied
    note: str | None = None  # what the sender should know about the session that this event created
    elsewhere: str = ""  # if it conflicts, and the first event was for other sessions: their keys, joined by ", "


class Inbox(Protocol):
    """Accept a channel's events. `put` and `hear` return after the commit; acknowledge to the platform only then."""

    async def cursor(self) -> str | None:
        """Return the saved sync cursor; None on the first run: then begin at the present, and save that cursor.

        Call this only once the platform has accepted the account: `semel init` tries an account by running the channel
        until this call.
        """

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        """Accept events, in the platform's order, and save the cursor after them, in one transaction (Law 1).

        Repeats are ignored. Events of people who may not speak are refused and counted. Unusable events go to
        quarantine. This raises only if nothing was committed, for example because the disk is full. Let that error end
        `run`; the gateway then calls `run` again.
        """

    async def known(self, sender: Person, group: str = "") -> bool:
        """Return whether this person may speak on this channel.

        `group`: the address of the group where they want to speak; "" for a direct conversation. Call this before
        downloading a file.
        """

    async def may_invite(self, sender: Person) -> bool:
        """Return whether to accept this person's invitation to a conversation, which is not a message.

        It is if they may speak, or while a pairing code waits: they can send the code only in that conversation.
        """
        return await self.known(sender)

    async def has_heard(self, key: str) -> bool:
        """Return whether an event with this key (`Incoming.key`) is recorded: its files need not be fetched again."""

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        """Store a received file, before its message is put. Return the file.

        `limit`: the maximum size in bytes. Raises TooLarge, and any error of the iteration over `content`.
        """

    def lend_file(self, key: str, address: str) -> AbstractAsyncContextManager[Path | None]:
        """Return a context with the file of a part (`Op.key`) that left for `address`; None if it is not kept any more.

        For a platform that takes a file only once its person has agreed, which may be days after `send`. To enter it
        raises LookupError if no such part is for `address`, it has no file, or the channel reported that it failed.
        """

    def online(self) -> None:
        """Report that the channel is connected and has put all missed events. Call it again after each reconnect."""

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
        """Accept one event from a program that presented a secret, such as a webhook, and save the cursor after it.

        `session`: the key of its session, or the keys of several. `key`: its idempotency key; an event with None is
        never a duplicate. `stable`: the fields that the digest covers: "text", "sender", "kind", "data" (all of it),
        "session" (the keys), or a key of `data`. `wakes`: whether it wakes the agent; None decides by its kind and by
        `automatic`. `automatic`: a program wrote it (a bot, an auto-reply). `busy`: how to handle it while a turn runs
        (`semel.law.wake`); None takes the session's mode. `scope`: the session keys, or patterns of them, that the
        program may address. The home of a new session is on this channel, on another channel that a pattern names
        literally, or else on the web page.
        """


class Channel(Protocol):
    """A channel adapter: three methods and its capabilities.

    Five more methods are optional. `async def check(self) -> None` is called by `semel channel add` once the platform
    has accepted the account: it raises Denied or Offline for what `run` does not find out before its call of
    `Inbox.cursor`, such as a server for sending that refuses the login. `async def typing(self, address: str) ->
    None`, announced by `caps.typing`, shows a typing indicator for some seconds; the gateway calls it repeatedly, and
    it may fail. `async def receive(self, inbox, headers, body) -> tuple[int, Json]` handles a platform's HTTP request
    and returns (status, response body). `def knows_token(self, token: str) -> bool` returns whether a platform that
    asks for confirmation of the address (`GET /v1/hooks/NAME?hub.mode=subscribe&hub.verify_token=...`) shows the right
    token. `def can_press(self, address: str) -> bool`, with `caps.button_reactions`, returns whether the platform
    proves there which message a reaction is to; without this method, it does so everywhere.
    """

    name: str
    caps: Caps

    async def run(self, inbox: Inbox) -> None:
        """Receive events until cancelled.

        Raises Offline if the connection is lost, Denied if the account is refused. Do not reconnect inside: the gateway
        calls `run` again. Each call first puts all events that were missed.
        """

    async def send(self, op: Op) -> Receipt:
        """Make exactly one attempt to send. Return the receipt.

        Raises NotSent, Rejected or Unknown; any other error counts as Unknown. The gateway may call this while `run` is
        not running. Edits, deletions and reactions are idempotent: if the message already is in the requested state,
        return a receipt.
        """

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Look up whether this part was sent after `since` (seconds since the Unix epoch).

        Return its receipt, or None. Only reconcilable channels need this method.
        """
