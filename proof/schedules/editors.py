"""Editors: each has started `semel acp`, the real `EditorServer`, whose process is killed and started again, too.

Such a process has a life of its own: it outlives gateways, and a kill ends it at any step. The editor at its other end
sends prompts, cancels, answers requests for permission, reads nothing for a while, and opens the session once more.
What it notices at the very moment is told here; `editor_judge` looks at what it shows when all is at rest.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from proof.schedules.editor_link import WorldLink
from proof.schedules.loop import LIFE, Life
from proof.schedules.screens import Screen
from proof.schedules.wires import Pipe
from semel.faces.acp.connection.editor_pipe import EditorPipe
from semel.faces.acp.connection.editor_server import EditorServer
from semel.faces.acp.connection.opening import Opening
from semel.faces.acp.editor_profiles import EDITOR_PROFILES, UNMEASURED, EditorProfile

if TYPE_CHECKING:
    from proof.schedules.world import World

Json = dict[str, Any]
OPENERS = {"new": "session/new", "load": "session/load", "resume": "session/resume"}
AGAIN_S = 0.7  # until an editor opens a session again that could not be opened
FULL_BYTES = 400  # above which nothing more is written for an editor that does not read
FIRST_LIFE = 1_000_000  # of their processes: no gateway has such a number
PUSHES = ("session/push", "session_push_end")


class WorldPipe:
    """`EditorPipe` between two processes of a world. `read`: called with each line that the editor reads."""

    def __init__(self, world: World, read: Any) -> None:
        self._out = Pipe(world.outside, self._deliver)
        self._read = read
        self.written_bytes = self.bytes_read_by_editor = 0
        self._in: asyncio.Queue[bytes] = asyncio.Queue()
        self.send = Pipe(world.outside, self._in.put_nowait).put
        self.on_room: Any = None
        self.stalls = False
        self._waiting: list[bytes] = []
        self._was_full = False

    def _deliver(self, line: bytes) -> None:
        self.bytes_read_by_editor += len(line)
        self._read(line)

    async def lines(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._in.get()

    def check_full(self) -> bool:
        self._was_full = self._was_full or sum(map(len, self._waiting)) > FULL_BYTES
        return self._was_full

    def write(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.written_bytes += len(line)
            (self._waiting.append if self.stalls else self._out.put)(line)

    def read_on(self) -> bool:
        """The editor reads again. Return whether somebody is to be told that there is room."""
        self.stalls = False
        waiting, was_full, self._waiting, self._was_full = self._waiting, self._was_full, [], False
        self.written_bytes -= sum(map(len, waiting))
        self.write(waiting)
        return was_full

    def close(self) -> None:
        """Nothing is behind it."""


class Prompt:
    """A prompt of one connection. `was_open`: whether the session was open when it was sent."""

    def __init__(self, mark: str, was_open: bool) -> None:
        self.mark = mark
        self.was_open = was_open
        self.answers: list[Json] = []
        self.is_cancelled = False
        self.left = False  # a request with its message has left for a gateway, which may have heard it

    @property
    def is_discarded(self) -> bool:
        """Whether it was cancelled in time: it was answered so, and nothing of it ever left."""
        stops = [answer.get("result", {}).get("stopReason") for answer in self.answers]
        return self.is_cancelled and stops == ["cancelled"] and not self.left


class Connection:
    """One process of `semel acp`, and what the editor at its other end shows. `how`: how it opens the session."""

    def __init__(self, editor: Editor, how: str, number: int) -> None:
        self.editor, self.how = editor, how
        self._world = editor.world
        self.life = Life(FIRST_LIFE + number)
        self.screen = Screen(editor.profile)
        self.is_open = self._is_loading = False
        self.begins_behind = 0  # the newest entry that the editor has or need not have
        self.told_until = 0  # the newest entry of the last turn that has answered a prompt
        self.replaced: set[int] = set()  # the entries that were replaced before it was opened
        self.prompts: dict[int, Prompt] = {}  # by the id of the request
        self.asked: dict[str, Json] = {}  # open requests for permission, by their id
        self.dialogs: list[str] = []  # the tool calls of all of them
        self.chosen: dict[str, set[str]] = {}  # what was answered, by tool call
        self.pushes: list[str] = []  # ids of turns of somebody else that have not ended
        self.refused: set[str] = set()  # the texts of those that were not drawn
        self._running_before = set[int]()  # the root of the turn that ran when it stopped reading
        self.cancelled_roots: set[int] = set()  # of the turns of others that ran when it cancelled
        self._ids = itertools.count(1)
        self._opening = 0
        chance = random.Random(f"editor link {self._world.plan.seed} {number}")
        self._link = WorldLink(self._world, chance)
        self._link.client.stopping = self._judge_stop
        self._link.client.sending = self._judge_sending
        self._context = contextvars.copy_context()
        self._context.run(LIFE.set, self.life)
        self._context.run(self._start)

    def __repr__(self) -> str:
        return f"<Connection of {self.editor.profile.name}, {self.how}, {len(self.prompts)} prompts>"

    def _start(self) -> None:
        self._pipe = WorldPipe(self._world, self._read)
        pipe = cast(EditorPipe, self._pipe)
        server = EditorServer(pipe, self._link, Opening(session=self.editor.session))
        self._world.loop.create_task(server.serve(), name="semel acp", context=self._context)
        info = {"name": self.editor.profile.name, "version": "1"}
        self._send(id=0, method="initialize", params={"protocolVersion": 1, "clientInfo": info})

    def kill(self) -> None:
        """SIGKILL."""
        self.life.alive = False
        self._world.outside.run(self._link.client.close(), "a connection breaks")

    def _send(self, **message: Any) -> None:
        self._pipe.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _request(self, method: str, **params: Any) -> int:
        id = next(self._ids)
        self._send(id=id, method=method, params={"sessionId": self.editor.session, **params})
        return id

    # ---- what the person does

    def open_session(self) -> None:
        if self.how == "prompt":  # agent-shell does so, if its agent was killed
            self._opened()
            return
        rows = self._world.look.execute(_REPLACED, (self.editor.session,))
        self.replaced = {seq for (seq,) in rows}
        self._is_loading = self.how == "load"
        self._opening = self._request(OPENERS[self.how], cwd="/", mcpServers=[])

    def _opened(self) -> None:
        if self.how == "resume":
            newest = next(iter(self._world.look.execute(_NEWEST, (self.editor.session,))))[0]
            self.begins_behind = newest or 0
        self._is_loading, self.is_open = False, True
        self.editor.opened()

    def prompt(self, mark: str) -> None:
        blocks = [{"type": "text", "text": text_of(mark)}, link_to(mark)]
        self.prompts[self._request("session/prompt", prompt=blocks)] = Prompt(mark, self.how != "prompt")

    def cancel(self) -> None:
        """Without a prompt of its own, an editor means the turn that ran when it read last."""
        prompts = self.open_prompts()
        for prompt in prompts:
            prompt.is_cancelled = True
        if not prompts:
            self.cancelled_roots |= self._running_before if self._pipe.stalls else self._find_running()
        self._send(method="session/cancel", params={"sessionId": self.editor.session})

    def choose(self, request: str, call: str, option: str) -> None:
        """Answer a request for permission, though its dialog may be closed by now."""
        self.chosen.setdefault(call, set()).add(option)
        self.asked.pop(request, None)
        self._send(id=request, result={"outcome": {"outcome": "selected", "optionId": option}})

    def stall(self) -> None:
        self._running_before = self._find_running()
        self._pipe.stalls = True

    def _find_running(self) -> set[int]:
        return {root for (root,) in self._world.look.execute(_RUNNING, (self.editor.session,))}

    def read_on(self) -> None:
        if self._pipe.read_on() and self.life.alive:
            self._world.loop.call_soon(self._pipe.on_room, context=self._context)

    def open_prompts(self) -> list[Prompt]:
        return [prompt for prompt in self.prompts.values() if not prompt.answers]

    # ---- what it reads

    def _read(self, line: bytes) -> None:
        if not self.life.alive:
            return
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            self._take_answer(message)
        elif method == "session/request_permission":
            self._ask(message["id"], params)
        elif method == "$/cancel_request":
            self.asked.pop(params["requestId"], None)
        elif method == "session/push":
            self._draw_push(message["id"], params)
        elif params["update"]["sessionUpdate"] == "session_push_end":
            if self.pushes:  # otherwise it was refused
                self._send(id=self.pushes.pop(0), result={"stopReason": "end_turn"})
        else:
            self.screen.update(
                params["update"],
                in_turn=bool(self.open_prompts()),
                in_load=self._is_loading,
                in_push=bool(self.pushes),
            )

    def _take_answer(self, message: Json) -> None:
        id = message["id"]
        if (prompt := self.prompts.get(id)) is not None:
            prompt.answers.append(message)
            self._world.editors.judge_answer(self, prompt)
        elif id == 0:
            self.open_session()
        elif id == self._opening and "result" in message:
            self._opened()
        elif id == self._opening:
            self.how = "new" if message["error"]["code"] == -32602 else self.how  # no such session yet
            self._is_loading = False
            self._world.outside.later(AGAIN_S, self._open_again)

    def _open_again(self) -> None:
        if self.life.alive:
            self.open_session()

    def _ask(self, id: str, params: Json) -> None:
        call = params["toolCall"]["toolCallId"]
        if call in self.dialogs:
            self.screen.faults.append(f"permission for {call} is asked twice")
        self.dialogs.append(call)
        self.asked[id] = params
        self.editor.is_asked(self, id, call)

    def _draw_push(self, id: str, params: Json) -> None:
        busy = bool(self.open_prompts()) or bool(self.pushes) or self.editor.chance.random() < 0.15
        if busy:
            self._send(id=id, error={"code": -32000, "message": "Busy"})
            self.refused.add(params["prompt"][0]["text"])
            return
        self.pushes.append(id)  # what was said comes as an update

    def _judge_stop(self, body: Json) -> None:
        """A cancel names the message or the turn that it is for: it may be repeated until a gateway answers."""
        if body.get("message") is None and body.get("turn") is None:
            self._world.fault(f"law 10: {self!r} stops whatever runs")

    def _judge_sending(self, body: Json) -> None:
        """What was answered before it ever left is not sent any more."""
        for prompt in self.prompts.values():
            if {"type": "text", "text": text_of(prompt.mark)} in body["blocks"]:
                if prompt.answers and not prompt.left:
                    self._world.fault(f"law 12: {self!r} sends {prompt.mark}, which was answered {prompt.answers[-1]}")
                prompt.left = True


class Editor:
    """One person's editor over all its connections."""

    def __init__(self, world: World, number: int, shape: Json) -> None:
        self.world, self.number = world, number
        self.session = world.rooms[shape["room"]]
        self.profile: EditorProfile = EDITOR_PROFILES.get(shape["client"], UNMEASURED)
        self.chance = random.Random(f"editor {world.plan.seed} {number}")
        self.connections: list[Connection] = []
        self._unsent: list[str] = []  # prompts that wait until the session is open
        self._asked = 0
        self.has_ended = False

    def __repr__(self) -> str:
        return f"<Editor {self.profile.name} in {self.session}, {len(self.connections)} connections>"

    @property
    def now(self) -> Connection:
        return self.connections[-1]

    def connect(self, how: str) -> None:
        """Start `semel acp`, and kill the one before."""
        if self.connections:
            self.now.kill()
        self.connections.append(Connection(self, how, 100 * self.number + len(self.connections)))

    def opened(self) -> None:
        unsent, self._unsent = self._unsent, []
        for mark in unsent:
            self.now.prompt(mark)

    def prompt(self, mark: str) -> None:
        if self.now.is_open:
            self.now.prompt(mark)
        else:
            self._unsent.append(mark)

    def is_asked(self, connection: Connection, request: str, call: str) -> None:
        n, self._asked = self._asked, self._asked + 1
        for one in self.world.plan.actions:
            if one["do"] == "choose" and one["editor"] == self.number and one["n"] == n:
                self.world.outside.later(one["in"], self._choose, connection, request, call, one["option"])

    def _choose(self, connection: Connection, request: str, call: str, option: str) -> None:
        if connection.life.alive:
            connection.choose(request, call, option)

    def end(self) -> str | None:
        """Everything else is at rest: ask a last time. Return what is still to come."""
        connection = self.now
        if not connection.is_open:
            return f"{connection!r} is not open"
        if not self.has_ended:
            self.has_ended = True
            connection.read_on()
            connection.prompt(f"q{900 + self.number}")
        if prompts := connection.open_prompts():
            return f"law 12: {connection!r} waits for the answer to {prompts[0].mark}"
        return None


