"""What a model says beside its text: images and sounds are kept, shown where they stood, and remembered by name."""

from __future__ import annotations

import base64
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from model_world import Answer, ModelServer, ModelWorld
from pydantic_ai.messages import BinaryContent, FilePart, PartStartEvent

from semel.agents.model.loop import _ShownMessage

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


async def said(w: ModelWorld) -> AsyncIterator[str]:
    for entry in await w.entries():
        if entry["role"] == "agent":
            yield entry["text"] or " ".join(f"[{file['name']}]" for file in entry.get("files", []))


async def test_an_image_of_a_chat_completion_stands_where_it_came(tmp_path: Path) -> None:
    drawn = Answer(["Here it is.", " Nice?"], images=[URL, "https://example.org/more.png"])
    async with ModelServer(drawn, Answer(["ok"])) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Draw")
        assert [one async for one in said(w)] == ["Here it is.", "[image.png]", "[more.png]", " Nice?"]
        [file] = [file for entry in await w.entries() for file in entry.get("files", []) if file.get("id")]
        assert (file["mime"], (tmp_path / "blobs" / file["id"]).read_bytes()) == ("image/png", PNG)
        await w.ask("And?")
        assert "image.png" in str(api.requests[1].talk), "the model is told by name what it sent"


async def test_an_image_alone_is_an_answer(tmp_path: Path) -> None:
    async with ModelServer(Answer([""], images=[URL])) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Draw")
        assert [one async for one in said(w)] == ["[image.png]"]
        assert not [entry for entry in await w.entries() if entry["role"] == "notice"]


async def test_the_words_of_a_sound_are_what_the_model_said_and_the_sound_is_a_file(tmp_path: Path) -> None:
    pieces = [base64.b64encode(bytes(n)).decode() for n in (4, 6)]
    spoken = [{"transcript": "Good "}, {"data": pieces[0]}, {"transcript": "day."}, {"data": pieces[1]}]
    async with ModelServer(Answer([], audio=spoken), Answer(["ok"])) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Speak")
        assert [one async for one in said(w)] == ["Good day.", "[sound.wav]"]
        [file] = [file for entry in await w.entries() for file in entry.get("files", [])]
        with wave.open(str(tmp_path / "blobs" / file["id"])) as sound:
            assert (sound.getframerate(), sound.getnframes()) == (24_000, 5)
        await w.ask("And?")
        assert ("assistant", "Good day.") in api.requests[1].talk


@pytest.mark.parametrize(("mime", "kind"), [("image/webp", "image"), ("audio/wav", "audio")])
def test_a_file_that_the_library_reads_is_told_as_one(mime: str, kind: str) -> None:
    told: list[dict[str, object]] = []
    shown = _ShownMessage(told.append, "m1")
    shown.start(PartStartEvent(index=0, part=FilePart(BinaryContent(b"x", media_type=mime))).part)
    [update] = told
    assert update["content"] == {"type": kind, "mimeType": mime, "data": base64.b64encode(b"x").decode()}
