"""The ledger under whatever can happen to it, in any order: after every step all books hold and every view is true.

The choices. What they do, and what must come of it, stands in `model`. Another ledger is put under the same machine
by its factory:

    class Other(LedgerMachine):
        make = OtherLedger

or, for a run of the proof, by `--ledger MODULE:OtherLedger`.
"""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proof.machines.counted import Counted
from proof.machines.engines import ENGINE
from proof.machines.house import HOMES, NAMES, Running
from proof.machines.ledger import Make
from proof.machines.model import REQUEST, Model
from proof.machines.sayings import edit, said
from proof.machines.stored import StoredLedger
from semel.acp_stream import Began, Changed, Ended, Grew
from semel.law.wake import MODES, Busy
from semel.ledger.turns import turn_ops
from semel.text.wellformed import scrub

KEYS = st.sampled_from(sorted(HOMES))
WORDS = (
    "ha", "Report ready.", "Report  ready.", "Report", "e\u0301t\u00e9 \u05e9\u05dc\u05d5\u05dd \x00",
    "```\na  b\n```\nlong tail of words", "NO_REPLY", " ",
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(WORDS[:2]),
    st.sampled_from(WORDS[:2]),
    st.sampled_from(WORDS),
    st.text(st.characters(codec="utf-8"), max_size=20),
).map(lambda text: scrub(text) if ENGINE == "postgres" else text)
"""PostgreSQL holds no U+0000. What comes from outside has none any more when it reaches the ledger (`scrub`)."""
NAME = st.sampled_from([None, None, *NAMES])
ANSWERS = ("receipt", "receipt", "not sent", "refused", "silence", "found", "absent", "hold", "cannot tell")


