"""The gateways that share a ledger, as an operator sees them: who does not answer, since when, and what follows."""

from __future__ import annotations

import time
from collections.abc import Sequence

from semel.faces.health.finding import Finding
from semel.ledger.storage.cluster import GIVEN_UP_AFTER_S, ClusterGateway
from semel.ledger.turns.seats import MissingGateway

SILENT_AFTER_S = 5.0
"""A gateway that has not renewed its row for so long hangs, or is cut off from the database."""


def is_silent(gateway: ClusterGateway) -> bool:
    """Whether a gateway that lives has missed its renewals."""
    return gateway.silent_s > SILENT_AFTER_S


def find_active(gateways: Sequence[ClusterGateway]) -> ClusterGateway | None:
    return next((gateway for gateway in gateways if gateway.is_active), None)


def describe_silence(gateway: ClusterGateway, gateways: Sequence[ClusterGateway]) -> str:
    """Say since when a gateway of a cluster has not shown life, and what happens next. `gateways`: all that live."""
    left_s = max(1, round(GIVEN_UP_AFTER_S - gateway.silent_s))
    others = [other.name for other in gateways if other is not gateway and not is_silent(other)]
    if not others:
        step = "no other gateway lives that could take over"
    elif gateway.is_active:
        who = others[0] if len(others) == 1 else f"one of {', '.join(others)}"
        step = f"unless it goes on, {who} takes over in {left_s} s"
    else:
        step = f"unless it goes on, it is given up in {left_s} s"
    since = time.strftime("%H:%M:%S", time.localtime(gateway.seen / 1000))
    return f"has not answered since {since} ({gateway.silent_s:.0f} s): it hangs, or is cut off; {step}"


def explain_no_answer(name: str, pid: int | None, gateways: Sequence[ClusterGateway]) -> str:
    """Say why the gateway that was asked did not answer, who serves instead, and what happens next, or is to be done.

    `name`: its name in the cluster; "" if it is not in one. `pid`: of its process; None if it is not known.
    """
    process = "the gateway" if pid is None else f"process {pid}"
    own = next((gateway for gateway in gateways if gateway.name == name), None)
    active = find_active(gateways)
    if own is not None and is_silent(own):
        return f"{name} ({process}) {describe_silence(own, gateways)}{_advise_to_kill(pid)}"
    if own is not None and active is not None and own is not active and is_silent(active):
        return f"{name} runs, and asked {active.name}, which is active and {describe_silence(active, gateways)}"
    if name and own is None and active is not None:
        again = f"once it goes on, it starts again and serves, too{_advise_to_kill(pid)}"
        return f"{name} ({process}) does not answer and was given up: {active.name} is active now; {again}"
    if own is not None and active is None:
        return f"{name} runs, but no gateway is active: one takes over in a few seconds; ask again then"
    if own is not None and active is not None:
        seen = f"it showed life {active.silent_s:.0f} s ago"
        return f"{active.name}, which is active, has not answered yet; {seen}: ask again in a few seconds"
    return f"{process} does not answer: it hangs, or was stopped (SIGSTOP){_advise_to_kill(pid)}; see: semel logs"


def _advise_to_kill(pid: int | None) -> str:
    return "" if pid is None else f"; to end it: kill -KILL {pid}, then semel up"


def examine_cluster(gateways: Sequence[ClusterGateway], missing: Sequence[MissingGateway]) -> list[Finding]:
    """Return the findings about the gateways that share a database; none if there is no cluster.

    `gateways`: those that live. `missing`: those that are gone and that sessions wait for.
    """
    if not gateways:
        return []
    active = find_active(gateways)
    text = f"{active.name} is active" if active else "no gateway is active"
    findings = [Finding("cluster", "warning", gone.describe(), "start that gateway again") for gone in missing]
    findings += [
        Finding("cluster", "warning", f"{gateway.name} {describe_silence(gateway, gateways)}")
        for gateway in gateways
        if is_silent(gateway)
    ]
    if len(gateways) == 1 and active is not None:
        remedy = "start semel up on another machine"
        return [Finding("cluster", "warning", f"{text}, and there is no other one", remedy), *findings]
    for state, serves in (("serving, too", True), ("waiting", False)):
        if names := [gateway.name for gateway in gateways if not gateway.is_active and gateway.serves == serves]:
            text = f"{text}; {state}: {', '.join(names)}"
    return [Finding("cluster", "ok" if active else "warning", text), *findings]
