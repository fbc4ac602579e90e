"""Law 5, said once: decide whether a claim is said, an echo of what was already said, or quiet.

Only claims with the same root, the same resolved destination and the same verbatim digest are compared.

1. A text that consists of white space or of the quiet word alone is quiet.
2. A block that equals a text sent by tool, in any attempt of the root, is an echo.
3. In an attempt that restarts the prompt (or recalls its answer from the agent's history), the k-th equal utterance is
   an echo of the k-th that the earlier attempts said, by tool or by block in any mixture. An attempt that resumes
   knows what was said, and consumes nothing. A block that only repeats a tool call of its own attempt consumes nothing
   either: it was no utterance the first time.
4. After the agent was asked to correct a text that was held back, and was told what had been delivered, the k-th equal
   text is an echo of the k-th block that this attempt had said before the request: the agent should not repeat it.
5. A block that ends after another prompt joined the turn is no echo of anything said before that: it answers the later
   prompt. The same holds for a block of an attempt that resumes such a turn. An attempt that restarts the turn answers
   all of its prompts again, so it also consumes what the lost attempts said before the prompt joined; except with its
   last block, so that no prompt stays unanswered.
6. A block that breaks off while it is still a prefix of a said text is an echo of that text: of one that a tool sent or
   an earlier attempt said, even if this attempt resumes. Its preview was withheld, and people already have these words,
   whatever the block would have become. Rule 5 applies to it, too.
7. Everything else is said: a second tool call, a block that repeats a block, the same text somewhere else.

An original must still stand: a claim that was refused, or of which a part was rejected or dropped, has no echoes.
Reactions and edits claim no text: they are not judged here and are never originals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from semel.text.verbatim import verbatim_form

How = Literal["tool", "block", "recovery", "notice"]
Attempt = Literal["start", "restart", "resume", "recall"]
Outcome = Literal["said", "echo", "refused", "quiet"]

QUIET_WORD = "NO_REPLY"
"""The answer of an agent that has nothing to say: a text of exactly this word is quiet."""

META_KEYS = ("claudecode/toolUseId", "callId")
"""Keys in the `_meta` of a `tools/call` that hold the agent's id of the tool call: Claude Code's, Codex's."""


def is_quiet(text: str, words: Collection[str] = (QUIET_WORD,)) -> bool:
    """Whether a text consists of white space alone or of one of the quiet words alone."""
    form = verbatim_form(text)
    return not form or any(form == verbatim_form(word) for word in words)


@dataclass(frozen=True)
class Earlier:
    """A claim with the same root, destination and digest that was judged before.

    `turn`: the attempt it belongs to. `stands`: false once a part of it was rejected or dropped. `more`: digest of what
    it carries besides its text (a file's content). `left`: false while none of it is sent, because the chat gets
    only closing texts.
    """

    id: int
    how: How
    turn: int | None
    outcome: Outcome
    stands: bool = True
    echo_of: int | None = None
    more: bytes | None = None
    left: bool = True


@dataclass(frozen=True)
class Marks:
    """Ids of the newest claim at the moments that limit which claims may be an original; -1 if it never happened.

    `joined`: another prompt joined this attempt. `joined_root`: another prompt joined this or an earlier attempt of the
    root. `corrected`: the agent was asked, in this attempt, to correct a text.
    """

    joined: int = -1
    joined_root: int = -1
    corrected: int = -1


def original(
    *,
    how: How,
    turn: int | None,
    attempt: Attempt,
    earlier: Sequence[Earlier],
    more: bytes | None = None,
    marks: Marks = Marks(),
    last: bool = False,
) -> int | None:
    """The id of the claim of which a new claim is an echo; None if the new claim is said.

    `turn`: the attempt of the new claim. `attempt`: how that attempt began. `earlier`: the claims in the order in which
    they were judged, those of this attempt included. `last`: the new claim is the last one of its attempt.
    """
    said = _standing(earlier, -1 if how == "tool" else _since(attempt, marks, last))
    copy = None
    if how != "tool":
        copy = _sent_by_tool((e for e in earlier if e.turn == turn), said)
    if copy is None and marks.corrected >= 0:
        copy = _said_before_correction(turn, marks.corrected, earlier, said.values())
    if copy is None and attempt in ("restart", "recall"):
        copy = _lost_copy(turn, more, earlier, said.values())
    if copy is None and how != "tool":
        copy = _sent_by_tool(earlier, said)
    return copy


