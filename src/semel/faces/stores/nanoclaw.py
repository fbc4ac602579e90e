"""NanoClaw's store (version 2): `data/v2.db`, and two databases for each session in `data/v2-sessions`.

What an agent said twice in a turn, by its tool and in its closing block, is collapsed (`ECHO`): the texts and the
destinations are equal, and only the second names the message that it answers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from semel.faces.stores.chat_addresses import WITHOUT_THREADS, convert_address
from semel.faces.stores.files import (
    columns_of,
    format_moment,
    local_zone,
    open_database,
    parse_time,
    read_environment_file,
)
from semel.faces.stores.records import (
    BadStore,
    StoredConversation,
    StoredMessage,
    StoredPerson,
    StoredSchedule,
    StoreReport,
    chat_key,
    page_session_key,
)
from semel.text.json_types import Json
from semel.text.verbatim import verbatim_digest

ECHO = "texts that an agent said twice in a turn, by its tool and in its closing block"
SAME_SERIES = "schedules that had split in two"
CANCELLED = "schedules that were cancelled before they fired"
TASK_THREAD = "system:tasks:"
"""How the thread of a task's own session begins; such a session has no chat."""
UNDELIVERED = {"failed": "NanoClaw gave up sending it", "refused": "NanoClaw refused to send it"}
"""State of a delivery -> why the message did not reach its chat."""
PREFIXES = {"tg": "telegram", "phone": "whatsapp"}
"""Prefixes of NanoClaw's user ids that are not the name of a channel."""


@dataclass(frozen=True)
class _Session:
    """A session: its folder, where it speaks, and its agent group's time zone (None if it has none of its own)."""

    id: str
    folder: Path
    zone: str | None
    channel: str | None
    address: str | None
    thread: str | None
    name: str | None


