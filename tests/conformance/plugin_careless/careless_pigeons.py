"""The sample channel with one mistake, in two kinds.

`careless-pigeon` calls not sent what nobody knows, so it leaves again. `forgetful-pigeon` gives a message another key
each time it comes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pigeons import PigeonChannel, PigeonSettings

from semel.channels import Kind
from semel.gateway.ports import Inbox, Incoming, NotSent, Op, Receipt, Unknown


class CarelessPigeonChannel(PigeonChannel):
    async def send(self, op: Op) -> Receipt:
        try:
            return await super().send(op)
        except Unknown as lost:
            if "HTTP 5" in str(lost):
                raise NotSent(str(lost)) from None
            raise


class RenamingInbox:
    """Passes each message on under a key of its own."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        await self._inbox.put([replace(event, key=f"{event.key}-{uuid.uuid4()}") for event in events], cursor)


class ForgetfulPigeonChannel(PigeonChannel):
    async def run(self, inbox: Inbox) -> None:
        await super().run(RenamingInbox(inbox))


FORGETFUL_KIND = Kind(PigeonSettings, ForgetfulPigeonChannel)
KIND = Kind(PigeonSettings, CarelessPigeonChannel)
