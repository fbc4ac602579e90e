"""IRC: bytes of a connection -> messages -> rows.

Whatever a line holds, the connection does not stop at it but by an end that the channel names; what a person said is a
row, and nobody without an account is heard; lines that are written are read as they were.
"""

from __future__ import annotations

from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import WORDS, Source
from semel.channels.irc.connection import IrcConnection
from semel.channels.irc.receive import IrcReceiver, Position, parse_cursor
from semel.channels.irc.render import render
from semel.channels.irc.session import IrcSession
from semel.channels.irc.settings import IrcSettings
from semel.channels.irc.wire import format_line, parse_line
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Denied, Offline

COMMANDS = [
    "PRIVMSG", "NOTICE", "TAGMSG", "JOIN", "PART", "KICK", "NICK", "QUIT", "BATCH", "CAP", "AUTHENTICATE", "PING",
    "PONG", "ERROR", "FAIL", "001", "005", "311", "318", "330", "376", "401", "404", "433", "473", "900", "903", "904",
    "privmsg", "",
]  # fmt: skip
TAGS = ["account", "msgid", "time", "label", "batch", "+draft/reply", "bot", ""]
VALUES = [
    "", "ann", "*", "~ann", "#a", "semel", "m1", "m2", "ours", "+b", "-b", "b", "x" * 500, "\\:\\s\\\\", "\\",
    "2026-11-22T10:00:00.000Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "now",
]  # fmt: skip
SOURCES = ["", "ann!a@h", "irc.x.y", "semel!s@h", "semel_!s@h", "ANN[!a@h", "!", "a" * 600 + "!b@c"]
PARAMS = [
    "semel", "#lobby", "#LOBBY", "@#lobby", "*", "LS", "ACK", "+b", "-b", "chathistory", "labeled-response",
    "CASEMAPPING=ascii", "STATUSMSG=@+", "\x01ACTION waves\x01", "\x01VERSION\x01", "\x02\x0304,12", "semel: /help",
    "sasl echo-message account-tag", "/new",
]  # fmt: skip
_house = House()


def one(data: bytes) -> None:
    source = Source(data)
    trusting = bool(source.number(2))
    lines = (
        source.rest().split(b"\n") if source.number(5) == 4 else [_line(source) for _ in range(1 + source.number(8))]
    )
    inbox = _house.fresh()
    _house.run(_hear(lines[:40], inbox, trusting))
    for event in _house.check():
        assert event.kind == "message" and event.sender is not None
        assert trusting or not event.sender.id.startswith("~")
    text = source.words(12)
    for piece in render(text, 80):
        line = parse_line(format_line("PRIVMSG", "#lobby", piece).rstrip(b"\r\n"))
        assert line is not None and line.params == ("#lobby", piece) and len(piece.encode()) <= 80
    parse_cursor(text)


def _line(source: Source) -> bytes:
    tags = ";".join(f"{source.pick(TAGS)}={source.pick(VALUES)}" for _ in range(source.number(5)))
    origin = source.pick(SOURCES)
    params = [source.pick([*PARAMS, *VALUES, *WORDS]) for _ in range(source.number(5))]
    words = [f"@{tags}" if tags else "", f":{origin}" if origin else "", source.pick(COMMANDS), *params[:-1]]
    line = " ".join([*filter(None, words), *(f":{last}" for last in params[-1:])])
    return line.encode("utf-8", "replace").replace(b"\n", b"").replace(b"\r", b"")


async def _hear(lines: list[bytes], inbox: Any, trusting: bool) -> None:
    session = IrcSession(IrcSettings("irc.x.y", "semel", channels=["#Lobby"], trust_nicks=trusting))
    connection: IrcConnection = session._connection
    connection._write = lambda line: None  # type: ignore[method-assign]
    session._login.begin()
    session._login.capabilities |= {"account-tag", "message-tags"}
    receiver = IrcReceiver(session, inbox, {"ours"}, RecentMap(10), lambda: 1_790_000_000.0)
    receiver._positions = {"#lobby": Position(0.0, 0.0)}
    for line in lines:
        message = parse_line(line.rstrip(b"\r"))
        if message is None:
            continue
        try:
            session._dispatch(message)
        except (Offline, Denied):
            break
    await receiver._put_waiting()
    assert {name: each.at for name, each in parse_cursor(receiver._cursor()).items()}


LINES = [
    b"@account=ann;msgid=m1;time=2026-11-22T10:00:00.000Z :ann!a@h PRIVMSG semel :hello\r\n",
    b":irc.x.y BATCH +b chathistory #lobby\r\n@batch=b;msgid=m2;time=2026-11-22T10:00:00Z;account=ann :ann!a@h "
    b"PRIVMSG #lobby :semel: old\r\n:irc.x.y BATCH -b\r\n",
    b":irc.x.y CAP * LS :sasl echo-message\r\n:irc.x.y CAP semel ACK :echo-message\r\n:irc.x.y 001 semel :hi\r\n",
    b":semel!s@h JOIN #lobby\r\n:ann!a@h KICK #lobby semel :out\r\n:semel!s@h NICK other\r\n",
]
SEEDS = [
    *(bytes([trust, 4]) + line for line in LINES for trust in (0, 1)),
    *(bytes([1, 0, 3, 2, n, 1, n, 1, 0, 2, 0, n, 0, n]) for n in range(19)),
]  # fmt: skip
