"""Explain why a message did or did not appear: the story of one thing, in the glossary's words."""

from __future__ import annotations

import re
from typing import Any

from semel.ledger.delivery import placeholders
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.text.shorten import shorten_to_line

Json = dict[str, Any]

QUOTED_CHARS = 80
_REF = re.compile(r"([ecpt])(\d{1,18})", re.I | re.A)  # no more digits than a row's id can have
_ENTRY = re.compile(r"(.+)#(\d{1,18})", re.A)


def story(tx: Tx, ref: str) -> Json | None:
    """{"ref", "kind", "lines": [{"at", "text"}]}, or None if the ref is unknown. See `find` for valid refs.

    The story of an event also has "turns": the turns that took it, with all their attempts.
    """
    found = find(tx, ref.encode("utf-8", "replace").decode().strip())
    if found is None:
        return None
    kind, number = found
    lines = _TELL[kind](tx, number)
    at = 0
    for line in lines:  # a line without a time belongs to the line before it
        line["at"] = at = at if line["at"] is None else line["at"]
    lines.sort(key=lambda line: line["at"])
    told: Json = {"ref": f"{kind[0]}{number}", "kind": kind, "lines": lines}
    if kind == "event":
        told["turns"] = _turns(tx, number)
    return told


def _turns(tx: Tx, event: int) -> list[int]:
    roots = {int(h.root) for h in tx.all("hearings_of_event", event=event) if h.root is not None}
    return sorted({int(turn.id) for root in roots for turn in tx.all("turns_of_root", root=root)})


def find(tx: Tx, ref: str) -> tuple[str, int] | None:
    """`e1` event, `c1` claim, `p1` part, `t1` turn, `SESSION#1` entry, an event's key, a platform's message id."""
    if match := _REF.fullmatch(ref):
        kind = {"e": "event", "c": "claim", "p": "part", "t": "turn"}[match[1].lower()]
        number = int(match[2])
        return (kind, number) if tx.one(f"{kind}_get", id=number) is not None else None
    if match := _ENTRY.fullmatch(ref):
        return _of_entry(tx, match[1], int(match[2]))
    event = tx.value("event_by_key", key=ref)
    if event is not None:
        return "event", int(event)
    part = tx.value("part_by_receipt", receipt=ref)
    return None if part is None else ("part", int(part))


def _of_entry(tx: Tx, key: str, seq: int) -> tuple[str, int] | None:
    session = tx.one("session_by_key", key=key)
    row = tx.one("entry_get", session=session.id, seq=seq) if session is not None else None
    if row is None:
        return None
    if row.event is not None:
        return "event", int(row.event)
    if row.claim is not None:
        return "claim", int(row.claim)
    more = entries.load(row.more)  # a notice names what it is about
    if "part" in more:
        return "part", int(more["part"])
    if "refused" in more:
        return "claim", int(more["refused"])
    return ("turn", int(row.turn)) if row.turn is not None else None


def _line(at: int | None, text: str) -> Json:
    return {"at": at, "text": text}


def _quoted(text: str) -> str:
    return repr(shorten_to_line(text, QUOTED_CHARS))


def _event(tx: Tx, number: int) -> list[Json]:
    e = tx.one("event_get", id=number)
    assert e is not None
    text = str(entries.load(e.payload).get("text", ""))
    who = f" from {e.sender}" if e.sender else ""
    named = f" as {e.key!r}" if e.key is not None else " without a key"
    out = [_line(e.at, f"e{e.id}: heard {e.kind}{who} at {e.source}{named}: {_quoted(text)}")]
    if e.repeats:
        out.append(_line(e.at, f"it came {e.repeats} more time(s); a repeat is answered with the first outcome"))
    for c in tx.all("conflicts_of", event=number):
        out.append(
            _line(c.at, f"the same key came with other content (digest {bytes(c.digest).hex()}): kept beside it")
        )
    if (q := tx.one("quarantine_get", event=number)) is not None:
        out.append(_line(None, f"quarantined, kept as it came: {q.why}; 'semel channels --quarantined' shows it"))
    if (part := tx.value("part_of_failure", event=number)) is not None:
        out.append(_line(None, f"it tells that p{part}, which was sent, failed"))
        out += _part(tx, int(part))
    for h in tx.all("hearings_of_event", event=number):
        out += _hearing(tx, h)
    for c in tx.all("commands_of_event", event=number):
        fate = {"open": "not answered yet", "void": "its session was deleted", "done": f"answered in entry {c.answer}"}
        out.append(_line(None, f"recorded in {c.key} as entry {c.seq}; a command for the gateway: {fate[c.state]}"))
    if e.payload is None:
        out.append(_line(None, "its content was deleted with its session; its key stays taken"))
    return out


def _hearing(tx: Tx, h: Row) -> list[Json]:
    out = [_line(None, f"recorded in {h.key} as entry {h.seq}{'' if h.wakes else '; it does not wake'}")]
    out += _about(tx, h)
    if h.turn is None:
        how = f" ({h.busy})" if h.busy else ""
        return [*out, _line(None, f"it waits{how} for the next turn of {h.key}")]
    if h.busy:
        out.append(_line(None, _waited(tx, h)))
    return out + _turn(tx, h.turn)


