"""What people do on a channel, as a model reads it: in its past, and in the prompt with the files that came."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai.messages import ModelRequest, UserPromptPart

from semel.agents.model import compaction, history
from semel.gateway.ports import Past, Spoken

BOB = {"sender": "Bob", "data": {"group": True, "mentioned": True, "from": {"id": "bob@x", "role": "member"}}}


def told(past: Past) -> list[str]:
    return [
        str(part.content)
        for message in history.build_messages(past, "system")
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def test_its_past_tells_who_of_a_group_wrote_and_what_was_done_to_messages() -> None:
    edit = {**BOB, "kind": "edit", "of": 1, "quote": "five", "whose": "Bob"}
    texts = told(Past(3, (Spoken(1, 1, "user", "five", more=BOB), Spoken(2, 1, "user", "six", more=edit))))
    assert "- Bob (bob@x, member) wrote it in this group" in texts[0]
    assert texts[1] == "five"
    assert "Bob (bob@x, member) edited their message" in texts[2]
    assert "it says now: six" in texts[2]


def test_its_past_tells_where_a_received_file_lies() -> None:
    more = {"files": [{"id": "ab" * 32, "name": "plan.pdf", "mime": "application/pdf", "size": 5}]}
    about, text = told(Past(2, (Spoken(1, 1, "user", "read it", more=more),)))
    assert ".semel/received/abababab-plan.pdf" in about
    assert text == "read it"


def test_a_link_to_a_file_is_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a file.txt"
    link = {"type": "resource_link", "uri": path.as_uri(), "name": "a file.txt"}
    assert history.convert_content([link]) == [f"[file a file.txt: {path}]"]


def test_a_summary_is_made_knowing_who_said_what() -> None:
    edit = {**BOB, "kind": "edit", "of": 1, "quote": "five", "whose": "Bob"}
    assert compaction._describe_entry(Spoken(1, 1, "user", "x", more=BOB)) == "by Bob (bob@x, member)"
    assert (
        compaction._describe_entry(Spoken(1, 1, "user", "x", more=edit))
        == "Bob (bob@x, member) edited their message, 'five'"
    )
    assert compaction._describe_entry(Spoken(1, 1, "user", "x", more={"automatic": True})) == "by a program"
    assert compaction._describe_entry(Spoken(1, 1, "user", "x")) == "by the person"
