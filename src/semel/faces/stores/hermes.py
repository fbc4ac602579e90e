"""Hermes Agent's store: `state.db` (SQLite), `cron/jobs.json` and the accounts that were let in, in `~/.hermes`.

What Hermes itself has written more than once is collapsed (`_find_copy`): by identity (the platform's id of a message;
role, time and text of a row), and by text only next to the row that says why (a summary that compaction has written).
Rows that Hermes wrote in somebody's name to steer its model are left out (Law 4).
"""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from semel.faces.stores.files import (
    columns_of,
    local_zone,
    open_database,
    parse_object,
    parse_time,
    read_environment_file,
    read_json_file,
    read_text_file,
    require_version,
)
from semel.faces.stores.hermes_schedules import FURTHER_CHATS, HermesChat, find_homes, list_chats, parse_schedule
from semel.faces.stores.hermes_texts import MACHINE_TEXTS, PersonText, read_person_text
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

OLDEST_SCHEMA, NEWEST_SCHEMA = 11, 22
MESSAGES = {"id", "session_id", "role", "content", "timestamp"}
JSON_MARK = "\x00json:"  # before content that is a list of parts
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
EMPTY_TEXTS = ("", "(empty)")
SILENT_ANSWER = "[SILENT]"
COMPACTION_S = 1.0
"""Compaction writes the rows that it keeps again within this time of its summary."""
PAGE_ROWS = 200
_CRON_SESSION = re.compile(r"(cron_.+)_\d{8}_\d{6}")

COPY_COMPACTED = "rows that compaction wrote again"
COPY_SAME_ROW = "rows that were written twice"
COPY_TWO_WRITERS = "messages that the gateway and the agent both wrote"
COPY_DELIVERED_TWICE = "messages that a platform delivered twice"
COPY_REPORT = "ends of processes that were reported again"
MACHINE_ROWS = "texts that Hermes wrote in a person's name"


