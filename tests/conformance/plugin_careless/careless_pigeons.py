"""The sample channel with one mistake: what nobody knows is called not sent, so it leaves again."""

from __future__ import annotations

from pigeons import PigeonChannel, PigeonSettings

from semel.channels import Kind
from semel.gateway.ports import NotSent, Op, Receipt, Unknown


class CarelessPigeonChannel(PigeonChannel):
    async def send(self, op: Op) -> Receipt:
        try:
            return await super().send(op)
        except Unknown as lost:
            if "HTTP 5" in str(lost):
                raise NotSent(str(lost)) from None
            raise


KIND = Kind(PigeonSettings, CarelessPigeonChannel)
