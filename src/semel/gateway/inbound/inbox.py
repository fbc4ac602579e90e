"""The inbox: validate an event, resolve its sessions, commit it, and trigger what follows (Laws 1, 2).

Every event passes through `Inbox.hear` or, for chat channels, `channel_inbox`. The caller acknowledges the event to its
source only after the call returns, that is, after the commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from semel.gateway.errors import BadRequest
from semel.gateway.inbound.commands import Commands
from semel.gateway.ports import Heard
from semel.gateway.settings import GatewaySettings
from semel.gateway.transactions import Record
from semel.law import identity
from semel.law.busy import MODES, Busy
from semel.law.commands import Message
from semel.law.wake import Pause
from semel.ledger.inbound import commands as command_rows
from semel.ledger.inbound import hear as rows
from semel.text.wellformed import MAX_NAME_CHARS, one_line, scrub

KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TEXT_LIMIT = 1_000_000  # characters of one event
RESERVED_KINDS = (rows.PERSON_KINDS - {"message"}) | {
    command_rows.KIND
}  # kinds for what people do; callers cannot report them
RESERVED_FIELDS = frozenset(
    {"address", "from", "group", "mentioned", "of", "title", "at", "platform"}
)  # set by channel_inbox.py
_AT_ONCE = rows.Addressed(0, None)


class TurnDispatcher(Protocol):
    """The scheduler of turns, as the inbox uses it (implemented by `Turns`)."""

    def heed(self, heard: rows.Addressed) -> None:
        """Act on an event's outcome in one session: wake it, steer or interrupt its turn, or do nothing."""

    def steers(self, key: str) -> bool:
        """Whether a message can join (steer) the session's running turn now."""


class Inbox:
    """Accepts events, and tells `turns` and `commands` what to do about each of them."""

    def __init__(self, record: Record, settings: GatewaySettings, turns: TurnDispatcher, commands: Commands) -> None:
        self.record = record
        self.settings = settings
        self.turns = turns
        self.commands = commands

    async def hear(
        self,
        *,
        source: str,
        session: str | Sequence[str],
        key: str | None,
        text: str,
        kind: str = "message",
        sender: str | None = None,
        data: Mapping[str, Any] | None = None,
        stable: Sequence[str] = ("text",),
        wakes: bool | None = None,
        cursor: str | None = None,
        busy: Busy | None = None,
        automatic: bool = False,
        scope: Sequence[str] | None = None,
        seen: int | None = None,
    ) -> Heard:
        """Accept one event for one or more sessions and return after the commit. Raises BadRequest.

        `scope`: the patterns of session keys granted to a caller who is not the owner (None: the owner). They also
        limit the home of a session that the event creates (`identity.Grant`).
        `seen`: the rev of the session's view that the writer saw.
        """
        keys = [session] if isinstance(session, str) else list(session)
        if not keys:
            raise BadRequest("session: an event is addressed to at least one session")
        if not KIND.fullmatch(kind):
            raise BadRequest(
                f"kind: {kind[:80]!r} should be 1 to 64 lower-case letters, digits and ._-, like exec.finished"
            )
        if kind in RESERVED_KINDS:
            raise BadRequest(f"kind: {kind!r} is the kind of what people do; choose another one for an event")
        if busy is not None and busy not in MODES:
            raise BadRequest(f"busy: {str(busy)[:80]!r} is not one of {', '.join(MODES)}")
        if len(text) > TEXT_LIMIT:
            raise BadRequest(f"text: at most {TEXT_LIMIT:,} characters; send a file instead")
        try:
            text, sender, data = scrub(text), scrub(sender), scrub(data)
        except RecursionError:
            raise BadRequest("data: it is nested too deeply; flatten it") from None
        told = {"kind": kind, "text": text, "sender": sender, "data": dict(data or {}), "session": keys}
        fields = {**(data or {}), **told}  # our fields win: `data` cannot replace the text
        try:
            if key is not None:
                identity.check_event_key(key)
            grant = None if scope is None else identity.Grant(tuple(scope), _channel(source))
            targets = [self.target(identity.check_session_key(k), grant) for k in dict.fromkeys(keys)]
            digest = identity.digest({name: fields.get(name) for name in stable})
        except ValueError as bad:
            raise BadRequest(str(bad)) from None
        sender = one_line(sender, MAX_NAME_CHARS) or None if sender is not None else None
        command = None
        if kind == "message" and not automatic and text.startswith("/"):  # only people give commands
            said = await self.commands.read(text, sender, source, keys)
            if isinstance(said, Message):
                text, busy = said.text, said.mode or busy  # type: ignore[assignment]
            else:
                kind, command = command_rows.KIND, said
        if kind in rows.PERSON_KINDS:
            data = _move_reserved_fields(data, await self.commands.deeds.people.role_of(source))
        event = rows.Event(
            source=source, key=key, kind=kind, text=text, digest=digest, sender=sender, more=_more(data),
            wakes=wakes, busy=busy, automatic=automatic, command=command, seen=seen,
        )  # fmt: skip
        try:
            done = await self.record.write(rows.hear, event, targets, cursor)
        except rows.SessionMissing as no:
            raise BadRequest(_describe_reserved_session(no.key)) from None
        for one in done.addressed:
            self.turns.heed(one)
            if one.command:
                self.commands.heed(one.session)
        other = digest.hex() if done.status == "conflict" else ""
        first = next((one for one in done.addressed if one.waiting is not None), _AT_ONCE)
        return Heard(
            done.event, done.status, done.first.hex(), other, first.waiting, first.place, first.why  # type: ignore[arg-type]
        )  # fmt: skip

    def target(self, key: str, grant: identity.Grant | None = None) -> rows.To:
        """The agent, home and wake policy of the session with this key, or that a new one gets from this `grant`."""
        s = self.settings
        route = self._route(key, grant)
        own = s.session(key)
        pause = Pause(round(own.debounce * 1000), round(own.max_wait * 1000))
        makes = route.home == self._route(key).home or not self._is_place(key)
        return rows.To(key, route.agent, route.home, own.busy, pause, own.automatic, self.turns.steers(key), makes)

    def _route(self, key: str, grant: identity.Grant | None = None) -> identity.Route:
        s = self.settings
        return identity.route(key, list(s.agents), s.channels, s.default_agent, grant)

    def _is_place(self, key: str) -> bool:
        """Whether this is the session key of a room on a channel. With another home, nobody there would be answered."""
        first, _, rest = key.partition(":")
        own = self.settings.channels.get(rest.partition(":")[0])
        return own is not None and first == (own.agent or self.settings.default_agent)


def _channel(source: str) -> str:
    """The channel name of a source `channel:NAME`; "" for other sources."""
    kind, _, name = source.partition(":")
    return name if kind == "channel" else ""


def _describe_reserved_session(key: str) -> str:
    first, channel, _ = key.split(":", 2)
    return (
        f"session: {key!r} is the session of a place on the channel {channel!r}, and nobody has spoken there yet. "
        f'Report once somebody has, or name the channel in the pattern that allows it, as "{first}:{channel}:*" does'
    )


def _move_reserved_fields(data: Mapping[str, Any] | None, role: str) -> dict[str, Any]:
    """Move reserved fields of a caller's `data` under "given", so that they cannot forge who spoke and where."""
    told = {name: value for name, value in (data or {}).items() if name not in RESERVED_FIELDS}
    given = {name: value for name, value in (data or {}).items() if name in RESERVED_FIELDS}
    return told | ({"given": given} if given else {}) | ({"from": {"role": role}} if role != "owner" else {})


def _more(data: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {"data": dict(data)} if data else None
