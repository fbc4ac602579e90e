"""The rows of a session as ACP updates: whatever comes, in pieces or again, an editor shows each text once."""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from acp_schema import SchemaCheck
from model_editor import ModelEditor, Shown

from fewer_cases import list_seeds
from semel.acp_stream.display import Display
from semel.faces.acp.editor_profiles import EDITOR_PROFILES, UNMEASURED, EditorProfile
from semel.faces.acp.session.catch_up import MISSED_LIMITS, choose_rows
from semel.faces.acp.updates.line_writer import BEGAN_AGAIN_REMARK
from semel.faces.acp.updates.row_writer import RowWriter, describe_permission
from semel.faces.acp.updates.terminal_text import CLEAR, REWRITE_LINE, TerminalText
from semel.faces.view import SessionView
from semel.gateway.turns.stream_view import OutputView

Json = dict[str, Any]
ZED = EDITOR_PROFILES["zed"]
SCHEMA = SchemaCheck()
WORDS = ("ha", "ha ", "wörd 🙂 ", "\n", "```\n", "line\n")


class Session:
    """A session whose rows change at random; it makes the frames that a gateway would send of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rev = 0
        self.rows: dict[tuple[str, int], Json] = {}

    def step(self) -> Json:
        """Change something. Return the change."""
        live = [row for row in self.rows.values() if row.get("live")]
        self.rev += 1
        if live and self.random.random() < 0.8:
            return self._change(self.random.choice(live))
        number = len(self.rows) + 1
        row: Json = {"born": self.rev, "rev": self.rev, "text": self._words(), "turn": 1}
        match self.random.choice(("agent", "agent", "user", "notice", "thought", "tool")):
            case "agent" | "user" | "notice" as role:
                row |= {"seq": number, "role": role} | ({"live": True} if role == "agent" else {"sender": "Ann"})
                self._supersede(row, live)
                return self._put("entry", row)
            case kind:
                row |= {"id": number, "kind": kind, "live": True}
                more: Json = {"title": "run", "status": "running", "call": self.random.choice((f"c{number}", "same"))}
                return self._put("item", row | (more if kind == "tool" else {}))

    def _supersede(self, row: Json, live: list[Json]) -> None:
        """A later text that replaces one: it begins as the one before, or in other words."""
        old = next((one for one in live if "seq" in one), None)
        if row["role"] == "agent" and old is not None and self.random.random() < 0.5:
            self._put("entry", {**old, "live": False, "superseded": True, "rev": self.rev})
            row["supersedes"] = [old["seq"]]
            row["text"] = old["text"][: self.random.randrange(len(old["text"]) + 1)] + self.random.choice(("", "other"))

    def _change(self, row: Json) -> Json:
        if self.random.random() < 0.7:
            text = self._words()
            self._put("entry" if "seq" in row else "item", {**row, "text": row["text"] + text, "rev": self.rev})
            name = {"op": "append", "seq": row["seq"]} if "seq" in row else {"op": "output", "id": row["id"]}
            return {**name, "text": text, "rev": self.rev}
        ended = {**row, "live": False, "rev": self.rev} | ({"status": "done"} if row.get("kind") == "tool" else {})
        return self._put("entry" if "seq" in row else "item", ended)

    def _put(self, op: str, row: Json) -> Json:
        name = ("seq", row["seq"]) if "seq" in row else ("id", row["id"])
        self.rows[name] = {key: value for key, value in row.items() if value is not False}
        return {"op": op, **self.rows[name]}

    def _words(self) -> str:
        return "".join(self.random.choices(WORDS, k=self.random.randrange(1, 4)))

    def snapshot(self) -> Json:
        rows = list(self.rows.values())
        return {
            "type": "snapshot", "rev": self.rev, "session": {"state": "running"}, "more": False, "before": 0,
            "entries": [row for row in rows if "seq" in row], "items": [row for row in rows if "seq" not in row],
        }  # fmt: skip

    def texts(self, role: str) -> list[str]:
        if role == "thought":
            return [row["text"] for row in self.rows.values() if row.get("kind") == "thought"]
        return [row["text"] for row in self.rows.values() if row.get("role") == role and not row.get("superseded")]


class Watcher:
    """An editor that has a session open. `attach` is what a new connection or a restarted gateway makes it do."""

    def __init__(self, profile: EditorProfile = ZED) -> None:
        self.view = SessionView()
        self.writer = RowWriter("s", profile)
        self.editor = ModelEditor()
        self.now = 0.0

    def take(self, frame: Json) -> None:
        self.now += 0.1
        for row in self.view.apply(frame):
            self.read(self.writer.write_row(row, self.now))

    def read(self, lines: list[bytes]) -> None:
        self.editor.read(lines)
        for line in lines:
            SCHEMA.check(line)

    def end(self) -> Shown:
        self.read(self.writer.end_turn())
        assert not SCHEMA.violations
        return self.editor.sessions.get("s", Shown())


def finish(session: Session) -> list[Json]:
    changes = []
    while live := [row for row in session.rows.values() if row.get("live")]:
        session.rev += 1
        more = {"status": "done"} if live[0].get("kind") == "tool" else {}
        ended = {**live[0], "live": False, "rev": session.rev, **more}
        changes.append(session._put("entry" if "seq" in ended else "item", ended))
    return changes


@pytest.mark.parametrize("seed", list_seeds(100))
def test_wherever_an_editor_attaches_and_comes_back_it_shows_each_text_once(seed: int) -> None:
    """Ten editors a session, from random points on. Frames come in batches, again, or are replaced by a snapshot."""
    session = Session(seed)
    watchers: list[tuple[Watcher, list[Json]]] = []
    for step in range(120):
        change = session.step()
        if step % 12 == seed % 12:
            watchers.append((Watcher(), []))
            watchers[-1][0].take(session.snapshot())
        for watcher, behind in watchers:
            behind.append(change)
            if session.random.random() < 0.05:  # the connection broke, and the gateway has compacted what it missed
                watcher.take(session.snapshot())
                behind.clear()
            elif session.random.random() < 0.5:
                watcher.take({"type": "change", "rev": session.rev, "changes": behind[:]})
                if session.random.random() < 0.2:
                    watcher.take({"type": "change", "rev": session.rev, "changes": behind[:]})
                behind.clear()
    last = finish(session)
    for watcher, behind in watchers:
        watcher.take({"type": "change", "rev": session.rev, "changes": [*behind, *last]})
        shown = watcher.end()
        for role in ("user", "thought"):
            assert shown.texts(role) == session.texts(role)
        kept = [shown.messages[name][1] for name in shown.order if name in shown.messages]
        for text in filter(None, [*session.texts("agent"), *session.texts("notice")]):
            assert text in kept, "what is said is shown"
        assert {call.fields["status"] for call in shown.calls.values()} <= {"completed"}


REVS = itertools.count(1)


def entry(seq: int, text: str, **more: Any) -> Json:
    return {"seq": seq, "born": seq, "rev": next(REVS), "role": "agent", "text": text, **more}


def shown_after(*rows: Json, profile: EditorProfile = ZED) -> list[str]:
    watcher = Watcher(profile)
    for row in rows:
        watcher.read(watcher.writer.write_row(row, 0.0))
    return watcher.end().texts()


def test_a_repeated_start_that_begins_as_the_first_one_goes_on_in_its_message() -> None:
    again = {"supersedes": [1]}
    assert shown_after(
        entry(1, "The answer"), entry(2, "The", live=True, **again), entry(2, "The answer is", live=True, **again),
        entry(2, "The answer is 42.", **again),
    ) == ["The answer is 42."]  # fmt: skip


def test_a_text_that_begins_again_within_its_turn_goes_on_in_its_message() -> None:
    """That the second text replaces the first one is known only once it is as long."""
    first, again = entry(1, "The answer", turn=1), {"supersedes": [1], "turn": 1}
    assert shown_after(
        first, entry(2, "The", live=True, turn=1), entry(2, "The answ", live=True, turn=1),
        entry(2, "The answer is", live=True, **again), entry(2, "The answer is 42.", **again),
    ) == ["The answer is 42."]  # fmt: skip
    assert shown_after(
        first, entry(2, "The", live=True, turn=1), entry(2, "The end", live=True, turn=1), entry(2, "The end.", turn=1)
    ) == ["The answer", "The end."]  # fmt: skip
    assert shown_after(first, entry(2, "The", live=True, turn=1), entry(2, "The answer", turn=1)) == ["The answer"] * 2


def test_a_text_of_another_attempt_goes_on_in_its_message_though_a_prompt_had_joined_the_first_one() -> None:
    """Then it is known only at its end that it replaces the first one. In another turn, it is shown while it grows."""
    first, after = [entry(1, "The answer", turn=1), entry(2, "More", turn=1)], {"supersedes": [1], "turn": 2}
    again = [entry(3, text, live=True, turn=2) for text in ("The", "The answer")]
    assert shown_after(*first, *again, entry(3, "The answer", **after)) == ["The answer", "More"]
    assert shown_after(*first, *again, entry(3, "The answer", turn=2)) == ["The answer", "More", "The answer"]
    writer, model = RowWriter("s", ZED), ModelEditor()
    model.read(writer.write_row(first[0], 0.0))
    writer.note_end(1)
    model.read(writer.write_row(again[0], 0.0))
    assert model.sessions["s"].texts() == ["The answer", "The"], "the answer to another question is not withheld"


def test_two_texts_that_replace_the_same_one_are_both_shown() -> None:
    again = {"supersedes": [1], "turn": 2}
    rows = (
        entry(1, "The answer", turn=1),
        entry(2, "The answer is 42.", **again),
        entry(3, "The answer is 42.", **again),
    )
    assert shown_after(*rows) == ["The answer is 42."] * 2


def test_a_repeated_start_in_other_words_is_a_message_of_its_own_and_is_said_to_be_one() -> None:
    texts = shown_after(entry(1, "The answer"), entry(2, "No, it is 42.", supersedes=[1]))
    assert texts == ["The answer", BEGAN_AGAIN_REMARK, "No, it is 42."]


def test_a_repeated_start_that_is_shorter_is_shown_once_it_has_ended() -> None:
    rows = (entry(1, "The answer"), entry(2, "The", live=True, supersedes=[1]), entry(2, "The", supersedes=[1]))
    assert shown_after(*rows)[-1] == "The"


def test_an_editor_that_joins_messages_gets_an_empty_line_between_them() -> None:
    assert "".join(shown_after(entry(1, "One."), entry(2, "Two."), profile=EDITOR_PROFILES["toad"])) == "One.\n\nTwo."


TOOL: Json = {"rev": 1, "kind": "tool", "title": "ls", "text": "", "call": "c"}


def test_the_end_of_a_tool_call_above_two_messages_does_not_join_them() -> None:
    tool = {**TOOL, "id": 1, "born": 1, "status": "running"}
    rows = (tool, entry(2, "One."), {**tool, "rev": 2, "status": "done"}, entry(3, "Two."))
    assert "".join(shown_after(*rows, profile=EDITOR_PROFILES["CodeCompanion.nvim"])) == "One.\n\nTwo."


def test_an_editor_that_loads_only_messages_gets_an_empty_line_for_what_it_does_not_show_between_them() -> None:
    tool = {**TOOL, "id": 2, "born": 2, "status": "done", "text": "a"}
    thought: Json = {"id": 4, "born": 4, "rev": 1, "kind": "thought", "text": "hm"}
    rows = (entry(1, "One."), tool, entry(3, "Two."), thought, entry(5, "Three."))
    for is_history, shown in ((True, "One.\n\nTwo.\n\nThree."), (False, "One.Two.Three.")):
        watcher = Watcher(EDITOR_PROFILES["CodeCompanion.nvim"])
        for row in rows:
            watcher.read(watcher.writer.write_row(row, 0.0, is_history))
        assert "".join(watcher.end().texts()) == shown


def test_no_line_is_longer_than_the_strictest_editor_reads() -> None:
    text = "wörd\x01" * 800_000
    watcher = Watcher()
    lines = watcher.writer.write_row(entry(1, text), 0.0)
    assert max(map(len, lines)) < 8 * 1024 * 1024
    watcher.editor.read(lines)
    assert watcher.end().texts() == [text]


def test_what_a_person_says_is_quoted_for_an_editor_that_drops_it() -> None:
    said = {"seq": 1, "born": 1, "rev": 1, "role": "user", "sender": "Ann", "text": "one\ntwo"}
    assert shown_after(said, profile=EDITOR_PROFILES["CodeCompanion.nvim"]) == ["> **Ann:** one\n> two"]
    assert shown_after(said, profile=UNMEASURED) == []


def test_a_tool_calls_diffs_places_and_long_output_are_shown() -> None:
    watcher = Watcher()
    item: Json = {
        "id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "edit", "tool_kind": "edit", "status": "done",
        "text": "head", "gap": 5000, "tail": "tail", "call": "c", "input": {"a": 1},
        "diffs": [{"path": "/a", "newText": "new"}, {"path": "/b", "left_out": 9}],
        "locations": [{"path": "/a", "line": 3}],
    }  # fmt: skip
    watcher.read(watcher.writer.write_row(item, 0.0))
    (call,) = watcher.end().calls.values()
    assert (call.fields["kind"], call.fields["locations"]) == ("edit", item["locations"])
    assert {"type": "diff", "path": "/a", "newText": "new"} in call.fields["content"]
    assert "head\n[5000 characters not shown]\ntail" in call.text
    described = describe_permission({**item, "options": []}, "semel-ask-1")
    assert described["toolCallId"] == "semel-ask-1" and described["status"] == "pending" and "content" in described


def test_output_that_begins_a_call_is_an_update_for_an_editor_that_shows_it_only_there() -> None:
    watcher = Watcher(EDITOR_PROFILES["agent-shell"])
    item = {"id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "ls", "status": "done", "text": "a\n", "call": "c"}
    lines = watcher.writer.write_row(item, 0.0)
    updates = [json.loads(line)["params"]["update"] for line in lines]
    assert [(update["sessionUpdate"], "content" in update) for update in updates] == [
        ("tool_call", False),
        ("tool_call_update", True),
    ]
    watcher.read(lines)
    assert watcher.end().calls["c"].text.rstrip() == "a"


def played(written: str) -> str:
    """What a terminal shows, and has scrolled away, of what Semel writes to it."""
    shown = ""
    for piece in re.split(f"({re.escape(CLEAR)}|{re.escape(REWRITE_LINE)})", written):
        shown = "" if piece == CLEAR else shown[: shown.rfind("\n") + 1] if piece == REWRITE_LINE else shown + piece
    return shown


@pytest.mark.parametrize("seed", list_seeds(50))
def test_a_terminal_shows_an_output_whole_whatever_of_it_a_row_has_and_is_overwritten(seed: int) -> None:
    """Rows come from the view that the gateway makes of a tool's output: its head, a gap, and its tail."""
    chance = random.Random(seed)
    view, terminal, written, display = OutputView(), TerminalText(), "", Display()
    whole, largest = "", chance.choice((10, 2_000, 7_000))
    for _ in range(60):
        piece = chance.choice(("", "\r", "\rline", "\x1b[2K\r")) + f"{chance.random()}\n" * (
            chance.randrange(largest) // 19
        )
        piece += chance.choice(("", "10 %", "x" * 100))
        view.grow(piece)
        kept, new = display.feed(piece)
        whole = whole[:kept] + new
        body = view.body()
        row = (view.head, body["gap"] or 0, body["tail"] or "")
        text = terminal.write(*row)
        written += text
        assert terminal.write(*row) == "", "the same again is nothing new"
        shown = played(written)
        assert shown.endswith(row[2] if row[1] else whole), "the newest part is there"
        if CLEAR not in written:
            assert shown == whole, "and so is everything before it"


