"""`semel why`: explain why a message was or was not shown, from the history of its event, claim, part or turn."""

from __future__ import annotations

import re

from semel.law.turn import State as TurnState
from semel.ledger.admin.explain_job import list_job_lines
from semel.ledger.admin.explain_part import list_part_lines
from semel.ledger.admin.explain_part import make_line as _line
from semel.ledger.admin.explain_schedule import (
    describe_next_firing,
    describe_removal,
    describe_unfired,
    find_removed_firing,
    find_schedule,
)
from semel.ledger.delivery import buttons, placeholders
from semel.ledger.storage.rows import (
    BoundEvent,
    ClaimRow,
    CommandState,
    EntryRow,
    EventRow,
    ItemRow,
    OutgoingPart,
    PartRow,
    Row,
    SessionRow,
    TurnRow,
)
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests
from semel.ledger.turns.jobs import STATE_BY_REPORT
from semel.ledger.turns.limits import LimitedRow
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

QUOTED_CHARS = 80
_REF = re.compile(r"([ecpt])(\d{1,18})", re.I | re.A)  # no more digits than a row's id can have
_NUMBER = re.compile(r"\d{1,18}", re.A)
_KINDS = {"e": "event", "c": "claim", "p": "part", "t": "turn"}
_ENTRY = re.compile(r"(.+)#(\d{1,18})", re.A)
_WORD = re.compile(r"[^\W\d_]+")


class AddressedSession(Row):
    """A session to which an event was addressed, with the turn that the event is bound to there.

    `key`: the session's key. `seq`: the event's entry. `turn`, `state`, `attempt`, `root`: None if no turn has the
    event.
    """

    session: int
    key: str
    seq: int
    wakes: int
    busy: str | None
    turn: int | None
    state: TurnState | None
    attempt: int | None
    root: int | None


class CommandOfEvent(Row):
    """A command to the gateway that an event brought, with the session that recorded it.

    `seq`: the command's entry; `answer`: the seq of the notice that answers it.
    """

    session: int
    key: str
    seq: int
    name: str
    state: CommandState
    answer: int | None


class ConflictOfEvent(Row):
    id: int
    digest: bytes
    payload: str
    at: int
    repeats: int


def describe_unknown(tx: Tx, ref: str) -> str:
    """Return a text for people which says that `ref` names nothing, and what they can ask for instead."""
    key, _, number = ref.strip().rpartition("#") if _ENTRY.fullmatch(ref.strip()) else (ref.strip(), "", "")
    key = key.encode("utf-8", "replace").decode()
    if not number and (schedule := find_schedule(tx, key)) is not None:
        return describe_unfired(tx, schedule)
    session = tx.one(SessionRow, "session_by_key", key=key)
    if session is not None and session.deleted is None:
        if int(number or 0) > session.seq:
            return f"{key} has no entry #{number}: it ends at #{session.seq}"
        if not number:
            return f"{key} is a session; name an entry of it, such as {key}#{max(session.seq, 1)}"
    if _NUMBER.fullmatch(ref.strip()):
        return _describe_number(tx, ref.strip())
    if _WORD.fullmatch(key) and not number:
        return f"nothing has the name {key!r}; to find it in what was said: semel search {key}"
    return (
        f"nothing is known of {ref!r}; ask for e1 (event), c1 (claim), p1 (part), t1 (turn), KEY#1 (entry), "
        "an event's key, a platform's message id, a schedule's name, or the id of a job or run"
    )


def _describe_number(tx: Tx, digits: str) -> str:
    """Return a text which says what has this number: ids of different kinds share numbers, so a bare one is unclear."""
    refs = [f"{kind[0]}{digits}" for kind in _KINDS.values() if tx.exists(f"{kind}_get", id=int(digits))]
    if not refs:
        return f"nothing has the number {digits}; ask for SESSION#{digits}, if you mean the entry of a session"
    names = [f"{ref} ({_KINDS[ref[0]]})" for ref in refs]
    return f"{digits} alone may be several things; ask for {', '.join(names)} or SESSION#{digits} (entry)"


