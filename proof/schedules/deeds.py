"""What a scripted agent tells: its texts, calls and requests, each in the ways that were measured (see `agents`)."""

from __future__ import annotations

import asyncio
from itertools import cycle
from math import inf
from typing import TYPE_CHECKING, Any

from proof.schedules import memories
from proof.schedules.told import Disk, Permit, Prompted, Told, cut_off, pieces
from proof.schedules.wires import Outside
from semel.acp_stream.redelivery import LEAST_GLUED_CHARS
from semel.gateway.ports import Asked, Launch, Signal, Update

if TYPE_CHECKING:
    from proof.schedules.agents import SeededAgent

Json = dict[str, Any]
PATIENCE = 5.0  # seconds from a cancel until it waits no longer for the answer to a permission request
OPTIONS = (
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)
RETRIES = (
    "another id", "signal", "prose", "many", "glued", "unmarked", "rest", "goes on", "other words", "untold",
)  # fmt: skip
OUTPUTS = ("once", "none", "never ends", "replaced", "grows", "renamed", "update first", "same id")
"""What a tool call tells: nothing (gemini), no end (fast-agent), output that replaces what was there (kimi), or grows
(OpenCode); another name (qwen); an update before the call (gemini); an id that each turn uses again (kimi)."""
CALLS = ("first", "its own id", "behind it")
"""Where a permission request stands: behind the call it is about, or before that is announced (gemini, codex-zed); or
it is about a call that nothing else tells of (hermes, deepagents)."""
UNSEEN = "\u200b\u2060"
"""A text whose characters have no shape: whoever gets it sees nothing."""
NOTES_TOLD = ("title", "usage", "empty", "warning", "queued")
WORDS = (
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor",
    "indigo", "jasper", "kelp", "lagoon", "marble", "nectar", "opal", "pebble",
)  # fmt: skip


