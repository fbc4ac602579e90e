"""The conversation so far: for an agent that continues, or that has no memory of its own (Laws 4, 9).

The record is in order of acceptance; a prompt's history is in order of turns: for each turn the events bound to it,
then what it said. Attempts of one root count as one turn. Entries that no turn owns follow the turn before them. A
summary replaces the turns that it covers. Whole turns are kept, newest first, as long as they fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import summary
from semel.ledger.turns.summary import Covers, Summary

STRETCH = 200  # entries read for an agent that lost its memory
PAGE = 200  # entries read at a time for an agent whose memory is the ledger
STEP = 8  # turns by which the start of a cut history moves
MAX_HISTORY_ENTRIES = 4_000  # entries read for one prompt at most, so that its cost is bounded (Law 11)


@dataclass(frozen=True)
class Spoken:
    """One entry as an agent remembers it. `turn`: the root of its turn; `more`: the entry's fields beside its text."""

    seq: int
    turn: int  # the root of its turn
    role: str  # user, agent, event, notice
    text: str
    partial: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deed:
    """A tool call that a lost attempt of the running turn's root had started. `call`: the agent's id of it."""

    title: str
    status: str
    input: Any = None
    output: str = ""  # the beginning of its output
    call: str | None = None
    lost: bool = False  # its attempt ended first


@dataclass(frozen=True)
class Past:
    """The history for an agent without a memory of its own: the current chapter, in order of turns.

    turn: the running one, of `root`. What attempts of that root said is not in `spoken`: the prompt states it
    separately.
    summary: replaces the turns before those in `spoken`. cut: older turns were left out.
    begun: tool calls that lost attempts of the root had started.
    """

    turn: int
    spoken: tuple[Spoken, ...] = ()
    cut: bool = False
    begun: tuple[Deed, ...] = ()
    summary: Summary | None = None
    root: int = 0


@dataclass(frozen=True)
class Stretch:
    """Turns to summarise, in order. `before` is the existing summary of everything before them."""

    spoken: tuple[Spoken, ...]
    covers: Covers
    before: Summary | None = None


def conversation(tx: Tx, session: int, chapter: int, turn: int) -> list[Spoken]:
    """The chapter before a turn, in order of turns: each turn's bound events, then what it said (Law 4).

    Left out is what lost attempts of this very turn said, because its prompt states that. Text that was said again in
    full counts once.
    """
    row, own = tx.one("session_by_id", id=session), tx.one("turn_get", id=turn)
    assert row is not None and own is not None
    rows = tx.all("entries_before", session=session, chapter=chapter, before=row.seq + 1, since=0, limit=STRETCH)
    return [one for group in _by_root(rows[::-1], own.root).values() for one in group]


def remembered(tx: Tx, session: int, room: int) -> Past:
    """The running turn's history: the newest whole turns, in at most `room` bytes of UTF-8 text (Law 4).

    For each turn, its bound events, then what it said. Entries that no turn owns follow the turn before them. A
    summary, if it fits, replaces the turns that it covers; these are not read.
    """
    row, own = _standing(tx, session)
    attempts = {t.id for t in tx.all("turns_of_root", root=own.root)} if own is not None else set()
    told = summary.newest(tx, row)
    size = _bytes(told.text) if told is not None else 0
    fits = size <= room
    room -= size if fits else 0
    rows, cut = _newest(tx, row, room, told)
    groups = _by_root(rows, own.root if own is not None else None, told.covers if told is not None else None)
    spoken, left_out = _fitting(groups, room, cut or not fits)
    begun = tuple(deed for turn in sorted(attempts - {row.turn}) for deed in _deeds(tx, turn))
    root = int(own.root) if own is not None else 0
    return Past(int(row.turn or 0), spoken, left_out, begun, told if fits else None, root)


def older(tx: Tx, session: int, keep: int, most: int) -> Stretch | None:
    """What a new summary would replace: within the newest `most` bytes, all but the newest turns of `keep` bytes.

    None if there is nothing older. The stretch is `cut` if a part of the record was not read.
    """
    row, own = _standing(tx, session)
    before = summary.newest(tx, row)
    covered = before.covers if before is not None else None
    rows, cut = _newest(tx, row, most, before)
    own_root = own.root if own is not None else None
    groups = _by_root(rows, own_root, covered)
    known = _whole(groups, cut)
    old = known[: len(known) - len(_kept(groups, known, keep))]
    if not old:
        return None
    spoken = tuple(one for turn in old for one in groups[turn])
    first = before.covers.first if before is not None else min(one.seq for one in spoken)
    covers = Covers(first, max(one.seq for one in spoken), old[-1], 0, cut or (covered is not None and covered.cut))
    rest = (e.seq for of, e in _rooted(rows, own_root, covered) if of is None or not covers.has(e.seq, of))
    return Stretch(spoken, replace(covers, since=min(rest, default=row.seq + 1)), before)