def original_of_cut(
    *, turn: int | None, attempt: Attempt, earlier: Sequence[Earlier], marks: Marks = Marks(), last: bool = False
) -> int | None:
    """The id of the claim that a block was repeating when it broke off; None if the block is no echo.

    `earlier`: the claims whose text begins with the block and continues beyond it.
    """
    said = _standing(earlier, _since(attempt, marks, last))
    sent = _sent_by_tool(earlier, said)
    if sent is not None:
        return sent
    known = (e for e in said.values() if e.turn != turn or (e.how == "block" and e.left and e.id <= marks.corrected))
    return next((e.id for e in known), None)


def _since(attempt: Attempt, marks: Marks, last: bool) -> int:
    """A block is no echo of this claim, or of an older one: another prompt joined behind it."""
    return marks.joined if attempt in ("restart", "recall") and not last else marks.joined_root


def _standing(earlier: Iterable[Earlier], since: int) -> dict[int, Earlier]:
    """The claims newer than `since` that were said and still stand, by id. Notices are no originals."""
    return {e.id: e for e in earlier if e.outcome == "said" and e.stands and e.how != "notice" and e.id > since}


def _lost_copy(turn: int | None, more: bytes | None, earlier: Iterable[Earlier], said: Iterable[Earlier]) -> int | None:
    """The first utterance of the lost attempts that this restart has not repeated yet."""
    repeated = {e.echo_of for e in earlier if e.turn == turn and e.outcome == "echo"}
    lost = (e for e in said if e.turn != turn and e.more == more and e.id not in repeated)
    return next((e.id for e in lost), None)


def _said_before_correction(
    turn: int | None, corrected: int, earlier: Iterable[Earlier], said: Iterable[Earlier]
) -> int | None:
    """The first block of this attempt from before the correction that was not repeated since."""
    repeated = {e.echo_of for e in earlier if e.turn == turn and e.outcome == "echo" and e.id > corrected}
    told = (e for e in said if e.turn == turn and e.how == "block" and e.left and e.id <= corrected)
    return next((e.id for e in told if e.id not in repeated), None)


def _sent_by_tool(earlier: Iterable[Earlier], said: Mapping[int, Earlier]) -> int | None:
    """The first standing claim that was sent by tool, or of which a tool's claim was an echo."""
    for e in earlier:
        origin = e.echo_of if e.outcome == "echo" else e.id
        if e.how == "tool" and origin in said:
            return origin
    return None


# A `tools/call` may be a re-issue of an earlier one: two real agents restart a dead MCP server and send the open call
# again, unmarked. JSON-RPC ids are no evidence: the same agents reuse them for other calls.


@dataclass(frozen=True)
class EarlierCall:
    """An earlier call of the same spawn and turn with the same name and arguments.

    `conn`: the MCP connection it came on. `tool`: the agent's own id of the tool call, if known. `answered`: its answer
    was written to the agent. `reissue_of`: the id of the call that it re-issued.
    """

    id: int
    conn: str | None
    tool: str | None
    answered: bool
    reissue_of: int | None = None


def reissue_of(*, conn: str, tool: str | None, earlier: Sequence[EarlierCall]) -> int | None:
    """The id of the call that a new, equal call re-issues; None if it is a separate call.

    Calls on one connection are always distinct. Across connections, the tool call ids decide if both calls have one.
    Otherwise the new call re-issues the first equal call that was neither answered nor re-issued on this connection.
    `earlier`: the equal calls in their order.
    """
    before = [e for e in earlier if e.conn != conn]
    if tool is not None and (same := next((e for e in before if e.tool == tool), None)):
        return _root_call_id(same)
    settled = {_root_call_id(e) for e in earlier if e.answered or e.conn == conn}
    for e in before:
        other = tool is not None and e.tool is not None  # both are named, and not alike
        if not other and _root_call_id(e) not in settled:
            return _root_call_id(e)
    return None


def _root_call_id(call: EarlierCall) -> int:
    return call.id if call.reissue_of is None else call.reissue_of


def tool_call_id(meta: Any) -> str | None:
    """The agent's own id of the tool call, from the `_meta` of a `tools/call`; None if it has none."""
    if not isinstance(meta, Mapping):
        return None
    named = (meta.get(key) for key in META_KEYS)
    return next((value for value in named if isinstance(value, str) and value), None)
