"""Check that `send` reports the outcome of each attempt truly.

The gateway cannot correct a false report. If `send` raises NotSent although the platform took the message, people see
it twice. If it returns a Receipt or raises Rejected although the platform did not take it, the message is lost. If it
raises Unknown although the platform gave a definite answer, a message is held that could have been sent.

Therefore each answer that a network can give is tried in two cases: the platform took the message, or it did not. If a
channel cannot tell the cases apart, only Unknown is true in both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest  # pytest knows it, too

from semel.gateway.ports import NotSent, Op, Receipt, Rejected
from semel.testing.conformance.attempts import ChannelTrial, attempt_once, start_trial
from semel.testing.conformance.network import LOGIN_PAGE
from semel.testing.conformance.proxy import NetworkFault, NetworkFaultKind
from semel.testing.conformance.rig import HttpFront, Rig, demand

RETRY_AFTER_S = 7
"""The Retry-After header of the answers that ask the channel to try later."""
SERVER_ERRORS = (500, 502, 503, 504)

SENT, NOT_SENT, REJECTED, UNKNOWN = "a Receipt", "NotSent", "Rejected", "Unknown"


@dataclass(frozen=True)
class OutcomeCase:
    """A fault, the outcomes that `send` may report under it, and the reason why only these are true."""

    fault: NetworkFault
    allowed: Collection[str]
    reason: str


def list_cases(rig: Rig) -> list[OutcomeCase]:
    """Return a case for every fault that an attempt on this platform can meet after it has connected."""
    return [*_connection_cases(rig), *(_http_cases(rig) if rig.http else _tcp_refusal_cases(rig))]


def _connection_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases in which the connection breaks or stays silent."""
    nobody_knows = "the request left, and no answer came: nobody can know whether it was taken"
    strikes = [
        NetworkFaultKind.DROP,
        NetworkFaultKind.HANG_AFTER,
        NetworkFaultKind.CUT_HEAD,
        NetworkFaultKind.LOSE,
        NetworkFaultKind.HANG,
    ]
    cases = [OutcomeCase(NetworkFault(strike), [UNKNOWN], nobody_knows) for strike in strikes]
    if rig.http:
        cut = "a 2xx came, so it was taken, though its id may be lost"
        cases.append(OutcomeCase(NetworkFault(NetworkFaultKind.CUT_BODY), [SENT, UNKNOWN], cut))
    return cases


def _tcp_refusal_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases in which a platform that does not speak HTTP refuses the message."""
    front = next(iter(rig.fronts().values()))
    if isinstance(front, HttpFront):
        return []
    cases = []
    if front.not_now is not None:
        cases.append(
            OutcomeCase(
                NetworkFault(NetworkFaultKind.NOT_NOW), [NOT_SENT], "the platform says that it may take it later"
            )
        )
    if front.no is not None:
        cases.append(OutcomeCase(NetworkFault(NetworkFaultKind.NO), [REJECTED], "the platform refused it for good"))
    return cases


def _http_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases in which an HTTP answer comes."""
    cases = [*_server_error_cases(rig), *_not_accepted_cases(rig), *_redirect_cases(), *_unreadable_cases(rig)]
    if rig.definite is not None:
        refusal = NetworkFault(NetworkFaultKind.STATUS, rig.definite, 0, rig.refusal(rig.definite, 0))
        cases.append(
            OutcomeCase(refusal, [REJECTED], "the platform refused it for good: tried again it would be refused again")
        )
    return cases


def _server_error_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases with a status 5xx, which may come before or after the platform took the message."""
    cases = []
    for status in SERVER_ERRORS:
        if status in rig.not_accepted:
            continue
        body = rig.refusal(status, 0)
        reason = f"a {status} comes before the platform took it and after: it settles nothing"
        cases += [OutcomeCase(NetworkFault(NetworkFaultKind.STATUS, status, 0, answer_body, taken), [UNKNOWN], reason)
                  for answer_body in (body, LOGIN_PAGE) for taken in (True, False)]  # fmt: skip
    later = NetworkFault(NetworkFaultKind.STATUS, 503, RETRY_AFTER_S, rig.refusal(503, RETRY_AFTER_S))
    cases.append(OutcomeCase(later, [NOT_SENT, UNKNOWN], "nothing was taken, and nobody refused it for good"))
    return cases


def _not_accepted_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases with a status in `rig.not_accepted`, with and without Retry-After and body."""
    return [
        OutcomeCase(NetworkFault(NetworkFaultKind.STATUS, status, seconds, body), [NOT_SENT], f"{status} is 'not now'")
        for status in sorted(rig.not_accepted)
        for seconds in (RETRY_AFTER_S, 0)
        for body in (rig.refusal(status, seconds), b"")
    ]


def _redirect_cases() -> list[OutcomeCase]:
    reason = "a redirect took nothing, and where it leads nothing may be said: that would be a second attempt"
    allowed = [NOT_SENT, REJECTED, UNKNOWN]
    return [
        OutcomeCase(NetworkFault(NetworkFaultKind.STATUS, status, redirects=True), allowed, reason)
        for status in (301, 302, 303, 307, 308)
    ]


