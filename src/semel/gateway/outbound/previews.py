"""Live previews in chats: show a text while the agent writes it, by editing its placeholder message.

The placeholder is a message that is sent when the text begins. Each preview edits it, and so does the final text. A
preview shows only recorded text. It is not a part: it is not retried, and its outcome is not recorded. At most one edit
per destination runs at a time, and never together with a part. The final text waits for a running edit, so that no
preview overwrites it (docs/outbox.md).

The record may also take text back: an agent delivers a text again, and its beginning turns out to be a copy. Then no
edit leaves between this commit and the next `show`, and each edit takes its text at the moment when it leaves (Law 6).

If the platform definitely refuses an edit, somebody has deleted the message. It gets no more previews, and the final
text is sent as a new message (Law 7).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from semel.gateway.clock import Clock
from semel.gateway.outbound.attempt import send
from semel.gateway.ports import Caps, Channel, NotSent, Op
from semel.gateway.record import LedgerAccess
from semel.ledger.delivery import placeholders
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.store import LedgerStore
from semel.text.split import measure, render_parts

MIN_EDIT_INTERVAL_S = 1.5
"""The minimum time between two edits of one message, in seconds, unless `caps.pace` of the channel is longer."""
EDIT_TIMEOUT_S = 10.0
"""The timeout of one edit, in seconds. It is short because the final text waits for a running edit."""
MAX_EDIT_INTERVAL_S = 30.0
"""The longest interval between edits, in seconds, while the platform does not answer."""
MORE_MARKER = f" {placeholders.TEXT}"
"""Appended to a text that is not complete yet."""

Text = Callable[[], str]

_log = logging.getLogger("semel.outbox")


class DestinationPace:
    """The running attempts of each destination, and the time (ms) before which nothing more may be sent there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paused_until: dict[str, int] = {}
        self._under_way: Counter[str] = Counter()

    def is_busy(self, dest: str) -> bool:
        """Return whether an attempt to this destination is running."""
        return self._under_way[dest] > 0

    def begin(self, dest: str) -> None:
        self._under_way[dest] += 1

    def end(self, dest: str) -> None:
        self._under_way[dest] -= 1
        self._under_way += Counter()  # drops the destinations whose count is 0

    def paused_until(self, dest: str) -> int:
        """Return the earliest time (ms) at which something may be sent to this destination; 0 if there is no pause."""
        return self._paused_until.get(dest, 0)

    def pause(self, dest: str, until: int) -> None:
        """Send nothing to this destination before `until` (ms), because of the channel's pace or a `Retry-After`."""
        self._paused_until[dest] = max(until, self.paused_until(dest))

    def pauses(self) -> dict[str, int]:
        """Return {destination: end of its pause (ms)} for the destinations that are paused now."""
        now = self._clock.now()
        self._paused_until = {dest: until for dest, until in self._paused_until.items() if until > now}
        return self._paused_until


