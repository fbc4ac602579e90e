"""Stores as files: the samples in tests/data/stores, and small ones with faults, made by hand."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from semel.faces.stores.conversation_file import ConversationFile
from semel.faces.stores.hermes import HermesStore
from semel.faces.stores.importing import open_store
from semel.faces.stores.records import StoreReader

DATA = Path(__file__).parents[1] / "data" / "stores"
Json = dict[str, Any]


def unpack(name: str, target: Path) -> Path:
    """Copy a sample store, and make its databases of their SQL."""
    shutil.copytree(DATA / name, target)
    for path in list(target.rglob("*.sql")):
        make_database(path.with_suffix(""), path.read_text())
        path.unlink()
    return target


def make_database(path: Path, sql: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    alter(path, sql)
    return path


def alter(database: Path, sql: str) -> None:
    db = sqlite3.connect(database)
    db.executescript(sql)
    db.close()


def read_texts(store: StoreReader) -> dict[str, list[tuple[str, str]]]:
    """Read all conversations: (role, text) of their messages, by the session's key."""
    return {
        conversation.key: [(message.role, message.text) for message in conversation.read_messages()]
        for conversation in store.read_conversations()
    }


def count_entries(store: StoreReader) -> int:
    total = 0
    for conversation in store.read_conversations():
        with ConversationFile(conversation, store.system, store.report) as file:
            total += file.entries
    return total


# ---------------------------------------------------------------- Hermes


def hermes_home(folder: Path, rows: list[tuple[Any, ...]], more: str = "") -> HermesStore:
    """A home with one session. `rows`: (role, content, time in s, platform's message id, active, compacted)."""
    values = [
        "(" + ", ".join(_quote(value) for value in (number, "s1", *row)) + ")" for number, row in enumerate(rows, 1)
    ]
    make_database(
        folder / "state.db",
        f"""
        CREATE TABLE schema_version (version INTEGER);
        INSERT INTO schema_version VALUES (22);
        CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, user_id TEXT, session_key TEXT, chat_id TEXT,
          thread_id TEXT, origin_json TEXT, parent_session_id TEXT, started_at REAL, end_reason TEXT, title TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL,
          platform_message_id TEXT, active INTEGER, compacted INTEGER);
        INSERT INTO sessions(id, source, session_key, chat_id, origin_json, started_at)
        VALUES ('s1', 'telegram', 'agent:main:telegram:dm:7', '7', '{{"user_name": "Ada"}}', 1);
        INSERT INTO messages VALUES {", ".join(values)};
        {more}
        """,
    )
    return HermesStore(folder)


def hermes_row(
    role: str, content: str | None, at: float, platform: str | None = None, *, compacted: bool = False
) -> tuple[Any, ...]:
    return (role, content, 1_700_000_000 + at, platform, int(not compacted), int(compacted))


def _quote(value: Any) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


# ---------------------------------------------------------------- OpenClaw


def openclaw_folder(folder: Path, events: list[Json | str], session: str = "s1") -> Path:
    """A state folder with one JSONL transcript, of a chat with the person 7. A text stands for a broken line."""
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    head = {"type": "session", "version": 3, "id": session}
    lines = [event if isinstance(event, str) else json.dumps(event) for event in [head, *events]]
    (sessions / f"{session}.jsonl").write_text("\n".join(lines) + "\n")
    index = {"agent:main:telegram:direct:7": {"sessionId": session, "chatType": "direct"}}
    (sessions / "sessions.json").write_text(json.dumps(index))
    return folder


def openclaw_event(number: int, role: str, text: str, **more: Any) -> Json:
    """An event with a message. `more`: fields of the message; `id` and `parentId` are the event's."""
    event = {name: more.pop(name) for name in ("id", "parentId") if name in more}
    message = {"role": role, "content": text, "timestamp": 1_700_000_000_000 + 1000 * number, **more}
    return {"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}", "message": message, **event}


def openclaw_store(folder: Path, events: list[Json | str]) -> StoreReader:
    return open_store("openclaw", openclaw_folder(folder, events))
