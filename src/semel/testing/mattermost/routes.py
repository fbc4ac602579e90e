"""The routes of the double's REST API (https://docs.mattermost.com/api/reference)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from semel.testing.mattermost.double import BOT, PENDING_LIFE_S, MattermostDouble
from semel.testing.mattermost.model import MattermostCall, MattermostError
from semel.text.json_types import Json

MAX_MESSAGE_CHARS = 16_383
MAX_PER_PAGE = 200
MAX_SINCE = 1_000
"""Posts that `since` gives at most (the server's source)."""
Route = Callable[[MattermostDouble, MattermostCall], tuple[int, Any]]


def _get_user(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    id = BOT if call.ids[0] == "me" else call.ids[0]
    if id not in double.people:
        raise MattermostError(404, "app.user.missing_account.const", "Unable to find the user.")
    return 200, double.people[id]


def _list_teams(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    return 200, double.teams


def _list_channels(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    rooms = [room for room in double.rooms.values() if BOT in room.members]
    if not rooms:  # the server has begun its answer before it looks
        raise MattermostError(404, "app.channel.get_channels.not_found.app_error", "No channels were found.", began="[")
    since = int(call.query.get("last_delete_at", 0)) if call.query.get("include_deleted") == "true" else None
    return 200, [
        room.describe() for room in rooms
        if not room.delete_at or (since is not None and room.delete_at >= since)
    ]  # fmt: skip


def _get_channel(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    return 200, double.find_room(call.ids[0]).describe()


def _open_direct(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    double.check_permission("create_direct_channel")
    others = [id for id in call.body if id != BOT]
    if len(call.body) != 2 or len(others) != 1 or others[0] not in double.people:
        raise MattermostError(400, "api.context.invalid_body_param.app_error", "Invalid user_ids.")
    return 201, double.rooms[double.direct(others[0])].describe()


def _list_posts(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    double.check_permission("read_channel")
    if double.find_room(call.ids[0]).delete_at and not double.shows_archived:
        id = "api.user.view_archived_channels.get_posts_for_channel.app_error"
        raise MattermostError(403, id, "The channel is archived.")
    newest_first = reversed(double.find_room(call.ids[0]).posts.values())
    posts = sorted(newest_first, key=lambda post: -post["create_at"])
    if "since" in call.query:
        found = [post for post in posts if post["update_at"] > int(call.query["since"])][:MAX_SINCE]
        return 200, _make_page(found)
    posts = [post for post in posts if not post["delete_at"]]
    if "before" in call.query:
        anchor = double.rooms[call.ids[0]].posts[call.query["before"]]
        posts = [post for post in posts if post["create_at"] < anchor["create_at"]]
    most = min(MAX_PER_PAGE, int(call.query.get("per_page", 60)))
    start = most * int(call.query.get("page", 0))
    return 200, _make_page(posts[start : start + most])


def _make_page(posts: list[Json]) -> Json:
    return {"order": [post["id"] for post in posts], "posts": {post["id"]: post for post in posts}}


def _create_post(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    fields = {name: call.body[name] for name in _FIELDS if name in call.body}
    room = double.find_room(str(call.body.get("channel_id")))
    double.check_permission("create_post")
    pending = str(fields.get("pending_post_id") or "")
    at, known = double.pending.get(pending, (0.0, ""))
    if pending and double.now() - at < PENDING_LIFE_S:
        if not known:
            raise MattermostError(500, "api.post.deduplicate_create_post.pending", "Another request is saving it.")
        return 201, {**double.find_post(known)[1], "pending_post_id": pending}
    _check_post(double, fields, room.id)
    post = double.add_post(room.id, BOT, fields)
    if pending:
        double.pending[pending] = (double.now(), post["id"])
    return 201, {**post, "pending_post_id": pending}


_FIELDS = ("message", "root_id", "file_ids", "props", "pending_post_id")


def _check_post(double: MattermostDouble, fields: Json, channel: str) -> None:
    room, text, root = double.rooms[channel], str(fields.get("message", "")), str(fields.get("root_id") or "")
    if room.delete_at:
        raise MattermostError(400, "api.post.create_post.can_not_post_to_deleted.error", "It is archived.")
    if len(text) > MAX_MESSAGE_CHARS:
        raise MattermostError(400, "model.post.is_valid.message_length.app_error", "Post Message property is too long.")
    if not text and not fields.get("file_ids"):
        raise MattermostError(400, "api.post.create_post.empty.app_error", "The message is empty.")
    if root and (root not in room.posts or room.posts[root]["delete_at"] or room.posts[root]["root_id"]):
        raise MattermostError(400, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.")


def _get_post(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    return 200, double.find_post(call.ids[0])[1]


def _patch_post(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    if not double.is_shown(call.ids[0]):
        raise MattermostError(403, "api.context.permissions.app_error", "You do not have the permission.")
    _check_own(double, call.ids[0], "edit_post")
    text = str(call.body.get("message", ""))
    if len(text) > MAX_MESSAGE_CHARS:
        raise MattermostError(400, "model.post.is_valid.message_length.app_error", "Post Message property is too long.")
    return 200, double.change_post(call.ids[0], text)


def _delete_post(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    _check_own(double, call.ids[0], "delete_post")
    double.delete_post(call.ids[0])
    return 200, {"status": "OK"}


def _check_own(double: MattermostDouble, post: str, permission: str) -> None:
    double.check_permission(permission)
    if double.find_post(post)[1]["user_id"] != BOT:
        raise MattermostError(403, "api.context.permissions.app_error", "You do not have the permission.")


def _react(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    double.check_permission("add_reaction")
    if not any(call.body["post_id"] in room.posts for room in double.rooms.values()):
        raise MattermostError(403, "api.context.permissions.app_error", "You do not have the permission.")
    double.find_post(str(call.body["post_id"]))
    if not re.fullmatch(r"[a-z0-9_+-]{1,64}", str(call.body["emoji_name"])):
        raise MattermostError(400, "model.reaction.is_valid.emoji_name.app_error", "Invalid emoji name.")
    double.react(call.body["post_id"], BOT, call.body["emoji_name"])
    return 201, {**call.body, "create_at": double.now_ms()}


def _upload(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    room = double.find_room(str((call.body or {}).get("channel_id")))
    double.check_permission("upload_file")
    if call.file is None:
        raise MattermostError(400, "api.file.upload_file.read_request.app_error", "There is no file.")
    stored = double.add_file(BOT, room.id, call.file["name"], call.file["mime"], call.file["content"])
    info = {name: value for name, value in stored.items() if name != "content"}
    return 201, {"file_infos": [info], "client_ids": []}


def _type(double: MattermostDouble, call: MattermostCall) -> tuple[int, Any]:
    double.find_room(str(call.body["channel_id"]))
    double.typed.append(call.body)
    return 200, {"status": "OK"}


def _route(method: str, path: str, function: Route) -> tuple[str, re.Pattern[str], Route]:
    return method, re.compile(path.replace("{id}", "([a-z0-9]+)")), function


ROUTES = [
    _route("GET", "/users/{id}", _get_user),
    _route("GET", "/users/me/teams", _list_teams),
    _route("GET", "/users/me/channels", _list_channels),
    _route("POST", "/users/{id}/typing", _type),
    _route("POST", "/channels/direct", _open_direct),
    _route("GET", "/channels/{id}", _get_channel),
    _route("GET", "/channels/{id}/posts", _list_posts),
    _route("POST", "/posts", _create_post),
    _route("GET", "/posts/{id}", _get_post),
    _route("PUT", "/posts/{id}/patch", _patch_post),
    _route("DELETE", "/posts/{id}", _delete_post),
    _route("POST", "/reactions", _react),
    _route("POST", "/files", _upload),
]


def call_route(double: MattermostDouble, method: str, path: str, call: MattermostCall) -> tuple[int, Any]:
    """Call the route of a request. Returns (status, the JSON of the answer). Raises MattermostError."""
    for route_method, pattern, function in ROUTES:
        if route_method == method and (match := pattern.fullmatch(path)) is not None:
            call.ids = match.groups()
            return function(double, call)
    raise MattermostError(404, "api.context.404.app_error", "Sorry, we could not find the page.")
