"""The rig of the Mattermost channel: the double of a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig, TcpFront
from semel.testing.mattermost import TOKEN, MattermostDouble, serve

PEOPLE = ("ann", "bob", "cem", "dan")


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message."""
    return request.method == "POST" and request.target.endswith("/posts")


class MattermostRig(Rig):
    kind = "mattermost"
    safety = Safety.RECONCILABLE
    finds = True
    definite = 403
    page = 100

    async def __aenter__(self) -> MattermostRig:
        self.double = MattermostDouble()
        self.people = [self.double.person(name) for name in PEOPLE]
        self.person = self.people[0]
        self._addresses = [self.double.direct(user) for user in self.people]
        self._serving = serve(self.double)
        urls = await self._serving.__aenter__()
        self.port = int(urls.url.rpartition(":")[2])
        self.socket_port = int(urls.websocket.rpartition(":")[2].partition("/")[0])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port, says), "websocket": TcpFront(self.socket_port)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        url, websocket = f"http://127.0.0.1:{ports['api']}", f"ws://127.0.0.1:{ports['websocket']}/api/v4/websocket"
        return {"url": url, "websocket": websocket, "token": TOKEN, "timeout": 2.0, "pace": 0.0, "settle": 0.2}

    def addresses(self) -> Sequence[str]:
        return self._addresses

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        self.double.write(self._addresses[0], self.people[0], text)

    def refusal(self, status: int, seconds: int) -> bytes:
        if status == 429:
            return b"limit exceeded\n"
        id = "api.context.permissions.app_error" if status == 403 else "api.context.error.app_error"
        return json.dumps({"id": id, "message": "No.", "detailed_error": "", "status_code": status}).encode()
