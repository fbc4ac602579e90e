"""The double is held to Mattermost's documents: requests, the documented answer, and the page that says so."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from semel.testing.mattermost import BOT, TOKEN, MattermostDouble, serve
from semel.testing.mattermost.double import MattermostLink
from semel.testing.mattermost.model import MattermostCall, MattermostError
from semel.testing.mattermost.routes import call_route

Json = dict[str, Any]
REFERENCE = "https://docs.mattermost.com/api/reference"


@dataclass
class Case:
    """A request, and the documented answer. `error`: its id, "" if there is none. `has`: fields of the answer; None for
    one that is not there. `page`: the page below REFERENCE that says so, or the file of the server's source
    (https://github.com/mattermost/mattermost, server/channels or server).

    In paths and bodies ROOM, OUT, POST, THEIRS and ANN stand for ids: a channel with the bot, one without, a post of
    the bot, a post of Ann.
    """

    request: str
    body: Any = None
    status: int = 200
    error: str = ""
    has: Json = field(default_factory=dict)
    page: str = field(kw_only=True)
    prepare: Callable[[MattermostDouble], None] = lambda double: None


def lack(permission: str) -> Callable[[MattermostDouble], None]:
    return lambda double: double.lacks.add(permission)


def archive(double: MattermostDouble) -> None:
    next(room for room in double.rooms.values() if room.name == "room").delete_at = 1


def save(double: MattermostDouble) -> None:
    double.pending["saving"] = (double.now(), "")


DENIED = "api.context.permissions.app_error"
USERS, CHANNELS, POSTS = "get-user", "get-channel", "create-post"
CASES = [
    Case("GET /users/me", has={"id": BOT, "username": "semel", "is_bot": True}, page=USERS),
    Case("GET /users/ANN", has={"username": "ann", "is_bot": None}, page="source: public/model/user.go, omitempty"),
    Case("GET /users/nobody", status=404, error="app.user.missing_account.const", page="source: app/user.go, GetUser"),
    Case("GET /channels/ROOM", has={"type": "O", "display_name": "room"}, page=CHANNELS),
    Case("GET /channels/OUT", status=403, error=DENIED, page=CHANNELS),
    Case(
        "POST /channels/direct", [BOT, "ANN"], 201, has={"type": "D", "display_name": ""},
        page="create-direct-channel",
    ),
    Case(
        "POST /channels/direct", [BOT], 400, "api.context.invalid_body_param.app_error",
        page="source: api4/channel.go, createDirectChannel",
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x"}, 201, has={"user_id": BOT, "edit_at": 0, "root_id": ""},
        page=POSTS,
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x", "props": {"a": 1}}, 201, has={"props": {"a": 1}},
        page=POSTS,
    ),
    Case("POST /posts", {"channel_id": "ROOM", "message": "x", "root_id": "THEIRS"}, 201, page=POSTS),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x", "root_id": "gone"}, 400,
        "api.post.create_post.root_id.app_error", page="source: app/post.go, CreatePost",
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x", "file_ids": ["of another"]}, 201, has={"file_ids": []},
        page="source: app/post.go, attachFileIDsToPost: left out, and no error",
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x" * 16_383}, 201,
        page="source: public/model/post.go, PostMessageMaxRunesV2",
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x" * 16_384}, 400,
        "model.post.is_valid.message_length.app_error", page="source: public/model/post.go, IsValid",
    ),
    Case("POST /posts", {"channel_id": "OUT", "message": "x"}, 403, DENIED, page=POSTS),
    Case("POST /posts", {"channel_id": "ROOM", "message": "x"}, 403, DENIED, page=POSTS, prepare=lack("create_post")),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x"}, 400,
        "api.post.create_post.can_not_post_to_deleted.error", page="source: app/post.go, CreatePostAsUser",
        prepare=archive,
    ),
    Case(
        "POST /posts", {"channel_id": "ROOM", "message": "x", "pending_post_id": "saving"}, 500,
        "api.post.deduplicate_create_post.pending", page="source: app/post.go, deduplicateCreatePost", prepare=save,
    ),
    Case("GET /posts/POST", has={"message": "ours"}, page="get-post"),
    Case("GET /posts/gone", status=404, error="app.post.get.app_error", page="get-post"),
    Case("PUT /posts/POST/patch", {"message": "new"}, has={"message": "new"}, page="patch-post"),
    Case(
        "PUT /posts/POST/patch", {"message": "ours"}, has={"edit_at": 0},
        page="source: app/post.go, UpdatePost: the same text is no edit",
    ),
    Case("PUT /posts/THEIRS/patch", {"message": "new"}, 403, DENIED, page="patch-post"),
    Case(
        "PUT /posts/gone/patch", {"message": "new"}, 403, DENIED,
        page="source: api4/post.go, postPatchChecks: also if it is gone",
    ),
    Case("DELETE /posts/POST", has={"status": "OK"}, page="delete-post"),
    Case("DELETE /posts/gone", status=404, error="app.post.get.app_error", page="source: api4/post.go, deletePost"),
    Case(
        "POST /reactions", {"user_id": BOT, "post_id": "THEIRS", "emoji_name": "eyes"}, 201, has={"user_id": BOT},
        page="save-reaction",
    ),
    Case(
        "POST /reactions", {"user_id": BOT, "post_id": "gone", "emoji_name": "eyes"}, 403, DENIED,
        page="source: api4/reaction.go, saveReaction: of a post that never was",
    ),
    Case("POST /users/me/typing", {"channel_id": "ROOM"}, has={"status": "OK"}, page="publish-user-typing"),
    Case("GET /channels/OUT/posts", status=403, error=DENIED, page="get-posts-for-channel"),
    Case("GET /nothing", status=404, error="api.context.404.app_error", page="source: web/handlers.go, Handle404"),
]  # fmt: skip


def call(double: MattermostDouble, request: str, body: Any = None, **query: Any) -> tuple[int, Any]:
    """Make a request. Returns (status, answer)."""
    method, _, path = request.partition(" ")
    try:
        texts = {name: str(value) for name, value in query.items()}
        return call_route(double, method, path, MattermostCall((), texts, body))
    except MattermostError as error:
        return error.status, error.body()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.request} {case.status} {case.error}")
def test_a_request_is_answered_as_documented(case: Case) -> None:
    double = MattermostDouble()
    ann = double.person("ann")
    room, out = double.channel("room", ann), double.channel("out", ann, invited=False)
    ids = {"ROOM": room, "OUT": out, "ANN": ann, "THEIRS": double.write(room, ann, "theirs")}
    ids["POST"] = call(double, "POST /posts", {"channel_id": room, "message": "ours"})[1]["id"]
    case.prepare(double)

    def fill(text: str) -> str:
        return re.sub(r"\b(ROOM|OUT|ANN|THEIRS|(?<=/)POST)\b", lambda match: ids[match[1]], text)

    status, answer = call(double, fill(case.request), json.loads(fill(json.dumps(case.body))))
    expected = case.has if not case.error else {"id": case.error, "status_code": case.status}
    assert status == case.status, f"{REFERENCE}/{case.page}"
    assert {name: answer.get(name) for name in expected} == expected, f"{REFERENCE}/{case.page}"


def test_pages_have_the_newest_first_and_since_tells_of_changes(double: MattermostDouble, room: str) -> None:
    """https://docs.mattermost.com/api/reference, "Get posts for a channel"; 200 entries of a page at most."""
    ids = [double.write(room, "a" * 26, str(n)) for n in range(250)]
    page = call(double, f"GET /channels/{room}/posts", per_page=100)[1]
    assert page["order"] == ids[::-1][:100]
    assert len(call(double, f"GET /channels/{room}/posts", per_page=1000)[1]["order"]) == 200
    before = call(double, f"GET /channels/{room}/posts", per_page=100, before=ids[40])[1]["order"]
    assert before[-1] == ids[0] and ids[40] not in before
    double.advance(5)
    since = double.now_ms() - 1
    double.edit(ids[0], "new")
    double.remove(ids[1])
    changed = call(double, f"GET /channels/{room}/posts", since=since)[1]
    former = [post for post in changed["posts"].values() if post["original_id"]]  # source: post_store.go, Update
    assert set(changed["order"]) == {ids[0], ids[1], former[0]["id"]} and changed["posts"][ids[1]]["delete_at"]
    assert [(post["original_id"], post["message"]) for post in former] == [(ids[0], "0")] and former[0]["delete_at"]
    assert ids[1] not in call(double, f"GET /channels/{room}/posts", before=ids[3])[1]["order"]


def test_a_pending_post_id_is_folded_for_half_a_minute(double: MattermostDouble, room: str) -> None:
    """The server's source, app/post.go: pendingPostIDsCacheTTL; the API reference does not have it."""
    body = {"channel_id": room, "message": "x", "pending_post_id": "k"}
    first, again = (call(double, "POST /posts", body)[1]["id"] for _ in range(2))
    double.advance(31)
    assert first == again != call(double, "POST /posts", body)[1]["id"]


def test_events_are_numbered_and_only_of_channels_with_the_bot(double: MattermostDouble, room: str) -> None:
    """https://docs.mattermost.com/api/reference, "WebSocket Events"."""
    link = MattermostLink()
    double.links.append(link)
    id = double.write(room, "a" * 26, "x")
    double.write(double.channel("out", invited=False), "a" * 26, "x")
    double.edit(id, "y")
    double.remove(id)
    events = [link.queue.get_nowait() for _ in range(link.queue.qsize())]
    assert [(event["event"], event["seq"]) for event in events if event is not None] == [
        ("posted", 0), ("post_edited", 1), ("post_deleted", 2),
    ]  # fmt: skip
    assert json.loads(events[0]["data"]["post"])["id"] == id if events[0] is not None else False


async def test_a_wrong_token_closes_the_websocket_and_a_request_tells_whether_it_is_logged_in() -> None:
    """The server's source, app/platform/websocket_router.go, ServeWebSocket, and wsapi/system.go, ping."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    async def ask(seq: int, action: str, **data: str) -> Json:
        await socket.send(json.dumps({"seq": seq, "action": action, "data": data}))
        while "seq_reply" not in (answer := json.loads(await socket.recv())):
            pass
        return dict(answer)

    double = MattermostDouble()
    async with serve(double) as urls:
        async with connect(urls.websocket, proxy=None) as socket:
            with pytest.raises(ConnectionClosed):
                await ask(1, "authentication_challenge", token="wrong")
        async with connect(urls.websocket, proxy=None) as socket:
            assert (await ask(1, "authentication_challenge", token=TOKEN))["status"] == "OK"
            assert (await ask(2, "ping"))["data"]["text"] == "pong"
            double.forget_logins()
            assert (await ask(3, "ping"))["error"]["id"] == "api.web_socket_router.not_authenticated.app_error"


async def test_too_many_requests_and_a_wrong_token_are_answered_over_http() -> None:
    """https://docs.mattermost.com/api/reference, "Rate Limiting" and "Authentication"."""

    def ask(token: str) -> tuple[int, Json]:
        request = urllib.request.Request(f"{urls.url}/api/v4/users/me", headers={"authorization": f"Bearer {token}"})
        try:
            with direct.open(request, timeout=20) as answer:
                return answer.status, {name.lower(): value for name, value in answer.headers.items()}
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {name.lower(): value for name, value in error.headers.items()}

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    async with serve(MattermostDouble(rate=(2, 60.0))) as urls:
        asked = [await asyncio.to_thread(ask, token) for token in (TOKEN, "wrong", TOKEN)]
    assert [status for status, _ in asked] == [200, 401, 429]
    assert asked[0][1]["x-ratelimit-remaining"] == "1" and asked[2][1]["retry-after"] == "60"


def test_the_double_runs_in_a_process_of_its_own_and_does_what_a_tester_says() -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    arguments = [sys.executable, "-m", "semel.testing.mattermost", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, token, _, names = (process.stdout.readline() for _ in range(4))
            assert token == f'token = "{TOKEN}"\n'
            room = names.rpartition(" ")[2].strip()
            body = json.dumps({"channel": room}).encode()
            with direct.open(f"{url.split(chr(34))[1]}/control/texts", body, timeout=20) as answer:
                assert json.load(answer) == {"result": []}
        finally:
            process.kill()


@pytest.fixture
def double() -> MattermostDouble:
    return MattermostDouble()


@pytest.fixture
def room(double: MattermostDouble) -> str:
    return double.channel("room")
