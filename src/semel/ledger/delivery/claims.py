"""Record a claim with its entries and its parts in one transaction, before the first byte leaves (Laws 5, 6).

`say` judges a claim: it is refused, quiet, an echo of an earlier claim, or said. A said claim gets an entry in its
session and in every other session with the same home, and the parts in which it is sent. If a chat gets only closing
texts, a block gets its parts later (`cutting.queue_closing_block`).

An earlier claim may be superseded instead of echoed: if it was never sent and can no longer be sent in order, its
repeat is said and replaces it. Terms: docs/laws.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.acp_stream.redelivery import without_white_space
from semel.law import echo
from semel.ledger.delivery.cutting import Leg, add_parts, cut, deliver_last_block, is_local, single_part
from semel.ledger.storage.rows import (
    AddedClaim,
    ClaimEntry,
    ClaimKind,
    ClaimRow,
    EarlierClaim,
    EntryRow,
    HomeSession,
    SessionRow,
    TurnClaimBoundaries,
    TurnRow,
)
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.sentences import end_sentence
from semel.text.verbatim import may_become, verbatim_digest
from semel.text.wellformed import shorten_to_line

QUIET_REASON = "the quiet word"
CUT_REASON = "it broke off"
MAX_EXCERPT_CHARS = 60  # of a refused claim, in its notice
NOUNS = {"text": "a text", "file": "a file", "reaction": "a reaction", "edit": "a changed text", "ask": "a question"}
REISSUE_REASON = "the same call again, by a tool server that was started anew"


@dataclass(frozen=True)
class ClaimRequest:
    """A text or a file that an agent wants to say to one destination.

    The claim is refused if the request has a `problem`, or if `dest` is None.
    """

    how: echo.ClaimWay
    text: str
    dest: str | None
    kind: ClaimKind = "text"
    is_home: bool = True  # dest is the session's own home
    legs: tuple[Leg, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    quiet_words: tuple[str, ...] = ()  # words that count as saying nothing
    shown_seq: int | None = None  # seq of the live entry that previewed it
    is_last_of_attempt: bool = False  # the attempt ended together with this block
    is_cut: bool = False  # incomplete: its turn, or its attempt, ended first
    edits: int | None = None  # the claim whose text it replaces

    @property
    def file(self) -> dict[str, Any] | None:
        """The file that the agent handed over in its output; None for a text, or for a file sent by a tool call."""
        return self.more["files"][0] if self.kind == "file" and self.how != "tool" else None


@dataclass(frozen=True)
class Caller:
    """The origin of a claim: its session and turn. A tool call also has its spawn, connection and call id."""

    session: int
    key: str
    turn: int | None
    root: int | None
    turn_how: echo.Attempt = "start"
    spawn: int | None = None
    conn: str | None = None
    call: str | None = None
    tool: str | None = None
    args: bytes | None = None
    is_late: bool = False


@dataclass(frozen=True)
class ClaimResult:
    """The recorded result of a claim.

    `outcome`: "said", "echo", "refused" or "quiet"; `reason`: why. `seq`: its entry. `echo_of`: the claim that it
    repeats. `dest`: its resolved destination.
    """

    claim_id: int
    outcome: str
    reason: str = ""
    seq: int | None = None
    echo_of: int | None = None
    dest: str | None = None


@dataclass(frozen=True)
class _Match:
    """The result of comparing a new claim with earlier ones. Entries are given as (session, seq).

    `original_id`: the claim that the new claim echoes; None if it is no echo. `to_supersede`: entries of claims that
    the new claim replaces. `to_count_again`: entries of the original that were superseded and become valid again.
    """

    original_id: int | None = None
    to_supersede: tuple[tuple[int, int], ...] = ()
    to_count_again: tuple[tuple[int, int], ...] = ()


def say(tx: Tx, caller: Caller, request: ClaimRequest) -> ClaimResult:
    """Judge a claim, record it with its entries and parts, and return the result."""
    if request.dest is None or request.problem:
        return refuse(tx, caller, request, request.problem or "it has no destination")
    is_unshown = request.shown_seq is None
    if request.kind == "text" and is_unshown and echo.is_quiet(request.text, request.quiet_words):
        return _add_quiet(tx, caller, request, QUIET_REASON)
    digest = _compute_digest(request)
    match = _match_text(tx, caller, request, digest) if request.file is None else _match_file(tx, caller, request)
    _update_superseded(tx, match)
    if match.original_id is not None:
        return _add_echo(tx, caller, request, digest, match.original_id)
    is_unshown_cut = request.is_cut and is_unshown and digest is not None
    if is_unshown_cut and any(may_become(request.text, word) for word in request.quiet_words):
        return _add_quiet(tx, caller, request, CUT_REASON)
    original_of_cut = _find_original_of_cut(tx, caller, request, digest) if is_unshown_cut else None
    if original_of_cut is not None:
        return _add_echo(tx, caller, request, None, original_of_cut, CUT_REASON)
    said = _add_utterance(tx, caller, request, digest)
    _name_superseded(tx, said.claim_id, match.to_supersede)
    return said


def refuse(tx: Tx, caller: Caller, request: ClaimRequest, reason: str) -> ClaimResult:
    """Record a claim that may not be said, with a notice for people (Law 7). Return its result.

    `reason`: why it is refused, in words for people and the agent.
    """
    claim = _add_claim(tx, caller, request, "refused", reason).id
    entries.add_entry(
        tx, caller.session, role="notice", text=_format_refusal(request, reason), turn=caller.turn,
        tell=request.how != "tool", more={"kind": "refused", "refused": claim},
    )  # fmt: skip
    return ClaimResult(claim, "refused", reason, dest=request.dest)


def _format_refusal(request: ClaimRequest, reason: str) -> str:
    """Return the text of the notice about a refused claim: what was held back, why, and what a person can do."""
    files = request.more.get("files") or [{}]
    excerpt = shorten_to_line(request.text or str(files[0].get("name") or ""), MAX_EXCERPT_CHARS)
    what = f'"{excerpt}"' if excerpt else NOUNS[request.kind]
    remedy = " Tell the agent if you still want it." if request.how == "tool" else ""
    return end_sentence(f"Held back {what}: {reason}") + remedy


def add_home_notice(
    tx: Tx, session: SessionRow, text: str, *, turn: TurnRow | None, kind: str, tell: bool,
    about_seq: int | None = None, legs: Sequence[Leg] | None = None,
) -> int:  # fmt: skip
    """Add a notice that a person must see at home (Law 7). Return the seq of its entry.

    If the home is a chat, the notice is also a claim with parts. `legs`: the parts, if the caller has already cut the
    text. `about_seq`: the entry that the notice is about. `tell`: the agent's next prompt includes the notice.
    """
    more: dict[str, Any] = {"kind": kind} if about_seq is None else {"kind": kind, "of": about_seq}
    if session.home is None or is_local(session.home):
        return entries.add_entry(
            tx, session.id, role="notice", text=text, turn=turn.id if turn else None, tell=tell, more=more
        )
    caller = Caller(session.id, session.key, turn.id if turn else None, turn.root if turn else None)
    legs = tuple(legs or cut(tx, session.home, session.key, text) or single_part(session.home, session.key, text))
    request = ClaimRequest("notice", text, session.home, legs=legs, more={} if about_seq is None else {"kind": kind})
    return queue_notice(tx, caller, request, kind, more, tell=tell, tell_there=tell or about_seq is None)


def queue_notice(
    tx: Tx, caller: Caller, request: ClaimRequest, reason: str, more: dict[str, Any] | None = None, *,
    tell: bool = False, tell_there: bool = True,
) -> int:  # fmt: skip
    """Record a notice with its claim, entries and parts. Return the seq of its entry in the caller's session.

    If a turn runs in a session with this home, its last text is queued before the notice. `reason`: the claim's reason.
    `more`: the extra fields of the caller's entry; None uses `request.more`. `tell`: the next prompt of the caller's
    session includes the notice. `tell_there`: so do the next prompts of other sessions with this home.
    """
    for other in tx.all(HomeSession, "session_homes", home=request.dest):
        if other.turn is not None:
            deliver_last_block(tx, other)
    numbers = entries.take_next(tx, caller.session)
    added = _add_claim(tx, caller, request, "said", reason, seq=numbers.seq)
    seq = entries.add_entry(
        tx, caller.session, role="notice", text=request.text, turn=caller.turn, claim=added.id, tell=tell,
        more=request.more if more is None else more, numbers=numbers,
    )  # fmt: skip
    add_parts(tx, added.id, request.legs)
    if added.is_shared:
        _copy_to_sessions_at_home(tx, caller, request, added.id, tell=tell_there)
    return seq


def _compute_digest(request: ClaimRequest) -> bytes | None:
    """Return the digest that identifies a claim's text in comparisons (Law 5).

    Return None for a claim without a text.
    """
    has_text = request.kind == "text" or (request.kind == "file" and request.text)
    return verbatim_digest(request.text) if has_text else None


def _match_text(tx: Tx, caller: Caller, request: ClaimRequest, digest: bytes | None) -> _Match:
    """Find the claim that a text echoes (Law 5). A text that was previewed in its own entry never counts as an echo.

    If the original can no longer be sent, the new text is said and supersedes the original.
    """
    if request.shown_seq is not None or digest is None or caller.root is None:
        return _Match()
    if not tx.exists("claim_of_text", root=caller.root, dest=request.dest, digest=digest):
        return _Match()
    original = echo.find_original(
        how=request.how,
        turn=caller.turn,
        attempt=caller.turn_how,
        earlier=_list_earlier(tx, caller, request, digest),
        boundaries=_read_boundaries(tx, caller),
        is_last_of_attempt=request.is_last_of_attempt,
    )
    if original is None:
        return _Match()
    is_unsendable = _can_no_longer_be_sent(tx, request, original)
    found = tx.all(ClaimEntry, "entries_of_claim", claim=original)
    changed = tuple((entry.session, entry.seq) for entry in found if entry.superseded != is_unsendable)
    if is_unsendable:
        return _Match(to_supersede=changed)
    # A usable original counts again, even if a retry superseded it: its chat has the text.
    return _Match(original, to_count_again=changed)


def _can_no_longer_be_sent(tx: Tx, request: ClaimRequest, original: int) -> bool:
    """Return whether the claim `original` was never sent to its chat and can no longer be sent in order (Law 7).

    That is so if a tool now sends the same text, because a tool sends at once, or if a later block of the original's
    turn has been sent. Otherwise the original is sent when its repeat turns out to be the closing text.
    """
    row = tx.one(ClaimRow, "claim_get", id=original)
    if row is None or is_local(row.dest) or tx.exists("part_first", claim=original):
        return False
    return request.how == "tool" or tx.exists("block_left_since", claim=original)


def _find_original_of_cut(tx: Tx, caller: Caller, request: ClaimRequest, digest: bytes | None) -> int | None:
    """Return the claim that an incomplete text was repeating when it was cut off (Law 5), or None.

    `digest`: the digest of the incomplete text.
    """
    if caller.root is None:
        return None
    rows = tx.all(ClaimRow, "claims_of_root", root=caller.root)
    texts = {row.digest: row.text for row in rows if row.dest == request.dest and row.digest}
    longer_text_digests = [
        other_digest
        for other_digest, text in texts.items()
        if other_digest != digest and may_become(request.text, text)
    ]
    earlier = sorted(
        (claim for other_digest in longer_text_digests for claim in _list_earlier(tx, caller, request, other_digest)),
        key=lambda claim: claim.id,
    )
    if earlier:
        original = echo.find_original_of_cut_block(
            turn=caller.turn,
            attempt=caller.turn_how,
            earlier=earlier,
            boundaries=_read_boundaries(tx, caller),
            is_last_of_attempt=request.is_last_of_attempt,
        )
        if original is not None:
            return original
    if not request.is_home or caller.turn_how == "start":
        return None
    # What an attempt showed before it was lost is recorded without a destination.
    shown = (row for row in rows if row.how == "recovery" and row.dest is None and row.turn != caller.turn)
    return next((row.id for row in shown if may_become(request.text, row.text)), None)


def _list_earlier(tx: Tx, caller: Caller, request: ClaimRequest, digest: bytes) -> list[echo.PriorClaim]:
    """Return the claims of this root, for this destination, whose text has this digest; oldest first."""
    rows = tx.all(EarlierClaim, "claims_of_text", root=caller.root, dest=request.dest, digest=digest)
    local = is_local(request.dest)
    return [
        echo.PriorClaim(
            row.id,
            row.how,
            row.turn,
            row.outcome,
            stands=not row.gone,
            echo_of=row.echo_of,
            is_delivered=local or bool(row.leaves),
        )
        for row in rows
    ]


def _read_boundaries(tx: Tx, caller: Caller) -> echo.ClaimBoundaries:
    row = tx.get(TurnClaimBoundaries, "turn_claim_boundaries", turn=caller.turn, root=caller.root)
    return echo.ClaimBoundaries(row.joined, row.joined_root, row.corrected)


def _match_file(tx: Tx, caller: Caller, request: ClaimRequest) -> _Match:
    """Find the claim that a file echoes: an attempt of this root said the same content to the same destination (Law 5).

    If that claim was never sent, because it was not part of a closing text, the file is said again and supersedes that
    claim. A file that is only a link is compared by its URI.
    """
    assert request.file is not None
    if caller.root is None:
        return _Match()
    if request.file.get("id") is not None:
        rows = tx.all(EarlierClaim, "claims_of_file", root=caller.root, dest=request.dest, blob=request.file["id"])
    else:
        rows = tx.all(EarlierClaim, "claims_of_link", root=caller.root, dest=request.dest, uri=request.file.get("uri"))
    boundaries = _read_boundaries(tx, caller)
    # As for a text (`echo`, rule 5), but without `is_last_of_attempt`: a file is claimed as soon as the agent hands it
    # over, and nobody knows yet whether it is the last claim.
    joined = boundaries.joined if caller.turn_how in ("restart", "recall") else boundaries.joined_root
    standing = [row for row in rows if row.id > joined and not row.gone]
    departed = [row.id for row in standing if row.leaves or is_local(request.dest)]
    if departed:
        return _Match(departed[-1])
    return _Match(to_supersede=tuple((row.session, row.seq) for row in standing if row.seq is not None))


def _update_superseded(tx: Tx, match: _Match) -> None:
    for session, seq in match.to_supersede:
        entries.set_entry(tx, session, seq, superseded=True)
    for session, seq in match.to_count_again:
        entries.set_entry(tx, session, seq, superseded=False)


def _name_superseded(tx: Tx, claim: int, superseded: Sequence[tuple[int, int]]) -> None:
    """Let the entries of `claim` name the entries that it supersedes, in each session those of that session."""
    if superseded:
        for entry in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
            seqs = [seq for session, seq in superseded if session == entry.session]
            entries.name_superseded(tx, entry.session, entry.seq, seqs)


def _add_claim(
    tx: Tx, caller: Caller, request: ClaimRequest, outcome: str, reason: str | None, *, digest: bytes | None = None,
    echo_of: int | None = None, seq: int | None = None,
) -> AddedClaim:  # fmt: skip
    return tx.get(
        AddedClaim, "claim_add", session=caller.session, turn=caller.turn, root=caller.root, how=request.how,
        kind=request.kind, late=int(caller.is_late), spawn=caller.spawn, conn=caller.conn, call=caller.call,
        tool=caller.tool, args=caller.args, dest=request.dest, digest=digest, text=request.text, outcome=outcome,
        reason=reason, echo_of=echo_of, seq=seq, at=tx.now,
    )  # fmt: skip


def _add_quiet(tx: Tx, caller: Caller, request: ClaimRequest, reason: str) -> ClaimResult:
    claim = _add_claim(tx, caller, request, "quiet", reason).id
    return ClaimResult(claim, "quiet", reason, dest=request.dest)


def _add_echo(
    tx: Tx, caller: Caller, request: ClaimRequest, digest: bytes | None, original: int, reason: str | None = None
) -> ClaimResult:
    claim = _add_claim(tx, caller, request, "echo", reason, digest=digest, echo_of=original).id
    for entry in tx.all(ClaimEntry, "entries_of_claim", claim=original):
        entries.touch_entry(tx, entry.session, entry.seq)
    return ClaimResult(claim, "echo", reason or "", echo_of=original, dest=request.dest)


def _add_utterance(tx: Tx, caller: Caller, request: ClaimRequest, digest: bytes | None) -> ClaimResult:
    numbers = entries.take_next(tx, caller.session) if request.shown_seq is None else None
    seq = numbers.seq if numbers is not None else request.shown_seq
    added = _add_claim(tx, caller, request, "said", None, digest=digest, seq=seq)
    claim = added.id
    _add_said_entry(tx, caller, request, claim, numbers)
    if request.edits is not None:
        tx.run("claim_edits", id=claim, edits=request.edits, digest=verbatim_digest(request.text))
    add_parts(tx, claim, request.legs)
    if added.is_shared:
        _copy_to_sessions_at_home(tx, caller, request, claim)
    _supersede_lost(tx, caller, request, claim)
    return ClaimResult(claim, "said", seq=seq, dest=request.dest)


def _add_said_entry(
    tx: Tx, caller: Caller, request: ClaimRequest, claim: int, numbers: entries.NextEntry | None
) -> None:
    more = dict(request.more)
    if not request.is_home:
        more["to"] = request.dest
    if request.how == "tool":
        more["tool"] = True
    if caller.is_late:
        more["late"] = True
    if request.file is not None and request.file.get("id") is not None:
        tx.run("blob_heard", id=request.file["id"])  # the file was stored for this claim
    if request.shown_seq is not None:
        entries.set_entry(
            tx, caller.session, request.shown_seq, text=request.text, live=False, claim=claim, more=more or None
        )
        return
    entries.add_entry(
        tx, caller.session, role="agent", text=request.text, turn=caller.turn, claim=claim, more=more, numbers=numbers
    )


def _copy_to_sessions_at_home(tx: Tx, caller: Caller, request: ClaimRequest, claim: int, tell: bool = True) -> None:
    """Add the text as an entry to every other session with this home, without waking the agent there (Law 6).

    Two sessions share a home if two agents talk with the same person in the same chat. `tell`: the next prompt in those
    sessions includes the entry.
    """
    role = "notice" if request.how == "notice" else "agent"
    for other in tx.all(HomeSession, "session_homes", home=request.dest):
        if other.id != caller.session:
            # "of" and "item" refer to rows of the caller's session.
            shared_fields = {name: value for name, value in request.more.items() if name not in ("of", "item")}
            more = {**shared_fields, "from": caller.key}
            entries.add_entry(tx, other.id, role=role, text=request.text, claim=claim, tell=tell, more=more)


def _supersede_lost(tx: Tx, caller: Caller, request: ClaimRequest, claim: int) -> None:
    """Supersede the text that a lost attempt began to show, if this claim repeats that text in full (Laws 4, 8).

    This also applies to an attempt that resumes. Its agent may repeat a cut-off text from the beginning, and the
    agent's history may hold more of the text than was shown.
    """
    from_history = request.how == "recovery" and request.shown_seq is None
    if (request.how == "block" or from_history) and request.is_home and caller.turn_how != "start":
        supersede_beginnings(tx, caller, request.text, request.dest, claim)


def supersede_beginnings(tx: Tx, caller: Caller, text: str, dest: str | None, claim: int) -> None:
    """Supersede the cut-off texts of earlier attempts that are a beginning of `text`, the text of `claim`.

    White space is ignored in the comparison.
    """
    superseded: list[int] = []
    for lost in _list_beginnings(tx, caller, text):
        # A text that this turn recovered from the agent's history is an earlier attempt's, too.
        is_earlier = lost.turn != caller.turn or (lost.how == "recovery" and lost.dest == dest)
        if lost.seq is not None and lost.id < claim and is_earlier:
            entries.set_entry(tx, caller.session, lost.seq, superseded=True, tell=False)
            superseded.append(lost.seq)
    seq = tx.get(ClaimRow, "claim_get", id=claim).seq
    if seq is not None and superseded:
        entries.name_superseded(tx, caller.session, seq, superseded)


def find_beginnings(tx: Tx, caller: Caller, text: str) -> list[int]:
    """Return the seqs of the cut-off texts of earlier attempts that are a beginning of `text`, which still streams."""
    found = _list_beginnings(tx, caller, text)
    return [lost.seq for lost in found if lost.seq is not None and lost.turn != caller.turn and lost.text.strip()]


def _list_beginnings(tx: Tx, caller: Caller, text: str) -> list[ClaimRow]:
    """Return the claims of cut-off texts of this root in this session that are a beginning of `text`."""
    whole = without_white_space(text)
    return [
        claim
        for claim in tx.all(ClaimRow, "claims_of_root", root=caller.root)
        if claim.seq is not None
        and claim.session == caller.session
        and whole.startswith(without_white_space(claim.text))
        and _is_cut_off(tx, claim)
    ]


def _is_cut_off(tx: Tx, lost: ClaimRow) -> bool:
    """Return whether a claim's text is incomplete because its agent died or failed while writing it."""
    if lost.how != "block" or lost.outcome != "said":
        return bool(lost.how == "recovery")
    entry = tx.one(EntryRow, "entry_get", session=lost.session, seq=lost.seq)
    return entry is not None and bool(entry.partial)


def reissue(tx: Tx, caller: Caller, request: ClaimRequest, original: int) -> ClaimResult:
    """Record a tool call that the agent's client repeated because it never got the answer. Say nothing again.

    Return the result of the first call, with the id of its claim, so that a later edit can refer to that claim.
    """
    _add_echo(tx, caller, request, None, original, REISSUE_REASON)
    first = tx.get(ClaimRow, "claim_get", id=original)
    return ClaimResult(first.id, first.outcome, first.reason or "", first.seq, first.echo_of, first.dest)
