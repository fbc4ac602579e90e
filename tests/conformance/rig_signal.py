"""The rig of the Signal channel: the double of signal-cli, behind a proxy that breaks what is between it and Semel.

A connection that breaks is a signal-cli that dies; one that is silent, a signal-cli that hangs; a refused one, a
signal-cli that does not start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, Rig, TcpFront
from semel.testing.signal import ACCOUNT, SignalDouble, double_command, serve

NAMES = ("Ann", "Ben", "Cyd", "Dan")


def list_sends(sent: bytes) -> list[dict[str, Any]]:
    """The requests that show a new message, or fill the place of one."""
    lines = sent[: sent.rfind(b"\n") + 1].splitlines()
    requests = [json.loads(line) for line in lines if line.startswith(b"{")]
    return [request for request in requests if request["method"] == "send"]


def refuse(code: int, text: str, kind: str) -> Any:
    def answer(sent: bytes) -> bytes:
        response = {"timestamp": 1, "results": [{"type": kind, "recipientAddress": {"number": "+49"}}]}
        error = {"code": code, "message": text, "data": {"response": response}}
        message = {"jsonrpc": "2.0", "error": error, "id": list_sends(sent)[-1]["id"]}
        return b"answer " + json.dumps(message).encode() + b"\n"

    return answer


class SignalRig(Rig):
    kind = "signal"
    safety = Safety.AT_MOST_ONCE
    http = False
    page = 20

    def __init__(self, journal: Path) -> None:
        self.journal = str(journal)

    async def __aenter__(self) -> SignalRig:
        self.double = SignalDouble()
        self._people = [self.double.person(name) for name in NAMES]
        self.person = self._people[0]
        self._serving = serve(self.double)
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        not_now = refuse(-5, "Failed to send message due to rate limiting", "RATE_LIMIT_FAILURE")
        no = refuse(-1, "Failed to send message", "UNREGISTERED_FAILURE")
        return {"signal-cli": TcpFront(self.port, lambda sent: len(list_sends(sent)), not_now, no)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        command = double_command(ports["signal-cli"])
        return {"account": ACCOUNT, "command": command, "timeout": 1.0, "pace": 0.0, "journal": self.journal}

    def addresses(self) -> Sequence[str]:
        return self._people

    async def shown(self, address: str) -> Sequence[str]:
        return self.double.texts(address)

    async def write(self, text: str, gateway: str) -> None:
        self.double.write(self.person, text)
