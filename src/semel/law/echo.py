"""Law 5, said once: is a claim said, an echo of what was already said, or quiet?

Only claims of one root with one resolved destination and one verbatim digest are ever compared.

1. A text that is nothing but white space, or the quiet word, is quiet.
2. A block that equals a text sent by tool, in any attempt of the root, is an echo.
3. In an attempt that restarts the prompt (or recalls its answer from the agent's history), the k-th equal
   utterance is an echo of the k-th that the earlier attempts said, by tool or by block, in whatever mixture.
   An attempt that resumes knows what was said, and consumes nothing. Nor does a block that only repeats a tool
   call of its own attempt: it was no utterance the first time either.
4. Once the agent was asked to correct a text that was held back, and told what was delivered, the k-th equal text is an
   echo of the k-th block that this attempt had said until then: it was not to be said again.
5. A block that ends after another prompt joined the turn is no echo of what was said before that: it answers the later
   prompt. So is one of an attempt that resumes such a turn. An attempt that restarts it, and answers all its prompts
   anew, consumes what the lost attempts said until then, too; but with its last block no prompt may stay unanswered.
6. A block that breaks off while it is still the beginning of a text that was said is an echo of that, cut off: of what
   a tool sent, or an earlier attempt said, also where this attempt goes on. It was withheld, and whatever it was to
   become, people have these words. Rule 5 holds for it, too.
7. Everything else is said: a second tool call, a block that repeats a block, the same text somewhere else.

An original must still stand: one that was refused, or of which a part was rejected or dropped, has no echoes.
A reaction or an edit claims no text: it is neither judged here nor an original.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from semel.text.verbatim import normal

How = Literal["tool", "block", "recovery", "notice"]
Attempt = Literal["start", "restart", "resume", "recall"]
Outcome = Literal["said", "echo", "refused", "quiet"]

QUIET_WORD = "NO_REPLY"
"""What an agent answers where it has nothing to say: a text of exactly this word is quiet."""

META_KEYS = ("claudecode/toolUseId", "callId")
"""Where `_meta` of a `tools/call` names the agent's tool call: Claude Code's key, Codex's key."""


def is_quiet(text: str, words: Collection[str] = (QUIET_WORD,)) -> bool:
    """Whether a text says nothing: white space alone, or one of the quiet words alone."""
    form = normal(text)
    return not form or any(form == normal(word) for word in words)


@dataclass(frozen=True)
class Earlier:
    """A claim with the same root, destination and digest that was judged before.

    `turn` is the attempt it belongs to. `stands` is false once a part of it was rejected or dropped. `more` is a
    digest of what it carries beside its text (a file's content). `left` is false while nothing of it leaves for a chat
    that gets only closing texts.
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
    """The newest claims when something happened that says what may be an echo; -1: it never did.

    `joined`: another prompt joined this attempt; `joined_root`: it, or any attempt before it. `corrected`: the agent of
    this attempt was asked to correct a text.
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
    """The id of the claim that a new one is an echo of; None: it is said.

    `turn` is the attempt of the new claim, and `attempt` how that attempt began; `earlier` is in the order of
    judging, this attempt's own claims included. `last`: it is what the attempt ends with.
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
    """The id of the claim that a block was repeating when it broke off; None: it says something of its own.

    `earlier`: the claims whose text goes on where the block ends.
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
    """What was said behind `since`, and still stands."""
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
    """What a tool said, or what its call was itself an echo of."""
    for e in earlier:
        origin = e.echo_of if e.outcome == "echo" else e.id
        if e.how == "tool" and origin in said:
            return origin
    return None


# A `tools/call` can be the same call once more: two real agents restart a dead MCP server and issue the open call
# again, with nothing that marks it. JSON-RPC ids decide nothing: the same agents use them again for other calls.


@dataclass(frozen=True)
class EarlierCall:
    """A call of the same spawn and turn with the same name and arguments, judged before.

    `conn` is the MCP connection it came on, `tool` the agent's own id of the tool call where known, `answered`
    whether its answer was written to the agent, `reissue_of` the id of the call it was a re-issue of.
    """

    id: int
    conn: str | None
    tool: str | None
    answered: bool
    reissue_of: int | None = None


def reissue_of(*, conn: str, tool: str | None, earlier: Sequence[EarlierCall]) -> int | None:
    """The id of the call that an equal, later one re-issues; None: it is a call of its own.

    Calls of one connection are always distinct. On another connection a tool call id decides, where both calls
    have one; otherwise it is a re-issue if an equal call went unanswered, copy by copy. `earlier` is in order.
    """
    before = [e for e in earlier if e.conn != conn]
    if tool is not None and (same := next((e for e in before if e.tool == tool), None)):
        return _first(same)
    settled = {_first(e) for e in earlier if e.answered or e.conn == conn}
    for e in before:
        other = tool is not None and e.tool is not None  # both are named, and not alike
        if not other and _first(e) not in settled:
            return _first(e)
    return None


def _first(call: EarlierCall) -> int:
    return call.id if call.reissue_of is None else call.reissue_of


def tool_call_id(meta: Any) -> str | None:
    """The agent's own id of the tool call, from the `_meta` of a `tools/call`; None where it names none."""
    if not isinstance(meta, Mapping):
        return None
    named = (meta.get(key) for key in META_KEYS)
    return next((value for value in named if isinstance(value, str) and value), None)
