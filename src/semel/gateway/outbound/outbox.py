"""The outbox: send recorded parts to their platforms (Law 7).

One loop asks the ledger which parts are due. `kick` or a timer for the next due time wakes the loop; it never polls.
Each attempt is a task of its own with its channel's timeout, so a hanging channel delays only its own destinations.
`semel.law.delivery` decides what follows from an outcome; `semel.ledger.delivery.send_queue` records it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from semel.gateway.activity import log_activity
from semel.gateway.clock import Clock, SystemClock
from semel.gateway.files import StoredFiles, StoreFailed
from semel.gateway.outbound.attempt import check_answers, look_up, make_op, send
from semel.gateway.outbound.held_chats import HeldChats
from semel.gateway.outbound.previews import DestinationPace, Previews
from semel.gateway.ports import Caps, Channel, Op
from semel.gateway.record import LedgerAccess
from semel.gateway.tracing import Attributes, RecordSpan, Span
from semel.law.delivery import Rules
from semel.ledger.delivery import held_notice, send_queue
from semel.ledger.delivery.parts import find_origin
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity, Departure, DueParts
from semel.ledger.storage.errors import LedgerClosed, LedgerError
from semel.ledger.storage.store import LedgerStore

T = TypeVar("T")
UnknownResult = Literal["silence", "cannot tell"]
MAX_CONCURRENT_PER_CHANNEL = 64
"""The maximum number of attempts and look-ups of one channel at the same time."""
LEDGER_RETRY_RANGE_S = (1.0, 30.0)
"""The first and the longest delay, in seconds, between attempts to write to an unwritable ledger (a full disk)."""

LAST_WRITES_TIMEOUT_S = 5.0
"""How long `stop` waits, after its grace, for the last outcomes to be written."""

UNRECORDED = "its outcome could not be recorded"
_SEND_RESULTS = frozenset({"receipt", "not sent", "refused", "silence"})  # the others are of look-ups

_log = logging.getLogger("semel.outbox")


def make_rules(caps: Caps, resend_unknown: bool = False, reserves: bool = False) -> Rules:
    """Return the delivery rules of a channel for `semel.law.delivery`, computed from its capabilities. Times are in ms.

    `reserves`: posts are sent in two steps if the channel needs that and can (`Caps.can_reserve`).
    """
    return Rules(
        safety=caps.safety.value,
        key_life=round(caps.key_life * 1000),
        absence_proven_after=round(caps.settle * 1000),
        can_look_up=caps.finds,
        resend_unknown=resend_unknown,
        reserves=reserves and caps.can_reserve,
    )


class Outbox:
    """The sender of parts. Run `run` as a task, and call `kick` after each commit that added or settled a part."""

    def __init__(
        self,
        ledger: LedgerAccess | LedgerStore,
        channels: Mapping[str, Channel],
        clock: Clock | None = None,
        *,
        resend_unknown: Collection[str] = (),
        reserve: Collection[str] = (),
        files: StoredFiles | None = None,
        max_concurrent: int = MAX_CONCURRENT_PER_CHANNEL,
        jitter: Callable[[], float] = random.random,
        record_span: RecordSpan | None = None,
        is_online: Callable[[str], bool] = lambda channel: True,
        runs: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare the outbox without sending anything.

        `resend_unknown`, `reserve`: the channels with this setting. `files`: the stored files. `max_concurrent`: how
        many attempts and look-ups of one channel may run at the same time. `jitter`: returns random numbers in [0, 1),
        which vary the backoff. `record_span`: gets a span for each attempt. `is_online`: whether a channel, by its
        name, is connected to its platform. `runs`: returns whether the channels run in this gateway.
        """
        self.outcomes: Counter[tuple[str, str]] = Counter()  # outcomes by (channel, outcome) since the start
        self.rejected: Counter[str] = Counter()  # rejected parts by channel since the start
        self._ledger = ledger
        self._channels = dict(channels)
        self._rules = {n: make_rules(c.caps, n in resend_unknown, n in reserve) for n, c in channels.items()}
        self._clock = clock or SystemClock()
        self._files = files
        self._max_concurrent = max_concurrent
        self._jitter = jitter
        self._record_span = record_span
        self._under_way: dict[asyncio.Task[None], Departure] = {}
        self._kicked = asyncio.Event()
        self._idle = asyncio.Event()
        self._stop_waiting = asyncio.Event()
        self._stopping = False
        self._run_ended = asyncio.Event()
        self._run_ended.set()
        self._pace = DestinationPace(self._clock)
        self._held_chats = HeldChats(is_online)
        self.previews = Previews(ledger, self._channels, self._clock, self._pace, self._stop_waiting, runs)

    def __repr__(self) -> str:
        busy = self._count_under_way()
        counts = ", ".join(f"{name}: {busy[name]} under way" for name in self._channels)
        return f"<Outbox {'stopping' if self._stopping else 'open'}, {counts or 'no channels'}>"

    @property
    def under_way(self) -> int:
        """The number of attempts and look-ups that have not ended."""
        return len(self._under_way)

    def metrics(self) -> dict[str, float]:
        """Return the metrics for Prometheus, by name."""
        rejected = {
            f'semel_parts_rejected_total{{channel="{name}"}}': float(self.rejected[name]) for name in self._channels
        }
        return rejected | {
            f'semel_attempts_total{{channel="{channel}",outcome="{outcome}"}}': float(count)
            for (channel, outcome), count in self.outcomes.items()
        }

    def kick(self) -> None:
        """Wake the sending loop, because a part may be due. This is quick; call it on the event loop."""
        self._idle.clear()
        self._kicked.set()

    async def wait_until_idle(self) -> None:
        """Wait until no attempt or look-up is under way and no part is due."""
        await self._idle.wait()

    # ------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Recover the parts that an earlier gateway was sending when it ended. Then send until `stop` is called."""
        self._run_ended.clear()
        try:
            await self._run()
        finally:
            self._run_ended.set()

    async def _run(self) -> None:
        refusals = {name: channel.caps.account_refusals for name, channel in self._channels.items()}
        for missing in await self._write_with_retries(send_queue.recover, self._rules, refusals) or ():
            _log.warning("%s: configure it again, or see 'semel outbox list'", missing.describe())
        chats = await self._write_with_retries(held_notice.list_chats_to_notify) or ()
        own_chats = [dest for dest in chats if dest.partition(":")[0] in self._channels]
        self._held_chats.add(own_chats, self._clock.now())
        while not self._stopping:
            self._kicked.clear()
            for dest, has_arrival in self._held_chats.take_due(self._clock.now()).items():
                if await self._write_with_retries(held_notice.notify_chat, dest, has_arrival) is False:
                    self._held_chats.wait_for_arrival(dest)
            try:
                # Without a channel nothing can be sent, so the transaction is skipped.
                capacities, pauses = self._list_capacities(), self._pace.pauses()
                departures = (
                    await self._write_with_retries(send_queue.depart, capacities, pauses) if capacities else DueParts()
                )
            except Exception:  # a bug in Semel: one unreadable row must not end all sending
                _log.exception("the outbox cannot tell what to send; it tries again in %g s", LEDGER_RETRY_RANGE_S[1])
                departures = DueParts(due=self._clock.now() + round(LEDGER_RETRY_RANGE_S[1] * 1000))
            if departures is None:
                return
            self._start_departures(departures)
            self._held_chats.add(departures.held_at, self._clock.now())
            times = (departures.due, self._held_chats.next_due)
            await self._wait_for_work(min((due for due in times if due is not None), default=None))

    async def send_due(self, seconds: float) -> None:
        """Wait until nothing is under way and nothing is due, for at most this long."""
        self.kick()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait_until_idle(), seconds)

    async def stop(self, grace: float) -> None:
        """Stop sending. Wait up to `grace` seconds for running attempts, then record the remaining ones as unknown."""
        self._stopping = True
        await self.previews.stop()
        self.kick()
        # First wait for answers; then stop waiting and allow the last writes.
        for timeout in (grace, LAST_WRITES_TIMEOUT_S):
            try:
                async with asyncio.timeout(timeout):
                    await self._run_ended.wait()
                    while self._under_way:
                        await asyncio.wait(self._under_way)
            except TimeoutError:
                pass
            self._stop_waiting.set()

    def _count_under_way(self) -> Counter[str]:
        """Return the number of running attempts and look-ups, by channel."""
        return Counter(departure.channel for departure in self._under_way.values())

    def _list_capacities(self) -> dict[str, ChannelCapacity]:
        busy = self._count_under_way()
        return {name: ChannelCapacity(rules, self._max_concurrent - busy[name]) for name, rules in self._rules.items()}

    def _start_departures(self, departures: DueParts) -> None:
        for departure in departures.sends:
            channel = self._channels[departure.channel]
            if channel.caps.pace and not departure.reserves:  # the text fills its place at once
                self._pace.pause(departure.dest, self._clock.now() + round(channel.caps.pace * 1000))
            self._start(departure, self._attempt(channel, departure))
        for departure in departures.look_ups:
            self._start(departure, self._look_up(self._channels[departure.channel], departure))

    def _start(self, departure: Departure, work: Coroutine[Any, Any, None]) -> None:
        context = contextvars.copy_context()
        context.run(structlog.contextvars.bind_contextvars, part=departure.part, session=departure.session)
        task = asyncio.create_task(work, name=f"outbox part {departure.part}", context=context)
        self._under_way[task] = departure
        self._pace.begin(departure.dest)
        task.add_done_callback(self._note_ended)

    def _note_ended(self, task: asyncio.Task[None]) -> None:
        self._pace.end(self._under_way.pop(task).dest)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)
        self.kick()

    async def _wait_for_work(self, due: int | None) -> None:
        """Wait for a kick, or until `due` (ms), when the next part is due; None means that no part waits for a time."""
        if self._kicked.is_set() or (due is not None and due <= self._clock.now()):
            await asyncio.sleep(0)  # let the started attempts run
            return
        if not self._under_way:
            self._idle.set()
        waiters: list[asyncio.Task[Any]] = [asyncio.create_task(self._kicked.wait())]
        if due is not None:
            waiters.append(asyncio.create_task(self._clock.sleep_until(due)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._idle.clear()
            for waiter in waiters:
                waiter.cancel()

    # ------------------------------------------------------------ one part

    async def _attempt(self, channel: Channel, departure: Departure) -> None:
        await self.previews.wait_until_settled(departure.dest)
        if self._stopping:  # provably not sent
            await self._record(departure, AttemptOutcome("not sent", reason="the gateway stopped"))
            return
        async with contextlib.AsyncExitStack() as until_sent:
            try:
                op = await self._make_op(departure, until_sent)
            except (StoreFailed, LedgerError) as error:  # provably not sent
                await self._record(departure, AttemptOutcome("not sent", reason=str(error)))
            except Exception as error:  # a bug in Semel that a retry would not fix
                _log.exception("part %d cannot be sent", departure.part)
                await self._record(
                    departure, AttemptOutcome("refused", reason=f"it cannot be sent as it is recorded: {error!r}")
                )
            else:
                started = time.time_ns()
                outcome = await self._send(channel, departure, op)
                await self._record(departure, outcome)
                if self._record_span is not None:
                    await self._trace(self._record_span, departure, outcome, started)

    async def _send(self, channel: Channel, departure: Departure, op: Op) -> AttemptOutcome:
        """Make the attempt. A place that may be reserved already is reserved again only while the platform answers.

        Otherwise each attempt of an outage could leave one more placeholder in the chat.
        """
        if departure.reserves and departure.attempts:
            problem = await check_answers(channel, op.address, self._clock, self._stop_waiting)
            if problem:
                return AttemptOutcome("not sent", reason=problem)
        return await send(channel, op, self._clock, self._stop_waiting)

    async def _make_op(self, departure: Departure, until_sent: contextlib.AsyncExitStack) -> Op:
        """Return the `Op` for a departure. Its file stays where it is until `until_sent` is closed.

        Raises StoreFailed, LedgerError.
        """
        file = departure.op.get("file")
        if not file or self._files is None:
            return make_op(departure, Path(file) if file else None)
        lent = self._files.lend(file)
        path = await asyncio.to_thread(lent.__enter__)
        until_sent.push(lent)
        return make_op(departure, path)

    async def _trace(self, record: RecordSpan, departure: Departure, outcome: AttemptOutcome, started: int) -> None:
        """Record the span of one attempt, from the call of the channel until the outcome is recorded."""
        ended = time.time_ns()
        with contextlib.suppress(LedgerError):
            if (origin := await self._ledger.read(find_origin, departure.part)) is not None:
                receipt = {} if outcome.receipt is None else {"semel.receipt": outcome.receipt}
                attributes: Attributes = {
                    "semel.session": departure.session, "semel.turn": origin.turn, "semel.part": departure.part,
                    "semel.claim": departure.claim, "semel.channel": departure.channel,
                    "semel.outcome": outcome.result, **receipt,
                }  # fmt: skip
                failed = outcome.result != "receipt"
                record(Span("part", origin.event, started, ended, "", f"t{origin.turn}", attributes, failed))

    async def _look_up(self, channel: Channel, departure: Departure) -> None:
        async with contextlib.AsyncExitStack() as until_found:
            try:
                op = await self._make_op(departure, until_found)
            except (StoreFailed, LedgerError) as error:
                await self._record(departure, AttemptOutcome("cannot tell", reason=str(error)))
            except Exception as error:  # a bug in Semel: only a person can settle it
                _log.exception("part %d cannot be looked for", departure.part)
                await self._record(
                    departure, AttemptOutcome("hold", reason=f"it cannot be looked for as it is recorded: {error!r}")
                )
            else:
                outcome = await look_up(channel, op, departure.first, self._clock, self._stop_waiting)
                await self._record(departure, outcome)

    async def _record(self, departure: Departure, outcome: AttemptOutcome) -> None:
        """Record the outcome of an attempt. If that fails because of a bug, record the outcome as unknown.

        A part that stayed "sending" would block its destination.
        """
        self.outcomes[departure.channel, outcome.result] += 1
        log_activity("attempt ended", channel=departure.channel, outcome=outcome.result, why=outcome.reason or None)
        if outcome.result in ("receipt", "found") and outcome.receipt is None:
            _log.warning(
                "%r accepted part %d but gave no message id that can be stored", departure.channel, departure.part
            )
        try:
            await self._write_outcome(departure, outcome)
        except Exception:  # a bug in Semel: treat it as unknown, so that the safety class decides
            _log.exception("the outcome of part %d cannot be recorded: %s", departure.part, outcome.result)
            result: UnknownResult = "silence" if outcome.result in _SEND_RESULTS else "cannot tell"
            await self._write_outcome(departure, AttemptOutcome(result, reason=f"{UNRECORDED}: {outcome.result}"))

    async def _write_outcome(self, departure: Departure, outcome: AttemptOutcome) -> None:
        """Write the outcome. Retry while the ledger cannot be written, because only this process knows the outcome."""
        rules, channels = self._rules[departure.channel], tuple(self._rules)
        state = await self._write_with_retries(
            send_queue.record_outcome, departure.part, outcome, rules, jitter=self._jitter(), channels=channels
        )
        self.rejected[departure.channel] += state == "rejected"
        if state in ("held", "rejected"):
            _log.warning("part %s", state, extra={"channel": departure.channel, "why": outcome.reason})
            self._held_chats.add([departure.dest], self._clock.now())
        if state == "sent":
            self._held_chats.note_arrival(departure.dest, self._clock.now())
            self.previews.note_sent(departure.part)

    async def _write_with_retries(self, body: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """Run a transaction, with retries while the ledger cannot be written. Return its result.

        Return None if the gateway stops before the transaction succeeds.
        """
        wait, longest = LEDGER_RETRY_RANGE_S
        while True:
            try:
                return await self._ledger.write(body, *args, **kwargs)
            except LedgerClosed:
                return None
            except LedgerError as error:
                _log.error("the outbox waits for the ledger: %s", error)
            if self._stop_waiting.is_set():
                return None
            waiters = [asyncio.ensure_future(self._clock.sleep(wait)), asyncio.ensure_future(self._stop_waiting.wait())]
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            for waiter in waiters:
                waiter.cancel()
            wait = min(wait * 2, longest)