@dataclass
class _Preview:
    """The preview in one placeholder message.

    `part`: the message's part. `text`: a function that returns the recorded text so far; None while the record may be
    taking text back, and after the end. `interval_s`: the seconds between edits. `due`: the time of the next edit (ms).
    `sent`: the text of the last edit that left. `shown`: what the message says; None if that is not known, because an
    edit was not answered.
    """

    part: int
    dest: str
    text: Text | None
    interval_s: float
    due: int = 0
    sent: str = ""
    shown: str | None = ""
    editing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Previews:
    """The previews in placeholder messages.

    Call `show` after each recorded batch of text, and `end` at the turn's end.
    """

    def __init__(
        self,
        ledger: LedgerAccess | LedgerStore,
        channels: Mapping[str, Channel],
        clock: Clock,
        pace: DestinationPace,
        stop_waiting: asyncio.Event,
        runs: Callable[[], bool],
    ) -> None:
        """Connect the channels. `runs`: returns whether they run in this gateway."""
        self._ledger = ledger
        self._channels = channels
        self._clock = clock
        self._pace = pace
        self._stop_waiting = stop_waiting
        self._followed: dict[int, tuple[_Preview, asyncio.Task[None]]] = {}  # by part
        self.runs = runs
        self._refused: set[int] = set()  # parts whose edit was refused: no more previews until they end
        self._edits: dict[str, asyncio.Event] = {}  # destination -> set when its running edit is over

    def __repr__(self) -> str:
        return f"<Previews of {len(self._followed)} messages, {len(self._edits)} edits under way>"

    def show(self, dest: str, part: int, text: Text) -> None:
        """Preview a text in the placeholder message of this part.

        `text`: a function that returns the recorded text so far.
        """
        if part in self._refused:
            return
        shown_preview = self._followed.get(part)
        if shown_preview is None:
            caps = self._channels[dest.partition(":")[0]].caps
            preview = _Preview(part, dest, text, max(MIN_EDIT_INTERVAL_S, caps.pace))
            shown_preview = preview, asyncio.create_task(self._follow(preview), name=f"preview in part {part}")
            self._followed[part] = shown_preview
        shown_preview[0].text = text
        shown_preview[0].changed.set()

    def withhold(self, part: int) -> None:
        """Let no edit of this part leave until the next `show`, because the record may take back text."""
        if part in self._followed:
            self._followed[part][0].text = None

    def note_sent(self, part: int) -> None:
        """Tell the preview in this part, if there is one, that the message was sent, so that it can be edited now."""
        if part in self._followed:
            self._followed[part][0].changed.set()

    def end(self, part: int) -> None:
        """Stop the previews in this part."""
        self._refused.discard(part)
        if (shown_preview := self._followed.pop(part, None)) is not None:
            shown_preview[0].text = None
            if not shown_preview[0].editing:
                shown_preview[1].cancel()  # otherwise the task ends after its edit

    async def wait_until_settled(self, dest: str) -> None:
        """Wait until no preview edits a message at this destination. This takes at most the timeout of an edit."""
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

    async def _follow(self, preview: _Preview) -> None:
        try:
            while preview.part in self._followed:
                await preview.changed.wait()
                preview.changed.clear()
                await self._clock.sleep_until(max(preview.due, self._pace.paused_until(preview.dest)))
                if not await self._edit_alone(preview, self._edit):
                    break
        except Exception:
            _log.exception("part %d is previewed no more", preview.part)
        finally:
            self._followed.pop(preview.part, None)

    async def _edit_alone(self, preview: _Preview, edit: Callable[[_Preview], Awaitable[bool]]) -> bool:
        """Run `edit`, or schedule a retry if another edit runs at this destination.

        Return whether the message may get more previews.
        """
        if preview.dest in self._edits:
            self._retry_in(preview, MIN_EDIT_INTERVAL_S)
            return True
        edited = self._edits[preview.dest] = asyncio.Event()
        preview.editing = True
        try:
            return await edit(preview)
        finally:
            preview.editing = False
            del self._edits[preview.dest]
            edited.set()

    async def _edit(self, preview: _Preview) -> bool:
        channel = self._channels[preview.dest.partition(":")[0]]
        if preview.text is None or fit_preview(preview.text(), channel.caps) == preview.shown:
            return True
        try:
            message = await self._ledger.read(placeholders.find_message, preview.part)
        except LedgerError:
            self._retry_in(preview, preview.interval_s)
            return True
        if message is None:
            return False
        if message.receipt is None:  # the placeholder is not sent yet; `arrived` wakes this task when it is
            return True
        if self._pace.is_busy(preview.dest):
            self._retry_in(preview, MIN_EDIT_INTERVAL_S)
            return True
        self._pace.pause(preview.dest, self._time_in(channel.caps.pace))
        op = Op(
            secrets.token_hex(12), "edit", preview.dest.partition(":")[2], "", target=message.receipt,
            session=message.session_key, at=self._clock.now() / 1000,
        )  # fmt: skip
        return await self._send_edit(preview, channel, op)

    async def _send_edit(self, preview: _Preview, channel: Channel, op: Op) -> bool:
        outcome = await send(
            channel, op, self._clock, self._stop_waiting, min(EDIT_TIMEOUT_S, channel.caps.timeout),
            lambda: self._take_text(preview, channel.caps),
        )  # fmt: skip
        preview.due = self._time_in(preview.interval_s)
        match outcome.result:
            case "receipt":
                preview.shown, preview.interval_s = preview.sent, max(MIN_EDIT_INTERVAL_S, channel.caps.pace)
            case "refused":
                _log.info("part %d is previewed no more: %s", preview.part, outcome.reason)
                if preview.part in self._followed:  # else it has ended meanwhile
                    self._refused.add(preview.part)
                return False
            case "not sent":
                self._retry_in(preview, max(preview.interval_s, (outcome.retry_after or 0) / 1000))
                self._pace.pause(preview.dest, self._time_in((outcome.retry_after or 0) / 1000))
            case _:
                preview.shown = None
                preview.interval_s = min(preview.interval_s * 2, MAX_EDIT_INTERVAL_S)
                self._retry_in(preview, preview.interval_s)
        return True

    def _take_text(self, preview: _Preview, caps: Caps) -> str:
        """Return the text of an edit that leaves now. Raises NotSent if none may leave."""
        if preview.text is None:
            raise NotSent("the record may be taking text back, or the preview has ended")
        preview.sent = fit_preview(preview.text(), caps)
        return preview.sent

    def _retry_in(self, preview: _Preview, seconds: float) -> None:
        preview.due = self._time_in(seconds)
        preview.changed.set()

    def _time_in(self, seconds: float) -> int:
        return self._clock.now() + round(seconds * 1000)


def fit_preview(text: str, caps: Caps) -> str:
    """Return the longest beginning of a text that fits into one message together with the MORE_MARKER at its end."""
    text = text.rstrip()
    if caps.max_len is not None:
        room = max(1, caps.max_len - measure(MORE_MARKER, caps.unit))
        parts = render_parts(text[:room], room, caps.unit)
        text = parts[0][2].rstrip() if parts else ""
    return text + MORE_MARKER