def tell_story(tx: Tx, ref: str) -> Json | None:
    """Return the story of the row that `ref` names (see `resolve_ref`), or None if the ref is unknown.

    The story is {"ref", "kind", "lines"}; each line is {"at" (ms), "text"}. The story of an event also has "turns": the
    ids of all attempts of the turns to which the event was bound, and "limits" if it waits for one (`_find_limits`). A
    background job's id gives the story of its newest report, with the state of the job; of kind "job" if there is none.
    """
    ref = ref.encode("utf-8", "replace").decode().strip()
    target, lines = resolve_ref(tx, ref), list_job_lines(tx, ref)
    if target is None:  # a job of which nothing was reported yet
        return {"ref": ref, "kind": "job", "lines": lines} if lines else None
    kind, number = target
    lines += _EXPLAINERS[kind](tx, number) + _describe_notice(tx, ref)
    if (schedule := find_schedule(tx, ref)) is not None and target == ("event", schedule.event):
        lines += describe_next_firing(tx, schedule)
    if target == ("event", find_removed_firing(tx, ref)):
        lines += describe_removal(ref.removeprefix("schedule:"))
    at = 0
    for line in lines:  # a line without a time belongs to the line before it
        line["at"] = at = at if line["at"] is None else line["at"]
    lines.sort(key=lambda line: line["at"])
    story_json: Json = {"ref": f"{kind[0]}{number}", "kind": kind, "lines": lines}
    if kind == "event":
        story_json["turns"] = _find_turns(tx, number)
        if waits_for := _find_limits(tx, number):
            story_json["limits"] = waits_for
    return story_json


def _find_turns(tx: Tx, event: int) -> list[int]:
    roots = {
        hearing.root
        for hearing in tx.all(AddressedSession, "hearings_of_event", event=event)
        if hearing.root is not None
    }
    return sorted({turn.id for root in roots for turn in tx.all(TurnRow, "turns_of_root", root=root)})


def resolve_ref(tx: Tx, ref: str) -> tuple[str, int] | None:
    """Return the kind ("event", "claim", "part" or "turn") and the id of the row that `ref` names, or None.

    A ref is `e1` for an event, `c1` for a claim, `p1` for a part, `t1` for a turn, the key of an event or of a part (a
    receiver's `webhook-id`), a platform's message id, or `SESSION#1` for an entry. An entry's ref names the event,
    claim or turn behind the entry. The name of a schedule names its last firing, also after its removal if it had a
    session of its own; the id of a background job or of a run of `semel exec`, its newest report.
    """
    if match := _REF.fullmatch(ref):
        kind = _KINDS[match[1].lower()]
        number = int(match[2])
        return (kind, number) if tx.exists(f"{kind}_get", id=number) else None
    if match := _ENTRY.fullmatch(ref):
        return _resolve_entry(tx, match[1], int(match[2]))
    event = tx.value(int, "event_by_key", key=ref)
    if event is not None:
        return "event", event
    part = tx.value(int, "part_by_receipt", receipt=ref) or tx.value(int, "part_by_key", key=ref)
    if part is not None:
        return "part", part
    schedule = find_schedule(tx, ref)
    event = schedule.event if schedule is not None else _find_report(tx, ref) or find_removed_firing(tx, ref)
    return None if event is None else ("event", event)


def _find_report(tx: Tx, run: str) -> int | None:
    """Return the newest report of a background job or of a run of `semel exec`; None if there is none."""
    events = (tx.value(int, "event_by_key", key=f"{run}:{kind}") for kind in STATE_BY_REPORT)
    return max((event for event in events if event is not None), default=None)


def _find_entry(tx: Tx, key: str, seq: int) -> EntryRow | None:
    session = tx.one(SessionRow, "session_by_key", key=key)
    return tx.one(EntryRow, "entry_get", session=session.id, seq=seq) if session is not None else None


def _describe_notice(tx: Tx, ref: str) -> list[Json]:
    """Return a line about the notice that `ref` names, whose story is that of what it is about; [] if it names none."""
    match = _ENTRY.fullmatch(ref)
    row = _find_entry(tx, match[1], int(match[2])) if match else None
    return [_line(row.at, f"{ref}: a notice: {_quote(row.text)}")] if row is not None and row.role == "notice" else []


def _resolve_entry(tx: Tx, key: str, seq: int) -> tuple[str, int] | None:
    row = _find_entry(tx, key, seq)
    if row is None:
        return None
    if row.event is not None:
        return "event", row.event
    if row.claim is not None:
        return "claim", row.claim
    more = entries.load(row.more)  # the entry is a notice, whose fields name what it is about
    if "part" in more:
        return "part", int(more["part"])
    if "refused" in more:
        return "claim", int(more["refused"])
    return ("turn", row.turn) if row.turn is not None else None


def _quote(text: str) -> str:
    return repr(shorten_to_line(text, QUOTED_CHARS))


