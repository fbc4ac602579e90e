"""Law 5, said once: decide whether a claim is said, an echo of an earlier claim, or quiet.

Only claims with the same root, the same resolved destination and the same verbatim digest are compared.

1. A text that consists of white space or of a quiet word alone is quiet.
2. A block that equals a text sent by tool, in any attempt of the root, is an echo.
3. An attempt that restarts the prompt (or recalls its answer from the agent's history) says again what the lost
   attempts said, by tool or as a block. So each utterance of the lost attempts is the original of at most one echo. If
   the new attempt says a text several times, the first is an echo of the first earlier utterance of that text, the
   second of the second, and any further ones are said. An attempt that resumes knows what was said, so this rule does
   not apply to it. A block that repeats a tool call of its own attempt falls under rule 2 and is not counted.
4. If the agent was asked to correct a text that was held back, it was also told what had been delivered, and should not
   repeat it. So each block that this attempt had delivered before that request is the original of at most one echo
   after it, counted as in rule 3.
5. A block that ends after another prompt joined the turn is no echo of anything said before that: it answers the later
   prompt. The same holds for a block of an attempt that resumes such a turn. An attempt that restarts the turn answers
   all of its prompts again, so rule 3 also covers what the lost attempts said before the prompt joined; but not for its
   last block, so that no prompt stays unanswered.
6. A block may break off while it is still a prefix of a text that a tool sent, or that an earlier attempt said. Then it
   is an echo of that text, even if this attempt resumes: people already have these words, and the block's preview was
   withheld. Rule 5 applies to it, too.
7. Everything else is said: a second tool call, a block that repeats a block, the same text somewhere else.

The claim that an echo repeats is its *original*. It must still *stand*: a claim that was refused, or of which a part
was rejected or dropped, has no echoes. Reactions and edits claim no text: they are not judged here and are never
originals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from semel.text.json_types import text_at
from semel.text.verbatim import verbatim_form

ClaimWay = Literal["tool", "block", "recovery", "notice"]
Attempt = Literal["start", "restart", "resume", "recall"]
Outcome = Literal["said", "echo", "refused", "quiet"]

QUIET_WORD = "NO_REPLY"
"""The answer of an agent that has nothing to say: a text of exactly this word is quiet."""

META_KEYS = ("claudecode/toolUseId", "callId")
"""Where Claude Code and Codex put their id of the tool call: keys in the `_meta` of an MCP `tools/call`."""


def is_quiet(text: str, words: Collection[str] = (QUIET_WORD,)) -> bool:
    """Whether a text consists of white space alone or of one of the quiet words alone."""
    if not text.strip():
        return True
    form = verbatim_form(text) if words else ""
    return any(form == verbatim_form(word) for word in words)


@dataclass(frozen=True)
class PriorClaim:
    """A claim with the same root, destination and digest that was judged before.

    `how`: the way it was said. `turn`: the attempt it belongs to. `stands`: false once a part of it was rejected or
    dropped. `echo_of`: its original, if it is an echo. `file_digest`: the digest of a file that it carries besides its
    text. `is_delivered`: false while none of it is sent, because the chat gets only closing texts.
    """

    id: int
    how: ClaimWay
    turn: int | None
    outcome: Outcome
    stands: bool = True
    echo_of: int | None = None
    file_digest: bytes | None = None
    is_delivered: bool = True


@dataclass(frozen=True)
class ClaimBoundaries:
    """For each of three moments, the id of the newest claim at that moment; -1 if the moment has not come.

    Rules 4 and 5 depend on whether a claim is older or newer. `joined`: the last time that another prompt joined this
    attempt. `joined_root`: the last time that one joined this or an earlier attempt of the root. `corrected`: the last
    time that the agent was asked, in this attempt, to correct a text.
    """

    joined: int = -1
    joined_root: int = -1
    corrected: int = -1


def find_original(
    *,
    how: ClaimWay,
    turn: int | None,
    attempt: Attempt,
    earlier: Sequence[PriorClaim],
    file_digest: bytes | None = None,
    boundaries: ClaimBoundaries = ClaimBoundaries(),
    is_last_of_attempt: bool = False,
) -> int | None:
    """Find the original of which a new claim is an echo. Returns its id; None if the new claim is no echo.

    `how`, `turn`, `file_digest`: the new claim's, as in `PriorClaim`. `attempt`: how that attempt began.
    `earlier`: the claims in the order in which they were judged, those of this attempt included. `is_last_of_attempt`:
    the new claim is the last one of its attempt.
    """
    standing = _list_standing(earlier, -1 if how == "tool" else _find_boundary(attempt, boundaries, is_last_of_attempt))
    copy = None
    if how != "tool":
        copy = _sent_by_tool((e for e in earlier if e.turn == turn), standing)
    if copy is None and boundaries.corrected >= 0:
        copy = _said_before_correction(turn, boundaries.corrected, earlier, standing.values())
    if copy is None and attempt in ("restart", "recall"):
        copy = _lost_copy(turn, file_digest, earlier, standing.values())
    if copy is None and how != "tool":
        copy = _sent_by_tool(earlier, standing)
    return copy


def find_original_of_cut_block(
    *,
    turn: int | None,
    attempt: Attempt,
    earlier: Sequence[PriorClaim],
    boundaries: ClaimBoundaries = ClaimBoundaries(),
    is_last_of_attempt: bool = False,
) -> int | None:
    """Find the original that a block was repeating when it broke off. Returns its id; None if the block is no echo.

    `earlier`: the claims whose text begins with the block and continues beyond it. The other arguments are those of
    `find_original`.
    """
    standing = _list_standing(earlier, _find_boundary(attempt, boundaries, is_last_of_attempt))
    sent_by_tool = _sent_by_tool(earlier, standing)
    if sent_by_tool is not None:
        return sent_by_tool
    candidates = (
        e
        for e in standing.values()
        if e.turn != turn or (e.how == "block" and e.is_delivered and e.id <= boundaries.corrected)
    )
    return next((e.id for e in candidates), None)


def _find_boundary(attempt: Attempt, boundaries: ClaimBoundaries, is_last_of_attempt: bool) -> int:
    """Return the id of the newest claim that is too old to be a block's original: a prompt joined after it (rule 5)."""
    answers_again = attempt in ("restart", "recall") and not is_last_of_attempt
    return boundaries.joined if answers_again else boundaries.joined_root


