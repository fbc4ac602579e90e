"""The receiving side of all channels: an inbox, a supervisor and a status for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from semel.gateway.clock import Clock
from semel.gateway.file_store import FileStore, ReceivedFiles
from semel.gateway.inbound.admission import AccountDirectory
from semel.gateway.inbound.channel_inbox import ChannelInbox
from semel.gateway.inbound.channel_supervisor import SHOWN_OUTCOMES, ChannelStatus, ChannelSupervisor
from semel.gateway.inbound.inbox import EventInbox
from semel.gateway.ports import Channel
from semel.ledger.inbound import channel_batch as rows
from semel.text.json_types import Json

RECEIVING_MS = 3_600_000  # a gateway beside this one receives a message with its files in less time


class ChannelManager:
    """The inboxes and the status of all channels. Run its `supervisors` after everything else has started."""

    def __init__(
        self, inbox: EventInbox, channels: Mapping[str, Channel], people: AccountDirectory, store: FileStore,
        clock: Clock, kick: Callable[[], None],
    ) -> None:  # fmt: skip
        self.inbox = inbox
        self.channels = channels
        self.people = people
        self.clock = clock
        self.status = {name: ChannelStatus(name, clock) for name in channels}
        self.inboxes = {
            name: ChannelInbox(
                inbox, name, people, ReceivedFiles(inbox.record, store), self.status[name], kick,
                tuple(channels), channel.caps.numbered, channel.caps.button_reactions,
            )
            for name, channel in channels.items()
        }  # fmt: skip

    def __repr__(self) -> str:
        online = sum(status.state == "online" for status in self.status.values())
        return f"<ChannelManager {online} of {len(self.status)} channels online>"

    async def release_unheard_files(self, *, is_alone: bool) -> None:
        """Release files whose messages never reached an inbox before the last gateway ended.

        Call this before a channel runs. `is_alone`: no other gateway can be receiving files now.
        """
        await self.inbox.record.write(rows.release_unclaimed_files, 0 if is_alone else RECEIVING_MS)

    def doubt_events(self, until: int) -> None:
        """Let events up to `until` (ms) be recorded without effect: they may have been answered already (Law 14).

        `until`: when the ledger was last restored from a backup.
        """
        for inbox in self.inboxes.values():
            inbox.doubtful_until = until

    def make_supervisors(self) -> dict[str, ChannelSupervisor]:
        """Make a supervisor for each channel, by the channel's name."""
        return {
            name: ChannelSupervisor(self.channels[name], inbox, self.status[name], inbox.received_files, self.clock)
            for name, inbox in self.inboxes.items()
        }

    def list(self) -> list[Json]:
        """Describe each channel: {"name", "kind"?, "safety", "agent", "state", "since", "closed"?, "error"?, ...}."""
        return [self._describe(name) for name in self.channels]

    def _describe(self, name: str) -> Json:
        settings, status = self.inbox.settings, self.status[name].json()
        channel_settings = settings.channels.get(name)
        configured: Json = (
            {"kind": channel_settings.kind, "people": channel_settings.people} if channel_settings is not None else {}
        )
        agent = (channel_settings.agent if channel_settings is not None else None) or settings.default_agent
        if channel_settings is not None and self.people.is_closed(name):
            configured["closed"] = True
        safety = str(self.channels[name].caps.safety)
        return {"name": status.pop("name"), **configured, "safety": safety, "agent": agent, **status}

    def metrics(self) -> dict[str, float]:
        """Return the metrics of all channels for Prometheus, by name with labels."""
        out: dict[str, float] = {}
        for name, status in self.status.items():
            out[f'semel_channel_online{{channel="{name}"}}'] = float(status.state == "online")
            for outcome in SHOWN_OUTCOMES:
                metric = f'semel_channel_events_total{{channel="{name}",outcome="{outcome}"}}'
                out[metric] = float(status.counts[outcome])
            out[f'semel_parts_failed_total{{channel="{name}"}}'] = float(status.counts["failed"])
            for reason, count in status.refused.items():
                out[f'semel_refused_total{{channel="{name}",reason="{reason}"}}'] = float(count)
        return out
