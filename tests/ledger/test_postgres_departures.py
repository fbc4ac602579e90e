"""The outbox takes only parts whose session and line it holds, whatever other transactions commit meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.machines.engines import empty_database
from proof.machines.house import RULES, places
from proof.machines.stored import StoredLedger
from proof.postgres_server import needs_postgres
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.delivery.send_queue import ChannelCapacity
from semel.ledger.inbound import hear
from semel.ledger.storage.store import now_ms
from semel.ledger.turns import turns
from semel.ledger.turns.tool_calls import ToolCallRequest

pytestmark = needs_postgres
CAPACITIES = {name: ChannelCapacity(rules, 4) for name, rules in RULES.items()}


def send(ledger: StoredLedger, session: str, dest: str, text: str) -> None:
    """An agent sends a text by its tool."""
    key = f"{session} {text}"
    ledger.hear(hear.Event("api", key, "message", text, key.encode()), [hear.Addressee(session, "demo", None)])
    id = ledger.find(session)
    assert id is not None
    begun, token = ledger.begin(id, "a lease"), key.encode()
    assert isinstance(begun, turns.BegunTurn)
    spawn = ledger.spawn(id, "demo", "a gateway", token)
    ledger.asked(turns.TurnFence(id, begun.turn, begun.epoch), "start", spawn, "memory", {})
    legs = places().make_claim_legs(dest, session, text, False)
    ledger.call(ToolCallRequest(token, "c", "k", b""), ClaimRequest("tool", text, dest, is_home=False, legs=legs))


def test_a_part_that_comes_in_line_after_the_locks_is_left_to_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.store import PostgresStore

    url = empty_database()
    outbox, other = (StoredLedger(now_ms, PostgresStore.open_sync(url)) for _ in range(2))
    send(other, "one", "chat:1", "first")
    take = locks.take

    def take_then_send(*what: Any) -> Callable[[], locks.Taken]:
        taken = take(*what)
        monkeypatch.setattr(locks, "take", take)
        send(other, "two", "mail:2", "later")
        return taken

    monkeypatch.setattr(locks, "take", take_then_send)
    first = outbox.depart(CAPACITIES)
    assert [part.op["text"] for part in first.sends] == ["first"]
    assert first.due is not None and first.due <= now_ms()  # the outbox looks again at once
    assert [part.op["text"] for part in outbox.depart(CAPACITIES).sends] == ["later"]
    outbox.close()
    other.close()
