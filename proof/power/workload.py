"""A script of every transaction that a ledger knows, through a recorder. What it does is the same for the same seed.

Turns, tool calls and parts go through the model of the machines (`proof.machines.model`), which holds each answer
against what must come of it; the rest is asked for here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from proof.machines.house import HOMES, Running, short_outputs
from proof.machines.model import REQUEST, Model
from proof.machines.stored import StoredLedger, seen
from proof.power.recorder import Call, Recorder, Recording
from semel.acp_stream import Began, Changed, Ended, Grew
from semel.ledger import people
from semel.ledger.admin import erase, export, import_session
from semel.ledger.admin.import_file import check_file, read_lines
from semel.ledger.inbound import channel_batch, commands, hear, schedules
from semel.ledger.people import PersonAccount
from semel.ledger.storage.rows import ScheduleRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import job_calls, sessions, summary, tool_calls, turn_ops
from semel.timing.schedule import Firings

WORDS = ("once", "said", "shown", "sent", "heard", "kept", "told", "never", "twice", "lost", "books", "message", "disk")
RECEIPTS = ("receipt", "silence", "not sent", "receipt", "refused", "silence", "receipt")


class RecordedLedger(StoredLedger):
    """The ledger of the machines, on a recorder: each transaction that changes something is acknowledged by name."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder.clock, recorder.store)
        self.recorder = recorder

    def _commit(self, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return self.recorder.commit(body.__name__.strip("_"), partial(seen, cut=self.cut), body, *args)

    def read(self, body: Callable[..., Any], *args: Any) -> Any:
        return self.recorder.look(body, *args)

    def close(self) -> None:
        self.recorder.close()


class Script:
    """What happens, in order."""

    def __init__(self, folder: Path, sync: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.model = Model(lambda clock: RecordedLedger(Recorder(folder, clock, sync, seed)))
        ledger: Any = self.model.ledger
        self.ledger: RecordedLedger = ledger
        self.disk: Recorder = self.ledger.recorder
        self.number = 0

    def do(self, body: Callable[..., Any], *args: Any) -> Any:
        """A transaction that the model does not know; whoever watches is sent its changes."""
        return self.model.house.seen(self.ledger.write(body, *args))

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def words(self, most: int = 40) -> str:
        return " ".join(self.dice.choice(WORDS) for _ in range(self.dice.randint(1, most))) + f" {self.fresh()}"

    # ---- sources

    def someone_writes(self) -> None:
        """Known and new, again and with other content, in one session and in several, waking and not."""
        model, n = self.model, self.fresh()
        text = self.words(200)
        model.hear("api", f"m{n}", text, ["chat", "page"], True)
        model.hear("api", f"m{n}", text, ["chat", "page"], True)
        model.hear("api", f"m{n}", "something else", ["chat"], True)
        model.hear("node", None, self.words(), ["mail", "job"], True, at_once=True)  # their turns begin with it
        model.hear("node", f"r{n}", "+1", ["chat-too"], False)
        model.house.now += 4_000

    def many_write_at_once(self, n: int) -> None:
        """Callers that wait for one sync of the disk; one of them is refused by the law, and undoes only itself."""
        to = [hear.Addressee(f"group-{self.fresh()}", "main", None)]
        told: list[Call] = [(f"hear {one}", hear.hear, (self.event("api", f"g{self.fresh()}"), to)) for one in range(n)]
        self.disk.together(told)

    def event(self, source: str, key: str, kind: str = "message", **more: Any) -> hear.Event:
        text = self.words()
        return hear.Event(source, key, kind, text, text.encode()[:16], "anna", wakes=None, **more)

    def a_channel_tells(self) -> None:
        """A batch and its cursor; what cannot be used is quarantined; a file is kept, held, let go."""
        n = self.fresh()
        file = {"id": f"blob-{n}", "name": "a.txt", "mime": "text/plain", "size": 3}
        self.do(channel_batch.record_file, f"blob-{n}", 3, "a.txt", "text/plain")
        self.do(channel_batch.record_file, f"lost-{n}", 3, "b.txt", "text/plain")
        to = hear.Addressee("main:chat:9", "main", "chat:9")
        with_file = self.event("channel:chat", f"c{n}", more={"files": [file]})
        items = [
            channel_batch.MessageItem(with_file, to, "9", "anna-1", True, "Anna", (f"blob-{n}",)),
            channel_batch.MessageItem(with_file, to, "9", "anna-1", True),
            channel_batch.UnreadableInput(self.event("channel:chat", f"odd{n}", "unreadable"), "nobody can read it"),
            channel_batch.DeliveryFailureReport(self.event("channel:chat", f"fail{n}", "failed"), "no-such-receipt"),
            channel_batch.OwnMessageReport("no-such-key", "x1"),
        ]
        self.do(
            channel_batch.record_batch, "chat", "channel:chat", items, f"cursor {n}", [f"lost-{n}"], ["chat", "mail"]
        )
        self.do(erase.forget_files, self.ledger.read(erase.list_unheld_files))

    def people_come_and_go(self) -> None:
        n = self.fresh()
        self.do(
            people.replace_configured, [PersonAccount("chat", "anna-1", "anna", "owner", "config")], {"anna": "owner"}
        )
        code = self.do(people.add_code, "chat", b"salt", b"digest %d" % n, "", "guest", 600_000)
        self.do(people.redeem_code, code.id, f"bo-{n}", f"pair{n}", "Bo")
        void = self.do(people.add_code, "mail", b"salt", b"void %d" % n, "bo", "guest", 600_000)
        self.do(people.void_code, void.id)
        self.do(people.save_account, PersonAccount("mail", f"bo-{n}", f"dora-{n}", "member", "added"))
        self.do(people.remove_account, "mail", f"bo-{n}")

    # ---- turns

    def serve(self, key: str) -> Running | None:
        self.model.begin(key)
        return self.model.runs.get(key)

    def talk(self, run: Running, text: str, end: bool = True) -> None:
        """A block, in batches."""
        slot, half = run.fresh(), len(text) // 2
        self.model.take(run, Began(slot, "message", {"role": "agent", "text": ""}), Grew(slot, text[:half]), now=True)
        self.model.take(run, Grew(slot, text[half:]), now=True)
        if end:
            self.model.take(run, Ended(slot, {}), now=False)

    def work(self, run: Running) -> None:
        """Thoughts, a plan, a tool with more output than is shown, a notice, a title; a request, and its answer."""
        tool = {"title": "make", "status": "running", "call": f"T{self.fresh()}", "input": {"n": 1}, "text": "begins\n"}
        slot = run.fresh()
        self.model.take(run, Began(slot, "tool", tool), Grew(slot, self.words(60)), now=True)
        self.model.take(run, Changed(slot, {"text": self.words(30)}), Ended(slot, {"status": "done"}), now=True)
        self.model.take(run, Began(run.fresh(), "thought", {"text": self.words()}), now=False)
        body = {"state": "open", "options": [{"optionId": "yes", "kind": "allow_once", "name": "Yes"}]}
        asked = REQUEST + run.fresh()
        opened = turn_ops.ItemOpen(asked, "permission", "r", body=body)
        self.model.show(run, turn_ops.Notice(self.words(), "retry", True), turn_ops.Title(self.words(5)), opened)
        item = run.slots.items[asked]
        watched = self.model.house.clients[run.begun.session].items[item]
        self.model.answer(run.begun.session, dict(watched), "yes")

    def say_by_tool(self, run: Running) -> None:
        """Texts, a question, the same call handed over twice, one made again, one that is refused."""
        process, n, text = run.process, self.fresh(), self.words()
        self.model.call(process, f"k{n}", "c1", None, "text", text, None)
        self.model.call(process, f"k{n}", "c1", None, "text", text, None)
        self.model.call(process, f"k{n} again", "c2", None, "text", text, None)
        self.model.answered(process, f"k{n}")
        self.model.call(process, f"room{n}", "c1", None, "text", self.words(), "room")
        self.model.call(process, f"hook{n}", "c1", f"T{n}", "text", self.words(), "hook")
        self.model.call(process, f"ask{n}", "c1", None, "ask", "Shall I?", None)
        self.model.call(process, f"nowhere{n}", "c1", None, "text", self.words(), "nowhere")
        made = tool_calls.ToolCallRequest(process.token, "c1", f"job{n}-{process.spawn}", b"job %d" % n)
        wanted = job_calls.JobRequest(f"run-{n}", "true", "", 60.0)
        self.do(job_calls.request_job, made, wanted, job_calls.JobLimits(9, 9))
        home = HOMES[run.begun.key]
        report = self.event(
            f"api:{run.begun.key}", f"run-{n}:exec.finished", "exec.finished", more={"data": {"exit": 0}}
        )
        done = self.do(hear.hear, report, [hear.Addressee(run.begun.key, "main", home)])
        self.model.waits(done, [run.begun.key], True)

    def a_turn(self, key: str, how: str = "answered") -> None:
        run = self.serve(key)
        if run is None:
            return
        self.talk(run, self.words(120))
        self.work(run)
        self.say_by_tool(run)
        self.model.hear("api", f"steer{self.fresh()}", self.words(), [key], True, "steer")
        self.model.join(run)
        self.talk(run, self.words(30), end=how == "answered")
        self.model.finish(run, how)

    def a_turn_is_lost(self, key: str) -> None:
        """Its agent dies, it is restarted and says the same again; then it fails for a while, and is stopped."""
        run = self.serve(key)
        if run is None:
            return
        text = self.words()
        self.talk(run, text)
        self.talk(run, self.words(), end=False)
        self.model.die(run, shown=True)
        again = self.serve(key)
        assert again is not None
        self.talk(again, text)
        self.model.put_off(again)
        self.model.stop(key)

    # ---- parts

    def parts_leave(self) -> None:
        for n in range(6):
            self.model.depart(3)
            for one in self.model.sent[-3:]:
                self.model.settle(one, RECEIPTS[(n + one.part) % len(RECEIPTS)])
            self.model.house.now += 2_000
            for one in self.model.sent[-2:]:
                self.model.settle(one, "found" if n % 2 else "absent")
        for n, part in enumerate(self.model.held()):
            self.model.decide(part, ("resend", "arrived", "drop")[n % 3])

    # ---- sessions

    def commands_and_chapters(self) -> None:
        to = hear.Addressee("main:chat:9", "main", "chat:9")
        for name in ("status", "new"):
            told = self.event("channel:chat", f"cmd{self.fresh()}", commands.KIND, command=(name, ""))
            done = self.do(hear.hear, told, [to])
            self.do(commands.answer, done.event, done.addressed[0].session, self.words())
        session = self.model.house.ids["page"]
        self.do(sessions.rename, session, self.words(4))
        self.do(sessions.archive, session, True)
        self.do(sessions.archive, session, False)
        self.ledger.set_about(session, {"mode": self.words(3)})
        self.model.house.tell()
        self.ledger.new_chapter(self.model.house.ids["job"])
        self.model.house.tell()

    def a_summary(self) -> None:
        run = self.serve("mail")
        if run is not None:
            covers = summary.SummaryScope(1, 1, run.begun.root, 1)
            self.do(summary.add, run.fence, self.words(), covers)
            self.model.finish(run, "answered")

    def a_schedule_fires(self) -> None:
        n = self.fresh()
        told = schedules.ScheduleDefinition(
            f"daily-{n}", f"schedule:{n}", self.words(), "every", "1h", "UTC", "once", "api", 3_600
        )
        self.do(schedules.add, told)
        row = self.ledger.read(lambda tx: tx.one(ScheduleRow, "schedule_get", name=told.name))
        self.do(schedules.fire, row, hear.Addressee(told.session, "main", None), Firings((3_600,), 1), 7_200)
        self.do(schedules.pause, told.name)

    def a_session_is_copied_and_deleted(self) -> None:
        """Exported, imported under another key, in steps; then the copy is deleted, and erased piece by piece."""
        number, key = self.ledger.find("main:chat:9"), f"copy-{self.fresh()}"
        lines = self.ledger.read(exported, number)
        checked, to = check_file(lines), hear.Addressee(key, "main", f"web:{key}")
        stand = self.do(import_session.begin_import, to, checked)
        records = [record for _, record in read_lines(lines)]
        for at in range(0, len(records), 25):
            stand = self.do(import_session.import_lines, stand, to, checked, records[at : at + 25])
        self.do(import_session.finish_import, stand, to, checked)
        self.do(sessions.delete, stand.session)
        while self.do(erase.erase_step, stand.session) == "more":
            pass

    # ---- the disk and the gateway

    def the_disk_fails(self) -> None:
        """Callers are told that it was not accepted; what comes next is."""
        if self.disk.sync != "full":
            return  # whoever does not wait for the disk does not hear of it
        to = [hear.Addressee("page", "main", HOMES["page"])]
        for kind, error in (("sync", apsw.IOError("no answer")), ("write", apsw.FullError("no room"))):
            self.disk.refused(kind, error, "hear", hear.hear, self.event("api", f"refused{self.fresh()}"), to)

    def the_gateway_restarts(self) -> None:
        self.model.restart()
        self.disk.reopen()
        self.ledger.store = self.disk.store

    def a_short_round(self) -> None:
        """A little of it: single commits, a group, a turn, a checkpoint, a disk that fails, a restart."""
        self.people_come_and_go()
        self.someone_writes()
        self.many_write_at_once(6)
        self.disk.idle()
        self.the_disk_fails()
        self.talk_once("chat")
        self.the_gateway_restarts()
        self.talk_once("page")

    def talk_once(self, key: str) -> None:
        run = self.serve(key)
        assert run is not None
        self.talk(run, self.words(100))
        self.model.finish(run, "answered")

    def a_round(self) -> None:
        self.people_come_and_go()
        self.someone_writes()
        self.a_channel_tells()
        self.a_turn("chat")
        self.a_turn("page", "cancelled")
        self.parts_leave()
        self.disk.idle()
        self.a_turn_is_lost("mail")
        self.many_write_at_once(self.dice.randint(4, 9))
        self.someone_writes()
        self.a_turn("chat-too", "errored")
        self.the_disk_fails()
        self.a_turn("job")
        self.commands_and_chapters()
        self.disk.idle()
        self.a_summary()
        self.a_schedule_fires()
        self.a_session_is_copied_and_deleted()
        self.parts_leave()
        self.serve("page")
        self.the_gateway_restarts()
        for key in self.model.due():
            self.a_turn(key)


def exported(tx: Tx, session: int) -> list[bytes]:
    """A session as the lines of its file."""
    scope, writer = export.read_scope(tx, session), export.ExportWriter()
    records = [scope.header]
    for page in (export.read_turns, export.read_entries, export.read_unsaid_claims):
        after: int | None = 0
        while after is not None:
            found, after = page(tx, scope, after)
            records += found
    return [*map(writer.format_line, records), writer.end()]


def play(folder: Path, sync: str = "full", seed: int = 1, short: bool = False) -> Recording:
    """Run the script on a disk in this folder; what the disk and the callers saw."""
    with short_outputs():
        script = Script(folder, sync, seed)
        try:
            script.a_short_round() if short else script.a_round()
            script.model.house.check()
        finally:
            script.ledger.close()
        return script.disk.recording()
