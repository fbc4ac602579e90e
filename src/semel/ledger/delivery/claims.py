"""Record a claim with its entries and its parts in one transaction, before the first byte leaves (Laws 5, 6).

`say` judges a claim: it is refused, quiet, an echo of an earlier claim, or said. A said claim gets an entry in its
session and in every other session with the same home, and the parts in which it leaves. Where only closing texts are
delivered to a chat, a block gets its parts later (`deliver`). An original that can no longer leave in its place has no
echoes: its repeat is said instead, and the original is superseded.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from semel.acp_stream.redelivery import bare
from semel.law import echo
from semel.ledger.delivery import placeholders
from semel.ledger.delivery.cutting import Leg, cut, cut_claim, is_local, uncut
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.text.verbatim import may_become, verbatim_digest

Kind = Literal["text", "file", "reaction", "edit", "ask"]


@dataclass(frozen=True)
class Say:
    """Something an agent wants to say to one destination. Without `dest` it is refused with `problem`."""

    how: Literal["tool", "block", "recovery", "notice"]
    text: str
    dest: str | None
    kind: Kind = "text"
    home: bool = True  # dest is the session's own home
    legs: tuple[Leg, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    quiet: tuple[str, ...] = ()  # words that count as saying nothing
    shown: int | None = None  # seq of the live entry that previewed it
    last: bool = False  # it ends with its turn
    cut: bool = False  # incomplete: its turn, or its attempt, ended first
    edits: int | None = None  # the claim whose text it replaces

    @property
    def file(self) -> dict[str, Any] | None:
        """The file that it says, if the agent handed it over in its text and not by a tool."""
        return self.more["files"][0] if self.kind == "file" and self.how != "tool" else None


@dataclass(frozen=True)
class Caller:
    """The origin of a claim: its session and turn and, for a tool call, its spawn and call."""

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
    late: bool = False


@dataclass(frozen=True)
class Made:
    """What became of a claim."""

    claim: int
    outcome: str
    reason: str = ""
    seq: int | None = None
    echo_of: int | None = None
    dest: str | None = None


def say(tx: Tx, caller: Caller, what: Say) -> Made:
    """Judge a claim, and record it with its entries and parts."""
    if what.dest is None or what.problem:
        return refuse(tx, caller, what, what.problem or "it has no destination")
    digest = verbatim_digest(what.text) if what.kind == "text" or (what.kind == "file" and what.text) else None
    if what.kind == "text" and what.shown is None and echo.is_quiet(what.text, what.quiet):
        return Made(_claim(tx, caller, what, "quiet", QUIET), "quiet", QUIET, dest=what.dest)
    original = _original(tx, caller, what, digest) if what.file is None else _original_file(tx, caller, what)
    if original is not None:
        return _echo(tx, caller, what, digest, original)
    if what.cut and what.shown is None and digest is not None:
        if any(may_become(what.text, word) for word in what.quiet):
            return Made(_claim(tx, caller, what, "quiet", CUT), "quiet", CUT, dest=what.dest)
        original = _original_of_cut(tx, caller, what, digest)
        if original is not None:
            return _echo(tx, caller, what, None, original, CUT)
    claim = _claim(tx, caller, what, "said", None, digest=digest)
    seq = _record(tx, caller, what, claim)
    tx.run("claim_link", id=claim, seq=seq)
    if what.edits is not None:
        tx.run("claim_edits", id=claim, edits=what.edits, digest=verbatim_digest(what.text))
    add_parts(tx, claim, what.legs, caller)
    _tell_home(tx, caller, what, claim)
    _supersede_lost(tx, caller, what, claim)
    return Made(claim, "said", seq=seq, dest=what.dest)


def refuse(tx: Tx, caller: Caller, what: Say, why: str) -> Made:
    """Record a claim that may not be said, with a notice for people (Law 7)."""
    claim = _claim(tx, caller, what, "refused", why)
    entries.add_entry(
        tx, caller.session, role="notice", text=f"Held back: {why.rstrip('.')}.", turn=caller.turn,
        tell=what.how != "tool", more={"kind": "refused", "refused": claim},
    )  # fmt: skip
    return Made(claim, "refused", why, dest=what.dest)


def announce(
    tx: Tx, session: Row, text: str, *, turn: Row | None, kind: str, tell: bool, of: int | None = None,
    legs: Sequence[Leg] | None = None,
) -> int:  # fmt: skip
    """Add a notice that a person must see at home: an entry and, for a chat, its claim and parts (Law 7); return its
    seq.

    `of`: the entry it is about. `legs`: the parts in which it leaves, if it may be too long for one.
    """
    more: dict[str, Any] = {"kind": kind} if of is None else {"kind": kind, "of": of}
    if session.home is None or is_local(session.home):
        return entries.add_entry(
            tx, session.id, role="notice", text=text, turn=turn.id if turn else None, tell=tell, more=more
        )
    caller = Caller(session.id, session.key, turn.id if turn else None, turn.root if turn else None)
    legs = tuple(legs or cut(tx, session.home, session.key, text) or uncut(session.home, session.key, text))
    what = Say("notice", text, session.home, legs=legs, more={} if of is None else {"kind": kind})
    return notify(tx, caller, what, kind, more, tell=tell, tell_there=tell or of is None)


def notify(
    tx: Tx, caller: Caller, what: Say, reason: str, more: dict[str, Any] | None = None, *, tell: bool = False,
    tell_there: bool = True,
) -> int:  # fmt: skip
    """A notice that leaves: its claim, its entries and its parts; the `seq` of the entry in the caller's session.

    `reason` is the claim's; `more` is what that entry says beside its text, where it is not `what.more`. `tell`,
    `tell_there`: whether it rides in the next prompt of the caller's agent, and of that which is at home there.
    """
    for there in tx.all("session_homes", home=what.dest):
        if there.turn is not None:
            put_in_line(tx, there)
    claim = _claim(tx, caller, what, "said", reason)
    seq = entries.add_entry(
        tx, caller.session, role="notice", text=what.text, turn=caller.turn, claim=claim, tell=tell,
        more=what.more if more is None else more,
    )  # fmt: skip
    tx.run("claim_link", id=claim, seq=seq)
    add_parts(tx, claim, what.legs, caller)
    _tell_home(tx, caller, what, claim, tell=tell_there)
    return seq


def _original(tx: Tx, caller: Caller, what: Say, digest: bytes | None) -> int | None:
    """The claim that this one is an echo of (Law 5). Text that was shown while it streamed is never an echo.

    An original that can never leave has no echoes: its repeat is said instead, and counts once.
    """
    if what.shown is not None or digest is None or caller.root is None:
        return None
    earlier = _earlier(tx, caller, what, digest)
    if not earlier:
        return None
    found = echo.original(
        how=what.how, turn=caller.turn, attempt=caller.turn_how, earlier=earlier, marks=_marks(tx, caller),
        last=what.last,
    )  # fmt: skip
    if found is None:
        return None
    behind = _stays_behind(tx, what, found)
    for place in tx.all("entries_of_claim", claim=found):
        if place.superseded != behind:  # in a chat it can be read though a retry was to replace it: so it stands again
            entries.set_entry(tx, place.session, place.seq, superseded=behind)
    return None if behind else found


def _stays_behind(tx: Tx, what: Say, original: int) -> bool:
    """Whether an original never left for its chat and cannot leave in its place (Law 7), so that its repeat is said.

    A tool's text leaves at once. A closing text lets its original leave, unless a later block of that turn has left.
    """
    row = tx.one("claim_get", id=original)
    if row is None or is_local(row.dest) or tx.value("part_first", claim=original) is not None:
        return False
    return what.how == "tool" or tx.value("block_left_since", claim=original) is not None


def _original_of_cut(tx: Tx, caller: Caller, what: Say, digest: bytes) -> int | None:
    """The claim that a text was repeating when it was cut off (Law 5)."""
    if caller.root is None:
        return None
    claims = tx.all("claims_of_root", root=caller.root)
    texts = {c.digest: c.text for c in claims if c.dest == what.dest and c.digest}
    going_on = [of for of, text in texts.items() if of != digest and may_become(what.text, text)]
    earlier = sorted((one for of in going_on for one in _earlier(tx, caller, what, of)), key=lambda one: one.id)
    if earlier:
        original = echo.original_of_cut(
            turn=caller.turn, attempt=caller.turn_how, earlier=earlier, marks=_marks(tx, caller), last=what.last
        )
        if original is not None:
            return original
    if not what.home or caller.turn_how == "start":
        return None
    shown = (c for c in claims if c.how == "recovery" and c.dest is None and c.turn != caller.turn)
    return next(
        (c.id for c in shown if may_become(what.text, c.text)), None
    )  # what an attempt showed before it was lost


def _earlier(tx: Tx, caller: Caller, what: Say, digest: bytes) -> list[echo.Earlier]:
    """The claims of this root and destination whose text has this digest, in order."""
    rows = tx.all("claims_of_text", root=caller.root, dest=what.dest, digest=digest)
    here = is_local(what.dest)
    return [
        echo.Earlier(r.id, r.how, r.turn, r.outcome, stands=not r.gone, echo_of=r.echo_of, left=here or bool(r.leaves))
        for r in rows
    ]


def _marks(tx: Tx, caller: Caller) -> echo.Marks:
    found = tx.one("turn_marks", turn=caller.turn, root=caller.root)
    assert found is not None
    return echo.Marks(found.joined, found.joined_root, found.corrected)


def _original_file(tx: Tx, caller: Caller, what: Say) -> int | None:
    """The claim that a file is an echo of: the same content was said there in this root, by any way (Law 5).

    An original that never left, because it was not its turn's closing text, is superseded, and the file is said again.
    A file that is only a link is judged by its address.
    """
    assert what.file is not None
    if caller.root is None:
        return None
    if what.file.get("id") is not None:
        rows = tx.all("claims_of_file", root=caller.root, dest=what.dest, blob=what.file["id"])
    else:
        rows = tx.all("claims_of_link", root=caller.root, dest=what.dest, uri=what.file.get("uri"))
    marks = tx.one("turn_marks", turn=caller.turn, root=caller.root)
    assert marks is not None
    joined = marks.joined if caller.turn_how in ("restart", "recall") else marks.joined_root
    standing = [row for row in rows if row.id > joined and not row.gone]
    left = [row.id for row in standing if row.leaves or is_local(what.dest)]
    if left:
        return int(left[-1])
    for row in standing:
        entries.set_entry(tx, row.session, row.seq, superseded=True)
    return None


def _claim(
    tx: Tx,
    caller: Caller,
    what: Say,
    outcome: str,
    reason: str | None,
    *,
    digest: bytes | None = None,
    echo_of: int | None = None,
) -> int:
    return int(
        tx.value(
            "claim_add", session=caller.session, turn=caller.turn, root=caller.root, how=what.how, kind=what.kind,
            late=int(caller.late), spawn=caller.spawn, conn=caller.conn, call=caller.call, tool=caller.tool,
            args=caller.args, dest=what.dest, digest=digest, text=what.text, outcome=outcome, reason=reason,
            echo_of=echo_of, seq=None, at=tx.now,
        )
    )  # fmt: skip


def _echo(tx: Tx, caller: Caller, what: Say, digest: bytes | None, original: int, reason: str | None = None) -> Made:
    claim = _claim(tx, caller, what, "echo", reason, digest=digest, echo_of=original)
    for place in tx.all("entries_of_claim", claim=original):
        entries.touch_entry(tx, place.session, place.seq)
    return Made(claim, "echo", reason or "", echo_of=original, dest=what.dest)


def _record(tx: Tx, caller: Caller, what: Say, claim: int) -> int:
    more = dict(what.more)
    if not what.home:
        more["to"] = what.dest
    if what.how == "tool":
        more["tool"] = True
    if caller.late:
        more["late"] = True
    if what.file is not None and what.file.get("id") is not None:
        tx.run("blob_heard", id=what.file["id"])  # the file was stored for this claim
    if what.shown is not None:
        entries.set_entry(tx, caller.session, what.shown, text=what.text, live=False, claim=claim, more=more or None)
        return what.shown
    return entries.add_entry(tx, caller.session, role="agent", text=what.text, turn=caller.turn, claim=claim, more=more)


def _tell_home(tx: Tx, caller: Caller, what: Say, claim: int, tell: bool = True) -> None:
    """Add an entry, without a wake, in each other session whose home this is: it must know what its person was told
    (Law 6).

    Two sessions share a home if two agents talk with one person in one place.
    """
    role = "notice" if what.how == "notice" else "agent"
    for other in tx.all("session_homes", home=what.dest):
        if other.id != caller.session:
            there = {k: v for k, v in what.more.items() if k not in ("of", "item")}  # rows of the caller's session
            more = {**there, "from": caller.key}
            entries.add_entry(tx, other.id, role=role, text=what.text, claim=claim, tell=tell, more=more)


def _supersede_lost(tx: Tx, caller: Caller, what: Say, claim: int) -> None:
    """Supersede what a lost attempt began to show and this one says again in full (Laws 4, 8).

    Also where the turn goes on: an agent that knows where it was cut off may repeat the text from its beginning, and
    its history may hold more of it than was shown.
    """
    from_history = what.how == "recovery" and what.shown is None
    if (what.how == "block" or from_history) and what.home and caller.turn_how != "start":
        supersede_beginnings(tx, caller, what.text, what.dest, claim)


def supersede_beginnings(tx: Tx, caller: Caller, text: str, dest: str | None, claim: int) -> None:
    """Supersede the cut-off texts of earlier attempts with which this claim's text begins."""
    for lost in tx.all("claims_of_root", root=caller.root):
        mine = lost.seq is not None and lost.session == caller.session and lost.id < claim
        earlier = lost.turn != caller.turn or (lost.how == "recovery" and lost.dest == dest)  # as its history had it
        if mine and earlier and bare(text).startswith(bare(lost.text)) and _cut_off(tx, lost):
            entries.set_entry(tx, caller.session, lost.seq, superseded=True, tell=False)


