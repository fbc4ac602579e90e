"""Judge the state of a channel or a node, as the running gateway reports it, and say what to do about it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from semel.faces.health.finding import Finding
from semel.law.access import REASONS
from semel.text.json_types import Json

UNPROVEN = ("bad-signature", "no-token")
"""Reasons why a request was refused: the codes of the problems with which a sender has not shown who it is."""
REFUSED_SHOWN_MS = 3_600_000


def examine_channel(channel: Json) -> Finding:
    """Return the finding about a channel. `channel`: as in /v1/channels."""
    subject, state = f"channel {channel['name']}", str(channel["state"])
    if state in ("offline", "denied"):
        remedy = f"nothing, if its platform is away: {advise_offline(channel)}"
        if state == "denied":
            remedy = advise_denied(channel)
        return Finding(subject, "broken", f"{state}: {channel.get('error') or 'no reason is known'}", remedy)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(channel["since"] / 1000))
    if (refused := describe_refused(channel)) is not None:
        return Finding(subject, "warning", f"{state} since {since}; {refused}", "see: semel logs")
    return Finding(subject, "ok", f"{state} since {since}")


def describe_refused(channel: Json) -> str | None:
    """Say how many HTTP requests the channel refused, and why; None if it refused none in the last hour.

    `channel`: as in /v1/channels.
    """
    if (text := describe_requests(channel)) is None:
        return None
    is_unproven = channel["last_refused"]["reason"] in UNPROVEN
    return f"{text}. If it was yours, its secret is not this channel's" if is_unproven else text


def describe_requests(sender: Json) -> str | None:
    """Say how many requests were refused since the start, by reason; None if none was in the last hour.

    `sender`: its "refused" and "last_refused" are as in /v1/channels.
    """
    last = sender.get("last_refused")
    if last is None or time.time() * 1000 - last["at"] > REFUSED_SHOWN_MS:
        return None
    counts = {reason: count for reason, count in sender["refused"].items() if reason not in REASONS}
    total = sum(counts.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    moment = time.strftime("%H:%M:%S", time.localtime(last["at"] / 1000))
    requests = f"{total} request{'s were' if total > 1 else ' was'} refused ({reasons}), the last at {moment}"
    return f"{requests}: {last['why'].rstrip('.')}"


def describe_nodes(nodes: Sequence[Json]) -> list[str]:
    """Say of each node of which a request was refused in the last hour how many were, and why.

    `nodes`: "refused_nodes" in /v1/status.
    """
    return [
        f"{node['node'] or 'reports without a valid token'}: {text}"
        for node in nodes
        if (text := describe_requests(node)) is not None
    ]


def examine_nodes(nodes: Sequence[Json]) -> list[Finding]:
    """Return a finding about each node that `describe_nodes` names."""
    return [Finding("nodes", "warning", text, "see: semel logs") for text in describe_nodes(nodes)]


def examine_access(channel: Json) -> Finding:
    """Return the finding about a channel on which nobody may talk. `channel`: as in /v1/channels."""
    text = "nobody may talk there yet: it refuses everybody"
    return Finding(f"channel {channel['name']}", "warning", text, advise_pairing(channel))


def advise_pairing(channel: Json) -> str:
    """Return how to let the first person in on a channel. `channel`: as in /v1/channels."""
    return f"semel pair {channel['name']} --name NAME --role owner"


def advise_offline(channel: Json) -> str:
    """Return what happens by itself to a channel that is offline. `channel`: as in /v1/channels."""
    if channel.get("kind") == "webhook":  # it has no connection besides its attempts to send
        return "each attempt to send tries it again"
    return f"it is tried again by itself{_tell_next_try(channel)}"


def advise_denied(channel: Json) -> str:
    """Return what to do about a channel whose platform refuses the account. `channel`: as in /v1/channels."""
    from semel.faces.service.installation import advise_restart  # only now: it imports all settings

    return (
        f"remove the cause, and {advise_restart()}. By itself it tries every ten minutes{_tell_next_try(channel)}, "
        "with the settings that it has"
    )


def _tell_next_try(channel: Json) -> str:
    retry_at = channel.get("retry_at")
    return time.strftime(" (next at %H:%M:%S)", time.localtime(retry_at / 1000)) if retry_at else ""
