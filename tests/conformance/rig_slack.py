"""The rig of the Slack channel: the double of a workspace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig, TcpFront
from semel.testing.slack import APP_TOKEN, BOT_TOKEN, SlackDouble, serve

PEOPLE = ("U7", "U8", "U9", "U10")


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message."""
    return request.target.endswith("/chat.postMessage")


class SlackRig(Rig):
    kind = "slack"
    safety = Safety.RECONCILABLE
    finds = True
    definite = 200
    person = PEOPLE[0]
    page = 100

    async def __aenter__(self) -> SlackRig:
        self.double = SlackDouble(repeat_s=0.5, mentions=True)
        for user in PEOPLE:
            self.double.direct(self.double.person(user, f"Person {user}"))
        self._serving = serve(self.double)
        url = await self._serving.__aenter__()
        self.port = int(url.removesuffix("/api").rpartition(":")[2])
        self.socket_port = int(self.double.socket_url.rpartition(":")[2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port, says), "socket": TcpFront(self.socket_port)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        self.double.socket_url = f"ws://127.0.0.1:{ports['socket']}"
        api = f"http://127.0.0.1:{ports['api']}/api"
        tokens = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN}
        return {**tokens, "api": api, "timeout": 2.0, "pace": 0.0, "settle": 0.2}

    def addresses(self) -> Sequence[str]:
        return [self.double.direct(user) for user in PEOPLE]

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        self.double.write(self.double.direct(PEOPLE[0]), PEOPLE[0], text)

    async def again(self, gateway: str) -> bool:
        self.double.post_again()
        return True

    def refusal(self, status: int, seconds: int) -> bytes:
        errors = {200: "is_archived", 429: "ratelimited"}
        return json.dumps({"ok": False, "error": errors.get(status, "internal_error")}).encode()
