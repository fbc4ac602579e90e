"""The rigs of the IRC channel: a real InspIRCd, whose channels have a history, and a real ngIRCd, which has none."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from ircds import Inspircd, Ngircd

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, Rig, TcpFront

_SAID = re.compile(rb"^(?:@(\S*) )?PRIVMSG (\S+) :.*\r\n", re.MULTILINE)
_PING = re.compile(rb"^PING :(\S+)\r\n", re.MULTILINE)


def count(sent: bytes) -> int:
    return len(_SAID.findall(sent))


def refusal(numeric: str, words: str) -> Callable[[bytes], bytes]:
    """The last message is refused with this reply; without a label, once the ping behind it is there."""

    def answer(sent: bytes) -> bytes:
        said = list(_SAID.finditer(sent))[-1]
        about = f"PRIVMSG :{words}" if numeric == "263" else f"{said[2].decode()} :{words}"
        reply = f":irc.localhost {numeric} semel {about}\r\n"
        label = re.search(rb"label=([^; ]*)", said[1] or b"")
        if label is not None:
            return f"@label={label[1].decode()} {reply}".encode()
        ping = _PING.search(sent, said.end())
        return f"{reply}:irc.localhost PONG irc.localhost :{ping[1].decode()}\r\n".encode() if ping else b""

    return answer


class _IrcRig(Rig):
    kind = "irc"
    safety = Safety.AT_MOST_ONCE
    http = False
    server: Any

    def __init__(self) -> None:
        self.mark = secrets.token_hex(3)
        self.nick = f"semel{self.mark}"

    async def __aenter__(self) -> _IrcRig:
        self._people = {address: self.make_person(address) for address in self.addresses()}
        for person in self._people.values():
            await person.__aenter__()
        return self

    def make_person(self, address: str) -> Any:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for person in self._people.values():
            await person.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        not_now, no = refusal("263", "try again"), refusal("404", "Cannot send to channel (+m)")
        return {"irc": TcpFront(self.server.port, count, not_now, no)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        place = {"server": "127.0.0.1", "port": ports["irc"], "tls": "none"}
        return {**place, "nick": self.nick, "trust_nicks": True, "pace": 0.0, "timeout": 4.0}

    async def shown(self, address: str) -> Sequence[str]:
        person = self._people[address]
        await person.settle()
        return [message.params[-1] for message in person.messages if message.nick.rstrip("_") == self.nick]


class InspircdRig(_IrcRig):
    """In channels, where a history plays back what was missed. Its history keeps no accounts."""

    page = 50
    shared: ClassVar[Mapping[str, Any]] = {"groups": "always"}

    def __init__(self, server: Inspircd) -> None:
        super().__init__()
        self.server = server
        self.person = f"~ann{self.mark}"

    def make_person(self, address: str) -> Any:
        first = address == self.addresses()[0]
        nick = self.person.removeprefix("~") if first else f"ben{address[-1]}{self.mark}"
        return self.server.user(nick, address, account=None)

    def addresses(self) -> Sequence[str]:
        return [f"#room{self.mark}-{n}" for n in range(4)]

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {**super().settings(ports), "channels": list(self.addresses())}

    async def write(self, text: str, gateway: str) -> None:
        await self._people[self.addresses()[0]].say(self.addresses()[0], text)


class NgircdRig(_IrcRig):
    """In private messages, which nothing keeps: what is written while nothing is connected is lost."""

    backfills = False

    def __init__(self, server: Ngircd) -> None:
        super().__init__()
        self.server = server
        self.person = f"~ann{self.mark}"

    def make_person(self, address: str) -> Any:
        return self.server.user(address.removeprefix("~"), account=None)

    def addresses(self) -> Sequence[str]:
        return [f"~{name}{self.mark}" for name in ("ann", "ben", "cyd")]

    async def write(self, text: str, gateway: str) -> None:
        await self._people[self.addresses()[0]].say(self.nick, text)