class LedgerMachine(Counted):
    """One life of a ledger: people, turns, agents that die, tool calls, parts that leave, watchers."""

    make: ClassVar[Make] = StoredLedger

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(type(self).make)
        self.words = count(1)  # no text comes twice by chance

    def teardown(self) -> None:
        """The last claims may come of a transaction after which nothing was judged."""
        self.model.house.judge_echoes()
        self.model.ledger.close()

    @initialize()
    def someone_writes(self) -> None:
        self.model.hear("api", None, "hello", ["chat", "chat-too", "mail"], True)
        for key in ("chat", "mail"):
            self.model.begin(key)

    @rule(
        key=st.sampled_from([None, "m1", "m2", "m3"]), text=TEXTS, wakes=st.sampled_from([True, False, None]),
        served=st.booleans(), at_once=st.booleans(),
        to=st.lists(KEYS, min_size=1, max_size=3, unique=True), source=st.sampled_from(["api", "node"]),
        busy=st.sampled_from([None, None, *MODES]), later=st.sampled_from([0, 0, 400, 5_000]),
    )  # fmt: skip
    def hears(
        self, key: str | None, text: str, wakes: bool | None, served: bool, at_once: bool, to: list[str], source: str,
        busy: Busy | None, later: int,
    ) -> None:  # fmt: skip
        acts = self.model.hear(source, key, text, to, wakes, busy, at_once)
        self.model.house.now += later
        for session, what in zip(to, acts, strict=False):
            if served and what.act == "steer":
                self.model.join(self.model.runs[session])
            elif served and what.act == "interrupt" and session in self.model.runs:
                self.model.finish(self.model.runs[session], "cancelled")
        for session in to if served else ():
            self.model.begin(session)

    @rule(key=KEYS)
    def the_gateway_dies_before_it_asks(self, key: str) -> None:
        self.model.begin_and_die(key)

    @rule(key=st.sampled_from(["u1", "u2"]), text=TEXTS)
    def nobody_can_read_it(self, key: str, text: str) -> None:
        self.model.unreadable(key, text)

    @rule(key=KEYS, sure=st.integers(0, 3))
    def someone_deletes(self, key: str, sure: int) -> None:
        if sure == 3:
            self.model.delete(key)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), dies=st.sampled_from([None, False, True]))
    def someone_stops_what_runs(self, data: st.DataObject, dies: bool | None) -> None:
        """Its agent obeys later, or dies before it does, alone or with its gateway."""
        run = self._run(data)
        self.model.stop_running(run.begun.key)
        if dies is not None:
            self.model.restart() if dies else self.model.die(run, shown=True)
            self.model.begin(run.begun.key)

    @rule(key=KEYS)
    def someone_stops_what_waits(self, key: str) -> None:
        self.model.stop(key)

    @rule(data=st.data(), restored=st.booleans(), complete=st.sampled_from([False, False, True]), odd=st.integers(0, 9))
    def serves(self, data: st.DataObject, restored: bool, complete: bool, odd: int) -> None:
        due = self.model.due()
        key = data.draw(st.sampled_from(due if due and odd else sorted(HOMES)))
        self.model.begin(key, restored, complete, unable=odd == 9)

    # ------------------------------------------------------------ what an agent does

    def _run(self, data: st.DataObject) -> Running:
        return self.model.runs[data.draw(st.sampled_from(sorted(self.model.runs)), label="session")]

    @precondition(lambda self: self.model.runs)
    @rule(
        data=st.data(),
        texts=st.lists(TEXTS, min_size=1, max_size=3),
        to=NAME,
        on=st.booleans(),
        end=st.booleans(),
        now=st.booleans(),
    )
    def talks(self, data: st.DataObject, texts: list[str], to: str | None, on: bool, end: bool, now: bool) -> None:
        run = self._run(data)
        if run.speech.open_blocks and on:
            slot = max(run.speech.open_blocks)
        else:
            slot = run.fresh()
            self.model.take(run, Began(slot, "message", {"role": "agent", "text": ""}), now=False)
        if to is not None:
            texts = [f'<message to="{to}">', *texts, "</message>"]
        self.model.take(run, *(Grew(slot, t) for t in texts), now=now)
        if end:
            self.model.take(run, Ended(slot, {}), now=data.draw(st.booleans()))

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), text=TEXTS)
    def says_one_thing(self, data: st.DataObject, text: str) -> None:
        run = self._run(data)
        slot = run.fresh()
        self.model.take(run, Began(slot, "message", {"role": "agent", "text": text}), Ended(slot, {}), now=True)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), text=st.one_of(st.just(""), TEXTS), now=st.booleans())
    def takes_back(self, data: st.DataObject, text: str, now: bool) -> None:
        """A re-delivery was recognised: the block's text is another; or it was said again in full."""
        run = self._run(data)
        if run.speech.open_blocks:
            slot = data.draw(st.sampled_from(sorted(run.speech.open_blocks)))
            self.model.take(run, Changed(slot, {"text": text}), now=now)
        elif run.slots.entries:
            slot = data.draw(st.sampled_from(sorted(run.slots.entries)))
            later = data.draw(
                st.sampled_from([*sorted(other for other in run.slots.entries if other > slot), run.fresh()])
            )
            self.model.take(run, Changed(slot, {"superseded": True, "superseded_by": later}), now=now)

    @precondition(lambda self: self.model.runs)
    @rule(
        data=st.data(), kind=st.sampled_from(["tool", "tool", "thought", "plan"]), text=TEXTS, new=st.booleans(),
        now=st.booleans(), step=st.sampled_from(["grow", "grow", "grow", "replace", "change", "end"]),
    )  # fmt: skip
    def works(self, data: st.DataObject, kind: str, text: str, new: bool, now: bool, step: str) -> None:
        run = self._run(data)
        if kind == "tool":  # what a terminal writes over
            text = text.replace(" ", "\r").replace("R", "\x1b[3").replace("d", "\x1b[Kd")
        known = [s for s, k in run.viewing.kinds.items() if k == kind]
        if not known or new:
            call = {"title": "t", "status": "running", "call": f"T{len(known)}", "input": {"n": 2**80}}
            fields: Any = {"tool": call, "plan": {"entries": []}}.get(kind, {})
            self.model.take(run, Began(run.fresh(), kind, {**fields, "text": text}), now=now)
            return
        slot = data.draw(st.sampled_from(known))  # of this turn or an earlier one, live or long over
        op: Any = Grew(slot, text)
        if step == "replace":
            op = Changed(slot, {"text": text})
        elif step != "grow":
            op = (Changed if step == "change" else Ended)(slot, {"status": "done", "exit": None})
        self.model.take(run, op, now=now)

    @precondition(lambda self: self.model.runs)
    @rule(
        data=st.data(),
        text=TEXTS,
        what=st.sampled_from(["notice", "told there", "title", "about", "permission", "nothing"]),
    )
    def tells(self, data: st.DataObject, text: str, what: str) -> None:
        run = self._run(data)
        asked = {"state": "open", "options": [{"optionId": "yes"}]}
        ops: dict[str, turn_ops.Op] = {
            "notice": turn_ops.Notice(text, "retry", tell=bool(text)),
            "told there": turn_ops.Notice(f"It is tried again. {text}", "turn.retry"),
            "title": turn_ops.Title(text),
            "about": turn_ops.About({"mode": text, "commands": None}),
            "permission": turn_ops.ItemOpen(REQUEST + run.fresh(), "permission", "r", body=asked),
        }
        self.model.show(run, *([ops[what]] if what in ops else []))

    @precondition(lambda self: self.model.processes)
    @rule(
        data=st.data(), text=TEXTS, to=NAME, call=st.sampled_from([f"k{n}" for n in range(9)]),
        conn=st.sampled_from(["c1", "c2"]), tool=st.sampled_from([None, None, "T0", "T1"]),
        kind=st.sampled_from(["text", "text", "text", "ask", "reaction"]),
        answered=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def calls(
        self, data: st.DataObject, text: str, to: str | None, call: str, conn: str, tool: str | None, kind: str,
        answered: bool,
    ) -> None:  # fmt: skip
        asked = [run.process for run in self.model.runs.values()]
        process = data.draw(st.sampled_from([*self.model.processes, *asked, *asked]))
        self.model.call(process, call, conn, tool, kind, text, to)
        if not answered:  # nobody saw the answer: a tool server that was started anew makes it again
            self.model.call(process, f"{call} again", f"{conn}, later", tool, kind, text, to)
        if answered:
            self.model.answered(process, call)

    @precondition(lambda self: self.model.runs)
    @rule(
        data=st.data(), how=st.sampled_from(["answered", "answered", "answered", "errored", "cancelled", "overloaded"]),
        fails=st.booleans(), asked=st.booleans(),
    )  # fmt: skip
    def ends(self, data: st.DataObject, how: str, fails: bool, asked: bool) -> None:
        """`fails`: something did meanwhile, that its agent is to be told of; `asked`: it is asked again at once."""
        run = self._run(data)
        if fails:
            self.model.show(run, turn_ops.Notice("It did not get through.", "retry", tell=True))
        for slot in list(run.speech.open_blocks):
            self.model.take(run, Ended(slot, {"partial": True} if how != "answered" else {}), now=False)
        if how == "overloaded":
            self.model.put_off(run)
        else:
            self.model.finish(run, how)
        if asked:
            self.model.hear("api", None, "go on", [run.begun.key], True)
            self.model.begin(run.begun.key)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), told=st.booleans(), elsewhere=st.booleans())
    def it_says_one_thing_and_semel_another(self, data: st.DataObject, told: bool, elsewhere: bool) -> None:
        """Before a notice leaves for its chat, what the turn said leaves; where it said nothing there, that is told."""
        run = self._run(data)
        text = f"told {run.fresh()}"
        if told:
            slot = run.fresh()
            self.model.take(run, Began(slot, "message", {"role": "agent", "text": text}), Ended(slot, {}), now=True)
            self.model.show(run, turn_ops.Notice("It is tried again.", "turn.retry"))
        kind, name = ("text", "post") if elsewhere else ("reaction", None)
        self.model.call(run.process, text, "c1", None, kind, text, name)
        for slot in list(run.speech.open_blocks):
            self.model.take(run, Ended(slot, {}), now=False)
        self.model.finish(run, "answered")

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def a_later_message_joins(self, data: st.DataObject) -> None:
        """One message waits for the next turn, and the one after it joins this one, which ends."""
        run = self._run(data)
        key = run.begun.key
        self.model.hear("api", None, "and then", [key], True, "queue")
        self.model.hear("api", None, "no, wait", [key], True, "steer")
        self.model.join(run)
        self.model.finish(run, "answered")
        self.model.begin(key)

    def _says(self, run: Running, text: str) -> None:
        slot = run.fresh()
        self.model.take(run, Began(slot, "message", {"role": "agent", "text": text}), Ended(slot, {}), now=True)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), dies=st.booleans())
    def a_later_question_is_answered_in_the_same_words(self, data: st.DataObject, dies: bool) -> None:
        """A tool answered the first one; the second one joins; an agent that dies then goes on with it."""
        run = self._run(data)
        key, text = run.begun.key, f"done {next(self.words)}"
        self.model.call(run.process, text, "c1", None, "text", text, None)
        self.model.hear("api", None, "and this", [key], True, "steer")
        self.model.join(run)
        if dies and key not in self.model.stopped:
            self.model.die(run, shown=True)
            self.model.begin(key)
        if (again := self.model.runs.get(key)) is not None:
            self._says(again, text)
            assert said(self.model, text), f"Law 5: the second question of {key} was answered, and nobody reads it"

    @precondition(lambda self: {"page", "chat", "mail"} & self.model.runs.keys())
    @rule(data=st.data())
    def it_breaks_off_in_what_a_tool_sent(self, data: st.DataObject) -> None:
        """Its person has those words: nobody is shown or sent their beginning."""
        run = self.model.runs[data.draw(st.sampled_from(sorted({"page", "chat", "mail"} & self.model.runs.keys())))]
        text = f"report {next(self.words)} is ready"
        self.model.call(run.process, text, "c1", None, "text", text, None)
        sent = next((claim for claim in self.model.ledger.claims()[::-1] if claim.text == text), None)
        if sent is None or sent.outcome != "said":
            return
        run.speech.hold_back([text])
        slot, cut = run.fresh(), text[:-3]
        broken = Began(slot, "message", {"role": "agent", "text": cut}), Ended(slot, {"partial": True})
        self.model.take(run, *broken, now=True)
        assert not said(self.model, cut), f"Law 5: {cut!r} broke off in what was sent, and is said"

    @precondition(lambda self: {"page", "chat", "mail"} & self.model.runs.keys())
    @rule(data=st.data(), goes=st.booleans())
    def it_edits_what_it_sent_and_says_both_texts(self, data: st.DataObject, goes: bool) -> None:
        """Nobody reads the old text any more; the new one everybody does."""
        run = self.model.runs[data.draw(st.sampled_from(sorted({"page", "chat", "mail"} & self.model.runs.keys())))]
        old, new = f"old {next(self.words)}", f"new {next(self.words)}"
        self.model.call(run.process, old, "c1", None, "text", old, None)
        sent = next(claim for claim in self.model.ledger.claims()[::-1] if claim.text == old)
        if sent.outcome != "said":
            return
        if goes:
            self.model.depart(3)
        edit(self.model, run.process, f"edit {new}", sent.id, new)
        self._says(run, old)
        assert said(self.model, old), f"Law 5: {old!r} was edited, and is not said again"
        self._says(run, new)
        assert not said(self.model, new), f"Law 5: {new!r} stands there, and is said again"

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), to=st.sampled_from(["home", "post", "hook", "nobody"]), cuts=st.integers(1, 9))
    def it_says_several_things_in_one_block(self, data: st.DataObject, to: str, cuts: int) -> None:
        """Each of them is judged for itself, and none is glued to another."""
        run = self._run(data)
        told, other, rest = (f"{word} {next(self.words)}" for word in ("kept", "other", "rest"))
        self.model.call(run.process, told, "c1", None, "text", told, None)
        text = f'{other}<message to="{to}">body {told}</message>{told}<message to="home">{rest}</message>'
        slot = run.fresh()
        pieces = [text[n : n + cuts] for n in range(0, len(text), cuts)]
        grows = (Grew(slot, piece) for piece in pieces)
        self.model.take(
            run, Began(slot, "message", {"role": "agent", "text": ""}), *grows, Ended(slot, {}), now=True
        )  # fmt: skip
        made = [(claim.text, claim.outcome) for claim in self.model.ledger.claims() if claim.outcome != "quiet"][-4:]
        heard, again = "refused" if to == "nobody" else "said", "echo" if HOMES[run.begun.key] else "said"
        due = [(other, "said"), (f"body {told}", heard), (told, again), (rest, "said")]
        assert made == due, f"Law 5: one block said {made}, and not {due}"

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def it_tells_three_places_the_same(self, data: st.DataObject) -> None:
        """Two others, and then whom it answers: what was sent to one place is no echo at another."""
        run = self._run(data)
        text = f"to all {next(self.words)}"
        for name in ("post", "hook"):
            self.model.call(run.process, f"{text} {name}", "c1", None, "text", text, name)
        self._says(run, text)
        if HOMES[run.begun.key] != "mail:2":  # that is "post"
            assert said(self.model, text), f"Law 5: {text!r} was sent elsewhere, and is not said at home"

    @precondition(lambda self: {"chat", "chat-too", "mail"} & self.model.runs.keys())
    @rule(data=st.data(), what=st.sampled_from(["refused", "refused", "receipt"]))
    def it_says_again_what_came_to_nothing(self, data: st.DataObject, what: str) -> None:
        """A tool tells its person something, its platform refuses that, and then it is said once more."""
        run = self.model.runs[data.draw(st.sampled_from(sorted({"chat", "chat-too", "mail"} & self.model.runs.keys())))]
        text = f"told {run.fresh()}"
        self.model.call(run.process, text, "c1", None, "text", text, None)
        self.model.depart(3)
        for one in [one for one in self.model.sent if one.op.get("text") == text]:
            self.model.settle(one, what)
        slot = run.fresh()
        self.model.take(run, Began(slot, "message", {"role": "agent", "text": text}), Ended(slot, {}), now=True)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), dies=st.booleans())
    def a_preview_is_rewritten_while_a_watcher_is_away(self, data: st.DataObject, dies: bool) -> None:
        """It grows on before they return; and where its agent dies then, every word of it stays."""
        run, house = self._run(data), self.model.house
        slot, session, n = run.fresh(), run.begun.session, next(self.words)
        began = Began(slot, "message", {"role": "agent", "text": ""})
        self.model.take(run, began, Grew(slot, f"first {n}"), now=True)
        house.come_back(session, 1000)
        self.model.take(run, Changed(slot, {"text": f"another {n} "}), now=True)
        self.model.take(run, Grew(slot, "and on"), now=True)
        house.come_back(session, 1000)
        if dies:
            shown = [e["text"] for e in house.clients[session].entries.values() if e.get("live")]
            self.model.die(run, shown=True)
            self.model.begin(run.begun.key)
            stands = [e["text"] for e in house.clients[session].entries.values() if e.get("partial")]
            lost = [text for text in shown if text not in stands]
            assert not lost, f"Law 6: {lost} was shown when its agent died, and no entry is that"

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), shown=st.booleans(), again=st.booleans(), restored=st.booleans(), all=st.integers(0, 5))
    def something_dies(self, data: st.DataObject, shown: bool, again: bool, restored: bool, all: int) -> None:
        """An agent, or now and then the gateway and every agent with it."""
        key = self._run(data).begun.key
        if all == 5:
            self.model.restart()
        else:
            self.model.die(self.model.runs[key], shown)
        if again:
            self.model.begin(key, restored)
            self._say_again(key)

    def _say_again(self, key: str) -> None:
        """Asked once more, an agent says what it said."""
        run = self.model.runs.get(key)
        if run is None:
            return
        for text in self.model.ledger.said_in_root(run.begun.root, HOMES[key])[:2]:
            slot = run.fresh()
            self.model.take(run, Began(slot, "message", {"role": "agent", "text": text}), Ended(slot, {}), now=True)

    @precondition(lambda self: self.model.stale)
    @rule(data=st.data(), text=TEXTS)
    def a_stale_turn_goes_on(self, data: st.DataObject, text: str) -> None:
        self.model.goes_on(data.draw(st.sampled_from(self.model.stale)), text)

    # ------------------------------------------------------------ people and platforms

    @precondition(lambda self: self.model.house.clients)
    @rule(data=st.data(), option=st.sampled_from(["yes", "no", None]), mode=st.sampled_from([None, "plan", "code"]))
    def someone_steers(self, data: st.DataObject, option: str | None, mode: str | None) -> None:
        """A request is answered; or a mode is set; or a chapter begins."""
        house = self.model.house
        asked = [
            (s, i) for s, c in house.clients.items() for i in c.items.values() if i["kind"] in ("permission", "ask")
        ]
        session = data.draw(st.sampled_from(sorted(house.clients)))
        if asked and option is not None:
            self.model.answer(*data.draw(st.sampled_from(asked)), option)
        elif mode is not None:
            house.ledger.set_about(session, {"mode": mode})
            house.tell()
        else:
            house.ledger.new_chapter(session)
            house.tell()

    @rule(room=st.integers(0, 3), jump=st.sampled_from([-5, 0, 1, 1_000, 100_000]))
    def parts_depart(self, room: int, jump: int) -> None:
        self.model.house.now += jump
        self.model.depart(room)

    @precondition(lambda self: self.model.sent)
    @rule(data=st.data(), what=st.sampled_from(ANSWERS), next=st.booleans())
    def a_part_is_settled(self, data: st.DataObject, what: str, next: bool) -> None:
        sent = self.model.sent
        self.model.settle(sent[-1] if next else data.draw(st.sampled_from(sent)), what)

    @precondition(lambda self: self.model.sent)
    @rule(data=st.data(), decision=st.sampled_from(["resend", "arrived", "drop"]))
    def someone_decides(self, data: st.DataObject, decision: Any) -> None:
        if held := self.model.held():
            self.model.decide(data.draw(st.sampled_from(held)), decision)

    @rule(limit=st.sampled_from([2, 5, 1000, 1000]))
    def watchers_come_back(self, limit: int) -> None:
        for key, session in self.model.house.ids.items():
            if key not in self.model.house.gone:
                self.model.house.come_back(session, limit)

    @invariant()
    def all_books_hold_and_every_view_is_true(self) -> None:
        self.model.house.check()
