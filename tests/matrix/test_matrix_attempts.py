"""One attempt to send, against a homeserver that fails as told: how often it is asked, and what the outcome is."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matrix_double import DROP, HANG, Double, Said, answer, refusal

from semel.channels.matrix import MatrixSettings, make
from semel.channels.matrix.direct_rooms import alias_of
from semel.faces.channel_check import send_test_message
from semel.gateway.ports import Channel, NotSent, Op, Receipt, Rejected, Unknown

ROOM = "!room:test"
OK = answer(200, {"event_id": "$1"})


def channel(server: Double, **settings: Any) -> Channel:
    given = {"homeserver": server.url, "user": "@bot:test", "password": "pw", "timeout": 0.5, **settings}
    return make("chat", MatrixSettings(**given))


def post(address: str = ROOM, text: str = "hello", **more: Any) -> Op:
    return Op(**{"key": "k-1", "kind": "post", "address": address, "text": text, **more})


async def test_a_token_without_a_pinned_device_sends_nothing_that_the_room_has_already() -> None:
    there = {"event_id": "$o", "sender": "@bot:test", "type": "m.room.message", "content": {"dev.semel.key": "k-1"}}
    unnamed = {"user": "", "password": None, "token": "token-2"}
    async with Double() as server:
        server.on("PUT", "/send/", OK)
        server.on("GET", "/messages", answer(200, {"chunk": [there]}), answer(502))
        old, new = post(at=1.0), post(at=time.time() + 60.0)
        unpinned = channel(server, **unnamed)
        assert await unpinned.send(old) == Receipt("$o")
        with pytest.raises(NotSent):
            await unpinned.send(old)
        assert not server.asked("PUT", "/send/")
        assert await unpinned.send(new) == Receipt("$1")
        assert await channel(server, **unnamed, device="DEV").send(old) == Receipt("$1")
        assert len(server.asked("GET", "/messages")) == 2


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (OK, None),
        (answer(200, {"odd": 1}), Unknown),
        (answer(200, b"<html>"), Unknown),
        (DROP, Unknown),
        (HANG, Unknown),
        (answer(502, b"<html>bad gateway"), Unknown),
        (answer(503, b"", retry_after="5"), Unknown),
        (refusal(500, "M_UNKNOWN"), Unknown),
        (answer(404, b"<html>not here"), Unknown),
        (answer(408), Unknown),
        (refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=1500), NotSent),
        (answer(429, {"errcode": "M_LIMIT_EXCEEDED"}, retry_after="7"), NotSent),
        (refusal(403, "M_RESOURCE_LIMIT_EXCEEDED"), NotSent),
        (answer(302, b"", location="https://example.org/"), NotSent),
        (refusal(401, "M_UNKNOWN_TOKEN"), NotSent),
        (refusal(403, "M_FORBIDDEN"), Rejected),
        (refusal(413, "M_TOO_LARGE"), Rejected),
        (refusal(400, "M_BAD_JSON"), Rejected),
        (refusal(404, "M_UNRECOGNIZED"), Rejected),
    ],
)
async def test_every_answer_has_its_outcome_and_one_request_is_made(
    said: Said, outcome: type[Exception] | None
) -> None:
    async with Double() as server:
        server.on("PUT", "/send/", said)
        if outcome is None:
            assert await channel(server).send(post()) == Receipt("$1")
        else:
            with pytest.raises(outcome):
                await channel(server).send(post())
    [request] = server.asked("PUT", "/send/")
    assert request.path == f"/_matrix/client/v3/rooms/{ROOM}/send/m.room.message/k-1"


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        (refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=1500), 1.5),
        (answer(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 1}, retry_after="7"), 7.0),
        (answer(429, {"retry_after_ms": "soon"}, retry_after="soon"), None),
        (answer(429, b"no JSON"), None),
    ],
)
async def test_not_now_says_when(said: Said, wait: float | None) -> None:
    async with Double() as server:
        server.on("PUT", "/send/", said)
        with pytest.raises(NotSent) as caught:
            await channel(server).send(post())
    assert caught.value.retry_after == wait


async def test_a_refused_connection_is_provably_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    chat = make("chat", MatrixSettings(f"http://127.0.0.1:{port}", token="t"))
    with pytest.raises(NotSent):
        await chat.send(post())


@pytest.mark.parametrize("said", [DROP, HANG, answer(502), refusal(429, "M_LIMIT_EXCEEDED")])
async def test_what_goes_wrong_before_the_message_leaves_is_not_sent(said: Said) -> None:
    async with Double() as server:
        server.on("GET", "/state/m.room.encryption", said)
        with pytest.raises(NotSent):
            await channel(server).send(post())
        server.on("POST", "/login", said)
        with pytest.raises(NotSent):
            await channel(server).send(post())
        assert server.asked("PUT", "/send/") == []


async def test_a_token_that_ended_is_renewed_before_the_next_attempt_on_the_same_device() -> None:
    async with Double() as server:
        server.on("PUT", "/send/", refusal(401, "M_UNKNOWN_TOKEN"), OK)
        chat = channel(server)
        with pytest.raises(NotSent, match="token"):
            await chat.send(post())
        assert await chat.send(post()) == Receipt("$1")
    assert [one.json["device_id"] for one in server.asked("POST", "/login")] == ["SEMEL", "SEMEL"]


async def test_a_wrong_password_is_not_tried_again_with_every_message() -> None:
    async with Double() as server:
        server.on("POST", "/login", refusal(403, "M_FORBIDDEN"))
        chat = channel(server)
        for _ in range(3):
            with pytest.raises(NotSent, match="check user and password"):
                await chat.send(post())
    assert len(server.asked("POST", "/login")) == 1


async def test_a_reaction_that_is_there_is_a_receipt_even_if_it_cannot_be_found() -> None:
    react = Op("k-1", "react", ROOM, "👍", target="$m")
    theirs = {"event_id": "$t", "sender": "@ada:test", "content": {"m.relates_to": {"key": "👍"}}}
    ours = {"event_id": "$o", "sender": "@bot:test", "content": {"m.relates_to": {"key": "👍"}}}
    async with Double() as server:
        server.on("PUT", "/send/m.reaction", refusal(400, "M_DUPLICATE_ANNOTATION"))
        assert await channel(server).send(react) == Receipt("$m")
        server.on(
            "GET", "/relations/", answer(200, {"chunk": [theirs], "next_batch": "2"}), answer(200, {"chunk": [ours]})
        )
        assert await channel(server).send(react) == Receipt("$o")


async def test_a_file_whose_upload_fails_has_not_left_and_is_uploaded_once(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"123")
    part = post(kind="file", file=file, name="a ü.txt", mime="text/plain", text="")
    async with Double() as server:
        server.on("POST", "/upload", DROP, answer(200, {"content_uri": "mxc://test/1"}))
        server.on("PUT", "/send/", DROP, OK)
        chat = channel(server)
        with pytest.raises(NotSent, match="did not arrive"):
            await chat.send(part)
        with pytest.raises(Unknown):
            await chat.send(part)
        assert await chat.send(part) == Receipt("$1")
    first, second = server.asked("POST", "/upload")
    assert (first.query, first.headers["content-type"], second.body) == ({"filename": "a ü.txt"}, "text/plain", b"123")
    lost, found = server.asked("PUT", "/send/")
    assert lost.body == found.body


@pytest.mark.parametrize(("size", "says"), [(None, "cannot be read"), (11, "larger than 10 bytes")])
async def test_a_file_that_cannot_go_is_rejected(tmp_path: Path, size: int | None, says: str) -> None:
    file = tmp_path / "f"
    if size is not None:
        file.write_bytes(b"0" * size)
    async with Double() as server:
        with pytest.raises(Rejected, match=says):
            await channel(server, file_limit=10).send(post(kind="file", file=file))
        with pytest.raises(Rejected, match="no file"):
            await channel(server).send(post(kind="file"))


@pytest.mark.parametrize("kind", ["edit", "react", "delete"])
async def test_what_refers_to_nothing_is_rejected(kind: str) -> None:
    async with Double() as server:
        with pytest.raises(Rejected, match="no id"):
            await channel(server).send(post(kind=kind))
    assert server.requests == []


async def test_a_room_for_a_person_whose_making_was_not_answered_is_found_by_its_alias() -> None:
    """The homeserver makes the room, and the answer is lost: there must not be a second one."""
    made: list[str] = []

    def create(request: Any) -> Said:
        if made:
            return refusal(400, "M_ROOM_IN_USE")
        made.append(request.json["room_alias_name"])
        return DROP

    def directory(request: Any) -> Said:
        there = made and request.path.endswith(f"#{made[0]}:test")
        return answer(200, {"room_id": "!direct:test"}) if there else refusal(404, "M_NOT_FOUND")

    async with Double() as server:
        server.on("POST", "/createRoom", create)
        server.on("GET", "/directory/room/", directory)
        server.on("GET", "/state/m.room.member/", answer(200, {"membership": "join"}))
        server.on("GET", "/state/m.room.create/", answer(200, {"sender": "@bot:test"}))
        server.on("PUT", "/account_data/m.direct", answer(200))
        server.on("PUT", "/send/", OK)
        chat = channel(server)
        with pytest.raises(NotSent, match="may not be ready"):
            await chat.send(post("@ada:test"))
        assert await chat.send(post("@ada:test")) == Receipt("$1")
        assert await chat.send(post("@ada:test", key="k-2")) == Receipt("$1")
    assert made == [alias_of("@bot:test", "@ada:test", 0)]
    assert len(server.asked("POST", "/createRoom")) == 1
    assert {one.path.split("/")[5] for one in server.asked("PUT", "/send/")} == {"!direct:test"}
    [marked] = server.asked("PUT", "/account_data/m.direct")
    assert marked.json == {"@ada:test": ["!direct:test"]}


@pytest.mark.parametrize("listed", [True, False])
async def test_a_room_that_is_found_again_leaves_the_persons_other_rooms_in_the_list(listed: bool) -> None:
    """Ada left the room that we made; the list of direct chats has another one, too, that somebody else uses."""
    rooms = ["!direct:test", "!other:test"] if listed else ["!other:test"]
    async with Double() as server:
        server.on("GET", "/account_data/m.direct", answer(200, {"@ada:test": rooms, "@ben:test": ["!ben:test"]}))
        server.on("GET", "/directory/room/", answer(200, {"room_id": "!direct:test"}))
        server.on("GET", "/state/m.room.member/@bot:test", answer(200, {"membership": "join"}))
        server.on("GET", "/state/m.room.member/@ada:test", answer(200, {"membership": "leave"}))
        server.on("GET", "/state/m.room.create/", answer(200, {"sender": "@bot:test"}))
        server.on("POST", "/invite", answer(200))
        server.on("PUT", "/account_data/m.direct", answer(200))
        server.on("PUT", "/send/", OK)
        assert await channel(server).send(post("@ada:test")) == Receipt("$1")
    assert len(server.asked("POST", "/!direct:test/invite")) == 1
    left = server.asked("PUT", "/account_data/m.direct")
    after = left[-1].json if left else {"@ada:test": rooms, "@ben:test": ["!ben:test"]}
    assert set(after["@ada:test"]) == {"!direct:test", "!other:test"} and after["@ben:test"] == ["!ben:test"]


async def test_when_others_hold_every_alias_the_message_is_rejected() -> None:
    async with Double() as server:
        server.on("POST", "/createRoom", refusal(400, "M_ROOM_IN_USE"))
        server.on("GET", "/directory/room/", answer(200, {"room_id": "!trap:test"}))
        with pytest.raises(Rejected, match="others hold the aliases"):
            await channel(server).send(post("@ada:test"))
    assert server.asked("PUT", "/send/") == []


async def test_a_test_message_is_read_back() -> None:
    async with Double() as server:
        server.on("PUT", "/send/", OK)
        chat = channel(server)
        chat.caps = replace(chat.caps, settle=0.0)
        server.on("GET", "/messages", answer(200, {"chunk": []}))
        unseen = await send_test_message(chat, ROOM)
        assert (unseen.receipt, unseen.was_read_back, unseen.problem) == ("$1", False, "the platform does not show it")
        server.on("GET", "/messages", lambda request: answer(200, {"chunk": [show(server)]}))
        assert (await send_test_message(chat, ROOM)).was_read_back


def show(server: Double) -> dict[str, Any]:
    """The newest message that was sent, as its room shows it to its sender."""
    sent = server.asked("PUT", "/send/")[-1]
    key = sent.path.rpartition("/")[2]
    return {"event_id": "$1", "sender": "@bot:test", "content": sent.json, "unsigned": {"transaction_id": key}}


async def test_looking_reads_to_the_last_page_and_never_takes_an_error_for_absence() -> None:
    ours = {"event_id": "$o", "sender": "@bot:test", "unsigned": {"transaction_id": "k-1"}, "origin_server_ts": 10**12}
    other = {**ours, "event_id": "$x", "unsigned": {"transaction_id": "k-9"}, "content": None}
    async with Double() as server:
        chat = channel(server)
        pages = [answer(200, {"chunk": [other], "end": "2"}), answer(200, {"chunk": [], "end": "3"})]
        server.on("GET", "/messages", *pages, answer(200, {"chunk": [ours]}))
        assert await chat.find(post(), 0.0) == Receipt("$o")
        server.on("GET", "/messages", *pages, answer(200, {"chunk": [other]}))
        assert await chat.find(post(), 0.0) is None
        server.on("GET", "/messages", answer(200, {"chunk": [{**other, "origin_server_ts": 1}], "end": "2"}))
        assert await chat.find(post(), 10_000.0) is None
        for said in (DROP, answer(502), refusal(403, "M_FORBIDDEN"), answer(200, {"odd": 1})):
            server.on("GET", "/messages", said)
            with pytest.raises((NotSent, Unknown)):
                await chat.find(post(), 0.0)
        assert await chat.find(post("@nobody:test"), 0.0) is None
    assert [one.query.get("from") for one in server.asked("GET", "/messages")][:3] == [None, "2", "3"]


async def test_typing_is_asked_for_once_and_its_failure_is_no_silence() -> None:
    async with Double() as server:
        chat: Any = channel(server)
        server.on("PUT", "/typing/", answer(200), refusal(403, "M_FORBIDDEN"))
        await chat.typing(f"{ROOM}:thread-abc")
        with pytest.raises(NotSent):
            await chat.typing(ROOM)
        await chat.typing("@ada:test")
    assert [one.path for one in server.asked("PUT", "/typing/")] == [
        f"/_matrix/client/v3/rooms/{ROOM}/typing/@bot:test"
    ] * 2
