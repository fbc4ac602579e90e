"""Check that the outcome which `send` reports for an attempt is true.

A channel's own mistake here is the one that no gateway can mend: NotSent for what the platform took shows it twice, a
Receipt or Rejected for what it did not take loses it, and Unknown where the platform settled it holds what could have
left. So each answer that a network can give is given in both worlds: one where the platform took the message, and one
where it did not. Where a channel cannot tell them apart, only Unknown is true in both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from semel.gateway.ports import NotSent, Op, Receipt, Rejected
from semel.testing.conformance.attempts import Alone, alone, meet
from semel.testing.conformance.http_proxy import PAGE
from semel.testing.conformance.proxy import Fault, Strike
from semel.testing.conformance.rig import HttpFront, Rig, demand

SECONDS = 7
"""What a "not now" asks for in its Retry-After."""
SERVER_ERRORS = (500, 502, 503, 504)

SENT, NOT_SENT, REJECTED, UNKNOWN = "a Receipt", "NotSent", "Rejected", "Unknown"


@dataclass(frozen=True)
class Case:
    """A fault, what `send` may say of an attempt that meets it, and why."""

    fault: Fault
    may: Collection[str]
    why: str


def cases(rig: Rig) -> list[Case]:
    """Everything that an attempt at a platform like this can meet once its connection stands."""
    return [*_broken(rig), *(_answered(rig) if rig.http else _refused(rig))]


def _broken(rig: Rig) -> list[Case]:
    """The connection breaks or stays silent."""
    nobody_knows = "the request left, and no answer came: nobody can know whether it was taken"
    strikes = [Strike.DROP, Strike.HANG_AFTER, Strike.CUT_HEAD, Strike.LOSE, Strike.HANG]
    found = [Case(Fault(strike), [UNKNOWN], nobody_knows) for strike in strikes]
    if rig.http:
        cut = "a 2xx came, so it was taken, though its id may be lost"
        found.append(Case(Fault(Strike.CUT_BODY), [SENT, UNKNOWN], cut))
    return found


def _refused(rig: Rig) -> list[Case]:
    """Answers of a platform that speaks anything but HTTP."""
    front = next(iter(rig.fronts().values()))
    if isinstance(front, HttpFront):
        return []
    found = []
    if front.not_now is not None:
        found.append(Case(Fault(Strike.NOT_NOW), [NOT_SENT], "the platform says that it may take it later"))
    if front.no is not None:
        found.append(Case(Fault(Strike.NO), [REJECTED], "the platform refused it for good"))
    return found


def _answered(rig: Rig) -> list[Case]:
    """HTTP answers."""
    found = [*_errors(rig), *_not_now(rig), *_redirects(), *_unreadable(rig)]
    if rig.definite is not None:
        no = Fault(Strike.STATUS, rig.definite, 0, rig.refusal(rig.definite, 0))
        found.append(Case(no, [REJECTED], "the platform refused it for good: tried again it would be refused again"))
    return found


def _errors(rig: Rig) -> list[Case]:
    """5xx: a proxy in front of the platform may send it even after the platform took the message."""
    found = []
    for status in SERVER_ERRORS:
        if status in rig.not_accepted:
            continue
        body = rig.refusal(status, 0)
        why = f"a {status} comes before the platform took it and after: it settles nothing"
        found += [Case(Fault(Strike.STATUS, status, 0, each, taken), [UNKNOWN], why)
                  for each in (body, PAGE) for taken in (True, False)]  # fmt: skip
    later = Fault(Strike.STATUS, 503, SECONDS, rig.refusal(503, SECONDS))
    found.append(Case(later, [NOT_SENT, UNKNOWN], "nothing was taken, and nobody refused it for good"))
    return found


def _not_now(rig: Rig) -> list[Case]:
    """What the platform documents as not accepted: with Retry-After and without, with a body and without."""
    return [
        Case(Fault(Strike.STATUS, status, seconds, body), [NOT_SENT], f"{status} is 'not now'")
        for status in sorted(rig.not_accepted)
        for seconds in (SECONDS, 0)
        for body in (rig.refusal(status, seconds), b"")
    ]


def _redirects() -> list[Case]:
    why = "a redirect took nothing, and where it leads nothing may be said: that would be a second attempt"
    may = [NOT_SENT, REJECTED, UNKNOWN]
    return [Case(Fault(Strike.STATUS, status, redirects=True), may, why) for status in (301, 302, 303, 307, 308)]


def _unreadable(rig: Rig) -> list[Case]:
    """A 2xx that is not the platform's, or no longer."""
    if rig.status_is_receipt:
        why = "a 2xx is this platform's receipt"
        return [Case(Fault(Strike.STATUS, 200, 0, body, True), [SENT], why) for body in (PAGE, b"", b"{}")]
    why = "a 200 that names no message may come from the platform, or from something before it"
    worlds = [(PAGE, True), (PAGE, False), (b"", True), (b"{}", True), (b"{}", False)]
    return [Case(Fault(Strike.STATUS, 200, 0, body, taken), [UNKNOWN], why) for body, taken in worlds]


async def what_send_says_of_an_attempt_is_true(rig: Rig, home: Path) -> None:
    """Broken and cut connections, silence, 5xx, 429, redirects, unreadable answers, a definite no: each outcome is what
    the channel calls it, whether the platform took the message or not."""
    async with alone(rig, home) as one:
        for case in cases(rig):
            op = one.op()
            came = await meet(one, case.fault, op)
            await _judge(one, case, op, came)
            followed = one.net.send.followed
            demand(not followed, f"{case.fault}: the redirect was followed; {case.why}")


async def _judge(one: Alone, case: Case, op: Op, came: Receipt | Exception) -> None:
    said = _said(came)
    if said not in case.may:
        becomes = await _consequence(one, case.fault, op, said)
        demand(False, f"{case.fault}: send should come to {' or '.join(case.may)}, not {came!r}: {case.why}{becomes}")
    if isinstance(came, NotSent) and case.fault.seconds:
        wait = came.retry_after
        demand(
            wait is not None and SECONDS - 1 <= wait <= SECONDS + 1,
            f"{case.fault}: NotSent says retry_after={wait}; what is sent earlier is refused again",
        )


def _said(came: Receipt | Exception) -> str:
    """Whatever else `send` raises counts as unknown, as in the gateway."""
    if isinstance(came, Receipt):
        return SENT
    if isinstance(came, NotSent):
        return NOT_SENT
    return REJECTED if isinstance(came, Rejected) else UNKNOWN


async def _consequence(one: Alone, fault: Fault, op: Op, said: str) -> str:
    """What people would see of the mistake."""
    if fault.reaches_platform:
        await one.taken(op)
        if said == NOT_SENT:
            return ". People see it already: it would leave again, and they would see it twice"
        return ". People see it, and would be told that it failed" if said == REJECTED else ""
    return ". Nobody sees it, and it would never leave again" if said in (SENT, REJECTED) else ""