def _cut_off(tx: Tx, lost: Row) -> bool:
    """Whether a claim is an incomplete text: its agent died or failed while it wrote it."""
    if lost.how != "block" or lost.outcome != "said":
        return bool(lost.how == "recovery")
    entry = tx.one("entry_get", session=lost.session, seq=lost.seq)
    return entry is not None and bool(entry.partial)


def add_parts(tx: Tx, claim: int, legs: Sequence[Leg], caller: Caller) -> None:
    """Add the parts in which an utterance leaves. Their text is fixed here: a retry never cuts it again (Law 7).

    The key is random, and short enough for every platform that deduplicates by key. A key made of row numbers would
    recur after a backup was restored, and the platform would discard a new message.
    """
    event = answered(tx, caller.root, legs[0]) if legs else None
    for n, leg in enumerate(legs):
        op = leg.op if n else _first(tx, caller, leg, event, claim)
        if event is not None and op.get("kind", "post") in ("post", "file"):
            op = {**op, "answers": event}
        tx.value(
            "part_add", claim=claim, n=n, lo=leg.lo, hi=leg.hi, channel=leg.channel, dest=leg.dest,
            key=secrets.token_hex(12), op=entries.dump(op), at=tx.now,
        )  # fmt: skip
    if legs:
        _note_behind(tx, claim, legs[0].dest)


