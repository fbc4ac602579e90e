"""The part of `semel why` about outgoing parts: each attempt to send one, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from semel.ledger.delivery import parts
from semel.ledger.storage.rows import ClaimEntry, EventRow, PartAttemptRow, PartRow, RestoreRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.json_types import Json
from semel.timing.walltime import format_utc

MAX_LISTED_ATTEMPTS = 20  # of a part: while its platform is away for days, it is tried every ten minutes


def make_line(at: int | None, text: str) -> Json:
    """Return a line of a story. `at`: in ms; None if the line belongs to the one before it."""
    return {"at": at, "text": text}


def list_part_lines(tx: Tx, part_row: PartRow) -> list[Json]:
    """Return the lines of a story about one part: how it was queued, each attempt, and its state now."""
    out = [
        make_line(part_row.at, f"p{part_row.id}: part {part_row.n + 1} for {part_row.dest} queued, key {part_row.key}")
    ]
    attempts = tx.all(PartAttemptRow, "attempts_of_part", part=part_row.id)
    decisions = _list_decisions(tx, part_row)
    out += _list_attempt_lines(part_row, attempts, [known for known in decisions if known["decision"] == "resend"])
    if not attempts and part_row.first is not None:
        out.append(make_line(part_row.first, f"p{part_row.id}: attempt 1 of {part_row.attempts} began"))
    detail = f", receipt {part_row.receipt}" if part_row.receipt else ""
    if part_row.state == "queued":
        detail = _repeat_mark(part_row)
    is_listed = part_row.failed is not None or (attempts and part_row.error == attempts[-1].error)
    error = f": {part_row.error}" if part_row.error and not is_listed else ""
    settled_at = attempts[-1].ended if attempts else part_row.first or part_row.at
    if (restored := _find_restore(tx, part_row, attempts)) is not None:
        copied = format_utc(restored.copied)
        text = f"the ledger was restored from a copy of {copied}: nobody knows whether it was sent since"
        out.append(make_line(restored.at, f"p{part_row.id}: {text}"))
        settled_at = max(settled_at, restored.at)
    if decisions and (ending := _ENDINGS.get((decisions[-1]["decision"], part_row.state))):
        settled_at, detail = decisions[-1]["at"], f"{detail}; {decisions[-1]['by']} {ending}"
    state = f"p{part_row.id}: {part_row.state}{detail}{error}{_name_head(tx, part_row)}"
    out.append(make_line(settled_at, state))
    if attempts and part_row.state == "queued" and part_row.due < parts.PARKED:
        out.append(make_line(part_row.due, f"p{part_row.id}: the next attempt is not before this time"))
    if part_row.failed is not None:
        event_row = tx.get(EventRow, "event_get", id=part_row.failed)
        reason = f": {part_row.error}" if part_row.error else ""
        out.append(make_line(event_row.at, f"p{part_row.id}: failed later, as e{event_row.id} reports{reason}"))
    return out


def _find_restore(tx: Tx, part_row: PartRow, attempts: Sequence[PartAttemptRow]) -> RestoreRow | None:
    """Return the last restore of the ledger if it put this part in doubt; None if there was none, or it did not."""
    restored = tx.one(RestoreRow, "restore_last")
    if restored is None or part_row.id > restored.part:
        return None
    is_open = part_row.state in ("queued", "sending", "unknown", "held")
    return restored if is_open or any(attempt.at > restored.at for attempt in attempts) else None


def _name_head(tx: Tx, part_row: PartRow) -> str:
    """Name the part behind which a queued one waits; "" if it waits behind none."""
    head = parts.find_part_before(tx, part_row)
    return "" if head is None else f", behind p{head.id}, which leaves first"


def _list_decisions(tx: Tx, part_row: PartRow) -> list[Json]:
    """Return what people decided about a part, oldest first. Those of Semel 0.1 were not kept (`_find_resends`)."""
    for entry in tx.all(ClaimEntry, "entries_of_claim", claim=part_row.claim):
        decisions = entries.list_decisions(tx, entry.session, entry.seq)
        return [decision for decision in decisions if decision["part"] == part_row.id]
    return []


def _list_attempt_lines(part_row: PartRow, attempts: Sequence[PartAttemptRow], decided: Sequence[Json]) -> list[Json]:
    """Return lines about the recorded attempts to send a part, the one that is under way, and the decisions to resend.

    `decided`: those decisions that were kept. Of many attempts, only the first and the newest get lines of their own.
    """
    out = []
    omitted = attempts[1 : 1 - MAX_LISTED_ATTEMPTS] if len(attempts) > MAX_LISTED_ATTEMPTS else ()
    if omitted:
        told = f"{len(omitted)} attempts in between are not listed; the last of them began at this time"
        out.append(make_line(omitted[-1].at, f"p{part_row.id}: {told}"))
    resends = _find_resends(part_row, attempts, decided)
    newest = max(resends, default=None)
    for number, attempt in enumerate(attempts):
        if number in resends:
            out.append(_describe_resend(part_row, resends[number], attempt.at, is_newest=number == newest))
        if not 1 <= number <= len(omitted):
            is_last = attempt is attempts[-1] and part_row.state not in ("queued", "sending")
            is_asked = number >= min(resends, default=len(attempts))
            # A part that is in line or being sent is marked for the attempt after these.
            mark = _asked_mark(part_row, attempts[:number]) if is_asked else _repeat_mark(part_row) if is_last else ""
            out += _describe_attempt(attempt, mark)
    is_sending = part_row.state == "sending"
    if len(attempts) in resends:
        at = part_row.due if is_sending else None
        out.append(_describe_resend(part_row, resends[len(attempts)], at, is_newest=True))
    if attempts and is_sending:
        mark = _asked_mark(part_row, attempts) if resends else _repeat_mark(part_row)
        out.append(make_line(part_row.due, f"p{part_row.id}: attempt {attempts[-1].n + 1} began{mark}"))
    return out


def _find_resends(
    part_row: PartRow, attempts: Sequence[PartAttemptRow], decided: Sequence[Json]
) -> dict[int, Json | None]:
    """Return each time that a person had the part sent again, by the number of recorded attempts before it.

    The value is the decision, or None if it was not kept. Each of these decisions lets the part count its attempts from
    0, so the newest one lies before those that it counts. An earlier one is known only if it was kept, or if the
    attempt before it made the part held or rejected.
    """
    known = {sum(attempt.at < decision["at"] for attempt in attempts): decision for decision in decided}
    if not part_row.marked:  # a part may be marked without a person, by the operator's setting
        return {}
    counted = part_row.attempts - (part_row.state == "sending")  # one under way is not recorded yet
    inferred = {number for number, attempt in enumerate(attempts[:-1], 1) if attempt.state in ("held", "rejected")}
    if 0 <= counted < len(attempts):
        inferred.add(len(attempts) - counted)
    older = sorted(inferred)[: max(0, len(inferred) - len(known))]
    return {**dict.fromkeys(older), **known}


def _describe_resend(part_row: PartRow, decision: Json | None, at: int | None, *, is_newest: bool) -> Json:
    """Return a line about a decision to send a part again. `at`: its time in ms if the decision was not kept."""
    counts = "; its tries are counted from here" if is_newest else ""
    by, at = ("a person", at) if decision is None else (decision["by"], decision["at"])
    return make_line(at, f"p{part_row.id}: {by} had it sent again{counts}")


def _describe_attempt(attempt: PartAttemptRow, mark: str) -> list[Json]:
    head = f"p{attempt.part}: attempt {attempt.n}"
    outcome = _ATTEMPT_OUTCOMES.get(attempt.state, attempt.state)
    error = f": {attempt.error}" if attempt.error else ""
    return [make_line(attempt.at, f"{head} began{mark}"), make_line(attempt.ended, f"{head}: {outcome}{error}")]


_ENDINGS = {("arrived", "sent"): "said that it arrived", ("drop", "dropped"): "dropped it"}
"""What to say of a person's last decision about a part, by the decision and the state in which it left the part."""


def _repeat_mark(part_row: PartRow) -> str:
    return ", marked as a repeat" if part_row.marked == parts.MARKED_AS_REPEAT else ""


def _asked_mark(part_row: PartRow, earlier: Sequence[PartAttemptRow]) -> str:
    """Say how an attempt that a person asked for was marked. `earlier`: the attempts before it."""
    has_not_arrived = earlier and all(attempt.state in ("queued", "rejected") for attempt in earlier)
    mark = "" if has_not_arrived else _repeat_mark(part_row)
    return mark and f"{mark} that a person asked for"


_ATTEMPT_OUTCOMES = {
    "queued": "not sent, to be tried again",
    "unknown": "nobody knows whether it arrived",
    "held": "nobody knows whether it arrived, so it was held",
}
"""The outcome of an attempt, by the state of its part after it. The other states are named as they are."""
