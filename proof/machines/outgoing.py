"""The parts that leave for their channels, and what must come of them: a part of the model."""

from __future__ import annotations

from typing import Any

from proof.machines.house import CHANNELS, RULES, House
from semel.law import delivery
from semel.ledger.delivery import send_queue


class OutgoingParts:
    """What leaves. `erase` of the subclass goes on with deleted sessions, which wait for their last parts."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.ledger = house.ledger
        self.sent: list[send_queue.Departure] = []
        self.doubtful: set[int] = set()  # parts that may have arrived

    def erase(self) -> None:
        raise NotImplementedError

    def depart(self, room: int) -> None:
        went = self.house.seen(self.ledger.depart({n: send_queue.ChannelCapacity(RULES[n], room) for n in CHANNELS}))
        dests = [d.dest for d in (*went.sends, *went.look_ups)]
        assert len(dests) == len(set(dests)), f"Law 7: two parts of one line at once: {dests}"
        for one in went.sends:
            folds = RULES[one.channel].safety == "idempotent" or one.op["kind"] in delivery.IDEMPOTENT_KINDS
            assert folds or one.part not in self.doubtful, f"Law 7: part {one.part} left again, and it may be there"
        self.sent += [*went.sends, *went.look_ups]

    def settle(self, one: send_queue.Departure, what: Any) -> None:
        """What came of an attempt or a look-up; perhaps of one that was settled otherwise long ago."""
        was = self._state(one.part)
        receipt = f"r{one.part}" if what in ("receipt", "found") else None
        outcome = send_queue.AttemptOutcome(what, receipt, "no")
        self.house.seen(self.ledger.receipt(one.part, outcome, RULES[one.channel]))
        part = self.ledger.part(one.part)
        kept = what != "receipt" or was != "sending" or part.receipt is not None
        assert kept, f"Law 7: part {one.part} was taken by its platform as {receipt}, and that is not kept"
        self.erase()
        if what in ("receipt", "found") or (was == "unknown" and what == "absent"):
            self.doubtful.discard(one.part)
        elif was == "sending" and what not in ("not sent", "refused"):
            self.doubtful.add(one.part)

    def decide(self, part: int, decision: send_queue.Decision) -> None:
        """A person settles what is held."""
        self.house.seen(self.ledger.decide(part, decision))
        self.doubtful.discard(part)

    def _state(self, part: int) -> str:
        return self.ledger.part(part).state

    def held(self) -> list[int]:
        return [part.id for part in self.ledger.parts() if part.state == "held"]