def _unreadable_cases(rig: Rig) -> list[OutcomeCase]:
    """Return the cases with a 2xx answer that does not come from the platform, or not in full."""
    if rig.status_is_receipt:
        reason = "a 2xx is this platform's receipt"
        return [
            OutcomeCase(NetworkFault(NetworkFaultKind.STATUS, 200, 0, body, True), [SENT], reason)
            for body in (LOGIN_PAGE, b"", b"{}")
        ]
    reason = "a 200 that names no message may come from the platform, or from something before it"
    worlds = [(LOGIN_PAGE, True), (LOGIN_PAGE, False), (b"", True), (b"{}", True), (b"{}", False)]
    return [
        OutcomeCase(NetworkFault(NetworkFaultKind.STATUS, 200, 0, body, taken), [UNKNOWN], reason)
        for body, taken in worlds
    ]


async def what_send_says_of_an_attempt_is_true(rig: Rig, home: Path) -> None:
    """Check that `send` reports a true outcome for every case of `list_cases`, and follows no redirect."""
    async with start_trial(rig, home) as trial:
        for case in list_cases(rig):
            op = trial.new_message()
            outcome = await attempt_once(trial, case.fault, op)
            await _check_outcome(trial, case, op, outcome)
            followed = trial.net.send.followed
            demand(not followed, f"{case.fault}: the redirect was followed; {case.reason}")


async def a_refusal_in_the_words_of_the_platform_is_rejected(rig: Rig, home: Path) -> None:
    """Check that `send` raises Rejected, with a reason for people, for the answer that `Rig.refusal` gives.

    Many platforms refuse inside an HTTP 200: then `definite` is 200. Skipped if the rig defines no `refusal`.
    """
    status = rig.definite
    if status is None or type(rig).refusal is Rig.refusal:
        demand(
            status is None or status >= 300,
            f"the rig says that the platform refuses with the status {status}: define `refusal`, which gives the body "
            "by which the channel knows it from a receipt",
        )
        raise SkipTest(
            "the rig defines no `refusal`: only the bare status of a refusal was tried, in "
            "what_send_says_of_an_attempt_is_true. Define `refusal`, with the body of the platform's answer; if that "
            "comes with an HTTP 200, set `definite = 200`, too"
        )
    body = rig.refusal(status, 0)
    async with start_trial(rig, home) as trial:
        outcome = await attempt_once(trial, NetworkFault(NetworkFaultKind.STATUS, status, 0, body))
    answer = f"the platform refused, with the status {status} and the body {body!r}"
    demand(isinstance(outcome, Rejected), f"{answer}: send should come to {REJECTED}, not {outcome!r}")
    demand(str(outcome), f"{answer}: send raised Rejected without a reason, which the person is shown")


async def a_not_now_in_the_words_of_the_platform_is_not_sent(rig: Rig, home: Path) -> None:
    """Check that `send` raises NotSent, with the wait that the body names, for the answer that `Rig.not_now` gives.

    Skipped if the rig defines no `not_now`.
    """
    body = rig.not_now(RETRY_AFTER_S)
    if not body:
        raise SkipTest(
            "the rig defines no `not_now`: if the platform says 'not now' inside an HTTP 200, too, define it, with the "
            "body of the platform's answer"
        )
    async with start_trial(rig, home) as trial:
        outcome = await attempt_once(trial, NetworkFault(NetworkFaultKind.STATUS, 200, 0, body))
    answer = f"the platform said 'not now', with the status 200 and the body {body!r}"
    lost = ". Nobody sees it, and it would never leave again" if isinstance(outcome, Receipt | Rejected) else ""
    demand(isinstance(outcome, NotSent), f"{answer}: send should come to {NOT_SENT}, not {outcome!r}{lost}")
    assert isinstance(outcome, NotSent)
    _check_wait(outcome, answer)


async def _check_outcome(trial: ChannelTrial, case: OutcomeCase, op: Op, outcome: Receipt | Exception) -> None:
    outcome_name = _name_outcome(outcome)
    if outcome_name not in case.allowed:
        consequence = await _describe_consequence(trial, case.fault, op, outcome_name)
        expected = " or ".join(case.allowed)
        demand(False, f"{case.fault}: send should come to {expected}, not {outcome!r}: {case.reason}{consequence}")
    if isinstance(outcome, NotSent) and case.fault.seconds:
        _check_wait(outcome, str(case.fault))


def _check_wait(outcome: NotSent, answer: str) -> None:
    """Raise ConformanceError if the outcome does not name the wait of RETRY_AFTER_S that the answer asks for."""
    wait = outcome.retry_after
    demand(
        wait is not None and RETRY_AFTER_S - 1 <= wait <= RETRY_AFTER_S + 1,
        f"{answer}: NotSent says retry_after={wait}, and not {RETRY_AFTER_S}; what is sent earlier is refused again",
    )


def _name_outcome(outcome: Receipt | Exception) -> str:
    """Return the name of an outcome. As in the gateway, any other exception counts as Unknown."""
    if isinstance(outcome, Receipt):
        return SENT
    if isinstance(outcome, NotSent):
        return NOT_SENT
    return REJECTED if isinstance(outcome, Rejected) else UNKNOWN


async def _describe_consequence(trial: ChannelTrial, fault: NetworkFault, op: Op, outcome_name: str) -> str:
    """Return a sentence that says what people would see because `send` reported a false outcome.

    `outcome_name`: the outcome that `send` reported under the fault. Return "" if people would see nothing wrong.
    """
    if fault.reaches_platform:
        await trial.wait_until_shown(op)
        if outcome_name == NOT_SENT:
            return ". People see it already: it would leave again, and they would see it twice"
        return ". People see it, and would be told that it failed" if outcome_name == REJECTED else ""
    return ". Nobody sees it, and it would never leave again" if outcome_name in (SENT, REJECTED) else ""
