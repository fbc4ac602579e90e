"""Images, sounds and files in the messages of OpenAI's chat API: they reach the agent, and tell conversations apart."""

from __future__ import annotations

import base64

import pytest
from gateway_house import PlayedConversation
from openai_help import Asker, Json, assistant, content, user

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
OTHER = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(41)).decode()


def look(*parts: Json) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": "look"}, *parts]}


def picture(data: str = PIXEL) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "auto"}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (picture(), {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
        (
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
            {"type": "resource_link", "uri": "https://a.example/b.png", "name": "b.png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "mp3"}},
            {"type": "audio", "data": PIXEL, "mimeType": "audio/mpeg"},
        ),
        (
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}", "filename": "a.pdf"}},
            {
                "type": "resource",
                "resource": {"uri": "attachment:///a.pdf", "mimeType": "application/pdf", "blob": PIXEL},
            },
        ),
    ],
)
async def test_a_file_in_a_message_reaches_the_agent(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, part: Json, block: Json
) -> None:
    for kind in ("images", "audio", "resources"):
        monkeypatch.setattr(PlayedConversation, kind, True)
    await asker.ask(look(part), answer="I see.")
    _, agent = await asker.conversation()
    assert agent.contents == [[{"type": "text", "text": "look"}, block]]


async def test_a_conversation_is_known_by_its_images_too(asker: Asker) -> None:
    first = await asker.ask(look(picture()), answer="One.")
    assert content(await asker.post(look(picture()))) == "One."
    talk = (look(picture()), assistant("One."), user("and now?"))
    more = await asker.ask(*talk, answer="Two.", prompts=2)
    assert more.headers["x-semel-session"] == first.headers["x-semel-session"]
    other = await asker.ask(look(picture(OTHER)), answer="Three.", prompts=3)
    assert first.headers["x-semel-session"] != other.headers["x-semel-session"]


async def test_an_image_of_a_history_that_is_told_is_named(asker: Asker) -> None:
    lost = {"type": "file", "file": {"file_id": "file-7"}}  # was refused when it was new
    talk = (look(picture(), lost), assistant("A cat."), user("which colour?"))
    answered = await asker.ask(*talk, answer="Grey.")
    [told] = [text for role, text in await asker.texts(answered.headers["x-semel-session"]) if role == "event"]
    assert "User: look [an image]\n\nAssistant: A cat." in told
