"""The whole way: a person on the double, a real gateway with the demo agent, killed in between."""

from __future__ import annotations

import json

import pytest
from telegram_house import ANNA, FORUM
from telegram_up import Up, until

from semel.testing.telegram import TOKEN


@pytest.mark.storm
def test_a_person_talks_with_an_agent_through_kills(up: Up) -> None:
    up.call("person", id=ANNA, name="Ada L")
    up.call("group", id=FORUM, title="Forum", forum=True, status="administrator")
    topic = up.call("topic", chat=FORUM, name="Garden")
    up.start()

    first = up.call("write", chat=ANNA, text="helo")
    up.said(ANNA, "You said: helo")
    up.call("edit", chat=ANNA, message=first, text="hello")
    up.call("react", chat=ANNA, message=first, emoji="🔥")
    up.call("send_file", chat=ANNA, content=b"\xff\xd8\xff", kind="photo", name="p.jpg", caption="my cat")
    up.said(ANNA, "You said: my cat")
    asked = up.call("write", chat=FORUM, text="@test_semel_bot roses?", sender=ANNA, topic=topic)
    answer = up.said(FORUM, "You said: roses?")
    assert (answer["topic"], answer["reply_to"]) == (topic, asked)

    up.call("fail", method="editMessageText", how="hang", after=True)
    up.call("write", chat=ANNA, text="killed while it answers")
    up.said(ANNA, "You said: killed")
    up.kill()
    up.call("write", chat=ANNA, text="written meanwhile")
    up.start()
    up.said(ANNA, "You said: written meanwhile")

    texts = [text.partition("\n")[0] for text in up.call("texts", chat=ANNA)]
    answers = [f"You said: {each}" for each in ("helo", "my cat", "killed while it answers", "written meanwhile")]
    assert texts == answers, "the answer at whose sending it was killed is there once, and not held"
    parts = [part["state"] for part in json.loads(up.semel("outbox", "list", "--json"))]
    assert sorted(parts) == ["sent"] * 5
    rows = json.loads(up.semel("show", f"demo:tg:{ANNA}", "--json"))
    told = [row["text"] for row in rows if row["role"] == "user"]
    assert told == ["helo", "hello", "🔥", "my cat", "killed while it answers", "written meanwhile"]
    until(lambda: up.call("pending") == [])
    assert "all laws hold" in up.semel("doctor", "--laws")
    assert TOKEN not in (up.home / "log").read_text()
