"""What is held against `send` and `find`: one attempt is one attempt, and what was sent is found.

Whether an attempt says the truth about itself is checked in `outcomes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from semel.gateway.ports import Channel, Denied, NotSent, Offline, Op, Receipt, Safety
from semel.testing.conformance.front import Network, network
from semel.testing.conformance.process import NAME, PATIENCE, until
from semel.testing.conformance.proxy import Fault, Strike
from semel.testing.conformance.rig import Rig, demand
from semel.testing.inbox import KeptInbox

HIDDEN = 1.0
"""Seconds in which a library that repeats by itself, behind a call that is over, has shown it."""
EARLIER = 60.0
"""Seconds before an attempt from which on it is looked for: clocks differ."""


@dataclass
class Alone:
    """The channel under test without a gateway."""

    rig: Rig
    channel: Channel
    net: Network
    inbox: KeptInbox
    token: str = field(default_factory=lambda: f"c{secrets.token_hex(4)}")
    count: int = 0

    @property
    def address(self) -> str:
        return self.rig.addresses()[0]

    def op(self) -> Op:
        """A new message."""
        self.count += 1
        text = f"{self.token} {self.count}"
        return Op(secrets.token_hex(12), "post", self.address, text, session="main:conformance", at=time.time())

    async def attempt(self, op: Op) -> Receipt | Exception:
        """One attempt, as the outbox makes it: cut off after the time that the channel asks for."""
        try:
            async with asyncio.timeout(self.channel.caps.timeout):
                return await self.channel.send(op)
        except Exception as fault:
            return fault

    async def there(self, op: Op) -> int:
        """How many times people see this text."""
        return sum(op.text in text for text in await self.rig.shown(self.address))

    async def taken(self, op: Op) -> None:
        """Until the platform shows it."""
        await until(lambda: self._shows(op), f"the platform does not show {op.text!r}")

    async def _shows(self, op: Op) -> bool:
        return await self.there(op) > 0


@contextlib.asynccontextmanager
async def alone(rig: Rig, home: Path) -> AsyncIterator[Alone]:
    """The channel, its run going on beside it, before a platform behind proxies."""
    async with rig, network(rig) as net:
        channel = rig.make(NAME, net.ports)
        caps = channel.caps
        demand(caps.safety is rig.safety, f"the channel says it is {caps.safety}, and its rig says {rig.safety}")
        demand(caps.finds == rig.finds, f"the channel says finds={caps.finds}, and its rig says {rig.finds}")
        demand(caps.safety is not Safety.RECONCILABLE or caps.finds, "a reconcilable channel says finds=True")
        demand(caps.safety is not Safety.IDEMPOTENT or caps.key_life > 0, "an idempotent channel says its key_life")
        inbox = KeptInbox(home / "files")
        running = asyncio.create_task(_keep_running(channel, inbox))
        try:
            if rig.hears:
                await inbox.wait_online(seconds=PATIENCE)
            yield Alone(rig, channel, net, inbox)
        finally:
            running.cancel()
            ended = (await asyncio.gather(running, return_exceptions=True))[0]
            demand(isinstance(ended, asyncio.CancelledError), f"run raised {ended!r}: Offline and Denied are its ends")


async def _keep_running(channel: Channel, inbox: KeptInbox) -> None:
    """As the gateway does: run again after the platform was lost."""
    while True:
        with contextlib.suppress(Offline, Denied):
            await channel.run(inbox)
        await asyncio.sleep(0.2)


def faults(rig: Rig) -> list[Fault]:
    """What makes a client library repeat by itself."""
    found = [Fault(Strike.DROP), Fault(Strike.HANG), Fault(Strike.HANG_AFTER)]
    if rig.http:
        found += [Fault(Strike.STATUS, status, 0, rig.refusal(status, 0)) for status in (502, 503)]
        found.append(Fault(Strike.STATUS, 429, 1, rig.refusal(429, 1)))
    return found


async def each_call_of_send_is_one_attempt_whatever_goes_wrong(rig: Rig, home: Path) -> None:
    """A dropped answer, silence, 502, 503 and 429: one request, stanza or mail each, and none by the library's own."""
    async with alone(rig, home) as one:
        for fault in [None, *faults(rig)]:
            came = await meet(one, fault)
            if fault is None:
                demand(isinstance(came, Receipt) and came.id, f"a send that nothing disturbed came to {came!r}")
        before = one.net.send.said
        await asyncio.sleep(HIDDEN)  # what repeats by itself later has done so now
        made = one.net.send.said - before
        demand(made == 0, f"{made} attempts were made that nobody called send for")


async def meet(one: Alone, fault: Fault | None, op: Op | None = None) -> Receipt | Exception:
    """What one attempt comes to that meets this fault. Raises ConformanceError if it is not exactly one."""
    await until(lambda: _sends(one), "the channel did not send again after a fault")
    before = one.net.send.said
    if fault is not None:
        one.net.send.plan.append(fault)
    came = await one.attempt(op or one.op())
    made = one.net.send.said - before
    demand(made == 1, f"{fault or 'nothing wrong'}: one call of send made {made} attempts; it came to {came!r}")
    demand(not one.net.send.plan, f"{fault}: the attempt did not pass the proxy")
    return came


