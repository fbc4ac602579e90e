"""Files of a store that are not what a reader expects: pipes, links, and one that is damaged among several."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from store_house import hermes_home, hermes_row, openclaw_event, openclaw_folder, read_texts, unpack

from semel.faces.stores.hermes import HermesStore
from semel.faces.stores.importing import import_store, open_store
from semel.faces.stores.json5 import parse_json5


@pytest.mark.parametrize(
    "name", ["agents/main/sessions/s2.jsonl", "agents/main/sessions/sessions.json", "openclaw.json"]
)
async def test_a_pipe_or_a_device_in_a_store_is_named_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")])
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    (folder / "cron").mkdir()
    (folder / "cron/jobs.json").symlink_to("/dev/zero")
    report = await import_store(open_store("openclaw", folder), None)
    assert [row["entries"] for row in report["sessions"]] == [1]
    unread = {row["place"]: row["why"] for row in report["unread"]}
    assert unread == {str(folder / path): "it is no regular file" for path in (name, "cron/jobs.json")}


def test_what_a_linked_databases_log_holds_is_read(tmp_path: Path) -> None:
    """SQLite keeps the write-ahead log beside the file, not beside a link to it."""
    (tmp_path / "disk").mkdir()
    hermes_home(tmp_path / "disk", [hermes_row("user", "hello", 1)])
    db = sqlite3.connect(tmp_path / "disk/state.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(
        "INSERT INTO messages SELECT 2, session_id, role, 'In the log.', timestamp + 1, NULL, 1, 0 FROM messages"
    )
    (tmp_path / "home").mkdir()
    (tmp_path / "home/state.db").symlink_to(tmp_path / "disk/state.db")
    assert read_texts(HermesStore(tmp_path / "home")) == {
        "main:telegram:7": [("user", "hello"), ("user", "In the log.")],
    }
    db.close()


async def test_a_damaged_session_of_nanoclaw_costs_no_other_session_its_schedules(tmp_path: Path) -> None:
    folder = unpack("nanoclaw-2", tmp_path / "store")
    db = sqlite3.connect(folder / "data/v2.db")
    db.execute("INSERT INTO sessions SELECT 'sess-0', agent_group_id, messaging_group_id, thread_id, agent_provider, "
               "status, container_status, last_active, '2026-11-19T08:00:00.000Z' FROM sessions")  # fmt: skip
    db.commit()
    db.close()
    damaged = folder / "data/v2-sessions/ag-1/sess-0"
    shutil.copytree(damaged.with_name("sess-1"), damaged)
    (damaged / "inbound.db").write_bytes(b"no database, " * 1000)
    report = await import_store(open_store("nanoclaw", folder), None)
    assert [row["name"] for row in report["schedules"]] == ["nanoclaw-series-1"]
    assert [row["from"] for row in report["sessions"]] == ["nanoclaw:sess-1"]
    assert {row["place"] for row in report["unread"]} == {str(damaged), f"{damaged / 'inbound.db'}, the schedules"}
    assert "conversations without a message" not in report["left_out"]


async def test_people_and_schedules_of_openclaws_files_do_not_depend_on_its_database(tmp_path: Path) -> None:
    """Its configuration is JSON5, as a person writes it."""
    folder = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")])
    (folder / "state").mkdir()
    (folder / "state/openclaw.sqlite").write_bytes(b"no database, " * 1000)
    (folder / "cron").mkdir()
    job = '{"name": "bread", "payload": {"message": "Bake."}, "schedule": {"kind": "every", "everyMs": 3600000}}'
    (folder / "cron/jobs.json").write_text(f'{{"jobs": [{job}]}}')
    (folder / "openclaw.json").write_text("""
        // who may write: "nobody else"
        {
          channels: {
            'telegram': {dmPolicy: "allowlist", allowFrom: ["tg:8", 9,], /* Ben, and Cy */},
            "signal": {allowFrom: ['it\\'s "me" // here',], retries: .5, delay: +Infinity},
          },
        }
    """)
    report = await import_store(open_store("openclaw", folder), None)
    accounts = [row["account"] for row in report["people"]]
    assert accounts == ["telegram:8", "telegram:9", 'signal:it\'s "me" // here']
    assert [row["name"] for row in report["schedules"]] == ["openclaw-bread"]
    lists = ("the people", "the schedules")
    assert [row["place"] for row in report["unread"]] == [
        f"{folder / 'state/openclaw.sqlite'}, {name}" for name in lists
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, $b_2: [0x1F, +.5, 5., -2, 1e3,],}", {"a": 1, "$b_2": [31, 0.5, 5.0, -2, 1000.0]}),
        ("['it\\'s \"quoted\"', \"a\\tb\", 'c\\\nd', '\\x41', 'https://x']", ["it's \"quoted\"", "a\tb", "cd", "A", "https://x"]),
        ("// c: 1\n{/* , */ 'b': true, null: null}", {"b": True, "null": None}),
        ("[]", []),
    ],
)  # fmt: skip
def test_json5_is_read_as_its_specification_says(text: str, value: object) -> None:
    assert parse_json5(text) == value


@pytest.mark.parametrize(
    "text", ["", "{a: }", "[1", "{a b}", "{'a': 'b}", "1 2", "{a: ['8, 9]}", '{"a": 1"}', "{a: 1} /"]
)
def test_what_is_no_json5_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json5(text)
