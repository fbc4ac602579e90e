"""Restart a channel with backoff when its platform connection is lost.

A channel does not reconnect by itself. Its `run` ends when the connection is lost, and the supervisor calls `run`
again. People see the channel's state, the time of its last change, and the last error with secrets removed.
"""

from __future__ import annotations

import logging
import random
import re
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

import structlog

from semel.gateway.clock import Clock
from semel.gateway.file_store import ReceivedFiles
from semel.gateway.files import StoreFailed
from semel.gateway.inbound.refused_requests import RefusedRequests
from semel.gateway.ports import Channel, Denied, Inbox, Offline
from semel.law import retries
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json
from semel.text.wellformed import MAX_NAME_CHARS, shorten_to_line

log = structlog.get_logger("semel.channels")

BACKOFF_RESET_MS = 10_000
"""The backoff starts from the beginning after this long online, if the last delay was not longer."""
DENIED_RETRY_MS = 600_000  # delay before a refused account is tried again
RETRY_AFTER_LIMIT_S = 1_000_000  # 11 days: a platform that asks for so long a wait is not believed, and backoff applies
MAX_LOGGED_FAULTS = 32  # kinds of crashes that are logged with a traceback, once each
ERROR_CHARS = 400  # characters of an error that are shown
SHOWN_OUTCOMES = ("accepted", "duplicate", "conflict", "quarantined")  # event counts that the status shows

State = Literal["starting", "online", "offline", "denied"]


