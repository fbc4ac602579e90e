"""Read the messages of OpenAI's chat API (https://platform.openai.com/docs/api-reference/chat).

A message is text, or a list of parts. Images, sounds and files among the parts of the person's new messages reach the
agent as ACP content blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.faces.http.conversations import Conversation, ConversationMessage
from semel.faces.http.file_blocks import make_file_block, make_link_block, make_name, read_data_url
from semel.faces.http.problems import Problem
from semel.gateway.errors import BadRequest
from semel.gateway.inbound.prompt_content import check_base64
from semel.text.content_blocks import describe_blocks
from semel.text.json_types import Json, objects_in, text_at

SOUND_TYPES = {"mp3": "audio/mpeg"}  # of `input_audio.format`, where it is not audio/FORMAT
PARTS = "text, image_url, input_audio and file"


def read_conversation(agent: str, messages: Sequence[Json]) -> Conversation:
    """Return the conversation of a request, whose messages are {"role", "content"?}.

    Raises a Problem or a BadRequest, which names the part, if the new message cannot be said as a whole. Decodes files,
    so call it in a thread.
    """
    if not messages or messages[-1].get("role") != "user":
        raise Problem("bad-field", "The last message must be the person's, with the role `user`.", field="messages")
    instructions = [_read_text(row) for row in messages if row.get("role") in ("system", "developer")]
    read = [
        ConversationMessage("assistant", _read_text(row))
        if row["role"] == "assistant"
        else _read_said(place, row, is_new=place == len(messages) - 1)
        for place, row in enumerate(messages)
        if row.get("role") in ("user", "assistant")
    ]
    return Conversation(agent, tuple(read), "\n\n".join(filter(None, instructions)))


def _read_text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in objects_in(content) if part.get("type") == "text")


def _read_said(place: int, message: Json, *, is_new: bool) -> ConversationMessage:
    """Return what the person said. `place`: the message's in the request, from 0.

    `is_new`: it is the new message. In an older one, a part that cannot be taken is left out: it was refused already.
    """
    parts = objects_in(message.get("content"))
    if all(part.get("type") == "text" for part in parts):
        return ConversationMessage("user", _read_text(message))
    blocks = []
    for n, part in enumerate(parts):
        try:
            blocks.append(_read_part(f"messages[{place}].content[{n}]", part, n + 1))
        except (Problem, BadRequest):
            if is_new:
                raise
    return ConversationMessage("user", describe_blocks(blocks)[0], tuple(blocks))


def _read_part(place: str, part: Json, number: int) -> Json:
    """Return a part as a content block. `number`: the part's, for the name of a file that has none."""
    match part.get("type"):
        case "text":
            return {"type": "text", "text": text_at(part, "text") or ""}
        case "image_url":
            return _read_image(f"{place}.image_url.url", text_at(part, "image_url", "url") or "")
        case "input_audio":
            data, format = text_at(part, "input_audio", "data") or "", text_at(part, "input_audio", "format") or "wav"
            _check_data(f"{place}.input_audio.data", data)
            return make_file_block("audio", data, SOUND_TYPES.get(format, f"audio/{format}"), "")
        case "file":
            return _read_file(f"{place}.file", part, number)
    detail = f"{place}: a message to an agent is made of parts of the types {PARTS}."
    raise Problem("bad-field", detail, field=place)


def _read_image(place: str, url: str) -> Json:
    if (content := read_data_url(url)) is not None:
        mime, data = content
        _check_data(place, data)
        return make_file_block("image", data, mime or "application/octet-stream", "")
    if not url.startswith(("http://", "https://")):
        raise Problem("bad-field", f"{place}: an image is a data URL with base64, or an http(s) address.", field=place)
    return make_link_block(url, None, None)


def _read_file(place: str, part: Json, number: int) -> Json:
    if text_at(part, "file", "file_data") is None:
        detail = f"{place}: the file must be in it, as a data URL in `file_data`; OpenAI's file ids mean nothing here."
        raise Problem("bad-field", detail, field=place)
    encoded = text_at(part, "file", "file_data") or ""
    mime, data = read_data_url(encoded) or ("", encoded)  # some clients send the bare base64
    _check_data(f"{place}.file_data", data)
    mime = mime or "application/octet-stream"
    name = text_at(part, "file", "filename") or make_name("file", number, mime)
    return make_file_block(mime.partition("/")[0], data, mime, name)


def _check_data(place: str, data: str) -> None:
    if not data:
        raise Problem("bad-field", f"{place}: it is empty.", field=place)
    check_base64(place, data)
