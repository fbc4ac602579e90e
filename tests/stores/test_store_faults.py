"""What other systems have written twice is imported once; what cannot be read is named; all else is kept."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from pathlib import Path

import pytest
from store_house import (
    alter,
    count_entries,
    hermes_home,
    hermes_row,
    make_database,
    openclaw_event,
    openclaw_folder,
    openclaw_store,
    read_texts,
    unpack,
)

from semel.faces.stores import hermes, nanoclaw, openclaw, openclaw_events
from semel.faces.stores.importing import SYSTEMS, import_store, open_store
from semel.faces.stores.records import BadStore

CHAT = "main:telegram:7"


# ---------------------------------------------------------------- Hermes


def test_a_message_that_two_of_hermes_writers_recorded_is_one(tmp_path: Path) -> None:
    rows = [
        hermes_row("user", "hello", 1.0, "11"),
        hermes_row("user", "hello", 1.4),
        hermes_row("assistant", "hi", 2),
        hermes_row("user", "again", 3, "12"),
        hermes_row("user", "again", 3.5, "12"),
        hermes_row("assistant", "yes", 4.25),
        hermes_row("assistant", "yes", 4.25),
    ]
    store = hermes_home(tmp_path, rows)
    assert read_texts(store)[CHAT] == [("user", "hello"), ("agent", "hi"), ("user", "again"), ("agent", "yes")]
    assert store.report.collapsed == {
        hermes.COPY_TWO_WRITERS: 1, hermes.COPY_DELIVERED_TWICE: 1, hermes.COPY_SAME_ROW: 1,
    }  # fmt: skip


def test_what_a_person_or_an_agent_says_twice_stays_twice(tmp_path: Path) -> None:
    rows = [
        *(hermes_row("user", "ha", at, str(at)) for at in (1, 2)),
        hermes_row("assistant", "ha", 3),
        hermes_row("user", "ha", 4),
        hermes_row("assistant", "ha", 5),
        *(hermes_row("user", "ha", at) for at in (6, 7, 7)),
    ]
    store = hermes_home(tmp_path, rows)
    assert [text for _, text in read_texts(store)[CHAT]] == ["ha"] * 8
    assert not store.report.collapsed


def test_rows_that_compaction_wrote_again_are_left_out_and_genuine_repeats_stay(tmp_path: Path) -> None:
    rows = [
        hermes_row("user", "first", 1, compacted=True),
        hermes_row("assistant", "done", 2, compacted=True),
        hermes_row("user", "second", 3, compacted=True),
        hermes_row("assistant", "done", 4, compacted=True),
        hermes_row("user", "first", 60.0),
        hermes_row("user", "[CONTEXT COMPACTION - REFERENCE ONLY] Earlier turns ...", 60.1),
        hermes_row("user", "second", 60.2),
        hermes_row("assistant", "done", 60.3),
        hermes_row("user", "third", 70),
        hermes_row("assistant", "done", 71),
    ]
    store = hermes_home(tmp_path, rows)
    assert [text for _, text in read_texts(store)[CHAT]] == ["first", "done", "second", "done", "third", "done"]
    assert store.report.collapsed == {hermes.COPY_COMPACTED: 3}
    assert store.report.left_out["summaries of compaction"] == 1


def test_what_hermes_wrote_in_a_persons_name_is_nobodys(tmp_path: Path) -> None:
    rows = [
        hermes_row("user", "hello", 1),
        hermes_row("user", "", 2),
        hermes_row("user", None, 3),
        hermes_row("user", "[System: Your previous response was truncated ...]", 4),
        hermes_row("assistant", "(empty)", 5),
        hermes_row("assistant", "hi", 6),
        hermes_row("session_meta", None, 7),
        hermes_row("tool", "result", 8),
    ]
    store = hermes_home(tmp_path, rows)
    assert read_texts(store)[CHAT] == [("user", "hello"), ("agent", "hi")]
    assert store.report.left_out[hermes.MACHINE_ROWS] == 4
    assert store.report.left_out["tool results"] == 1


def test_a_delivered_answer_that_hermes_transcript_lacks_is_named(tmp_path: Path) -> None:
    more = """
        CREATE TABLE delivery_obligations (obligation_id TEXT, session_key TEXT, platform TEXT, chat_id TEXT,
          content TEXT, state TEXT);
        INSERT INTO delivery_obligations VALUES
          ('o1', 'agent:main:telegram:dm:7', 'telegram', '7', 'It is lost.', 'delivered'),
          ('o2', 'agent:main:telegram:dm:7', 'telegram', '7', 'hi', 'delivered');
    """
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1), hermes_row("assistant", "hi", 2)], more)
    read_texts(store)
    ((place, why),) = store.report.unread
    assert place.endswith("state.db, delivery_obligations o1")
    assert "its transcript lacks it: It is lost." in why


def test_what_else_hermes_keeps_is_named(tmp_path: Path) -> None:
    hermes_home(tmp_path / "profiles" / "coder", [hermes_row("user", "hello", 1)])
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions/old.jsonl").write_text("{}\n")
    read_texts(store)
    assert [Path(place).name for place, _ in store.report.unread] == ["state.db", "old.jsonl"]
    assert f"--from hermes {tmp_path / 'profiles' / 'coder'}" in store.report.unread[0][1]


async def test_an_account_that_hermes_names_in_two_places_is_one(tmp_path: Path) -> None:
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    (tmp_path / "pairing").mkdir()
    (tmp_path / "pairing/telegram-approved.json").write_text('{"7": {"user_name": "Ada"}}')
    (tmp_path / ".env").write_text("# who may talk\nexport TELEGRAM_ALLOWED_USERS='7, 8'\nTELEGRAM_BOT_TOKEN=x\n")
    report = await import_store(store, None)
    assert [(person["account"], person["name"]) for person in report["people"]] == [
        ("telegram:7", "Ada"), ("telegram:8", None),
    ]  # fmt: skip


# ---------------------------------------------------------------- OpenClaw


def test_a_completion_that_openclaw_recorded_three_times_is_one_event(tmp_path: Path) -> None:
    done = "Exec finished (node=n1, id=keen-nexus, code 0)\nall green"
    store = openclaw_store(
        tmp_path,
        [
            openclaw_event(1, "user", "Run the tests."),
            openclaw_event(2, "assistant", "They run."),
            openclaw_event(3, "user", f"System: [2026-04-14 10:00:00] {done}"),
            openclaw_event(4, "assistant", "All green."),
            openclaw_event(5, "user", f"System: [2026-04-14 10:00:25] {done}"),
            openclaw_event(6, "user", f"System: [2026-04-14 10:00:50] {done}"),
            openclaw_event(7, "user", "System: [2026-04-14 10:01:00] Exec finished (node=n1, id=other, code 0)"),
        ],
    )
    events = [text for role, text in read_texts(store)[CHAT] if role == "event"]
    assert len(events) == 2
    assert store.report.collapsed == {openclaw_events.SAME_COMPLETION: 2}


def test_what_openclaw_wrote_again_is_collapsed_by_identity(tmp_path: Path) -> None:
    mirror = {"provider": "openclaw", "model": "delivery-mirror"}
    store = openclaw_store(
        tmp_path,
        [
            openclaw_event(1, "user", "hello", idempotencyKey="k1"),
            openclaw_event(1, "user", "hello", idempotencyKey="k1"),
            openclaw_event(2, "user", "hello", idempotencyKey="k1"),
            openclaw_event(3, "assistant", "hi"),
            openclaw_event(4, "assistant", "hi", **mirror),
            openclaw_event(5, "user", "send it", parentId="e4"),
            openclaw_event(6, "user", "send it", parentId="e4"),
            openclaw_event(7, "assistant", "It is sent.", **mirror),
            openclaw_event(8, "assistant", "It  is sent."),
            openclaw_event(9, "user", "send it"),
            openclaw_event(10, "assistant", "It is sent."),
            openclaw_event(11, "assistant", "NO_REPLY"),
        ],
    )
    assert read_texts(store)[CHAT] == [
        ("user", "hello"), ("agent", "hi"), ("user", "send it"), ("agent", "It is sent."), ("user", "send it"),
        ("agent", "It is sent."),
    ]  # fmt: skip
    assert store.report.collapsed == {
        openclaw_events.SAME_EVENT: 1, openclaw_events.SAME_KEY: 1, openclaw_events.MIRROR: 1,
        openclaw_events.TRIED_AGAIN: 1, openclaw_events.ECHO: 1,
    }  # fmt: skip


def test_a_broken_line_is_named_with_its_number_and_the_others_are_read(tmp_path: Path) -> None:
    cut = json.dumps(openclaw_event(3, "assistant", "lost"))[:-20]
    store = openclaw_store(tmp_path, [openclaw_event(1, "user", "hello"), cut, openclaw_event(4, "assistant", "hi")])
    assert read_texts(store)[CHAT] == [("user", "hello"), ("agent", "hi")]
    ((place, _),) = store.report.unread
    assert place.endswith("s1.jsonl:3")


def test_a_file_that_is_no_transcript_or_a_newer_one_is_named(tmp_path: Path) -> None:
    sessions = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")]) / "agents/main/sessions"
    (sessions / "other.jsonl").write_text('{"type": "something"}\n')
    (sessions / "newer.jsonl").write_text('{"type": "session", "version": 9, "id": "newer"}\n')
    store = open_store("openclaw", tmp_path)
    assert read_texts(store)[CHAT] == [("user", "hello")]
    assert [(Path(place).name, why) for place, why in store.report.unread] == [
        ("newer.jsonl:1", "its format has version 9; this Semel knows up to 4"),
        ("other.jsonl:1", "the file does not begin as a transcript does"),
    ]


async def test_a_conversation_with_values_that_its_system_never_writes_is_named_and_the_others_are_imported(
    tmp_path: Path,
) -> None:
    folder = unpack("nanoclaw-2", tmp_path / "store")
    db = sqlite3.connect(folder / "data/v2.db")
    db.execute(
        "INSERT INTO sessions SELECT 'sess-2', agent_group_id, x'00', 5, '', '', '', '', created_at FROM sessions"
    )
    db.execute("INSERT INTO messaging_groups(id, channel_type, platform_id) VALUES (x'00', 'telegram', x'ff')")
    db.commit()
    db.close()
    report = await import_store(open_store("nanoclaw", folder), None)
    assert [row["from"] for row in report["sessions"]] == ["nanoclaw:sess-1"]
    assert any("nanoclaw" in row["why"] for row in report["unread"])


def compressed_store(folder: Path) -> Path:
    """A store whose first event, which is no message, is compressed."""
    unpack("openclaw-2026.9.6", folder)
    db = sqlite3.connect(folder / "agents/main/agent/openclaw-agent.sqlite")
    db.execute("UPDATE transcript_events SET event_json = NULL, event_zstd = CAST(event_json AS BLOB) WHERE seq = 0")
    db.commit()
    db.close()
    return folder


def test_a_store_with_compressed_events_is_refused_without_a_decompressor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openclaw, "_find_decompressor", lambda: None)
    with pytest.raises(BadStore, match=r"has compressed events.*pip install zstandard"):
        open_store("openclaw", compressed_store(tmp_path / "store"))


def test_compressed_events_are_read_and_a_damaged_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = read_texts(open_store("openclaw", unpack("openclaw-2026.9.6", tmp_path / "plain")))
    folder = compressed_store(tmp_path / "store")
    monkeypatch.setattr(openclaw, "_find_decompressor", lambda: lambda frame: frame)
    store = open_store("openclaw", folder)
    assert read_texts(store) == plain
    assert store.report.unread == []

    def refuse(frame: bytes) -> bytes:
        raise RuntimeError("Unknown frame descriptor")

    monkeypatch.setattr(openclaw, "_find_decompressor", lambda: refuse)
    store = open_store("openclaw", folder)
    assert read_texts(store) == plain
    assert [why for _, why in store.report.unread] == ["it cannot be decompressed: Unknown frame descriptor"] * 4


# ---------------------------------------------------------------- NanoClaw


def test_what_nanoclaws_agent_said_by_its_tool_and_in_its_answer_is_one(tmp_path: Path) -> None:
    folder = unpack("nanoclaw-2", tmp_path / "store")
    alter(
        folder / "data/v2-sessions/ag-1/sess-1/inbound.db",
        "UPDATE delivered SET status = 'refused' WHERE message_out_id = 'out-4'",
    )
    store = open_store("nanoclaw", folder)
    assert read_texts(store)[CHAT] == [
        ("user", "Send the report."), ("agent", "The report is sent."), ("user", "And the other one?"),
        ("agent", "That one is not ready."), ("event", "Tell what today brings."), ("agent", "Bread day."),
    ]  # fmt: skip
    assert store.report.collapsed == {nanoclaw.ECHO: 1}
    (conversation,) = store.read_conversations()
    undelivered = {message.text: message.undelivered for message in conversation.read_messages() if message.undelivered}
    assert undelivered == {
        "That one is not ready.": "NanoClaw gave up sending it", "Bread day.": "NanoClaw refused to send it",
    }  # fmt: skip


def test_a_schedule_of_nanoclaw_that_had_split_in_two_is_one(tmp_path: Path) -> None:
    store = open_store("nanoclaw", unpack("nanoclaw-2", tmp_path / "store"))
    (schedule,) = store.read_schedules()
    assert (schedule.name, schedule.form, schedule.spec, schedule.session) == ("series-1", "cron", "30 7 * * *", CHAT)
    assert store.report.collapsed == {nanoclaw.SAME_SERIES: 1}
    people = {person.account: person.role for person in store.read_people()}
    assert people == {"7": "owner", "8": None}


# ---------------------------------------------------------------- stores that cannot be read


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_folder_that_is_no_store_is_refused_with_what_to_give(system: str, tmp_path: Path) -> None:
    with pytest.raises(BadStore, match=r"is no .+ folder|is no .+ home"):
        open_store(system, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(BadStore, match="there is no"):
        open_store(system, tmp_path / "none")  # type: ignore[arg-type]


def test_a_newer_schema_of_hermes_is_read_as_far_as_it_is_known_and_named(tmp_path: Path) -> None:
    texts = ("hello", "steer", "sum")
    hermes_home(tmp_path, [hermes_row("user", text, number) for number, text in enumerate(texts)])
    alter(
        tmp_path / "state.db",
        """
        UPDATE schema_version SET version = 25;
        ALTER TABLE messages ADD COLUMN display_kind TEXT;
        ALTER TABLE messages ADD COLUMN _compressed_summary INTEGER NOT NULL DEFAULT 0;
        UPDATE messages SET display_kind = 'hidden' WHERE content = 'steer';
        UPDATE messages SET _compressed_summary = 1 WHERE content = 'sum';
        """,
    )
    store = open_store("hermes", tmp_path)
    assert list(read_texts(store).values()) == [[("user", "hello")]]
    [(place, why)] = store.report.unread
    assert place.endswith("state.db, schema 25") and "knows Hermes's schema up to 22" in why
    alter(tmp_path / "state.db", "ALTER TABLE messages RENAME COLUMN content TO body;")
    with pytest.raises(BadStore, match="is not Hermes's"):
        open_store("hermes", tmp_path)


def test_a_newer_format_of_openclaw_is_read_as_far_as_it_is_known_and_named(tmp_path: Path) -> None:
    folder = unpack("openclaw-2026.9.6", tmp_path / "store")
    known = read_texts(open_store("openclaw", folder))
    [database, *_] = sorted(folder.rglob("openclaw-agent.sqlite"))
    alter(database, "PRAGMA user_version = 99; ALTER TABLE transcript_events ADD COLUMN place TEXT;")
    store = open_store("openclaw", folder)
    assert read_texts(store) == known
    [(place, why)] = store.report.unread
    assert place.endswith("openclaw-agent.sqlite, schema 99") and "knows OpenClaw's schema up to 23" in why


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE transcript_events RENAME COLUMN event_json TO body",
        "ALTER TABLE session_nodes RENAME COLUMN current_session_id TO newest",
        "UPDATE transcript_events SET event_json = NULL WHERE seq = 2",
    ],
)
def test_a_newer_format_of_openclaw_that_keeps_its_events_elsewhere_is_refused(tmp_path: Path, change: str) -> None:
    folder = unpack("openclaw-2026.9.6", tmp_path / "store")
    [database, *_] = sorted(folder.rglob("openclaw-agent.sqlite"))
    alter(database, f"PRAGMA user_version = 99; {change};")
    with pytest.raises(BadStore, match="version 99 of OpenClaw's format; this Semel knows up to 23"):
        open_store("openclaw", folder)


def test_a_damaged_or_foreign_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database, " * 1000)
    with pytest.raises(BadStore, match=r"file is not a database.*import from a backup"):
        open_store("hermes", tmp_path)
    (tmp_path / "state.db").unlink()
    make_database(tmp_path / "state.db", "CREATE TABLE other (x)")
    with pytest.raises(BadStore, match="is not Hermes's"):
        open_store("hermes", tmp_path)


def test_a_locked_database_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    monkeypatch.setattr("semel.faces.stores.files.BUSY_TIMEOUT_S", 0.1)
    db = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    db.execute("UPDATE messages SET content = 'x'")
    db.execute("COMMIT")
    with pytest.raises(BadStore, match="locked by another program; stop that program"):
        open_store("hermes", tmp_path)
    db.close()


@pytest.mark.long
def test_memory_does_not_grow_with_the_length_of_a_conversation(tmp_path: Path) -> None:
    text = "A long answer. " * 200  # all together 3 MB
    folder = openclaw_folder(tmp_path, [openclaw_event(n, "assistant", f"{n} {text}") for n in range(1, 1001)])
    store = open_store("openclaw", folder)
    tracemalloc.start()
    assert count_entries(store) == 1000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20