def _explain_event(tx: Tx, number: int) -> list[Json]:
    event_row = tx.get(EventRow, "event_get", id=number)
    said = str(entries.load(event_row.payload).get("text", ""))
    text = _quote(said) if event_row.payload is not None else "its content was removed"
    sender = f" from {event_row.sender}" if event_row.sender else ""
    key_text = f" as {event_row.key!r}" if event_row.key is not None else " without a key"
    accepted = f"e{event_row.id}: accepted {event_row.kind}{sender} at {event_row.source}{key_text}: {text}"
    if event_row.repeats:
        times = "once" if event_row.repeats == 1 else f"{event_row.repeats} times"
        accepted += f". Later it came again {times}; a repeat is answered with the first outcome"
    out = [_line(event_row.at, accepted)]
    if (why := tx.value(str, "quarantine_get", event=number)) is not None:
        out.append(_line(None, f"quarantined, kept as it came: {why}; 'semel channels --quarantined' shows it"))
    if (part := tx.value(int, "part_of_failure", event=number)) is not None:
        out.append(_line(None, f"it reports that p{part} failed after it was sent"))
        out += _explain_part(tx, part)
    for hearing in tx.all(AddressedSession, "hearings_of_event", event=number):
        out += _explain_hearing(tx, hearing)
    for command in tx.all(CommandOfEvent, "commands_of_event", event=number):
        out.append(_line(None, f"recorded in {command.key} as entry {command.seq}; {_describe_command(command)}"))
    out += [_explain_conflict(conflict) for conflict in tx.all(ConflictOfEvent, "conflicts_of", event=number)]
    if event_row.payload is None:
        out.append(_line(event_row.erased_at, _explain_removal(tx, number)))
    return out


def _explain_conflict(conflict: ConflictOfEvent) -> Json:
    other = str(entries.load(conflict.payload).get("text", "")) if conflict.payload else ""
    content = _quote(other) if other else f"digest {conflict.digest.hex()}"
    return _line(conflict.at, f"the same key came with other content ({content}), which was refused")


def _explain_removal(tx: Tx, event: int) -> str:
    """Say why an event has no content any more."""
    keys = [hearing.session for hearing in tx.all(AddressedSession, "hearings_of_event", event=event)]
    keys += [command.session for command in tx.all(CommandOfEvent, "commands_of_event", event=event)]
    sessions = [tx.get(SessionRow, "session_by_id", id=key) for key in keys]
    if any(session.deleted is None for session in sessions):
        reason = "was removed by retention, as it was older than `retain` allows"
    else:  # a session that is erased may have left no hearing
        reason = "was deleted with its session"
    return f"e{event}: its content {reason}; its key stays taken"


def _describe_command(command: CommandOfEvent) -> str:
    done = f"answered in entry {command.answer}"
    fate = {"open": "not answered yet", "void": "its session was deleted", "done": done}[command.state]
    return f"a command for the gateway: {fate}"


def _explain_hearing(tx: Tx, hearing: AddressedSession) -> list[Json]:
    out = [
        _line(None, f"recorded in {hearing.key} as entry {hearing.seq}{'' if hearing.wakes else '; it does not wake'}")
    ]
    out += _explain_reference(tx, hearing)
    if hearing.turn is None:
        mode = f" ({hearing.busy})" if hearing.busy else ""
        out.append(_line(None, f"it waits{mode} for the next turn of {hearing.key}"))
        return out + _explain_limit(tx, hearing)
    if hearing.busy:
        out.append(_line(None, _describe_wait(tx, hearing)))
    return out + _explain_turn(tx, hearing.turn)


def _find_limits(tx: Tx, event: int) -> list[Json]:
    """Return the used-up limits for which an event waits, as JSON objects; [] if it waits for none.

    `until`: when the limit's day ends, in ms. `noticed`: a notice that says so follows the event in the session. Of
    several events that wait for the same limit, only the first ones have a notice behind them.
    """
    return [
        {
            "session": hearing.key, "scope": limited.scope, "subject": limited.subject, "measure": limited.measure,
            "until": limited.until, "noticed": limited.event >= event,
        }
        for hearing in tx.all(AddressedSession, "hearings_of_event", event=event)
        if hearing.turn is None and hearing.wakes
        and (limited := tx.one(LimitedRow, "limited_get", session=hearing.session)) is not None
    ]  # fmt: skip


def _explain_limit(tx: Tx, hearing: AddressedSession) -> list[Json]:
    """Return lines about the limit that keeps a session's next turn from beginning; none if there is none."""
    limited = tx.one(LimitedRow, "limited_get", session=hearing.session)
    if limited is None:
        return []
    whose = " ".join(filter(None, (limited.scope, limited.subject)))
    return [
        _line(limited.at, f"the turn may not begin: the limit of {limited.measure} ({whose}) is used up"),
        _line(limited.until, "the day of that limit ends, and the turn may begin"),
    ]