def _about(tx: Tx, h: Row) -> list[Json]:
    """What the entry refers to, and what was done to it later."""
    entry = tx.one("entry_get", session=h.session, seq=h.seq)
    more = entries.load(entry.more) if entry is not None else {}
    out = (
        [_line(None, f"it is about entry {more['of']}: {_quoted(str(more.get('quote', '')))}")] if "of" in more else []
    )
    for mark in ("edited", "deleted"):
        if mark in more:
            out.append(_line(None, f"it was {mark} later, in entry {more[mark]}; the record keeps it"))
    return out


def _waited(tx: Tx, h: Row) -> str:
    """How an event reached its turn in a busy session."""
    entry = tx.one("entry_get", session=h.session, seq=h.seq)
    if entry is not None and entries.load(entry.more).get("joined"):
        return f"it joined the running turn t{h.turn} ({h.busy})"
    first = tx.one("turn_get", id=h.root)
    before = tx.one("turn_of_epoch", session=h.session, epoch=first.epoch - 1) if first is not None else None
    stopped = h.busy == "interrupt" and before is not None and before.state == "cancelled"
    return f"it waited ({h.busy}) for t{h.root}" + (f", and interrupted t{before.id}" if stopped and before else "")


def _turn(tx: Tx, number: int) -> list[Json]:
    t = tx.one("turn_get", id=number)
    assert t is not None
    out = []
    for a in tx.all("turns_of_root", root=t.root):
        how = f" ({a.how})" if a.how and a.how != "start" else ""
        out.append(_line(a.started, f"t{a.id}: attempt {a.attempt}{how} began"))
        if a.ended is not None:
            why = f": {a.error}" if a.error else (f", stop reason {a.stop}" if a.stop else "")
            out.append(_line(a.ended, f"t{a.id}: {a.state}{why}"))
            if a.evidence is not None:
                out.append(_line(a.ended, f"t{a.id}: answered by {_EVIDENCE[a.evidence].format(a.evidence_row)}"))
        elif a.retry_at is not None:
            out.append(_line(a.retry_at, f"t{a.id}: it failed, {a.error}, and is tried again now"))
    for c in tx.all("claims_of_root", root=t.root):
        out += _claim_row(tx, c)
    return out


_EVIDENCE = {
    "said": "c{}, a text of the agent",
    "asked": "c{}, a question of its agent",
    "echo": "c{}, an echo of words that were shown",
    "recorded": "c{}, a text that only the transcript has: its home is on no configured channel",
    "notice": "the notice in entry {}",
    "stopped": "nothing: the person at its home stopped it, by entry {}",
    "quiet": "nothing: only a heartbeat asked, and it may end without a word",
    "deleted": "nothing: its session was deleted",
    "imported": "nothing here: the turn was imported",
}
"""What its person can see of a turn's end (`semel.ledger.turns.end_evidence`)."""


def _claim(tx: Tx, number: int) -> list[Json]:
    c = tx.one("claim_get", id=number)
    assert c is not None
    out = _claim_row(tx, c)
    if c.turn is not None:
        t = tx.one("turn_get", id=c.turn)
        assert t is not None
        out.append(_line(t.started, f"t{t.id}: attempt {t.attempt} of root t{t.root} began"))
    return out


def _claim_row(tx: Tx, c: Row) -> list[Json]:
    to = f" to {c.dest}" if c.dest else ""
    by = {"tool": "by a tool call", "block": "as a block of text", "recovery": "shown before its turn ended"}
    head = f"c{c.id}: {c.kind}{to} {by.get(c.how, c.how)}{', late' if c.late else ''}: {_quoted(c.text)}"
    fate = {
        "said": "said" + (f", entry {c.seq}" if c.seq is not None else ""),
        "echo": f"an echo of c{c.echo_of}: not shown again" + (f" ({c.reason})" if c.reason else ""),
        "refused": f"refused: {c.reason}",
        "quiet": f"quiet: {c.reason}",
    }
    if c.outcome == "quiet" and c.reason in placeholders.REASONS:
        head = f"c{c.id}: a message{to} is reserved before its text is known"
    out = [_line(c.at, f"{head} -> {fate[c.outcome]}")]
    for p in tx.all("parts_of_claim", claim=c.id):
        out += _part_row(tx, p)
    return out


def _part(tx: Tx, number: int) -> list[Json]:
    p = tx.one("part_get", id=number)
    assert p is not None
    return _claim(tx, p.claim)


def _part_row(tx: Tx, p: Row) -> list[Json]:
    out = [_line(p.at, f"p{p.id}: part {p.n + 1} for {p.dest} queued, key {p.key}")]
    if p.first is not None:
        out.append(_line(p.first, f"p{p.id}: left, {p.attempts} attempt(s)"))
    receipt = f", receipt {p.receipt}" if p.receipt else ""
    error = f": {p.error}" if p.error and p.failed is None else ""
    out.append(_line(p.first or p.at, f"p{p.id}: {p.state}{receipt}{error}"))
    if p.failed is not None:
        e = tx.one("event_get", id=p.failed)
        assert e is not None
        out.append(_line(e.at, f"p{p.id}: failed later, as e{e.id} tells{f': {p.error}' if p.error else ''}"))
    return out


_TELL = {"event": _event, "turn": _turn, "claim": _claim, "part": _part}
