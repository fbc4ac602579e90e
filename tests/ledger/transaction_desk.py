"""A new ledger to try single transactions on; after each test the books are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proof.machines.engines import open_ledger
from semel.ledger.admin import books
from semel.ledger.delivery.claims import Caller, ClaimRequest, ClaimResult
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import hear
from semel.ledger.transcript import views
from semel.ledger.turns import finish_turn, show, spawns, tool_calls, turn_ops, turns

Json = dict[str, Any]
HOMES: dict[str, str | None] = {"s": "web:s", "chat": "chat:1", "chat-too": "chat:1", "job": None}


class Desk:
    def __init__(self) -> None:
        self.now = 1_000
        self.store = open_ledger(lambda: self.now)
        self.slots = turn_ops.Slots()

    def do(self, body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.store.write_sync(body, *args, **kwargs)

    def look(self, body: Callable[..., Any], *args: Any) -> Any:
        return self.store.read_sync(body, *args)

    def hear(self, text: str = "hi", *keys: str, key: str | None = None, **more: Any) -> hear.HeardOutcome:
        event = hear.Event(more.pop("source", "api"), key, more.pop("kind", "message"), text, text.encode(), **more)
        to = [hear.Addressee(k, "main", HOMES.get(k, f"web:{k}")) for k in keys or ("s",)]
        done: hear.HeardOutcome = self.do(hear.hear, event, to, more.get("cursor"))
        return done

    def session(self, key: str = "s") -> Any:
        return self.look(views.find_session, key)

    def begin(self, key: str = "s", lease: str = "g0", spawn: int | None = None) -> Any:
        self.slots = turn_ops.Slots()
        begun = self.do(turns.begin, self.session(key).id, lease, spawn)
        if isinstance(begun, turns.BegunTurn):
            self.do(lambda tx: tx.run("turn_how", id=begun.turn, how="start", spawn=spawn))  # its agent is asked
        return begun

    def show(self, begun: turns.BegunTurn, *ops: turn_ops.Op) -> None:
        self.slots = self.do(show.show, fence(begun), caller(begun), ops, self.slots)

    def finish(self, begun: turns.BegunTurn, *ops: turn_ops.Op, event: Any = "answered", **more: Any) -> bool:
        end = finish_turn.End(event, "end_turn", **more)
        self.slots, due = self.do(finish_turn.finish, fence(begun), caller(begun), ops, self.slots, end)
        return bool(due)

    def spawn(self, token: bytes = b"token", key: str = "s") -> int:
        return int(self.do(spawns.record_start, self.session(key).id, "main", "g0", token))

    def call(
        self, what: ClaimRequest, call: str = "k1", *, token: bytes = b"token", args: bytes = b"a", **more: Any
    ) -> ClaimResult:
        made: ClaimResult = self.do(
            tool_calls.record_call, tool_calls.ToolCallRequest(token, more.pop("conn", "c1"), call, args, **more), what
        )
        return made

    def entries(self, key: str = "s") -> list[Json]:
        found: list[Json] = self.look(views.read_snapshot, self.session(key).id, 1 << 40)["entries"]
        return found

    def items(self, key: str = "s") -> list[Json]:
        found: list[Json] = self.look(views.read_snapshot, self.session(key).id, 1 << 40)["items"]
        return found

    def balanced(self) -> None:
        broken = [book for book in self.look(books.audit) if not book.ok]
        assert not broken, broken


def fence(begun: turns.BegunTurn) -> turns.TurnFence:
    return turns.TurnFence(begun.session, begun.turn, begun.epoch)


def caller(begun: turns.BegunTurn, how: Any = "start") -> Caller:
    return Caller(begun.session, begun.key, begun.turn, begun.root, how)


def block(slot: int, text: str, dest: str = "web:s", **more: Any) -> turn_ops.Block:
    return turn_ops.Block(slot, (ClaimRequest("block", text, dest, **more),))


def leg(text: str, dest: str = "chat:1") -> Leg:
    return Leg(0, len(text), "chat", dest, {"kind": "post", "text": text})