def _explain_reference(tx: Tx, hearing: AddressedSession) -> list[Json]:
    """Return lines about the entries to which the event's message is linked; [] if it is linked to none.

    One line names the entry that this message replies to, edits, deletes or reacts to. Others name the later entries in
    which this message was itself edited or deleted.
    """
    entry = tx.one(EntryRow, "entry_get", session=hearing.session, seq=hearing.seq)
    more = entries.load(entry.more) if entry is not None else {}
    out = [_line(None, f"it is about entry {more['of']}: {_quote(str(more.get('quote', '')))}")] if "of" in more else []
    for mark in ("edited", "deleted"):
        if mark in more:
            out.append(_line(None, f"it was {mark} later, in entry {more[mark]}; the record keeps it"))
    return out


def _describe_wait(tx: Tx, hearing: AddressedSession) -> str:
    """Say how an event got into its turn, if it came while its session was busy: it joined the turn or waited."""
    entry = tx.one(EntryRow, "entry_get", session=hearing.session, seq=hearing.seq)
    if entry is not None and entries.load(entry.more).get("joined"):
        return f"it joined the running turn t{hearing.turn} ({hearing.busy})"
    first = tx.one(TurnRow, "turn_get", id=hearing.root)
    before = (
        tx.one(TurnRow, "turn_of_epoch", session=hearing.session, epoch=first.epoch - 1) if first is not None else None
    )
    stopped = hearing.busy == "interrupt" and before is not None and before.state == "cancelled"
    return f"it waited ({hearing.busy}) for t{hearing.root}" + (
        f", and interrupted t{before.id}" if stopped and before else ""
    )


def _explain_asked_turn(tx: Tx, number: int) -> list[Json]:
    """Return the story of a turn, with a line for each event that it took."""
    return _list_asking_lines(tx, number) + _explain_turn(tx, number)


def _list_asking_lines(tx: Tx, number: int) -> list[Json]:
    return [
        _line(
            event.at,
            f"e{event.id}: accepted {event.kind}{f' from {event.sender}' if event.sender else ''} at {event.source}; "
            f"t{number} took it (entry {event.seq})",
        )
        for event in tx.all(BoundEvent, "events_of_turn", turn=_find_latest_attempt(tx, number))
    ]


def _find_latest_attempt(tx: Tx, number: int) -> int:
    """Return the latest attempt of a turn's root, to which the turn's events are bound now (`hearing_rebind`)."""
    root = tx.get(TurnRow, "turn_get", id=number).root
    return max(attempt.id for attempt in tx.all(TurnRow, "turns_of_root", root=root))


def _explain_turn(tx: Tx, number: int) -> list[Json]:
    turn_row = tx.get(TurnRow, "turn_get", id=number)
    out = []
    for attempt in tx.all(TurnRow, "turns_of_root", root=turn_row.root):
        mode = f" ({attempt.how})" if attempt.how and attempt.how != "start" else ""
        out.append(_line(attempt.started, f"t{attempt.id}: attempt {attempt.attempt}{mode} began"))
        out += _explain_requests(tx, attempt.id)
        out += _list_end_lines(attempt)
    for claim_row in tx.all(ClaimRow, "claims_of_root", root=turn_row.root):
        out += _list_claim_lines(tx, claim_row)
    return out


def _list_end_lines(attempt: TurnRow) -> list[Json]:
    """Return lines about how an attempt of a turn ended, or when it is tried again; [] if it runs."""
    if attempt.ended is None:
        again = f"t{attempt.id}: failed, {attempt.error}; the next attempt is not before this time"
        return [_line(attempt.retry_at, again)] if attempt.retry_at is not None else []
    why = f", stop reason {attempt.stop}" if attempt.stop else ""
    if error := attempt.error or (attempt.state == "lost" and "the gateway ended before it"):
        why = f": {error}"
    out = [_line(attempt.ended, f"t{attempt.id}: {attempt.state}{why}")]
    if attempt.evidence is not None:
        evidence = _EVIDENCE[attempt.evidence].format(attempt.evidence_row)
        out.append(_line(attempt.ended, f"t{attempt.id}: answered by {evidence}"))
    return out


def _explain_requests(tx: Tx, turn: int) -> list[Json]:
    """Return a line for each permission that a turn asked for: how the request ended, and who answered it."""
    out = []
    for row in tx.all(ItemRow, "items_of_turn", turn=turn):
        if row.kind == permission_requests.KIND:
            title = str(entries.load(row.body).get("title") or "")
            ending = permission_requests.describe_ending(row) or f"not answered yet: {title}"
            out.append(_line(None, f"t{turn}: it asked for a permission; {ending}"))
    return out


