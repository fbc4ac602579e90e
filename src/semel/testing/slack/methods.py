"""The methods of the Web API that the double has. Parameters come from forms, so all are texts, or JSON in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.testing.slack.model import SlackConversation, SlackError, StoredSlackFile
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.testing.slack.double import SlackDouble

MAX_TEXT, MAX_EDITED_TEXT, MAX_MARKDOWN, MAX_BLOCKS, MAX_ALL_BLOCKS = 40_000, 4_000, 12_000, 50, 13_200
MAX_ELEMENTS, MAX_LABEL, MAX_VALUE, MAX_ID = 25, 75, 2_000, 255
_HISTORY = {
    "public_channel": "channels:history", "private_channel": "groups:history", "mpim": "mpim:history",
    "im": "im:history",
}  # fmt: skip
_EMOJI = re.compile(r"[a-z0-9_+'-]+")


def auth_test(slack: SlackDouble, params: Json) -> Json:
    return {
        "url": "https://test.slack.com/", "team": "Test", "user": "semel", "team_id": slack.team,
        "user_id": slack.bot_user, "bot_id": slack.bot_id,
    }  # fmt: skip


def apps_connections_open(slack: SlackDouble, params: Json) -> Json:
    if not slack.socket_mode:
        raise SlackError("forbidden_team")
    ticket = f"ticket-{next(slack.numbers)}"
    slack.tickets.add(ticket)
    return {"url": f"{slack.socket_url}/link/?ticket={ticket}"}


# ---------------------------------------------------------------- messages


def chat_post_message(slack: SlackDouble, params: Json) -> Json:
    place = _writable(slack, params)
    message: Json = {"type": "message", "user": slack.bot_user, "bot_id": slack.bot_id, "team": slack.team}
    message |= _content(params)
    if "metadata" in params:
        metadata = _json(params, "metadata")
        if not isinstance(metadata, dict) or not {"event_type", "event_payload"} <= metadata.keys():
            raise SlackError("invalid_metadata_format")
        message["metadata"] = metadata
    if shared := [file for file in slack.files.values() if _names(slack, file, message)]:
        message["files"] = [slack.describe_file(file) for file in shared]
        for file in shared:
            file.channels.append(place.id)
    ts = slack.add_message(place.id, message, params.get("thread_ts"))
    return {"channel": place.id, "ts": ts, "message": message}


def _names(slack: SlackDouble, file: StoredSlackFile, message: Json) -> bool:
    """Whether a message of the bot links to a file of the bot, which shares the file there."""
    return file.is_complete and file.user == slack.bot_user and f"/{file.id}/" in message.get("text", "")


def chat_update(slack: SlackDouble, params: Json) -> Json:
    place, message = _own_message(slack, params, "cant_update_message")
    if place.is_archived:
        raise SlackError("is_inactive")
    previous = dict(message)
    message |= {"blocks": [], **_content(params, MAX_EDITED_TEXT)}
    message["edited"] = {"user": slack.bot_user, "ts": slack.new_ts()}
    slack.tell_change(place.id, message, previous)
    return {"channel": place.id, "ts": message["ts"], "text": message.get("text", "")}


def chat_delete(slack: SlackDouble, params: Json) -> Json:
    place, message = _own_message(slack, params, "cant_delete_message")
    slack.remove(place.id, message["ts"])
    return {"channel": place.id, "ts": message["ts"]}


def reactions_add(slack: SlackDouble, params: Json) -> Json:
    name = str(params.get("name") or "")
    if not _EMOJI.fullmatch(name) or name == "no_such_emoji":
        raise SlackError("invalid_name")
    place = _writable(slack, params)
    message = place.messages.get(str(params.get("timestamp")))
    if message is None:
        raise SlackError("message_not_found")
    users = next((each["users"] for each in message.setdefault("reactions", []) if each["name"] == name), None)
    if users is None:
        users = []
        message["reactions"].append({"name": name, "users": users})
    if slack.bot_user in users:
        raise SlackError("already_reacted")
    users.append(slack.bot_user)
    slack.react(place.id, message["ts"], slack.bot_user, name)
    return {}


def _own_message(slack: SlackDouble, params: Json, error: str) -> tuple[SlackConversation, Json]:
    place = _readable(slack, params)
    message = place.messages.get(str(params.get("ts")))
    if message is None:
        raise SlackError("message_not_found")
    if message.get("user") != slack.bot_user:
        raise SlackError(error)
    return place, message


def _content(params: Json, max_text: int | None = None) -> Json:
    """Return the text and the blocks of a message. Raises SlackError, also if the text is longer than `max_text`."""
    text, blocks = str(params.get("text") or ""), _json(params, "blocks") or []
    if not text and not blocks:
        raise SlackError("no_text")
    if max_text is not None and len(text) > max_text:
        raise SlackError("msg_too_long")
    _check_blocks(blocks)
    return {"text": text[:MAX_TEXT], **({"blocks": blocks} if blocks else {})}


def _check_blocks(blocks: Any) -> None:
    if not isinstance(blocks, list) or not all(isinstance(block, dict) and "type" in block for block in blocks):
        raise SlackError("invalid_blocks_format")
    if len(blocks) > MAX_BLOCKS or any(len(block.get("block_id", "")) > MAX_ID for block in blocks):
        raise SlackError("invalid_blocks")
    for block in blocks:
        if block["type"] == "actions":
            _check_elements(block.get("elements") or [])
    if sum(len(json.dumps(block, ensure_ascii=False)) for block in blocks) > MAX_ALL_BLOCKS:
        raise SlackError("msg_blocks_too_long")
    lengths = [len(block.get("text", "")) for block in blocks if block["type"] == "markdown"]
    if 0 in lengths or sum(lengths) > MAX_MARKDOWN:
        raise SlackError("invalid_blocks")


def _check_elements(elements: list[Json]) -> None:
    if not 0 < len(elements) <= MAX_ELEMENTS or len({each["action_id"] for each in elements}) < len(elements):
        raise SlackError("invalid_blocks")
    for each in elements:
        label = each["text"]["text"]
        if not 0 < len(label) <= MAX_LABEL or len(each.get("value", "")) > MAX_VALUE:
            raise SlackError("invalid_blocks")
        if len(each["action_id"]) > MAX_ID:
            raise SlackError("invalid_blocks")
        if each.get("style", "primary") not in ("primary", "danger"):
            raise SlackError("invalid_blocks")


# ---------------------------------------------------------------- conversations


def conversations_history(slack: SlackDouble, params: Json) -> Json:
    place = _readable(slack, params, with_history=True)
    found = [
        message
        for message in reversed(place.messages.values())
        if message.get("thread_ts") in (None, message["ts"]) or message.get("subtype") == "thread_broadcast"
    ]
    return _page(found, params, 100)


def conversations_replies(slack: SlackDouble, params: Json) -> Json:
    place, ts = _readable(slack, params, with_history=True), str(params.get("ts"))
    if ts not in place.messages:
        raise SlackError("thread_not_found")
    return _page([m for m in place.messages.values() if ts in (m["ts"], m.get("thread_ts"))], params, 1000, ts)


def _page(messages: list[Json], params: Json, limit: int, root: str = "") -> Json:
    """Return a page of messages after `oldest` and before `latest`. The root of a thread is on it in any case."""
    oldest, latest = float(params.get("oldest") or 0), float(params.get("latest") or 1e12)
    found = [m for m in messages if oldest < float(m["ts"]) < latest or m["ts"] == root]
    start = int(str(params.get("cursor") or "page:0").removeprefix("page:"))
    size = min(int(params.get("limit") or limit), 999)
    page = found[start : start + size]
    more = start + size < len(found)
    if params.get("include_all_metadata") not in ("true", "True", "1"):
        page = [{name: value for name, value in m.items() if name != "metadata"} for m in page]
    following = {"response_metadata": {"next_cursor": f"page:{start + size}"}} if more else {}
    return {"messages": page, "has_more": more, **following}


def conversations_open(slack: SlackDouble, params: Json) -> Json:
    user = str(params.get("users") or "")
    if user not in slack.people:
        raise SlackError("user_not_found")
    if slack.people[user].get("is_bot"):
        raise SlackError("cannot_dm_bot")
    return {"channel": {"id": slack.direct(user)}}


def conversations_info(slack: SlackDouble, params: Json) -> Json:
    return {"channel": _conversation(slack, params).describe()}


def users_conversations(slack: SlackDouble, params: Json) -> Json:
    kinds = str(params.get("types") or "public_channel").split(",")
    found = [
        place.describe()
        for place in slack.conversations.values()
        if place.kind in kinds and slack.bot_user in place.members
        if not (place.is_archived and params.get("exclude_archived") == "true")
    ]
    start, size = int(str(params.get("cursor") or "page:0").removeprefix("page:")), int(params.get("limit") or 100)
    cursor = f"page:{start + size}" if start + size < len(found) else ""
    return {"channels": found[start : start + size], "response_metadata": {"next_cursor": cursor}}


def users_info(slack: SlackDouble, params: Json) -> Json:
    user = slack.people.get(str(params.get("user")))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": user}


def set_status(slack: SlackDouble, params: Json) -> Json:
    place = _readable(slack, params, "channel_id")
    if str(params.get("thread_ts")) not in place.messages:
        raise SlackError("invalid_thread_ts")
    slack.statuses.append({"channel": place.id, "thread": params["thread_ts"], "status": params.get("status")})
    return {}


def _conversation(slack: SlackDouble, params: Json, name: str = "channel") -> SlackConversation:
    place = slack.conversations.get(str(params.get(name)))
    is_hidden = place is not None and place.kind != "public_channel" and slack.bot_user not in place.members
    if place is None or is_hidden:
        raise SlackError("channel_not_found")
    return place


def _readable(slack: SlackDouble, params: Json, name: str = "channel", with_history: bool = False) -> SlackConversation:
    place = _conversation(slack, params, name)
    if with_history and _HISTORY[place.kind] not in slack.scopes:
        raise SlackError("missing_scope", needed=_HISTORY[place.kind], provided=",".join(sorted(slack.scopes)))
    if slack.bot_user not in place.members:
        raise SlackError("not_in_channel")
    return place


def _writable(slack: SlackDouble, params: Json) -> SlackConversation:
    place = _readable(slack, params)
    if place.is_archived:
        raise SlackError("is_archived")
    return place


# ---------------------------------------------------------------- files


def files_get_upload_url(slack: SlackDouble, params: Json) -> Json:
    name, length = str(params.get("filename") or ""), int(params.get("length") or 0)
    if not name or length <= 0:
        raise SlackError("missing_argument")
    id = f"F{next(slack.numbers):06}"
    slack.files[id] = StoredSlackFile(id, name, "application/octet-stream", length, slack.bot_user)
    return {"upload_url": f"{slack.url.removesuffix('/api')}/upload/v1/{id}", "file_id": id}


def files_complete_upload(slack: SlackDouble, params: Json) -> Json:
    done = []
    for asked in _json(params, "files") or []:
        file = slack.files.get(str(asked.get("id")))
        if file is None or file.content is None:
            raise SlackError("file_not_found")
        file.is_complete = True
        done.append({"id": file.id, "title": asked.get("title") or file.name})
    if not done:
        raise SlackError("invalid_arguments")
    return {"files": done}


def files_info(slack: SlackDouble, params: Json) -> Json:
    file = slack.files.get(str(params.get("file")))
    if file is None:
        raise SlackError("file_not_found")
    return {"file": slack.describe_file(file)}


def _json(params: Json, name: str) -> Any:
    if name not in params:
        return None
    try:
        return json.loads(params[name])
    except ValueError:
        raise SlackError("invalid_arguments") from None


@dataclass(frozen=True)
class SlackMethod:
    """A method, and the scopes of which it needs one."""

    function: Callable[[SlackDouble, Json], Json]
    scopes: tuple[str, ...] = ()


METHODS = {
    "auth.test": SlackMethod(auth_test),
    "apps.connections.open": SlackMethod(apps_connections_open),
    "chat.postMessage": SlackMethod(chat_post_message, ("chat:write",)),
    "chat.update": SlackMethod(chat_update, ("chat:write",)),
    "chat.delete": SlackMethod(chat_delete, ("chat:write",)),
    "reactions.add": SlackMethod(reactions_add, ("reactions:write",)),
    "conversations.history": SlackMethod(conversations_history),
    "conversations.replies": SlackMethod(conversations_replies),
    "conversations.open": SlackMethod(conversations_open, ("im:write",)),
    "conversations.info": SlackMethod(conversations_info, ("channels:read", "groups:read", "im:read", "mpim:read")),
    "users.conversations": SlackMethod(users_conversations, ("channels:read", "groups:read", "im:read", "mpim:read")),
    "users.info": SlackMethod(users_info, ("users:read",)),
    "assistant.threads.setStatus": SlackMethod(set_status, ("chat:write",)),
    "files.getUploadURLExternal": SlackMethod(files_get_upload_url, ("files:write",)),
    "files.completeUploadExternal": SlackMethod(files_complete_upload, ("files:write",)),
    "files.info": SlackMethod(files_info, ("files:read",)),
}