def _whole(groups: dict[int, list[Spoken]], cut: bool) -> list[int]:
    """The roots of complete turns, oldest first: the first turn of a cut stretch may be incomplete."""
    return sorted(groups)[1:] if cut else sorted(groups)


def _kept(groups: dict[int, list[Spoken]], known: list[int], room: int) -> list[int]:
    """The newest turns of `known` that fit into `room` bytes, oldest first."""
    kept = []
    for turn in reversed(known):
        room -= sum(_bytes(one.text) for one in groups[turn])
        if room < 0:
            break
        kept.append(turn)
    return kept[::-1]


def _standing(tx: Tx, session: int) -> tuple[Row, Row | None]:
    """The session and its running turn."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    return row, tx.one("turn_get", id=row.turn) if row.turn is not None else None


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _rooted(rows: list[Row], own: int | None, covered: Covers | None) -> Iterator[tuple[int | None, Row]]:
    """Each entry with the root that it belongs to, in order of acceptance. An entry without a turn belongs to the turn
    before it, which is never `own`.
    """
    latest = covered.turn if covered is not None else 0
    for e in rows:
        of = latest if e.event is None and e.turn is None else e.root
        latest = max(latest, of or 0) if of != own else latest
        yield of, e


def _by_root(rows: list[Row], own: int | None, covered: Covers | None = None) -> dict[int, list[Spoken]]:
    """Entries grouped by the root of their turn, oldest first; in each group the events, then what was said.

    All attempts of a root are one group. An entry without a turn belongs to the turn before it. Left out is what waits,
    streams, was superseded, is a summary or covered by one, or belongs to `own`.
    """
    groups: dict[int, list[tuple[int, Spoken]]] = {}
    for of, e in _rooted(rows, own, covered):
        if of is None or of == own or e.live or e.superseded or (covered is not None and covered.has(e.seq, of)):
            continue
        one = Spoken(e.seq, of, e.role, e.text, bool(e.partial), entries.load(e.more))
        if one.more.get("kind") == summary.KIND:
            continue
        groups.setdefault(of, []).append((0 if e.event is not None else 1, one))
    return {of: [one for _, one in sorted(groups[of], key=lambda p: (p[0], p[1].seq))] for of in sorted(groups)}


def _newest(tx: Tx, session: Row, room: int, told: Summary | None) -> tuple[list[Row], bool]:
    """The newest entries that could fit, in order of acceptance; and whether there are older ones."""
    rows: list[Row] = []
    before, since = session.seq + 1, told.covers.since if told is not None else 0
    while room > 0 and len(rows) < MAX_HISTORY_ENTRIES:
        page = tx.all(
            "entries_before", session=session.id, chapter=session.chapter, before=before, since=since, limit=PAGE
        )
        rows += page
        if len(page) < PAGE:
            return rows[::-1], False
        before = page[-1].seq
        room -= sum(len(e.text) for e in page)
    return rows[::-1], True


def _fitting(groups: dict[int, list[Spoken]], room: int, cut: bool) -> tuple[tuple[Spoken, ...], bool]:
    """The newest whole turns that fit into `room` bytes; and whether older ones were left out."""
    known = _whole(groups, cut)
    kept = _kept(groups, known, room)
    cut = cut or len(kept) < len(known)
    told = [groups[turn] for turn in kept]
    return tuple(one for group in (told[_stable_start(told) :] if cut else told) for one in group), cut


def _stable_start(kept: list[list[Spoken]]) -> int:
    """Index at which a cut history begins.

    The beginning moves only every few turns, so that a model's provider can cache the prompt's prefix. At most a
    quarter of what fits is given up for that.
    """
    for n in range(1, len(kept) // 4 + 1):
        if kept[n][0].turn // STEP != kept[n - 1][0].turn // STEP:
            return n
    return 0


def list_deeds(tx: Tx, root: int) -> list[Deed]:
    """The tool calls that the attempts of a root have started so far."""
    return [deed for turn in tx.all("turns_of_root", root=root) for deed in _deeds(tx, turn.id)]


def _deeds(tx: Tx, turn: int) -> list[Deed]:
    out = []
    for item in tx.all("items_of_turn", turn=turn):
        if item.kind == "tool":
            body = entries.load(item.body)
            title = str(body.get("title") or body.get("name") or "a tool")
            status, given, output = str(body.get("status") or "pending"), body.get("input"), str(item.text)[:2000]
            out.append(Deed(title, status, given, output, item.name, bool(body.get("lost"))))
    return out