class HermesStore:
    """Reads a Hermes home."""

    system = "hermes"

    def __init__(self, path: Path) -> None:
        """`path`: the home (`~/.hermes`), or its `state.db`. Raises BadStore."""
        self.home = path.parent if path.name == "state.db" else path
        self.database = self.home / "state.db"
        self.report = StoreReport()
        if not self.database.is_file():
            raise BadStore(f"{path} is no Hermes home: it has no state.db. Give the folder that has it, as ~/.hermes")
        with open_database(self.database) as db:
            if not columns_of(db, "messages") >= MESSAGES or not columns_of(db, "sessions"):
                raise BadStore(f"{self.database} is not Hermes's: it has no tables `sessions` and `messages`")
            row = db.execute("SELECT max(version) AS version FROM schema_version").fetchone()
            version = int(row["version"] or 0)
            if version > NEWEST_SCHEMA:
                self.report.name_unread(
                    f"{self.database}, schema {version}",
                    f"this Semel knows Hermes's schema up to {NEWEST_SCHEMA}; what it knows was read, and what a newer "
                    "Hermes may keep elsewhere was not. A newer Semel may read more",
                )
            self._session_columns = columns_of(db, "sessions")
            self._message_columns = columns_of(db, "messages")
        advice = "Start a newer Hermes once, which converts it, and import again"
        require_version("Hermes", self.database, min(version, NEWEST_SCHEMA), OLDEST_SCHEMA, NEWEST_SCHEMA, advice)
        self.version = f"schema {version}"

    # ------------------------------------------------------------ conversations

    def read_conversations(self) -> Iterator[StoredConversation]:
        with open_database(self.database) as db:
            groups: dict[str, list[Json]] = {}
            names: dict[str, str] = {}
            for session in self._read_sessions(db):
                parent = session["parent_session_id"]
                name = session["session_key"] or (parent and session["continues"] and names.get(parent))
                names[session["id"]] = name = name or _name_of_runs(session["id"])
                groups.setdefault(name, []).append(session)
            self._name_missing_texts(db)
        self._name_other_stores()
        for name, sessions in groups.items():
            titles = [session["title"] for session in sessions if session["title"]]
            key = self._make_key(name, sessions[-1])
            read_messages = partial(self._read_messages, sessions)
            yield StoredConversation(f"hermes:{name}", key, titles[-1] if titles else None, read_messages)

    def _read_sessions(self, db: sqlite3.Connection) -> Iterator[Json]:
        wanted = (
            "id", "source", "session_key", "chat_id", "thread_id", "parent_session_id", "title", "origin_json",
            "user_id",
        )  # fmt: skip
        columns = [f"s.{name}" if name in self._session_columns else f"NULL AS {name}" for name in wanted]
        rows = db.execute(
            f"SELECT {', '.join(columns)}, p.end_reason = 'compression' AS continues FROM sessions s "
            "LEFT JOIN sessions p ON p.id = s.parent_session_id ORDER BY s.started_at, s.id"
        )
        for row in rows:
            yield dict(row)

    def _make_key(self, name: str, session: Json) -> str:
        """Return the key of the session that a conversation becomes: that of its chat, or one on the page."""
        agent = name.split(":")[1] if name.startswith("agent:") and name.count(":") > 1 else "main"
        if not session["session_key"] or not session["chat_id"]:
            return page_session_key(f"hermes-{session['id'] if name == session['id'] else name}", agent)
        address = str(session["chat_id"])
        if session["source"] == "signal" and not address.startswith("group:"):
            # Signal's id of the account, by which it is known here; the chat's id is often a phone number
            address = str(parse_object(session["origin_json"]).get("user_id_alt") or address)
        chat = HermesChat(str(session["source"]), address, session["thread_id"])
        return chat_key(chat.platform, chat.address, agent)

    def _read_messages(self, sessions: list[Json]) -> Iterator[StoredMessage]:
        try:
            with open_database(self.database) as db:
                for session in sessions:
                    yield from self._read_session(db, session)
        except BadStore as error:
            self.report.name_unread(f"{self.database}, session {sessions[-1]['id']}", str(error))

    def _read_session(self, db: sqlite3.Connection, session: Json) -> Iterator[StoredMessage]:
        summaries = self._find_summaries(db, session["id"])
        sender = _find_sender(session)
        previous: Json | None = None
        delivered: set[int] = set()  # hashes of the platform's ids and the texts of messages
        reported: set[int] = set()  # hashes of the ends of processes
        is_shared = _is_shared(session)
        for row in self._read_rows(db, session["id"]):
            content, files = _parse_content(row["content"])
            self.report.left_out["tool calls"] += _count_tool_calls(row)
            if row["role"] not in ("user", "assistant"):
                kind = "tool results" if row["role"] == "tool" else f"rows of the role {row['role']}"
                self.report.left_out[kind] += 1
                continue
            if content.startswith(SUMMARIES) or row["_compressed_summary"]:
                self.report.left_out["summaries of compaction"] += 1
                continue
            if not files and content in EMPTY_TEXTS and (row["role"] == "user" or content):
                self.report.left_out[MACHINE_ROWS] += 1
                continue
            if content.startswith(MACHINE_TEXTS) or row["display_kind"] == "hidden":
                self.report.left_out[MACHINE_ROWS] += 1
                continue
            if not content and not files:
                continue  # a row that has tool calls alone
            if copy := self._find_copy(db, row, previous, summaries, delivered):
                self.report.collapsed[copy] += 1
                continue
            if row["role"] == "assistant" and content == SILENT_ANSWER:
                self.report.left_out["silent answers ([SILENT])"] += 1
                continue
            previous = row
            said = PersonText(content)
            if row["role"] == "user":
                said = read_person_text(content, is_shared=is_shared)
                if said.kind == "exec.finished" and hash(content) in reported:
                    self.report.collapsed[COPY_REPORT] += 1
                    continue
                if said.kind == "exec.finished":
                    reported.add(hash(content))
            message = StoredMessage(
                id=f"{session['id']}/{row['id']}", role="agent", text=said.text, at=parse_time(row["timestamp"]) or 0,
                stretch=session["id"], files=said.files or files,
            )  # fmt: skip
            if said.kind:
                message = replace(message, role="event", kind=said.kind)
            elif row["role"] == "user":
                message = replace(message, role="user", sender=said.sender or sender)
            yield message

    def _read_rows(self, db: sqlite3.Connection, session: str) -> Iterator[Json]:
        wanted = (
            "session_id", "role", "content", "timestamp", "tool_calls", "platform_message_id", "_compressed_summary",
            "display_kind",
        )  # fmt: skip
        columns = "rowid AS id, " + ", ".join(
            name if name in self._message_columns else f"NULL AS {name}" for name in wanted
        )
        # The ids first: sorting whole rows would take memory, and walking all rows by their id would take time.
        query = "SELECT rowid AS id FROM messages WHERE session_id = ? ORDER BY rowid"
        ids = array("q", (row["id"] for row in db.execute(query, (session,))))
        for start in range(0, len(ids), PAGE_ROWS):
            page = ids[start : start + PAGE_ROWS].tolist()
            marks = ", ".join("?" * len(page))
            for row in db.execute(f"SELECT {columns} FROM messages WHERE rowid IN ({marks}) ORDER BY rowid", page):
                is_time = isinstance(row["timestamp"], int | float)
                yield {**dict(row), "timestamp": row["timestamp"] if is_time else 0.0}

    # ------------------------------------------------------------ what was written more than once

    def _find_summaries(self, db: sqlite3.Connection, session: str) -> list[float]:
        """Return the times (s) at which compaction rewrote the session."""
        rows = db.execute(
            "SELECT timestamp FROM messages WHERE session_id = ? AND (content LIKE ? OR content LIKE ?)",
            (session, *(f"{mark}%" for mark in SUMMARIES)),
        )
        return [row["timestamp"] for row in rows]

    def _find_copy(
        self, db: sqlite3.Connection, row: Json, previous: Json | None, summaries: list[float], delivered: set[int]
    ) -> str | None:
        """Return why a row is a copy of an earlier one; None if it is none. `delivered`: what was delivered before."""
        if row["platform_message_id"]:
            identity = hash((row["role"], row["platform_message_id"], row["content"]))
            if identity in delivered:
                return COPY_DELIVERED_TWICE
            delivered.add(identity)
        if self._is_same_row(db, row):
            return COPY_SAME_ROW
        is_near = any(abs(row["timestamp"] - at) < COMPACTION_S for at in summaries)
        if is_near:
            query = (
                "SELECT 1 FROM messages WHERE session_id = ? AND timestamp < ? AND role = ? AND content IS ? LIMIT 1"
            )
            if db.execute(query, (row["session_id"], row["timestamp"], row["role"], row["content"])).fetchone():
                return COPY_COMPACTED
        if (
            previous is not None
            and row["role"] == previous["role"] == "user"
            and row["content"] == previous["content"]
            and (row["platform_message_id"] is None) != (previous["platform_message_id"] is None)
        ):
            return COPY_TWO_WRITERS
        return None

    def _is_same_row(self, db: sqlite3.Connection, row: Json) -> bool:
        """Return whether an earlier row has the same role, time and text.

        Platforms give the time of a message in whole seconds, and a person may say the same twice in one. So such a
        time says it only if the agent has spoken in between.
        """
        (earlier,) = db.execute(
            "SELECT max(id) FROM messages "
            "WHERE session_id = ? AND id < ? AND role = ? AND content IS ? AND timestamp = ?",
            (row["session_id"], row["id"], row["role"], row["content"], row["timestamp"]),
        ).fetchone()
        if earlier is None or row["timestamp"] % 1:
            return earlier is not None
        between = "SELECT 1 FROM messages WHERE session_id = ? AND id > ? AND id < ? AND role = 'assistant' LIMIT 1"
        return db.execute(between, (row["session_id"], earlier, row["id"])).fetchone() is not None

    def _name_missing_texts(self, db: sqlite3.Connection) -> None:
        """Name the answers that Hermes delivered and did not write into its transcript."""
        if "content" not in columns_of(db, "delivery_obligations"):
            return
        rows = db.execute(
            "SELECT o.obligation_id, o.platform, o.chat_id, o.content FROM delivery_obligations o "
            "WHERE o.state = 'delivered' AND NOT EXISTS (SELECT 1 FROM messages m JOIN sessions s "
            "ON s.id = m.session_id WHERE s.session_key = o.session_key AND m.role = 'assistant' "
            "AND instr(o.content, m.content) > 0 AND m.content <> '')"
        )
        for row in rows:
            text = " ".join(str(row["content"]).split())[:60]
            place = f"{self.database}, delivery_obligations {row['obligation_id']}"
            target = f"{row['platform']}:{row['chat_id']}"
            self.report.name_unread(place, f"Hermes sent this to {target}, and its transcript lacks it: {text}")

    def _name_other_stores(self) -> None:
        """Name what has conversations, too, and is not read: other profiles, and transcripts of old versions."""
        for database in sorted(self.home.glob("profiles/*/state.db")):
            why = f"it is another profile; import it by itself: --from hermes {database.parent}"
            self.report.name_unread(str(database), why)
        for path in sorted(self.home.glob("sessions/*.jsonl")):
            self.report.name_unread(
                str(path), "it is a transcript of an old version; Hermes took it over into state.db"
            )

    # ------------------------------------------------------------ people and schedules

    def read_people(self) -> Iterator[StoredPerson]:
        """Yield the accounts that were paired, and those of `..._ALLOWED_USERS` in `.env`."""
        for folder in (self.home / "platforms" / "pairing", self.home / "pairing"):
            for path in sorted(folder.glob("*-approved.json")):
                accounts = read_json_file(path, self.report)
                for account, about in (accounts if isinstance(accounts, dict) else {}).items():
                    name = about.get("user_name") if isinstance(about, dict) else None
                    yield StoredPerson(path.name.removesuffix("-approved.json"), str(account), name or None)
        for name, value in read_environment_file(self.home / ".env"):
            if match := re.fullmatch(r"([A-Z_]+)_ALLOWED_USERS", name):
                accounts = [account for part in value.split(",") if (account := part.strip())]
                yield from self._read_allowed(match[1].lower(), accounts)

    def _read_allowed(self, platform: str, accounts: list[str]) -> Iterator[StoredPerson]:
        """Yield the people of a setting `..._ALLOWED_USERS`. `platform`: the beginning of its name."""
        named = [account for account in accounts if account != "*"]
        self.report.left_out["rules that let in more than one account"] += len(accounts) - len(named)
        if platform.endswith("_group"):
            self.report.left_out["accounts that may speak in groups only"] += len(named)
        elif platform == "gateway" and named:
            self.report.name_unread(
                f"{self.home / '.env'}, GATEWAY_ALLOWED_USERS",
                f"{', '.join(named)}: these accounts have no channel; let each in: semel people add CHANNEL:ACCOUNT",
            )
        else:
            yield from (StoredPerson(platform, account, None) for account in named)

    def read_schedules(self) -> Iterator[StoredSchedule]:
        path = self.home / "cron" / "jobs.json"
        if not path.exists():
            return
        content = read_json_file(path, self.report)
        jobs = content.get("jobs") if isinstance(content, dict) else content
        environment = dict(read_environment_file(self.home / ".env"))
        zone = environment.get("HERMES_TIMEZONE") or self._read_zone()
        homes = find_homes(environment.items())
        for number, job in enumerate(jobs if isinstance(jobs, list) else [], 1):
            place = f"{path}, job {number}"
            if not isinstance(job, dict) or not isinstance(job.get("schedule"), dict):
                self.report.name_unread(place, "it has no schedule")
            elif not job.get("prompt"):
                self.report.name_unread(place, "it runs a script; Semel's schedules ask an agent")
            else:
                chats = list_chats(job, homes)
                self.report.left_out[FURTHER_CHATS] += max(0, len(chats) - 1)
                try:
                    yield parse_schedule(job, zone, chats)
                except (ValueError, TypeError, OverflowError):
                    self.report.name_unread(place, f"Semel has no such schedule: {job['schedule'].get('display')}")

    def _read_zone(self) -> str:
        """Return the time zone of `config.yaml`; this machine's if it names none, as Hermes does."""
        try:
            text = read_text_file(self.home / "config.yaml")
        except OSError:
            return local_zone()
        match = re.search(r"^timezone:\s*[\"']?([A-Za-z0-9_/+-]+)", text, re.M)
        return match[1] if match else local_zone()


