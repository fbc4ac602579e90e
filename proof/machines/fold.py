"""Law 8: two folds of one agent. One is told everything once; the other is told it again in every way agents do.

An agent talks, thinks, runs tools and ends its turns. What it says goes to the `plain` fold as it is, and to the
`noisy` one with copies between: the whole block again, the whole block with more behind it, the block under another
message id, the last message once more behind a tool call or at the turn's end, a tool's state again, its history
replayed under the same ids, under others, or under none, trimmed or not. Both views must be the same, and be what the
agent truly said, honest repeats included: texts that begin with the same words twice, short texts that are said again.
What has no other sign of a re-delivery than its wording comes again only if it is longer than honest repeats are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proof.machines.counted import Counted
from semel.acp_stream import PROFILES, Began, Changed, Ended, Fold, Grew, Op
from semel.acp_stream.redelivery import LEAST_RETRY_CHARS

Json = dict[str, Any]
CHUNK = {"message": "agent_message_chunk", "thought": "agent_thought_chunk", "user": "user_message_chunk"}
HONEST = ("", "ha" * 3, " 1000", " no no no", "\n- a\n- a\n- a", " \u00e9\U0001f600")
PHRASES = ("I love you, I love you too. ", "- one more line of a list\n", "We shall not, we shall not be moved. ")
SUMMARIES = (None, "content", "rawOutput")  # where a poorer word on the output comes behind it
SHOWN = ("role", "partial", "superseded", "history", "status", "title", "stop")


@dataclass
class Said:
    """One item of the truth. `mid`: its id for both folds; the noisy one may have been given another."""

    kind: str
    text: str
    mid: str
    noisy: str
    chunks: int = 0


class Board:
    """What a watcher has who applies the operations in order."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}

    def apply(self, ops: list[Op]) -> None:
        for op in ops:
            match op:
                case Began(id, _, fields):
                    assert id not in self.texts, "an item begins twice"
                    self.texts[id] = str(fields.get("text", ""))
                case Grew(id, text):
                    self.texts[id] += text
                case Changed(id, fields) | Ended(id, fields):
                    if "text" in fields:
                        self.texts[id] = str(fields["text"])


def chunk(kind: str, text: str, mid: str | None) -> Json:
    update: Json = {"sessionUpdate": CHUNK[kind], "content": {"type": "text", "text": text}}
    return update if mid is None else {**update, "messageId": mid}