class Editors:
    """All of a world, and the deeds of their people in its plan."""

    def __init__(self, world: World) -> None:
        self.world = world
        shapes = world.plan.shape.get("editors", ())
        self.all = [Editor(world, n, shape) for n, shape in enumerate(shapes)]

    def start(self) -> None:
        for editor in self.all:
            editor.connect("new")

    def restless(self) -> str | None:
        """What is still to come where all else is at rest."""
        waits = [editor.end() for editor in self.all]
        return next((wait for wait in waits if wait is not None), None)

    # ---- deeds (`People.act`)

    async def _prompt(self, action: Json) -> None:
        self.all[action["editor"]].prompt(action["mark"])

    async def _cancel(self, action: Json) -> None:
        editor = self.all[action["editor"]]
        if editor.now.is_open:
            self.world.people.stopped.add(editor.session)
            editor.now.cancel()

    async def _reopen(self, action: Json) -> None:
        self.all[action["editor"]].connect(action["how"])

    async def _stall(self, action: Json) -> None:
        connection = self.all[action["editor"]].now
        connection.stall()
        await asyncio.sleep(action["for"])
        connection.read_on()

    # ---- what is looked at when it happens

    def turn_of(self, mark: str) -> tuple[int, str, int, int] | None:
        """The turn that took a prompt, its state, the prompt's entry, and the rev by which that was changed last."""
        return next(iter(self.world.look.execute(_TURN_OF, (f" {mark} ",))), None)

    def waits_for_nobody(self, mark: str) -> bool:
        """Whether the ledger has a prompt as withdrawn, and its end is still to come."""
        return bool(self.world.look.execute(_WITHDRAWN, (f" {mark} ",)).fetchone())

    def judge_asked(self, content: Sequence[Json]) -> None:
        """An agent is asked in the blocks that the editor wrote (Law 4)."""
        marks = [prompt.mark for editor in self.all for one in editor.connections for prompt in one.prompts.values()]
        for mark in marks:
            asks = {"type": "text", "text": text_of(mark)}
            if asks in content and link_to(mark) not in content:
                self.world.fault(f"law 4: an agent is asked {mark} without the block that the editor wrote: {content}")

    def judge_answer(self, connection: Connection, prompt: Prompt) -> None:
        """A prompt is answered once its turn has ended, and all that it said is shown by then."""
        turn = self.turn_of(prompt.mark)
        where = f"prompt {prompt.mark} of {connection!r}"
        if turn is None:
            if prompt.is_discarded or (prompt.is_cancelled and self.waits_for_nobody(prompt.mark)):
                return
            if "error" not in prompt.answers[-1] or prompt.was_open:
                self.world.fault(f"law 12: {where} is answered {prompt.answers[-1]}, and no turn took it")
            return
        if turn[1] not in ("done", "failed", "cancelled"):
            self.world.fault(f"law 12: {where} is answered while its turn is {turn[1]}")
        if connection.how == "prompt":  # the session was opened for the first of them
            known = [found[2] for one in connection.prompts.values() if (found := self.turn_of(one.mark)) is not None]
            connection.begins_behind = min(known)
        shown = {text.text for text in connection.screen.texts.values()}
        resumes = connection.how in ("resume", "prompt")  # its editor may have the beginning of a text that goes on
        left_out = connection.screen.left_out_until()  # it is told of so much, and no more
        said = self.world.look.execute(_SAID_IN, (turn[0], turn[3], connection.editor.session))
        for seq, born, text, more in said:
            connection.told_until = max(connection.told_until, seq)
            if (
                seq > connection.begins_behind
                and born > left_out
                and text not in shown
                and not (resumes and "supersedes" in (more or ""))
            ):
                self.world.fault(f"law 8: {where} is answered, and {text!r} of its turn is not shown before")


