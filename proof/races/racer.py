"""`python -m proof.races.racer`: one of several processes whose threads run the ledger's transactions at once.

People write (also the same event at once, or to two sessions), stop, rename and delete; gateways begin turns, take over
those of others, show, call tools, let messages join and finish; outboxes send. Half of the threads
have a store of their own each; the others use one together, as a gateway does, so that their transactions meet in one.
Each goes on whatever the others do. At the end, the process prints what it was told as JSON: `Told`.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proof.machines.held import note_what_is_held
from proof.machines.house import HOMES, RULES, places
from proof.machines.stored import StoredLedger
from semel.law.identity import digest_fields
from semel.law.wake import MODES
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.send_queue import AttemptOutcome, ChannelCapacity
from semel.ledger.inbound import hear
from semel.ledger.postgres.store import PostgresStore
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import now_ms
from semel.ledger.storage.work import runs_body
from semel.ledger.turns import seats, sessions, turn_ops, turns
from semel.ledger.turns.finish_turn import End
from semel.ledger.turns.limits import UsageReport
from semel.ledger.turns.tool_calls import ToolCallRequest
from semel.ledger.turns.turn_events import TurnEvent

THREADS = 8
AGENT = "demo"
SOURCE = "channel:chat"
PEOPLE = ("Ann", "Bob", "Cleo")
SHARED_KEY_SHARE = 0.1  # of the messages that come through several gateways at once, under one key
FAN_OUT_SHARE = 0.15  # of the messages that are addressed to two sessions
TAKEOVER_SHARE = 0.03  # of the beginnings that take a running turn from another gateway
ANSWERS = ("receipt", "receipt", "receipt", "not sent", "refused", "silence")
PLACES = places()


@dataclass
class Told:
    """What the threads of a process were told.

    `accepted`: key -> how often an event was accepted under it. `prompts`: [session, event, root], whenever an event
    was given to a turn. `unordered`: turns whose events were not in the order of their entries. `errors`: what no
    transaction should end in -> how often.
    """

    accepted: Counter[str] = field(default_factory=Counter)
    prompts: list[tuple[int, int, int]] = field(default_factory=list)
    unordered: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    commits: int = 0
    retries: int = 0

    def add(self, other: Told) -> None:
        self.accepted += other.accepted
        self.prompts += [tuple(prompt) for prompt in other.prompts]  # type: ignore[misc]
        self.unordered += other.unordered
        self.errors += other.errors
        self.turns += other.turns
        self.commits += other.commits
        self.retries += other.retries


class Racer:
    """One thread: it does one thing after the other. `name`: of its lease and its events."""

    def __init__(self, store: PostgresStore, name: str, seed: int) -> None:
        self.name = name
        self.told = Told()
        self._dice = random.Random(seed)
        self._ledger = StoredLedger(now_ms, store)
        self._ledger.cut = PLACES.make_claim_legs
        self._number = 0
        self._deeds: list[tuple[Callable[[], None], int]] = [
            (self.write, 30), (self.serve, 45), (self.send, 12), (self.stop, 4), (self.rename, 4), (self.delete, 1),
            (self.erase, 4),
        ]  # fmt: skip

    def race(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        deeds, weights = zip(*self._deeds, strict=True)
        while time.monotonic() < end:
            self.attempt(self._dice.choices(deeds, weights)[0])

    def attempt(self, deed: Callable[[], None]) -> None:
        """Do it. That another gateway has taken the turn over is no error."""
        try:
            deed()
        except turns.Fenced:
            pass
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            self.told.errors[f"{getattr(deed, '__name__', deed)}: {type(error).__name__} {reason}"] += 1

    def _choose_session(self) -> int | None:
        return self._ledger.find(self._dice.choice(list(HOMES)))

    # ------------------------------------------------------------ people

    def write(self) -> None:
        """A person writes; others may send the same event, at the same moment, through another gateway."""
        self._number += 1
        key = f"{self.name}.{self._number}"
        if self._dice.random() < SHARED_KEY_SHARE:
            key = f"shared.{int(time.time() * 20)}"
        keys = self._dice.sample(list(HOMES), 2 if self._dice.random() < FAN_OUT_SHARE else 1)
        if key.startswith("shared"):
            keys = ["chat", "chat-too"]
        to = [
            hear.Addressee(
                one, AGENT, HOMES[one], busy=self._dice.choice(MODES), reads_steered=self._dice.random() < 0.5
            )
            for one in keys
        ]
        sender = {"data": {"from": {"person": self._dice.choice(PEOPLE)}}}
        event = hear.Event(
            SOURCE, key, "message", key, digest_fields({"text": key}), more=sender,
            wakes=self._dice.choice((True, True, None)),
        )  # fmt: skip
        start = hear.IdleStart(self.name, lambda _: True, lambda _: None, lambda _: None)
        heard = self._ledger.hear(event, to, start if self._dice.random() < 0.5 else None)
        if heard.status == "accepted":
            self.told.accepted[key] += 1
        elif heard.status != "duplicate":
            self.told.errors[f"the same event is a {heard.status}"] += 1
        for addressed in heard.addressed:
            if addressed.begun is not None:
                self._note_prompt(addressed.begun, addressed.begun.events)
                self.attempt(lambda begun=addressed.begun: self._run(begun))  # type: ignore[misc]

    def stop(self) -> None:
        if (session := self._choose_session()) is not None:
            self._ledger.stop(session, "Ann")

    def rename(self) -> None:
        if (session := self._choose_session()) is not None:
            self._ledger.write(sessions.rename, session, f"title {self.name}")

    def delete(self) -> None:
        if (session := self._choose_session()) is not None:
            self._ledger.delete(session)

    def erase(self) -> None:
        if (session := self._choose_session()) is not None:
            self._ledger.erase(session)

    # ------------------------------------------------------------ gateways

    def serve(self) -> None:
        """Begin a turn where one is due, or take over one that runs at another gateway, and run it."""
        if (session := self._choose_session()) is not None:
            self.begin(session, takes_over=self._dice.random() < TAKEOVER_SHARE)

    def begin(self, session: int, *, takes_over: bool) -> bool:
        """Return whether anything was begun or settled."""
        begun = self._ledger.write(_begin_if_free, turns.begin, session, self.name) if not takes_over else None
        if takes_over:
            begun = self._ledger.begin(session, self.name)
        if isinstance(begun, turns.BegunTurn):
            self._note_prompt(begun, begun.events)
            self._run(begun)
        return begun is not None and not isinstance(begun, turns.NotYetDue | seats.SeatedElsewhere)

    def begin_again(self, session: int) -> bool:
        """Settle and begin whatever is left in a session. Return whether anything was."""
        before = self.told.turns
        self._number += 1
        lease, self.name = self.name, f"{self.name}.{self._number}"  # a turn that is left under the same lease runs
        self.attempt(lambda: self.begin(session, takes_over=True) and None)
        self.name = lease
        return self.told.turns > before

    def list_sessions(self) -> list[int]:
        return [session for key in HOMES if (session := self._ledger.find(key)) is not None]

    def _note_prompt(self, begun: turns.BegunTurn, events: tuple[TurnEvent, ...]) -> None:
        seqs = [event.seq for event in events]
        if seqs != sorted(seqs):
            self.told.unordered.append(begun.turn)
        self.told.prompts += [(begun.session, event.event, begun.root) for event in events]

    def _run(self, begun: turns.BegunTurn) -> None:
        ledger, token = self._ledger, self._dice.randbytes(16)
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        spawn = ledger.spawn(begun.session, AGENT, self.name, token)
        caller = Caller(begun.session, begun.key, begun.turn, begun.root, spawn=spawn)
        slots = turn_ops.Slots()
        try:
            ledger.asked(fence, "start", spawn, "memory", {})
            for number in range(self._dice.randrange(4)):
                match self._dice.randrange(4):
                    case 0:
                        slots = ledger.show(fence, caller, [turn_ops.Preview(1, f"part {number} ")], slots)
                    case 1:
                        call = ToolCallRequest(token, "c", f"call {number}", b"arguments")
                        dest = self._dice.choice(("chat:1", "mail:2", "push:3", begun.home or "chat:1"))
                        ledger.call(call, self._ask_to_say("tool", begun, dest, f"note {begun.turn}.{number}"))
                    case 2:
                        self._note_prompt(begun, ledger.join(fence))
                    case _:
                        slots = ledger.show(fence, caller, [turn_ops.Notice(f"notice {number}", "retry")], slots)
            self._end(begun, fence, caller, slots)
            self.told.turns += 1
        finally:
            ledger.spawn_ended(spawn, "it is over")

    def _end(self, begun: turns.BegunTurn, fence: turns.TurnFence, caller: Caller, slots: turn_ops.Slots) -> None:
        how = self._dice.random()
        if how < 0.03:
            self._ledger.release(fence)  # its agent died
            return
        if how < 0.06:
            self._ledger.put_off(fence, caller, [], slots, "overloaded", 100)
            return
        said = () if begun.home is None else (self._ask_to_say("block", begun, begun.home, f"answer {begun.turn}"),)
        event, stop = ("answered", "end_turn") if how < 0.95 else ("cancelled", "cancelled")
        told = begun.events[-1].seq if begun.events else 0
        end = End(event, stop, last_prompted_seq=told, usage=UsageReport(tokens=7))  # type: ignore[arg-type]
        self._ledger.finish(fence, caller, [turn_ops.Block(1, said)], slots, end)

    def _ask_to_say(self, how: Any, begun: turns.BegunTurn, dest: str, text: str) -> ClaimRequest:
        legs = PLACES.make_claim_legs(dest, begun.key, text, False)
        return ClaimRequest(how, text, dest, is_home=dest == begun.home, legs=legs)

    # ------------------------------------------------------------ outboxes

    def send(self) -> None:
        due = self._ledger.depart({name: ChannelCapacity(rules, 4) for name, rules in RULES.items()})
        for departure in (*due.sends, *due.look_ups):
            is_sent = departure in due.sends
            result: Any = self._dice.choice(ANSWERS if is_sent else ("found", "absent", "hold"))
            outcome = AttemptOutcome(result, f"m{departure.part}" if result in ("receipt", "found") else None)
            self._ledger.receipt(departure.part, outcome, RULES[departure.channel])


@runs_body
def _begin_if_free(tx: Tx, body: Callable[..., Any], session: int, lease: str) -> Any:
    """Begin a turn, but settle none that runs at another gateway."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    return body(tx, session, lease) if row.turn is None or row.lease is None else None


def main() -> None:
    url, name, seed, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    note_what_is_held()
    shared = PostgresStore.open(url, exclusive=False, clock=now_ms)
    stores = [PostgresStore.open_sync(url) for _ in range(THREADS // 2)]
    stores += [shared] * (THREADS - len(stores))
    racers = [Racer(store, f"{name}{n}", seed * THREADS + n) for n, store in enumerate(stores)]
    threads = [threading.Thread(target=racer.race, args=(seconds,)) for racer in racers]
    for thread in threads:
        thread.start()
    told = Told()
    for thread, racer in zip(threads, racers, strict=True):
        thread.join()
        told.add(racer.told)
    for store in set(stores):
        found = store.statistics()
        told.commits += found["transactions"]
        told.retries += found["retries"]
        store.close()
    print(json.dumps(vars(told)))


if __name__ == "__main__":
    main()
