"""Checks of `send`: one call makes one attempt.

The module `outcomes` checks whether `send` reports the outcome of an attempt truly, and `lookups` checks `find`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from semel.gateway.ports import Channel, Denied, NotSent, Offline, Op, Receipt, Safety
from semel.testing.conformance.network import ProxiedNetwork, open_network
from semel.testing.conformance.process import CHANNEL_NAME, CursorStuck, wait_until, wait_until_online
from semel.testing.conformance.proxy import NetworkFault, NetworkFaultKind
from semel.testing.conformance.rig import NumberedTexts, Rig, demand
from semel.testing.inbox import KeptInbox

SHOWN_TIMEOUT_S = 10.0
"""How long people may wait for a message that has its receipt."""
HIDDEN_RETRY_WAIT_S = 1.0
"""How long to wait for retries that a library may make after `send` has returned."""
MAX_REPEATS = 20
"""How often a channel may put a message again while it catches up. More often, it reads the same page for ever."""
RETRY_REMEDY = (
    "Semel makes every retry itself, since it alone knows what may be sent twice. Switch off the retries and redirects "
    "of your client library, and raise NotSent, Unknown or Rejected instead"
)


@dataclass
class ChannelTrial:
    """A channel under test that runs without a gateway, its network, and the inbox that it fills."""

    rig: Rig
    channel: Channel
    net: ProxiedNetwork
    inbox: KeptInbox
    words: NumberedTexts = field(default_factory=lambda: NumberedTexts("c"))

    @property
    def address(self) -> str:
        return self.rig.addresses()[0]

    def new_message(self) -> Op:
        """Return an op that posts a new text to the first address. It is not sent yet."""
        return self.make_op("post", self.words.new())

    def make_op(self, kind: Literal["post", "edit", "react", "delete"], text: str, target: str | None = None) -> Op:
        at = time.time()
        return Op(secrets.token_hex(12), kind, self.address, text, target=target, session="main:conformance", at=at)

    async def attempt(self, op: Op) -> Receipt | Exception:
        """Call `send` once as the outbox does, with the channel's timeout. Returns its receipt or its exception."""
        try:
            async with asyncio.timeout(self.channel.caps.timeout):
                return await self.channel.send(op)
        except Exception as error:
            return error

    async def count_shown(self, op: Op) -> int:
        """Return how many messages that people see contain the op's text."""
        return sum(op.text in text for text in await self.rig.shown(self.address))

    async def wait_until_shown(self, op: Op) -> None:
        """Wait until people see the op's text. Raises ConformanceError after WAIT_TIMEOUT_S."""
        await wait_until(lambda: self.is_shown(op), f"the platform does not show {op.text!r}")

    async def is_shown(self, op: Op) -> bool:
        return await self.count_shown(op) > 0


@contextlib.asynccontextmanager
async def start_trial(rig: Rig, home: Path, *, also: type[Exception] = Offline) -> AsyncIterator[ChannelTrial]:
    """Run the rig's channel, without a gateway, against its platform behind proxies.

    `also`: an error that may end `run`, too. Raises ConformanceError if what the channel declares is not what the rig
    says.
    """
    demand(
        200 not in rig.not_accepted,
        "`not_accepted` of the rig has the status 200, which is a receipt, too: if the platform says 'not now' inside "
        "a 200, define `not_now`, which gives the body, and leave 200 out",
    )
    async with rig, open_network(rig) as net:
        channel = rig.make(CHANNEL_NAME, net.ports)
        caps = channel.caps
        demand(caps.safety is rig.safety, f"the channel says it is {caps.safety}, and its rig says {rig.safety}")
        demand(
            caps.finds == rig.finds,
            f"the channel says finds={caps.finds}, and its rig says {rig.finds}; set `finds` in the rig, too",
        )
        demand(caps.safety is not Safety.RECONCILABLE or caps.finds, "a reconcilable channel says finds=True")
        demand(caps.safety is not Safety.IDEMPOTENT or caps.key_life > 0, "an idempotent channel says its key_life")
        inbox = KeptInbox(home / "files")
        async with run_channel(rig, channel, inbox, until_online=rig.hears, also=also):
            yield ChannelTrial(rig, channel, net, inbox)