def text_of(mark: str) -> str:
    return f"please look at {mark} now"


def link_to(mark: str) -> Json:
    """A block that is no text: the agent gets it as the editor wrote it. No mark stands in it as a word."""
    return {"type": "resource_link", "uri": f"file:///of_{mark}_.py", "name": f"of_{mark}_.py", "size": 3}


_TURN_OF = """SELECT t.id, t.state, n.seq, n.rev
FROM event e JOIN hearing h ON h.event = e.id JOIN turn t ON t.id = h.turn
JOIN entry n ON n.event = e.id AND n.session = h.session WHERE instr(e.payload, ?)"""
_WITHDRAWN = """SELECT 1 FROM event e JOIN hearing h ON h.event = e.id
WHERE h.turn IS NULL AND h.busy = 'withdrawn' AND instr(e.payload, ?)"""
_RUNNING = "SELECT t.root FROM session s JOIN turn t ON t.id = s.turn WHERE s.key = ?"
_NEWEST = "SELECT max(e.seq) FROM entry e JOIN session s ON s.id = e.session WHERE s.key = ?"
_REPLACED = "SELECT e.seq FROM entry e JOIN session s ON s.id = e.session WHERE s.key = ? AND e.superseded = 1"
_SAID_IN = """SELECT e.seq, e.born, e.text, e.more FROM entry e JOIN session s ON s.id = e.session
WHERE e.turn = ? AND e.born < ? AND s.key = ? AND e.role = 'agent' AND e.superseded = 0 AND e.seq > s.erased
AND e.text <> ''"""  # what is said late, behind the end of its turn, changes no prompt of it
