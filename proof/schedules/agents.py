"""A scripted agent: a process outside the gateway, behind the Agent port, with a memory that outlives it.

What it does with its n-th prompt in a room is a script of the plan: a list of steps.

    {"say": k, "tail"?: text, "again"?: how}    a block of text in pieces; `again`: handed over once more in one piece
    {"broken": k, "retry": how}                 a block that breaks off, and the whole of it again
    {"think": k}             a thought
    {"tool": k}              a tool call of its own, with output
    {"permit": k}            a tool call that it asks for permission for, and waits until it is answered
    {"send": k, "to"?: name, "announced"?: bool, "twice"?: bool}   send_message over its MCP process
    {"repeat": -1}           the text of the last `send` as a block; with "tail" it goes on behind it
    {"aside": -1}            the text of the last `send` as a block that is addressed to "side"
    {"wait": seconds}        it tells nothing
    {"die": why}             the process is gone
    {"fail": message}        the prompt ends with an error
    {"after": k}             told behind the answer, while no turn runs

What its memory holds of a turn that was cut off is as real agents have it (`holds`): each text and call once it is
"whole"; "items", each text before it is streamed; "halves" of texts; "texts" without any call; or nothing before the
end ("late"). Only the demo agent's marks that a turn ended.

Text comes again as the measured agents tell it again (`how`): under "another id"; behind a retry "signal" (vibe); in
the same block with no mark but its length ("long": above every honest repeat; "glued": from inside a word on); or
"unmarked" and short. The last is no re-delivery for anybody who reads it: it has to be shown as often as it was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from proof.schedules.told import Disk, Permit, Prompted, Told, cut_off, pieces
from proof.schedules.wires import Gone, Outside, Pipe
from semel.gateway.ports import Answered, Asked, Died, Launch, Signal, Update
from semel.law.stream.evidence import LEAST_GLUED_CHARS, LEAST_RETRY_CHARS

Json = dict[str, Any]
MARK = re.compile(r"\bq\d+\b")
NOTES = ("[semel: notes for you", "[semel: this conversation so far", "[semel: your text was held back")
RESUMED, ASKED = "[semel: your turn goes on", "- it was asked: "
PATIENCE = 5.0  # seconds from a cancel until it waits no longer for the answer to a permission request
OPTIONS = (
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)
WORDS = (
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor",
    "indigo", "jasper", "kelp", "lagoon", "marble", "nectar", "opal", "pebble",
)  # fmt: skip


def questions(content: Sequence[Json]) -> tuple[list[str], bool]:
    """The markers that a prompt asks about, and whether it asks to go on. Notes and what was said are no question."""
    marks, resumes = [], False
    for block in content:
        text = str(block.get("text", ""))
        if text.startswith(NOTES):
            continue
        if text.startswith(RESUMED):
            resumes = True
            text = "\n".join(line for line in text.splitlines() if line.startswith(ASKED))
        marks += MARK.findall(text)
    return marks, resumes


class Process:
    """A running agent of one session; it is its own Conversation."""

    modes: Json | None = None
    models: Json | None = None
    images = False

    def __init__(self, agent: SeededAgent, launch: Launch, memory: str, restored: str) -> None:
        self.agent, self.launch, self.memory, self.restored = agent, launch, memory, restored
        self.outside, self.disk = agent.outside, agent.disk
        self.agent_name = agent.shape["name"]
        self.profile = ""
        self.alive = True
        self.signals: asyncio.Queue[Signal] = asyncio.Queue()
        self._died: Died | None = None
        self._stdin = Pipe(self.outside, self._read)
        self._work: asyncio.Task[Any] | None = None
        self._waiting: list[Prompted] = []
        self.replaying: asyncio.Task[Any] | None = None
        self._cancelled = asyncio.Event()
        self._message = 0
        self._unsaved: list[Json] = []

    def __repr__(self) -> str:
        return f"<Process {self.launch.spawn} of {self.launch.session}{'' if self.alive else ', dead'}>"

    # ------------------------------------------------------------ the port: called by the gateway

    async def next(self) -> Signal:
        if self._died is not None:
            return self._died
        signal = await self.signals.get()
        if isinstance(signal, Died):
            self._died = signal
        return signal

    async def prompt(self, content: Sequence[Json]) -> None:
        self.agent.prompting(self.launch, content)
        self._stdin.put(("prompt", list(content)))

    async def answer(self, id: str, option: str | None) -> None:
        self._stdin.put(("answer", (id, option)))

    async def cancel(self) -> None:
        self._stdin.put(("cancel", None))

    async def set_mode(self, mode: str) -> None:
        return None

    async def set_model(self, model: str) -> None:
        return None

    async def close(self, grace: float) -> None:
        await asyncio.sleep(self.outside.lag())
        self.kill()

    # ------------------------------------------------------------ the process

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        for one in self._waiting:
            one.alive = one.end is not None
        if self._work is not None:
            self._work.cancel()

    def _die(self, why: str) -> None:
        self.kill()
        self.signals.put_nowait(Died(why))

    def _read(self, line: tuple[str, Any]) -> None:
        if not self.alive:
            return
        if line[0] == "cancel":
            self._cancelled.set()
            return
        if line[0] == "answer":
            permit = next(one for one in self.disk.permits if one.id == line[1][0])
            permit.answers.append(line[1][1])
            permit.news.set()
            return
        marks, resumes = questions(line[1])
        steered = self._work is not None and not self._work.done()
        one = Prompted(len(self.disk.prompts), self.launch.spawn, self.launch.session, marks, resumes, steered)
        self.disk.prompts.append(one)
        self._waiting.append(one)
        texts = [str(block.get("text", "")) for block in line[1]]
        self._remember([{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": t}} for t in texts])
        if not steered:
            self._cancelled.clear()
            self._work = self.outside.run(self._serve(), f"agent {self.launch.spawn}")

    async def replay(self, past: list[Json]) -> None:
        """What it remembers, told after the session was opened, and before it reads a prompt."""
        for update in past:
            await asyncio.sleep(self.outside.lag(0.03))
            if self.alive:
                self.signals.put_nowait(Update(update, replay=True))

    async def _serve(self) -> None:
        """Answer what waits; a prompt that comes meanwhile is read in the same turn."""
        if self.replaying is not None:
            await asyncio.wait({self.replaying})
        done: list[Prompted] = []
        stop: Answered | None = None
        while stop is None and (todo := [one for one in self._waiting if one not in done]):
            stop = await self._perform(todo[0])
            done.append(todo[0])
        if not self.alive:
            return
        after = [step for one in done for step in self._script(one) if "after" in step]
        self._remember_end("end_turn" if stop is None else stop.stop)
        self.agent.answering()
        for one in done:
            self._waiting.remove(one)
            one.end = (stop or Answered("end_turn")).stop
            self.signals.put_nowait(stop or Answered("end_turn"))
        if stop is None and done:
            await self._tell_after(done[-1], after)
        if stop is not None and stop.stop == "cancelled" and self.agent.shape["insists"]:
            self.outside.run(self._insist(done[-1]), f"agent {self.launch.spawn} insists")

    async def _tell_after(self, one: Prompted, steps: list[Json]) -> None:
        for step in steps:
            await asyncio.sleep(step.get("in", 0.1))
            told = Told(self._text(one, f"after{step['after']}"), "after")
            one.told.append(told)
            self._message += 1
            await self._stream(told.text)
            told.whole = True

    def _script(self, one: Prompted) -> list[Json]:
        n = self._numbers.setdefault(one.n, self._number())
        return self.disk.scripts.get((self.launch.session, n), [{"say": 0}])

    @property
    def _numbers(self) -> dict[int, int]:
        return self.agent.numbers

    def _number(self) -> int:
        n = self.disk.counts.get(self.launch.session, 0)
        self.disk.counts[self.launch.session] = n + 1
        return n

    async def _perform(self, one: Prompted) -> Answered | None:
        """None: it was answered in full."""
        for at, step in enumerate(self._script(one)):
            if self._cancelled.is_set() and not self.agent.shape.get("deaf"):
                await asyncio.sleep(self.outside.lag())
                return Answered("cancelled")
            if "after" in step:
                continue
            if "fail" in step:
                return Answered("error", step["fail"])
            if "die" in step:
                await asyncio.sleep(self.outside.lag())
                self._die(step["die"])
                return Answered("error", "it is dead")
            await self._step(one, step, at)
        if self._cancelled.is_set() and self.agent.shape["insists"]:
            return Answered("cancelled")
        return None

    async def _step(self, one: Prompted, step: Json, at: int) -> None:
        match next(iter(step)):
            case "say":
                again = step.get("again")
                least = LEAST_RETRY_CHARS if again == "long" else 0
                await self._say(one, self._text(one, f"say{step['say']}", least) + step.get("tail", ""), again)
            case "repeat":
                sent = [told.text for told in one.told if told.how == "send"]
                if sent:
                    await self._say(one, sent[step["repeat"]] + step.get("tail", ""))
            case "aside":
                sent = [told.text for told in one.told if told.how == "send"]
                if sent:
                    await self._aside(one, sent[step["aside"]])
            case "broken":
                await self._broken(one, step)
            case "think":
                await self._emit({"sessionUpdate": "agent_thought_chunk", "content": _text(f"thinking of {at} things")})
            case "tool":
                await self._tool(at)
            case "permit":
                await self._permit(at)
            case "send":
                await self._send(one, step, at)
            case "wait":
                await asyncio.sleep(step["wait"])

    # ------------------------------------------------------------ what it tells

    def _text(self, one: Prompted, what: str, least: int = 0) -> str:
        """Its words, `least` characters or more. Where the agent repeats itself, a prompt that was asked before is
        answered in the same words."""
        same = self.agent.shape["repeats"] and one.marks and not one.resumes
        of = one.marks[0].replace("q", "Q") if same else f"N{one.n}"
        words = [WORDS[(sum(map(ord, of + what)) * (i + 3)) % len(WORDS)] for i in range(6)]
        more = "".join(f", {word} of {n}" for n, word in zip(range(least // len(", opal of 0")), cycle(words)))
        return f"About {of}, {what}: {' '.join(words)}{more}, and so it is."

    async def _say(self, one: Prompted, text: str, again: str | None = None) -> None:
        told = Told(text * 2 if again == "unmarked" else text, "block", copied=again in ("another id", "long"))
        told.unmarked = again == "unmarked"
        one.told.append(told)
        self._message += 1
        await self._stream(text, 2 if again else 1, kept=True)
        if again == "another id":
            self._message += 1
        if again:  # a second channel hands over the same text once more, as one piece
            await self._emit(self._chunk(text))
        self._tell_to_its_end(told, text)

    def _tell_to_its_end(self, told: Told, text: str) -> None:
        told.whole = True
        if self.agent.shape["holds"] != "items":
            self._remember([self._chunk(text[len(text) // 2 :] if self._halves else text)])

    async def _stream(self, text: str, least: int = 1, kept: bool = False) -> None:
        parts = pieces(text, least + int(self.outside.chance.random() * 6))
        if kept and self.agent.shape["holds"] == "items":
            self._remember([self._chunk(text)])
        for n, piece in enumerate(parts):
            if kept and self._halves and n == len(parts) // 2:
                self._remember([self._chunk(text[: len(text) // 2])])
            await self._emit(self._chunk(piece))

    async def _aside(self, one: Prompted, text: str) -> None:
        told = Told(text, "aside", "side")
        one.told.append(told)
        self._message += 1
        chunk = self._chunk(f'<message to="side">{text}</message>')
        await self._emit(chunk)
        told.whole = True
        self._remember([chunk])

    async def _broken(self, one: Prompted, step: Json) -> None:
        retry = step["retry"]
        text = self._text(one, f"broken{step['broken']}", 2 * LEAST_GLUED_CHARS if retry == "glued" else 0)
        cut = LEAST_GLUED_CHARS if retry == "glued" else len(text) // 2
        attempt = cut_off(text, cut, inside_a_word=retry != "unmarked")
        told = Told(attempt + text if retry == "unmarked" else text, "block", broken=retry in ("another id", "signal"))
        told.unmarked = retry == "unmarked"
        if retry == "glued":
            told.undecided = attempt + attempt[:-1]
        one.told.append(told)
        self._message += 1
        for piece in pieces(attempt, 2):
            await self._emit(self._chunk(piece))
        if retry == "signal":
            await self._emit({"sessionUpdate": "_session/retrying", "message": "the stream broke off"})
        if retry == "another id":
            self._message += 1
        await self._stream(text, kept=True)
        self._tell_to_its_end(told, text)

    def _chunk(self, text: str) -> Json:
        return {
            "sessionUpdate": "agent_message_chunk",
            "messageId": f"m{self.launch.spawn}-{self._message}",
            "content": _text(text),
        }

    async def _tool(self, at: int) -> None:
        id = f"t{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"look at {at}", "kind": "other", "rawInput": {"n": at}}
        await self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        done = {
            "toolCallId": id,
            "status": "completed",
            "content": [{"type": "content", "content": _text(f"saw {at}")}],
        }
        await self._emit({"sessionUpdate": "tool_call_update", **done})
        self._remember([{"sessionUpdate": "tool_call", **call, **done}])

    async def _permit(self, at: int) -> None:
        id = f"p{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"run {at}", "kind": "execute", "rawInput": {"n": at}}
        await self._emit({"sessionUpdate": "tool_call", **call, "status": "pending"})
        await asyncio.sleep(self.outside.lag(self.agent.shape["slow"]))
        permit = Permit(id, self.launch.session)
        self.disk.permits.append(permit)
        self.signals.put_nowait(Asked(id, call, OPTIONS))
        await self._answered(permit)
        done = {"toolCallId": id, "status": "completed" if permit.answers == ["once"] else "failed"}
        await self._emit({"sessionUpdate": "tool_call_update", **done})
        self._remember([{"sessionUpdate": "tool_call", **call, **done}])

    async def _answered(self, permit: Permit) -> None:
        """It waits for its answer, whatever becomes of the turn; but not for ever once that is cancelled."""
        waits = [asyncio.ensure_future(one.wait()) for one in (permit.news, self._cancelled)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not permit.answers:
                await asyncio.wait(waits[:1], timeout=PATIENCE)
                permit.forgotten = self.alive and not permit.answers
        finally:
            for wait in waits:
                wait.cancel()

    async def _send(self, one: Prompted, step: Json, at: int) -> None:
        text = self._text(one, f"send{step['send']}")
        arguments = {"text": text, **({"to": step["to"]} if step.get("to") else {})}
        told = Told(text, "send", step.get("to"))
        one.told.append(told)
        self.disk.calls += 1
        id = f"s{self.launch.spawn}-{self.disk.calls}"
        call = {"toolCallId": id, "title": "mcp__semel__send_message", "kind": "other", "rawInput": arguments}
        if step.get("announced", True):
            await self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        params = {
            "token": self.launch.token, "conn": f"conn{self.launch.spawn}", "call": id, "name": "send_message",
            "arguments": arguments, "meta": {},
        }  # fmt: skip
        told.answer = await self.call(params, step.get("twice", False))
        told.whole = True
        done = {"toolCallId": id, "status": "completed", "content": [{"type": "content", "content": _text("sent")}]}
        if step.get("announced", True):
            await self._emit({"sessionUpdate": "tool_call_update", **done})
        self._remember([{"sessionUpdate": "tool_call", **call, **done}])

    async def call(self, params: Json, twice: bool = False) -> Json | None:
        """Its MCP process asks; where the first answer is lost it asks again with the same call id."""
        answer = None
        for _ in range(2 if twice else 1):
            try:
                answer = await self.agent.door("call", params)
            except Gone:
                return answer
        await self.agent.door("answered", {"token": params["token"], "call": params["call"]})
        return answer

    async def orphan(self, seconds: float) -> None:
        """Its MCP process was not killed with it, and speaks for a turn that is nobody's any more."""
        await asyncio.sleep(seconds)
        with contextlib.suppress(Gone):
            self.disk.orphans.append(await self._unasked(f"An orphan of {self.launch.spawn} speaks."))

    async def _insist(self, one: Prompted) -> None:
        """It was cancelled and said so, and a call of its tool comes all the same."""
        told = Told(self._text(one, "insist"), "insist")
        one.told.append(told)
        await asyncio.sleep(0.005 + self.outside.lag(0.5))
        with contextlib.suppress(Gone):
            told.answer = await self._unasked(told.text)

    async def _unasked(self, text: str) -> Json:
        self.disk.calls += 1
        params = {
            "token": self.launch.token, "conn": f"conn{self.launch.spawn}", "call": f"o{self.disk.calls}",
            "name": "send_message", "arguments": {"text": text}, "meta": {},
        }  # fmt: skip
        return dict(await self.agent.door("call", params))

    async def _emit(self, data: Json) -> None:
        await asyncio.sleep(self.outside.lag(self.agent.shape["slow"]))
        if self.alive:
            self.signals.put_nowait(Update(data))
            self.agent.telling()

    @property
    def _halves(self) -> bool:
        return bool(self.agent.shape["holds"] == "halves")

    def _remember(self, updates: list[Json]) -> None:
        if self.agent.shape["memory"] != "loaded":
            return
        holds = self.agent.shape["holds"]
        kept = [one for one in updates if holds != "texts" or one["sessionUpdate"] != "tool_call"]
        if holds == "late":
            self._unsaved += kept
        else:
            self.disk.memory.setdefault(self.memory, []).extend(kept)

    def _remember_end(self, stop: str) -> None:
        """The turn is over, whether or not anybody hears of it."""
        mark = {"sessionUpdate": "session_info_update", "_meta": {"semel-demo/ended": stop}}
        self._remember([mark] if self.agent_name == "semel-demo" else [])
        self.disk.memory.setdefault(self.memory, []).extend(self._unsaved)
        self._unsaved = []


