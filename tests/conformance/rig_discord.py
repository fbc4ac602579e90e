"""The rig of the Discord channel: the double of Discord."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig, TcpFront
from semel.testing.discord import TOKEN, DiscordDouble, serve

ANN = "7000000000000000001"
ROOMS = 3


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message."""
    return request.method == "POST" and request.target.endswith("/messages")


class DiscordRig(Rig):
    kind = "discord"
    safety = Safety.IDEMPOTENT
    finds = True
    person = ANN
    page = 100
    definite = 403

    async def __aenter__(self) -> DiscordRig:
        self.double = DiscordDouble()
        self._serving = serve(self.double)
        urls = await self._serving.__aenter__()
        self.api, self.gateway = (int(url.partition("://")[2].partition("/")[0].rpartition(":")[2]) for url in
                                  (urls.api, urls.gateway))  # fmt: skip
        guild = self.double.guild()
        rooms = [self.double.channel(guild, f"room-{n}") for n in range(ROOMS)]
        self._addresses = [self.double.direct(ANN), *rooms]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.api, says), "gateway": TcpFront(self.gateway)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {
            "token": TOKEN, "api": f"http://127.0.0.1:{ports['api']}/api/v10", "pace": 0.0, "timeout": 2.0,
            "gateway": f"ws://127.0.0.1:{ports['gateway']}",
        }  # fmt: skip

    def addresses(self) -> Sequence[str]:
        return self._addresses

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        self.double.write(self._addresses[0], ANN, text)

    def refusal(self, status: int, seconds: int) -> bytes:
        if status == 429:
            return json.dumps(
                {"message": "You are being rate limited.", "retry_after": seconds, "global": False}
            ).encode()
        code = 50013 if status == 403 else 0
        return json.dumps({"message": "Missing Permissions" if code else "Not now", "code": code}).encode()
