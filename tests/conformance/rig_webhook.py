"""The rig of the webhook channel: a receiver that folds a webhook-id, and a sender that posts until it is answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx2
from small_server import serving

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig
from semel.testing.conformance.process import CHANNEL_NAME

TOKEN = "a token of the sender"


class WebhookRig(Rig):
    kind = "webhook"
    safety = Safety.IDEMPOTENT
    hears = False
    hooked = True
    backfills = False
    status_is_receipt = True

    async def __aenter__(self) -> WebhookRig:
        self.taken: dict[str, tuple[str, str]] = {}  # webhook-id -> address, text
        self.posted: list[str] = []
        self._serving = serving(self._take)
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    async def _take(self, request: HttpRequest) -> tuple[int, Mapping[str, Any]]:
        data = json.loads(request.body)["data"]
        self.taken.setdefault(request.headers["webhook-id"], (data["to"], data["text"]))
        return 200, {}

    def fronts(self) -> Mapping[str, Front]:
        return {"receiver": HttpFront(self.port)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        url = f"http://127.0.0.1:{ports['receiver']}/in"
        session = f"main:{CHANNEL_NAME}:north"
        return {"url": url, "allow_private": True, "timeout": 2.0, "token": TOKEN, "session": session}

    def addresses(self) -> Sequence[str]:
        return ["north", "south", "east", "west"]

    async def shown(self, address: str) -> Sequence[str]:
        return [text for to, text in self.taken.values() if to == address]

    async def write(self, text: str, gateway: str) -> None:
        await self._post(gateway, text)
        self.posted.append(text)

    async def again(self, gateway: str) -> bool:
        for text in self.posted:
            await self._post(gateway, text)
        return True

    def refusal(self, status: int, seconds: int) -> bytes:
        return b"no such room" if status == self.definite else b"not now"

    async def _post(self, gateway: str, text: str) -> None:
        key = hashlib.sha256(text.encode()).hexdigest()
        headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": key}
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            answer = await client.post(f"{gateway}/v1/hooks/{CHANNEL_NAME}", json={"text": text}, headers=headers)
        assert answer.status_code == 202, answer.text
