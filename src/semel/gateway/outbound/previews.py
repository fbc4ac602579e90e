"""Live previews in chats: show a text while it is written, by editing its placeholder message.

A preview shows only recorded text and is not a part itself: it is not retried, and its outcome is not recorded. At most
one edit per destination is under way, and never together with a part; the final text waits for it, so that no preview
overtakes it (docs/outbox.md).

If the platform definitely refuses an edit, the message gets no more previews (Law 7): somebody has deleted it, and the
final text is sent as a new message.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from semel.gateway.clock import Clock
from semel.gateway.outbound.attempt import send
from semel.gateway.ports import Caps, Channel, Op
from semel.ledger.delivery import placeholders
from semel.ledger.storage.errors import LedgerError
from semel.text.split import measure, render_parts

T = TypeVar("T")
EVERY = 1.5
"""Minimum seconds between two edits of one message; a slower `caps.pace` of the channel counts instead."""
PATIENCE = 10.0
"""Timeout of one edit in seconds. The final text waits for a running edit."""
SLOWEST = 30.0
"""Longest interval in seconds between edits while the platform does not answer."""
MORE_MARKER = f" {placeholders.TEXT}"
"""Appended to a text that is not complete yet."""

Text = Callable[[], str]

_log = logging.getLogger("semel.outbox")


class Reader(Protocol):
    async def read(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T: ...


class Line(Protocol):
    """The state of a destination's queue (implemented by `Outbox`)."""

    def busy(self, dest: str) -> bool:
        """Whether an attempt is under way for this destination."""

    def rests(self, dest: str) -> int:
        """The earliest time (ms) at which something may leave for this destination."""

    def rest(self, dest: str, until: int) -> None:
        """Send nothing to this destination before `until` (ms)."""


@dataclass
class _Preview:
    """One placeholder message. `text()` is the recorded text so far; `every`: seconds between edits; `due`: ms."""

    part: int
    dest: str
    text: Text
    every: float
    due: int = 0
    shown: str = ""
    editing: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Previews:
    """Edits placeholder messages: call `show` after each recorded batch, and `end` with the turn."""

    def __init__(
        self, ledger: Reader, channels: Mapping[str, Channel], clock: Clock, line: Line, halt: asyncio.Event
    ) -> None:
        self._ledger = ledger
        self._channels = channels
        self._clock = clock
        self._line = line
        self._halt = halt
        self._followed: dict[int, tuple[_Preview, asyncio.Task[None]]] = {}  # by part
        self._refused: set[int] = set()  # parts whose edit was refused: no more previews until they end
        self._edits: dict[str, asyncio.Event] = {}  # destination -> set when its running edit is over

    def __repr__(self) -> str:
        return f"<Previews of {len(self._followed)} messages, {len(self._edits)} edits under way>"

    def show(self, dest: str, part: int, text: Text) -> None:
        """Show the text in the placeholder message of this part."""
        if part in self._refused:
            return
        known = self._followed.get(part)
        if known is None:
            caps = self._channels[dest.partition(":")[0]].caps
            one = _Preview(part, dest, text, max(EVERY, caps.pace))
            known = one, asyncio.create_task(self._follow(one), name=f"preview in part {part}")
            self._followed[part] = known
        known[0].text = text
        known[0].news.set()

    def arrived(self, part: int) -> None:
        """Note that a part was sent: a placeholder message can be edited from now on."""
        if part in self._followed:
            self._followed[part][0].news.set()

    def end(self, part: int) -> None:
        """Stop the previews in this part."""
        self._refused.discard(part)
        if (known := self._followed.pop(part, None)) is not None and not known[0].editing:
            known[1].cancel()  # otherwise the task ends after its edit

    async def settled(self, dest: str) -> None:
        """Wait until no edit is under way for this destination; an edit takes at most its timeout."""
        if (over := self._edits.get(dest)) is not None:
            await over.wait()

    async def stop(self) -> None:
        """Stop all previews."""
        tasks = [task for _, task in self._followed.values()]
        self._followed.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ one message

    async def _follow(self, one: _Preview) -> None:
        try:
            while one.part in self._followed:
                await one.news.wait()
                one.news.clear()
                await self._clock.sleep_until(max(one.due, self._line.rests(one.dest)))
                if not await self._alone(one, self._edit):
                    break
        except Exception:
            _log.exception("part %d is previewed no more", one.part)
        finally:
            self._followed.pop(one.part, None)

    async def _alone(self, one: _Preview, deed: Callable[[_Preview], Awaitable[bool]]) -> bool:
        """Run `deed`, or try later if another edit for this destination is under way. Returns whether to go on."""
        if one.dest in self._edits:
            self._again(one, EVERY)
            return True
        over = self._edits[one.dest] = asyncio.Event()
        one.editing = True
        try:
            return await deed(one)
        finally:
            one.editing = False
            del self._edits[one.dest]
            over.set()

    async def _edit(self, one: _Preview) -> bool:
        channel = self._channels[one.dest.partition(":")[0]]
        text = fitted(one.text(), channel.caps)
        if text == one.shown:
            return True
        try:
            found = await self._ledger.read(placeholders.message, one.part)
        except LedgerError:
            self._again(one, one.every)
            return True
        if found is None:
            return False
        if found.receipt is None:  # `arrived` tells when it is
            return True
        if self._line.busy(one.dest):
            self._again(one, EVERY)
            return True
        self._line.rest(one.dest, self._after(channel.caps.pace))
        op = Op(
            secrets.token_hex(12), "edit", one.dest.partition(":")[2], text, target=found.receipt,
            session=found.session_key, at=self._clock.now() / 1000,
        )  # fmt: skip
        return await self._sent(one, channel, op)

    async def _sent(self, one: _Preview, channel: Channel, op: Op) -> bool:
        outcome = await send(channel, op, self._clock, self._halt, min(PATIENCE, channel.caps.timeout))
        one.due = self._after(one.every)
        match outcome.what:
            case "receipt":
                one.shown, one.every = op.text, max(EVERY, channel.caps.pace)
            case "refused":
                _log.info("part %d is previewed no more: %s", one.part, outcome.why)
                if one.part in self._followed:  # else it has ended meanwhile
                    self._refused.add(one.part)
                return False
            case "not sent":
                self._again(one, max(one.every, (outcome.retry_after or 0) / 1000))
                self._line.rest(one.dest, self._after((outcome.retry_after or 0) / 1000))
            case _:
                one.every = min(one.every * 2, SLOWEST)
                self._again(one, one.every)
        return True

    def _again(self, one: _Preview, seconds: float) -> None:
        one.due = self._after(seconds)
        one.news.set()

    def _after(self, seconds: float) -> int:
        return self._clock.now() + round(seconds * 1000)


def fitted(text: str, caps: Caps) -> str:
    """The beginning of a text that fits into one message, with a marker that more is to come."""
    text = text.rstrip()
    if caps.max_len is not None:
        room = max(1, caps.max_len - measure(MORE_MARKER, caps.unit))
        parts = render_parts(text[:room], room, caps.unit)
        text = parts[0][2].rstrip() if parts else ""
    return text + MORE_MARKER
