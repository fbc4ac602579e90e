"""Chats become the sessions in which Semel's channels hear them; who may speak there, and what a schedule tells."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from store_house import Json, alter, hermes_home, hermes_row, openclaw_event, openclaw_folder, unpack

from semel.faces.stores.chat_addresses import convert_address
from semel.faces.stores.hermes_schedules import FURTHER_CHATS
from semel.faces.stores.importing import import_store, open_store
from semel.faces.stores.nanoclaw import CANCELLED

ID = "6f0ea3b2-8c6d-4a44-9d0e-5a1b2c3d4e5f"
GROUP = "BROemHVncLgSz8tReUKBz6v3bEdhDB0eXajd+Srp6oY="


@pytest.mark.parametrize(
    ("platform", "address", "place"),
    [
        ("whatsapp", "+16505551234", ("whatsapp", "16505551234")),
        ("whatsapp", "16505551234@s.whatsapp.net", ("whatsapp", "16505551234")),
        ("whatsapp", "16505551234:3@s.whatsapp.net", ("whatsapp", "16505551234")),
        ("whatsapp_cloud", "16505551234", ("whatsapp", "16505551234")),
        ("whatsapp", "120363041234567890@g.us", ("whatsapp", None)),
        ("whatsapp", "123456789012345@lid", ("whatsapp", None)),
        ("signal", f"uuid:{ID}", ("signal", ID)),
        ("signal", "+16505551234", ("signal", "+16505551234")),
        ("signal", f"group:{GROUP}", ("signal", f"group:{GROUP}")),
        ("signal", "Ann", ("signal", None)),
        ("telegram", "-100:topic-5", ("telegram", "-100:topic-5")),
    ],
)
def test_an_address_is_written_as_its_channel_hears_it(
    platform: str, address: str, place: tuple[str, str | None]
) -> None:
    assert convert_address(platform, address) == place


@pytest.mark.parametrize(
    ("source", "chat", "origin", "key"),
    [
        ("whatsapp", "16505551234@s.whatsapp.net", {}, "main:whatsapp:16505551234"),
        ("whatsapp", "120363041234567890@g.us", {}, "main:web:whatsapp-120363041234567890@g.us"),
        ("signal", "+16505551234", {"user_id_alt": ID}, f"main:signal:{ID}"),
        ("signal", "+16505551234", {}, "main:signal:+16505551234"),
        ("signal", f"group:{GROUP}", {"user_id_alt": ID}, f"main:signal:group:{GROUP}"),
    ],
)
def test_a_chat_of_hermes(tmp_path: Path, source: str, chat: str, origin: dict[str, str], key: str) -> None:
    change = f"UPDATE sessions SET source = '{source}', chat_id = '{chat}', origin_json = '{json.dumps(origin)}';"
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)], change)
    assert [conversation.key for conversation in store.read_conversations()] == [key]


@pytest.mark.parametrize(
    ("chat", "to", "key"),
    [
        ("whatsapp:direct:+16505551234", None, "main:whatsapp:16505551234"),
        ("whatsapp:group:120363041234567890@g.us", None, "main:web:whatsapp-120363041234567890@g.us"),
        ("signal:direct:+16505551234", None, "main:signal:+16505551234"),
        (f"signal:direct:uuid:{ID}", None, f"main:signal:{ID}"),
        (f"signal:group:{GROUP.lower()}", f"signal:group:{GROUP}", f"main:signal:group:{GROUP}"),
        (f"signal:group:{GROUP}", None, f"main:signal:group:{GROUP}"),
    ],
)
def test_a_chat_of_openclaw(tmp_path: Path, chat: str, to: str | None, key: str) -> None:
    folder = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")])
    entry: dict[str, object] = {"sessionId": "s1", "chatType": "group" if ":group:" in chat else "direct"}
    if to is not None:
        entry["deliveryContext"] = {"channel": "signal", "to": to}
    (folder / "agents/main/sessions/sessions.json").write_text(json.dumps({f"agent:main:{chat}": entry}))
    assert [conversation.key for conversation in open_store("openclaw", folder).read_conversations()] == [key]


@pytest.mark.parametrize(
    ("channel", "platform_id", "key"),
    [
        ("whatsapp", "16505551234@s.whatsapp.net", "main:whatsapp:16505551234"),
        ("signal", "signal:+16505551234", "main:signal:+16505551234"),
        ("signal", f"signal:group:{GROUP}", f"main:signal:group:{GROUP}"),
    ],
)
def test_a_chat_of_nanoclaw(tmp_path: Path, channel: str, platform_id: str, key: str) -> None:
    folder = unpack("nanoclaw-2", tmp_path / "store")
    db = sqlite3.connect(folder / "data/v2.db")
    db.execute("UPDATE messaging_groups SET channel_type = ?, platform_id = ?", (channel, platform_id))
    db.execute("UPDATE sessions SET thread_id = ?", (platform_id,))
    db.commit()
    db.close()
    keys = {conversation.key for conversation in open_store("nanoclaw", folder).read_conversations()}
    assert keys == {key}


def test_a_task_of_nanoclaw_with_a_session_of_its_own_asks_in_the_chat_in_which_it_was_made(tmp_path: Path) -> None:
    """NanoClaw since 2.1: the task is in a session without a chat, and names the session that made it."""
    folder = unpack("nanoclaw-2", tmp_path / "store")
    alter(
        folder / "data/v2.db",
        "INSERT INTO sessions(id, agent_group_id, thread_id, created_at) "
        "VALUES ('sess-2', 'ag-1', 'system:tasks:walk-1a2b', '2026-11-21T08:00:00.000Z');"
        "CREATE TABLE container_configs (agent_group_id TEXT PRIMARY KEY, timezone TEXT);"
        "INSERT INTO container_configs VALUES ('ag-1', 'Asia/Tokyo');",
    )
    shutil.copytree(folder / "data/v2-sessions/ag-1/sess-1", folder / "data/v2-sessions/ag-1/sess-2")
    content = json.dumps({"prompt": "Walk the dog.", "script": None, "originSessionId": "sess-1"})
    alter(folder / "data/v2-sessions/ag-1/sess-2/outbound.db", "DELETE FROM messages_out")
    alter(
        folder / "data/v2-sessions/ag-1/sess-2/inbound.db",
        f"""
        DELETE FROM messages_in WHERE id <> 'task-2';
        UPDATE messages_in SET series_id = 'walk-1a2b', platform_id = NULL, channel_type = NULL, content = '{content}';
        INSERT INTO messages_in(id, seq, kind, timestamp, status, process_after, series_id, content) VALUES
          ('task-4', 12, 'task', '2026-11-20', 'completed', '2026-11-20T06:30:00Z', 'old', 'Old form.'),
          ('task-5', 14, 'task', '2026-11-20', 'cancelled', '2026-11-20T07:30:00Z', 'gone', '{content}');
        """,
    )
    store = open_store("nanoclaw", folder)
    schedules = {schedule.name: schedule for schedule in store.read_schedules()}
    walk = schedules["walk-1a2b"]
    assert (walk.text, walk.session, walk.tz) == ("Walk the dog.", "main:telegram:7", "Asia/Tokyo")
    conversations = {conversation.key: conversation for conversation in store.read_conversations()}
    task = conversations["main:web:nanoclaw-sess-2"]
    assert task.title == "walk-1a2b"
    assert [(message.kind, message.text) for message in task.read_messages()] == [("schedule", "Old form.")]
    assert store.report.left_out[CANCELLED] == 1 and store.report.unread == []


def test_openclaws_owners_and_the_accounts_of_each_of_its_bots_are_let_in(tmp_path: Path) -> None:
    folder = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")])
    config = {
        "commands": {"ownerAllowFrom": ["telegram:7"]},
        "channels": {"telegram": {"allowFrom": [7, 8], "accounts": {"other": {"allowFrom": ["tg:9"]}}}},
    }
    (folder / "openclaw.json").write_text(json.dumps(config))
    people = [(person.account, person.role) for person in open_store("openclaw", folder).read_people()]
    assert people == [("7", "owner"), ("8", None), ("9", None)]


def test_openclaws_main_conversation_has_the_key_of_the_chat_it_was_last_used_from(tmp_path: Path) -> None:
    folder = openclaw_folder(tmp_path, [openclaw_event(1, "user", "hello")], session="s2")
    openclaw_folder(tmp_path, [openclaw_event(1, "assistant", "a mirror")], session="s1")
    context = {"channel": "telegram", "to": "telegram:7"}
    index = {
        "agent:main:telegram:default:direct:7": {"sessionId": "s1", "chatType": "direct"},
        "agent:main:main": {"sessionId": "s2", "chatType": "direct", "deliveryContext": context},
    }
    (folder / "agents/main/sessions/sessions.json").write_text(json.dumps(index))
    first, second = open_store("openclaw", folder).read_conversations()
    assert (first.key, second.key) == ("main:telegram:7", "main:telegram:7")
    assert [message.text for message in first.read_messages()] == ["hello"]


ORIGIN = {"platform": "telegram", "chat_id": "-1001", "thread_id": "5"}


@pytest.mark.parametrize(
    ("deliver", "origin", "session", "further"),
    [
        ("telegram:7", None, "main:telegram:7", 0),
        ("telegram:-1001:17", None, "main:telegram:-1001:topic-17", 0),
        ("telegram:7, discord:12:34", None, "main:telegram:7", 1),
        (["slack:C12345678:17.5"], None, "main:slack:C12345678:17.5", 0),
        ("matrix:!kitchen:example.org", None, "main:matrix:!kitchen:example.org", 0),
        ("origin", ORIGIN, "main:telegram:-1001:topic-5", 0),
        ("origin", {**ORIGIN, "thread_id": None}, "main:telegram:-1001", 0),
        ("origin", None, "main:email:ada@example.org", 0),  # Hermes's first home
        ("telegram", ORIGIN, "main:telegram:-1001:topic-5", 0),
        ("telegram", None, "main:telegram:7:topic-3", 0),
        ("all", None, "main:email:ada@example.org", 1),
        ("signal", None, None, 0),
        ("local", ORIGIN, None, 0),
    ],
)
def test_a_schedule_of_hermes_asks_in_the_first_chat_that_it_told(
    deliver: str | list[str], origin: Json | None, session: str | None, further: int, tmp_path: Path
) -> None:
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    (tmp_path / ".env").write_text(
        "EMAIL_HOME_ADDRESS=ada@example.org\nTELEGRAM_HOME_CHANNEL=7  # Ada\nTELEGRAM_HOME_CHANNEL_THREAD_ID=3\n"
    )
    (tmp_path / "cron").mkdir()
    job = {"name": "bread", "prompt": "Bake.", "schedule": {"kind": "interval", "minutes": 60}}
    (tmp_path / "cron/jobs.json").write_text(json.dumps({"jobs": [{**job, "deliver": deliver, "origin": origin}]}))
    (schedule,) = store.read_schedules()
    assert schedule.session == session
    assert store.report.left_out[FURTHER_CHATS] == further


async def test_hermes_rules_that_name_no_single_account_of_a_channel_let_nobody_in(tmp_path: Path) -> None:
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    (tmp_path / ".env").write_text(
        "TELEGRAM_ALLOWED_USERS=7,*  # 7 is Ada\nGATEWAY_ALLOWED_USERS=7,U12\nTELEGRAM_GROUP_ALLOWED_USERS=9,10\n"
        "WHATSAPP_CLOUD_ALLOWED_USERS=+16505551234\nexport DISCORD_ALLOWED_USERS='12 # no comment'\n"
        'SLACK_ALLOWED_USERS="U1,U2" # Ben\'s\n'
    )
    report = await import_store(store, None)
    accounts = {person["account"] for person in report["people"]}
    assert accounts == {"telegram:7", "whatsapp:16505551234", "discord:12 # no comment", "slack:U1", "slack:U2"}
    assert report["left_out"]["rules that let in more than one account"] == 1
    assert report["left_out"]["accounts that may speak in groups only"] == 2
    ((place, why),) = [(row["place"], row["why"]) for row in report["unread"]]
    assert place == f"{tmp_path / '.env'}, GATEWAY_ALLOWED_USERS"
    assert why.startswith("7, U12: these accounts have no channel")


@pytest.mark.parametrize(
    ("environment", "config", "zone"),
    [
        ("", "model: small\n", "Asia/Tokyo"),
        ("", None, "Asia/Tokyo"),
        ("", "timezone: 'Europe/Berlin'\n", "Europe/Berlin"),
        ("HERMES_TIMEZONE=America/Lima\n", "timezone: Europe/Berlin\n", "America/Lima"),
    ],
)
def test_a_schedule_of_hermes_fires_in_hermes_time_zone(
    environment: str, config: str | None, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    store = hermes_home(tmp_path, [hermes_row("user", "hello", 1)])
    (tmp_path / ".env").write_text(environment)
    if config is not None:
        (tmp_path / "config.yaml").write_text(config)
    (tmp_path / "cron").mkdir()
    job = {"name": "bread", "prompt": "Bake.", "schedule": {"kind": "cron", "expr": "30 7 * * *"}}
    (tmp_path / "cron/jobs.json").write_text(json.dumps([job]))
    assert [schedule.tz for schedule in store.read_schedules()] == [zone]
