"""Answer types of the operations on channels."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Counts(Struct):
    """What a channel told of since the gateway started: heard, told again, told otherwise, and of no use."""

    accepted: int
    duplicate: int
    conflict: int
    quarantined: int


class ChannelState(Struct, omit_defaults=True):
    """How a channel fares. Times are milliseconds since the epoch. `error` is the last one, at `error_at`; `retry_at`:
    when it is tried again; `agent` thinks for its sessions; `refused`: what was refused, by reason; `people`: whether
    people have accounts there, so that a code or an account lets somebody in.
    """

    name: str
    safety: str
    agent: str
    state: Literal["starting", "online", "offline", "denied"]
    since: int
    counts: Counts
    refused: dict[str, int]
    kind: str | None = None
    people: bool | None = None
    error: str | None = None
    error_at: int | None = None
    retry_at: int | None = None


class Channels(Struct):
    channels: list[ChannelState]


class Quarantined(Struct, omit_defaults=True):
    """An event that nobody could use. `raw` is what came, as text, or in base64 where `encoding` says so; `cut`: so
    many bytes came, and only the beginning is kept.
    """

    event: int
    channel: str
    why: str
    at: int
    kind: str
    key: str
    raw: str
    encoding: Literal["base64"] | None = None
    cut: int | None = None
    sender: str | None = None
    repeats: int = 0


class Quarantine(Struct):
    quarantined: list[Quarantined]