async def _sends(one: Alone) -> bool:
    """Whether it sends at all now (its connection may have to be made again)."""
    return isinstance(await one.attempt(one.op()), Receipt)


async def a_refused_connection_is_provably_not_sent(rig: Rig, home: Path) -> None:
    """NotSent, so that it leaves again without a question; and the channel sends once the platform is back."""
    async with alone(rig, home) as one:
        demand(await _sends(one), "the channel does not send")
        await one.net.down()
        before = one.net.send.said
        came = await one.attempt(one.op())  # a connection that stood before may still have taken it
        demand(isinstance(came, Exception), f"the connection was refused, and send returned {came!r}")
        op = one.op()
        came = await one.attempt(op)
        demand(isinstance(came, NotSent), f"the connection was refused: send should raise NotSent, not {came!r}")
        demand(one.net.send.said == before, "something passed a proxy that refuses connections")
        await one.net.up()
        await until(lambda: _arrives(one, op), "the channel did not send once the platform was back")
        demand(await one.there(op) == 1, f"people see {op.text!r} {await one.there(op)} times")


async def _arrives(one: Alone, op: Op) -> bool:
    came = await one.attempt(op)
    demand(isinstance(came, Receipt | NotSent), f"the platform came back, and send raised {came!r}")
    return isinstance(came, Receipt)


async def a_key_that_is_sent_again_is_folded(rig: Rig, home: Path) -> None:
    """Idempotent: the answer is dropped after the platform took it; the same key again is the same message."""
    async with alone(rig, home) as one:
        op = one.op()
        one.net.send.plan.append(Fault(Strike.DROP))
        came = await one.attempt(op)
        demand(isinstance(came, Exception), f"an answer was dropped, and send returned {came!r}")
        receipts = {str(await one.attempt(op)) for _ in range(3)}
        demand(len(receipts) == 1, f"one key, and these answers: {sorted(receipts)}")
        await one.taken(op)
        seen = await one.there(op)
        demand(seen == 1, f"sent four times under one key, and people see it {seen} times")


async def what_was_sent_is_found_and_what_was_not_is_not_across_pages(rig: Rig, home: Path) -> None:
    """`find` finds an op whose answer was dropped behind more than one page of later messages, and denies another."""
    async with alone(rig, home) as one:
        op, never, since = one.op(), one.op(), time.time() - EARLIER
        one.net.send.plan.append(Fault(Strike.DROP))
        came = await one.attempt(op)
        demand(isinstance(came, Exception), f"an answer was dropped, and send returned {came!r}")
        await one.taken(op)
        await asyncio.sleep(one.channel.caps.settle)
        found = await _find(one, op, since)
        demand(found is not None, "find does not find what people see")
        for n in range(rig.page + 5):
            await rig.write(f"later {n}", "")
        again = await _find(one, op, since)
        demand(again == found, f"find said {found!r}, and {again!r} once {rig.page + 5} messages stood behind it")
        absent = await _find(one, never, since)
        demand(absent is None, f"find found {absent!r} for what was never sent")


async def _find(one: Alone, op: Op, since: float) -> Receipt | None:
    """The answer, once the channel can give one: its connection may have to be made again."""
    answers: list[Receipt | None] = []

    async def asked() -> bool:
        try:
            answers.append(await one.channel.find(op, since))
        except Exception:
            return False
        return True

    await until(asked, "find did not answer")
    return answers[-1]


async def an_edit_made_twice_is_one_edit(rig: Rig, home: Path) -> None:
    """Edits, reactions and deletions are idempotent: what is so already is a receipt."""
    async with alone(rig, home) as one:
        caps = one.channel.caps
        sent = await one.attempt(one.op())
        demand(isinstance(sent, Receipt), f"a send that nothing disturbed came to {sent!r}")
        target = sent.id if isinstance(sent, Receipt) else ""
        kinds = [("edit", caps.edits), ("react", caps.reactions), ("delete", caps.deletes)]
        for kind, can in kinds:
            text = {"edit": f"{one.token} edited", "react": "👍"}.get(kind, "")
            op = Op(
                secrets.token_hex(12), kind, one.address, text, target=target, session="main:conformance",  # type: ignore[arg-type]
                at=time.time(),
            )  # fmt: skip
            for again in ("", " again") if can else ():
                came = await one.attempt(op)
                demand(isinstance(came, Receipt), f"{kind}{again} came to {came!r}")
        if caps.edits and not caps.deletes:
            seen = sum(f"{one.token} edited" in text for text in await rig.shown(one.address))
            demand(seen == 1, f"after two equal edits people see the text {seen} times")
