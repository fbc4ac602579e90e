"""Messages of AG-UI: read those of a client, and write a session's transcript as messages.

A message is text, or a list of parts (https://docs.ag-ui.com/spec/1.0). Files among the parts reach the agent as ACP
content blocks: an image or a sound as such, a video or a document as a resource, an address as a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from semel.faces.http.conversations import Conversation, ConversationMessage
from semel.faces.http.file_blocks import make_file_block, make_link_block, make_name, read_data_url
from semel.faces.http.problems import Problem
from semel.faces.reply_stream import add_file_links
from semel.text.content_blocks import describe_blocks
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.timing.walltime import format_instant

ROLES = {"user": "user", "agent": "assistant", "notice": "assistant"}  # of entries, in a thread
INSTRUCTION_ROLES = ("system", "developer")
FILE_KINDS = ("image", "audio", "video", "document")
CALL_ID = re.compile(r"tool-(\d{1,18})", re.A)  # the id of a tool call, with its item

# ---------------------------------------------------------------- reading


def read_conversation(agent: str, messages: Sequence[Json], context: Iterable[str]) -> Conversation:
    """Return the conversation of a run. Raises a Problem if nothing of its new message can be taken."""
    rows = [message for message in messages if message.get("role") in ("user", "assistant")]
    read = [_read_message(row) for row in rows]
    if read and read[-1].role == "user" and read[-1].is_blank and objects_in(rows[-1].get("content")):
        raise Problem("bad-field", "The new message has no text, and no file that Semel can take.", field="messages")
    kept = [message for message in read[:-1] if message.role == "assistant" or not message.is_blank]
    texts = [str(message.get("content")) for message in messages if message.get("role") in INSTRUCTION_ROLES]
    return Conversation(agent, (*kept, *read[-1:]), "\n\n".join([*texts, *context]))


def _read_message(message: Json) -> ConversationMessage:
    content = message.get("content")
    if message["role"] == "assistant":
        return ConversationMessage("assistant", content if isinstance(content, str) else "")
    parts = enumerate(objects_in(content), start=1)
    blocks = [block for number, part in parts if (block := _read_part(part, number)) is not None]
    if any(block["type"] != "text" for block in blocks):
        return ConversationMessage("user", describe_blocks(blocks)[0], tuple(blocks))
    texts = [content] if isinstance(content, str) else [block["text"] for block in blocks]
    return ConversationMessage("user", "\n".join(texts))


def _read_part(part: Json, number: int) -> Json | None:
    """Return a part as a content block; None if Semel cannot take it, as the protocol demands for unknown parts."""
    kind = part.get("type")
    if kind == "text" and (text := text_at(part, "text")) is not None:
        return {"type": "text", "text": text}
    if kind == "binary":  # before 1.0: the source's fields are in the part itself
        data, url = text_at(part, "data"), text_at(part, "url")
        source = {"type": "data" if data else "url", "value": data or url, "mimeType": part.get("mimeType")}
        mime = text_at(part, "mimeType") or ""
        kind = mime.partition("/")[0] if mime.startswith(("image/", "audio/")) else "document"
    else:
        source = object_at(part, "source")
    name = text_at(part, "metadata", "filename") or text_at(part, "filename")
    return _read_source(str(kind), source, name, number) if kind in FILE_KINDS else None


def _read_source(kind: str, source: Json, name: str | None, number: int) -> Json | None:
    """Return a file, as content or as an address. `number`: the part's, for the name of a file that has none."""
    value, mime = text_at(source, "value"), text_at(source, "mimeType")
    if source.get("type") == "url" and value is not None and (content := read_data_url(value)) is not None:
        source, value, mime = {"type": "data"}, content[1], content[0] or mime
    if not value or source.get("type") not in ("data", "url"):
        return None
    if source["type"] == "url":
        return make_link_block(value, name, mime)
    mime = mime or "application/octet-stream"
    return make_file_block(kind, value, mime, name or make_name(kind, number, mime))


# ---------------------------------------------------------------- writing


def write_transcript(page: Json, messages: Sequence[Json], url: str) -> list[Json]:
    """Return a page of a session's history as messages, in its order.

    `messages`: those of the client; what a person said is shown as the message that the client has of it, so that it
    keeps its id and its place, and its instructions stay as they are. `url`: the gateway's own, for links to files.
    """
    known: dict[str, list[Json]] = {}
    for message in messages:
        if message.get("role") == "user":
            known.setdefault(_read_message(message).text, []).append(message)
    written: list[Json] = []
    items = page["items"]
    for row in sorted([*page["entries"], *page["items"]], key=lambda row: int(row["born"])):
        if "seq" not in row:
            written += _write_tool_call(row, items) if row["kind"] == "tool" else []
        elif row["role"] in ROLES and not row.get("superseded"):
            same = known.get(row["text"], []) if row["role"] == "user" else []
            written.append(same.pop(0) if same else _write_entry(row, url))
    return _keep_instructions(written, messages)


