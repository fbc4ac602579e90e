"""Mattermost: an event of the WebSocket, or a page of the history -> what is told -> rows, and the cursor behind them;
an answer of the REST API -> what it means.

Whatever they hold, the channel does not stop at it: each event is a row or known to be nothing, and what cannot be read
is kept as it came. A cursor is read as it was written. No answer without a post's id is a receipt.
"""

from __future__ import annotations

import json
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.mattermost.address import MattermostCursor, is_id, parse_address
from semel.channels.mattermost.directory import MattermostDirectory, MattermostIdentity
from semel.channels.mattermost.downloads import MattermostFetcher
from semel.channels.mattermost.history import NotAPage, read_page
from semel.channels.mattermost.parse import MattermostParser
from semel.channels.mattermost.receipts import receipt_of
from semel.channels.mattermost.render import MAX_TEXT_CHARS, render
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.mattermost.sockets import parse_event
from semel.channels.mattermost.transport import MattermostApi, MattermostReply, parse_body
from semel.gateway.ports import NotSent, Op, Rejected, Unknown
from semel.text.json_types import Json

ME, ANN, ROOM, POST = "b" * 26, "a" * 26, "c" * 26, "p" * 26
HEAD: Json = {
    "id": POST, "create_at": 1_790_000_000_000, "update_at": 1_790_000_000_000, "edit_at": 0, "delete_at": 0,
    "user_id": ANN, "channel_id": ROOM, "root_id": "", "message": "@semel hello", "type": "", "props": {},
}  # fmt: skip


def _event(kind: str, name: str = "post", **fields: Any) -> Json:
    data = {name: json.dumps({**HEAD, **fields})}
    return {"event": kind, "seq": 7, "data": data, "broadcast": {"channel_id": ROOM}}


TEMPLATES: list[Any] = [
    _event("posted"),
    _event("posted", root_id="r" * 26, message="", file_ids=["f" * 26], metadata={"files": [
        {"id": "f" * 26, "name": "a/../b.ogg", "mime_type": "audio/ogg", "size": 9}]}),
    _event("posted", user_id=ME, props={"semel_key": "k1"}),
    _event("posted", message="", props={"from_webhook": "true", "override_username": "ci", "attachments": [
        {"fallback": "built"}]}),
    _event("post_edited", edit_at=1_790_000_009_000),
    _event("post_deleted", delete_at=1_790_000_009_000),
    _event("reaction_added", "reaction", post_id=POST, emoji_name="thumbsup"),
    {"order": [POST], "posts": {POST: {**HEAD, "edit_at": 1_790_000_009_000}}},
    HEAD,
    {"id": "api.context.permissions.app_error", "message": "No.", "status_code": 403},
]  # fmt: skip


class _NoApi(MattermostApi):
    """Nobody is asked."""

    async def call(self, method: str, path: str, body: Json | list[str] | None = None) -> MattermostReply:
        return MattermostReply(404, {"id": "x", "message": "y"})


_house = House()


def one(data: bytes) -> None:
    source = Source(data)
    policy = source.pick(["start", "own", "room"])
    settings = MattermostSettings("https://chat.invalid", "t" * 26, threads=policy, fetch=False)
    status, kind = source.pick([200, 201, 400, 404, 429, 500]), source.pick(["post", "edit", "react", "delete"])
    body = given(source, TEMPLATES)
    _check_answer(settings, body, status, kind)
    event = parse_event(body)
    if event is None:
        return
    api = _NoApi(settings)
    cursor = MattermostCursor(ME, 0, 1_780_000_000_000, {"r" * 26: None})
    parser = MattermostParser(MattermostIdentity(ME, "semel"), cursor, MattermostDirectory(api), policy)
    drafts = _house.run(parser.parse_event(event, "link.7"))
    try:
        posts = read_page(MattermostReply(200, event))
    except NotAPage:
        posts = []
    for post in posts:
        drafts += _house.run(parser.parse_post(post, cursor.at))
    inbox = _house.fresh()
    events = _house.run(MattermostFetcher(api, False, 1000).complete(drafts, inbox))
    _house.run(inbox.put(events, cursor.dump()))
    for what in _house.check():
        assert what.kind != "unreadable" or (what.raw and what.why), "what cannot be read is not kept"
        assert not what.address or str(parse_address(what.address)) == what.address, "an address is not read as written"
    assert MattermostCursor.load(cursor.dump()) == cursor, "the cursor is not read as it was written"


def _check_answer(settings: MattermostSettings, body: bytes, status: int, kind: Any) -> None:
    op = Op("k", kind, ROOM, "x", target=POST)
    try:
        receipt = receipt_of(op, MattermostReply(status, parse_body(body)))
        assert is_id(receipt.id), "a receipt names no post"
        assert status < 300 or kind == "delete", "an error is a receipt"
    except (NotSent, Rejected, Unknown) as outcome:
        assert str(outcome)
    assert len(render(body.decode("utf-8", "replace")[:16_000])) <= MAX_TEXT_CHARS


SEEDS = [
    *(bytes([k, 0, 0, 0, n, 0]) for n in range(len(TEMPLATES)) for k in range(3)),
    *(bytes([k % 3, k % 6, k % 4, 0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k]) for n in range(len(TEMPLATES))
      for k in (3, 11, 24)),
]  # fmt: skip
