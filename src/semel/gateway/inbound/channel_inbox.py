"""The inbox of one channel (`ports.Inbox`): check, authorize and record its events with their cursor (Law 1).

A batch of events and the cursor after it are committed in one transaction. No input makes `put` fail: an unusable event
is stored raw in quarantine, and the cursor moves on. Events of senders who may not speak leave no row.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from semel.gateway.file_store import ReceivedFiles
from semel.gateway.files import plain_mime, plain_name
from semel.gateway.inbound.admission import AccountDirectory, Verdict
from semel.gateway.inbound.channel_supervisor import ChannelStatus
from semel.gateway.inbound.commands import GREET
from semel.gateway.inbound.inbox import MAX_TEXT_CHARS, EventInbox
from semel.gateway.ports import Heard, Incoming, Kept, Missing, Person, press_key
from semel.law import identity
from semel.law.answer_emoji import is_number
from semel.law.commands import AgentMessage
from semel.law.wake import Busy
from semel.ledger.delivery import buttons, parts
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.inbound import commands as command_rows
from semel.ledger.inbound import delivery_reports, hear
from semel.ledger.inbound.references import Reference
from semel.ledger.transcript import entries
from semel.text.json_types import Json
from semel.text.wellformed import MAX_NAME_CHARS, MAX_REASON_CHARS, one_line, scrub

MAX_ADDRESS_BYTES = 120  # bytes of UTF-8
MAX_RAW_BYTES = 8_000_000  # bytes kept of a quarantined event
YEAR_10000 = 253_402_300_800  # seconds since the epoch
KINDS = ("message", "edit", "delete", "reaction", "echo", "failed", "unreadable")


@dataclass
class _PreparedBatch:
    """A batch that is ready to be recorded. `files`: the blob ids of all its events.

    `unused`: those files that belong to refused or unusable events.
    """

    items: list[rows.Item] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


class ChannelInbox:
    """The implementation of `ports.Inbox` for one channel. The source of all its events is `channel:NAME`."""

    def __init__(
        self, inbox: EventInbox, channel: str, people: AccountDirectory, received_files: ReceivedFiles,
        status: ChannelStatus, kick: Callable[[], None],
        channels: Collection[str] = (), numbered: bool = False, button_reactions: bool = False,
    ) -> None:  # fmt: skip
        """Connect the inbox of a channel. `kick`: wakes the outbox.

        `numbered`, `button_reactions`: as in the channel's `Caps`. `channels`: the channels that can send a notice
        about a failed message.
        """
        self.received_files = received_files
        self._inbox = inbox
        self._channel = channel
        self._source = f"channel:{channel}"
        self._people = people
        self._status = status
        self._kick = kick
        self._channels = tuple(channels)
        self._numbered = numbered
        self._button_reactions = button_reactions
        self.doubtful_until = 0  # ms: events up to then may have been answered before a restore (Law 14)

    async def cursor(self) -> str | None:
        """Return the saved sync cursor (see `ports.Inbox.cursor`)."""
        return await self._inbox.record.read(lambda tx: tx.value(str, "cursor_get", source=self._source))

    async def known(self, sender: Person, group: str = "") -> bool:
        """Return whether this person may speak here (see `ports.Inbox.known`)."""
        return await self._people.may_speak(self._channel, sender, group)

    async def may_invite(self, sender: Person) -> bool:
        """Return whether to accept this person's invitation (see `ports.Inbox.may_invite`)."""
        return await self._people.may_invite(self._channel, sender)

    async def has_heard(self, key: str) -> bool:
        """Return whether an event with this key is recorded (see `ports.Inbox.has_heard`)."""
        return await self._inbox.record.read(lambda tx: tx.exists("event_known", source=self._source, key=key))

    @asynccontextmanager
    async def lend_file(self, key: str, address: str) -> AsyncGenerator[Path | None]:
        """Lend the file of a part that left for an address (see `ports.Inbox.lend_file`)."""
        dest = f"{self._channel}:{address}"
        try:
            id = await self._inbox.record.read(lambda tx: parts.find_file(tx, key, dest))
        except parts.NoSuchPart as error:
            raise LookupError(str(error)) from None
        with ExitStack() as until_read:
            lent = None if id is None else self.received_files.store.content.lend(id)
            yield None if lent is None else await asyncio.to_thread(until_read.enter_context, lent)

    def online(self) -> None:
        """Record that the channel is connected (see `ports.Inbox.online`)."""
        self._status.online()

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        """Store a received file (see `ports.Inbox.keep`)."""
        return await self.received_files.keep(name, mime, content, limit)

    async def hear(self, **event: Any) -> Heard:
        """Accept one event from a program (see `ports.Inbox.hear`)."""
        outcome = await self._inbox.hear(source=self._source, **{"scope": (), **event})
        self._status.count(outcome.status)
        if outcome.status == "conflict":
            self._status.note_conflict(outcome.event, event.get("key"), event.get("sender"))
        return outcome

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        """Accept a batch of events and save the cursor after it (see `ports.Inbox.put`)."""
        batch = _PreparedBatch()
        for event in events:
            await self._read_event(event, batch)
        record = self._inbox.record
        with self.received_files.store:  # prevents the removal of the batch's files
            results = await record.write(
                rows.record_batch, self._channel, self._source, batch.items, scrub(cursor), batch.unused,
                self._channels, self._inbox.turns.idle_start,
            )  # fmt: skip
        if batch.files:
            self.received_files.let_go(batch.files)
            self.received_files.store.unused.set()
        for result in results:
            self._status.count(result.status)
            if result.addressed is not None:
                self._inbox.turns.act_on(result.addressed)
                if result.addressed.command:
                    self._inbox.commands.wake(result.addressed.session)
        if any(result.is_to_send for result in results):
            self._kick()

    # ------------------------------------------------------------ reading one event

    async def _read_event(self, event: Incoming, batch: _PreparedBatch) -> None:
        """Check and authorize one event, and add it to the batch in the form in which it is recorded.

        Raises LedgerError.
        """
        event = _as_incoming(event)
        files = _stored_file_ids(event.files)
        batch.files += files
        problem = _find_wrong_type(event)
        if problem is None:
            read = await self._read_press(_scrub_event(event), batch)
            if read is None:
                self._status.count("duplicate")
                return
            event = read
        verdict = Verdict() if problem is not None else await self._people.judge(self._channel, event)
        if verdict.refused is not None:
            self._status.count(f"refused:{verdict.refused}")
            batch.unused += files
            return
        if problem is None and 0 < event.at * 1000 <= self.doubtful_until:  # perhaps answered already: only record it
            verdict = replace(verdict, wakes=False, command=None)
        if problem is None and event.kind == "echo" and event.of:
            if event.sender is None or await self._is_part_for(event.address, event.key):
                batch.items.append(rows.OwnMessageReport(scrub(event.key), str(event.of)))
            return
        session = self._session_key(event) if problem is None and event.kind != "failed" else ""
        problem = problem or _why_unusable(event, session)
        if problem is not None:
            batch.items.append(self._quarantine(event, problem))
            batch.unused += files
            return
        if event.kind == "failed":
            await self._read_failure(event, batch)
            return
        batch.items.append(await self._read_message(event, verdict, session))

    async def _read_press(self, event: Incoming, batch: _PreparedBatch) -> Incoming | None:
        """Return the answer for which a reaction stands (`Caps.button_reactions`); any other event as it is.

        Return None for a repeat of an answer whose request was erased: only its key is known (Law 1). The message that
        it is a reaction to may be known only from an echo before it in this batch. Raises LedgerError.
        """
        is_person = event.sender is not None and not event.sender.bot
        if not self._button_reactions or not is_person or event.kind != "reaction" or event.removed or not event.of:
            return event
        echoes = (item for item in batch.items if isinstance(item, rows.OwnMessageReport) and item.id == event.of)
        echo = next(echoes, None)
        key = echo.key if echo is not None else None
        session = self._session_key(event)
        dest = f"{self._channel}:{event.address}"
        answer = await self._inbox.record.read(buttons.find_answer, dest, session, event.of, key, event.text)
        if answer == "" and await self._was_press(event, event.of):
            return None
        if not answer:
            return event
        return replace(event, kind="message", key=press_key(answer, event.of, event.key), text=answer, mentioned=True)

    async def _was_press(self, reaction: Incoming, message: str) -> bool:
        """Return whether a reaction was heard as an answer. All answers to a question have one key."""
        if await self.has_heard(press_key("/", message, reaction.key)):
            return True
        return is_number(reaction.text) and await self.has_heard(press_key("", message, reaction.key))

    async def _is_part_for(self, address: str, key: str) -> bool:
        return await self._inbox.record.read(parts.is_for, key, f"{self._channel}:{address}")

    async def _read_failure(self, report: Incoming, batch: _PreparedBatch) -> None:
        """Add a failure report to the batch: a message failed after the platform had accepted it.

        A report about a message that Semel did not send may be forged, so it counts towards the hourly limit of
        unreadable events.
        """
        of = str(report.of)
        if not await self._inbox.record.read(delivery_reports.is_known, self._channel, self._source, report.key, of):
            verdict = await self._people.judge(self._channel, Incoming("unreadable", report.key))
            if verdict.refused is not None:
                self._status.count(f"refused:{verdict.refused}")
                return
        data = {"of": of, "at": _event_time_ms(report), "platform": scrub(dict(report.data))}
        event = hear.Event(
            source=self._source, key=report.key, kind=report.kind, text=_shorten(report.text,
            MAX_REASON_CHARS) or "no reason was given",
            digest=_digest_event(report), more={"data": _drop_empty(data)}, wakes=False,
        )  # fmt: skip
        batch.items.append(rows.DeliveryFailureReport(event, of))

    def _session_key(self, event: Incoming) -> str:
        """Return the key of the session for the event's address."""
        settings = self._inbox.settings
        channel_settings = settings.channels.get(self._channel)
        agent = (channel_settings.agent if channel_settings is not None else None) or settings.default_agent
        return f"{agent}:{self._channel}:{identity.escape_address(event.address)}"

    async def _read_message(self, incoming: Incoming, verdict: Verdict, session: str) -> rows.MessageItem:
        sender = incoming.sender or Person("")
        text, name = verdict.text or incoming.text, verdict.person or _shorten(sender.name or sender.id)
        kind, command = incoming.kind, verdict.command
        busy: Busy | None = None
        may_command = incoming.kind == "message" and not sender.bot and verdict.wakes is not False
        if command is None and may_command and incoming.opens:
            command = GREET, _greet(verdict.person, session)
        elif command is None and may_command and text.startswith("/"):
            parsed = await self._inbox.commands.read(
                text, name, self._source, [session], role=verdict.role, person=verdict.person, direct=not incoming.group
            )
            if isinstance(parsed, AgentMessage):
                text, busy = parsed.text, parsed.mode  # type: ignore[assignment]
            else:
                command = parsed
        event = hear.Event(
            source=self._source, key=incoming.key, kind=command_rows.KIND if command is not None else kind, text=text,
            digest=_digest_event(incoming), sender=name or None, more=_stored_data(incoming, verdict, sender),
            wakes=verdict.wakes, busy=busy, automatic=sender.bot, command=command,
            reference=Reference(incoming.of, self._channel, sender.id),
            has_growing_ids=self._numbered,
        )  # fmt: skip
        return rows.MessageItem(
            event, self._inbox.make_addressee(session), incoming.address, sender.id, not incoming.group,
            _shorten(incoming.title), tuple(file.id for file in incoming.files if isinstance(file, Kept)),
        )  # fmt: skip

    def _quarantine(self, incoming: Incoming, problem: str) -> rows.UnreadableInput:
        raw = _raw_bytes(incoming)
        text, encoding = _decode_raw(raw[:MAX_RAW_BYTES])
        more: Json = {"encoding": encoding} if encoding else {}
        if len(raw) > MAX_RAW_BYTES:
            more["cut"] = len(raw)
        digest = identity.digest_fields({"raw": base64.b64encode(raw).decode("ascii")})
        key, kind, sender = incoming.key, incoming.kind, incoming.sender
        try:
            identity.check_event_key(key)
        except (ValueError, TypeError, AttributeError):  # without a key, every repeat would be quarantined again
            key = f"unusable:{digest.hex()}"
        event = hear.Event(
            source=self._source, key=key, kind=kind if kind in KINDS else "unreadable", text=text, digest=digest,
            sender=_shorten(sender.name or sender.id) or None if isinstance(sender, Person) else None,
            more=more or None, wakes=False,
        )  # fmt: skip
        return rows.UnreadableInput(event, _shorten(problem, MAX_REASON_CHARS))