def test_a_terminal_is_told_how_much_of_a_fast_output_it_lacks() -> None:
    terminal = TerminalText()
    assert terminal.write("ab", 0, "") == "ab"
    assert terminal.write("abcd", 10, "xyz") == "cd\n[10 characters not shown]\nxyz"
    assert terminal.write("abcd", 30, "uvw") == "\n[17 characters not shown]\nuvw"
    assert terminal.write("abcd", 31, "vw!") == "!"
    assert terminal.write("other", 31, "vw!") == CLEAR + "other\n[31 characters not shown]\nvw!"


def test_an_editor_with_terminals_gets_a_commands_output_there_as_from_an_agent_of_its_own() -> None:
    profile = replace(ZED, takes_terminal_deltas=True)
    watcher = Watcher(profile)
    item: Json = {
        "id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "make", "tool_kind": "execute", "status": "running",
        "text": "one\n", "call": "c",
    }  # fmt: skip
    first, second = watcher.writer.write_row(item, 0.0)
    assert b"terminal_info" in first and b"terminal_output" not in first, "Zed reads no output of the first update"
    watcher.read([first, second])
    grown = {**item, "rev": 2, "text": "one\ntwo\n"}
    watcher.read(watcher.writer.write_row(grown, 0.01))
    watcher.read(watcher.writer.write_row({**grown, "rev": 3, "status": "failed", "exit": 2}, 0.02))
    (call,) = watcher.end().calls.values()
    assert call.terminal == "one\ntwo\n" and call.fields["status"] == "failed"
    assert call.fields["content"] == [{"type": "terminal", "terminalId": "c"}]
    assert call.fields["_meta"]["terminal_exit"] == {"terminal_id": "c", "exit_code": 2}

    loaded = Watcher(profile)
    loaded.read(loaded.writer.write_row({**grown, "status": "done"}, 0.0, is_history=True))
    (call,) = loaded.end().calls.values()
    assert (call.text, call.terminal) == ("one\ntwo\n", ""), "a loaded session has no terminals"


