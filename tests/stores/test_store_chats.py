"""A chat on Signal or WhatsApp becomes the session in which Semel's channel of that kind hears it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from store_house import hermes_home, hermes_row, openclaw_event, openclaw_folder, unpack

from semel.faces.stores.chat_addresses import convert_address
from semel.faces.stores.importing import open_store

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
