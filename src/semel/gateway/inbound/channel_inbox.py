"""The inbox of one channel (`ports.Inbox`): checks, authorizes and records its events with their cursor (Law 1).

A batch of events and the cursor after it are committed in one transaction. No input makes `put` fail: an event that
cannot be used is kept raw in quarantine, and the cursor moves on. Events of senders who may not speak leave no row.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from semel.gateway.files import plain_mime, plain_name
from semel.gateway.inbound.admission import Verdict
from semel.gateway.inbound.inbox import TEXT_LIMIT, Inbox
from semel.gateway.inbound.received_files import ReceivedFiles
from semel.gateway.ports import Heard, Incoming, Kept, Missing, Person
from semel.law import identity
from semel.law.busy import Busy
from semel.law.commands import Message
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.inbound import commands as command_rows
from semel.ledger.inbound import delivery_reports, hear
from semel.ledger.inbound.references import Refers
from semel.ledger.transcript import entries
from semel.text.wellformed import MAX_NAME_CHARS, MAX_REASON_CHARS, one_line, scrub

MAX_ADDRESS_BYTES = 120  # bytes of UTF-8
MAX_RAW_BYTES = 8_000_000  # bytes kept of a quarantined event
YEAR_10000 = 253_402_300_800  # seconds since the epoch
KINDS = ("message", "edit", "delete", "reaction", "echo", "failed", "unreadable")

Json = dict[str, Any]


class AccessPolicy(Protocol):
    """Access decisions (implemented by `semel.gateway.inbound.admission.People`)."""

    async def judge(self, channel: str, what: Incoming) -> Verdict: ...

    async def known(self, channel: str, sender: Person, group: str = "") -> bool: ...


class StatusSink(Protocol):
    """Receives a channel's state and event counts (implemented by `channel_supervisor.ChannelStatus`)."""

    def online(self) -> None: ...

    def count(self, what: str) -> None: ...


@dataclass
class _Read:
    """A batch to record. `files`: all blob ids that came with it; `unused`: those of refused or unusable events."""

    items: list[rows.Item] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


