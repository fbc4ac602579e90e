"""A scripted agent: a process outside the gateway, behind the Agent port, with a memory that outlives it.

What it does with its n-th prompt in a room is a script of the plan: a list of steps.

    {"say": k, "tail"?, "lead"?: text, "again"?: how, "as"?: step}  a block of text in pieces; `again`: handed over once
                             more in one piece; `as`: in the words of another step
    {"broken": k, "retry": how}                 a block that breaks off, and the whole of it again
    {"think": k, "again"?: true}                a thought; `again`: once more, whole
    {"tool": k, "output"?: how}                 a tool call of its own, with output
    {"permit": k, "call"?: how}                 a tool call that it asks permission for, and waits until it is answered
    {"send": k, "to"?: name, "announced"?: bool, "twice"?: true | "another process", "asks"?: true}
                             send_message over its MCP process; `asks`: with a permission request of its own before it
    {"both": k}              two of them at the same time
    {"denied": k}            a send_message that it announces and never makes
    {"repeat": -1}           the text of the last `send` as a block; with "tail" it goes on behind it
    {"aside": -1}            the text of the last `send` as a block that is addressed to "side"
    {"note": what}           what is no answer: its title, what it used, an empty chunk, a warning of its adapter
    {"wait": seconds}        it tells nothing
    {"die": why}             the process is gone
    {"fail": message, "says"?: true}            the prompt ends with an error; `says`: it is its last words, too
    {"stop": reason}         the prompt ends with another stop reason
    {"after": k, "note"?: what}                 told behind the answer, while no turn runs

What its memory holds of a turn that was cut off, and how it tells it, is as real agents have it (`memories`). Only the
demo agent's marks that a turn ended.

Text comes again as the measured agents tell it again (RETRIES): under "another id"; behind a retry "signal" (vibe,
Codex) or "prose" of the adapter (pi); "many" times under other ids (Claude Code at its token limit); in the same block
with no mark but its length ("long": above every honest repeat; "glued": from inside a word on); or "unmarked", short.
The last is no re-delivery for anybody who reads it: it has to be shown as often as it was told. Or it does not come
again: the "rest" follows under another id (Claude Code) or goes on in the same block ("goes on", hermes), or it is said
in "other words".
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from proof.schedules import memories
from proof.schedules.told import Disk, Permit, Prompted, Told, cut_off, pieces
from proof.schedules.wires import Gone, Outside, Pipe
from semel.gateway.ports import Answered, Asked, Died, Launch, Signal, Update
from semel.law.stream.evidence import LEAST_GLUED_CHARS, LEAST_RETRY_CHARS
from semel.law.stream.profiles import profile_for

Json = dict[str, Any]
MARK = re.compile(r"\bq\d+\b")
NOTES = ("[semel: notes for you", "[semel: this conversation so far", "[semel: your text was held back")
RESUMED, ASKED = "[semel: your turn goes on", "- it was asked: "
PATIENCE = 5.0  # seconds from a cancel until it waits no longer for the answer to a permission request
OPTIONS = (
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)
RETRIES = (
    "another id", "signal", "prose", "many", "glued", "unmarked", "rest", "goes on", "other words",
)  # fmt: skip
OUTPUTS = ("once", "none", "never ends", "replaced", "grows", "renamed", "update first", "same id")
"""What a tool call tells: nothing (gemini), no end (fast-agent), output that replaces what was there (kimi), or grows
(OpenCode); another name (qwen); an update before the call (gemini); an id that each turn uses again (kimi)."""
CALLS = ("first", "its own id", "behind it")
"""Where a permission request stands: behind the call it is about, or before that is announced (gemini, codex-zed); or
it is about a call that nothing else tells of (hermes, deepagents)."""
NOTES_TOLD = ("title", "usage", "empty", "warning", "queued")
CANCELS = ("cancelled", "end_turn", "error", "late")
"""How it ends a prompt that was cancelled: as it should, as if nothing were (several), with an error (hermes), or only
17 s later (deepagents)."""
GOES_ON = ("goes on", "again", "silent")
"""What it does when it is asked to go on: it says something more, what it was saying once more, or nothing."""
CANCEL_LATE_S = 17.0
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
        self._answers = False  # it has a prompt that it did not answer yet
        self.asked_for_ours: list[Permit] = []
        self._message = 0
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
            permits = [*self.disk.permits, *self.asked_for_ours]
            permit = next(one for one in permits if one.id == line[1][0])
            permit.answers.append(line[1][1])
            permit.news.set()
            return
        marks, resumes = questions(line[1])
        steered = self._answers
        n, texts = len(self.disk.prompts), [str(block.get("text", "")) for block in line[1]]
        one = Prompted(n, self.launch.spawn, self.launch.session, marks, resumes, steered, texts)
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
                await self._emit({"sessionUpdate": "user_message_chunk", "content": _text(text)})
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
            self.outside.run(self._insist(done[-1]), f"agent {self.launch.spawn} insists")

    async def _tell_after(self, one: Prompted, steps: list[Json]) -> None:
        for step in steps:
            await asyncio.sleep(step.get("in", 0.1))
            if "note" in step:
                await self._note(step["note"])
                continue
            told = Told(self._text(one, f"after{step['after']}"), "after")
            one.told.append(told)
            self._message += 1
            await self._stream(told.text)
            told.whole = True

    def _does(self, what: str) -> Any:
        """A habit that most agents do not have."""
        return self.agent.shape.get(what)

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
                words = self._text(one, step.get("as", f"say{step['say']}"), least)
                self.disk.kept += [words] if "lead" in step else []  # what is recalled begins with its first word
                await self._say(one, step.get("lead", "") + words + step.get("tail", ""), again)
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
            case "broken":
                await self._broken(one, step)
            case "think":
                thoughts = [f"thinking of {at} ", "things"]
                for thought in [*thoughts, "".join(thoughts)] if step.get("again") else ["".join(thoughts)]:
                    await self._emit({"sessionUpdate": "agent_thought_chunk", "content": _text(thought)})
            case "tool":
                await self._tool(at, step.get("output", "once"))
            case "permit":
                await self._permit(at, step.get("call", "behind it"))
            case "send":
                await self._send(one, step, at)
            case "both":
                await asyncio.gather(*(self._send(one, {"send": f"{step['both']}{n}"}, at) for n in "ab"))
            case "denied":
                await self._denied(one, step)
            case "note":
                await self._note(step["note"])
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

    async def _say_last_words(self, one: Prompted) -> None:
        """What it was saying when it was cut off, once more from the beginning."""
        before = [told for asked in self.disk.prompts[: one.n] if asked.session == one.session for told in asked.told]
        if before and before[-1].how == "block" and not before[-1].whole:
            await self._say(one, before[-1].text)

    def _tell_to_its_end(self, told: Told, text: str, attempt: str = "") -> None:
        told.whole = True
        self.past.end_text(self._chunk(text), self._chunk(text[len(text) // 2 :]), attempt)

    async def _stream(self, text: str, least: int = 1, kept: bool = False) -> None:
        parts = pieces(text, least + int(self.outside.chance.random() * 6))
        if kept:
            self.past.begin_text(self._chunk(text))
        for n, piece in enumerate(parts):
            if kept and n == len(parts) // 2:
                self.past.reach_half(self._chunk(text[: len(text) // 2]))
            await self._emit(self._chunk(piece))

    async def _aside(self, one: Prompted, text: str) -> None:
        told = Told(text, "aside", "side")
        one.told.append(told)
        self._message += 1
        chunk = self._chunk(f'<message to="side">{text}</message>')
        await self._emit(chunk)
        told.whole = True
        self.past.end_text(chunk, chunk)

    async def _broken(self, one: Prompted, step: Json) -> None:
        retry = step["retry"]
        text = self._text(one, f"broken{step['broken']}", 2 * LEAST_GLUED_CHARS if retry == "glued" else 0)
        cut = LEAST_GLUED_CHARS if retry == "glued" else len(text) // 2
        attempt = cut_off(text, cut, inside_a_word=retry != "unmarked")
        if retry in ("rest", "goes on", "other words"):
            await self._go_on(one, retry, attempt, text)
            return
        told = Told(attempt + text if retry == "unmarked" else text, "block")
        told.broken = retry in ("another id", "signal", "prose", "many")
        told.unmarked = retry == "unmarked"
        if retry == "glued":
            told.undecided = attempt + attempt[:-1]
        one.told.append(told)
        for _ in range(3 if retry == "many" else 1):
            self._message += 1
            for piece in pieces(attempt, 2):
                await self._emit(self._chunk(piece))
        if retry == "signal":
            await self._emit({"sessionUpdate": "_session/retrying", "message": "the stream broke off"})
        if retry == "prose":
            await self._emit({"sessionUpdate": "agent_message_chunk", "content": _text("Retrying (attempt 1/3)...")})
        if retry in ("another id", "many"):
            self._message += 1
        await self._stream(text, kept=True)
        self._tell_to_its_end(told, text, attempt)
        if self.past.holds == "doubled":
            told.doubled = attempt + text

    async def _go_on(self, one: Prompted, how: str, attempt: str, text: str) -> None:
        """A stream that broke off, and was not begun anew."""
        self._message += 1
        rest = text[len(attempt) :] if how != "other words" else self._text(one, "other words")
        texts = [text] if how == "goes on" else [attempt, rest]
        told = [Told(each, "block") for each in texts]
        one.told += told
        for piece in pieces(attempt, 2):
            await self._emit(self._chunk(piece))
        if how == "goes on":
            self.past.end_text(self._chunk(attempt), self._chunk(attempt[len(attempt) // 2 :]))
            self.past.hear([memories.NOBODY_WROTE[-1]])
            self.disk.kept += [attempt, rest]
        else:
            told[0].whole = True
            self._message += 1
            self.disk.kept.append(text)
        await self._stream(rest)
        kept = rest if how == "goes on" else (text if how == "rest" else rest)
        self._tell_to_its_end(told[-1], kept)

    def _chunk(self, text: str) -> Json:
        id = {} if self._does("without ids") else {"messageId": f"m{self.launch.spawn}-{self._message}"}
        return {"sessionUpdate": "agent_message_chunk", **id, "content": _text(text)}

    async def _tool(self, at: int, output: str) -> None:
        id = f"{at}:call" if output == "same id" else f"t{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"look at {at}", "kind": "other", "rawInput": {"n": at}}
        if output == "update first":
            await self._update_call(id, status="in_progress")
        await self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        self.past.begin_call(call)
        if output == "never ends":
            return
        for words in {"replaced": ["looking ...", "still looking ..."], "grows": ["s", "saw"]}.get(output, []):
            await self._update_call(id, content=[{"type": "content", "content": _text(words)}])
        if output == "renamed":
            await self._update_call(id, title="look__at", name="look__at")
        seen = [] if output == "none" else [{"type": "content", "content": _text(f"saw {at}")}]
        await self._update_call(id, status="completed", content=seen)
        self.past.end_call(call, {"status": "completed", "content": seen})

    async def _update_call(self, id: str, **fields: Any) -> None:
        await self._emit({"sessionUpdate": "tool_call_update", "toolCallId": id, **fields})

    async def _permit(self, at: int, where: str) -> None:
        id = f"p{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"run {at}", "kind": "execute", "rawInput": {"n": at}}
        if where != "first":
            await self._emit({"sessionUpdate": "tool_call", **call, "status": "pending"})
            self.past.begin_call(call)
        await asyncio.sleep(self.outside.lag(self.agent.shape["slow"]))
        permit = Permit(id, self.launch.session)
        self.disk.permits.append(permit)
        about = {**call, "toolCallId": f"perm-check-{id}"} if where == "its own id" else call
        self.signals.put_nowait(Asked(id, about, OPTIONS))
        await self._answered(permit)
        if where == "first":
            await self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        done = {"status": "completed" if permit.answers == ["once"] else "failed"}
        await self._update_call(id, **done)
        self.past.end_call(call, done)

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
        self.past.begin_call(call)
        if step.get("asks"):
            await self._ask_for_ours(call)
        params = {
            "token": self.launch.token, "conn": f"conn{self.launch.spawn}", "call": id, "name": "send_message",
            "arguments": arguments, "meta": {},
        }  # fmt: skip
        told.answer = await self.call(params, step.get("twice", False))
        told.whole = True
        done = {"status": "completed", "content": [{"type": "content", "content": _text("sent")}]}
        if step.get("announced", True):
            await self._update_call(id, **done)
        self.past.end_call(call, done, ours=True)

    async def _ask_for_ours(self, call: Json) -> None:
        """Whether it may use the gateway's own tool; nobody is asked about that."""
        permit = Permit(f"ours{self.disk.calls}", self.launch.session)
        self.asked_for_ours.append(permit)
        self.signals.put_nowait(Asked(permit.id, call, OPTIONS))
        await self._answered(permit)

    async def _denied(self, one: Prompted, step: Json) -> None:
        """A guard of the agent's own stands before the call: it is announced, and never comes."""
        self.disk.calls += 1
        arguments = {"text": self._text(one, f"send{step['denied']}")}
        id = f"d{self.launch.spawn}-{self.disk.calls}"
        call = {"toolCallId": id, "title": "mcp__semel__send_message", "kind": "other", "rawInput": arguments}
        await self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        await self._update_call(id, status="failed")
        self.past.end_call(call, {"status": "failed"}, ours=True)

    async def _note(self, what: str) -> None:
        match what:
            case "title":
                await self._emit({"sessionUpdate": "session_info_update", "title": "A title"})
            case "usage":
                await self._emit({"sessionUpdate": "usage_update", "used": 125, "size": 200_000})
            case "empty":
                await self._emit(self._chunk(""))
            case "warning":
                await self._emit({"sessionUpdate": "agent_message_chunk", "content": _text("Warning: no metadata.")})
            case "queued":
                words = "Queued for the next turn. (1 queued)"
                await self._emit({"sessionUpdate": "agent_message_chunk", "content": _text(words)})

    async def call(self, params: Json, twice: bool | str = False) -> Json | None:
        """Its MCP process asks; where the first answer is lost it asks again with the same call id. Or that process
        died, and the next one asks anew, under ids of its own."""
        answer = None
        for n in range(2 if twice else 1):
            if n and twice == "another process":
                params = {**params, "conn": params["conn"] + "b", "call": params["call"] + "b"}
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
            if self.agent.dies_now():
                self._die("was killed by SIGKILL")
                await asyncio.sleep(0)

    @property
    def _remembers(self) -> bool:
        return self.agent.shape["memory"] in ("loaded", "resumed, told")

    def _end_turn(self, stop: str) -> None:
        """The turn is over, whether or not anybody hears of it."""
        mark = {"sessionUpdate": "session_info_update", "_meta": {"semel-demo/ended": stop}}
        self.past.end_turn([mark] if self.agent_name == "semel-demo" else [])


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
            one.signals.put_nowait(Update({"sessionUpdate": "agent_message_chunk", "content": _text(words)}))
        await asyncio.sleep(self.outside.lag())
        return one

    def kill_all(self) -> None:
        """They die with the gateway that started them."""
        for one in self.processes:
            if one.alive:
                one.kill()


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
