"""Import a store into a running gateway, over its API; or read it alone, to tell what an import would do."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeVar

from semel.faces.client import RequestRefused
from semel.faces.stores.chat_addresses import convert_address
from semel.faces.stores.conversation_file import ConversationFile
from semel.faces.stores.hermes import HermesStore
from semel.faces.stores.nanoclaw import NanoClawStore
from semel.faces.stores.openclaw import OpenClawStore
from semel.faces.stores.records import BadStore, StoredPerson, StoredSchedule, StoreReader
from semel.law.access import make_unique_name
from semel.text.json_types import Json
from semel.text.wellformed import scrub

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient

T = TypeVar("T")
System = Literal["openclaw", "hermes", "nanoclaw"]
SYSTEMS: dict[str, type[OpenClawStore | HermesStore | NanoClawStore]] = {
    "openclaw": OpenClawStore,
    "hermes": HermesStore,
    "nanoclaw": NanoClawStore,
}


UNEXPECTED = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError, sqlite3.Error)
"""What a reader raises if a value in a store is not what the system writes there, such as a number for a name."""


def open_store(system: System, path: Path) -> StoreReader:
    """Return a reader of a store. Raises BadStore."""
    if not path.is_dir() and not path.is_file():
        raise BadStore(f"there is no {path}")
    try:
        return SYSTEMS[system](path)
    except UNEXPECTED as error:
        raise BadStore(f"{path} is not as {system} writes it: {error}") from None


async def import_store(store: StoreReader, client: AsyncClient | None, *, schedules_on: bool = False) -> Json:
    """Import conversations, people and schedules. Return the report.

    `client`: None changes nothing, and reports what the store has. `schedules_on`: schedules fire from now on; else
    they are paused. Nothing is imported twice. What the gateway refuses is in the report, and the rest goes on. Raises
    BadStore, NoGateway.

    The report has "system", "version", "sessions" ({"session", "title", "from", "entries", "added", "status", "why"}),
    "people" ({"account", "name", "role", "status", "why"}), "schedules" ({"name", "when", "session", "status", "why"}),
    "collapsed" and "left_out" (how many, by kind), "unread" ({"place", "why"}) and "more_unread" (how many more). A
    status is "new" (without a client), "imported", "grown", "known" or "refused".
    """
    channels = _Channels([] if client is None else (await client.get("/v1/channels"))["channels"])
    sessions = [await _import_conversation(file, client) for file in _conversation_files(store, channels)]
    people = await _import_people(store, client, channels)
    schedules = await _import_schedules(store, client, channels, schedules_on)
    report = store.report
    return {
        "system": store.system, "version": store.version, "dry_run": client is None, "sessions": sessions,
        "people": people, "schedules": schedules, "collapsed": _drop_zeros(report.collapsed),
        "left_out": _drop_zeros(report.left_out), "more_unread": report.more_unread,
        "unread": [{"place": scrub(place), "why": scrub(why)} for place, why in report.unread],
    }  # fmt: skip


class _Channels:
    """The gateway's channels. A store knows only platforms, and a reader names every chat's agent by a store's name."""

    def __init__(self, channels: list[Json]) -> None:
        self._agents = {channel["name"]: channel["agent"] for channel in channels}
        kinds = [channel.get("kind") for channel in channels]
        self._names = {c["kind"]: c["name"] for c in channels if c.get("kind") and kinds.count(c["kind"]) == 1}

    def name_of(self, platform: str) -> str:
        """Return the name of the channel for a platform: the one with its name, or the only one of its kind."""
        return platform if platform in self._agents else self._names.get(platform, platform)

    def session_key(self, key: str) -> str:
        """Return the key under which a chat's next message will be heard; a key that is no chat's stays."""
        _, _, rest = key.partition(":")
        platform, _, address = rest.partition(":")
        name = self.name_of(platform)
        return f"{self._agents[name]}:{name}:{address}"[:200] if name in self._agents else key


