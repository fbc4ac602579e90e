"""What an agent hands over and cannot be stored is told in words: to its person, in order, and to the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from people_world import Chat

Json = dict[str, Any]
KEY = "demo:chat:dm"
SOUND = {"type": "audio", "mimeType": "audio/wav", "data": "not base64!"}
EMPTY = {"type": "resource", "resource": {"uri": "file:///x/no\u202etes.md", "mimeType": "text/markdown", "text": ""}}
BARE = {"type": "image", "mimeType": "image/png"}
ODD = {"type": 7, "data": {"a": 1}}
FORGED = {"type": "image", "file": {"id": "0" * 64, "name": "x", "mime": "image/png"}, "data": 7}
HELP = "which cannot be shown here. With the tool send_file it can send a file of up to 50 MiB."


def chunk(content: Json) -> Json:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": content}}


@pytest.mark.parametrize("narration", ["all", "last"])
async def test_it_is_told_in_the_chat_behind_the_text_it_came_with(tmp_path: Path, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        await w.tell(script("Here is the sound.", chunk(SOUND), {"tool": "ls"}, "Anything else?"))
        await w.idle(KEY)
        await w.sent()
        told = f"The agent added a sound (audio/wav, its data cannot be read) to its text, {HELP}"
        assert w.shown() == ["Here is the sound.", told, "Anything else?"]
        entries, _ = await w.gateway.entries(KEY)
        assert [e["text"] for e in entries if e["role"] != "user"] == ["Here is the sound.", told, "Anything else?"]
        assert (await w.gateway.doctor())["ok"]


async def test_each_kind_is_named_with_its_reason_and_nothing_in_it_commands_a_reader(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell(script(*map(chunk, (SOUND, EMPTY, BARE, ODD, FORGED))))
        await w.idle(KEY)
        await w.sent()
        entries, _ = await w.gateway.entries(KEY)
        (told,) = [e["text"] for e in entries if e.get("kind") == "turn.attached"]
        assert "a document (file:///x/no tes.md, text/markdown, it is empty)" in told
        assert "an image (image/png, it has no data), something of the type 7" in told
        assert "an image (its data cannot be read)" in told, "no agent names a stored file of others"
        assert not [e for e in entries if e.get("kind") == "turn.empty"], "that is no silence"
        assert w.shown() == [told] and (await w.gateway.doctor())["ok"]


async def test_the_agent_reads_in_its_next_prompt_that_nobody_saw_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell(script("Listen:", chunk(SOUND)))
        await w.idle(KEY)
        await w.tell(script({"prompt": True}))
        await w.idle(KEY)
        entries, _ = await w.gateway.entries(KEY)
        assert "added a sound (audio/wav" in [e for e in entries if e["role"] == "agent"][-1]["text"]