def _name_of_runs(session: str) -> str:
    """Return what the sessions of one schedule's runs have in common, `cron_JOB`; another session's id as it is."""
    match = _CRON_SESSION.fullmatch(session)
    return match[1] if match else session


def _is_shared(session: Json) -> bool:
    """Return whether several people write in one session: in a group whose key does not end with a person's id."""
    key = str(session["session_key"] or "")
    is_group = ":dm:" not in key and bool(session["chat_id"])
    return is_group and key.endswith(
        tuple(f":{place}" for place in (session["chat_id"], session["thread_id"]) if place)
    )


def _find_sender(session: Json) -> str | None:
    """Return the name of the person whose session it is, as the platform gave it."""
    origin = parse_object(session["origin_json"])
    name = origin.get("user_name") or session["user_id"]
    return str(name) if name else None


def _parse_content(content: Any) -> tuple[str, tuple[str, ...]]:
    """Return a row's text and the names of its files."""
    if not isinstance(content, str):
        return ("" if content is None else str(content)), ()
    if not content.startswith(JSON_MARK):
        return content.strip(), ()
    parts = parse_object(f'{{"parts": {content[len(JSON_MARK) :]}}}').get("parts")
    texts, files = [], []
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and part.get("type") in ("text", "input_text"):
            texts.append(str(part.get("text") or ""))
        elif isinstance(part, dict):
            files.append(str(part.get("type") or "file"))
    return "\n".join(texts).strip(), tuple(files)


def _count_tool_calls(row: Json) -> int:
    calls = parse_object(f'{{"calls": {row["tool_calls"] or "[]"}}}').get("calls")
    return len(calls) if isinstance(calls, list) else 0
