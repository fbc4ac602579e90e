"""How it is heard when things go wrong: a homeserver that fails as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from matrix_double import DROP, HANG, Double, Request, Said, answer, refusal

from semel.channels.matrix import MatrixSettings, downloads, gaps, invitations, resolve_events
from semel.channels.matrix.channel import MatrixChannel
from semel.channels.matrix.rooms import FRESHNESS_S, Room, Rooms
from semel.gateway.ports import Denied, Kept, Missing, Offline, Op
from semel.testing.inbox import KeptInbox

ROOM, ASKED = "!room:test", "!asked:test"
AT = '{"user":"@bot:test","since":"s1"}'


def channel(server: Double, **settings: Any) -> MatrixChannel:
    given = {"homeserver": server.url, "user": "@bot:test", "password": "pw", "timeout": 1.0, **settings}
    return MatrixChannel("chat", MatrixSettings(**given))


def said(id: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": text, **more}
    return {"event_id": id, "type": "m.room.message", "sender": "@ada:test", "origin_server_ts": 1, "content": content}


def told(next: str, *events: Any, invite: Any = None, **timeline: Any) -> Said:
    """An answer to /sync."""
    rooms: dict[str, Any] = {"join": {ROOM: {"timeline": {"events": list(events), **timeline}}}} if events else {}
    rooms |= {"invite": {ASKED: {"invite_state": {"events": invite}}}} if invite else {}
    return answer(200, {"next_batch": next, "rooms": rooms})


def member(membership: str, id: str = "$m", sender: str = "@bot:test", **unsigned: Any) -> dict[str, Any]:
    content = {"membership": membership}
    whole = {"event_id": id, "type": "m.room.member", "state_key": "@bot:test", "sender": sender, "content": content}
    return {**whole, "unsigned": unsigned}


@asynccontextmanager
async def running(server: Double, inbox: KeptInbox, **settings: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(channel(server, **settings).run(inbox))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("ways", "error", "wait"),
    [
        ([answer(502, b"<html>")], Offline, None),
        ([DROP], Offline, None),
        ([HANG], Offline, None),
        ([answer(200, b"<html>")], Offline, None),
        ([answer(200, {"odd": 1})], Offline, None),
        ([refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=2500)], Offline, 2.5),
        ([refusal(403, "M_FORBIDDEN")], Offline, None),
        ([refusal(401, "M_UNKNOWN_TOKEN")], Denied, None),
        ([refusal(403, "M_USER_DEACTIVATED")], Denied, None),
    ],
)
async def test_a_homeserver_that_is_lost_is_said_to_be_and_nothing_is_put(
    ways: list[Said], error: type[Exception], wait: float | None, tmp_path: Path
) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", *ways)
        with pytest.raises(error) as caught:
            await asyncio.wait_for(channel(server, timeout=0.3).run(inbox), 20.0)
    assert (inbox.puts, inbox.onlines) == ([], 0)
    assert getattr(caught.value, "retry_after", None) == wait


@pytest.mark.parametrize(
    ("way", "error"),
    [
        (refusal(403, "M_FORBIDDEN"), Denied),
        (refusal(400, "M_UNKNOWN"), Denied),
        (answer(404, b"<html>"), Denied),
        (answer(200, b"<html>"), Denied),
        (answer(302, b""), Denied),
        (refusal(429, "M_LIMIT_EXCEEDED"), Offline),
        (answer(502), Offline),
        (DROP, Offline),
    ],
)
async def test_a_login_that_fails_says_whether_a_person_is_needed(
    way: Said, error: type[Exception], tmp_path: Path
) -> None:
    async with Double() as server:
        server.on("POST", "/login", way)
        with pytest.raises(error):
            await channel(server).run(KeptInbox(tmp_path))


async def test_a_token_that_ends_while_waiting_is_renewed_and_nothing_is_missed(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2"), refusal(401, "M_UNKNOWN_TOKEN"), told("s3", said("$1")), HANG)
        async with running(server, inbox):
            await inbox.wait(1)
        assert [one.query["since"] for one in server.asked("GET", "/sync")[:3]] == ["s1", "s2", "s2"]
        assert len(server.asked("POST", "/login")) == 2
    assert inbox.at == '{"user":"@bot:test","since":"s3"}'


async def test_the_next_is_asked_for_only_after_the_put(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    inbox.fail = OSError("the disk is full")
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$1")), HANG)
        with pytest.raises(OSError, match="full"):
            await channel(server).run(inbox)
        assert len(server.asked("GET", "/sync")) == 1
    assert inbox.at == AT


async def test_a_quiet_homeserver_makes_no_commits(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s1"), told("s1"), told("s1"), told("s2", said("$1")), HANG)
        async with running(server, inbox):
            await inbox.wait(1)
    assert len(inbox.puts) == 1


async def test_a_homeserver_that_forgot_where_we_were_is_read_from_now_on_and_it_is_told(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)

    def sync(request: Request) -> Said:
        if request.query.get("since") == "s1":
            return refusal(400, "M_UNKNOWN")
        return told("n2", said("$1")) if request.query.get("since") == "n1" else told("n1")

    async with Double() as server:
        server.on("GET", "/sync", sync, sync, sync, HANG)
        async with running(server, inbox):
            await inbox.wait(2)
    lost, heard = inbox.events
    assert (lost.kind, heard.text) == ("unreadable", "hello")
    assert "may be missing" in lost.why


async def test_a_gap_that_the_homeserver_does_not_tell_is_told_as_one(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$9", "after"), limited=True, prev_batch="p1"), HANG)
        server.on("GET", "/messages", refusal(403, "M_FORBIDDEN"))
        async with running(server, inbox):
            await inbox.wait(2)
    torn, heard = inbox.events
    assert (torn.kind, torn.address, heard.text) == ("unreadable", ROOM, "after")


async def test_a_gap_is_put_page_by_page_with_how_far_it_goes(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, '{"user":"@bot:test","since":"s1","gaps":{"!room:test":"g1"}}')

    def page(request: Request) -> Said:
        if "senders" in request.query["filter"]:
            return answer(200, {"chunk": []})
        assert (request.query["dir"], request.query["to"]) == ("f", "p1")
        pages = {"g1": ([said("$1", "1")], "g2"), "g2": ([], "g3"), "g3": ([said("$2", "2")], "p1")}
        events, end = pages[request.query["from"]]
        return answer(200, {"chunk": events, "end": end})

    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$3", "3"), limited=True, prev_batch="p1"), HANG)
        server.on("GET", "/messages", page)
        async with running(server, inbox):
            await inbox.wait(3)
    assert [event.text for event in inbox.events] == ["1", "2", "3"]
    cursors = [json.loads(cursor or "{}") for _, cursor in inbox.puts]
    assert [(each["since"], each.get("gaps")) for each in cursors] == [
        ("s1", {ROOM: "g2"}),
        ("s1", {ROOM: "p1"}),
        ("s2", None),
    ]


async def test_an_event_that_we_fail_over_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(event: Any, room: Any, me: Any) -> Any:
        if event["event_id"] == "$1":
            raise ZeroDivisionError
        return real(event, room, me)

    real = resolve_events.parse_event
    monkeypatch.setattr(resolve_events, "parse_event", read)
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$1"), said("$2", "next")), HANG)
        async with running(server, inbox):
            await inbox.wait(2)
    odd, heard = inbox.events
    assert (odd.kind, odd.key, heard.text) == ("unreadable", "$1", "next")
    assert "ZeroDivisionError" in odd.why and b'"hello"' in odd.raw


async def test_what_refers_to_something_unknown_is_heard_in_the_room(tmp_path: Path) -> None:
    related = {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$gone", "key": "👍"}}
    thumb = {**said("$1"), "type": "m.reaction", "content": related}
    gone = {**said("$2"), "type": "m.room.redaction", "content": {"redacts": "$unseen"}}
    unseen = {**said("$unseen"), "type": "m.reaction", "content": {}, "unsigned": {"redacted_because": {}}}
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/event/$unseen", answer(200, unseen))
        server.on("GET", "/sync", told("s2", thumb, gone), HANG)
        async with running(server, inbox):
            await inbox.wait(2)
    assert [(one.kind, one.address, one.of) for one in inbox.events] == [
        ("reaction", ROOM, "$gone"),
        ("delete", ROOM, "$unseen"),
    ]


async def test_a_reaction_to_a_message_of_another_room_does_not_reach_that_room(tmp_path: Path) -> None:
    related = {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$1", "key": "✅"}}
    thumb = {**said("$2"), "type": "m.reaction", "content": related}
    join = {ROOM: {"timeline": {"events": [said("$1")]}}, "!other:test": {"timeline": {"events": [thumb]}}}
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", answer(200, {"next_batch": "s2", "rooms": {"join": join}}), HANG)
        async with running(server, inbox):
            await inbox.wait(2)
    assert [one.address for one in inbox.events] == [ROOM, "!other:test"]


# ---------------------------------------------------------------- files

FILE = {"msgtype": "m.file", "body": "a.txt", "url": "mxc://test/1"}


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        ([answer(200, b"data")], None, None),
        ([refusal(404, "M_UNRECOGNIZED")], answer(200, b"data"), None),
        ([answer(404, b"<html>")], answer(200, b"data"), None),
        ([refusal(404, "M_NOT_FOUND")], None, "not there any more"),
        ([refusal(403, "M_FORBIDDEN")], None, "refuses it"),
        ([answer(502), answer(504), answer(200, b"data")], None, None),
        ([refusal(429, "M_LIMIT_EXCEEDED"), answer(200, b"data")], None, None),
        ([answer(502)], None, "could not be fetched: HTTP 502"),
        ([DROP], None, "could not be fetched"),
        ([answer(200, b"x" * 101)], None, "larger than 100 bytes"),
        ([answer(302, b"", location="http://127.0.0.1:1/")], None, "refuses it"),
    ],
)
async def test_a_file_is_fetched_with_patience_or_named_as_missing(
    new: list[Said], old: Said | None, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_RETRY_DELAY_S", 0.01)
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/_matrix/client/v1/media/download/test/1", *new)
        if old is not None:
            server.on("GET", "/_matrix/media/v3/download/test/1", old)
        server.on("GET", "/sync", told("s2", said("$1", **FILE)), HANG)
        async with running(server, inbox, file_limit=100):
            await inbox.wait(1)
        tries = server.asked("GET", "/media/download")
        assert tries[0].headers["authorization"] == "Bearer token-1"
        assert all("authorization" not in one.headers for one in server.asked("GET", "/media/v3/"))
    [file] = inbox.events[0].files
    if why is None:
        assert isinstance(file, Kept) and (tmp_path / file.id).read_bytes() == b"data"
    else:
        assert isinstance(file, Missing) and why in file.why
        assert len(tries) <= 3


@pytest.mark.parametrize("url", ["https://example.org/x", "mxc://test/../../admin", "mxc://test", "", 7])
async def test_a_file_elsewhere_is_not_fetched(url: Any, tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$1", **{**FILE, "url": url})), HANG)
        async with running(server, inbox):
            await inbox.wait(1)
        assert server.asked("GET", "download") == []
    [file] = inbox.events[0].files
    assert isinstance(file, Missing)


async def test_nothing_is_fetched_for_strangers(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    inbox.strangers.add("@ada:test")
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$1", **FILE)), HANG)
        async with running(server, inbox):
            await inbox.wait(1)
        assert server.asked("GET", "download") == []


# ---------------------------------------------------------------- invitations

INVITE = [
    {"type": "m.room.member", "state_key": "@bot:test", "sender": "@ada:test", "content": {"membership": "invite"}}
]


@pytest.mark.parametrize("way", [answer(502), DROP, refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=1)])
async def test_a_room_that_cannot_be_entered_now_is_tried_later_and_stops_nothing(
    way: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invitations, "MANUAL_RETRY_DELAY_S", 0.01)
    inbox = KeptInbox(tmp_path, AT)
    joined = asyncio.Event()

    def join(request: Request) -> Said:
        joined.set()
        return answer(200)

    async with Double() as server:
        server.on("POST", "/join", way, join)
        polls = [told("s2", invite=INVITE), told("s3", said("$1")), *[told(f"s{n}") for n in range(4, 60)]]
        server.on("GET", "/sync", *polls, HANG)
        async with running(server, inbox):
            await inbox.wait(1)
            assert ASKED in (inbox.puts[0][1] or "")
            await asyncio.wait_for(joined.wait(), 20.0)


async def test_a_room_that_may_not_be_entered_is_let_go(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("POST", "/join", refusal(403, "M_FORBIDDEN"))
        server.on("GET", "/sync", told("s2", invite=INVITE), told("s3"), told("s4", said("$1")), HANG)
        async with running(server, inbox):
            await inbox.wait(1)
        assert len(server.asked("POST", "/join")) == 1
    assert "invites" not in (inbox.at or "")


@pytest.mark.parametrize(("join", "stranger", "joins"), [("known", True, 0), ("all", True, 1), ("never", False, 0)])
async def test_whose_invitations_are_accepted(join: str, stranger: bool, joins: int, tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    inbox.strangers |= {"@ada:test"} if stranger else set()
    async with Double() as server:
        server.on("POST", "/join", answer(200))
        server.on("GET", "/sync", told("s2", invite=INVITE), told("s3", said("$1")), HANG)
        async with running(server, inbox, join=join):
            await inbox.wait(1)
        assert len(server.asked("POST", "/join")) == joins


async def test_a_flood_of_invitations_is_bounded(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    inbox.strangers.add("@ada:test")
    rooms = {f"!{n}:test": {"invite_state": {"events": INVITE}} for n in range(200)}
    async with Double() as server:
        server.on("GET", "/sync", answer(200, {"next_batch": "s2", "rooms": {"invite": rooms}}), HANG)
        async with running(server, inbox):
            await inbox.wait_online()
    assert len(json.loads(inbox.at or "{}")["invites"]) == invitations.MAX_WAITING_INVITATIONS


# ---------------------------------------------------------------- pieces


def test_only_our_coming_is_one_and_no_change_of_our_name() -> None:
    assert gaps.is_our_join(member("join"), "@bot:test")
    assert gaps.is_our_join(member("join", prev_content={"membership": "invite"}, replaces_state="$1"), "@bot:test")
    assert not gaps.is_our_join(member("join", prev_content={"membership": "join"}), "@bot:test")
    assert not gaps.is_our_join(member("join", replaces_state="$1"), "@bot:test"), "what it was before is not told"
    assert not gaps.is_our_join(member("leave"), "@bot:test")
    assert not gaps.is_our_join(member("join"), "@ada:test")
    assert not gaps.is_our_join({**member("join"), "unsigned": None, "content": 7}, "@bot:test")


async def test_what_is_known_of_a_room_counts_as_the_present_only_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    rooms = Rooms(cast(Any, None), lambda: now[0])
    rooms._rooms["!r"] = Room("!r")
    assert rooms.get_current("!r") is None, "before the first answer was noted"
    rooms.note_sync()
    assert rooms.get_current("!r") is not None
    now[0] = FRESHNESS_S
    assert rooms.get_current("!r") is None and rooms.get("!r") is not None


async def test_while_it_runs_a_room_is_not_asked_for_its_encryption_with_every_message(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2", said("$1")), HANG)
        server.on("PUT", "/send/", answer(200, {"event_id": "$2"}))
        chat = channel(server)
        task = asyncio.create_task(chat.run(inbox))
        await inbox.wait_online()
        before = len(server.asked("GET", "/m.room.encryption"))
        for n in range(3):
            await chat.send(Op(f"k-{n}", "post", ROOM, "hello"))
        assert len(server.asked("GET", "/m.room.encryption")) == before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chat.send(Op("k-9", "post", ROOM, "hello"))
        assert len(server.asked("GET", "/m.room.encryption")) == before + 1


async def test_an_invitation_is_answered_only_after_it_was_put(tmp_path: Path) -> None:
    """Or a gateway that dies between the two would begin at a present that is behind what was said first."""
    inbox = KeptInbox(tmp_path)
    inbox.fail = OSError("the disk is full")
    async with Double() as server:
        server.on("POST", "/join", answer(200))
        first = told("s1", invite=INVITE)
        server.on("GET", "/sync", first, first, told("s2"), told("s3", said("$1")), HANG)
        with pytest.raises(OSError, match="full"):
            await channel(server).run(inbox)
        assert server.asked("POST", "/join") == []
        async with running(server, inbox):
            await inbox.wait(1)
        assert len(server.asked("POST", "/join")) == 1


@pytest.mark.parametrize(
    ("events", "texts"),
    [
        ([said("$1", "before"), member("join"), said("$2", "after")], ["after"]),
        (
            [
                said("$1", "before"),
                member("invite", "$i", "@ada:test"),
                said("$2", "to you"),
                member("join", prev_content={"membership": "invite"}),
                said("$3", "after"),
            ],
            ["to you", "after"],
        ),
        ([said("$1", "was here"), member("leave", "$l"), member("join"), said("$2", "after")], ["was here", "after"]),
        ([said("$1", "1"), member("join", prev_content={"membership": "join"}), said("$2", "2")], ["1", "2"]),
    ],
)
async def test_what_was_said_before_we_came_is_not_heard(events: list[Any], texts: list[str], tmp_path: Path) -> None:
    """Also where the homeserver tells a new room from its beginning without calling it limited."""
    inbox = KeptInbox(tmp_path, AT)
    async with Double() as server:
        server.on("GET", "/sync", told("s2", *events), HANG)
        async with running(server, inbox):
            await inbox.wait(len(texts))
    assert [event.text for event in inbox.events] == texts
