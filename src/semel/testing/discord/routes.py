"""The REST API of the double: a function for each route (https://docs.discord.com/developers/resources)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from semel.testing.discord.model import DIRECT, ApiAnswer, ApiError, DiscordChannelModel, StoredMessage, invalid_form
from semel.text.json_types import Json, list_at, object_at

if TYPE_CHECKING:
    from semel.testing.discord.double import DiscordDouble

MAX_CONTENT_CHARS, MAX_NONCE_CHARS, MAX_FILE_BYTES, MAX_REQUEST_BYTES = 2000, 25, 10 * 1024 * 1024, 25 * 1024 * 1024
MAX_ROWS, MAX_IN_ROW, MAX_LABEL_CHARS, MAX_CUSTOM_ID_CHARS, MAX_REACTIONS = 5, 5, 80, 100, 20
BUTTON_STYLES = frozenset({1, 2, 3, 4})
"""The styles of buttons with a `custom_id`; links and shops have others."""
INTERACTION_TIMEOUT_S, INTERACTION_LIFE_S = 3.0, 900.0
THINKS = "the bot is thinking"
"""What stands in the place of an answer that was put off."""
UNKNOWN_CHANNEL = ApiError(404, 10003, "Unknown Channel")
UNKNOWN_MESSAGE = ApiError(404, 10008, "Unknown Message")
UNKNOWN_INTERACTION = ApiError(404, 10062, "Unknown interaction")
NOT_FOUND = ApiError(404, 0, "404: Not Found")


class Call:
    """One request: the ids in its path, its query, its body as JSON, and the files that came with it."""

    def __init__(self, path: tuple[str, ...], query: Json, body: Any, files: list[tuple[str, str, bytes]]) -> None:
        self.path = path
        self.query = query
        self.body: Json = body if isinstance(body, dict) else {}
        self.raw = body
        self.files = files


Route = Callable[["DiscordDouble", Call], Any]


def _bot(double: DiscordDouble, call: Call) -> Any:
    return double.me.json()


def _application(double: DiscordDouble, call: Call) -> Any:
    return {
        "id": double.me.id, "name": double.me.name, "flags": 1 << 19 if double.content_switch else 0, "icon": None,
        "description": "", "bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64, "team": None,
        "owner": double.me.json(),
    }  # fmt: skip


def _gateway(double: DiscordDouble, call: Call) -> Any:
    limit = {"total": 1000, "remaining": double.starts_left, "reset_after": 14_400_000, "max_concurrency": 1}
    return {"url": double.gateway_url, "shards": 1, "session_start_limit": limit}


def _commands(double: DiscordDouble, call: Call) -> Any:
    if isinstance(call.raw, list):
        for n, command in enumerate(call.raw):
            if (
                not re.fullmatch(r"[-_'\w]{1,32}", str(command.get("name")))
                or not 1 <= len(command["description"]) <= 100
            ):
                raise invalid_form(str(n), "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        double.commands = call.raw
    return double.commands


def _open_direct(double: DiscordDouble, call: Call) -> Any:
    return double.channels[double.direct(str(call.body.get("recipient_id")))].json()


def _channel(double: DiscordDouble, call: Call) -> Any:
    return _place(double, call.path[0]).json()


def _place(double: DiscordDouble, id: str) -> DiscordChannelModel:
    place = double.channels.get(id)
    if place is None:
        raise UNKNOWN_CHANNEL
    if place.hidden:
        raise ApiError(403, 50001, "Missing Access")
    return place


def _message(double: DiscordDouble, call: Call) -> StoredMessage:
    message = _place(double, call.path[0]).messages.get(call.path[1])
    if message is None or message.is_deleted:
        raise UNKNOWN_MESSAGE
    return message


def _history(double: DiscordDouble, call: Call) -> Any:
    """The newest first, also with `after`, where they are those next to it. Without the permission there are none."""
    limit = int(call.query.get("limit", 50))
    if not 1 <= limit <= 100:
        raise invalid_form("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
    place = _place(double, call.path[0])
    shown = [message.body for message in place.messages.values() if place.shows_history and not message.is_deleted]
    if "after" in call.query:
        shown = [body for body in shown if int(body["id"]) > int(call.query["after"])][:limit]
    elif "before" in call.query:
        shown = [body for body in shown if int(body["id"]) < int(call.query["before"])]
    return shown[-limit:][::-1]


def _post(double: DiscordDouble, call: Call) -> Any:
    place = _place(double, call.path[0])
    if place.user is not None and place.user.id in double.closed_to_us:
        raise ApiError(403, 50007, "Cannot send messages to this user")
    content = str(call.body.get("content") or "")
    _check_content(content, bool(call.files))
    if sum(len(file) for _, _, file in call.files) > MAX_REQUEST_BYTES or any(
        len(file) > MAX_FILE_BYTES for _, _, file in call.files
    ):
        raise ApiError(413, 40005, "Request entity too large")
    _check_components(call.body)
    nonce = str(call.body.get("nonce") or "")
    if len(nonce) > MAX_NONCE_CHARS:
        raise invalid_form("nonce", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
    if nonce and call.body.get("enforce_nonce") and (known := double.find_nonce(nonce)) is not None:
        return known
    reply_to = str(object_at(call.body, "message_reference").get("message_id") or "")
    replied = place.messages.get(reply_to)
    if reply_to and (replied is None or replied.is_deleted):
        if object_at(call.body, "message_reference").get("fail_if_not_exists", True):
            raise invalid_form("message_reference", "MESSAGE_REFERENCE_UNKNOWN_MESSAGE", "Unknown message")
        reply_to = ""
    body = double.make_message(place.id, double.me, content.strip(), reply_to)
    body["flags"] = int(call.body.get("flags") or 0)
    body["components"] = list_at(call.body, "components")
    body["attachments"] = [double.attach(re.sub(r"[^\w.-]", "_", name), file, mime) for name, mime, file in call.files]
    double.pinged += _pings(body, call.body)
    if nonce:
        double.note_nonce(nonce, body)
    double.add_message(place.id, body, nonce)
    return body | ({"nonce": nonce} if nonce else {})


def _check_content(content: str, has_files: bool) -> None:
    if len(content) > MAX_CONTENT_CHARS:
        raise invalid_form("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
    if not content.strip() and not has_files:
        raise ApiError(400, 50006, "Cannot send an empty message")


def _check_components(body: Json) -> None:
    rows = list_at(body, "components")
    buttons = [button for row in rows for button in row["components"]]
    ids = [button["custom_id"] for button in buttons]
    if len(rows) > MAX_ROWS or any(not 1 <= len(row["components"]) <= MAX_IN_ROW for row in rows):
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    if len(set(ids)) < len(ids):
        raise invalid_form("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    if any(not 1 <= len(id) <= MAX_CUSTOM_ID_CHARS for id in ids):
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    if any(button.get("style") not in BUTTON_STYLES for button in buttons):
        raise invalid_form("components", "BASE_TYPE_CHOICES", "Value must be one of (1, 2, 3, 4).")
    if any(not 1 <= len(button["label"]) <= MAX_LABEL_CHARS for button in buttons):
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 in length.")


def _pings(message: Json, request: Json) -> list[str]:
    """Return whom a message notifies, by its text and `allowed_mentions`."""
    allowed = request.get("allowed_mentions")
    parse = {"users", "roles", "everyone"} if allowed is None else set(list_at(allowed, "parse"))
    users = [user["id"] for user in message["mentions"]] if "users" in parse else []
    return users + (["everyone"] if message["mention_everyone"] and "everyone" in parse else [])


def _one(double: DiscordDouble, call: Call) -> Any:
    return _message(double, call).body


def _edit(double: DiscordDouble, call: Call) -> Any:
    message = _message(double, call)
    if message.body["author"]["id"] != double.me.id:
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    if "content" in call.body:
        _check_content(str(call.body["content"] or ""), bool(message.body["attachments"]))
        double.edit(call.path[0], call.path[1], str(call.body["content"] or "").strip())
    if "components" in call.body:
        _check_components(call.body)
        message.body["components"] = list_at(call.body, "components")
    return message.body


def _delete(double: DiscordDouble, call: Call) -> Any:
    message = _message(double, call)
    is_direct = double.channels[call.path[0]].type == DIRECT
    if is_direct and message.body["author"]["id"] != double.me.id:
        raise ApiError(403, 50003, "Cannot execute action on a DM channel")
    double.delete(call.path[0], call.path[1])
    return ApiAnswer(204)


def _react(double: DiscordDouble, call: Call) -> Any:
    message, emoji = _message(double, call), unquote(call.path[2])
    if emoji.isascii() and not re.fullmatch(r"\w{2,32}:[0-9]{15,20}", emoji):
        raise ApiError(400, 10014, "Unknown Emoji")
    if emoji not in message.reactions and len(message.reactions) >= MAX_REACTIONS:
        raise ApiError(403, 30010, "Maximum number of reactions reached (20)")
    double.react(call.path[0], call.path[1], double.me.id, emoji)
    return ApiAnswer(204)


def _typing(double: DiscordDouble, call: Call) -> Any:
    double.typed.append(_place(double, call.path[0]).id)
    return ApiAnswer(204)


def _open_thread(double: DiscordDouble, call: Call) -> Any:
    _message(double, call)
    if call.path[1] in double.channels:
        raise ApiError(400, 160004, "A thread has already been created for this message")
    name = str(call.body.get("name") or "")
    if not 1 <= len(name) <= 100:
        raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    thread = double.thread(call.path[0], name, id=call.path[1], owner=double.me.id)
    return ApiAnswer(201, double.channels[thread].json())


def _respond(double: DiscordDouble, call: Call) -> Any:
    interaction = double.interactions.get(call.path[0])
    if interaction is None or interaction.token != call.path[1]:
        raise UNKNOWN_INTERACTION
    if interaction.answer is not None:
        raise ApiError(400, 40060, "Interaction has already been acknowledged.")
    if double.now() - interaction.at > INTERACTION_TIMEOUT_S:
        raise UNKNOWN_INTERACTION
    interaction.answer = call.body
    if call.body.get("type") in (4, 5):
        interaction.shown = str(object_at(call.body, "data").get("content") or THINKS)
    if call.query.get("with_response", "").lower() in ("1", "true"):
        return {"interaction": {"id": interaction.id, "type": 2, "response_message_loading": False}}
    return ApiAnswer(204)


def _delete_original(double: DiscordDouble, call: Call) -> Any:
    interaction = next((one for one in double.interactions.values() if one.token == call.path[1]), None)
    if interaction is None or interaction.answer is None or double.now() - interaction.at > INTERACTION_LIFE_S:
        raise ApiError(404, 10015, "Unknown Webhook")
    if interaction.shown is None:
        raise UNKNOWN_MESSAGE
    interaction.shown = None
    return ApiAnswer(204)


_ID = r"([0-9]{1,20})"
ROUTES: list[tuple[str, re.Pattern[str], Route]] = [
    (method, re.compile(path), function)
    for method, path, function in (
        ("GET", r"/users/@me", _bot),
        ("GET", r"/applications/@me", _application),
        ("GET", r"/oauth2/applications/@me", _application),
        ("GET", r"/gateway/bot", _gateway),
        ("GET", rf"/applications/{_ID}/commands", _commands),
        ("PUT", rf"/applications/{_ID}/commands", _commands),
        ("POST", r"/users/@me/channels", _open_direct),
        ("GET", rf"/channels/{_ID}", _channel),
        ("GET", rf"/channels/{_ID}/messages", _history),
        ("POST", rf"/channels/{_ID}/messages", _post),
        ("GET", rf"/channels/{_ID}/messages/{_ID}", _one),
        ("PATCH", rf"/channels/{_ID}/messages/{_ID}", _edit),
        ("DELETE", rf"/channels/{_ID}/messages/{_ID}", _delete),
        ("PUT", rf"/channels/{_ID}/messages/{_ID}/reactions/([^/]+)/@me", _react),
        ("POST", rf"/channels/{_ID}/messages/{_ID}/threads", _open_thread),
        ("POST", rf"/channels/{_ID}/typing", _typing),
        ("POST", rf"/interactions/{_ID}/([^/]+)/callback", _respond),
        ("DELETE", rf"/webhooks/{_ID}/([^/]+)/messages/@original", _delete_original),
    )
]
