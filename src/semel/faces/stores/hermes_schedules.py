"""Hermes's schedules (`cron/jobs.json`): when they fire, and the chats that they tell.

A job's `deliver` names chats as `cron/scheduler.py` of hermes-agent 0.19.0 reads it: `local`, `origin`, `all`, a
platform, or `PLATFORM:CHAT[:THREAD]`, separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from semel.faces.stores.files import format_interval, format_moment, parse_time
from semel.faces.stores.records import StoredSchedule, chat_key
from semel.text.json_types import Json

FURTHER_CHATS = "further chats that a schedule told"
_HOME = re.compile(r"([A-Z_]+)_HOME_(CHANNEL|ROOM|ADDRESS)(_THREAD_ID)?")
_WITH_THREAD = {
    "telegram": re.compile(r"(-?\d+):(\d+)"),
    "discord": re.compile(r"(-?\d+):(\d+)"),
    "slack": re.compile(r"([CGD][A-Z0-9]{8,}):([^\s:]+)"),
    "matrix": re.compile(r"(.+):(\$.+)"),
}
"""Platform -> how a chat and a thread in it are written."""


class HermesChat(NamedTuple):
    platform: str
    chat: str
    thread: str | None = None

    @property
    def address(self) -> str:
        """The chat's address as Semel writes it."""
        if not self.thread:
            return self.chat
        return f"{self.chat}:topic-{self.thread}" if self.platform == "telegram" else f"{self.chat}:{self.thread}"


def find_homes(assignments: Iterable[tuple[str, str]]) -> dict[str, HermesChat]:
    """Return the chat that each platform has for what names none, by the platform. `assignments`: of `.env`."""
    values = {match.groups(): value for name, value in assignments if value and (match := _HOME.fullmatch(name))}
    return {
        platform.lower(): HermesChat(platform.lower(), chat, values.get((platform, setting, "_THREAD_ID")))
        for (platform, setting, is_thread), chat in values.items()
        if not is_thread
    }


def list_chats(job: Json, homes: dict[str, HermesChat]) -> list[HermesChat]:
    """Return the chats that a job tells, each once. `homes`: as `find_homes` returns them."""
    deliver, origin_fields = job.get("deliver"), job.get("origin")
    parts = deliver if isinstance(deliver, list) else str(deliver or "").split(",")
    origin = None
    if isinstance(origin_fields, dict) and origin_fields.get("platform") and origin_fields.get("chat_id"):
        platform, chat_id, thread = (origin_fields.get(name) for name in ("platform", "chat_id", "thread_id"))
        origin = HermesChat(str(platform), str(chat_id), str(thread) if thread else None)
    chats = [chat for part in parts for chat in _resolve_target(str(part).strip(), origin, homes)]
    return list(dict.fromkeys(chats))


def _resolve_target(target: str, origin: HermesChat | None, homes: dict[str, HermesChat]) -> Iterator[HermesChat]:
    """Yield the chats that one part of `deliver` names."""
    platform, colon, chat = target.partition(":")
    if colon and chat:
        form = _WITH_THREAD.get(platform.lower())
        match = form.fullmatch(chat) if form else None
        yield HermesChat(platform.lower(), *match.groups()) if match else HermesChat(platform.lower(), chat)
    elif target == "all":
        yield from homes.values()
    elif origin is not None and target in ("origin", origin.platform):
        yield origin
    elif target == "origin":
        yield from list(homes.values())[:1]
    elif target in homes:
        yield homes[target]


def parse_schedule(job: Json, zone: str, chats: list[HermesChat]) -> StoredSchedule:
    """Return a schedule. Raises ValueError, TypeError or OverflowError if Semel has no such schedule.

    `zone`: in which a cron expression is meant. `chats`: those that the job tells; the schedule asks in the first one.
    """
    timing = job["schedule"]
    common: Json = {
        "name": str(job.get("name") or job.get("id") or "job"), "text": str(job["prompt"]),
        "session": chat_key(chats[0].platform, chats[0].address) if chats else None,
        "enabled": job.get("enabled") is not False,
    }  # fmt: skip
    at = parse_time(timing.get("run_at"))
    match timing.get("kind"):
        case "cron" if timing.get("expr"):
            return StoredSchedule(**common, form="cron", spec=str(timing["expr"]), tz=zone)
        case "interval" if timing.get("minutes"):
            return StoredSchedule(**common, form="every", spec=format_interval(60 * int(timing["minutes"])), tz="UTC")
        case "once" if at is not None:
            return StoredSchedule(**common, form="at", spec=format_moment(at), tz="UTC")
    raise ValueError("it is of an unknown kind")