def _note_behind(tx: Tx, claim: int, dest: str) -> None:
    """Note in the entry that its chat got the text after entries that stand below it in the transcript (Law 7)."""
    found = tx.one("claim_behind", id=claim, dest=dest)
    if found is not None:
        entries.set_entry(tx, found.session, found.seq, more={"behind": found.behind})


def _first(tx: Tx, caller: Caller, leg: Leg, event: int | None, claim: int) -> dict[str, Any]:
    """The operation for the first part of an utterance: it may fill a placeholder."""
    if leg.op.get("kind", "post") not in ("post", "file"):
        return leg.op
    fills = bool(leg.op.get("fill"))
    keep_previewed(tx, leg.dest, caller.turn, lambda: _text(tx, claim) if fills else "", before=claim)
    if fills:
        return placeholders.fill(tx, caller.session, caller.turn, caller.root, leg.dest, unfilled(leg, event))
    placeholders.make_way(tx, leg.dest)
    return leg.op


def _text(tx: Tx, claim: int) -> str:
    row = tx.one("claim_get", id=claim)
    return "" if row is None else str(row.text)


def keep_previewed(
    tx: Tx, dest: str, turn: int | None, text: Callable[[], str], *, before: int | None = None, streams: bool = False
) -> bool:
    """Deliver what people saw of a lost attempt in a placeholder before another text takes its place (Law 7).

    A text that begins with what was seen stands for both, so nothing is delivered then. `before`: the text's own claim;
    only older claims count. `streams`: the text may still grow. True: the text so far is a beginning of what was seen,
    so it is undecided.
    """
    for found in tx.all("reserved_at", dest=dest):
        if found.state != "sent" or found.sent_rev is None or found.root is None:
            continue
        for lost in tx.all("previewed_in_root", root=found.root, turn=turn, before=before, sent=found.sent_rev):
            begun, seen = bare(text()), bare(lost.text)
            if streams and seen.startswith(begun):
                return True
            if begun.startswith(seen):
                continue
            session = tx.one("session_by_id", id=found.session)
            assert session is not None
            deliver(tx, lost.id, cut(tx, dest, session.key, lost.text, answer=True))
    return False


