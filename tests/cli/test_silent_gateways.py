"""What `semel status`, `semel doctor` and `semel say` say of a gateway that does not answer, without any process."""

from __future__ import annotations

import asyncio
import re

import pytest

from semel.faces.cli import talk
from semel.faces.health.cluster import examine_cluster, explain_no_answer
from semel.ledger.storage.cluster import ClusterGateway
from semel.ledger.turns.seats import MissingGateway


def gateway(name: str, silent_s: float = 1.0) -> ClusterGateway:
    return ClusterGateway(
        name, f"http://{name}", name, "0.2.0", name == "alpha", joined=0, seen=0, serves=True, silent_s=silent_s
    )


def test_whoever_is_silent_is_named_with_since_when_and_who_takes_over() -> None:
    silence = r"has not answered since \d\d:\d\d:\d\d \(7 s\): it hangs, or is cut off; "
    pair = [gateway("alpha", 7.0), gateway("beta")]
    takes_over = f"{silence}unless it goes on, beta takes over in 3 s"
    end = "; to end it: kill -KILL 5, then semel up"
    assert re.fullmatch(rf"alpha \(process 5\) {takes_over}{end}", explain_no_answer("alpha", 5, pair))
    asked = rf"beta runs, and asked alpha, which is active and {takes_over}"
    assert re.fullmatch(asked, explain_no_answer("beta", 5, pair))
    both = [gateway("alpha"), gateway("beta", 7.0)]
    assert re.search(f"{silence}unless it goes on, it is given up in 3 s", explain_no_answer("beta", None, both))
    alone = [gateway("alpha", 7.0)]
    assert "no other gateway lives that could take over" in explain_no_answer("alpha", 5, alone)


def test_who_is_active_now_is_named_once_the_silent_one_is_given_up() -> None:
    text = explain_no_answer("beta", 5, [gateway("alpha")])
    assert text.startswith("beta (process 5) does not answer and was given up: alpha is active now; once it goes on")


def test_a_gateway_that_shows_life_is_not_said_to_hang() -> None:
    """It asks the active one, which was just given up or is silent for a moment: to kill it would make that worse."""
    nobody = explain_no_answer("beta", 5, [gateway("beta")])
    assert nobody == "beta runs, but no gateway is active: one takes over in a few seconds; ask again then"
    seen = "it showed life 4 s ago"
    for name in ("alpha", "beta"):
        text = explain_no_answer(name, 5, [gateway("alpha", 4.0), gateway("beta", 4.0)])
        assert text == f"alpha, which is active, has not answered yet; {seen}: ask again in a few seconds"


def test_a_gateway_without_a_cluster_that_does_not_answer_is_not_said_to_be_stopped() -> None:
    for others in ([], [gateway("alpha")]):
        text = explain_no_answer("", 5, others)
        assert text.startswith("process 5 does not answer: it hangs, or was stopped (SIGSTOP)")


def test_doctor_warns_of_silent_gateways_and_of_those_that_sessions_wait_for() -> None:
    findings = examine_cluster([gateway("alpha"), gateway("beta", 7.0)], [MissingGateway("gamma", 1, ("main",))])
    assert [finding.level for finding in findings] == ["ok", "warning", "warning"]
    assert findings[0].text == "alpha is active; serving, too: beta"
    assert findings[1].text.startswith("1 session waits for the gateway gamma") and findings[1].remedy
    assert findings[2].text.startswith("beta has not answered since")
    assert examine_cluster([], []) == []


async def test_a_message_that_the_gateway_leaves_unanswered_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(talk, "LATE_ANSWER_S", 0.05)
    with talk.report_late_answer():
        await asyncio.sleep(0.0)
    assert capsys.readouterr().err == "", "the answer came in time"
    with talk.report_late_answer():
        await asyncio.sleep(0.2)
    assert capsys.readouterr().err == "the gateway has not answered yet; still trying to send the message\n"