_EVIDENCE = {
    "said": "c{}, a text of the agent",
    "asked": "c{}, a question of its agent",
    "echo": "c{}, an echo of words that were shown",
    "recorded": "c{}, a text that only the transcript has: its home is on no configured channel",
    "notice": "the notice in entry {}",
    "stopped": "nothing: a person stopped it by entry {} at its home, or withdrew that message",
    "quiet": "nothing: only a heartbeat asked, and it may end without a word",
    "deleted": "nothing: its session was deleted",
    "imported": "nothing here: the turn was imported",
}
"""What the person can see of a turn's end, by kind of evidence (`semel.ledger.turns.end_evidence`)."""


def _explain_claim(tx: Tx, number: int) -> list[Json]:
    claim_row = tx.get(ClaimRow, "claim_get", id=number)
    if claim_row.turn is None:
        return _list_claim_lines(tx, claim_row)
    turn_row = tx.get(TurnRow, "turn_get", id=claim_row.turn)
    began = f"t{turn_row.id}: attempt {turn_row.attempt} of root t{turn_row.root} began"
    return [
        *_list_asking_lines(tx, turn_row.id),
        _line(turn_row.started, began),
        *_list_claim_lines(tx, claim_row),
        *_list_end_lines(turn_row),
    ]


def _list_claim_lines(tx: Tx, claim_row: ClaimRow) -> list[Json]:
    to = f" to {claim_row.dest}" if claim_row.dest else ""
    origins = {"tool": "by a tool call", "block": "as a block of text", "recovery": "shown before its turn ended"}
    origin = origins.get(claim_row.how, claim_row.how) + (", late" if claim_row.late else "")
    text = _quote(claim_row.text) if claim_row.erased is None else f"{claim_row.erased:,} characters, removed since"
    head = f"c{claim_row.id}: {claim_row.kind}{to} {origin}: {text}"
    place = f", entry {claim_row.seq}{_name_rivals(tx, claim_row)}" if claim_row.seq is not None else ""
    fate = {
        "said": f"said{place}",
        "echo": f"an echo of c{claim_row.echo_of}: not shown again"
        + (f" ({claim_row.reason})" if claim_row.reason else ""),
        "refused": f"refused: {claim_row.reason}",
        "quiet": f"quiet: {claim_row.reason}",
    }
    if claim_row.outcome == "quiet" and claim_row.reason in placeholders.REASONS:
        head = f"c{claim_row.id}: a message{to} is reserved before its text is known"
    elif claim_row.outcome == "quiet" and claim_row.reason == buttons.TAKEN_AWAY_REASON:
        head = f"c{claim_row.id}: a request{to} is over"
    elif claim_row.outcome == "quiet" and claim_row.reason == buttons.OFFER_REASON:
        head = f"c{claim_row.id}: a request{to} can be answered by a reaction"
    out = [_line(claim_row.at, f"{head} -> {fate[claim_row.outcome]}")]
    for part_row in tx.all(PartRow, "parts_of_claim", claim=claim_row.id):
        out += list_part_lines(tx, part_row)
    return out


def _name_rivals(tx: Tx, claim_row: ClaimRow) -> str:
    """Name the entries that a claim's entry supersedes, and the one that supersedes it; "" if there are none."""
    entry = _find_claim_entry(tx, claim_row)
    if entry is None:
        return ""
    seqs = ", ".join(str(seq) for seq in entries.load(entry.more).get("supersedes", ()))
    older = f", which supersedes entry {seqs}" if seqs else ""
    if not entry.superseded:
        return older
    for other in tx.all(ClaimRow, "claims_of_root", root=claim_row.root) if claim_row.root is not None else ():
        newer = _find_claim_entry(tx, other) if other.session == claim_row.session else None
        if newer is not None and entry.seq in entries.load(newer.more).get("supersedes", ()):
            return f"{older}; superseded by entry {newer.seq} (c{other.id}), which has its text in full"
    return f"{older}; superseded, because a later entry has its text in full"


def _find_claim_entry(tx: Tx, claim_row: ClaimRow) -> EntryRow | None:
    if claim_row.seq is None:
        return None
    return tx.one(EntryRow, "entry_get", session=claim_row.session, seq=claim_row.seq)


def _explain_part(tx: Tx, number: int) -> list[Json]:
    part_row = tx.get(OutgoingPart, "part_get", id=number)
    return _explain_claim(tx, part_row.claim)


_EXPLAINERS = {"event": _explain_event, "turn": _explain_asked_turn, "claim": _explain_claim, "part": _explain_part}