def unfilled(leg: Leg, event: int | None) -> dict[str, Any]:
    """The leg's operation as a message of its own, without a placeholder; it answers `event`."""
    op = {name: value for name, value in leg.op.items() if name != "fill"}
    return op if event is None else {**op, "answers": event}


def answered(tx: Tx, root: int | None, leg: Leg) -> int | None:
    """The event that a text answers: the last message that asked for its turn, if that came from the leg's
    destination."""
    if root is None:
        return None
    found = tx.value("event_answered", root=root, source=f"channel:{leg.channel}", dest=leg.dest)
    return None if found is None else int(found)


def deliver(tx: Tx, claim: int, legs: Sequence[Leg]) -> bool:
    """Send a said block that turned out to be the closing text to its chat. False if nothing leaves now.

    The block may be one that a lost attempt said and that this attempt's closing text is an echo of: where narration is
    "last", it has never left. The echo may differ in white space; the parts cover the original's text. A block does not
    leave behind a later block of its turn, which may have left before a notice.
    """
    first = tx.one("claim_get", id=claim)
    if first is None or not legs or tx.value("part_first", claim=claim) is not None:
        return False
    if tx.value("block_left_since", claim=claim) is not None:
        return False
    size = len(first.text)
    fitted = [replace(leg, lo=min(leg.lo, size), hi=min(leg.hi, size)) for leg in legs]
    fitted[-1] = replace(fitted[-1], hi=size)
    caller = Caller(first.session, "", first.turn, first.root)
    add_parts(tx, claim, fitted, caller)
    for place in tx.all("entries_of_claim", claim=claim):
        entries.touch_entry(tx, place.session, place.seq)
    return True