@contextlib.asynccontextmanager
async def run_channel(
    rig: Rig, channel: Channel, inbox: KeptInbox, *, until_online: bool = True, also: type[Exception] = Offline
) -> AsyncIterator[None]:
    """Run the channel until the block ends, and run it again whenever it has lost the platform, as the gateway does.

    `until_online`: wait for the next call of `inbox.online()` first. `also`: an error that may end `run`, too.
    Raises ConformanceError if `run` ends with any other error, or does not call `online`.
    """
    times = inbox.onlines + 1
    running = asyncio.create_task(_keep_running(channel, inbox, also))
    try:
        if until_online:
            await wait_until_run_is_online(rig, running, inbox, times)
            demand(not running.done(), "run ended before the channel was online")
        yield
    finally:
        running.cancel()
        ended = (await asyncio.gather(running, return_exceptions=True))[0]
        demand(isinstance(ended, asyncio.CancelledError), f"run raised {ended!r}: Offline and Denied are its ends")


async def _keep_running(channel: Channel, inbox: KeptInbox, also: type[Exception]) -> None:
    while True:
        with contextlib.suppress(Offline, Denied, also):
            await channel.run(inbox)
        await asyncio.sleep(0.2)


async def wait_until_run_is_online(rig: Rig, running: asyncio.Task[None], inbox: KeptInbox, times: int) -> None:
    """Wait until `online` was called for the `times`th time, or until `run` has ended with an error.

    Raises CursorStuck at once if the channel puts the same messages again and again.
    """
    repeats_before = max(inbox.repeats.values(), default=0)

    async def is_online() -> bool:
        if max(inbox.repeats.values(), default=0) - repeats_before > MAX_REPEATS:
            raise CursorStuck
        return running.done() or inbox.onlines >= times

    await wait_until_online(rig, is_online)


def retry_provoking_faults(rig: Rig) -> list[NetworkFault]:
    """Return the faults after which client libraries tend to retry by themselves."""
    faults = [
        NetworkFault(NetworkFaultKind.DROP),
        NetworkFault(NetworkFaultKind.HANG),
        NetworkFault(NetworkFaultKind.HANG_AFTER),
    ]
    if rig.http:
        faults += [NetworkFault(NetworkFaultKind.STATUS, status, 0, rig.refusal(status, 0)) for status in (502, 503)]
        faults.append(NetworkFault(NetworkFaultKind.STATUS, 429, 1, rig.refusal(429, 1)))
    return faults


async def each_call_of_send_is_one_attempt_whatever_goes_wrong(rig: Rig, home: Path) -> None:
    """Check that each call of `send` makes one attempt, and that no library retries by itself.

    The faults: a dropped answer, silence, 502, 503 and 429.
    """
    async with start_trial(rig, home) as trial:
        for fault in [None, *retry_provoking_faults(rig)]:
            outcome = await attempt_once(trial, fault)
            if fault is None:
                demand(
                    isinstance(outcome, Receipt) and outcome.id, f"a send that nothing disturbed came to {outcome!r}"
                )
        before = trial.net.send.said
        await asyncio.sleep(HIDDEN_RETRY_WAIT_S)
        extra_attempts = trial.net.send.said - before
        demand(extra_attempts == 0, f"{extra_attempts} attempts were made that nobody called send for. {RETRY_REMEDY}")


async def attempt_once(trial: ChannelTrial, fault: NetworkFault | None, op: Op | None = None) -> Receipt | Exception:
    """Call `send` once under this fault (None: without one) and return its receipt or exception.

    `op`: the op to send, by default a new message. Raises ConformanceError unless the call made exactly one attempt.
    """
    await wait_until(lambda: _can_send(trial), "the channel did not send again after a fault")
    before = trial.net.send.said
    if fault is not None:
        trial.net.send.plan.append(fault)
    outcome = await trial.attempt(op or trial.new_message())
    attempts = trial.net.send.said - before
    remedy = f". {RETRY_REMEDY}" if attempts > 1 else ""
    demand(
        attempts == 1,
        f"{fault or 'nothing wrong'}: one call of send made {attempts} attempts; it came to {outcome!r}{remedy}",
    )
    demand(not trial.net.send.plan, f"{fault}: the attempt did not pass the proxy")
    return outcome


async def _can_send(trial: ChannelTrial) -> bool:
    """Send a new message. Returns whether it was sent: the channel may have to reconnect first."""
    return isinstance(await trial.attempt(trial.new_message()), Receipt)