# ---------------------------------------------------------------- the stored data


def _stored_data(event: Incoming, verdict: Verdict, sender: Person) -> Json:
    """Return the data that is stored with an event and its entry (docs/channels.md, "What an entry says")."""
    author: Json = {"id": sender.id, "name": _shorten(sender.name), "bot": sender.bot, "role": verdict.role}
    author["person"] = verdict.person
    data: Json = {
        "address": event.address, "from": _drop_empty(author), "group": event.group, "mentioned": event.mentioned,
        "of": event.of,
        "title": _shorten(event.title), "at": _event_time_ms(event),
        "platform": scrub(dict(event.data)),
    }  # fmt: skip
    more: Json = {"data": _drop_empty(data)}
    if event.kind == "reaction":
        more["emoji"] = event.text
        if event.removed:
            more["removed"] = True
    if event.files:
        more["files"] = [_file_fields(file) for file in event.files]
    return more


def _event_time_ms(event: Incoming) -> int | None:
    """Return the time that the platform gave the event, in ms; None if it is not a valid date."""
    return round(event.at * 1000) if abs(event.at) < YEAR_10000 else None


def _drop_empty(value: Json) -> Json:
    """Return the fields that are neither empty nor false. Readers treat a missing field as empty or false."""
    return {name: field for name, field in value.items() if field not in (None, "", False, 0, {})}