class InboxOf:
    """The `ports.Inbox` of one channel. The source of all its events is `channel:NAME`."""

    def __init__(
        self, inbox: Inbox, channel: str, people: AccessPolicy, receiving: ReceivedFiles, seen: StatusSink,
        kick: Callable[[], None],
        channels: Collection[str] = (), numbered: bool = False,
    ) -> None:  # fmt: skip
        """`kick` wakes the outbox. `channels`: those that can carry a failure notice. `numbered`: see `Caps`."""
        self.receiving = receiving
        self._inbox = inbox
        self._channel = channel
        self._source = f"channel:{channel}"
        self._people = people
        self._seen = seen
        self._kick = kick
        self._channels = tuple(channels)
        self._numbered = numbered
        self.doubtful_until = 0  # ms: events up to then may have been answered before a restore (Law 14)

    def __repr__(self) -> str:
        return f"<InboxOf {self._channel}, {self.receiving!r}>"

    async def cursor(self) -> str | None:
        """See `ports.Inbox.cursor`."""
        return await self._inbox.record.read(_cursor, self._source)

    async def known(self, sender: Person, group: str = "") -> bool:
        """See `ports.Inbox.known`."""
        return await self._people.known(self._channel, sender, group)

    def online(self) -> None:
        """See `ports.Inbox.online`."""
        self._seen.online()

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        """See `ports.Inbox.keep`."""
        return await self.receiving.keep(name, mime, content, limit)

    async def hear(self, **event: Any) -> Heard:
        """See `ports.Inbox.hear`."""
        heard = await self._inbox.hear(source=self._source, **{"scope": (), **event})
        self._seen.count(heard.status)
        return heard

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        """See `ports.Inbox.put`."""
        read = _Read()
        for what in events:
            await self._read(what, read)
        record, copies = self._inbox.record, self.receiving.copies
        with copies:  # keeps the batch's files from being removed meanwhile
            done = await record.write(
                rows.put, self._channel, self._source, read.items, scrub(cursor), read.unused, self._channels
            )  # fmt: skip
        self.receiving.put(read.files)
        if read.files:
            self.receiving.gone()
        for one in done:
            self._seen.count(one.what)
            if one.heard is not None:
                self._inbox.turns.heed(one.heard)
                if one.heard.command:
                    self._inbox.commands.heed(one.heard.session)
        if any(one.what in ("echo", "failed") for one in done):
            self._kick()

    # ------------------------------------------------------------ reading one

    async def _read(self, what: Incoming, into: _Read) -> None:
        """Check one event and add what to record of it to the batch. Raises LedgerError."""
        what = _incoming(what)
        files = _ids(what.files)
        into.files += files
        why = _find_wrong_type(what)
        what = _wellformed(what) if why is None else what
        verdict = Verdict() if why is not None else await self._people.judge(self._channel, what)
        if verdict.refused is not None:
            self._seen.count(f"refused:{verdict.refused}")
            into.unused += files
            return
        if why is None and 0 < what.at * 1000 <= self.doubtful_until:  # may be answered already: only record it
            verdict = replace(verdict, wakes=False, command=None)
        if why is None and what.kind == "echo" and what.of:
            into.items.append(rows.Echo(scrub(what.key), str(what.of)))
            return
        session = self._session(what) if why is None and what.kind != "failed" else ""
        why = why or _why_unusable(what, session)
        if why is not None:
            into.items.append(self._unusable(what, why))
            into.unused += files
            return
        if what.kind == "failed":
            await self._failed(what, into)
            return
        into.items.append(await self._message(what, verdict, session))

    async def _failed(self, what: Incoming, into: _Read) -> None:
        """Add a delivery failure report to the batch.

        A report about none of our parts may be forged; it counts against the hourly limit of unreadable events.
        """
        of = str(what.of)
        if not await self._inbox.record.read(delivery_reports.known, self._channel, self._source, what.key, of):
            verdict = await self._people.judge(self._channel, Incoming("unreadable", what.key))
            if verdict.refused is not None:
                self._seen.count(f"refused:{verdict.refused}")
                return
        data = {"of": of, "at": _at(what), "platform": scrub(dict(what.data))}
        event = hear.Event(
            source=self._source, key=what.key, kind=what.kind, text=_name(what.text,
            MAX_REASON_CHARS) or "no reason was given",
            digest=_digest(what), more={"data": _drop_empty(data)}, wakes=False,
        )  # fmt: skip
        into.items.append(rows.Failed(event, of))

    def _session(self, what: Incoming) -> str:
        """The key of the session for the event's address."""
        settings = self._inbox.settings
        own = settings.channels.get(self._channel)
        agent = (own.agent if own is not None else None) or settings.default_agent
        return f"{agent}:{self._channel}:{identity.escape_address(what.address)}"

    async def _message(self, what: Incoming, verdict: Verdict, session: str) -> rows.Message:
        sender = what.sender or Person("")
        text, name = verdict.text or what.text, _name(sender.name or sender.id)
        kind, command = what.kind, verdict.command
        busy: Busy | None = None
        asks = what.kind == "message" and not sender.bot and verdict.wakes is not False
        if command is None and asks and text.startswith("/"):
            said = await self._inbox.commands.read(
                text, name, self._source, [session], role=verdict.role, person=verdict.person, direct=not what.group
            )
            if isinstance(said, Message):
                text, busy = said.text, said.mode  # type: ignore[assignment]
            else:
                command = said
        event = hear.Event(
            source=self._source, key=what.key, kind=command_rows.KIND if command is not None else kind, text=text,
            digest=_digest(what), sender=name or None, more=_more(what, verdict, sender), wakes=verdict.wakes,
            busy=busy, automatic=sender.bot, command=command, refers=Refers(what.of, self._channel, sender.id),
            numbered=self._numbered,
        )  # fmt: skip
        return rows.Message(
            event, self._inbox.target(session), what.address, sender.id, not what.group, _name(what.title),
            tuple(file.id for file in what.files if isinstance(file, Kept)),
        )  # fmt: skip

    def _unusable(self, what: Incoming, why: str) -> rows.Unusable:
        raw = _raw(what)
        told, encoding = _as_text(raw[:MAX_RAW_BYTES])
        more: Json = {"encoding": encoding} if encoding else {}
        if len(raw) > MAX_RAW_BYTES:
            more["cut"] = len(raw)
        digest = identity.digest({"raw": base64.b64encode(raw).decode("ascii")})
        key, kind, sender = what.key, what.kind, what.sender
        try:
            identity.check_event_key(key)
        except (ValueError, TypeError, AttributeError):  # without a key it would be quarantined on every delivery
            key = f"unusable:{digest.hex()}"
        event = hear.Event(
            source=self._source, key=key, kind=kind if kind in KINDS else "unreadable", text=told, digest=digest,
            sender=_name(sender.name or sender.id) or None if isinstance(sender, Person) else None,
            more=more or None, wakes=False,
        )  # fmt: skip
        return rows.Unusable(event, _name(why, MAX_REASON_CHARS))