def test_a_call_without_a_result_is_shown_as_failed() -> None:
    watcher = Watcher()
    item = {"id": 1, "born": 1, "rev": 1, "kind": "tool", "title": "run", "status": "no result", "text": ""}
    watcher.read(watcher.writer.write_row(item, 0.0))
    assert [call.fields["status"] for call in watcher.end().calls.values()] == ["failed"]


def test_what_was_missed_is_bounded_and_its_newest_part_and_open_requests_are_kept() -> None:
    rows = [entry(seq, "x" * 3000) for seq in range(1, 21)]
    request: Json = {"id": 1, "born": 0, "kind": "permission", "text": ""}
    chosen, left_out = choose_rows([request, *rows], lambda row: False)
    assert chosen[-1] == request and chosen[-2] == rows[-1] and [*left_out, *chosen[:-1]] == rows
    assert sum(len(row["text"]) for row in chosen) <= MISSED_LIMITS.chars
    long = entry(1, "x" * 100_000)
    assert choose_rows([long], lambda row: False) == ([long], [])
    chosen, left_out = choose_rows(rows, lambda row: row["seq"] == 3)
    assert chosen[0] == rows[2] and rows[2] not in left_out, "what has begun is brought to its end"


def test_the_words_of_a_voice_note_follow_its_message_once_they_are_written_down() -> None:
    file = {"id": "f", "name": "v.ogg", "mime": "audio/ogg", "size": 10, "voice": True}
    said, written = {"role": "user", "sender": "Ann"}, {**file, "transcript": "Guten Tag.\nWie geht's?"}
    rows = [entry(1, "", **said, files=[each]) for each in (file, written, written)]
    texts = shown_after(*rows)
    assert texts[-2:] == ["`[voice note v.ogg, audio/ogg, 10 B, /v1/blobs/f]`", "> Guten Tag.\n> Wie geht's?"]
    assert sum("Guten Tag" in text for text in texts) == 1