def _file_fields(file: Kept | Missing) -> Json:
    name, mime = plain_name(file.name), plain_mime(file.mime)
    if isinstance(file, Kept):
        image = {} if file.width is None or file.height is None else {"width": file.width, "height": file.height}
        voice = {"voice": True} if file.voice else {}
        return {"id": file.id, "name": name, "mime": mime, "size": file.size, **image, **voice}
    return {"name": name, "mime": mime, "missing": _shorten(file.why, MAX_REASON_CHARS) or "it did not come"}


def _digest_event(event: Incoming) -> bytes:
    """Return the digest of the fields that are the same in every delivery of the event. Names and files are not."""
    sender = event.sender.id if event.sender is not None else None
    fields = {"kind": event.kind, "text": event.text, "sender": sender, "of": event.of, "address": event.address}
    return identity.digest_fields(fields | ({"removed": True} if event.removed else {}))


def _shorten(text: str, most: int = MAX_NAME_CHARS) -> str:
    return one_line(text, most)


# ---------------------------------------------------------------- unusable events


_SHAPES: dict[str, tuple[type, ...]] = {
    "key": (str,), "address": (str,), "text": (str,), "title": (str,), "why": (str,), "at": (int, float),
    "of": (str, type(None)), "sender": (Person, type(None)), "data": (Mapping,), "files": (tuple, list),
    "raw": (bytes,),
}  # fmt: skip