# ---------------------------------------------------------------- what it says


def _more(what: Incoming, verdict: Verdict, sender: Person) -> Json:
    """The data stored with an event and its entry (docs/channels.md, "What an entry says")."""
    who: Json = {"id": sender.id, "name": _name(sender.name), "bot": sender.bot, "role": verdict.role}
    who["person"] = verdict.person
    data: Json = {
        "address": what.address, "from": _drop_empty(who), "group": what.group, "mentioned": what.mentioned,
        "of": what.of,
        "title": _name(what.title), "at": _at(what),
        "platform": scrub(dict(what.data)),
    }  # fmt: skip
    more: Json = {"data": _drop_empty(data)}
    if what.kind == "reaction":
        more["emoji"] = what.text
        if what.removed:
            more["removed"] = True
    if what.files:
        more["files"] = [_file(file) for file in what.files]
    return more


def _at(what: Incoming) -> int | None:
    """The event's time by the platform's clock, in ms; None if it is not a valid date."""
    return round(what.at * 1000) if abs(what.at) < YEAR_10000 else None


def _drop_empty(value: Json) -> Json:
    """Drop empty and false values; a missing field means false or none."""
    return {name: one for name, one in value.items() if one not in (None, "", False, 0, {})}


def _file(file: Kept | Missing) -> Json:
    name, mime = plain_name(file.name), plain_mime(file.mime)
    if isinstance(file, Kept):
        return {"id": file.id, "name": name, "mime": mime, "size": file.size}
    return {"name": name, "mime": mime, "missing": _name(file.why, MAX_REASON_CHARS) or "it did not come"}


def _digest(what: Incoming) -> bytes:
    """The digest over the fields that are equal in every delivery. Names and files are fetched and may differ."""
    sender = what.sender.id if what.sender is not None else None
    told = {"kind": what.kind, "text": what.text, "sender": sender, "of": what.of, "address": what.address}
    return identity.digest(told | ({"removed": True} if what.removed else {}))


def _name(text: str, most: int = MAX_NAME_CHARS) -> str:
    return one_line(text, most)


# ---------------------------------------------------------------- what cannot be used


_SHAPES: dict[str, tuple[type, ...]] = {
    "key": (str,), "address": (str,), "text": (str,), "title": (str,), "why": (str,), "at": (int, float),
    "of": (str, type(None)), "sender": (Person, type(None)), "data": (Mapping,), "files": (tuple, list),
    "raw": (bytes,),
}  # fmt: skip


def _find_wrong_type(what: Incoming) -> str | None:
    """Describe a field whose type violates the port's contract (a bug in the channel); None if all are right."""
    if what.kind not in KINDS:
        return f"its kind is {what.kind!r}, which is none of {', '.join(KINDS)}"
    for name, kinds in _SHAPES.items():
        if not isinstance(getattr(what, name), kinds):
            return f"its {name} is a {type(getattr(what, name)).__name__}"
    if what.sender is not None and any(not isinstance(getattr(what.sender, name), str) for name in ("id", "name")):
        return "its sender has an id or a name that is no text"
    if any(type(file) not in (Kept, Missing) for file in what.files):
        return "one of its files is neither kept nor missing"
    if any(
        not isinstance(getattr(file, name, ""), str) for file in what.files for name in ("id", "name", "mime", "why")
    ):
        return "one of its files has an id, a name, a type or a reason that is no text"
    return None


