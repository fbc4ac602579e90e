"""The outbox: sends recorded parts to their platforms (Law 7).

One loop asks the ledger which parts may leave. It is woken by `kick` and by a timer for the next due time; it never
polls. Each attempt is a task of its own with its channel's timeout, so a hanging channel delays only its own
destinations. `semel.law.delivery` decides what an outcome means; `semel.ledger.delivery.outgoing` records it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from semel.gateway.clock import Clock, SystemClock
from semel.gateway.metric import format_labelled_metric
from semel.gateway.outbound.attempt import look, make_op, send
from semel.gateway.outbound.previews import Previews
from semel.gateway.ports import Caps, Channel
from semel.law.delivery import Rules
from semel.ledger.delivery import outgoing
from semel.ledger.delivery.outgoing import ChannelCapacity, Departure, Outcome, Round
from semel.ledger.storage.errors import LedgerClosed, LedgerError

T = TypeVar("T")
UnknownOutcome = Literal["silence", "cannot tell"]
MAX_ATTEMPTS_PER_CHANNEL = 64
"""Most attempts and look-ups of one channel under way at once."""
LEDGER_RETRY_RANGE_S = (1.0, 30.0)
"""Seconds between attempts to write to an unwritable ledger (a full disk): the first and the longest delay."""

LAST_WRITES_TIMEOUT_S = 5.0
"""Seconds that `stop` waits, after its grace, until the last outcomes are written."""

UNRECORDED = "its outcome could not be recorded"
_ATTEMPTED = frozenset({"receipt", "not sent", "refused", "silence"})

_log = logging.getLogger("semel.outbox")


class Ledger(Protocol):
    """The access to the ledger: a `Store`, or a `Record`, which also publishes changes to watchers."""

    async def write(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T: ...

    async def read(self, body: Callable[..., T], /, *args: Any, **kwargs: Any) -> T: ...


def rules_of(caps: Caps, resend_unknown: bool = False) -> Rules:
    """The capabilities of a channel in the form that `semel.law.delivery` uses. Times in ms."""
    return Rules(
        safety=caps.safety.value,
        key_life=round(caps.key_life * 1000),
        settle=round(caps.settle * 1000),
        finds=caps.finds,
        resend_unknown=resend_unknown,
    )


class Outbox:
    """The sending loop. `run` it as a task; `kick` it after each commit that added or settled a part."""

    def __init__(
        self,
        ledger: Ledger,
        channels: Mapping[str, Channel],
        clock: Clock | None = None,
        *,
        resend_unknown: Collection[str] = (),
        files: Path | None = None,
        room: int = MAX_ATTEMPTS_PER_CHANNEL,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`resend_unknown`: names of channels; `files`: the directory of stored files; `room`: attempts per channel;
        `dice`: random numbers in [0, 1) for the jitter of the backoff."""
        self.outcomes: Counter[tuple[str, str]] = Counter()  # outcomes by (channel, outcome) since the start
        self.rejected: Counter[str] = Counter()  # rejected parts by channel since the start
        self._ledger = ledger
        self._channels = dict(channels)
        self._rules = {n: rules_of(c.caps, n in resend_unknown) for n, c in channels.items()}
        self._clock = clock or SystemClock()
        self._files = files
        self._room = room
        self._dice = dice
        self._rest: dict[str, int] = {}  # destination -> earliest time (ms) of its next part
        self._under_way: dict[asyncio.Task[None], Departure] = {}
        self._woken = asyncio.Event()
        self._quiet = asyncio.Event()
        self._halt = asyncio.Event()
        self._stopping = False
        self._ended_running = asyncio.Event()
        self._ended_running.set()
        self.previews = Previews(ledger, self._channels, self._clock, self, self._halt)

    def __repr__(self) -> str:
        busy = self._busy()
        each = ", ".join(f"{name}: {busy[name]} under way" for name in self._channels)
        return f"<Outbox {'stopping' if self._stopping else 'open'}, {each or 'no channels'}>"

    @property
    def under_way(self) -> int:
        """The number of attempts and look-ups that have not ended."""
        return len(self._under_way)

    def metrics(self) -> dict[str, float]:
        """For Prometheus, by metric name."""
        rejected = "semel_parts_rejected_total"
        out = {format_labelled_metric(rejected, channel=name): float(self.rejected[name]) for name in self._channels}
        for (channel, what), count in self.outcomes.items():
            out[format_labelled_metric("semel_attempts_total", channel=channel, outcome=what)] = float(count)
        return out

    def kick(self) -> None:
        """Wake the loop: there may be something to send. Cheap; call it on the event loop."""
        self._quiet.clear()
        self._woken.set()

    async def quiet(self) -> None:
        """Wait until nothing is under way and nothing is due."""
        await self._quiet.wait()

    # ------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Settle the parts that the last gateway left under way, then send until `stop`."""
        self._ended_running.clear()
        try:
            await self._run()
        finally:
            self._ended_running.set()

    async def _run(self) -> None:
        orphans = await self._insist(outgoing.recover, self._rules)
        for channel, parts in (orphans or {}).items():
            _log.warning(
                "%d parts wait for channel %r, which is not configured: configure it again, or see 'semel outbox list'",
                parts,
                channel,
            )
        while not self._stopping:
            self._woken.clear()
            try:
                done = await self._depart()
            except Exception:  # a bug of ours: one unreadable row must not end all sending
                _log.exception("the outbox cannot tell what to send; it tries again in %g s", LEDGER_RETRY_RANGE_S[1])
                done = Round(due=self._clock.now() + round(LEDGER_RETRY_RANGE_S[1] * 1000))
            if done is None:
                return
            self._begin(done)
            await self._wait(done.due)

    async def _depart(self) -> Round | None:
        if not self._channels:  # nothing can be sent: save a transaction after each turn
            return Round()
        return await self._insist(outgoing.depart, self._asks(), self._resting())

    async def stop(self, grace: float) -> None:
        """Begin no more attempts; give those under way `grace` seconds, then record them as unknown."""
        self._stopping = True
        await self.previews.stop()
        self.kick()
        for patience in (grace, LAST_WRITES_TIMEOUT_S):
            try:
                async with asyncio.timeout(patience):
                    await self._ended_running.wait()
                    while self._under_way:
                        await asyncio.wait(self._under_way)
            except TimeoutError:
                pass
            self._halt.set()

    def _busy(self) -> Counter[str]:
        """Attempts and look-ups that are under way, by channel."""
        return Counter(each.channel for each in self._under_way.values())

    def busy(self, dest: str) -> bool:
        """Whether something is under way to this destination."""
        return any(each.dest == dest for each in self._under_way.values())

    def rests(self, dest: str) -> int:
        """The earliest time (ms) at which the next part may leave for a destination; 0 if at once."""
        return self._rest.get(dest, 0)

    def rest(self, dest: str, until: int) -> None:
        """Send nothing to a destination before `until` (ms), because of its pace or a `Retry-After`."""
        self._rest[dest] = max(until, self.rests(dest))

    def _asks(self) -> dict[str, ChannelCapacity]:
        busy = self._busy()
        return {name: ChannelCapacity(rules, self._room - busy[name]) for name, rules in self._rules.items()}

    def _resting(self) -> dict[str, int]:
        now = self._clock.now()
        self._rest = {dest: until for dest, until in self._rest.items() if until > now}
        return self._rest

    def _begin(self, done: Round) -> None:
        for departure in done.sends:
            channel = self._channels[departure.channel]
            if channel.caps.pace:
                self.rest(departure.dest, self._clock.now() + round(channel.caps.pace * 1000))
            self._start(departure, self._attempt(channel, departure))
        for departure in done.looks:
            self._start(departure, self._look(self._channels[departure.channel], departure))

    def _start(self, departure: Departure, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"outbox part {departure.part}")
        self._under_way[task] = departure
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)
        self.kick()

    async def _wait(self, due: int | None) -> None:
        """Wait for a kick, or until the next part is due (ms)."""
        if self._woken.is_set() or (due is not None and due <= self._clock.now()):
            await asyncio.sleep(0)
            return
        if not self._under_way:
            self._quiet.set()
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._woken.wait())]
        if due is not None:
            waits.append(asyncio.create_task(self._clock.sleep_until(due)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._quiet.clear()
            for wait in waits:
                wait.cancel()

    # ------------------------------------------------------------ one part

    async def _attempt(self, channel: Channel, departure: Departure) -> None:
        await self.previews.settled(departure.dest)
        if self._stopping:  # provably not sent
            await self._record(departure, Outcome("not sent", why="the gateway stopped"))
            return
        await self._record(departure, await self._send(channel, departure))

    async def _send(self, channel: Channel, departure: Departure) -> Outcome:
        try:
            op = make_op(departure, self._files)
        except Exception as fault:  # a bug of ours that a retry would not fix
            _log.exception("part %d cannot be sent", departure.part)
            return Outcome("refused", why=f"it cannot be sent as it is recorded: {fault!r}")
        return await send(channel, op, self._clock, self._halt)

    async def _look(self, channel: Channel, departure: Departure) -> None:
        await self._record(departure, await self._found(channel, departure))

    async def _found(self, channel: Channel, departure: Departure) -> Outcome:
        try:
            op = make_op(departure, self._files)
        except Exception as fault:  # a bug of ours: only a person can settle it
            _log.exception("part %d cannot be looked for", departure.part)
            return Outcome("hold", why=f"it cannot be looked for as it is recorded: {fault!r}")
        return await look(channel, op, departure.first, self._clock, self._halt)

    async def _record(self, departure: Departure, outcome: Outcome) -> None:
        """Record the outcome in any case: a part that stayed `sending` would block its destination."""
        self.outcomes[departure.channel, outcome.what] += 1
        if outcome.what in ("receipt", "found") and outcome.receipt is None:
            _log.warning("%r took part %d, and its id of it cannot be kept", departure.channel, departure.part)
        try:
            await self._write(departure, outcome)
        except Exception:  # a bug of ours: treat it as unknown, so that the safety class decides
            _log.exception("the outcome of part %d cannot be recorded: %s", departure.part, outcome.what)
            lost: UnknownOutcome = "silence" if outcome.what in _ATTEMPTED else "cannot tell"
            await self._write(departure, Outcome(lost, why=f"{UNRECORDED}: {outcome.what}"))

    async def _write(self, departure: Departure, outcome: Outcome) -> None:
        """Write the outcome, waiting while the ledger cannot be written: until then it is known only here."""
        rules, others = self._rules[departure.channel], tuple(self._rules)
        state = await self._insist(
            outgoing.receipt, departure.part, outcome, rules, jitter=self._dice(), channels=others
        )
        self.rejected[departure.channel] += state == "rejected"
        if state == "sent":
            self.previews.arrived(departure.part)

    async def _insist(self, body: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """Write with retries while the ledger cannot be written. None if the gateway stops before that."""
        wait, longest = LEDGER_RETRY_RANGE_S
        while True:
            try:
                return await self._ledger.write(body, *args, **kwargs)
            except LedgerClosed:
                return None
            except LedgerError as error:
                _log.error("the outbox waits for the ledger: %s", error)
            if self._halt.is_set():
                return None
            nap = [asyncio.ensure_future(self._clock.sleep(wait)), asyncio.ensure_future(self._halt.wait())]
            await asyncio.wait(nap, return_when=asyncio.FIRST_COMPLETED)
            for each in nap:
                each.cancel()
            wait = min(wait * 2, longest)