class NanoClawStore:
    """Reads a NanoClaw folder."""

    system = "nanoclaw"
    version = "version 2"

    def __init__(self, path: Path) -> None:
        """`path`: NanoClaw's folder, or the `data` in it. Raises BadStore."""
        self.data = path / "data" if (path / "data").is_dir() else path
        self.database = self.data / "v2.db"
        self.report = StoreReport()
        if not self.database.is_file():
            hint = "It is of version 1; update NanoClaw, which converts it" if _has_version_1(path) else ""
            raise BadStore(
                f"{path} is no NanoClaw folder: it has no data/v2.db. "
                f"{hint or 'Give the folder that has `data`, as ~/nanoclaw'}"
            )
        with open_database(self.database) as db:
            for table in ("sessions", "messaging_groups", "agent_groups", "users"):
                if not columns_of(db, table):
                    raise BadStore(f"{self.database} is not NanoClaw's: it has no table `{table}`")

    # ------------------------------------------------------------ conversations

    def read_conversations(self) -> Iterator[StoredConversation]:
        for session in self._list_sessions():
            key = _session_key(session)
            read_messages = partial(self._read_messages, session)
            title = session.name
            if session.thread and session.thread.startswith(TASK_THREAD):
                title = session.thread.removeprefix(TASK_THREAD)
            yield StoredConversation(f"nanoclaw:{session.id}", key, title, read_messages)

    def _list_sessions(self) -> list[_Session]:
        with open_database(self.database) as db:
            zone = "NULL"
            if "timezone" in columns_of(db, "container_configs"):
                zone = "(SELECT c.timezone FROM container_configs c WHERE c.agent_group_id = a.id)"
            rows = db.execute(
                f"SELECT s.id, s.agent_group_id, s.thread_id, {zone} AS zone, m.channel_type, m.platform_id, m.name "
                "FROM sessions s JOIN agent_groups a ON a.id = s.agent_group_id "
                "LEFT JOIN messaging_groups m ON m.id = s.messaging_group_id ORDER BY s.created_at, s.id"
            ).fetchall()
        return [
            _Session(
                row["id"], self.data / "v2-sessions" / row["agent_group_id"] / row["id"], row["zone"],
                row["channel_type"], row["platform_id"], row["thread_id"], row["name"],
            )
            for row in rows
        ]  # fmt: skip

    def _read_messages(self, session: _Session) -> Iterator[StoredMessage]:
        try:
            with ExitStack() as databases:
                inbound = self._open(databases, session, "inbound.db")
                outbound = self._open(databases, session, "outbound.db")
                deliveries = inbound if inbound is not None and columns_of(inbound, "delivered") else None
                said: set[tuple[Any, ...]] = set()  # texts that the tool sent in this turn
                for is_inbound, row in _merge(inbound, outbound):
                    place = f"{session.folder}, {'messages_in' if is_inbound else 'messages_out'} {row['id']}"
                    try:
                        content = _parse_content(row)
                    except (ValueError, RecursionError) as error:
                        self.report.name_unread(place, str(error))
                        continue
                    if is_inbound:
                        message = self._read_inbound(session, row, content)
                        if message is not None:
                            said.clear()
                    else:
                        message = self._read_outbound(session, row, content, deliveries)
                        if message is not None and self._is_echo(row, message, said):
                            continue
                    if message is not None:
                        yield message
        except BadStore as error:
            self.report.name_unread(str(session.folder), str(error))

    def _open(self, databases: ExitStack, session: _Session, name: str) -> sqlite3.Connection | None:
        path = session.folder / name
        if not path.is_file():
            self.report.name_unread(str(path), "the file is missing")
            return None
        return databases.enter_context(open_database(path))

    def _read_inbound(self, session: _Session, row: Json, content: Json) -> StoredMessage | None:
        if row["channel_type"] == "agent":
            self.report.left_out["messages between agents"] += 1
            return None
        if row["kind"] == "system":
            self.report.left_out["answers of the host to its agents"] += 1
            return None
        if row["kind"] == "task":
            if row["status"] in ("pending", "paused"):
                return None  # a schedule
            if row["status"] == "cancelled":
                self.report.left_out[CANCELLED] += 1
                return None
            text, files = str(content.get("prompt") or ""), _files_of(content)
        else:
            text, files = _text_of(content), _files_of(content)
        if not text and not files:
            self.report.left_out["messages without a text"] += 1
            return None
        stored = StoredMessage(
            id=f"{session.id}/{row['id']}", role="user", text=text, at=row["at"], stretch=session.id, files=files
        )
        if row["kind"] in ("task", "webhook"):
            return replace(stored, role="event", kind="schedule" if row["kind"] == "task" else "webhook")
        return replace(stored, sender=_sender_of(content))

    def _read_outbound(
        self, session: _Session, row: Json, content: Json, deliveries: sqlite3.Connection | None
    ) -> StoredMessage | None:
        if row["channel_type"] == "agent":
            self.report.left_out["messages between agents"] += 1
            return None
        if row["kind"] == "system":
            self.report.left_out["requests of agents to the host"] += 1
            return None
        if operation := content.get("operation"):
            self.report.left_out[f"requests to change a message: {operation}"] += 1
            return None
        text, files = _text_of(content), _files_of(content)
        if not text and not files:
            self.report.left_out["messages without a text"] += 1
            return None
        to = None
        if row["platform_id"] and row["platform_id"] != session.address:
            to = chat_place(row["channel_type"], row["platform_id"], row["thread_id"])
        return StoredMessage(
            id=f"{session.id}/{row['id']}", role="agent", text=text, at=row["at"], stretch=session.id, files=files,
            undelivered=_why_undelivered(deliveries, row["id"]), to=to,
        )  # fmt: skip

    def _is_echo(self, row: Json, message: StoredMessage, said: set[tuple[Any, ...]]) -> bool:
        identity = (row["channel_type"], row["platform_id"], row["thread_id"], verbatim_digest(message.text))
        if row["in_reply_to"] is None:  # the tool does not know which message it answers
            said.add(identity)
            return False
        if identity not in said or message.files:
            return False
        self.report.collapsed[ECHO] += 1
        return True

    # ------------------------------------------------------------ people and schedules

    def read_people(self) -> Iterator[StoredPerson]:
        """Yield the members of agent groups, and those with a role."""
        with open_database(self.database) as db:
            rows = db.execute(
                "SELECT u.id, u.display_name, (SELECT min(role) FROM user_roles r WHERE r.user_id = u.id "
                "AND r.role <> 'admin') AS owner, (SELECT min(role) FROM user_roles r WHERE r.user_id = u.id) AS role, "
                "EXISTS (SELECT 1 FROM agent_group_members m WHERE m.user_id = u.id) AS is_member "
                "FROM users u ORDER BY u.id"
            ).fetchall()
        for row in rows:
            prefix, _, account = str(row["id"]).partition(":")
            role = row["owner"] or row["role"]
            if not account or not (row["is_member"] or role):
                self.report.left_out["people who had written and were not let in"] += 1
            else:
                yield StoredPerson(PREFIXES.get(prefix, prefix), account, row["display_name"], role)

    def read_schedules(self) -> Iterator[StoredSchedule]:
        zone = next((value for name, value in read_environment_file(self.data.parent / ".env") if name == "TZ"), None)
        sessions = {session.id: session for session in self._list_sessions()}
        for session in sessions.values():
            path = session.folder / "inbound.db"
            seen = set()
            for row in self._read_tasks(path):
                series = row["series_id"] or row["id"]
                if series in seen:
                    self.report.collapsed[SAME_SERIES] += 1
                    continue
                seen.add(series)
                try:
                    content = _parse_content(row)
                    chat = sessions.get(str(content.get("originSessionId")), session)
                    yield _parse_task(row, content, series, _session_key(chat), session.zone or zone or local_zone())
                except (ValueError, RecursionError) as error:
                    self.report.name_unread(f"{path}, messages_in {row['id']}", str(error))

    def _read_tasks(self, path: Path) -> list[Json]:
        """Return the tasks of a session that are to fire. If its database cannot be read, name it."""
        if not path.is_file():
            return []
        query = "SELECT * FROM messages_in WHERE kind = 'task' AND status IN ('pending', 'paused') ORDER BY seq, id"
        try:
            with open_database(path) as db:
                return [dict(row) for row in db.execute(query)]
        except BadStore as error:
            self.report.name_unread(f"{path}, the schedules", str(error))
            return []


