"""The receiving side of all channels: an inbox, a supervisor and a status for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.files import Copies
from semel.gateway.inbound.channel_inbox import AccessPolicy, InboxOf
from semel.gateway.inbound.channel_supervisor import OUTCOMES, ChannelStatus, ChannelSupervisor
from semel.gateway.inbound.inbox import Inbox
from semel.gateway.inbound.received_files import ReceivedFiles
from semel.gateway.metric import format_labelled_metric
from semel.gateway.ports import Channel
from semel.ledger.inbound import channel_batch as rows

Json = dict[str, Any]


class ChannelManager:
    """Runs all channels. Call `start` after everything else has started; cancel the tasks it returns to stop."""

    def __init__(
        self, inbox: Inbox, channels: Mapping[str, Channel], people: AccessPolicy, blobs: Path, copies: Copies,
        clock: Clock,
        *, gone: Callable[[], None], kick: Callable[[], None],
    ) -> None:  # fmt: skip
        self.inbox = inbox
        self.channels = channels
        self.clock = clock
        self.status = {name: ChannelStatus(name, clock) for name in channels}
        self.inboxes = {
            name: InboxOf(
                inbox, name, people, ReceivedFiles(inbox.record, blobs, copies, gone), self.status[name], kick,
                tuple(channels), channel.caps.numbered,
            )
            for name, channel in channels.items()
        }  # fmt: skip

    def __repr__(self) -> str:
        online = sum(one.state == "online" for one in self.status.values())
        return f"<Hearing {online} of {len(self.status)} channels online>"

    async def clean(self) -> None:
        """Release files that a dead gateway stored for messages it never put. Call it before any channel runs."""
        await self.inbox.record.write(rows.release_unclaimed_files)

    def doubt(self, until: int) -> None:
        """Mark events up to this time (ms) as possibly answered before the ledger was restored (Law 14)."""
        for inbox in self.inboxes.values():
            inbox.doubtful_until = until

    def start(self) -> list[asyncio.Task[None]]:
        """Start every channel under a supervisor and return the tasks."""
        return [asyncio.create_task(self._keeper(name).run(), name=f"channel {name}") for name in self.channels]

    def _keeper(self, name: str) -> ChannelSupervisor:
        inbox = self.inboxes[name]
        return ChannelSupervisor(self.channels[name], inbox, self.status[name], inbox.receiving, self.clock)

    def list(self) -> list[Json]:
        """Every channel: {"name", "kind"?, "safety", "agent", "state", "since", "error"?, "counts", ...}."""
        return [self._one(name) for name in self.channels]

    def _one(self, name: str) -> Json:
        settings, fares = self.inbox.settings, self.status[name].json()
        own = settings.channels.get(name)
        told = {"kind": own.kind, "people": own.people} if own is not None else {}
        agent = (own.agent if own is not None else None) or settings.default_agent
        safety = str(self.channels[name].caps.safety)
        return {"name": fares.pop("name"), **told, "safety": safety, "agent": agent, **fares}

    def metrics(self) -> dict[str, float]:
        """The channels' metrics by Prometheus name, including labels."""
        out: dict[str, float] = {}
        for name, status in self.status.items():
            out[format_labelled_metric("semel_channel_online", channel=name)] = float(status.state == "online")
            for outcome in OUTCOMES:
                key = format_labelled_metric("semel_channel_events_total", channel=name, outcome=outcome)
                out[key] = float(status.counts[outcome])
            out[format_labelled_metric("semel_parts_failed_total", channel=name)] = float(status.counts["failed"])
        return out
