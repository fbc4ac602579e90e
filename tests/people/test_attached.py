"""What an agent hands over beside its text is told in words: to its person, in order, and to the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from people_world import Chat

Json = dict[str, Any]
KEY = "demo:chat:dm"
IMAGE = {"type": "image", "mimeType": "image/png", "data": "A" * 4096}
SOUND = {"type": "audio", "mimeType": "audio/wav", "data": "not base64!"}
DOCUMENT = {"type": "resource", "resource": {"uri": "file:///x/notes.md", "mimeType": "text/markdown", "text": "# Hi"}}
LINK = {"type": "resource_link", "uri": "file:///x/plan.pdf", "name": "plan\n\u202efdp", "size": 2048}
ODD = {"type": 7, "data": {"a": 1}}
HELP = "which cannot be shown here. It can send it as a file: with the tool send_file."


def chunk(content: Json) -> Json:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": content}}


@pytest.mark.parametrize("narration", ["all", "last"])
async def test_it_is_told_in_the_chat_behind_the_text_it_came_with(tmp_path: Path, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        await w.tell(script("Here is the chart.", chunk(IMAGE), {"tool": "ls"}, "Anything else?"))
        await w.idle(KEY)
        await w.sent()
        told = f"The agent handed over an image (image/png, 3 KB) beside its text, {HELP}"
        assert w.shown() == ["Here is the chart.", told, "Anything else?"]
        entries, _ = await w.gateway.entries(KEY)
        assert [e["text"] for e in entries if e["role"] != "user"] == ["Here is the chart.", told, "Anything else?"]
        assert (await w.gateway.doctor())["ok"]


async def test_each_kind_is_named_and_nothing_in_it_commands_a_reader(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell(script(*map(chunk, (SOUND, DOCUMENT, LINK, ODD))))
        await w.idle(KEY)
        await w.sent()
        entries, _ = await w.gateway.entries(KEY)
        (told,) = [e["text"] for e in entries if e.get("kind") == "turn.attached"]
        assert "a sound (audio/wav, 8 B), a document (file:///x/notes.md, text/markdown, 4 B)" in told
        assert not [e for e in entries if e.get("kind") == "turn.empty"], "that is no silence"
        assert w.shown() == [told] and (await w.gateway.doctor())["ok"]
        assert "a link to a document (plan fdp, file:///x/plan.pdf, 2 KB), something of the type 7" in told


async def test_the_agent_reads_in_its_next_prompt_that_nobody_saw_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell(script("Look:", chunk(IMAGE)))
        await w.idle(KEY)
        await w.tell(script({"prompt": True}))
        await w.idle(KEY)
        entries, _ = await w.gateway.entries(KEY)
        assert "handed over an image (image/png, 3 KB)" in [e for e in entries if e["role"] == "agent"][-1]["text"]