def pieces(text: str, cuts: list[int]) -> Iterator[str]:
    """The text, cut in two or more."""
    at = sorted({0, len(text), len(text) // 2, *(cut % len(text) for cut in cuts)})
    return (text[a:b] for a, b in itertools.pairwise(at))


class FoldMachine(Counted):
    """One agent, told once and told again."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = PROFILES["careful"]
        self.truth: list[Said] = []
        self.open: Said | None = None
        self.running = False
        self.loaded = False  # a session was loaded: a prompt comes next
        self.number = 0

    @initialize(name=st.sampled_from(sorted(PROFILES)))
    def an_agent_starts(self, name: str) -> None:
        self.profile = PROFILES[name]
        self.plain, self.noisy = Fold(self.profile), Fold(self.profile)
        self.board = Board()
        self.prompts()

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def again(self, update: Json, replay: bool = False) -> None:
        """Only the noisy fold is told."""
        self.board.apply(self.noisy.update(update, replay))

    def both(self, update: Json, noisy: Json | None = None) -> None:
        self.plain.update(update)
        self.again(noisy or update)

    # ------------------------------------------------------------ what happens

    @precondition(lambda self: not self.running)
    @rule()
    def prompts(self) -> None:
        self.running, self.loaded, self.open = True, False, None
        text = f"Please do what is asked for as number {self.fresh()}."
        self.plain.prompt(text)
        self.board.apply(self.noisy.prompt(text))
        self.truth.append(Said("user", text, "", ""))

    @precondition(lambda self: self.running)
    @rule(
        kind=st.sampled_from(["message", "message", "message", "thought"]), more=st.booleans(), long=st.booleans(),
        tail=st.sampled_from(HONEST), cuts=st.one_of(st.none(), st.lists(st.integers(0, 99), max_size=4)),
    )  # fmt: skip
    def talks(self, kind: str, more: bool, long: bool, tail: str, cuts: list[int] | None) -> None:
        """Some words, in one chunk or (`cuts`) in several."""
        n = self.fresh()
        text = f"Sentence {n} tells of matter {n * 7} at length{tail}. "
        if long:
            text += "".join(f"Word {n}.{word} of it. " for word in range(LEAST_RETRY_CHARS // 16))
        self._says(kind, more, [text] if cuts is None else list(pieces(text, cuts)))

    @precondition(lambda self: self.running)
    @rule(
        kind=st.sampled_from(["message", "thought"]), phrase=st.sampled_from(PHRASES), times=st.integers(2, 4),
        rest=st.sampled_from(["", "And so on. "]), at_a_stroke=st.booleans(),
    )  # fmt: skip
    def begins_with_the_same_words_again_and_again(
        self, kind: str, phrase: str, times: int, rest: str, at_a_stroke: bool
    ) -> None:
        """Word by word; the last time perhaps in one chunk (a thought must go on then, or it may be a copy)."""
        phrase = f"{phrase[:2]}{self.fresh()} {phrase[2:]}"
        words = [f"{word} " for word in phrase.split(" ")]
        chunks = words * times
        if at_a_stroke and (rest or kind == "message"):
            chunks = [*words * (times - 1), "".join(words)]
        self._says(kind, False, [*chunks, *([rest] if rest else [])])

    def _says(self, kind: str, more: bool, chunks: list[str]) -> None:
        """One block of these chunks, or `more` of the open one."""
        n = self.number
        if self.open is None or self.open.kind != kind or not more:
            mid = f"msg_{n}" if kind == "message" else f"th_{n}"
            self.open = Said(kind, "", mid, mid)
            self.truth.append(self.open)
        for piece in chunks:
            self.both(chunk(kind, piece, self.open.mid), chunk(kind, piece, self.open.noisy))
            self.open.chunks += 1
        self.open.text += "".join(chunks)

    @precondition(lambda self: self.running)
    @rule(output=st.sampled_from(["", "one line\n", "ha\nha\n", "a b c\n" * 9]), summary=st.sampled_from(SUMMARIES))
    def runs_a_tool(self, output: str, summary: str | None) -> None:
        cid, self.open = f"call_{self.fresh()}", None
        call = {"sessionUpdate": "tool_call", "toolCallId": cid, "title": f"Run {cid}", "status": "in_progress"}
        self.both({**call, "rawInput": {"command": f"echo {cid}"}})
        delta = self.profile.terminal == "delta"
        for line in output.splitlines(keepends=True) if delta else ():
            self.both({**self._tool(cid), "_meta": {"terminal_output": {"terminal_id": cid, "data": line}}})
        final = {**self._tool(cid), "status": "completed"}
        if summary and output and delta:
            done = "Command finished, exit code 0"
            content = [{"type": "content", "content": {"type": "text", "text": done}}]
            final[summary] = content if summary == "content" else {"output": done}
        self.both(final)
        self.truth.append(Said("tool", output if delta else "", cid, cid))

    def _tool(self, cid: str) -> Json:
        return {"sessionUpdate": "tool_call_update", "toolCallId": cid}

    @precondition(lambda self: self.running)
    @rule()
    def ends(self) -> None:
        self.running, self.open = False, None
        self.plain.end("end_turn")
        self.board.apply(self.noisy.end("end_turn"))

    # ------------------------------------------------------------ what is told again

    def _may_repeat(self) -> bool:
        long = self.open is not None and len(self.open.text) >= LEAST_RETRY_CHARS
        return long and not self.profile.exact

    @precondition(_may_repeat)
    @rule()
    def the_open_block_comes_again_whole(self) -> None:
        assert self.open is not None
        self.again(chunk(self.open.kind, self.open.text, self.open.noisy))

    @precondition(_may_repeat)
    @rule()
    def it_comes_again_with_more(self) -> None:
        assert self.open is not None
        more = f"And sentence {self.fresh()} goes on from there. "
        whole = chunk(self.open.kind, self.open.text + more, self.open.noisy)
        self.both(chunk(self.open.kind, more, self.open.mid), whole)
        self.open.text += more

    def _may_be_named_again(self) -> bool:
        told = self.open is not None and self.open.kind == "message" and self.open.chunks > 1
        return told and not self.profile.exact and self.profile.another_id != "message"

    @precondition(_may_be_named_again)
    @rule()
    def it_comes_again_under_another_id(self) -> None:
        assert self.open is not None
        self.open.noisy = f"msg_again_{self.fresh()}"
        self.again(chunk("message", self.open.text, self.open.noisy))

    def _last(self) -> Said | None:
        """The last message of this turn, if it was streamed, no block is open and nothing was said or asked since."""
        for said in reversed(self.truth):
            if said.kind in ("message", "user"):
                free = self.open is None and not self.loaded and not self.profile.exact
                free = free and len(said.text) >= LEAST_RETRY_CHARS and said.chunks > 1
                return said if free and said.kind == "message" else None
        return None

    @precondition(lambda self: self._last() is not None)
    @rule()
    def the_last_message_comes_again(self) -> None:
        """Behind a tool call, or behind the end of the turn."""
        last = self._last()
        assert last is not None
        self.again(chunk("message", last.text, last.noisy))

    @precondition(lambda self: any(said.kind == "tool" for said in self.truth))
    @rule(data=st.data())
    def a_tool_is_told_again(self, data: st.DataObject) -> None:
        cid = data.draw(st.sampled_from([said.mid for said in self.truth if said.kind == "tool"]))
        self.again({**self._tool(cid), "status": data.draw(st.sampled_from(["completed", "in_progress"]))})

    @precondition(lambda self: not self.running)
    @rule(ids=st.sampled_from(["same", "other", "none"]), trims=st.booleans())
    def the_history_is_replayed(self, ids: str, trims: bool) -> None:
        n, self.loaded = self.fresh(), True
        for said in self.truth:
            mid = {"same": said.noisy, "other": f"{said.noisy}_{n}", "none": None}[ids]
            if said.kind == "tool":
                call = {"toolCallId": mid or f"call_{n}_{said.mid}", "title": f"Run {said.mid}"}
                given = {"rawInput": {"command": f"echo {said.mid}"}, "status": "completed"}
                self.again({"sessionUpdate": "tool_call", **call, **given}, replay=True)
                continue
            mid = mid if said.kind != "user" else None if ids == "none" else f"user_{n}"
            self.again(chunk(said.kind, said.text.strip() if trims else said.text, mid), replay=True)
        self.board.apply(self.noisy.settle())

    # ------------------------------------------------------------ what must hold

    @invariant()
    def both_views_are_what_was_said(self) -> None:
        if not self.truth:
            return
        plain, noisy = seen(self.plain), seen(self.noisy)
        assert noisy == plain, f"{self.profile.name}: {first_difference(plain, noisy)}"
        told = [(i.kind, i.text) for i in self.noisy.items() if i.kind in ("message", "thought", "tool")]
        want = [("message" if s.kind == "user" else s.kind, s.text) for s in self.truth]
        assert told == want, f"{self.profile.name}: {first_difference(want, told)}"

    @invariant()
    def whoever_applies_the_operations_has_the_view(self) -> None:
        if self.truth:
            for item in self.noisy.items():
                if item.id in self.board.texts and item.kind != "notice":
                    assert self.board.texts[item.id] == item.text, f"item {item.id} differs from its operations"


def seen(fold: Fold) -> list[Any]:
    """The view as a person has it, without ids."""
    return [(i.kind, i.text, {k: v for k, v in i.fields.items() if k in SHOWN}) for i in fold.items()]


def first_difference(want: list[Any], have: list[Any]) -> str:
    for n, (a, b) in enumerate(zip([*want, None], [*have, None], strict=False)):
        if a != b:
            return f"item {n + 1} is {b!r}, and should be {a!r}"
    return f"{len(have)} items, and {len(want)} were due"