async def a_refused_connection_is_provably_not_sent(rig: Rig, home: Path) -> None:
    """Check that `send` raises NotSent while connections are refused, and sends again once the platform is back."""
    async with start_trial(rig, home) as trial:
        demand(await _can_send(trial), "the channel does not send")
        await trial.net.down()
        said_before = trial.net.send.said
        outcome = await trial.attempt(trial.new_message())  # may use an old connection, which breaks: Unknown is right
        demand(isinstance(outcome, Exception), f"the connection was refused, and send returned {outcome!r}")
        op = trial.new_message()
        outcome = await trial.attempt(op)
        demand(isinstance(outcome, NotSent), f"the connection was refused: send should raise NotSent, not {outcome!r}")
        demand(trial.net.send.said == said_before, "something passed a proxy that refuses connections")
        await trial.net.up()
        await wait_until(lambda: _send_arrives(trial, op), "the channel did not send once the platform was back")
        await _check_shown_once(trial, op)


async def _send_arrives(trial: ChannelTrial, op: Op) -> bool:
    outcome = await trial.attempt(op)
    demand(isinstance(outcome, Receipt | NotSent), f"the platform came back, and send raised {outcome!r}")
    return isinstance(outcome, Receipt)


async def _check_shown_once(trial: ChannelTrial, op: Op) -> None:
    """Raise ConformanceError unless people see an op with a receipt once, and before `find` would be believed."""
    caps = trial.channel.caps
    begun = time.monotonic()
    if not await trial.count_shown(op):
        await wait_until(
            lambda: trial.is_shown(op),
            f"send returned a receipt for {op.text!r}, and people do not see it (did the platform take it, does "
            "`shown` of the rig read all pages?)",
            SHOWN_TIMEOUT_S,
        )
        late = time.monotonic() - begun
        demand(
            caps.safety is not Safety.RECONCILABLE or late <= caps.settle,
            f"people see {op.text!r} {late:.1f} s after its receipt, and `settle` is {caps.settle:g} s: find may say "
            "meanwhile that it was not sent, and it would leave again. Set `settle` to the longest time that the "
            "platform may take",
        )
    shown_count = await trial.count_shown(op)
    demand(shown_count == 1, f"people see {op.text!r} {shown_count} times")


async def a_key_that_is_sent_again_is_folded(rig: Rig, home: Path) -> None:
    """Check that a message sent again under the same idempotency key, after its answer was lost, is shown once."""
    async with start_trial(rig, home) as trial:
        op = trial.new_message()
        trial.net.send.plan.append(NetworkFault(NetworkFaultKind.DROP))
        outcome = await trial.attempt(op)
        demand(isinstance(outcome, Exception), f"an answer was dropped, and send returned {outcome!r}")
        receipts = {str(await trial.attempt(op)) for _ in range(3)}
        demand(len(receipts) == 1, f"one key, and these answers: {sorted(receipts)}")
        await trial.wait_until_shown(op)
        shown_count = await trial.count_shown(op)
        demand(shown_count == 1, f"sent four times under one key, and people see it {shown_count} times")


async def an_edit_made_twice_is_one_edit(rig: Rig, home: Path) -> None:
    """Check that a repeated edit, reaction or deletion changes nothing and returns a receipt."""
    async with start_trial(rig, home) as trial:
        caps = trial.channel.caps
        sent = await trial.attempt(trial.new_message())
        demand(isinstance(sent, Receipt), f"a send that nothing disturbed came to {sent!r}")
        target = sent.id if isinstance(sent, Receipt) else ""
        edited = f"{trial.words.token} edited"
        changes: list[tuple[Literal["edit", "react", "delete"], bool, str]] = [
            ("edit", caps.edits, edited), ("react", caps.reactions, "👍"), ("delete", caps.deletes, ""),
        ]  # fmt: skip
        for kind, possible, text in changes:
            op = trial.make_op(kind, text, target)
            for suffix in ("", " again") if possible else ():
                outcome = await trial.attempt(op)
                demand(isinstance(outcome, Receipt), f"{kind}{suffix} came to {outcome!r}")
        if caps.edits and not caps.deletes:
            shown_count = sum(edited in text for text in await rig.shown(trial.address))
            demand(shown_count == 1, f"after two equal edits people see the text {shown_count} times")