def _find_wrong_type(event: Incoming) -> str | None:
    """Return a description of a field that does not have the type declared in `Incoming`; None if all have.

    Such a field is a bug in the channel.
    """
    if event.kind not in KINDS:
        return f"its kind is {event.kind!r}, not one of {', '.join(KINDS)}"
    for name, kinds in _SHAPES.items():
        if not isinstance(getattr(event, name), kinds):
            return f"its {name} is a {type(getattr(event, name)).__name__}"
    if event.sender is not None and any(not isinstance(getattr(event.sender, name), str) for name in ("id", "name")):
        return "its sender has an id or a name that is not text"
    if any(type(file) not in (Kept, Missing) for file in event.files):
        return "one of its files is neither kept nor missing"
    if any(
        not isinstance(getattr(file, name, ""), str) for file in event.files for name in ("id", "name", "mime", "why")
    ):
        return "one of its files has an id, a name, a type or a reason that is not text"
    return None


def _greet(person: str, session: str) -> str:
    """Return the reply to a person who has just opened a conversation. `person`: their known name, or ""."""
    agent = session.partition(":")[0]
    hello = f"Hello {person}" if person else "Hello"
    return f"{hello}. What you write here goes to {agent}. /help lists what else you can do."


def _as_incoming(event: object) -> Incoming:
    """Return the event if it is an `Incoming`; otherwise an unreadable event, which will be quarantined."""
    if isinstance(event, Incoming):
        return event
    return Incoming("unreadable", "", raw=_safe_repr(event), why=f"it is a {type(event).__name__}, not an Incoming")


