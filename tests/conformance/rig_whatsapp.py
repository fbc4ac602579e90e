"""The rig of the WhatsApp channel: the double of Meta's Cloud API, which posts to the gateway by itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rig_hooked import HookedRig, hook_of

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest
from semel.testing.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, VERIFY_TOKEN, WhatsAppDouble, serve
from semel.testing.whatsapp.model import GraphError
from semel.testing.whatsapp.server import confirm_address

PEOPLE = ("16505551234", "16505551235", "16505551236", "16505551237")
ERRORS = {400: (131030, "Recipient phone number not in allowed list"), 429: (80007, "Rate limit issues")}


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message."""
    return request.target.endswith("/messages") and b'"typing_indicator"' not in request.body


class WhatsAppRig(HookedRig):
    kind = "whatsapp"
    safety = Safety.AT_MOST_ONCE
    person = PEOPLE[0]

    async def __aenter__(self) -> WhatsAppRig:
        self.double = WhatsAppDouble(shuffle=True)
        for person in PEOPLE:
            self.double.person(person, f"Person {person}")
        self.posted: list[str] = []
        self._serving = serve(self.double)
        url = await self._serving.__aenter__()
        self.port = int(url.removesuffix("/graph").rpartition(":")[2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port, says)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        account = {"phone_number_id": NUMBER_ID, "token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
        api = f"http://127.0.0.1:{ports['api']}/graph"
        return {**account, "api": api, "timeout": 2.0, "pace": 0.0, "settle": 1.0}

    def addresses(self) -> Sequence[str]:
        return PEOPLE

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        """Post a message as Meta does. Its id is made of the text: Meta's repeat of a message has its id."""
        assert await confirm_address(self.double, hook_of(gateway))
        id = f"wamid.{base64.b64encode(text.encode()).decode()}"
        self.double.tell(PEOPLE[0], {"type": "text", "text": {"body": text}}, id=id)
        await self.post_newest(gateway)

    def refusal(self, status: int, seconds: int) -> bytes:
        code, message = ERRORS.get(status, (131000, "Something went wrong"))
        return json.dumps(GraphError(code, message).body()).encode()
