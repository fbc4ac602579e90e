"""What lines say: the protocol, who wrote a message, and what it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.channels.irc.parse import parse_message
from semel.channels.irc.receive import Position, parse_cursor
from semel.channels.irc.session import IrcSession, Received
from semel.channels.irc.settings import IrcSettings
from semel.channels.irc.wire import IrcMessage, fold, format_line, parse_line
from semel.gateway.ports import Incoming, Offline
from semel.testing.servers import close_server


async def read(line: str, *, caps: str = "account-tag", **settings: Any) -> Incoming | None:
    """The event of a line, for a bot called semel."""
    usual = {"server": "irc.example.org", "nick": "semel", "channels": ["#Lobby"]}
    session = IrcSession(IrcSettings(**(usual | settings)))
    session._login.nick = "semel"
    session._login.capabilities |= set(caps.split())
    message = parse_line(line.encode())
    assert message is not None
    return parse_message(Received(message), session, {"ours"}, 5.0)


LINES = [
    (b":a!b@c PRIVMSG #x :hello  there", IrcMessage("PRIVMSG", ("#x", "hello  there"), "a!b@c")),
    (b"ping x", IrcMessage("PING", ("x",))),
    (b"@a=1;b;+c=x\\:y\\sz\\\\ :s 001 me :", IrcMessage("001", ("me", ""), "s", {"a": "1", "b": "", "+c": "x;y z\\"})),
    (b":s JOIN :#x", IrcMessage("JOIN", ("#x",), "s")),
    (b"PRIVMSG a :gr\xfc\xdfe", IrcMessage("PRIVMSG", ("a", "grüße"))),
    (b"", None),
    (b"@only-tags", None),
    (b":only-source", None),
]


@pytest.mark.parametrize(("line", "message"), LINES)
def test_a_line_is_read_as_the_protocol_has_it(line: bytes, message: IrcMessage | None) -> None:
    assert parse_line(line) == message


@given(st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"])))
def test_what_is_written_is_read_again(text: str) -> None:
    message = parse_line(format_line("PRIVMSG", "#x", text, tags={"label": text}).rstrip(b"\r\n"))
    assert message == IrcMessage("PRIVMSG", ("#x", text), "", {"label": text})


@pytest.mark.parametrize("params", [("a b", "c"), ("", "c"), (":a", "c"), ("a", "b\nQUIT")])
def test_a_parameter_cannot_make_another_line(params: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        format_line("PRIVMSG", *params)


def test_names_are_compared_as_the_server_does() -> None:
    assert fold("Semel[]", "rfc1459") == fold("sEMEL{}", "rfc1459")
    assert fold("Semel[]", "ascii") != fold("semel{}", "ascii")


async def test_a_person_is_their_account_whatever_the_nick() -> None:
    event = await read("@account=Ann;msgid=m1;time=2026-11-22T10:00:00.000Z :zoe!z@h PRIVMSG semel :hi")
    assert event is not None and event.sender is not None
    assert (event.key, event.sender.id, event.sender.name, event.address) == ("m1", "ann", "zoe", "ann")
    assert (event.text, event.group, event.at) == ("hi", False, 1795341600.0)


@pytest.mark.parametrize("account", ["", "account=*", "account=~ann", "account=a\\sb", "account=#x"])
async def test_a_nick_without_an_account_is_nobody(account: str) -> None:
    assert await read(f"@{account};msgid=m1 :ann!a@h PRIVMSG semel :hi") is None
    event = await read(f"@{account};msgid=m1 :Ann!a@h PRIVMSG semel :hi", trust_nicks=True)
    assert event is not None and event.sender is not None and event.sender.id == "~ann"


async def test_an_account_that_the_server_does_not_vouch_for_is_none() -> None:
    assert await read("@account=ann;msgid=m1 :ann!a@h PRIVMSG semel :hi", caps="") is None


@pytest.mark.parametrize(
    "line",
    [
        ":irc.example.org NOTICE semel :server text",
        "@account=ann :ann!a@h PRIVMSG #other :hi",
        "@account=ann :ann!a@h PRIVMSG ben :hi",
        "@account=ann :ann!a@h PRIVMSG semel :\x01VERSION\x01",
        "@account=ann :ann!a@h PRIVMSG semel :\x02\x0304,12\x0f",
        "@account=bot :semel!a@h PRIVMSG #lobby :mine",
        "@account=ann :semel_!a@h PRIVMSG #lobby :mine of an earlier connection",
        ":ann!a@h JOIN #lobby",
        "@account=ann :ann!a@h PRIVMSG semel",
    ],
)
async def test_what_says_nothing_to_us_is_no_message(line: str) -> None:
    assert await read(line) is None


@pytest.mark.parametrize(
    ("text", "said", "mentioned"),
    [
        ("semel: what is it?", "what is it?", True),
        ("@Semel what is it?", "what is it?", True),
        ("/help@semel now", "/help now", True),
        ("ask semel about it", "ask semel about it", True),
        ("semel-bot is another", "semel-bot is another", False),
        ("hello", "hello", False),
        ("\x02bold\x02 \x0304,12red\x03 \x1ditalic", "bold red italic", False),
        ("\x01ACTION waves\x01", "* ann waves", False),
    ],
)
async def test_in_a_channel_our_nick_is_a_mention(text: str, said: str, mentioned: bool) -> None:
    event = await read(f"@account=ann;msgid=m1 :ann!a@h PRIVMSG @#LOBBY :{text}", caps="account-tag")
    assert event is None  # STATUSMSG is not announced
    event = await read(f"@account=ann;msgid=m1 :ann!a@h PRIVMSG #LOBBY :{text}")
    assert event is not None
    assert (event.text, event.mentioned, event.address, event.group) == (said, mentioned, "#lobby", True)


async def test_a_reply_to_us_is_a_mention_and_a_notice_is_of_a_program() -> None:
    event = await read("@account=ann;+draft/reply=ours;msgid=m1 :ann!a@h NOTICE #lobby :yes")
    assert event is not None and event.mentioned and event.of == "ours"
    assert event.sender is not None and event.sender.bot


async def test_messages_without_ids_are_never_taken_for_one_another() -> None:
    events = [await read("@account=ann :ann!a@h PRIVMSG semel :ha") for _ in range(2)]
    assert events[0] is not None and events[1] is not None and events[0].key != events[1].key


@pytest.mark.parametrize("text", ["", "[]", "7", '{"#a": 1}', '{"#a": ["x", 2]}', "{"])
def test_a_cursor_that_cannot_be_read_begins_at_the_present(text: str) -> None:
    assert parse_cursor(text) == {}
    assert parse_cursor('{"#a":[1.5,2.5,"m"]}') == {"#a": Position(1.5, 2.5, "m")}


async def test_a_line_that_is_too_long_ends_the_connection_with_a_reason() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b":x PRIVMSG semel :" + b"x" * 70_000 + b"\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    session = IrcSession(IrcSettings("127.0.0.1", "semel", port=port, tls="none", timeout=5))
    with pytest.raises(Offline, match="a line of more than 65536 bytes"):
        await session.open()
    await close_server(server)
