"""Messages on their way to the gateway, with the rules of the page (web/src/outgoing.ts).

Each message gets an id here, which every attempt to send it repeats, and is kept in a file until the gateway has
acknowledged it. So a lost answer sends nothing twice, and a gateway or terminal that ends loses nothing (Laws 1 and 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Literal

from msgspec import Struct, field

from semel.faces.api_types import Accepted
from semel.faces.client import NoGateway, RequestRefused
from semel.faces.terminal.attachments import Attachment, CannotAttach
from semel.law.wake import Busy
from semel.text.content_blocks import describe_blocks
from semel.text.json_types import Json

RETRY_DELAYS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between attempts while there is no connection; a new connection ends the wait."""

State = Literal["sending", "waiting", "accepted", "refused"]
STATE_TEXTS: dict[State, str] = {
    "sending": "sending",
    "waiting": "no connection: it is sent as soon as there is one",
    "accepted": "",
    "refused": "not sent",
}


class OutgoingMessage(Struct, kw_only=True):
    """A message of the person at this terminal.

    `blocks`: the message as ACP content blocks, if it is sent as such. `files`: what goes with its text.
    `seen`: the rev of the view when it was written; the message's entry can only be newer. `event`: the id of its
    event, once the gateway has accepted it. `adopted`: the id of the event whose entry has the same text, and stands
    for the message until the gateway's answer names its event. `at`: when it was written, in ns since 1970.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    at: int = field(default_factory=time.time_ns)
    text: str
    blocks: list[Json] | None = None
    files: list[Attachment] = []
    sender: str | None
    busy: Busy | None = None
    seen: int | None = None
    state: State = "sending"
    event: int | None = None
    adopted: int | None = None
    reason: str = ""

    @property
    def state_text(self) -> str:
        """Where the message is, in the words of the page."""
        return ": ".join(filter(None, (STATE_TEXTS[self.state], self.reason)))

    @property
    def entry_text(self) -> str:
        """The text of its entry."""
        return self.text if self.blocks is None else describe_blocks(self.blocks)[0]

    def write_body(self) -> Json:
        """Return the body of its request, the same for every attempt. Its files are uploaded before."""
        optional = {"sender": self.sender, "busy": self.busy, "seen": self.seen}
        content: Json = {"text": self.text} if self.blocks is None else {"blocks": self.blocks}
        content |= {"files": [{"id": file.id, "name": file.wire_name} for file in self.files]} if self.files else {}
        return {"id": self.id, **content, **{name: value for name, value in optional.items() if value}}


class OutgoingQueue:
    """The messages of one session. Sends them in order, one at a time; shows each until its entry is in the view.

    `post` sends a message and may raise NoGateway, RequestRefused or CannotAttach. `keep` and `drop` write and delete
    its file. `on_change` is called after every change, `on_answer` with the gateway's answer, None if it refuses the
    message.
    """

    def __init__(
        self,
        post: Callable[[OutgoingMessage], Awaitable[Accepted]],
        *,
        keep: Callable[[OutgoingMessage], None],
        drop: Callable[[OutgoingMessage], None],
        on_change: Callable[[], None],
        on_answer: Callable[[OutgoingMessage, Accepted | None], None],
    ):
        self.messages: list[OutgoingMessage] = []
        self._post = post
        self._keep = keep
        self._drop = drop
        self._on_change = on_change
        self._on_answer = on_answer
        self._kicked = asyncio.Event()
        self._failures = 0

    def __repr__(self) -> str:
        return f"<OutgoingQueue {[message.state for message in self.messages]}>"

    @property
    def shown(self) -> list[OutgoingMessage]:
        """The messages that no entry of the view stands for."""
        return [message for message in self.messages if message.adopted is None]

    @property
    def unsent(self) -> list[OutgoingMessage]:
        """The messages that are not known to have arrived."""
        return [message for message in self.messages if message.state != "accepted"]

    def add(self, *messages: OutgoingMessage) -> None:
        """Keep messages and have them sent after those that wait already."""
        for message in messages:
            self._keep(message)
            self.messages.append(message)
        self._on_change()
        self.kick()

    def remove(self, message: OutgoingMessage) -> None:
        """Forget a message: its entry is in the view, or the person takes it back."""
        self._drop(message)
        if message in self.messages:
            self.messages.remove(message)
        self._on_change()

    def kick(self) -> None:
        """Send what waits now: a message was added, or the gateway answers again."""
        self._kicked.set()

    async def run(self) -> None:
        """Send messages until cancelled."""
        while True:
            message = next((one for one in self.messages if one.state in ("sending", "waiting")), None)
            if message is None:
                await self._wait_for_kick(None)
            elif not await self._send(message):
                await self._wait_for_kick(RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S)) - 1])

    async def _wait_for_kick(self, limit_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._kicked.wait(), limit_s)
        self._kicked.clear()

    async def _send(self, message: OutgoingMessage) -> bool:
        """Try to send a message once. Returns False if it has to be tried again later."""
        try:
            accepted = await self._post(message)
        except NoGateway:
            return self._let_wait(message)
        except CannotAttach as error:
            self._refuse(message, str(error))
        except RequestRefused as error:
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.TOO_MANY_REQUESTS:
                return self._let_wait(message)
            self._refuse(message, str(error))
        else:
            message.state, message.event, message.adopted = "accepted", accepted.event, None
            self._drop(message)
            self._on_answer(message, accepted)
        self._failures = 0
        self._on_change()
        return True

    def _refuse(self, message: OutgoingMessage, reason: str) -> None:
        message.state, message.reason, message.adopted = "refused", reason, None
        self._on_answer(message, None)

    def _let_wait(self, message: OutgoingMessage) -> bool:
        message.state = "waiting"
        self._failures += 1
        self._on_change()
        return False

    def match(self, entries: Iterable[Json]) -> None:
        """Stop showing the messages that have become entries. Called before the entries are drawn."""
        for entry in entries:
            if entry.get("role") == "user" and entry.get("event") is not None:
                self._match_entry(entry)

    def _match_entry(self, entry: Json) -> None:
        if any(message.adopted == entry["event"] for message in self.messages):
            return
        named = [message for message in self.messages if message.event == entry["event"]]
        if named:
            self.messages.remove(named[0])
            return
        # The stream may be faster than the answer. Until that names the event, an entry with this text counts as it.
        for message in self.messages:
            is_open = message.event is None and message.adopted is None and message.state != "refused"
            if is_open and message.entry_text == entry["text"] and int(entry["born"]) > (message.seen or 0):
                message.adopted = int(entry["event"])
                return
