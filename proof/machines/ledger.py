"""What a ledger is to the machine: its transactions, each one commit, and what an auditor must be able to read.

SQLite's is `stored.StoredLedger`. Another ledger implements this and runs under the same machine, with the same
books. The values that go in and out are those of `semel.ledger`: none of them knows what the rows lie in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from semel.law import delivery, turn
from semel.ledger import people
from semel.ledger.delivery import claims, send_queue
from semel.ledger.inbound import answers, hear
from semel.ledger.storage.sql import CutText
from semel.ledger.turns import tool_calls, turns
from semel.ledger.turns.finish_turn import End
from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turn_ops import Op, Slots

Json = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """One claim. `turn_how`: how its attempt began; `fallen`: a part of it was rejected or dropped; `late`: made after
    its turn had finished (Law 10); `how`: by tool, block, ...; `edits`: the claim whose text it replaced; `stayed`: it
    never left, or its own attempt said the same once more, and that is what counts."""

    id: int
    root: int | None
    turn: int | None
    turn_how: str | None
    dest: str | None
    digest: bytes | None
    text: str
    outcome: str
    reason: str | None
    echo_of: int | None
    fallen: bool
    late: bool
    how: str
    edits: int | None
    stayed: bool


@dataclass(frozen=True)
class Part:
    """One part. `text`: what the platform is given; None: that is no text, or its session was deleted. `receipt`: what
    the platform gave back for it."""

    id: int
    claim: int
    n: int
    state: str
    text: str | None
    receipt: str | None


@dataclass(frozen=True)
class Entry:
    """An entry that a claim stands behind. `dest` is the claim's."""

    session: int
    seq: int
    claim: int
    dest: str | None
    text: str


class Ledger(Protocol):
    """Raises what `semel.ledger` raises (turns.Fenced, calls.SameIdOtherCall ...); then nothing has changed.

    `cut`: the parts in which a text leaves, for every transaction.
    """

    cut: CutText | None

    def changes(self) -> list[tuple[int, Json]]:
        """What the watchers of which session must be sent of the transaction before, in order."""
        ...

    def close(self) -> None: ...

    # ---- events and sessions
    def unusable(self, channel: str, event: hear.Event, why: str) -> str:
        """A channel tells of what nobody can read: "quarantined", or "duplicate", or "conflict"."""
        ...

    def hear(
        self, event: hear.Event, to: Sequence[hear.Addressee], start: hear.IdleStart | None = None
    ) -> hear.HeardOutcome:
        """Something is heard; `start` begins the turns of the sessions that it finds idle."""
        ...

    def answer(self, session: int, item: int, option: str | None, by: str, digest: bytes) -> answers.AnswerResult: ...
    def set_about(self, session: int, fields: Json) -> None: ...
    def new_chapter(self, session: int) -> None: ...
    def delete(self, session: int) -> bool: ...
    def erase(self, session: int) -> str:
        """One piece of the content of a deleted session goes: "more", "later" (something still leaves) or "done"."""
        ...

    # ---- turns
    def begin(
        self, session: int, lease: str, spawn: int | None = None
    ) -> turns.BegunTurn | turns.GivenUp | turns.NotYetDue | None: ...
    def asked(self, fence: turns.TurnFence, how: turn.How, spawn: int, memory: str, about: Json) -> None: ...
    def join(self, fence: turns.TurnFence) -> tuple[TurnEvent, ...]: ...
    def show(self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots: ...
    def finish(
        self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, end: End
    ) -> tuple[Slots, bool]: ...
    def put_off(
        self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, why: str, ms: int
    ) -> Slots: ...
    def release(self, fence: turns.TurnFence) -> None: ...
    def cancel_put_off(self, session: int, by: str) -> bool: ...
    def stop(self, session: int, by: str) -> None: ...

    # ---- agents and what they call
    def spawn(self, session: int, agent: str, gateway: str, token: bytes) -> int: ...
    def spawned(self, spawn: int, pid: int) -> None: ...
    def spawn_ended(self, spawn: int, why: str) -> None: ...
    def call(self, made: tool_calls.ToolCallRequest, what: claims.ClaimRequest) -> claims.ClaimResult: ...
    def answered(self, token: bytes, call: str) -> None: ...

    # ---- parts
    def depart(self, asks: Mapping[str, send_queue.ChannelCapacity]) -> send_queue.DueParts: ...
    def receipt(self, part: int, outcome: send_queue.AttemptOutcome, rules: delivery.Rules) -> delivery.State: ...
    def decide(self, part: int, decision: send_queue.Decision) -> Json: ...
    def recover(self, rules: Mapping[str, delivery.Rules]) -> Json: ...

    # ---- people
    def configure(
        self, listed: Collection[people.PersonAccount], roles: Mapping[str, str]
    ) -> list[people.PersonAccount]: ...
    def put_person(self, account: people.PersonAccount) -> list[people.PersonAccount]: ...
    def remove_person(self, channel: str, account: str) -> list[people.PersonAccount] | None: ...
    def open_pairing(self, channel: str, digest: bytes, name: str, role: str, lasts: int) -> people.PairingCode: ...
    def redeem(self, code: int, account: str, key: str, called: str) -> list[people.PersonAccount] | None: ...
    def void(self, code: int) -> bool: ...
    def people(self) -> list[people.PersonAccount]: ...

    # ---- reading, each one consistent snapshot
    def find(self, key: str) -> int | None: ...
    def unfinished(self) -> list[int]: ...
    def snapshot(self, session: int) -> Json: ...
    def since(self, session: int, rev: int, limit: int) -> tuple[int, list[Json]] | None: ...
    def said_in_root(self, root: int, home: str | None) -> list[str]: ...
    def previews(self, session: int) -> int:
        """How many entries of a session are live."""
        ...

    # ---- reading as an auditor
    def broken(self) -> list[Any]:
        """The books that do not hold (semel.ledger.admin.books)."""
        ...

    def claims(self) -> list[Claim]: ...
    def newest_claim(self) -> int:
        """Its id; 0 if there is none."""
        ...

    def parts(self) -> list[Part]: ...
    def part(self, id: int) -> Part: ...
    def claimed(self) -> list[Entry]:
        """The entries that have a claim."""
        ...

    def conflicts(self) -> list[tuple[int, bytes]]:
        """What contradicted which event: (event, digest of the other content)."""
        ...

    def quarantined(self) -> list[int]:
        """The events that nobody could read."""
        ...

    def holds(self, text: str) -> list[str]:
        """The tables in which a text stands, in whatever column."""
        ...

    def outputs(self) -> list[tuple[Json, str]]:
        """Each tool call as a watcher sees it, and the stored whole of its output."""
        ...


Make = Callable[[Callable[[], int]], Ledger]
"""Opens an empty ledger on a clock (milliseconds since the epoch)."""
