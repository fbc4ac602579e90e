"""The ledger under the machine: the transactions of `semel.ledger`, on a store of the engine that is tested."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from proof.machines.engines import list_tables, open_ledger, rows
from proof.machines.ledger import Claim, Entry, Json, Part
from semel.law import delivery, turn
from semel.ledger import people
from semel.ledger.admin import books, erase
from semel.ledger.delivery import claims, send_queue
from semel.ledger.inbound import answers, channel_batch, hear
from semel.ledger.storage.rows import EntryRow, ItemRow, SessionRow
from semel.ledger.storage.sql import CutText, Tx
from semel.ledger.storage.store import LedgerStore
from semel.ledger.storage.work import runs_body
from semel.ledger.transcript import entries, views
from semel.ledger.turns import finish_turn, interventions, sessions, show, spawns, tool_calls, turns, utterances
from semel.ledger.turns.finish_turn import End
from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turn_ops import Op, Slots

T = TypeVar("T")
ALL = 1 << 40

_CLAIMS = """SELECT c.id, c.root, c.turn, t.how, c.dest, c.digest, c.text, c.outcome, c.reason, c.echo_of,
 EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND p.state IN ('rejected', 'dropped')), c.late, c.how,
 c.edits, EXISTS(SELECT 1 FROM entry e WHERE e.claim = c.id AND e.superseded = 1)
 AND (NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) OR EXISTS(
  SELECT 1 FROM claim r JOIN entry e ON e.claim = r.id WHERE r.turn = c.turn AND r.dest = c.dest AND r.digest = c.digest
  AND r.id > c.id AND r.outcome = 'said' AND e.superseded = 0))
 FROM claim c LEFT JOIN turn t ON t.id = c.turn ORDER BY c.id"""
_CLAIMED = """SELECT e.session, e.seq, c.id, c.dest, e.text FROM entry e JOIN claim c ON c.id = e.claim
 ORDER BY c.id, e.session"""


_PARTS = "SELECT id, claim, n, state, op ->> 'text', receipt FROM part"


class StoredLedger:
    """A new ledger; or one on a given store, which it closes."""

    def __init__(self, clock: Callable[[], int], store: LedgerStore | None = None) -> None:
        self.store = store or open_ledger(clock)
        self.cut: CutText | None = None
        self._changes: list[tuple[int, Json]] = []

    def __repr__(self) -> str:
        return f"<StoredLedger {self.store!r}>"

    def write(self, body: Callable[..., T], *args: Any) -> T:
        """Any transaction. Its changes are kept until the next."""
        self._changes = []
        result: T
        result, self._changes = self._commit(body, args)
        return result

    def read(self, body: Callable[..., T], *args: Any) -> T:
        return self.store.read_sync(body, *args)

    def _commit(self, body: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, list[tuple[int, Json]]]:
        return self.store.write_sync(seen, body, *args, cut=self.cut)

    def changes(self) -> list[tuple[int, Json]]:
        return self._changes

    def close(self) -> None:
        self.store.close()

    # ---- events and sessions

    def unusable(self, channel: str, event: hear.Event, why: str) -> str:
        [done] = self.write(
            channel_batch.record_batch, channel, event.source, [channel_batch.UnreadableInput(event, why)], None
        )
        return str(done.status)

    def hear(
        self, event: hear.Event, to: Sequence[hear.Addressee], start: hear.IdleStart | None = None
    ) -> hear.HeardOutcome:
        return self.write(hear.hear, event, to, None, start)

    def answer(self, session: int, item: int, option: str | None, by: str, digest: bytes) -> answers.AnswerResult:
        return self.write(answers.record_answer, session, item, option, by, digest)

    def set_about(self, session: int, fields: Json) -> None:
        self.write(entries.set_about, session, fields)

    def new_chapter(self, session: int) -> None:
        self.write(_new_chapter, session)

    def delete(self, session: int) -> bool:
        return self.write(sessions.delete, session)

    def erase(self, session: int) -> str:
        return self.write(erase.erase_step, session)

    # ---- turns

    def begin(
        self, session: int, lease: str, spawn: int | None = None
    ) -> turns.BegunTurn | turns.GivenUp | turns.NotYetDue | None:
        return self.write(turns.begin, session, lease, spawn)

    def asked(self, fence: turns.TurnFence, how: turn.How, spawn: int, memory: str, about: Json) -> None:
        self.write(turns.record_prompting, fence, how, spawn, memory, about)

    def join(self, fence: turns.TurnFence) -> tuple[TurnEvent, ...]:
        return self.write(turns.bind_steered, fence)

    def show(self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots) -> Slots:
        return self.write(show.show, fence, caller, ops, slots)

    def finish(
        self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, end: End
    ) -> tuple[Slots, bool]:
        return self.write(finish_turn.finish, fence, caller, ops, slots, end)

    def put_off(
        self, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, why: str, ms: int
    ) -> Slots:
        return self.write(finish_turn.schedule_retry, fence, caller, ops, slots, why, ms)

    def release(self, fence: turns.TurnFence) -> None:
        self.write(turns.release_lease, fence)

    def cancel_put_off(self, session: int, by: str) -> bool:
        return self.write(turns.cancel_put_off, session, turns.StopRequest(by))

    def stop(self, session: int, by: str) -> None:
        self.write(interventions.request_stop, session, turns.StopRequest(by))

    # ---- agents and what they call

    def spawn(self, session: int, agent: str, gateway: str, token: bytes) -> int:
        return self.write(spawns.record_start, session, agent, gateway, token)

    def spawned(self, spawn: int, pid: int) -> None:
        self.write(spawns.record_identity, spawn, pid, pid, "boot")

    def spawn_ended(self, spawn: int, why: str) -> None:
        self.write(spawns.record_end, spawn, why)

    def call(self, made: tool_calls.ToolCallRequest, what: claims.ClaimRequest) -> claims.ClaimResult:
        return self.write(tool_calls.record_call, made, what)

    def answered(self, token: bytes, call: str) -> None:
        self.write(tool_calls.mark_answered, token, call)

    # ---- parts

    def depart(self, asks: Mapping[str, send_queue.ChannelCapacity]) -> send_queue.DueParts:
        return self.write(send_queue.depart, asks)

    def receipt(self, part: int, outcome: send_queue.AttemptOutcome, rules: delivery.Rules) -> delivery.State:
        return self.write(send_queue.record_outcome, part, outcome, rules)

    def decide(self, part: int, decision: send_queue.Decision) -> Json:
        return self.write(send_queue.decide, part, decision)

    def recover(self, rules: Mapping[str, delivery.Rules]) -> Json:
        return self.write(send_queue.recover, rules)

    # ---- people

    def configure(
        self, listed: Collection[people.PersonAccount], roles: Mapping[str, str]
    ) -> list[people.PersonAccount]:
        return self.write(people.replace_configured, listed, roles)

    def put_person(self, account: people.PersonAccount) -> list[people.PersonAccount]:
        return self.write(people.save_account, account)

    def remove_person(self, channel: str, account: str) -> list[people.PersonAccount] | None:
        return self.write(people.remove_account, channel, account)

    def open_pairing(self, channel: str, digest: bytes, name: str, role: str, lasts: int) -> people.PairingCode:
        return self.write(people.add_code, channel, b"salt", digest, name, role, lasts)

    def redeem(self, code: int, account: str, key: str, called: str) -> list[people.PersonAccount] | None:
        return self.write(people.redeem_code, code, account, key, called)

    def void(self, code: int) -> bool:
        return self.write(people.void_code, code)

    def people(self) -> list[people.PersonAccount]:
        return self.read(people.list_accounts)

    # ---- reading

    def find(self, key: str) -> int | None:
        row = self.read(views.find_session, key)
        return None if row is None else row.id

    def unfinished(self) -> list[int]:
        return self.read(sessions.list_sessions_to_resume)

    def snapshot(self, session: int) -> Json:
        return self.read(views.read_snapshot, session, ALL)

    def since(self, session: int, rev: int, limit: int) -> tuple[int, list[Json]] | None:
        return self.read(views.read_changes, session, rev, limit)

    def said_in_root(self, root: int, home: str | None) -> list[str]:
        return [one.text for one in self.read(utterances.list_utterances, root, home) if one.home and one.text]

    def previews(self, session: int) -> int:
        return len(self.read(lambda tx: tx.all(EntryRow, "entries_live", session=session)))

    def broken(self) -> list[Any]:
        return [book for book in self.read(books.audit) if not book.ok]

    def claims(self) -> list[Claim]:
        return [Claim(*row) for row in self._rows(_CLAIMS)]

    def newest_claim(self) -> int:
        [(id,)] = self._rows("SELECT coalesce(max(id), 0) FROM claim")
        return int(id)

    def parts(self) -> list[Part]:
        return [Part(*row) for row in self._rows(f"{_PARTS} ORDER BY id")]

    def part(self, id: int) -> Part:
        [row] = self._rows(f"{_PARTS} WHERE id = {id}")
        return Part(*row)

    def claimed(self) -> list[Entry]:
        return [Entry(*row) for row in self._rows(_CLAIMED)]

    def conflicts(self) -> list[tuple[int, bytes]]:
        return [(event, bytes(digest)) for event, digest in self._rows("SELECT event, digest FROM conflict")]

    def quarantined(self) -> list[int]:
        return [row["event"] for row in self.read(channel_batch.list_quarantined, ALL)]

    def holds(self, text: str) -> list[str]:
        return self.read(_holds, text)

    def outputs(self) -> list[tuple[Json, str]]:
        return self.read(_outputs)

    def _rows(self, sql: str) -> list[Any]:
        return self.read(rows, sql)


@runs_body
def seen(
    tx: Tx, body: Callable[..., Any], *args: Any, cut: CutText | None = None
) -> tuple[Any, list[tuple[int, Json]]]:
    """A transaction, and what of it watchers must be sent. `cut`: the parts in which a text leaves."""
    tx.cut = cut
    result = body(tx, *args)
    return result, views.render_changes(tx)


def _new_chapter(tx: Tx, session: int) -> None:
    row = tx.get(SessionRow, "session_by_id", id=session)
    sessions.begin_chapter(tx, row)


def _holds(tx: Tx, text: str) -> list[str]:
    return [table for table in list_tables(tx) if any(text in str(row) for row in rows(tx, f"SELECT * FROM {table}"))]


def _outputs(tx: Tx) -> list[tuple[Json, str]]:
    found = []
    for row in rows(tx, "SELECT id FROM item WHERE kind = 'tool'"):
        item = tx.get(ItemRow, "item_get", id=row[0])
        whole = "".join(tx.values(str, "output_of_item", item=row[0]))
        found.append((views.item_json(tx, item), whole))
    return found
