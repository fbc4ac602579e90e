"""An event -> what a person did. No network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.channels.matrix.account import MatrixIdentity
from semel.channels.matrix.address import MAX_ADDRESS_BYTES, RoomPlace, parse_address
from semel.channels.matrix.parse import MatrixDraft, parse_addressed_text, parse_event, remove_fallback
from semel.channels.matrix.rooms import Room
from semel.law.identity import check_event_key, escape_address, unescape_address

ME = MatrixIdentity("@bot:test", "SEMEL", "secret-token")
ROOM = Room("!r:test", name="Lobby", joined=3, names={"@ada:test": "Ada", "@bot:test": "Semel Bot"})


def event(type: str = "m.room.message", content: Any = None, **more: Any) -> dict[str, Any]:
    body = {"msgtype": "m.text", "body": "hello"} if content is None else content
    whole = {"event_id": "$e", "type": type, "sender": "@ada:test", "origin_server_ts": 1500, "content": body}
    return {**whole, **more}


def heard(type: str = "m.room.message", content: Any = None, **more: Any) -> MatrixDraft:
    draft = parse_event(event(type, content, **more), ROOM, ME)
    assert draft is not None
    return draft


@pytest.mark.parametrize(
    ("body", "named", "text", "mentioned"),
    [
        ("hello", None, "hello", False),
        ("Semel Bot: hello", None, "hello", True),
        ("semel bot, hello", {}, "hello", True),
        ("@Semel Bot hello", {}, "hello", True),
        ("Semel Bot hello", {}, "Semel Bot hello", False),
        ("Semel Bot hello", {"user_ids": ["@bot:test"]}, "hello", True),
        ("Semel Bottle: hello", {}, "Semel Bottle: hello", False),
        ("@bot:test hello", None, "hello", True),
        ("@bot:test: hello", None, "hello", True),
        ("@bot:testing.org hello", None, "@bot:testing.org hello", False),
        ("@bot hello", {}, "hello", True),
        ("bot: hello", {}, "hello", True),
        ("bot is slow", {}, "bot is slow", False),
        ("ask @bot:test about it", None, "ask @bot:test about it", True),
        ("ask @bot:test.org about it", None, "ask @bot:test.org about it", False),
        ("ask @bot:test about it", {}, "ask @bot:test about it", False),
        ("as you wish, Semel Bot", {"user_ids": ["@bot:test"]}, "as you wish, Semel Bot", True),
        ("@room hello", {"room": True}, "@room hello", False),
        ("/new@bot", None, "/new", True),
        ("/new@bot:test and so on", {}, "/new and so on", True),
        ("/new@other", {}, "/new@other", False),
        ("bot: /new", {}, "/new", True),
        ("@bot", None, "@bot", True),
        ("  @bot:  two  spaces", None, "two  spaces", True),
    ],
)
def test_who_is_meant(body: str, named: dict[str, Any] | None, text: str, mentioned: bool) -> None:
    content = {} if named is None else {"m.mentions": named}
    said = parse_addressed_text(body, content, ME.id, ("Semel Bot",))
    assert (said.text, said.mentioned) == (text, mentioned)


def test_a_link_to_us_is_a_mention_where_nothing_else_says_whom_it_means() -> None:
    html = '<a href="https://matrix.to/#/%40bot%3Atest">x</a> hi'
    assert parse_addressed_text("x hi", {"formatted_body": html}, ME.id, ()).mentioned
    assert not parse_addressed_text("x hi", {"formatted_body": html, "m.mentions": {}}, ME.id, ()).mentioned


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("> <@ada:test> one\n> two\n\nreply", "reply"),
        ("> * <@ada:test> waves\n\nreply", "reply"),
        ("> my own quotation\n\nreply", "> my own quotation\n\nreply"),
        ("reply", "reply"),
        ("> <@ada:test> all of it", ""),
    ],
)
def test_the_fallback_of_a_reply_is_taken_away(body: str, text: str) -> None:
    assert remove_fallback(body) == text


def test_a_reply_and_a_thread_name_what_they_answer() -> None:
    reply = heard(content={"msgtype": "m.text", "body": "x", "m.relates_to": {"m.in_reply_to": {"event_id": "$o"}}})
    assert (reply.incoming.of, reply.incoming.address, reply.references) == ("$o", "!r:test", ("$o",))
    related = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$o"},
    }
    thread = heard(content={"msgtype": "m.text", "body": "x", "m.relates_to": related})
    assert (thread.incoming.of, thread.incoming.address, thread.references) == (None, "!r:test:thread-root", ("$root",))
    assert thread.incoming.data == {"room": "!r:test", "group": True, "thread": "$root"}
    inside = heard(content={"msgtype": "m.text", "body": "x", "m.relates_to": {**related, "is_falling_back": False}})
    assert (inside.incoming.of, inside.references) == ("$o", ("$o", "$root"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (event("m.room.encrypted", {"ciphertext": "x"}), "encrypted"),
        (event(content={"msgtype": "m.text"}), "no text"),
        (event(content={"msgtype": "m.text", "body": 7}), "no text"),
        (event(content={}), "no text"),
        (event("m.reaction", {}), "the reaction names no"),
        (event("m.reaction", {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$o", "key": ""}}), "reaction"),
        (event("m.room.redaction", {}), "the deletion names no"),
        (event(content={"m.relates_to": {"rel_type": "m.replace", "event_id": "$o"}}), "has no text"),
        (event("org.example.odd", {"x": 1}), "no text that is known"),
        ({"type": "m.room.message"}, "not an event"),
        ("nonsense", "not an event"),
        (None, "not an event"),
        (event(content="text"), "not an event"),
        (event(sender=7), "not an event"),
    ],
)
def test_what_cannot_be_read_is_kept_as_it_came_with_the_reason(given: Any, why: str) -> None:
    draft = parse_event(given, ROOM, ME)
    assert draft is not None and draft.incoming.kind == "unreadable"
    assert why in draft.incoming.why
    assert json.loads(draft.incoming.raw) == given
    assert check_event_key(draft.incoming.key)


@pytest.mark.parametrize(
    "given",
    [
        event("m.room.name", {"name": "x"}, state_key=""),
        event("m.call.invite", {}),
        event("m.key.verification.start", {}),
        event("m.poll.response", {}),
        event(content={"msgtype": "m.key.verification.request", "body": "verify?"}),
        event(content={}, unsigned={"redacted_because": {}}),
        event(sender="@bot:test"),
    ],
)
def test_what_nobody_said_is_not_heard(given: Any) -> None:
    assert parse_event(given, ROOM, ME) is None


def test_our_own_messages_are_echoes_by_transaction_or_by_key() -> None:
    mine = {"sender": "@bot:test"}
    by_transaction = heard(unsigned={"transaction_id": "k-1"}, **mine).incoming
    by_key = heard(content={"body": "x", "dev.semel.key": "k-2"}, **mine).incoming
    assert [(one.kind, one.key, one.of) for one in (by_transaction, by_key)] == [
        ("echo", "k-1", "$e"),
        ("echo", "k-2", "$e"),
    ]
    assert heard(content={"msgtype": "m.text", "body": "x", "dev.semel.key": "k-2"}).incoming.kind == "message", (
        "forged"
    )


def test_an_encrypted_file_is_named_as_such() -> None:
    draft = heard(content={"msgtype": "m.file", "body": "a.txt", "file": {"url": "mxc://test/1", "key": {}}})
    assert draft.media is not None and draft.media.encrypted


def test_an_address_is_a_room_or_a_thread_and_comes_back_from_a_session_key() -> None:
    for place in (
        RoomPlace("!r:test"),
        RoomPlace("!r:test:8448", "$abc-_1"),
        RoomPlace("!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM", "$e"),
    ):
        assert parse_address(unescape_address(escape_address(place.address))) == place
        assert len(place.address.encode()) <= MAX_ADDRESS_BYTES
    long = RoomPlace("!r:" + "x" * 100, "$" + "y" * 43)
    assert long.address == long.room, "its thread is answered by what is answered"
    assert parse_address("@ada:thread-x") == RoomPlace("@ada:thread-x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "body", "msgtype", "m.relates_to", "m.new_content", "m.mentions", "formatted_body", "url", "file", "info", "key",
    "filename", "m.in_reply_to", "event_id", "rel_type", "redacts", "m.text", "geo_uri", "user_ids", "membership",
    "displayname",
]  # fmt: skip
TYPES = ["m.room.message", "m.reaction", "m.room.redaction", "m.sticker", "m.room.member", "m.poll.start", "x"]
VALUES = st.sampled_from(["m.text", "m.image", "m.replace", "m.thread", "m.annotation", "$o", "join", "m.location"])


@settings(max_examples=70, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.dictionaries(
        st.sampled_from(FIELDS),
        VALUES | JSON | st.dictionaries(st.sampled_from(FIELDS), VALUES | JSON, max_size=4),
        max_size=6,
    ),
    JSON,
    JSON,
)
def test_whatever_a_homeserver_tells_is_read_without_an_error(type: str, content: Any, unsigned: Any, ts: Any) -> None:
    given = event(type, content, unsigned=unsigned, origin_server_ts=ts, redacts=unsigned)
    room = Room("!r:test", joined=3)
    room.apply_state([given, {**given, "state_key": "@ada:test"}])
    draft = parse_event(given, room, ME)
    if draft is not None:
        assert check_event_key(draft.incoming.key)
        assert isinstance(draft.incoming.text, str) and draft.incoming.at >= 0


def test_a_token_is_not_shown() -> None:
    assert "secret-token" not in repr(ME)
