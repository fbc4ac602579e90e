"""What the gateway does with the ledger, and a simple model of what must come of it: people, turns, agents.

Each method is something that happens; it holds the ledger's answer against the model. No choice is made here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from proof.machines.house import CHANNELS, HOMES, RULES, House, Process, Running, refused
from proof.machines.ledger import Make
from proof.machines.outgoing import OutgoingParts
from semel.acp_stream import Began, Ended
from semel.acp_stream.output_fields import NO_RESULT
from semel.gateway.turns.block_claims import BlockClaims
from semel.law import turn as law
from semel.ledger.delivery.claims import CUT_REASON, ClaimRequest
from semel.ledger.inbound import hear
from semel.ledger.turns import finish_turn, tool_calls, turn_ops, turns
from semel.text.verbatim import verbatim_form

REQUEST = 1 << 40


class Model(OutgoingParts):
    """One life of a ledger, with several gateways and many agents."""

    def __init__(self, make: Make) -> None:
        super().__init__(House(make))
        self.lease = "g0"
        self.waiting: dict[str, list[int]] = {k: [] for k in HOMES}  # events no turn has taken
        self.waking: dict[str, set[int]] = {k: set() for k in HOMES}
        self.bound: dict[str, list[int]] = {k: [] for k in HOMES}  # events of the unfinished turn
        self.shown: dict[str, set[int]] = {k: set() for k in HOMES}  # those that people were told to wait
        self.steering: dict[str, set[int]] = {k: set() for k in HOMES}  # those that are to join the running turn
        self.put_off_until: dict[str, int] = {}  # sessions whose turn is tried again, and when
        self.first: dict[tuple[str, str], tuple[int, bytes]] = {}  # (source, key) -> event, digest
        self.runs: dict[str, Running] = {}
        self.lost: set[str] = set()  # sessions whose turn was cut off
        self.ended: dict[int, str] = {}  # turns that are over, and how
        self.stopped: set[str] = set()  # sessions whose running turn a person wanted stopped
        self.turn: dict[str, int] = {}  # the newest turn of each session
        self.secrets = 0
        self.erasing: dict[str, list[str]] = {}  # sessions that are being erased, and what must not stay
        self.stale: list[Running] = []
        self.processes: list[Process] = []
        self.made: dict[tuple[int, str], tuple[bytes, Any]] = {}

    # ------------------------------------------------------------ hearing

    def hear(
        self, source: str, key: str | None, text: str, to: list[str], wakes: bool | None, busy: Any = None,
        at_once: bool = False,
    ) -> list[hear.Addressed]:  # fmt: skip
        """Something is heard. `wakes` None: a program's message, whose kind says whether it wakes. It does not.

        `at_once`: the turns of the sessions that it finds idle begin in the same transaction.
        """
        digest = sha256(text.encode()).digest()
        more = {"data": {"n": 10**40, "big": -(2**70)}} if key else None
        kind, automatic = "reaction" if wakes is False else "message", wakes is None
        event = hear.Event(source, key, kind, text, digest, "anna", more, wakes, busy, automatic)
        taken_over: list[turns.BegunTurn] = []
        start = hear.IdleStart(self.lease, lambda session: True, self._idle_spawn, taken_over.append)
        done = self.house.hear(event, *to, steering=self.runs.keys(), start=start if at_once else None)
        known = self.first.get((source, key)) if key is not None else None
        if known is not None:
            self._again(done, (source, key), known, digest)
            return []
        assert done.status == "accepted", f"Law 1: {(source, key)} is new, and was answered with {done.status!r}"
        due = tuple(self.house.ids[k] for k in to) if wakes else ()
        woken = tuple(what.session for what in done.addressed if what.act is not None or what.begun is not None)
        assert woken == due, f"Law 2: {kind} (by a program: {automatic}) woke {woken}"
        begun = [what.begun for what in done.addressed if what.begun is not None]
        assert begun == taken_over, f"Law 2: {begun} began, and {taken_over} were handed over"
        if key is not None:
            self.first[source, key] = done.event, digest
        self.waits(done, to, bool(wakes))
        for session, what in zip(to, done.addressed, strict=True):
            running = session in self.runs or session in self.lost
            assert what.act in ("wake", None) or running, f"Law 2: {what.act} where nothing runs, in {session}"
            if what.act == "steer":
                self.steering[session].add(done.event)
            if what.waiting is not None:
                place = len(self.shown[session] & set(self.waiting[session]))
                assert what.position == place, f"its place in the line of {session} is {place}, not {what.position}"
            if what.begun is not None:
                self._begins_at_once(session, what.begun)
            elif at_once and what.act == "wake" and what.waiting is None:
                assert running, f"Law 2: {session} was idle, and no turn began with the event that woke it"
        return list(done.addressed)

    def _idle_spawn(self, session: int) -> int | None:
        return next((p.spawn for p in self.processes if self.house.ids.get(p.session) == session and p.live), None)

    def _begins_at_once(self, key: str, begun: turns.BegunTurn) -> None:
        """A turn began in the transaction that heard its event."""
        assert key not in self.runs and key not in self.lost, f"Law 3: two turns at once in {key}"
        waits = [event.event for event in begun.events if event.entry_fields.get("waiting") is not None]
        assert not waits, f"Law 2: a turn began in {key}, and its events {waits} are to wait"
        self._binds(key, begun)
        idle = next((p for p in self.processes if p.session == key and p.live), None)
        self._ask(begun, idle or self._start(key), True, False, False)

    def _again(self, done: hear.HeardOutcome, name: object, known: tuple[int, bytes], digest: bytes) -> None:
        """Law 1: a repeat is answered with the first outcome; other content is recorded beside it."""
        status = "duplicate" if known[1] == digest else "conflict"
        assert done.status == status, f"Law 1: {name} was heard before: it is a {status}, not {done.status!r}"
        assert (done.event, done.stored_digest) == known, f"Law 1: {name} got another outcome than the first"
        assert done.woken_sessions == (), f"Law 2: {name} woke {done.woken_sessions} once more"
        kept = status == "duplicate" or (done.event, digest) in self.ledger.conflicts()
        assert kept, f"Law 1: the other content of {name} was not recorded"

    def unreadable(self, key: str, text: str) -> None:
        """A channel tells of what nobody can read."""
        digest = sha256(text.encode()).digest()
        event = hear.Event("channel:chat", key, "unreadable", text, digest, wakes=False)
        what = self.house.seen(self.ledger.unusable("chat", event, "it is no message"))
        known = self.first.setdefault(("channel:chat", key), (0, digest))
        if known[0]:
            assert what == ("duplicate" if known[1] == digest else "conflict"), f"Law 1: it was kept before: {what}"
            return
        assert what == "quarantined", f"Law 1: what cannot be read is quarantined, not {what}"
        newest = max(self.ledger.quarantined(), default=0)
        assert newest not in {event for event, _ in self.first.values()}, "Law 1: what cannot be read was not kept"
        assert newest, "Law 1: what cannot be read was not kept"
        self.first["channel:chat", key] = newest, digest

    def waits(self, done: hear.HeardOutcome, to: list[str], wakes: bool) -> None:
        """An event that was accepted waits in these sessions."""
        for session, what in zip(to, done.addressed, strict=True):
            self.waiting[session].append(done.event)
            if wakes:
                self.waking[session].add(done.event)
            if what.waiting is not None:
                self.shown[session].add(done.event)

    def answer(self, session: int, item: dict[str, Any], option: str | None) -> None:
        """A person answers a request, open or not."""
        was = item["state"]
        done = self.house.seen(self.ledger.answer(session, item["id"], option, "page", b"digest"))
        if was == "answered":
            due = "repeat" if (item.get("answer"), item.get("by")) == (option, "page") else "already"
        elif was != "open":
            due = "closed"
        elif item["kind"] == "permission" and option == "no":
            due = "no such option"
        else:
            due = "answered"
        assert done.status == due, f"an answer to a request that was {was} is {due!r}, not {done.status!r}"
        if done.outcome is not None:
            assert done.outcome.status == "accepted", f"Law 1: a first answer was {done.outcome.status!r}"
            [key] = [k for k, n in self.house.ids.items() if n == session]
            self.waits(done.outcome, [key], True)

    # ------------------------------------------------------------ turns

    def due(self) -> list[str]:
        return sorted(k for k in HOMES if k in self.lost or (self.waking[k] and k not in self.runs))

    def begin(self, key: str, restored: bool = True, complete: bool = False, unable: bool = False) -> None:
        """A session is served: what is due begins, and nothing else does."""
        if key not in self.house.ids:
            return
        idle = next((p for p in self.processes if p.session == key and p.live), None)
        begun = self.house.seen(self.ledger.begin(self.house.ids[key], self.lease, idle.spawn if idle else None))
        if begun is None:
            assert key in self.runs or not self.waking[key], f"Law 2: a wake of {key} was lost"
            assert key not in self.lost, f"Law 9: an interrupted turn of {key} was left alone"
            return
        assert key not in self.runs, f"Law 3: two turns at once in {key}"
        if isinstance(begun, turns.NotYetDue):
            wait, until = begun.wait_ms, self.put_off_until.get(key)
            right = until == self.house.now + wait if key in self.lost else self.waking[key] and wait <= 15_000
            assert right, f"Law 2: {key} waits for {wait} ms, and nothing there asks for that"
            return
        due = self.put_off_until.pop(key, 0)
        if isinstance(begun, turns.GivenUp):
            assert key in self.lost, f"Law 9: a turn of {key} was given up that was not lost"
            self._give_up(key, begun.turn)
            return
        assert due <= self.house.now, f"Law 9: {key} was tried again {due - self.house.now} ms before its time"
        self._binds(key, begun)
        self._ask(begun, idle or self._start(key), restored, complete, unable)

    def _give_up(self, key: str, turn: int) -> None:
        """It was failed, or a person had stopped it: here that is not told apart."""
        self.lost.discard(key)
        self.bound[key] = []
        self.ended[turn] = "over"
        self.stopped.discard(key)

    def _binds(self, key: str, begun: turns.BegunTurn) -> None:
        events = [e.event for e in begun.events]
        silent = self.house.telling.get(begun.session, set()) - {t.seq for t in begun.entries_to_tell}
        self.turn[key] = begun.turn
        assert not silent, f"Law 7: the agent of {key} is never told of the notices {sorted(silent)}"
        if begun.attempt == 1:
            assert self.waking[key], f"Law 2: a turn of {key} that nobody asked for"
            waits = sorted(self.waiting[key])
            assert sorted(events) == waits, f"Law 3: the turn of {key} took {events}, and {waits} waited"
            self.bound[key], self.waiting[key], self.waking[key] = events, [], set()
            self.stopped.discard(key)
            self.steering[key] = set()
        else:
            assert key in self.lost, f"Law 9: a turn of {key} is tried again that was not lost"
            assert key not in self.stopped, f"Law 9: a person stopped the turn of {key}, and it is tried again"
            assert events == self.bound[key], f"Law 3: a retry in {key} runs over {events}, not {self.bound[key]}"
            self.lost.discard(key)
            if begun.lost_turn is not None:
                self.ended[begun.lost_turn] = "lost"

    def begin_and_die(self, key: str) -> None:
        """The gateway dies when the turn has begun and its agent was not asked yet: that was no attempt."""
        if key not in self.house.ids or any(p.session == key and p.live for p in self.processes):
            return
        if key in self.lost or key in self.runs or not self.waking[key]:
            return
        begun = self.house.seen(self.ledger.begin(self.house.ids[key], "another gateway"))
        if not isinstance(begun, turns.BegunTurn):
            return
        self._binds(key, begun)
        again = self.house.seen(self.ledger.begin(self.house.ids[key], self.lease))
        assert isinstance(again, turns.BegunTurn), f"Law 2: what was begun in {key}, and never asked, is {again}"
        same = (again.turn, again.attempt) == (begun.turn, begun.attempt)
        assert same, f"Law 9: in {key} an agent that was never asked made an attempt"
        took = [e.event for e in again.events]
        assert took == self.bound[key], f"Law 3: the turn of {key} took {took}, and {self.bound[key]} were bound to it"
        with refused(turns.Fenced):
            fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
            self.ledger.asked(fence, "start", 1, "m", {})
            self.house.tell()
        self._ask(again, self._start(key), True, False, False)

    def _start(self, key: str) -> Process:
        token = b"token %d" % len(self.processes)
        spawn = self.house.seen(self.ledger.spawn(self.house.ids[key], "main", self.lease, token))
        self.ledger.spawned(spawn, 100 + spawn)
        self.house.tell()
        self.processes.append(Process(spawn, key, token))
        return self.processes[-1]

    def _ask(self, begun: turns.BegunTurn, process: Process, restored: bool, complete: bool, unable: bool) -> None:
        names = self.house.places.names(begun.key)
        run = Running(begun, process, BlockClaims(begun.key, begun.home, self.house.places, names), process.viewing)
        nxt = law.decide_after_loss(
            attempt=begun.attempt, tools_started=begun.has_started_tools, restored=restored, history_complete=complete
        )
        if begun.attempt > 1 and (unable or nxt.how == "give up"):
            told = turn_ops.Notice("failed", "turn.failed", True)
            end = finish_turn.End("errored", "error", nxt.reason or "it could not be started", notices=(told,))
            self.house.seen(self.ledger.finish(run.fence, run.caller, [], turn_ops.Slots(), end))
            self.bound[begun.key] = []
            self.ended[begun.turn] = "failed"
            return
        process.viewing.begin_turn(run.speech, begun.turn)
        run.slots = turn_ops.Slots(items={s: i for s, i in process.slots.items.items() if s in process.viewing.kinds})
        run.how = nxt.how if begun.attempt > 1 else "start"
        self.ledger.asked(run.fence, run.how, process.spawn, f"m{process.spawn}", {"modes": None, "n": 1})
        self.house.tell()
        run.speech.hold_back(self.ledger.said_in_root(begun.root, begun.home))
        self.runs[begun.key] = run
        process.turn = begun.turn

    def join(self, run: Running) -> None:
        """Messages are steered into a running turn: those that ask for it, and no others."""
        key = run.begun.key
        run.viewing.pending += run.speech.before_join()
        self.show(run)
        newest = self.house.newest()
        joined = [e.event for e in self.house.seen(self.ledger.join(run.fence))]
        if joined:
            self.house.joins(run.begun.turn, newest)
            run.viewing.pending += run.speech.after_join()
        asked = sorted(self.steering[key])
        assert joined == asked, f"Law 3: {joined} joined the running turn of {key}, and {asked} were to"
        self.steering[key] = set()
        self.waiting[key] = [e for e in self.waiting[key] if e not in joined]
        self.waking[key] -= set(joined)
        self.bound[key] = sorted([*self.bound[key], *joined])

    def put_off(self, run: Running) -> None:
        """The agent failed for a passing reason: the turn is tried again in five seconds, if it may be."""
        key = run.begun.key
        if law.delay_after_failure(attempt=run.begun.attempt, is_transient=True, retry_after=None) is None:
            self.finish(run, "errored")
            return
        ops = [*run.viewing.take_batch(), turn_ops.Notice("again", "retry")]
        run.slots = self.house.seen(self.ledger.put_off(run.fence, run.caller, ops, run.slots, "overloaded", 5_000))
        assert not self.ledger.previews(run.begun.session), f"Law 6: a preview outlived its turn in {key}"
        self._over(key)
        self.lost.add(key)
        self.put_off_until[key] = self.house.now + 5_000

    def stop(self, key: str) -> None:
        """A person stops a turn that waits to be tried again."""
        if key not in self.house.ids:
            return
        stopped = self.house.seen(self.ledger.cancel_put_off(self.house.ids[key], "anna"))
        told = "was not stopped" if key in self.put_off_until else "is not there, and was stopped"
        assert stopped == (key in self.put_off_until), f"Law 9: what waits to be tried again in {key} {told}"
        if stopped:
            del self.put_off_until[key]
            self._give_up(key, self.turn[key])
            self.ended[self.turn[key]] = "cancelled"

    def stop_running(self, key: str) -> None:
        """A person stops a running turn; its agent is told so, and may die before it obeys."""
        self.ledger.stop(self.house.ids[key], "anna")
        self.house.tell()
        self.stopped.add(key)

    def take(self, run: Running, *ops: Any, now: bool) -> None:
        """Operations of the fold, shown at once or with a later batch."""
        run.viewing.take(list(ops))
        if now:
            self.show(run)

    def show(self, run: Running, *ops: turn_ops.Op) -> None:
        home, batch = run.begun.home, [*run.viewing.take_batch(), *ops]
        if home is not None and self.house.places.streams(home) and run.speech.is_streaming:
            batch.append(turn_ops.Reserve(self.house.places.placeholder_leg(home, run.begun.key)))
        run.slots = self.house.seen(self.ledger.show(run.fence, run.caller, batch, run.slots))
        for _ in (op for op in ops if isinstance(op, turn_ops.Notice) and op.tell):
            self.house.is_to_be_told(run.begun.session, run.begun.chapter)

    def finish(self, run: Running, how: Any) -> None:
        key = run.begun.key
        stop = {"answered": "end_turn", "errored": "error", "cancelled": "cancelled"}[how]
        closing, legs = run.speech.closing()
        upto = max((t.seq for t in run.begun.entries_to_tell), default=0)
        told = (turn_ops.Notice("failed", "turn.failed"),) if how == "errored" else ()
        stopped = turns.StopRequest("anna") if how == "cancelled" else None
        unended = [slot for slot, one in run.viewing.call_fields.items() if one.get("status") in ("pending", "running")]
        run.viewing.take([Ended(slot, {"status": NO_RESULT}) for slot in unended])
        end = finish_turn.End(how, stop, None, upto, closing, legs, told, stopped=stopped)
        ops = [*run.viewing.take_batch(), *run.speech.leave(but_last=True)]
        run.slots, due = self.house.seen(self.ledger.finish(run.fence, run.caller, ops, run.slots, end))
        assert due == bool(self.waking[key]), f"Law 2: the end of a turn of {key} does not tell what is due: {not due}"
        assert not self.ledger.previews(run.begun.session), f"Law 6: a preview outlived its turn in {key}"
        self._over(key)
        self.bound[key] = []
        self.stopped.discard(key)
        self.ended[run.begun.turn] = {"answered": "done", "errored": "failed"}.get(how, how)
        self.house.was_told(run.begun.session, [t.seq for t in run.begun.entries_to_tell])
        self._left(key, run, closing)

    def _left(self, key: str, run: Running, closing: int | None) -> None:
        """Law 6: every part of the closing text left for the chat, or the very same text did so before."""
        if closing is None or (HOMES[key] or "").partition(":")[0] not in CHANNELS:
            return
        for one in run.speech.last_spoken:
            left = self._on_its_way(run.begun.root, HOMES[key], one.text)
            assert left, f"Law 6: {one.text!r} never left for {HOMES[key]}"

    def _on_its_way(self, root: int, dest: str | None, text: str) -> bool:
        leaving = {part.claim for part in self.ledger.parts()}
        said = [c for c in self.ledger.claims() if c.root == root and c.outcome == "said" and c.dest == dest]
        same = [c.id for c in said if verbatim_form(c.text) == verbatim_form(text)]
        cut = (c for c in self.ledger.claims() if c.root == root and c.reason == CUT_REASON and c.text == text)
        same += [c.echo_of for c in cut if c.echo_of is not None]  # it broke off in what leaves whole
        later = [c.id for c in said if c.how == "block" and c.id in leaving and same and c.id > same[-1]]
        return bool(leaving.intersection(same) or later)  # what left already was written after it

    def _over(self, key: str) -> None:
        run = self.runs.pop(key)
        run.process.slots = run.slots
        self.stale.append(run)

    def die(self, run: Running, shown: bool) -> None:
        """The agent dies under its turn."""
        if shown:
            self.show(run)
        self.ledger.release(run.fence)
        self.house.tell()
        self._over(run.begun.key)
        self.lost.add(run.begun.key)
        self._dead(run.process)

    def _dead(self, process: Process) -> None:
        process.live = False
        self.ledger.spawn_ended(process.spawn, "killed")
        self.house.tell()

    def restart(self) -> None:
        """The gateway dies, and the next one starts."""
        left = set(self.ledger.unfinished()) & set(self.house.ids.values())
        busy = {self.house.ids[k] for k in (*self.runs, *self.lost)}
        left_over = busy | {self.house.ids[k] for k in self.due()}
        assert left == left_over, f"Law 2: the next gateway finds {left} to do, and {left_over} are"
        self.lost.update(self.runs)
        for key in list(self.runs):
            self._over(key)
        for process in [p for p in self.processes if p.live]:
            self._dead(process)
        self.lease += "+"
        self.doubtful |= {part.id for part in self.ledger.parts() if part.state == "sending"}
        self.house.seen(self.ledger.recover(RULES))

    def goes_on(self, run: Running, text: str) -> None:
        """A turn that is over tries to go on (Law 10)."""
        if run.begun.key in self.lost:
            return  # until the next attempt begins, it is the turn of its session
        ops, end = [turn_ops.Preview(99, text)], finish_turn.End("answered", "end_turn")
        with refused(turns.Fenced):
            self.ledger.show(run.fence, run.caller, ops, run.slots)
        with refused(turns.Fenced):
            self.ledger.release(run.fence)
        with refused(turns.Fenced):
            self.ledger.finish(run.fence, run.caller, ops, run.slots, end)

    # ------------------------------------------------------------ deleting

    def delete(self, key: str) -> None:
        """What a session heard, once as it was and once contradicted, and what it thought, is deleted with it."""
        self.secrets += 1
        name, text = f"secret {self.secrets}", f"a secret, {self.secrets}."
        self.hear("api", name, text, [key], True)
        self.hear("api", name, f"another {text}", [key], True)
        if (run := self.runs.get(key)) is not None:
            self.take(run, Began(run.fresh(), "thought", {"text": text}), now=True)
        self.house.delete(key)
        if run is not None:
            self._over(key)
        for process in [p for p in self.processes if p.session == key and p.live]:
            self._dead(process)  # the gateway ends it
        if key in self.turn:
            self._give_up(key, self.turn[key])
        self.waiting[key], self.waking[key], self.steering[key] = [], set(), set()
        self.put_off_until.pop(key, None)
        self.erasing.setdefault(key, []).append(text)
        self.erase()
        self.hear("api", name, text, [key], True)

    def erase(self) -> None:
        """The content of deleted sessions goes, as far as nothing of it is still to leave; then none of it is there."""
        for key, texts in list(self.erasing.items()):
            while (what := self.house.seen(self.ledger.erase(self.house.ids[key]))) == "more":
                pass
            if what == "done":
                del self.erasing[key]
                left = {text: where for text in texts if (where := self.ledger.holds(text))}
                assert not left, f"{key} was deleted, and what it heard is still there: {left}"

    # ------------------------------------------------------------ tool calls

    def call(
        self, process: Process, call: str, conn: str, tool: str | None, kind: Any, text: str, to: str | None
    ) -> None:
        place = self.house.places.resolve(process.session, HOMES[process.session], to)
        legs = self.house.places.cut_legs(place.dest, process.session, text) if place.dest else ()
        more = {"options": ["a"]} if kind == "ask" else {}
        what = ClaimRequest("tool", text, place.dest, kind, place.home, legs, more, place.problem)
        args = f"{kind} {text} {to}".encode()
        made = tool_calls.ToolCallRequest(process.token, conn, f"{call}-{process.spawn}", args, tool)
        old = self.made.get((process.spawn, call))
        if old is not None and old[0] != args:
            with refused(tool_calls.CallIdReused):
                self.house.seen(self.ledger.call(made, what))
            return
        before = self.house.newest()
        done = self.house.seen(self.ledger.call(made, what))
        if old is not None:
            assert done == old[1], f"Law 5: the same call was answered with {old[1]}, and then with {done}"
            return
        self.made[process.spawn, call] = args, done
        self._judged(process, what, done, new=done.claim_id > before)

    def _judged(self, process: Process, what: ClaimRequest, done: Any, new: bool) -> None:
        """Law 10: a call is of the newest turn of its process. `new`: it is a claim of its own, and no re-issue."""
        run = self.runs.get(process.session)
        mine = run is not None and run.process is process
        state = "none" if process.turn is None else self.ended.get(process.turn, "running")
        fenced = not process.live or state in ("none", "cancelled", "lost")
        if state != "over" or not process.live or what.dest is None:
            refused = fenced or what.dest is None
            why = f"{'a live' if process.live else 'a dead'} process, its turn {state}, to {what.dest}"
            assert (done.outcome == "refused") == refused, f"Law 10: a call ({why}) was {done.outcome}"
        if new and state in ("running", "done", "failed") and done.outcome != "refused":
            [late] = [claim.late for claim in self.ledger.claims() if claim.id == done.claim_id]
            assert bool(late) == (state != "running"), f"Law 10: a call of a turn that is {state}; late: {bool(late)}"
        if done.outcome == "said" and run is not None and mine and what.is_home and what.kind == "text":
            run.speech.hold_back([what.text])

    def answered(self, process: Process, call: str) -> None:
        self.ledger.answered(process.token, f"{call}-{process.spawn}")
        self.house.tell()