def put_in_line(tx: Tx, session: Row, ends: int | None = None) -> int | None:
    """Send the turn's last text at home before Semel says something there (Law 7): a chat's order is the record's.

    Where only closing texts are delivered, that text would otherwise leave at the turn's end, behind the notice.
    `session` has `turn`, `key` and `home`. `ends`: its turn that ends now; if that turn said nothing of its own, the
    last text of a lost attempt is the answer. Returns the claim that leaves.
    """
    turn = tx.one("turn_get", id=session.turn if ends is None else ends)
    if turn is None or is_local(session.home):
        return None
    last = tx.one("claim_last_block", root=turn.root, home=session.home)
    if last is None:
        return None
    if last.turn != turn.id and (ends is None or tx.value("says_at_home", turn=turn.id, home=session.home)):
        return None
    return deliver_block(tx, session, int(last.id))


def deliver_block(tx: Tx, session: Row, claim: int) -> int | None:
    """Send what this claim's block said at home, in order. Returns the last claim that leaves, or None."""
    last = tx.one("claim_get", id=claim)
    assert last is not None
    left = None
    first = last.id if last.part_of is None else last.part_of
    parts = [row.id for row in tx.all("claims_of_block", root=last.root, first=first, home=session.home)]
    for part in parts or [last.echo_of if last.outcome == "echo" else last.id]:
        said = tx.one("claim_get", id=part)
        if said is not None and deliver(tx, part, cut_claim(tx, session, said)):
            left = int(part)
    return left


QUIET = "the quiet word"
CUT = "it broke off"
REISSUE = "the same call again, by a tool server that was started anew"


def reissue(tx: Tx, caller: Caller, what: Say, original: int) -> Made:
    """Record a call that the agent's client repeated because it never saw the answer. Nothing is said twice.

    Returns the result of the first call, with the id of its claim: an edit may refer to it.
    """
    _echo(tx, caller, what, None, original, REISSUE)
    first = tx.one("claim_get", id=original)
    assert first is not None
    return Made(first.id, first.outcome, first.reason or "", first.seq, first.echo_of, first.dest)