def _stored_file_ids(files: object) -> list[str]:
    """Return the blob ids of those `files` that were stored."""
    stored = files if isinstance(files, tuple | list) else ()
    return [file.id for file in stored if isinstance(file, Kept) and isinstance(file.id, str)]


def _scrub_event(event: Incoming) -> Incoming:
    """Return the event with its texts as the ledger can store them (`scrub`). The key is checked separately."""
    sender = event.sender
    if sender is not None:
        sender = Person(scrub(sender.id), scrub(sender.name), bool(sender.bot))
    return replace(
        event, address=scrub(event.address), sender=sender, text=scrub(event.text), of=scrub(event.of),
        title=scrub(event.title), why=scrub(event.why),
    )  # fmt: skip


def _why_unusable(event: Incoming, session: str) -> str | None:
    """Return why this event cannot be used, in words; None if it can be used."""
    if event.kind == "unreadable":
        return event.why or "the channel could not read it"
    if event.kind == "echo":
        return "an echo of our own message without the platform's id of it"
    if event.kind != "failed" and (event.sender is None or not event.sender.id):
        return "it names no sender"
    if event.kind != "failed" and not event.address:
        return "it has no address"
    if len(event.address.encode("utf-8", "surrogatepass")) > MAX_ADDRESS_BYTES:
        return f"its address is longer than {MAX_ADDRESS_BYTES} bytes"
    if len(event.text) > MAX_TEXT_CHARS:
        return f"its text is longer than {MAX_TEXT_CHARS:,} characters"
    try:
        identity.check_event_key(event.key)
        if event.kind != "failed":
            identity.check_session_key(session)
        entries.dump(scrub(dict(event.data)))
    except identity.BadKey as error:
        return str(error)
    except (ValueError, TypeError, RecursionError) as error:
        return f"its data is not JSON: {error}"
    return _why_empty(event)


def _why_empty(event: Incoming) -> str | None:
    if event.kind == "message" and not event.text.strip() and not event.files:
        return "it has neither a text nor a file"
    if event.kind == "failed" and not event.of:
        return "a report that a message of our own failed, without the platform's id of it"
    if event.kind in ("edit", "delete", "reaction") and not event.of:
        return f"a message of the kind {event.kind} does not name the message it refers to"
    if event.kind == "reaction" and not event.text.strip() and not event.removed:
        return "a reaction without an emoji"
    return None


def _raw_bytes(event: Incoming) -> bytes:
    """Return the raw input of an event for quarantine or, if the channel gave none, the event as JSON."""
    if isinstance(event.raw, bytes) and event.raw:
        return event.raw
    try:
        return json.dumps(vars(event), ensure_ascii=True, default=repr, sort_keys=True).encode()
    except Exception:  # a channel may put any object into the event
        return _safe_repr(event)


def _safe_repr(value: object) -> bytes:
    try:
        return repr(value).encode("utf-8", "backslashreplace")
    except Exception:
        return f"a {type(value).__name__} that cannot be shown".encode()


def _decode_raw(raw: bytes) -> tuple[str, str | None]:
    """Return raw bytes as (text, encoding). The encoding is None for UTF-8; other bytes are encoded as "base64"."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii"), "base64"
    return (text, None) if "\0" not in text else (base64.b64encode(raw).decode("ascii"), "base64")
