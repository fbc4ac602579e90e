"""A scripted agent: a process outside the gateway, behind the Agent port, with a memory that outlives it.

What it does with its n-th prompt in a room is a script of the plan: a list of steps.

    {"say": k, "tail"?, "lead"?: text, "again"?: how, "as"?: step, "repeated"?: true}  a block of text in pieces;
                             `again`: handed over once more in one piece; `as`: in the words of another step;
                             `repeated`: it has said it before
    {"broken": k, "retry": how}                 a block that breaks off, and the whole of it again
    {"think": k, "again"?: true}                a thought; `again`: once more, whole
    {"tool": k, "output"?: how, "size"?: n}     a tool call of its own, with output: of n characters, or a few words
    {"permit": k, "call"?: how}                 a tool call that it asks permission for, and waits until it is answered
    {"send": k, "to"?: name, "announced"?: bool, "twice"?: true | "another process", "asks"?: true, "late"?: seconds}
                             send_message by its MCP process (`calling`); `asks`: with a permission request of its own
                             before it
    {"both": k}              two of them at the same time
    {"denied": k}            a send_message that it announces and never makes
    {"repeat": -1}           the text of the last `send` as a block; with "tail" it goes on behind it
    {"unseen": k}            an answer of which nothing is seen
    {"unclosed": k}          a text in a block that is addressed to its home, and is never closed
    {"aside": -1}            the text of the last `send` as a block that is addressed to "side"
    {"note": what}           what is no answer: its title, what it used, an empty chunk, a warning of its adapter
    {"wait": seconds}        it tells nothing
    {"die": why, "ended"?: true}                the process is gone; `ended`: once its memory has the turn's end, with
                             no answer
    {"fail": message, "says"?: true}            the prompt ends with an error; `says`: it is its last words, too
    {"stop": reason}         the prompt ends with another stop reason
    {"after": k, "note"?: what}                 told behind the answer, while no turn runs

What its memory holds of a turn that was cut off, and how it tells it, is as real agents have it (`memories`). Only the
scripted agent's marks that a turn ended.

Text comes again as the measured agents tell it again (RETRIES): under "another id"; behind a retry "signal" (vibe,
Codex) or "prose" of the adapter (pi); "many" times under other ids (Claude Code at its token limit); in the same block
with no mark but its length ("long": above every honest repeat; "glued": from inside a word on); or "unmarked", short.
The last is no re-delivery for anybody who reads it: it has to be shown as often as it was told. Or it does not come
again: the "rest" follows under another id (Claude Code) or goes on in the same block ("goes on", hermes), or it is said
in "other words". "untold": what came before it is lost on its way, and only the agent's memory holds it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from proof.schedules import memories
from proof.schedules.calling import McpProcess
from proof.schedules.deeds import UNSEEN, Deeds, text_of
from proof.schedules.told import Disk, Permit, Prompted, Told
from proof.schedules.wires import Outside, Pipe
from semel.acp_stream.profiles import profile_for
from semel.acp_stream.redelivery import LEAST_RETRY_CHARS
from semel.gateway.ports import Answered, Died, Launch, Signal, Update

Json = dict[str, Any]
MARK = re.compile(r"\bq\d+\b")
NOTES = ("[semel: notes for you", "[semel: this conversation so far", "[semel: your text was held back")
RESUMED, ASKED = "[semel: your turn goes on", "- it was asked: "
CANCELS = ("cancelled", "end_turn", "error", "late")
"""How it ends a prompt that was cancelled: as it should, as if nothing were (several), with an error (hermes), or only
17 s later (deepagents)."""
GOES_ON = ("goes on", "again", "silent")
"""What it does when it is asked to go on: it says something more, what it was saying once more, or nothing."""
CANCEL_LATE_S = 17.0


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


class Process(Deeds):
    """A running agent of one session; it is its own Conversation."""

    modes: Json | None = None
    models: Json | None = None
    options: list[Json] | None = None
    images = audio = resources = False
    tools_problem = ""
    tools_advice = ""
    left_out_servers = ()

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
        self._answers = False  # it has a prompt that it did not answer yet
        self.asked_for_ours: list[Permit] = []
        self._message = 0
        self.mcp = McpProcess(self)
        self.past = memories.Memory(
            agent.disk.memory.setdefault(memory, []), agent.shape.get("holds", "whole"), self._remembers
        )

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
        self._stdin.put(("prompt", (list(content), self.outside.loop.time())))

    async def answer(self, id: str, option: str | None) -> None:
        self._stdin.put(("answer", (id, option)))

    async def cancel(self) -> None:
        self._stdin.put(("cancel", None))

    async def set_mode(self, mode: str) -> None:
        return None

    async def set_model(self, model: str) -> None:
        return None

    async def set_option(self, option: str, value: str | bool) -> None:
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
            permits = [*self.disk.permits, *self.asked_for_ours]
            permit = next(one for one in permits if one.id == line[1][0])
            permit.answers.append(line[1][1])
            permit.news.set()
            return
        content, given = line[1]
        marks, resumes = questions(content)
        steered = self._answers
        n, texts = len(self.disk.prompts), [str(block.get("text", "")) for block in content]
        one = Prompted(n, self.launch.spawn, self.launch.session, marks, resumes, steered, given, texts)
        self.disk.prompts.append(one)
        self._waiting.append(one)
        self.past.hear(texts)
        if steered and profile_for(self.agent_name).second != "steers":
            self.disk.broken.append(f"law 2: prompt {one.n} came while {self!r} was busy, which does not read it")
        if not steered:
            self._cancelled.clear()
            self._answers = True
            self._work = self.outside.run(self._serve(self._work), f"agent {self.launch.spawn}")

    async def replay(self, past: list[Json]) -> None:
        """What it remembers, told after the session was opened, and before it reads a prompt."""
        for update in past:
            await asyncio.sleep(self.outside.lag(0.03))
            if self.alive:
                self.signals.put_nowait(Update(update, replay=True))

    async def _serve(self, before: asyncio.Task[Any] | None) -> None:
        """Answer what waits; a prompt that comes meanwhile is read in the same turn. `before`: what it may still tell
        behind its last answer."""
        if before is not None:
            await asyncio.wait({before})
        if self.replaying is not None:
            await asyncio.wait({self.replaying})
        if self._does("echoes"):
            for text in self._waiting[0].texts:
                await self.emit({"sessionUpdate": "user_message_chunk", "content": text_of(text)})
        done: list[Prompted] = []
        stop: Answered | None = None
        while stop is None and (todo := [one for one in self._waiting if one not in done]):
            stop = await self._perform(todo[0])
            done.append(todo[0])
        if not self.alive:
            return
        after = [step for one in done for step in self._script(one) if "after" in step]
        self._end_turn("end_turn" if stop is None else stop.stop)
        self.agent.answering()
        self._answers = False
        for one in done:
            self._waiting.remove(one)
            one.end = (stop or Answered("end_turn")).stop
            self.signals.put_nowait(stop or Answered("end_turn"))
        if stop is None and done:
            await self._tell_after(done[-1], after)
        if stop is not None and stop.stop == "cancelled" and self.agent.shape["insists"]:
            self.outside.run(self.mcp.insist(done[-1]), f"agent {self.launch.spawn} insists")

    async def _tell_after(self, one: Prompted, steps: list[Json]) -> None:
        for step in steps:
            await asyncio.sleep(step.get("in", 0.1))
            if "note" in step:
                await self._note(step["note"])
                continue
            told = Told(self.words_of(one, f"after{step['after']}"), "after")
            one.told.append(told)
            self._message += 1
            await self._stream(told.text)
            told.whole = True

    def _script(self, one: Prompted) -> list[Json]:
        if one.resumes and self._does("asked on") in ("again", "silent"):
            return [{"last words": 0}] if self._does("asked on") == "again" else []
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
                return await self._end_cancelled()
            if "after" in step:
                continue
            if "fail" in step:
                if step.get("says"):
                    await self._say(one, f"{step['fail']} (N{one.n})")
                return Answered("error", step["fail"])
            if "stop" in step:
                return Answered(step["stop"])
            if "die" in step:
                await asyncio.sleep(self.outside.lag())
                if step.get("ended"):
                    self._end_turn("end_turn")
                self._die(step["die"])
                return Answered("error", "it is dead")
            await self._step(one, step, at)
        if self._cancelled.is_set() and self.agent.shape["insists"]:
            return Answered("cancelled")
        return None

    async def _end_cancelled(self) -> Answered:
        match self._does("cancels"):
            case "end_turn":
                return Answered("end_turn")
            case "error":
                return Answered("error", "Internal error: 'NoneType' object has no attribute 'startswith'")
            case "late":
                await asyncio.sleep(CANCEL_LATE_S)
        return Answered("cancelled")

    async def _step(self, one: Prompted, step: Json, at: int) -> None:
        match next(iter(step)):
            case "say":
                again = step.get("again")
                least = LEAST_RETRY_CHARS if again == "long" else 0
                words = self.words_of(one, step.get("as", f"say{step['say']}"), least)
                self.disk.kept += [words] if "lead" in step else []  # what is recalled begins with its first word
                await self._say(one, step.get("lead", "") + words + step.get("tail", ""), again, "repeated" in step)
            case "last words":
                await self._say_last_words(one)
            case "repeat":
                sent = [told.text for told in one.told if told.how == "send"]
                if sent:
                    await self._say(one, sent[step["repeat"]] + step.get("tail", ""))
            case "aside":
                sent = [told.text for told in one.told if told.how == "send"]
                if sent:
                    await self._aside(one, sent[step["aside"]])
            case "unseen":
                self.disk.kept.append(UNSEEN)
                self._message += 1
                await self.emit(self._chunk(UNSEEN))
            case "unclosed":
                await self._leave_unclosed(one, self.words_of(one, f"unclosed{step['unclosed']}"))
            case "broken":
                await self._broken(one, step)
            case "think":
                thoughts = [f"thinking of {at} ", "things"]
                for thought in [*thoughts, "".join(thoughts)] if step.get("again") else ["".join(thoughts)]:
                    await self.emit({"sessionUpdate": "agent_thought_chunk", "content": text_of(thought)})
            case "tool":
                await self._tool(at, step.get("output", "once"), step.get("size", 0))
            case "permit":
                await self._permit(at, step.get("call", "behind it"))
            case "send":
                await self.mcp.send(one, step)
            case "both":
                await asyncio.gather(*(self.mcp.send(one, {"send": f"{step['both']}{n}"}) for n in "ab"))
            case "denied":
                await self.mcp.announce_in_vain(one, step)
            case "note":
                await self._note(step["note"])
            case "wait":
                await asyncio.sleep(step["wait"])

    # ------------------------------------------------------------ its memory

    @property
    def _remembers(self) -> bool:
        return self.agent.shape["memory"] in ("loaded", "resumed, told")

    def _end_turn(self, stop: str) -> None:
        """The turn is over, whether or not anybody hears of it."""
        mark = {"sessionUpdate": "session_info_update", "_meta": {"semel-demo/ended": stop}}
        self.past.end_turn([mark] if self.agent_name == memories.MARKING_AGENT else [])


class SeededAgent:
    """The Agent port. `door` hands a request to the gateway that lives now; `prompting` is told before a prompt is."""

    name = "main"
    process = True

    def __init__(self, outside: Outside, disk: Disk, shape: Json) -> None:
        self.outside, self.disk, self.shape = outside, disk, shape
        self.processes: list[Process] = []
        self.numbers: dict[int, int] = {}
        self.updates = 0  # told so far
        self.deaths = set(shape.get("deaths", ()))  # behind which update its process is killed
        self.door: Callable[[str, Json], Any]
        self.answering: Callable[[], None] = lambda: None
        self.telling: Callable[[], None] = lambda: None
        self.retelling: Callable[[], None] = lambda: None
        self.prompting: Callable[[Launch, Sequence[Json]], None] = lambda launch, content: None

    def __repr__(self) -> str:
        return f"<SeededAgent {self.shape}, {sum(one.alive for one in self.processes)} alive>"

    def dies_now(self) -> bool:
        """Whether its process is killed behind the update that was told now."""
        self.updates += 1
        return self.updates in self.deaths

    async def open(self, launch: Launch) -> Process:
        await asyncio.sleep(self.outside.lag())
        await launch.on_start(1000 + launch.spawn, 1000 + launch.spawn, f"born{launch.spawn}")
        kind = self.shape["memory"]
        known = launch.memory is not None and kind != "new"
        memory = str(launch.memory) if known else f"mem{launch.spawn}"
        restored = ("resumed" if kind.startswith("resumed") else kind) if known else "new"
        past = memories.told(self.disk.memory.get(memory, []), self.shape.get("tells", ""), launch.spawn)
        one = Process(self, launch, memory, restored)
        self.processes.append(one)
        if known and kind in ("loaded", "resumed, told"):
            if self.shape["replays"] == "late":
                one.replaying = self.outside.run(one.replay(past), f"replay {launch.spawn}")
                return one
            for update in past:
                one.signals.put_nowait(Update(update, replay=True))
        elif not known and self.shape.get("banner"):
            words = f"New session {launch.spawn}: a model of this house."
            self.disk.kept.append(words)
            one.signals.put_nowait(Update({"sessionUpdate": "agent_message_chunk", "content": text_of(words)}))
        await asyncio.sleep(self.outside.lag())
        return one

    def kill_all(self) -> None:
        """They die with the gateway that started them."""
        for one in self.processes:
            if one.alive:
                one.kill()