def _drop_zeros(counts: dict[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in sorted(counts.items()) if count}


def _conversation_files(store: StoreReader, channels: _Channels) -> Iterator[ConversationFile]:
    """Yield the conversations as files, each of which is closed when the next one is asked for."""
    for conversation in _read_all(store, "the list of conversations", store.read_conversations()):
        conversation = replace(conversation, key=channels.session_key(conversation.key))
        unread = store.report.count_unread()
        with ExitStack() as files:
            try:
                file = files.enter_context(ConversationFile(conversation, store.system, store.report))
            except UNEXPECTED as error:
                store.report.name_unread(conversation.origin, f"it is not as {store.system} writes it: {error}")
                continue
            if file.entries:
                yield file
            elif store.report.count_unread() == unread:
                store.report.left_out["conversations without a message"] += 1


async def _import_conversation(file: ConversationFile, client: AsyncClient | None) -> Json:
    conversation = file.conversation
    row: Json = {
        "session": conversation.key, "title": conversation.title, "from": conversation.origin, "entries": file.entries,
        "added": 0, "status": "new",
    }  # fmt: skip
    if client is None:
        return row
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as content:
        file.write(_as_binary(content))
        content.flush()
        try:
            outcome = await client.import_file(content.name)
        except RequestRefused as error:
            return {**row, "status": "refused", "why": str(error)}
    return {**row, **{name: outcome[name] for name in ("session", "status", "entries", "added")}}


def _as_binary(file: object) -> IO[bytes]:
    return file  # type: ignore[return-value]


def _read_all(store: StoreReader, what: str, rows: Iterator[T]) -> Iterator[T]:
    """Yield what a reader yields. If it fails, name that in the report, which the rest of the import is in already."""
    try:
        yield from rows
    except BadStore as error:
        store.report.name_unread(what, str(error))
    except UNEXPECTED as error:
        store.report.name_unread(what, f"there is something that {store.system} does not write: {error}")


async def _import_people(store: StoreReader, client: AsyncClient | None, channels: _Channels) -> list[Json]:
    known = {} if client is None else await _known_accounts(client)
    taken = set(known.values())
    rows: dict[str, Json] = {}
    for person in _read_all(store, "the people", store.read_people()):
        kind, place = convert_address(person.channel, person.account)
        account = f"{channels.name_of(kind)}:{person.account if place is None else place}"
        if account in rows:
            continue  # it was paired, and is in a setting, too
        row: Json = {"account": account, "name": person.name, "role": "member", "status": "new"}
        if why := _describe_role(person, account, store.system):
            row["why"] = why
        if client is not None and account in known:
            row |= {"status": "known", "name": known[account]}
        elif client is not None:
            name = make_unique_name(person.name or person.account, taken)
            taken.add(name)
            try:
                await client.post("/v1/people", {"account": account, "name": name, "role": "member"})
                row |= {"status": "imported", "name": name}
            except RequestRefused as error:
                row |= {"status": "refused", "why": str(error)}
        rows[account] = row
    return list(rows.values())


async def _known_accounts(client: AsyncClient) -> dict[str, str]:
    """Return the name of each account's person. People without an account are under their name."""
    people = (await client.get("/v1/people"))["people"]
    return {
        account: person["name"]
        for person in people
        for account in [*(known["account"] for known in person["accounts"]), person["name"]]
    }


def _describe_role(person: StoredPerson, account: str, system: str) -> str | None:
    if person.role is None:
        return None
    return f"{person.role} in {system}; if they are to be the owner here, too: semel people add {account} --role owner"


async def _import_schedules(
    store: StoreReader, client: AsyncClient | None, channels: _Channels, schedules_on: bool
) -> list[Json]:
    known = set() if client is None else {row["name"] for row in (await client.get("/v1/schedules"))["schedules"]}
    rows, names = list[Json](), set[str]()
    for schedule in _read_all(store, "the schedules", store.read_schedules()):
        name = _schedule_name(store.system, schedule.name, names)
        names.add(name)
        session = channels.session_key(schedule.session) if schedule.session else None
        row: Json = {"name": name, "when": _describe_timing(schedule), "session": session, "status": "new"}
        rows.append(row)
        if client is None:
            continue
        body = {
            "name": name, "text": scrub(schedule.text), schedule.form: schedule.spec, "tz": schedule.tz,
            "paused": not (schedules_on and schedule.enabled),
            **({"session": session} if session else {}),
        }  # fmt: skip
        try:
            made = await client.post("/v1/schedules", body)
        except RequestRefused as error:
            row |= {"status": "refused", "why": str(error)}
        else:
            row |= {"status": "known" if name in known else "imported", "paused": not made["enabled"]}
    return rows


def _schedule_name(system: str, name: str, taken: set[str]) -> str:
    """Return a name that Semel's schedules may have, and that no other schedule of the store has."""
    bare = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{system}-{name}").strip("-")[:58]
    numbers = iter(range(2, 10_000))
    chosen = bare
    while chosen in taken:
        chosen = f"{bare}-{next(numbers)}"
    return chosen


def _describe_timing(schedule: StoredSchedule) -> str:
    zone = f" ({schedule.tz})" if schedule.form == "cron" else ""
    return f"{schedule.form} {schedule.spec}{zone}"