def _incoming(what: object) -> Incoming:
    """Wrap anything that is not an Incoming as an unreadable event, so that it is quarantined."""
    if isinstance(what, Incoming):
        return what
    return Incoming("unreadable", "", raw=_shown(what), why=f"it is a {type(what).__name__} and no Incoming")


def _ids(files: object) -> list[str]:
    """The blob ids of the stored files."""
    given = files if isinstance(files, tuple | list) else ()
    return [file.id for file in given if isinstance(file, Kept) and isinstance(file.id, str)]


def _wellformed(what: Incoming) -> Incoming:
    """The event without lone surrogates, which no store takes. The key is checked separately."""
    sender = what.sender
    if sender is not None:
        sender = Person(scrub(sender.id), scrub(sender.name), bool(sender.bot))
    return replace(
        what, address=scrub(what.address), sender=sender, text=scrub(what.text), of=scrub(what.of),
        title=scrub(what.title), why=scrub(what.why),
    )  # fmt: skip


def _why_unusable(what: Incoming, session: str) -> str | None:
    """The reason why this event cannot become an entry; None if it can."""
    if what.kind == "unreadable":
        return what.why or "the channel could not read it"
    if what.kind == "echo":
        return "an echo of our own message that does not name the platform's id of it"
    if what.kind != "failed" and (what.sender is None or not what.sender.id):
        return "nobody is named as its sender"
    if what.kind != "failed" and not what.address:
        return "it has no address"
    if len(what.address.encode("utf-8", "surrogatepass")) > MAX_ADDRESS_BYTES:
        return f"its address is longer than {MAX_ADDRESS_BYTES} bytes"
    if len(what.text) > TEXT_LIMIT:
        return f"its text is longer than {TEXT_LIMIT:,} characters"
    try:
        identity.check_event_key(what.key)
        if what.kind != "failed":
            identity.check_session_key(session)
        entries.dump(scrub(dict(what.data)))
    except identity.BadKey as bad:
        return str(bad)
    except (ValueError, TypeError, RecursionError) as bad:
        return f"its data is no JSON: {bad}"
    return _why_empty(what)


def _why_empty(what: Incoming) -> str | None:
    if what.kind == "message" and not what.text.strip() and not what.files:
        return "it holds neither a text nor a file"
    if what.kind == "failed" and not what.of:
        return "a report that a message of our own failed does not name the platform's id of it"
    if what.kind in ("edit", "delete", "reaction") and not what.of:
        return f"a message of the kind {what.kind} names no message that it is about"
    if what.kind == "reaction" and not what.text.strip() and not what.removed:
        return "a reaction without a sign"
    return None


def _raw(what: Incoming) -> bytes:
    """The raw content for quarantine; if the channel gave none, the event itself as JSON."""
    if isinstance(what.raw, bytes) and what.raw:
        return what.raw
    try:
        return json.dumps(vars(what), ensure_ascii=True, default=repr, sort_keys=True).encode()
    except Exception:  # a channel may put any object into the event
        return _shown(what)


def _shown(what: object) -> bytes:
    try:
        return repr(what).encode("utf-8", "backslashreplace")
    except Exception:
        return f"a {type(what).__name__} that cannot be shown".encode()


def _as_text(raw: bytes) -> tuple[str, str | None]:
    """(text, encoding): UTF-8 text as it is, with encoding None; anything else as base64."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii"), "base64"
    return (text, None) if "\0" not in text else (base64.b64encode(raw).decode("ascii"), "base64")


def _cursor(tx: Any, source: str) -> str | None:
    value = tx.value("cursor_get", source=source)
    return None if value is None else str(value)
