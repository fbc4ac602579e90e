"""The rig of the Teams channel: the double of the Bot Connector, which posts to the gateway by itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rig_hooked import HookedRig

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest
from semel.testing.teams import TeamsDouble, serve
from semel.testing.teams.model import ConnectorError
from semel.testing.teams.server import make_settings

ANN = "7faf8ab2-3d56-4244-b585-20c8a42ed2b8"


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message, or fills the place of one."""
    return request.method in ("POST", "PUT") and "/activities" in request.target and b'"typing"' not in request.body


class TeamsRig(HookedRig):
    kind = "teams"
    safety = Safety.AT_MOST_ONCE
    person = ANN

    async def __aenter__(self) -> TeamsRig:
        self.double = TeamsDouble(shuffle=True)
        self.double.person("Ann", id=ANN)
        bob = self.double.person("Bob")
        thread = f"{self.double.channel('garden', ANN)};messageid=1"
        self.double.write(ANN, "hello", address=thread.partition(";")[0], id="1")
        self.double.deliveries.clear()
        self.places = [f"@{ANN}", f"@{bob}", self.double.group("plans", ANN, bob), thread]
        self._serving = serve(self.double)
        settings = await self._serving.__aenter__()
        self.port = int(settings["service_url"].removesuffix("/teams").rpartition(":")[2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port, says)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        url = f"http://127.0.0.1:{ports['api']}"
        self.double.service_url = f"{url}/teams/"
        return {**make_settings(url), "timeout": 2.0, "pace": 0.0}

    def addresses(self) -> Sequence[str]:
        return self.places

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        """Post a message as Teams does. Its id is made of the text: the repeat of a message has its id."""
        id = str(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))
        self.double.write(ANN, text, id=id)
        await self.post_newest(gateway)

    def refusal(self, status: int, seconds: int) -> bytes:
        return json.dumps(ConnectorError(status, "Throttled" if status == 429 else "BadArgument").body()).encode()
