"""Law 4: the record is in order of hearing, a prompt's history in order of turns."""

from __future__ import annotations

from semel.law.identity import digest
from semel.ledger import past, show, turns
from semel.ledger.hear import Event, To, hear
from semel.ledger.speak import Caller, Say
from semel.ledger.sql import Tx
from semel.ledger.store import Store


def say(store: Store, text: str) -> None:
    event = Event("api:s", None, "message", text, digest({"text": text}))
    store.apply(hear, event, [To("s", "demo", "web:s")])


def begin(store: Store) -> turns.Begun:
    begun = store.apply(turns.begin, 1, "me")
    assert isinstance(begun, turns.Begun)
    return begun


def finish(store: Store, begun: turns.Begun, text: str) -> None:
    fence = turns.Fence(begun.session, begun.turn, begun.epoch)
    caller = Caller(begun.session, begun.key, begun.turn, begun.root)
    block = show.Block(1, (Say("block", text, begun.home),))
    store.apply(show.finish, fence, caller, [block], show.Slots(), show.End("answered", "end_turn"))


def test_a_message_heard_during_a_turn_comes_after_its_answer_in_the_history() -> None:
    with Store.in_memory() as store:
        say(store, "u1")
        first = begin(store)
        say(store, "u2")
        finish(store, first, "a1")
        second = begin(store)
        finish(store, second, "a2")
        say(store, "u3")
        third = begin(store)

        def record(tx: Tx) -> list[str]:
            return [e.text for e in reversed(tx.all("entries_last", session=1, before=99, limit=99))]

        assert store.look(record) == ["u1", "u2", "a1", "a2", "u3"]
        heard = [text for _, text in store.look(past.conversation, 1, 1, third.turn)]
        assert heard == ["u1", "a1", "u2", "a2"]
