"""Matrix: an answer of /sync -> rooms and events -> rows, and the token behind them in one transaction.

Whatever an event holds, the channel does not stop at it: it is a row, or one of the things that nobody said; what
cannot be read is kept as it came. A cursor is read as it was written.
"""

from __future__ import annotations

import copy
from typing import Any

import httpx2

from proof.fuzz.house import House
from proof.fuzz.source import Source, given, plain
from semel.channels.matrix.account import MatrixAccount, MatrixIdentity, MatrixReader
from semel.channels.matrix.address import parse_address
from semel.channels.matrix.downloads import MatrixFetcher
from semel.channels.matrix.invitations import Invitations
from semel.channels.matrix.receive import Sync, SyncCursor
from semel.channels.matrix.resolve_events import EventResolver
from semel.channels.matrix.rooms import Rooms
from semel.channels.matrix.settings import MatrixSettings
from semel.channels.matrix.transport import MatrixReply, parse_json, query
from semel.text.json_types import Json

ME = MatrixIdentity("@bot:x.y", "SEMEL", "token")
ROOM = "!room:x.y"


def _event(type: str, content: Any, **more: Any) -> Any:
    head = {"event_id": "$e1", "sender": "@ann:x.y", "origin_server_ts": 1_790_000_000_000}
    return {"type": type, "content": content, **head, **more}


def _sync(*events: Any, **more: Any) -> Any:
    timeline = {"events": [{**e, "event_id": f"$e{n}"} for n, e in enumerate(events)], "limited": False}
    return {"next_batch": "s2", "rooms": {"join": {ROOM: {"timeline": timeline, "summary": {
        "m.joined_member_count": 3}, "state": {"events": []}}}, **more}}  # fmt: skip


_TEXT = {"msgtype": "m.text", "body": "hello", "m.mentions": {"user_ids": ["@bot:x.y"]}}
TEMPLATES: list[Any] = [
    _sync(_event("m.room.message", _TEXT), _event("m.room.message", {**_TEXT, "body": "bot: do", "m.relates_to": {
        "rel_type": "m.thread", "event_id": "$e0", "m.in_reply_to": {"event_id": "$e0"}, "is_falling_back": True}})),
    _sync(_event("m.room.message", {"msgtype": "m.text", "body": "* b", "m.new_content": _TEXT, "m.relates_to": {
        "rel_type": "m.replace", "event_id": "$x"}}), _event("m.reaction", {"m.relates_to": {
        "rel_type": "m.annotation", "event_id": "$x", "key": "👍"}}), _event("m.room.redaction", {"redacts": "$e1"})),
    _sync(_event("m.room.message", {"msgtype": "m.image", "body": "a.png", "url": "mxc://x.y/abc", "info": {
        "size": 5, "mimetype": "image/png"}, "filename": "a.png"}), _event("m.room.encrypted", {"ciphertext": "x"}),
        _event("m.sticker", {"body": "s", "url": "mxc://x.y/s"}), _event("m.poll.start", {"m.text": [{"body": "?"}]})),
    _sync(_event("m.room.member", {"membership": "join", "displayname": "Ann"}, state_key="@ann:x.y"),
        _event("m.room.message", _TEXT, sender="@bot:x.y", unsigned={"transaction_id": "k1"}),
        _event("m.room.message", {"msgtype": "m.location", "body": "here", "geo_uri": "geo:1,2"}),
        _event("m.room.name", {"name": "Garden"}, state_key="")),
    _sync(invite={"!i:x.y": {"invite_state": {"events": [{"type": "m.room.member", "state_key": "@bot:x.y",
        "sender": "@ann:x.y", "content": {"membership": "invite"}}]}}}, leave={"!l:x.y": {}}),
    _sync(_event("m.room.message", {"msgtype": "m.emote", "body": "> <@bot:x.y> old\n\nwaves", "m.relates_to": {
        "m.in_reply_to": {"event_id": "$o"}}}, unsigned={"redacted_because": {}})),
]  # fmt: skip
ABOUT: list[Any] = [
    {"joined": {"@ann:x.y": {"display_name": "Ann"}, "@bot:x.y": {}, "@c:x.y": None}},
    {"sender": "@bot:x.y", "type": "m.room.message", "content": {}}, {"name": "Garden"}, {"chunk": [], "end": "t9"},
]  # fmt: skip
_house = House()
_settings = MatrixSettings("https://x.y", token="t", join="never")


class _Link:
    """Gives no file."""

    base = "https://x.y"

    def stream(self, path: str, token: str | None) -> Any:
        raise httpx2.ReadTimeout("no answer")


class _Reader(MatrixReader):
    """A homeserver that answers what bytes decide. Paths are made as they would be sent."""

    def __init__(self, source: Source) -> None:
        self.me = ME
        self.link: Any = _Link()
        self._source = source
        self._asked = 0

    async def get(self, path: str, wait: float = 0.0) -> MatrixReply:
        path.encode("ascii")
        self._asked += 1
        how = self._source.number(4) if self._asked < 20 else 0
        if how < 2:
            return MatrixReply(404, {}, {"errcode": "M_NOT_FOUND"})
        if how == 2 and "joined_members" in path:
            return MatrixReply(200, {}, copy.deepcopy(ABOUT[0]))
        told = self._source.mutated(self._source.pick(ABOUT))
        return MatrixReply(200, {}, parse_json(plain(told)))


def one(data: bytes) -> None:
    source = Source(data)
    answer = parse_json(given(source, TEMPLATES))
    if not isinstance(answer.get("next_batch"), str):
        return  # `Sync._sync` says Offline
    inbox = _house.fresh()
    _house.run(_take(answer, source, inbox))
    for what in _house.check():
        assert what.kind != "unreadable" or what.why
        assert parse_address(what.address).address == what.address or not what.address.startswith("!")


async def _take(answer: Json, source: Source, inbox: Any) -> None:
    reader = _Reader(source)
    hearing = EventResolver(reader, Rooms(reader), inbox, MatrixFetcher(reader, 10, _no_wait))
    invitations = Invitations(MatrixAccount("m", _settings), inbox, "never", {}, lambda: 0.0)
    sync = Sync(reader, hearing, invitations, inbox)
    sync.cursor = SyncCursor(ME.id, "s1")
    await sync._process_answer(answer)
    again = SyncCursor.load(sync.cursor.dump(), ME.id)
    assert again is not None and again.dump() == sync.cursor.dump(), "the cursor is not read as it was written"
    kept = await inbox.cursor()
    found = SyncCursor.load(kept, ME.id) if kept is not None else None
    assert kept is None or found is not None, "the cursor that was kept cannot be read"
    if found is not None:
        query(since=found.since)


async def _no_wait(seconds: float) -> None: ...


SEEDS = [
    *(bytes([0, n, 0, 2, 2, 2, 3, 1, 0]) for n in range(len(TEMPLATES))),
    *(bytes([0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k, 3, 1, 0, 2]) for n in range(6) for k in (3, 15, 30)),
    b'\x04{"next_batch":"s","rooms":{"join":{"!r:x":{"timeline":{"events":[1,null,{"event_id":7}],"limited":true,'
    b'"prev_batch":"p"}}}}}',
]
