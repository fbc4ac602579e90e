"""A session that an editor has open, beside a gateway that only sends what the test says."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from model_editor import ModelEditor, Shown

import semel.faces.acp.session.open_session as open_session_module
from semel.faces.acp.connection.editor_pipe import MAX_WAITING_BYTES, EditorPipe
from semel.faces.acp.connection.gateway_link import GatewayLink
from semel.faces.acp.connection.request_errors import RequestFailed
from semel.faces.acp.editor_profiles import EDITOR_PROFILES, UNMEASURED
from semel.faces.acp.session.catch_up import hold_back_said
from semel.faces.acp.session.open_prompt import Answer, OpenPrompt
from semel.faces.acp.session.open_session import OpenSession
from semel.faces.acp.updates.row_writer import RowWriter
from semel.faces.client import RequestRefused
from semel.tools.address import NoGateway

Json = dict[str, Any]
ENTRY: Json = {"seq": 1, "born": 1, "rev": 1, "role": "agent", "text": "hello"}
REQUEST: Json = {
    "id": 1, "born": 2, "rev": 2, "kind": "permission", "state": "open", "title": "ls", "text": "",
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}  # fmt: skip
SNAPSHOT: Json = {
    "type": "snapshot", "rev": 2, "session": {"state": "running"}, "entries": [ENTRY], "items": [REQUEST], "more": False
}  # fmt: skip


def open_prompt(key: str, answer: Answer) -> OpenPrompt:
    return OpenPrompt(key, answer, lambda: None)


class ScriptedGateway:
    """The link and the client: a stream with these frames, after which nothing happens. It waits for each event."""

    may_start = False

    def __init__(self, *frames: Json | asyncio.Event) -> None:
        self.frames = frames
        self.is_waiting = asyncio.Event()
        self.is_over = asyncio.Event()

    async def connect(self) -> ScriptedGateway:
        return self

    def note_contact(self) -> None:
        pass

    async def ask(self, request: Any) -> None:
        await asyncio.Event().wait()

    async def stream(self, key: str, rev: int | None) -> AsyncIterator[Json]:
        for frame in self.frames:
            if isinstance(frame, asyncio.Event):
                self.is_waiting.set()
                await frame.wait()
                continue
            yield frame
            await asyncio.sleep(0)
        self.is_over.set()
        await asyncio.Event().wait()


class ScriptedEditor:
    """An editor with this pipe; without one, what is written to it is dropped."""

    profile = EDITOR_PROFILES["zed"]
    key_prefix = "acp-1"
    name = "zed"

    def __init__(self, pipe: EditorPipe | None = None) -> None:
        self.asked: dict[str, Callable[[Json], None]] = {}
        self.cancelled: list[str] = []
        self.pipe = pipe

    @property
    def written_bytes(self) -> int:
        return self.pipe.written_bytes if self.pipe is not None else 0

    @property
    def bytes_read_by_editor(self) -> int:
        return self.pipe.bytes_read_by_editor if self.pipe is not None else 0

    def check_full(self) -> bool:
        return self.pipe is not None and self.pipe.check_full()

    def write(self, lines: Sequence[bytes]) -> None:
        if self.pipe is not None:
            self.pipe.write(lines)

    def ask(self, method: str, params: Json, done: Callable[[Json], None]) -> str:
        self.asked[method] = done
        return method

    def cancel_request(self, request: str) -> None:
        self.cancelled.append(request)

    def forget(self, request: str) -> None:
        del self.asked[request]


async def test_a_session_that_is_opened_again_leaves_nothing_for_the_garbage_collector() -> None:
    """Its rows would stay: the collector hardly runs in a process whose memory is text."""
    gateway: Any = ScriptedGateway(SNAPSHOT)
    editor = ScriptedEditor()
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    assert editor.asked
    kept = [weakref.ref(open_session), weakref.ref(open_session.view)]
    gc.disable()
    try:
        open_session.close()
        del open_session
        for _ in range(10):
            await asyncio.sleep(0)
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


async def test_what_has_begun_is_brought_to_its_end_even_if_too_much_was_missed() -> None:
    """The editor loads the session in mid-turn; then so much is said between its prompts that some is left out."""
    call: Json = {"id": 1, "born": 2, "rev": 2, "kind": "tool", "title": "ls", "status": "running", "text": "a\n"}
    text = {**ENTRY, "text": "half ", "live": True}
    thought: Json = {"id": 2, "born": 2, "rev": 2, "kind": "thought", "text": "so "}
    ended = [
        {**thought, "op": "item", "text": "so that", "rev": 3},
        {**call, "op": "item", "status": "done", "rev": 3},
        {**text, "op": "entry", "text": "half and half", "rev": 4},
    ]
    ended += [
        {**call, "op": "item", "id": item, "born": 3, "text": "x" * 9_000, "status": "done"} for item in range(3, 6)
    ]
    ended += [
        {"op": "entry", "seq": seq, "born": seq + 2, "rev": seq + 4, "role": "agent", "text": "x" * 9_000}
        for seq in range(2, 9)
    ]
    snapshot = {**SNAPSHOT, "entries": [text], "items": [call, thought], "before": 0}
    frames = snapshot, {"type": "change", "rev": 20, "changes": ended}
    gateway: Any = ScriptedGateway(*frames)
    editor = ScriptedEditor()
    editor.profile = UNMEASURED
    model = ModelEditor()
    editor.write = model.read
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=True)
    open_session.begin_showing()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    open_session.add_prompt(open_prompt("acp-1-1", lambda result, error: None), [])
    shown = model.sessions["s"]
    assert shown.messages["e1"][1] == "half and half"
    assert shown.messages["i2"][1] == "so that"
    assert [one.fields["status"] for one in shown.calls.values()] == ["completed"]
    (words,) = [text for text in shown.texts() if "not shown here" in text]
    assert words.startswith("5 earlier messages are "), "tool calls are left out, too, and are no messages"
    open_session.close()


async def test_a_dialog_that_closes_between_two_prompts_is_told_as_ended_with_the_second_one() -> None:
    """It was asked while the editor's prompt waited behind another person's turn. Outside of its own turns, the
    editor drops updates."""
    is_asked, is_back = asyncio.Event(), asyncio.Event()
    own: Json = {"op": "entry", "seq": 2, "born": 3, "rev": 3, "role": "user", "text": "hi", "key": "acp-1-1"}
    ended = {**own, "rev": 4, "ended": {"turn": 2, "state": "cancelled"}}
    closed = {**REQUEST, "op": "item", "rev": 5, "state": "answered", "answer": "yes", "by": "phone"}
    other = {**ENTRY, "op": "entry", "rev": 6, "text": "hello again"}
    changes = [{"type": "change", "rev": one["rev"], "changes": [one]} for one in (own, ended, closed, other)]
    gateway: Any = ScriptedGateway(SNAPSHOT, is_asked, *changes[:3], is_back, changes[3])
    editor = ScriptedEditor()
    editor.profile = UNMEASURED
    model, answers = ModelEditor(), list[Any]()
    editor.write = model.read
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    open_session.add_prompt(open_prompt("acp-1-1", lambda result, error: answers.append(result)), [])
    open_session.show()
    lines = model.lines
    gateway.is_waiting.clear()
    is_asked.set()
    await asyncio.wait_for(gateway.is_waiting.wait(), 60)
    assert answers == [{"stopReason": "cancelled"}]
    assert editor.cancelled == ["session/request_permission"] and model.lines == lines

    open_session.add_prompt(open_prompt("acp-1-2", lambda result, error: None), [])
    is_back.set()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    assert [call.fields["status"] for call in model.sessions["s"].calls.values()] == ["completed"]
    open_session.close()


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_killed_gateway_for_which_a_prompt_or_an_opening_waits_is_started_again_once(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    monkeypatch.setattr(open_session_module, "RESTART_AFTER_S", 0.0)

    class KilledGateway(ScriptedGateway):
        starts = 0

        async def stream(self, key: str, rev: int | None) -> AsyncIterator[Json]:
            if self.is_over.is_set() and self.starts < 2:
                raise NoGateway(Path("/nowhere"))
            yield self.frames[0]  # type: ignore[misc]
            self.is_over.set()

        async def wait_before_retry(self, failures: int) -> None:
            await asyncio.sleep(0)
            if failures == 10:
                self.is_waiting.set()
                await asyncio.Event().wait()

        async def restart_killed(self) -> None:
            assert is_open, "a session that is opened needs a gateway also if it was stopped"
            self.starts += 1

        async def start_if_away(self) -> None:
            assert not is_open
            self.starts += 1

    gateway: Any = KilledGateway(SNAPSHOT)
    open_session = OpenSession("s", ScriptedEditor(), gateway, {})
    if is_open:
        await open_session.watch(replays=False)
        open_session.begin_showing()
        prompt = open_prompt("acp-1-1", lambda result, error: None)
        prompt.set_recorded()
        open_session.add_prompt(prompt, [])
    else:
        gateway.is_over.set()  # it was killed before it sent the first frame
        opening = asyncio.create_task(open_session.watch(replays=False))
    await asyncio.wait_for(gateway.is_waiting.wait(), 60)
    assert gateway.starts == 1
    if not is_open:
        opening.cancel()
    open_session.close()


async def test_a_session_is_not_opened_if_its_gateway_goes_away_and_none_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(open_session_module, "RESTART_AFTER_S", 0.0)
    (tmp_path / "file").touch()
    link = GatewayLink(tmp_path / "file" / "data", None, may_start=True)  # a data directory that cannot be made
    link.skip_restart_delay()
    open_session = OpenSession("s", ScriptedEditor(), link, {})
    with pytest.raises(RequestFailed, match="the gateway did not start: "):
        await asyncio.wait_for(open_session.watch(replays=True), 60)


async def test_output_that_waits_for_an_editor_that_does_not_read_costs_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RowWriter, "due_at", 0.0)

    class StoppingEditor(ScriptedEditor):
        stops = False
        looks = 0

        def check_full(self) -> bool:
            self.looks += self.stops
            return self.stops

    gateway: Any = ScriptedGateway(SNAPSHOT)
    editor = StoppingEditor()
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    editor.stops = True
    for _ in range(100):
        await asyncio.sleep(0)
    assert editor.looks < 5, "it waits until there is room"
    open_session.close()


class StoppableGateway(ScriptedGateway):
    """It notes which turn each stop names. Every answer comes too late."""

    def __init__(self, *frames: Json | asyncio.Event) -> None:
        super().__init__(*frames)
        self.stops: list[int | None] = []

    async def ask_until_answered(self, request: Any) -> None:
        await request(self)

    async def stop(self, key: str, by: str, *, turn: int | None = None, seen: int | None = None) -> None:
        self.stops.append(turn)

    async def answer(self, key: str, item: int, option: str | None, *, by: str, seen: int) -> str:
        return "already"


async def test_an_answer_in_the_editor_that_came_too_late_is_told_once_who_was_first() -> None:
    is_heard = asyncio.Event()
    closed = {**REQUEST, "op": "item", "rev": 3, "state": "answered", "answer": "yes", "by": "phone"}
    gateway: Any = StoppableGateway(SNAPSHOT, is_heard, {"type": "change", "rev": 3, "changes": [closed]})
    editor, model = ScriptedEditor(), ModelEditor()
    editor.write = model.read
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    choose = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    editor.asked["session/request_permission"]({"result": choose})
    await asyncio.wait_for(open_session.await_delivery(), 60)
    assert model.sessions["s"].texts() == [], "the stream has not told yet who was first"
    is_heard.set()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    said = "Your answer to “ls” came too late: it was allowed by phone before. What you chose changed nothing."
    assert model.sessions["s"].texts() == [said]
    open_session.close()


@pytest.mark.parametrize("has_prompt", [True, False])
@pytest.mark.parametrize(("code", "words"), [
    ("no-such-session", []), ("internal", ["The turn was not stopped: the disk is full"]),
])  # fmt: skip
async def test_a_cancel_that_the_gateway_refuses_is_told_unless_the_session_was_deleted(
    code: str, words: list[str], has_prompt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **about: Any) -> None:
        raise RequestRefused(500, code, "the disk is full")

    monkeypatch.setattr("semel.faces.acp.session.recent_turns.REACTION_S", 0.0)
    gateway: Any = StoppableGateway({**SNAPSHOT, "session": {"state": "running", "turn": 7}})
    gateway.withdraw = gateway.stop = refuse
    editor, model = ScriptedEditor(), ModelEditor()
    editor.write = model.read
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    prompt = open_prompt("acp-1-1", lambda result, error: None)
    if has_prompt:
        open_session.add_prompt(prompt, [])
        await asyncio.sleep(0)
        prompt.is_sent = True
        open_session._prompt_order = asyncio.Lock()  # the request with its message is over
    open_session.cancel(has_arriving_prompt=False)
    await asyncio.wait_for(open_session.await_delivery(), 60)
    assert model.sessions["s"].texts() == words and not prompt.is_answered
    open_session.close()


@pytest.mark.parametrize(
    ("client", "turns", "reaction_s", "stops", "told"),
    [
        ("zed", [None], 0.0, [], False),
        ("zed", [7], 0.0, [7], False),
        ("zed", [None, 7], 60.0, [], True),
        ("zed", [7, 8], 60.0, [7], True),
        ("zed", [7, None], 60.0, [7], False),
        ("acpx", [7], 0.0, [], False),
    ],
    ids=[
        "nothing runs",
        "it runs",
        "it has just begun",
        "another has just begun",
        "it has just ended",
        "the editor shows none of it",
    ],
)
async def test_a_cancel_without_a_prompt_names_the_turn_that_its_person_has_seen(
    client: str,
    turns: list[int | None],
    reaction_s: float,
    stops: list[int],
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("semel.faces.acp.session.recent_turns.REACTION_S", reaction_s)
    states = [{} if turn is None else {"state": "running", "turn": turn} for turn in turns]
    changes = [
        {"type": "change", "rev": rev, "changes": [{"op": "session", "rev": rev, **state}]}
        for rev, state in enumerate(states[1:], 3)
    ]
    gateway: Any = StoppableGateway({**SNAPSHOT, "session": states[0], "items": []}, *changes)
    editor, model = ScriptedEditor(), ModelEditor()
    editor.profile = EDITOR_PROFILES[client]
    editor.write = model.read
    open_session = OpenSession("s", editor, gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    open_session.cancel(has_arriving_prompt=False)
    await asyncio.sleep(0)
    assert gateway.stops == stops
    assert any("cancel again" in text for text in model.sessions.get("s", Shown()).texts()) == told
    open_session.close()


@pytest.mark.parametrize("is_socket", [False, True])
async def test_a_turn_that_the_editor_has_not_read_of_is_not_what_a_cancel_means(
    is_socket: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.faces.acp.session.recent_turns.REACTION_S", 0.0)
    from_editor = os.pipe()
    ends = [end.detach() for end in socket.socketpair()] if is_socket else list(os.pipe())
    pipe = EditorPipe(from_editor[0], ends[1])
    behind = asyncio.Event()
    change = {"type": "change", "rev": 3, "changes": [{"op": "session", "rev": 3, "state": "running", "turn": 8}]}
    gateway: Any = StoppableGateway(
        {**SNAPSHOT, "session": {"state": "running", "turn": 7}, "items": []}, behind, change
    )
    open_session = OpenSession("s", ScriptedEditor(pipe), gateway, {})
    await open_session.watch(replays=False)
    open_session.begin_showing()  # it writes what the session has
    behind.set()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    assert pipe.bytes_read_by_editor < pipe.written_bytes
    open_session.cancel(has_arriving_prompt=False)
    await asyncio.sleep(0)
    assert gateway.stops == [7]
    while pipe.bytes_read_by_editor < pipe.written_bytes:
        await asyncio.to_thread(os.read, ends[0], 1 << 16)
    await asyncio.sleep(0.2)
    open_session.cancel(has_arriving_prompt=False)
    await asyncio.sleep(0)
    assert gateway.stops == [7, 8]
    open_session.close()
    pipe.close()
    for descriptor in (*from_editor, *ends):
        os.close(descriptor)


@pytest.mark.long
async def test_of_an_editor_that_does_not_read_at_most_8_mb_wait_and_it_has_each_text_once_later() -> None:
    from_editor, to_editor = os.pipe(), os.pipe()
    pipe = EditorPipe(from_editor[0], to_editor[1])
    piece = "wörd " * 20_000
    live = {**ENTRY, "text": "", "live": True}
    pieces: list[Json] = [
        {"type": "change", "rev": rev, "changes": [{"op": "append", "seq": 1, "text": piece, "rev": rev}]}
        for rev in range(3, 203)
    ]
    gateway: Any = ScriptedGateway({**SNAPSHOT, "entries": [live], "items": []}, *pieces)
    open_session = OpenSession("s", ScriptedEditor(pipe), gateway, {})
    pipe.on_room = open_session.show
    await open_session.watch(replays=False)
    open_session.begin_showing()
    await asyncio.wait_for(gateway.is_over.wait(), 60)
    assert len(piece) * len(pieces) > 2 * MAX_WAITING_BYTES
    assert pipe.check_full() and pipe.waiting_bytes < MAX_WAITING_BYTES + 2 * len(piece.encode())

    model = ModelEditor()
    with os.fdopen(to_editor[0], "rb") as out:
        while model.sessions.get("s", Shown()).texts() != [piece * len(pieces)]:
            model.read([await asyncio.wait_for(asyncio.to_thread(out.readline), 60)])
    open_session.close()
    os.close(from_editor[1])
    assert [line async for line in pipe.lines()] == []
    pipe.close()
    for descriptor in (from_editor[0], to_editor[1]):
        os.close(descriptor)


@pytest.mark.parametrize(("has_begun", "held_back"), [(False, [4]), (True, [2, 4])])
def test_what_others_said_before_a_message_is_shown_before_it(has_begun: bool, held_back: list[int]) -> None:
    """Unless the editor has the message's beginning: nothing may come into its middle."""
    profile = EDITOR_PROFILES["CodeCompanion.nvim"]
    roles = {1: "agent", 2: "user", 3: "agent", 4: "user"}
    rows = [{"seq": born, "born": born, "role": role} for born, role in roles.items()]
    rows[2]["live"] = True
    entries = {row["seq"]: row for row in rows}
    shown, later = hold_back_said(rows, entries, lambda row: has_begun, profile)
    assert [row["seq"] for row in later] == held_back
    assert [row["seq"] for row in shown] == [born for born in roles if born not in held_back]


def test_five_hundred_messages_of_others_wait_for_the_end_of_one_of_the_agent() -> None:
    rows: list[Json] = [{"seq": 1, "born": 1, "role": "agent", "live": True}]
    rows += [{"seq": born, "born": born, "role": "user"} for born in range(2, 502)]
    entries = {row["seq"]: row for row in rows}
    shown, later = hold_back_said(rows[1:], entries, lambda row: True, EDITOR_PROFILES["CodeCompanion.nvim"])
    assert (shown, later) == ([], rows[1:])
