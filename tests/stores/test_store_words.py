"""Whose words an entry has: what a system writes in a person's name, or around their words, is not theirs (Law 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_house import hermes_home, hermes_row, openclaw_event, openclaw_store, unpack

from semel.faces.stores.importing import System, open_store

NOTE = "[If you need a closer look, use vision_analyze with image_url: /home/you/.hermes/cache/images/img_7.png ~]"
ENDED = "[IMPORTANT: Background process proc_1 completed normally (exit code 0).\nCommand: bake\nOutput:\nbaked\n]"
HINT = (
    '[IMPORTANT: You are running as a scheduled cron job. SILENT: respond with exactly "[SILENT]" (nothing else).]\n\n'
)


@pytest.mark.parametrize(
    ("content", "role", "kind", "sender", "text", "files"),
    [
        (f"[The user sent an image~ Here's what I can see:\nA [cat].]\n{NOTE}\n\nWhat is it?", "user", "message", "Ada",
         "What is it?", ("img_7.png",)),
        ("[The user sent a document: 'plan.pdf'. It is saved at: /x/plan.pdf. To read it, ask.]\n\nRead it.", "user",
         "message", "Ada", "Read it.", ("plan.pdf",)),
        ('[Replying to: "It is [late]."]\n\n[no], it is not', "user", "message", "Ada", "[no], it is not", ()),
        ("Look.\n\n[Image attached at: /x/img_7.png]", "user", "message", "Ada", "Look.", ("img_7.png",)),
        ("[voice message could not be transcribed]", "user", "message", "Ada", "", ("voice message",)),
        (ENDED, "event", "exec.finished", None, ENDED, ()),
        (f"{HINT}Ring the bell.", "event", "schedule", None, "Ring the bell.", ()),
    ],
)  # fmt: skip
def test_what_hermes_writes_around_or_in_place_of_a_persons_words_is_not_theirs(
    tmp_path: Path, content: str, role: str, kind: str, sender: str | None, text: str, files: tuple[str, ...]
) -> None:
    rows = [
        hermes_row("user", content, 1.5),
        hermes_row("assistant", "Yes.", 2),
        hermes_row("assistant", "[SILENT]", 3),
    ]
    (conversation,) = hermes_home(tmp_path, rows).read_conversations()
    message, answer = conversation.read_messages()
    assert (message.role, message.kind, message.sender, message.text, message.files) == (
        role,
        kind,
        sender,
        text,
        files,
    )
    assert answer.text == "Yes."


def test_in_a_shared_session_of_hermes_each_message_has_its_own_sender(tmp_path: Path) -> None:
    shared = "UPDATE sessions SET session_key = 'agent:main:telegram:group:-5:9', chat_id = '-5', thread_id = '9';"
    rows = [hermes_row("user", "[Ben] [1] is mine", 1), hermes_row("user", "hello", 2)]
    (conversation,) = hermes_home(tmp_path, rows, shared).read_conversations()
    said = [(message.sender, message.text) for message in conversation.read_messages()]
    assert (conversation.key, said) == ("main:telegram:-5:topic-9", [("Ben", "[1] is mine"), ("Ada", "hello")])


def test_the_runs_of_a_schedule_of_hermes_are_chapters_of_one_session(tmp_path: Path) -> None:
    run = "INSERT INTO sessions(id, source, started_at) VALUES ('cron_ab12_20261128_0{0}0000', 'cron', {0});"
    row = (
        "INSERT INTO messages VALUES ({0}, 'cron_ab12_20261128_0{0}0000', 'assistant', 'Run {0}.', {0}.5, NULL, 1, 0);"
    )
    more = "".join(line.format(number) for number in (3, 4) for line in (run, row))
    conversations = list(hermes_home(tmp_path, [hermes_row("user", "hello", 1)], more).read_conversations())
    assert [conversation.key for conversation in conversations] == ["main:telegram:7", "main:web:hermes-cron_ab12"]
    runs = list(conversations[1].read_messages())
    assert ([run.text for run in runs], len({run.stretch for run in runs})) == (["Run 3.", "Run 4."], 2)


@pytest.mark.parametrize(
    ("text", "more", "read"),
    [
        ("[OpenClaw exec completion]\nPoll remains available.",
         {"provenance": {"kind": "internal_system", "sourceTool": "exec"}},
         ("event", "exec.finished", "[OpenClaw exec completion]\nPoll remains available.", ())),
        ("Go on.", {"provenance": {"kind": "inter_session", "sourceTool": "sessions_send"}},
         ("event", "report", "Go on.", ())),
        ("[OpenClaw cron wake]\nNow.", {}, ("event", "report", "[OpenClaw cron wake]\nNow.", ())),
        ("[cron:1a-2b bell] Ring the bell.\nCurrent time: Saturday\n\nNobody is present.", {},
         ("event", "schedule", "Ring the bell.", ())),
        ("What is it?", {"__openclaw": {"senderId": "7", "media": [{"path": "/x/media/cat-1.png", "kind": "image"}]}},
         ("user", "message", "What is it?", ("cat-1.png",))),
        ("[media attached: 2 files]\n[media attached 1/2: /x/cat-1.png (image/png)]\n"
         "[media attached 2/2: /x/plan.pdf (application/pdf) | /x/plan.pdf]\n[What] is it?", {},
         ("user", "message", "[What] is it?", ("cat-1.png", "plan.pdf"))),
    ],
)  # fmt: skip
def test_what_openclaw_writes_in_a_persons_name_is_not_theirs(
    tmp_path: Path, text: str, more: dict[str, Any], read: tuple[str, str, str, tuple[str, ...]]
) -> None:
    (conversation,) = openclaw_store(tmp_path, [openclaw_event(1, "user", text, **more)]).read_conversations()
    (message,) = conversation.read_messages()
    assert (message.role, message.kind, message.text, message.files) == read


@pytest.mark.parametrize(("name", "system"), [("openclaw-2026.9.6", "openclaw"), ("hermes-0.19.0", "hermes")])
def test_in_a_real_store_a_person_said_only_what_they_wrote(name: str, system: System, tmp_path: Path) -> None:
    store = open_store(system, unpack(name, tmp_path / "store"))
    messages = [message for conversation in store.read_conversations() for message in conversation.read_messages()]
    assert sorted(message.kind for message in messages if message.role == "event") == ["exec.finished", "schedule"]
    assert [message.text for message in messages if message.kind == "schedule"] == ["Ring the bell."]
    assert [(message.text, len(message.files)) for message in messages if message.files] == [
        ("What is in this picture?", 1)
    ]
    assert [message.text for message in messages if message.role == "user" and message.text.startswith("[")] == []
    assert [(person.account, person.name) for person in store.read_people()] == [("7", "Ada")]