def _keep_instructions(written: Sequence[Json], messages: Sequence[Json]) -> list[Json]:
    """Return the transcript with the client's instructions, each behind the message that it follows at the client."""
    kept, place = list(written), 0
    for message in messages:
        if message.get("role") in INSTRUCTION_ROLES:
            kept.insert(place, message)
            place += 1
        else:
            ids = [each["id"] for each in kept]
            place = ids.index(message.get("id")) + 1 if message.get("id") in ids else place
    return kept


def _write_entry(entry: Json, url: str) -> Json:
    content = add_file_links(entry["text"], entry, url)
    return {"id": f"entry-{entry['seq']}", "role": ROLES[entry["role"]], "content": content}


def _write_tool_call(item: Json, items: Sequence[Json]) -> list[Json]:
    """Return a tool call as the agent's message, and its result as another one if it has ended."""
    id = f"tool-{item['id']}"
    arguments = msgspec.json.encode(item["input"]).decode() if item.get("input") is not None else ""
    call = {"id": id, "type": "function", "function": {"name": name_tool(item), "arguments": arguments}}
    messages: list[Json] = [{"id": id, "role": "assistant", "toolCalls": [call]}]
    if not item.get("live"):
        output = describe_tool_result(item, items)
        messages.append({"id": f"result-{item['id']}", "role": "tool", "toolCallId": id, "content": output})
    return messages


def name_tool(item: Json) -> str:
    """Return the name of a called tool, or the call's title if the agent does not say which tool it is."""
    name = item.get("name")
    return str(name if name and name != item.get("call") else item.get("title") or "tool")


def list_call_ids(messages: Iterable[Json]) -> set[str]:
    """Return the ids of the tool calls that messages have."""
    return {str(call.get("id")) for message in messages for call in objects_in(message.get("toolCalls"))}


def is_made_result(message: Json) -> bool:
    """Return whether a message is a result of one of Semel's tool calls, and not from Semel."""
    match = CALL_ID.fullmatch(str(message.get("toolCallId")))
    return match is not None and message.get("id") != f"result-{match[1]}"


def is_without_output(item: Json) -> bool:
    """Return whether a row is a tool call that ended without success and without output."""
    return item["kind"] == "tool" and not (item.get("live") or item["text"] or item.get("status") == "done")


def describe_tool_result(item: Json, items: Sequence[Json]) -> str:
    """Return the output of a tool call or, if a call that did not succeed has none, a word for what became of it.

    `items`: of the session; its request for permission is looked for among them.
    """
    if item["text"] or item.get("status") == "done":
        gap = f"\n[{item['gap']} characters are left out]\n" if item.get("gap") else ""
        return f"{item['text']}{gap}{item.get('tail') or ''}"
    turn, call = item.get("turn"), item.get("call")
    requests = [row for row in items if row["kind"] == "permission" and row.get("call") == call and call is not None]
    words = [_describe_refusal(request) for request in requests if request.get("turn") == turn]
    status = str(item.get("status"))
    return (words[-1] if words else None) or (status if status in ("failed", "cancelled") else "no result")


def _describe_refusal(request: Json) -> str | None:
    """Return how a permission request ended; None if it is open or was allowed."""
    if request.get("state") != "answered":
        return {"expired": "expired", "cancelled": "withdrawn"}.get(str(request.get("state")))
    options = request.get("options", ())
    kinds = [str(option.get("kind")) for option in options if option.get("optionId") == request.get("answer")]
    return "rejected" if not kinds or kinds[0].startswith("reject") else None


def describe_request(item: Json, call: str | None, with_expiry: bool) -> Json:
    """Return a permission request as an interrupt. `call`: the id of its tool call, if one was shown."""
    options = objects_in(item.get("options"))
    ids = [option.get("optionId") for option in options]
    names = "; ".join(f"{option.get('optionId')}: {option.get('name')}" for option in options)
    answer = {"approved": {"type": "boolean"}, "option": {"type": "string", "enum": ids}}
    interrupt = {
        "id": f"request-{item['id']}",
        "reason": "confirmation" if call is None else "tool_call",
        "message": f"{item.get('title') or 'May the agent go on?'} ({names})",
        "toolCallId": call,
        "responseSchema": {"type": "object", "properties": answer},
        "expiresAt": format_instant(item["expires"] // 1000) if with_expiry and item.get("expires") else None,
        "metadata": {"options": options},
    }
    return {name: value for name, value in interrupt.items() if value is not None}
