"""The inbox: check an event, find its sessions, commit it, and wake turns and commands (Laws 1, 2).

Every event passes through `EventInbox.hear` or, for chat channels, `channel_inbox`. The caller acknowledges the event
to its source only after the call returns, that is, after the commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.gateway.errors import BadRequest
from semel.gateway.inbound import uploads
from semel.gateway.inbound.commands import MISTYPED, Commands
from semel.gateway.inbound.prompt_content import PromptContent
from semel.gateway.ports import Heard
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import GatewaySettings
from semel.gateway.turns.scheduler import TurnScheduler
from semel.law import identity
from semel.law.commands import AgentMessage
from semel.law.wake import MODES, PERSON_KINDS, Busy, WakeDelay
from semel.ledger.inbound import commands as command_rows
from semel.ledger.inbound import hear as rows
from semel.ledger.inbound import uploads as upload_rows
from semel.text.json_types import Json
from semel.text.wellformed import MAX_NAME_CHARS, one_line, scrub

KIND_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MAX_TEXT_CHARS = 1_000_000  # characters of one event
RESERVED_KINDS = (PERSON_KINDS - {"message"}) | {command_rows.KIND}
"""Kinds of events that only channels and commands create; callers cannot report them."""
RESERVED_FIELDS = frozenset(("address", "from", "group", "mentioned", "of", "title", "at", "platform"))
"""Fields of an event's data that channel_inbox.py sets."""
_NOTHING_WAITS = rows.Addressed(0, None)


