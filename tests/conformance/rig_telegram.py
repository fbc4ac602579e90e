"""The rig of the Telegram channel: the double of the Bot API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, HttpRequest, Rig
from semel.testing.telegram import TOKEN, TelegramDouble, serve

CHATS = (7, 8, 9, 10)


def says(request: HttpRequest) -> bool:
    """Whether it shows a new message, or fills the place of one."""
    return request.target.partition("?")[0].lower().endswith(("/sendmessage", "/editmessagetext"))


class TelegramRig(Rig):
    kind = "telegram"
    safety = Safety.AT_MOST_ONCE
    person = str(CHATS[0])
    page = 100

    async def __aenter__(self) -> TelegramRig:
        self.double = TelegramDouble()
        self._told: list[dict[str, Any]] = []
        self._serving = serve(self.double)
        url = await self._serving.__aenter__()
        self.port = int(url.rpartition(":")[2])
        for chat in CHATS:
            self.double.write(chat, "/start")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port, says)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {"token": TOKEN, "api": f"http://127.0.0.1:{ports['api']}", "poll": 2.0, "timeout": 2.0, "pace": 0.0}

    def addresses(self) -> Sequence[str]:
        return [str(chat) for chat in CHATS]

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(int(address))

    async def write(self, text: str, gateway: str) -> None:
        self.double.write(CHATS[0], text)
        self._told.append(self.double.pending()[-1])

    async def again(self, gateway: str) -> bool:
        """What was confirmed: Telegram did not hear of that yet, and tells it again, under its ids."""
        after = self.double.queue.next
        for update in self._told:
            self.double.queue.next = update["update_id"]
            self.double.update("message", update["message"])
        self.double.queue.next = after
        return False

    def refusal(self, status: int, seconds: int) -> bytes:
        more = {"parameters": {"retry_after": seconds}} if seconds else {}
        said = "Bad Request: chat not found" if status == 400 else "Not now"
        return json.dumps({"ok": False, "error_code": status, "description": said, **more}).encode()
