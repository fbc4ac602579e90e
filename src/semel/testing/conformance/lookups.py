"""Checks of `find`: it finds what was sent, finds nothing else, and takes no bad answer for a proof of absence.

If `find` returns None, the gateway sends the message again. Therefore it may return None only for the platform's own,
complete answer that the message is not there. Each other answer that a network can give comes to Unknown.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from semel.gateway.ports import Op, Receipt
from semel.testing.conformance.attempts import ChannelTrial, start_trial
from semel.testing.conformance.network import LOGIN_PAGE
from semel.testing.conformance.process import wait_until
from semel.testing.conformance.proxy import NetworkFault, NetworkFaultKind
from semel.testing.conformance.rig import ConformanceError, Rig, demand

CLOCK_TOLERANCE_S = 60.0
"""How long before the attempt `find` begins to search, because clocks differ."""
LATE_S = 10.0
"""How long to look for a message that `find` did not find, so that a short `settle` is told from a wrong key."""
NOT_FOUND = 404
"""The status by which many platforms say that a message does not exist: an answer to a lookup, and no refusal of it."""
NOT_PROVED = (
    "find returned None, which says that the message was certainly not sent. People see it: it would leave again, and "
    "they would see it twice. Return None only if the platform itself answers, in full, that it does not have the "
    "message; for every other answer raise Unknown, and Semel asks again later"
)


async def what_was_sent_is_found_and_what_was_not_is_not_across_pages(rig: Rig, home: Path) -> None:
    """Check that `find` finds an op whose answer was lost, even if more than a page of messages came after it.

    It must not find an op that was never sent.
    """
    async with start_trial(rig, home) as trial:
        since = time.time() - CLOCK_TOLERANCE_S
        op, receipt = await _send_and_find(trial, since)
        await _bury(rig)
        found_later = await _find_when_ready(trial, op, since)
        demand(
            found_later == receipt,
            f"find said {receipt!r}, and {found_later!r} once {rig.page + 5} messages stood behind it",
        )
        absent = await _find_when_ready(trial, trial.new_message(), since)
        demand(absent is None, f"find found {absent!r} for what was never sent")


async def a_lookup_without_a_clear_answer_does_not_prove_that_nothing_was_sent(rig: Rig, home: Path) -> None:
    """Check that `find` does not return None for a message that people see, whatever answer it gets.

    The bad answers are those that `send` gets. Each strikes the first answer of a lookup, and later ones: on the way
    to the last page, too, an answer may fail.
    """
    async with start_trial(rig, home, also=Exception) as trial:
        since = time.time() - CLOCK_TOLERANCE_S
        op, _ = await _send_and_find(trial, since)
        await _bury(rig)
        for fault in _list_bad_answers(rig):
            for spared in _choose_places(await _count_answers(trial, op, since), fault):
                with trial.net.disturb(fault, spared):
                    await _demand_not_absent(trial, op, since, fault.describe_answer())
        await trial.net.down()
        await _demand_not_absent(trial, op, since, "a refused connection")
        await trial.net.up()


def _list_bad_answers(rig: Rig) -> list[NetworkFault]:
    """Return the answers to a lookup that settle nothing."""
    strikes = [NetworkFaultKind.DROP, NetworkFaultKind.CUT_HEAD, NetworkFaultKind.HANG]
    if not rig.http:
        return [NetworkFault(strike) for strike in strikes]
    answers = [(status, rig.refusal(status, 0)) for status in sorted({500, 502, 503, 504, *rig.not_accepted})]
    answers += [(status, LOGIN_PAGE) for status in (200, 502)] + [(200, b""), (200, b"{}")]
    if not_now := rig.not_now(1):
        answers.append((200, not_now))
    if rig.definite not in (None, NOT_FOUND):
        answers.append((rig.definite, rig.refusal(rig.definite, 0)))
    return [
        *(NetworkFault(strike) for strike in (*strikes, NetworkFaultKind.CUT_BODY)),
        *(NetworkFault(NetworkFaultKind.STATUS, status, 0, body) for status, body in answers),
    ]


def _choose_places(count: int, fault: NetworkFault) -> list[int]:
    """Return which answers of a lookup the fault strikes, by number from 0: the first, some later ones and the last.

    `count`: how many answers an undisturbed lookup gets. Silence costs a time-out, and strikes once.
    """
    if fault.strike is NetworkFaultKind.HANG:
        return [count // 2]
    return sorted({place for place in (0, count // 2, count - 2, count - 1) if place >= 0})


async def _count_answers(trial: ChannelTrial, op: Op, since: float) -> int:
    """Return how many answers an undisturbed lookup gets, once the channel finds the op again."""
    await _find_when_ready(trial, op, since)
    before = trial.net.answers
    await _find_when_ready(trial, op, since)
    return trial.net.answers - before


async def _demand_not_absent(trial: ChannelTrial, op: Op, since: float, answer: str) -> None:
    """Call `find` once. Raises ConformanceError if it returns None. `answer`: what it gets for an answer."""
    try:
        async with asyncio.timeout(trial.channel.caps.timeout):
            receipt = await trial.channel.find(op, since)
    except Exception:
        return  # as in the gateway, every exception means: not known
    demand(receipt is not None, f"the lookup got {answer}, and {NOT_PROVED}")


async def _send_and_find(trial: ChannelTrial, since: float) -> tuple[Op, Receipt]:
    """Send a message whose answer is lost, and look it up once it has settled. Returns it and its receipt."""
    op = trial.new_message()
    trial.net.send.plan.append(NetworkFault(NetworkFaultKind.DROP))
    outcome = await trial.attempt(op)
    demand(isinstance(outcome, Exception), f"an answer was dropped, and send returned {outcome!r}")
    await trial.wait_until_shown(op)
    await asyncio.sleep(trial.channel.caps.settle)
    receipt = await _find_when_ready(trial, op, since)
    if receipt is None:
        raise ConformanceError(await _explain_not_found(trial, op, since))
    return op, receipt


async def _explain_not_found(trial: ChannelTrial, op: Op, since: float) -> str:
    """Return what is wrong with a `find` that returned None for what people see: look again for LATE_S."""
    begun, settle = time.monotonic(), trial.channel.caps.settle

    async def is_found() -> bool:
        return await _find_when_ready(trial, op, since) is not None

    try:
        await wait_until(is_found, "not found", LATE_S)
    except ConformanceError:
        return (
            f"find does not find what people see, neither after `settle` ({settle:g} s) nor {LATE_S:g} s later. Does "
            "send pass `op.key` on unchanged, and does find look for the same? Does find read all pages?"
        )
    late = time.monotonic() - begun
    return (
        f"find does not find what people see after `settle` ({settle:g} s), and finds it {late:.1f} s later: it would "
        "leave again, and they would see it twice. Set `settle` to the longest time that the platform may take"
    )


async def _bury(rig: Rig) -> None:
    """Let a person write more messages than one page of the platform's history holds."""
    for n in range(rig.page + 5):
        await rig.write(f"later {n}", "")


async def _find_when_ready(trial: ChannelTrial, op: Op, since: float) -> Receipt | None:
    """Call `find` until it does not raise (the channel may have to reconnect first), and return its result."""
    answers: list[Receipt | None] = []

    async def asked() -> bool:
        try:
            answers.append(await trial.channel.find(op, since))
        except Exception:
            return False
        return True

    await wait_until(asked, "find did not answer")
    return answers[-1]
