"""The rig of the sample channel in `plugin/`, once for each safety class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from dovecote import PAGE, Dovecote
from small_server import serving

from semel.gateway.ports import Safety
from semel.testing.conformance import Front, HttpFront, Rig

PLUGIN = Path(__file__).parent / "plugin"


class PigeonRig(Rig):
    kind = "pigeon"
    safety = Safety.AT_MOST_ONCE
    person = "ann"
    page = PAGE
    paths = (PLUGIN,)

    async def __aenter__(self) -> PigeonRig:
        self.dovecote = Dovecote(folds=self.safety is Safety.IDEMPOTENT)
        self._serving = serving(self.dovecote.answer)
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._serving.__aexit__(kind, fault, trace)

    def fronts(self) -> Mapping[str, Front]:
        return {"api": HttpFront(self.port)}

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        url = f"http://127.0.0.1:{ports['api']}"
        return {"dovecote": url, "carrier": self.safety.value, "timeout": 2.0, "settle": 0.5}

    def addresses(self) -> Sequence[str]:
        return ["north", "south", "east", "west"]

    async def shown(self, address: str) -> Sequence[str]:
        return self.dovecote.shown(address)

    async def write(self, text: str, gateway: str) -> None:
        self.dovecote.write(self.person, "north", text)

    def refusal(self, status: int, seconds: int) -> bytes:
        return json.dumps({"error": "no such loft" if status == self.definite else "the pigeons rest"}).encode()


class FoldingPigeonRig(PigeonRig):
    safety = Safety.IDEMPOTENT
    hears: ClassVar[bool] = False  # it hears as the other one does, which is checked there


class KnownPigeonRig(PigeonRig):
    safety = Safety.RECONCILABLE
    hears: ClassVar[bool] = False
    finds: ClassVar[bool] = True
