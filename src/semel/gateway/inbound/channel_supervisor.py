"""Restart a channel with backoff when its platform connection is lost.

A channel does not reconnect by itself: its `run` ends when the connection is lost, and the supervisor calls it again.
People see one state per channel, its start, and the last error with secrets removed.
"""

from __future__ import annotations

import dataclasses
import random
import re
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, Protocol

import structlog

from semel.gateway.clock import Clock
from semel.gateway.files import StoreFailed
from semel.gateway.ports import Channel, Denied, Inbox, Offline
from semel.law import retry_delay
from semel.ledger.storage.errors import LedgerError
from semel.text.shorten import shorten_to_line

log = structlog.get_logger("semel.channels")

BACKOFF_RESET_MS = 60_000  # after this long online, the backoff starts from the beginning
DENIED_RETRY_MS = 600_000  # delay before a refused account is tried again
MAX_LOGGED_FAULTS = 32  # kinds of crashes that are logged with a traceback, once each
ERROR_CHARS = 400  # characters of an error that are shown
OUTCOMES = ("accepted", "duplicate", "conflict", "quarantined")  # event counts that the status shows

State = Literal["starting", "online", "offline", "denied"]
Json = dict[str, Any]


class RunCleanup(Protocol):
    """Cleans up after a run of the channel (implemented by `received_files.ReceivedFiles`)."""

    async def end(self) -> None: ...


class ChannelStatus:
    """The state and counts of one channel since the gateway started. Times are milliseconds since the epoch."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.state: State = "starting"
        self.error: str | None = None
        self.error_at: int | None = None
        self.retry_at: int | None = None  # when it is run again
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self.since = clock.now()

    def __repr__(self) -> str:
        return f"<Status {self.name} {self.state}, {self.counts['accepted']} accepted>"

    def become(self, state: State, error: str | None = None, wait: int | None = None) -> None:
        """Change the state. `wait`: milliseconds until the channel is run again."""
        now = self._clock.now()
        self.since = now if state != self.state else self.since
        self.state = state
        self.retry_at = None if wait is None else now + wait
        if error is not None:
            self.error, self.error_at = error, now

    def online(self) -> None:
        """Note that the channel is connected and has put what it missed."""
        if self.state != "online":
            log.info("channel online", channel=self.name)
        self.become("online")

    def count(self, what: str) -> None:
        """Count one event: accepted, duplicate, conflict, quarantined, echo, failed, or refused:REASON."""
        self.counts[what] += 1

    def refused(self) -> dict[str, int]:
        """The number of refused events by reason."""
        return {what.partition(":")[2]: n for what, n in sorted(self.counts.items()) if what.startswith("refused:")}

    def json(self) -> Json:
        """The status as JSON; fields without a value are left out."""
        out: Json = {"name": self.name, "state": self.state, "since": self.since}
        if self.error is not None:
            out |= {"error": self.error, "error_at": self.error_at}
        if self.retry_at is not None:
            out["retry_at"] = self.retry_at
        out["counts"] = {name: self.counts[name] for name in OUTCOMES}
        return {**out, "refused": self.refused()}


class ChannelSupervisor:
    """Runs one channel until cancelled, restarting it with backoff."""

    def __init__(
        self, channel: Channel, inbox: Inbox, status: ChannelStatus, files: RunCleanup, clock: Clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self.channel = channel
        self.inbox = inbox
        self.status = status
        self.files = files
        self.clock = clock
        self._jitter = jitter
        self._secrets = secrets_of(channel)
        self._told: set[str] = set()
        self._losses = 0  # in a row

    def __repr__(self) -> str:
        return f"<Keeper of {self.channel!r}, {self.status!r}>"

    async def run(self) -> None:
        """Run the channel again and again until cancelled."""
        while True:
            try:
                wait = await self._once()
            finally:
                await self.files.end()
            await self.clock.sleep(wait / 1000)
            self.status.retry_at = None  # the state stays until the channel reports that it is online

    async def _once(self) -> int:
        """Run the channel once, to its end. Returns the delay before the next run in ms."""
        try:
            await self.channel.run(self.inbox)
            return self._lost("its run ended by itself")
        except Denied as no:
            return self._denied(str(no))
        except Offline as lost:
            return self._lost(str(lost), lost.retry_after)
        except (LedgerError, StoreFailed) as fault:
            return self._lost(str(fault))
        except Exception as fault:
            return self._crashed(fault)

    def _lost(self, why: str, retry_after: float | None = None) -> int:
        if self.status.state == "online" and self.clock.now() - self.status.since >= BACKOFF_RESET_MS:
            self._losses = 0
        self._losses += 1
        asked = round(retry_after * 1000) if retry_after is not None and 0 < retry_after < 10**6 else None
        wait = retry_delay.retry_delay_ms(self._losses, age=0, jitter=self._jitter(), retry_after=asked)
        fresh = self.status.state == "online" or self._losses == 1
        why = self._shown(why) or "its platform was lost"
        self.status.become("offline", why, wait)
        log.log(30 if fresh else 20, "channel offline", channel=self.channel.name, why=why, again_ms=wait)
        return wait

    def _denied(self, why: str) -> int:
        why = self._shown(why) or "the platform refuses this account"
        self.status.become("denied", why, DENIED_RETRY_MS)
        log.error("channel refused by its platform", channel=self.channel.name, why=why, again_ms=DENIED_RETRY_MS)
        return DENIED_RETRY_MS

    def _crashed(self, fault: Exception) -> int:
        """Handle a bug in the channel. Its text is not shown to people: it may hold a secret (a URL with a token)."""
        last = traceback.extract_tb(fault.__traceback__)[-1:]
        kind = f"{type(fault).__name__} at {last[0].name}:{last[0].lineno}" if last else type(fault).__name__
        if kind not in self._told and len(self._told) < MAX_LOGGED_FAULTS:
            self._told.add(kind)
            whole = "".join(traceback.format_exception(fault))
            log.error("a channel failed", channel=self.channel.name, what=kind, trace=self._redacted(whole))
        return self._lost(f"it failed inside ({type(fault).__name__}); the gateway's log tells more")

    def _shown(self, text: str) -> str:
        return shorten_to_line(self._redacted(text), ERROR_CHARS)

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


def secrets_of(channel: Channel) -> tuple[str, ...]:
    """Secrets to redact: the string settings with `repr=False`, and their parts of 8 or more characters."""
    settings = getattr(channel, "settings", None)
    if not dataclasses.is_dataclass(settings):
        return ()
    hidden = [getattr(settings, field.name, None) for field in dataclasses.fields(settings) if not field.repr]
    found = {
        each for one in hidden if isinstance(one, str) for each in (one, *re.split(r"[:\s]", one)) if len(each) >= 8
    }
    return tuple(sorted(found, key=len, reverse=True))