def _has_version_1(path: Path) -> bool:
    return any((folder / "messages.db").is_file() for folder in (path, path / "store", path / "data"))


def _merge(inbound: sqlite3.Connection | None, outbound: sqlite3.Connection | None) -> Iterator[tuple[bool, Json]]:
    """Yield the rows of both databases in order: (whether it came in, the row with its time as `at`).

    NanoClaw writes the time of what an agent said in whole seconds, so within a second its numbers decide.
    """
    incoming, outgoing = _read_rows(inbound, "messages_in"), _read_rows(outbound, "messages_out")
    first, second = next(incoming, None), next(outgoing, None)
    while first is not None or second is not None:
        if second is None or (first is not None and _order(first) <= _order(second)):
            assert first is not None
            yield True, first
            first = next(incoming, None)
        else:
            yield False, second
            second = next(outgoing, None)


def _order(row: Json) -> tuple[int, int]:
    return row["at"] // 1000, row["seq"] or 0


def _read_rows(db: sqlite3.Connection | None, table: str) -> Iterator[Json]:
    if db is None:
        return
    # A scheduled row counts from the time for which it is planned; it was written long before.
    moment = "coalesce(process_after, timestamp)" if table == "messages_in" else "coalesce(deliver_after, timestamp)"
    for row in db.execute(f"SELECT *, {moment} AS moment FROM {table} ORDER BY datetime(moment), seq, id"):
        yield {**dict(row), "at": parse_time(row["moment"]) or 0}


def _session_key(session: _Session) -> str:
    if not session.channel or not session.address:
        return page_session_key(f"nanoclaw-{session.id}")
    place = chat_place(session.channel, session.address, session.thread)
    channel, _, address = place.partition(":")
    return chat_key(channel, address)


def chat_place(channel: str, platform_id: str, thread: str | None) -> str:
    """Return `CHANNEL:ADDRESS`, as Semel writes a destination."""
    address = platform_id.removeprefix(f"{channel}:")
    if channel in WITHOUT_THREADS:
        thread = None
    if thread and (topic := str(thread).rpartition(":")[2]) and topic != address:
        address += f":topic-{topic}" if channel == "telegram" else f":{topic}"
    kind, place = convert_address(channel, address)
    return f"{kind}:{address if place is None else place}"


def _text_of(content: Json) -> str:
    return str(content.get("text") or content.get("markdown") or "").strip()


def _files_of(content: Json) -> tuple[str, ...]:
    files = content.get("attachments") or content.get("files") or []
    return tuple(
        str(file.get("name") or file.get("filename") or "file") if isinstance(file, dict) else str(file)
        for file in (files if isinstance(files, list) else [])
    )


def _sender_of(content: Json) -> str | None:
    author = content.get("author")
    about = author if isinstance(author, dict) else {}
    name = content.get("senderName") or content.get("sender") or about.get("fullName") or about.get("userName")
    return str(name) if name else None


def _why_undelivered(deliveries: sqlite3.Connection | None, message: str) -> str | None:
    if deliveries is None:
        return None
    row = deliveries.execute("SELECT status FROM delivered WHERE message_out_id = ?", (message,)).fetchone()
    return None if row is None else UNDELIVERED.get(row["status"])


def _parse_content(row: Json) -> Json:
    """Return a row's content. Raises ValueError or RecursionError."""
    try:
        content = json.loads(row["content"])
    except ValueError:
        if row["kind"] == "task" and not str(row["content"]).startswith("{"):
            return {"prompt": row["content"]}  # as the first versions wrote it
        raise
    if not isinstance(content, dict):
        raise ValueError("its content is no JSON object")
    return content


def _parse_task(row: Json, content: Json, series: str, session: str, zone: str) -> StoredSchedule:
    """Return a schedule. Raises ValueError if Semel has no such schedule. `session`: the key of its chat's."""
    text = str(content.get("prompt") or "").strip()
    if not text:
        raise ValueError("it runs a script; Semel's schedules ask an agent")
    if content.get("script"):
        raise ValueError("a script of its decides whether it asks the agent; Semel's schedules always ask")
    common: Json = {
        "name": series, "text": text, "session": session, "enabled": row["status"] != "paused",
    }  # fmt: skip
    if row["recurrence"]:
        return StoredSchedule(**common, form="cron", spec=str(row["recurrence"]), tz=zone)
    at = parse_time(row["process_after"])
    if at is None:
        raise ValueError("it has no time")
    return StoredSchedule(**common, form="at", spec=format_moment(at), tz="UTC")