@dataclass(eq=False, repr=False)
class EventInbox:
    """Accept events. Wake the `turns` and `commands` of their sessions."""

    record: LedgerAccess
    settings: GatewaySettings
    turns: TurnScheduler
    commands: Commands

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
        content: PromptContent | None = None,
        attached: Sequence[upload_rows.AttachedFile] = (),
    ) -> Heard:
        """Accept one event for one or more sessions. Return after the commit. Raises BadRequest.

        `scope`: the patterns of session keys that the caller may use; None if the caller is the owner. They also limit
        the home of a session that the event creates (`identity.Grant`). `seen`: the rev of the session's view that the
        sender saw. `content`: the content blocks of which `text` was made; their files are stored. `attached`: uploaded
        files that come with the text; NotFound is raised if one is not there. `ports.Inbox.hear` describes the other
        arguments.
        """
        keys = [session] if isinstance(session, str) else list(session)
        if not keys:
            raise BadRequest("session: an event is addressed to at least one session")
        if not KIND_PATTERN.fullmatch(kind):
            raise BadRequest(
                f"kind: {kind[:80]!r} should be 1 to 64 lower-case letters, digits and ._-, like exec.finished"
            )
        if kind in RESERVED_KINDS:
            raise BadRequest(f"kind: {kind!r} stands for what people do; choose another one for an event")
        if busy is not None and busy not in MODES:
            raise BadRequest(f"busy: {str(busy)[:80]!r} is not one of {', '.join(MODES)}")
        if len(text) > MAX_TEXT_CHARS:
            raise BadRequest(f"text: at most {MAX_TEXT_CHARS:,} characters; attach it as a file instead")
        blocks: Sequence[Json] = content.blocks if content is not None else ()
        try:
            text, sender, data, blocks = scrub(text), scrub(sender), scrub(data), scrub(blocks)
        except RecursionError:
            raise BadRequest("data: it is nested too deeply; flatten it") from None
        own_fields = {
            "kind": kind, "text": text, "sender": sender, "data": dict(data or {}), "session": keys,
            "blocks": list(blocks),
        }  # fmt: skip
        fields = {**(data or {}), **own_fields}  # our fields win: `data` cannot replace the text
        if attached:
            fields["files"] = [file.id for file in attached]
        try:
            if key is not None:
                identity.check_event_key(key)
            kind_of_source, _, channel = source.partition(":")
            granted_channel = channel if kind_of_source == "channel" else ""
            grant = None if scope is None else identity.Grant(tuple(scope), granted_channel)
            targets = [self.make_addressee(identity.check_session_key(k), grant) for k in dict.fromkeys(keys)]
            digest = identity.digest_fields({name: fields.get(name) for name in stable})
        except ValueError as error:
            raise BadRequest(str(error)) from None
        sender = one_line(sender, MAX_NAME_CHARS) or None if sender is not None else None
        command = None
        if kind == "message" and not automatic and text.startswith("/"):  # only people give commands
            parsed = await self.commands.read(text, sender, source, keys)
            if isinstance(parsed, AgentMessage):
                if parsed.text != text and content is not None:
                    content = content.without_command(text, parsed.text)
                    blocks = content.blocks
                text, busy = parsed.text, parsed.mode or busy  # type: ignore[assignment]
            else:
                kind, command = command_rows.KIND, parsed
        if command is not None and attached:
            raise BadRequest(f"files: {_describe_command_with_files(*command)}")
        if kind in PERSON_KINDS:
            data = _move_reserved_fields(data, self.commands.people.role_of(source))
        event = rows.Event(
            source=source, key=key, kind=kind, text=text, digest=digest, sender=sender,
            more=({"data": dict(data)} if data else {}) | (content.entry_fields if content is not None else {}) or None,
            wakes=wakes, busy=busy, automatic=automatic, command=command, shown_rev=seen, blocks=blocks,
        )  # fmt: skip
        result = await self._record(event, targets, cursor, attached)
        for addressed in result.addressed:
            self.turns.act_on(addressed)
            if addressed.is_hinted:
                self.commands.kick()
            if addressed.command:
                self.commands.wake(addressed.session)
        other = elsewhere = ""
        if result.status == "conflict":
            other, elsewhere = digest.hex(), await self._find_elsewhere(result.event, keys)
        first = next((addressed for addressed in result.addressed if addressed.waiting is not None), _NOTHING_WAITS)
        return Heard(
            result.event, result.status, result.stored_digest.hex(), other, first.waiting, first.position, first.reason,  # type: ignore[arg-type]
            elsewhere=elsewhere,
        )  # fmt: skip

    async def _record(
        self,
        event: rows.Event,
        targets: Sequence[rows.Addressee],
        cursor: str | None,
        attached: Sequence[upload_rows.AttachedFile],
    ) -> rows.HeardOutcome:
        """Record an event together with its files. Raises BadRequest, NotFound."""
        start = self.turns.idle_start
        try:
            if not attached:
                return await self.record.write(rows.hear, event, targets, cursor, start)
            limit = uploads.MAX_MESSAGE_FILE_BYTES
            return await self.record.write(upload_rows.hear_with_files, event, targets, attached, limit, start)
        except rows.SessionMissing as error:
            raise BadRequest(_describe_reserved_session(error.key)) from None
        except upload_rows.FileNotThere as error:
            raise uploads.explain_file_not_there(error) from None
        except upload_rows.FilesTooLarge as error:
            raise uploads.explain_files_too_large(error) from None

    async def _find_elsewhere(self, event: int, keys: Sequence[str]) -> str:
        """Return the keys of the sessions of an event, joined by ", "; "" if they are `keys`."""
        first_keys = await self.record.read(rows.list_addressed_keys, event)
        return "" if set(first_keys) == set(keys) else ", ".join(first_keys)

    def make_addressee(self, key: str, grant: identity.Grant | None = None) -> rows.Addressee:
        """Return the agent, home and wake policy for a session with this key, as the configuration gives them.

        `grant`: limits the home, for a caller who is not the owner.
        """
        settings = self.settings
        route = self._route(key, grant)
        session_settings = settings.session(key)
        pause = WakeDelay(round(session_settings.wake.debounce_s * 1000), round(session_settings.wake.longest_s * 1000))
        automatic = session_settings.automatic == "wake"
        may_create = route.home == self._route(key).home or not self._is_place(key)
        return rows.Addressee(
            key, route.agent, route.home, session_settings.busy, pause, automatic, self.turns.can_steer(key), may_create
        )

    def _route(self, key: str, grant: identity.Grant | None = None) -> identity.Route:
        settings = self.settings
        return identity.derive_route(key, list(settings.agents), settings.channels, settings.default_agent, grant)

    def _is_place(self, key: str) -> bool:
        """Return whether a message on a channel would create the session with this key.

        Such a session must have the address in its key as its home.
        """
        first, _, rest = key.partition(":")
        channel_settings = self.settings.channels.get(rest.partition(":")[0])
        return channel_settings is not None and first == (channel_settings.agent or self.settings.default_agent)


def _describe_reserved_session(key: str) -> str:
    first, channel, _ = key.split(":", 2)
    return (
        f"session: {key!r} stands for a chat on the channel {channel!r} in which nobody has written yet. "
        f'Report after somebody has, or name the channel in the pattern that allows it, as "{first}:{channel}:*" does'
    )


def _describe_command_with_files(name: str, argument: str) -> str:
    """Return why a command that was given with files is refused."""
    if name != MISTYPED:
        return f"the command /{name} takes no files; send them with a message"
    word, nearest = argument.split()
    return f"there is no command /{word}; did you mean /{nearest}? Commands take no files; //{word} sends them"


def _move_reserved_fields(data: Mapping[str, Any] | None, role: str) -> dict[str, Any]:
    """Return a caller's `data` with reserved fields moved under "given", so that it cannot forge who spoke and where.

    `role`: the caller's role; unless it is owner, it is added under "from".
    """
    kept_fields = {name: value for name, value in (data or {}).items() if name not in RESERVED_FIELDS}
    reserved = {name: value for name, value in (data or {}).items() if name in RESERVED_FIELDS}
    return (
        kept_fields | ({"given": reserved} if reserved else {}) | ({"from": {"role": role}} if role != "owner" else {})
    )