class ChannelStatus:
    """The state of one channel, and the number of its events by outcome since the gateway started. Times are in ms."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.state: State = "starting"
        self.error: str | None = None
        self.error_at: int | None = None
        self.retry_at: int | None = None  # the time of the next `run`
        self.counts: Counter[str] = Counter()
        self._requests = RefusedRequests(clock, channel=name)
        self._clock = clock
        self.since = clock.now()

    def __repr__(self) -> str:
        return f"<ChannelStatus {self.name} {self.state}, {self.counts['accepted']} accepted>"

    def change(self, state: State, error: str | None = None, wait_ms: int | None = None) -> None:
        """Change the state.

        `error`: the new error; None keeps the last one. `wait_ms`: the time until the next `run`.
        """
        now = self._clock.now()
        self.since = now if state != self.state else self.since
        self.state = state
        self.retry_at = None if wait_ms is None else now + wait_ms
        if error is not None:
            self.error, self.error_at = error, now

    def online(self) -> None:
        """Record that the channel is connected and has put all missed events into the inbox."""
        if self.state != "online":
            log.info("channel online", channel=self.name)
        self.change("online")

    def count(self, outcome: str) -> None:
        """Count one event. `outcome`: accepted, duplicate, conflict, quarantined, echo, failed or refused:REASON."""
        self.counts[outcome] += 1

    def note_refused_request(self, reason: str, detail: str) -> None:
        """Count a refused HTTP request, and log it (see `RefusedRequests.note`)."""
        self.count(f"refused:{reason}")
        self._requests.note(reason, detail)

    def note_conflict(self, event: int, key: str | None, sender: str | None) -> None:
        """Log that other content came under the `key` of an event. It was recorded beside the first, which stays."""
        who = {"sender": shorten_to_line(sender, MAX_NAME_CHARS)} if sender else {}
        log.warning("an id came again with other content", channel=self.name, id=key, **who, first=f"e{event}")

    @property
    def refused(self) -> dict[str, int]:
        """How much input was refused since the start, by reason."""
        return {
            name.removeprefix("refused:"): count
            for name, count in sorted(self.counts.items())
            if name.startswith("refused:")
        }

    def json(self) -> Json:
        """Return the status as JSON, without fields that have no value."""
        out: Json = {"name": self.name, "state": self.state, "since": self.since}
        if self.error is not None:
            out |= {"error": self.error, "error_at": self.error_at}
        if self.retry_at is not None:
            out["retry_at"] = self.retry_at
        out["counts"] = {name: self.counts[name] for name in SHOWN_OUTCOMES}
        out["refused"] = self.refused
        if self._requests.last is not None:
            out["last_refused"] = self._requests.last
        return out


@dataclass(eq=False, repr=False)
class ChannelSupervisor:
    """The task that runs one channel and restarts it with backoff."""

    channel: Channel
    inbox: Inbox
    status: ChannelStatus
    files: ReceivedFiles
    clock: Clock
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._secrets = find_secrets(self.channel)
        self._logged: set[str] = set()
        self._losses = 0  # how often in a row the connection was lost
        self._last_wait_ms = 0

    def __repr__(self) -> str:
        return f"<ChannelSupervisor of {self.channel!r}, {self.status!r}>"

    async def run(self) -> None:
        """Run the channel, again after each end, until cancelled."""
        while True:
            try:
                wait_ms = await self._run_once()
            finally:
                await self.files.release()
            await self.clock.sleep(wait_ms / 1000)
            self.status.retry_at = None  # the state stays until the channel reports that it is online

    async def _run_once(self) -> int:
        """Run the channel until it ends. Return the delay before the next run in ms."""
        try:
            await self.channel.run(self.inbox)
            return self._note_loss("its run() ended")
        except Denied as error:
            return self._note_denial(str(error), error.retry_after)
        except Offline as error:
            return self._note_loss(str(error), error.retry_after)
        except (LedgerError, StoreFailed) as error:
            return self._note_loss(str(error))
        except Exception as error:
            return self._note_crash(error)

    def _note_loss(self, reason: str, retry_after: float | None = None) -> int:
        """Set the state to offline. Return the delay before the next run in ms."""
        reset_after_ms = max(BACKOFF_RESET_MS, self._last_wait_ms)
        if self.status.state == "online" and self.clock.now() - self.status.since >= reset_after_ms:
            self._losses = 0
        self._losses += 1
        retry_after_ms = (
            round(retry_after * 1000) if retry_after is not None and 0 < retry_after < RETRY_AFTER_LIMIT_S else None
        )
        wait_ms = retries.retry_delay_ms(self._losses, age=0, jitter=self.jitter(), retry_after=retry_after_ms)
        self._last_wait_ms = wait_ms
        is_new_outage = self.status.state == "online" or self._losses == 1
        reason = self._shown_error(reason) or "its platform was lost"
        self.status.change("offline", reason, wait_ms)
        level = logging.WARNING if is_new_outage else logging.INFO
        log.log(level, "channel offline", channel=self.channel.name, why=reason, again_ms=wait_ms)
        return wait_ms

    def _note_denial(self, reason: str, retry_after: float | None = None) -> int:
        """Set the state to denied. Return the delay before the next run in ms."""
        reason = self._shown_error(reason) or "the platform refuses this account"
        wait_ms = DENIED_RETRY_MS if retry_after is None else round(retry_after * 1000)
        level = logging.INFO if (self.status.state, self.status.error) == ("denied", reason) else logging.ERROR
        self.status.change("denied", reason, wait_ms)
        log.log(level, "channel refused by its platform", channel=self.channel.name, why=reason, again_ms=wait_ms)
        return wait_ms

    def _note_crash(self, error: Exception) -> int:
        """Log a bug in the channel, and set the state to offline. Return the delay before the next run in ms.

        People do not see the error's text, because it may contain a secret, such as a URL with a token.
        """
        last = traceback.extract_tb(error.__traceback__)[-1:]
        kind = f"{type(error).__name__} at {last[0].name}:{last[0].lineno}" if last else type(error).__name__
        if kind not in self._logged and len(self._logged) < MAX_LOGGED_FAULTS:
            self._logged.add(kind)
            trace = "".join(traceback.format_exception(error))
            log.error("a channel failed", channel=self.channel.name, what=kind, trace=self._redact(trace))
        return self._note_loss(f"it failed inside ({type(error).__name__}); see the gateway's log")

    def _shown_error(self, text: str) -> str:
        return shorten_to_line(self._redact(text), ERROR_CHARS)

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


def find_secrets(channel: Channel) -> tuple[str, ...]:
    """Return the secrets to redact in errors, longest first.

    They are the channel's string settings with `repr=False`, and the pieces obtained by splitting them at colons and
    white space, if they have 8 or more characters.
    """
    settings = getattr(channel, "settings", None)
    if not is_dataclass(settings):
        return ()
    hidden = [getattr(settings, field.name, None) for field in fields(settings) if not field.repr]
    secrets = {
        secret
        for value in hidden
        if isinstance(value, str)
        for secret in (value, *re.split(r"[:\s]", value))
        if len(secret) >= 8
    }
    return tuple(sorted(secrets, key=len, reverse=True))