class Deeds:
    """What a process does. It is given its place by `agents.Process`."""

    agent: SeededAgent
    launch: Launch
    outside: Outside
    disk: Disk
    past: memories.Memory
    alive: bool
    signals: asyncio.Queue[Signal]
    asked_for_ours: list[Permit]
    _message: int
    _cancelled: asyncio.Event

    def _die(self, why: str) -> None:
        raise NotImplementedError

    def _does(self, what: str) -> Any:
        """A habit that most agents do not have."""
        return self.agent.shape.get(what)

    def words_of(self, one: Prompted, what: str, least: int = 0) -> str:
        """Its words, `least` characters or more. Where the agent repeats itself, a prompt that was asked before is
        answered in the same words."""
        same = self.agent.shape["repeats"] and one.marks and not one.resumes
        of = one.marks[0].replace("q", "Q") if same else f"N{one.n}"
        words = [WORDS[(sum(map(ord, of + what)) * (i + 3)) % len(WORDS)] for i in range(6)]
        more = "".join(f", {word} of {n}" for n, word in zip(range(least // len(", opal of 0")), cycle(words)))
        return f"About {of}, {what}: {' '.join(words)}{more}, and so it is."

    async def _say(self, one: Prompted, text: str, again: str | None = None, repeated: bool = False) -> None:
        told = Told(text * 2 if again == "unmarked" else text, "block", copied=again in ("another id", "long"))
        told.repeated = repeated
        told.unmarked = again == "unmarked"
        one.told.append(told)
        self._message += 1
        told.began = await self._stream(text, 2 if again else 1, kept=True)
        if again == "another id":
            self._message += 1
        if again:  # a second channel hands over the same text once more, as one piece
            await self.emit(self._chunk(text))
        self._tell_to_its_end(told, text)

    async def _say_last_words(self, one: Prompted) -> None:
        """What it was saying when it was cut off, once more from the beginning."""
        before = [told for asked in self.disk.prompts[: one.n] if asked.session == one.session for told in asked.told]
        if before and before[-1].how == "block" and not before[-1].whole:
            await self._say(one, before[-1].text)

    def _tell_to_its_end(self, told: Told, text: str, attempt: str = "") -> None:
        told.whole, told.kept = True, text
        self.past.end_text(self._chunk(text), self._chunk(text[len(text) // 2 :]), attempt)

    async def _stream(self, text: str, least: int = 1, kept: bool = False, again: bool = False) -> float:
        """Tell it in pieces. Return when the first of them was told, in virtual seconds."""
        began = inf
        parts = pieces(text, least + int(self.outside.chance.random() * 6))
        if kept:
            self.past.begin_text(self._chunk(text))
        for n, piece in enumerate(parts):
            if kept and n == len(parts) // 2:
                self.past.reach_half(self._chunk(text[: len(text) // 2]))
            await self.emit(self._chunk(piece))
            began = min(began, self.outside.loop.time())
            if again:
                self.agent.retelling()
        return began

    async def _aside(self, one: Prompted, text: str) -> None:
        told = Told(text, "aside", "side")
        one.told.append(told)
        self._message += 1
        chunk = self._chunk(f'<message to="side">{text}</message>')
        self.past.begin_text(chunk)
        await self.emit(chunk)
        told.whole = True
        self.past.end_text(chunk, chunk)

    async def _leave_unclosed(self, one: Prompted, text: str) -> None:
        told = Told(text, "block")
        one.told.append(told)
        self._message += 1
        chunk = self._chunk(f'<message to="home">{text}')
        self.past.begin_text(chunk)
        await self.emit(chunk)
        told.whole = True
        self.past.end_text(chunk, chunk)

    async def _broken(self, one: Prompted, step: Json) -> None:
        retry = step["retry"]
        text = self.words_of(one, f"broken{step['broken']}", 2 * LEAST_GLUED_CHARS if retry == "glued" else 0)
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
        for _ in range({"many": 3, "untold": 0}.get(retry, 1)):
            self._message += 1
            for piece in pieces(attempt, 2):
                await self.emit(self._chunk(piece))
        if retry == "signal":
            await self.emit({"sessionUpdate": "_session/retrying", "message": "the stream broke off"})
        if retry == "prose":
            await self.emit({"sessionUpdate": "agent_message_chunk", "content": text_of("Retrying (attempt 1/3)...")})
        if retry in ("another id", "many", "untold"):
            self._message += 1
        await self._stream(text, kept=True, again=retry != "untold")
        self._tell_to_its_end(told, text, attempt)
        if self.past.holds == "doubled":
            told.doubled = attempt + text

    async def _go_on(self, one: Prompted, how: str, attempt: str, text: str) -> None:
        """A stream that broke off, and was not begun anew."""
        self._message += 1
        rest = text[len(attempt) :] if how != "other words" else self.words_of(one, "other words")
        texts = [text] if how == "goes on" else [attempt, rest]
        told = [Told(each, "block") for each in texts]
        one.told += told
        for piece in pieces(attempt, 2):
            await self.emit(self._chunk(piece))
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
        return {"sessionUpdate": "agent_message_chunk", **id, "content": text_of(text)}

    async def _tool(self, at: int, output: str, size: int) -> None:
        id = f"{at}:call" if output == "same id" else f"t{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"look at {at}", "kind": "other", "rawInput": {"n": at}}
        if output == "update first":
            await self.update_call(id, status="in_progress")
        await self.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        self.past.begin_call(call)
        if output == "never ends":
            return
        for words in {"replaced": ["looking ...", "still looking ..."], "grows": ["s", "saw"]}.get(output, []):
            await self.update_call(id, content=[{"type": "content", "content": text_of(words)}])
        if output == "renamed":
            await self.update_call(id, title="look__at", name="look__at")
        seen = [] if output == "none" else [{"type": "content", "content": text_of(_output(at, size))}]
        await self.update_call(id, status="completed", content=seen)
        self.past.end_call(call, {"status": "completed", "content": seen})

    async def update_call(self, id: str, **fields: Any) -> None:
        await self.emit({"sessionUpdate": "tool_call_update", "toolCallId": id, **fields})

    async def _permit(self, at: int, where: str) -> None:
        id = f"p{self.launch.spawn}-{self.disk.calls}"
        self.disk.calls += 1
        call = {"toolCallId": id, "title": f"run {at}", "kind": "execute", "rawInput": {"n": at}}
        if where != "first":
            await self.emit({"sessionUpdate": "tool_call", **call, "status": "pending"})
            self.past.begin_call(call)
        await asyncio.sleep(self.outside.lag(self.agent.shape["slow"]))
        permit = Permit(id, self.launch.session)
        self.disk.permits.append(permit)
        about = {**call, "toolCallId": f"perm-check-{id}"} if where == "its own id" else call
        self.signals.put_nowait(Asked(id, about, OPTIONS))
        await self._answered(permit)
        if where == "first":
            await self.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        done = {"status": "completed" if permit.answers == ["once"] else "failed"}
        await self.update_call(id, **done)
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

    async def ask_for_ours(self, call: Json) -> None:
        """Whether it may use the gateway's own tool; nobody is asked about that."""
        permit = Permit(f"ours{self.disk.calls}", self.launch.session)
        self.asked_for_ours.append(permit)
        self.signals.put_nowait(Asked(permit.id, call, OPTIONS))
        await self._answered(permit)

    async def _note(self, what: str) -> None:
        match what:
            case "title":
                await self.emit({"sessionUpdate": "session_info_update", "title": "A title"})
            case "usage":
                await self.emit({"sessionUpdate": "usage_update", "used": 125, "size": 200_000})
            case "empty":
                await self.emit(self._chunk(""))
            case "warning":
                await self.emit({"sessionUpdate": "agent_message_chunk", "content": text_of("Warning: no metadata.")})
            case "queued":
                words = "Queued for the next turn. (1 queued)"
                await self.emit({"sessionUpdate": "agent_message_chunk", "content": text_of(words)})

    async def emit(self, data: Json) -> None:
        await asyncio.sleep(self.outside.lag(self.agent.shape["slow"]))
        if self.alive:
            self.signals.put_nowait(Update(data))
            self.agent.telling()
            if self.agent.dies_now():
                self._die("was killed by SIGKILL")
                await asyncio.sleep(0)


def _output(at: int, size: int) -> str:
    """What a tool tells: numbered lines, `size` characters or more."""
    lines = (f"saw {at}, line {n}" for n in range(1, max(2, size // 16)))
    return "\n".join(lines) if size else f"saw {at}"


def text_of(text: str) -> Json:
    return {"type": "text", "text": text}
