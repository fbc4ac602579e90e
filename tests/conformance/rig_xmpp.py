"""The rig of the XMPP channel: a real Prosody, a person for each address."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from prosody import Prosody

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, Rig, TcpFront

PEOPLE = 4
_SAID = re.compile(rb"<message\b[^>]*>(?:(?!</message>).)*?<body\b.*?</message>", re.DOTALL)


def count(sent: bytes) -> int:
    """Message stanzas with a body; typing and receipts have none."""
    return len(_SAID.findall(sent))


_ID = re.compile(rb"""\bid=(?:"([^"]*)"|'([^']*)')""")
_TO = re.compile(rb"""\bto=(?:"([^"]*)"|'([^']*)')""")
_PING = re.compile(rb"<iq\b[^>]*>\s*<ping\b")


def refusal(kind: str, condition: str) -> Callable[[bytes], bytes]:
    """The last message comes back with this error, once the ping behind it is there: that is answered, too."""

    def answer(sent: bytes) -> bytes:
        said = list(_SAID.finditer(sent))[-1]
        ping = _PING.search(sent, said.end())
        if ping is None:
            return b""
        id, to, asked = (_value(found) for found in (_ID.search(said[0]), _TO.search(said[0]), _ID.search(ping[0])))
        error = f'<error type="{kind}"><{condition} xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error>'
        back = f'<message type="error" id="{id}" from="{to}">{error}</message>'
        return f'{back}<iq type="result" id="{asked}"/>'.encode()

    return answer


def _value(found: re.Match[bytes] | None) -> str:
    assert found is not None
    return (found[1] or found[2]).decode()


class XmppRig(Rig):
    kind = "xmpp"
    safety = Safety.RECONCILABLE
    finds: ClassVar[bool] = True
    http = False
    page = 50

    def __init__(self, server: Prosody) -> None:
        self.server = server
        mark = secrets.token_hex(3)
        self.names = [f"{name}{mark}" for name in ("ann", "ben", "cyd", "dan")]
        self.person = f"{self.names[0]}@localhost"

    async def __aenter__(self) -> XmppRig:
        for name in self.names:
            self.server.register(name)
        self._people = {f"{name}@localhost": self.server.user(name) for name in self.names}
        for person in self._people.values():
            await person.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for person in self._people.values():
            await person.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        not_now, no = refusal("wait", "resource-constraint"), refusal("cancel", "service-unavailable")
        return {"c2s": TcpFront(self.server.port, count, not_now, no)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        account = {"jid": "bot@localhost", "password": "pw", "server": "127.0.0.1", "port": ports["c2s"]}
        return {**account, "tls": "none", "timeout": 4.0}

    def addresses(self) -> Sequence[str]:
        return list(self._people)

    async def shown(self, address: str) -> Sequence[str]:
        archive = await self._people[address].archive("bot@localhost")
        return [each.text for each in archive if each.sender.startswith("bot@localhost") and each.text]

    async def write(self, text: str, gateway: str) -> None:
        await self._people[self.person].say("bot@localhost", text)