class SeededAgent:
    """The Agent port. `door` hands a request to the gateway that lives now; `prompting` is told before a prompt is."""

    name = "main"
    process = True

    def __init__(self, outside: Outside, disk: Disk, shape: Json) -> None:
        self.outside, self.disk, self.shape = outside, disk, shape
        self.processes: list[Process] = []
        self.numbers: dict[int, int] = {}
        self.door: Callable[[str, Json], Any]
        self.answering: Callable[[], None] = lambda: None
        self.telling: Callable[[], None] = lambda: None
        self.prompting: Callable[[Launch, Sequence[Json]], None] = lambda launch, content: None

    def __repr__(self) -> str:
        return f"<SeededAgent {self.shape}, {sum(one.alive for one in self.processes)} alive>"

    async def open(self, launch: Launch) -> Process:
        await asyncio.sleep(self.outside.lag())
        await launch.on_start(1000 + launch.spawn, 1000 + launch.spawn, f"born{launch.spawn}")
        kind = self.shape["memory"]
        known = launch.memory is not None and kind != "new"
        memory = str(launch.memory) if known else f"mem{launch.spawn}"
        one = Process(self, launch, memory, kind if known else "new")
        self.processes.append(one)
        if known and kind == "loaded":
            past = list(self.disk.memory.get(memory, []))
            if self.shape["replays"] == "late":
                one.replaying = self.outside.run(one.replay(past), f"replay {launch.spawn}")
                return one
            for update in past:
                one.signals.put_nowait(Update(update, replay=True))
        await asyncio.sleep(self.outside.lag())
        return one

    def kill_all(self) -> None:
        """They die with the gateway that started them."""
        for one in self.processes:
            if one.alive:
                one.kill()


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