def _list_standing(earlier: Iterable[PriorClaim], since: int) -> dict[int, PriorClaim]:
    """Return the claims that may be an original, by id: those that were said, still stand and have an id above `since`.

    Notices are no originals.
    """
    return {e.id: e for e in earlier if e.outcome == "said" and e.stands and e.how != "notice" and e.id > since}


def _lost_copy(
    turn: int | None, file_digest: bytes | None, earlier: Iterable[PriorClaim], standing: Iterable[PriorClaim]
) -> int | None:
    """Find the first utterance of the lost attempts that attempt `turn` has not repeated yet (rule 3).

    Only utterances with the same file (`file_digest`) count. Returns the claim's id; None if none is left.
    """
    repeated = {e.echo_of for e in earlier if e.turn == turn and e.outcome == "echo"}
    lost = (e for e in standing if e.turn != turn and e.file_digest == file_digest and e.id not in repeated)
    return next((e.id for e in lost), None)


def _said_before_correction(
    turn: int | None, corrected: int, earlier: Iterable[PriorClaim], standing: Iterable[PriorClaim]
) -> int | None:
    """Find the first block from before the request for a correction that the attempt has not repeated since (rule 4).

    `turn`: the attempt. `corrected`: as in `ClaimBoundaries`. Returns the claim's id; None if there is no such block.
    """
    repeated = {e.echo_of for e in earlier if e.turn == turn and e.outcome == "echo" and e.id > corrected}
    blocks = (e for e in standing if e.turn == turn and e.how == "block" and e.is_delivered and e.id <= corrected)
    return next((e.id for e in blocks if e.id not in repeated), None)


def _sent_by_tool(earlier: Iterable[PriorClaim], standing: Mapping[int, PriorClaim]) -> int | None:
    """Find the first claim in `standing` that a tool sent, or that is the original of a tool's echo (rule 2).

    Returns its id; None if there is none.
    """
    for e in earlier:
        origin = e.echo_of if e.outcome == "echo" else e.id
        if e.how == "tool" and origin in standing:
            return origin
    return None


# A `tools/call` may *re-issue* an earlier one: two real agents restart a dead MCP server and send the call that it had
# not answered again, without saying so. Equal JSON-RPC ids prove nothing: the same agents reuse them for other calls.


@dataclass(frozen=True)
class EarlierCall:
    """An earlier call of the same spawn and turn with the same name and arguments.

    `conn`: the id of the MCP connection on which it came. `tool`: the agent's own id of the tool call, if known.
    `answered`: its answer was written to the agent. `reissue_of`: the id of the call that it re-issued, if it did.
    """

    id: int
    conn: str | None
    tool: str | None
    answered: bool
    reissue_of: int | None = None


def find_reissued_call(*, conn: str, tool: str | None, earlier: Sequence[EarlierCall]) -> int | None:
    """Find the call that a new call re-issues. Returns its id; None if the new call is a separate one.

    `conn`, `tool`: the new call's, as in `EarlierCall`. `earlier`: the earlier calls, oldest first. Calls on one
    connection are always separate. Across connections, the tool call ids decide if both calls have one. Otherwise the
    new call re-issues the first call that was neither answered nor re-issued on this connection.
    """
    before = [e for e in earlier if e.conn != conn]
    if tool is not None and (same := next((e for e in before if e.tool == tool), None)):
        return _root_call_id(same)
    settled = {_root_call_id(e) for e in earlier if e.answered or e.conn == conn}
    for e in before:
        other_tool = tool is not None and e.tool is not None  # both have an id, and the ids differ
        if not other_tool and _root_call_id(e) not in settled:
            return _root_call_id(e)
    return None


def _root_call_id(call: EarlierCall) -> int:
    return call.id if call.reissue_of is None else call.reissue_of


def tool_call_id(meta: object) -> str | None:
    """Return the agent's own id of the tool call, from the `_meta` of an MCP `tools/call`; None if it has none."""
    ids = (text_at(meta, key) for key in META_KEYS)
    return next(filter(None, ids), None)
