"""The rig of the Matrix channel: a real Synapse, a room of two for each address."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from synapse import Synapse

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig

ROOMS = 4


def says(request: HttpRequest) -> bool:
    return request.method == "PUT" and "/send/m.room.message/" in request.target


class MatrixRig(Rig):
    kind = "matrix"
    safety = Safety.IDEMPOTENT
    finds = True
    person = "@alice:localhost"
    page = 100
    definite = 403

    def __init__(self, server: Synapse) -> None:
        self.server = server
        self.rooms: list[str] = []

    async def __aenter__(self) -> MatrixRig:
        self._alice, bot = self.server.user("alice"), self.server.user("bot")
        for _ in range(ROOMS):
            room = await self._alice.create_room(invite=["bot"], direct=True)
            await bot.join(room)
            self.rooms.append(room)
        self._login = self.server.login("bot", device="CONFORMANCE")
        return self

    def fronts(self) -> Mapping[str, Front]:
        return {"homeserver": HttpFront(self.server.port, says)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        url = f"http://127.0.0.1:{ports['homeserver']}"
        token = self._login["access_token"]
        return {"homeserver": url, "token": token, "device": "CONFORMANCE", "timeout": 3.0}

    def addresses(self) -> Sequence[str]:
        return self.rooms

    async def shown(self, address: str) -> Sequence[str]:
        return await self._alice.texts(address, "bot")

    async def write(self, text: str, gateway: str) -> None:
        await self._alice.say(self.rooms[0], text)

    def refusal(self, status: int, seconds: int) -> bytes:
        more = {"retry_after_ms": seconds * 1000} if seconds else {}
        code = {429: "M_LIMIT_EXCEEDED", 403: "M_FORBIDDEN"}.get(status, "M_UNKNOWN")
        return json.dumps({"errcode": code, "error": "Not now", **more}).encode()
