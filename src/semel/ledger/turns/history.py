"""The conversation so far, for an agent that continues or that has no memory of its own (Laws 4, 9).

The record is in order of acceptance. A prompt's history is in order of turns: for each turn, the events bound to it,
then what it said. Attempts of one root count as one turn. An entry that belongs to no turn follows the turn before it.
A summary replaces the turns that it covers. The newest whole turns are kept, as many as fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from semel.law.memory_diff import RecordedMessage
from semel.ledger.delivery.claims import CUT_REASON
from semel.ledger.storage.rows import EntryRole, ItemRow, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import summary, voice_notes
from semel.ledger.turns.summary import Summary, SummaryScope
from semel.text.content_blocks import remove_mentions

MAX_CONVERSATION_ENTRIES = 200  # entries read for an agent that lost its memory
PAGE_ENTRIES = 200  # entries read at a time for an agent whose memory is the ledger
START_STEP_TURNS = 8  # a shortened history begins at a multiple of this many turns
MAX_HISTORY_ENTRIES = 4_000  # entries read for one prompt at most, so that its cost is bounded (Law 11)
MAX_COMPARED_ENTRIES = 400  # entries compared with the agent's own history; older ones are not
MAX_SEARCHED_ENTRIES = 1_000  # entries among which a session's last report is looked for (Law 11)
INSTRUCTIONS = "instructions"  # the kind of events with a chat client's system messages
REWORDED_KINDS = frozenset({"ask", "edit", "file", "reaction"})  # kinds whose entry differs from the agent's words


class PastEntry(Row):
    """An entry of a chapter's history.

    `bound`: the turn to which its event is bound. `root`: the root of its turn. `source`: the source of its event.
    """

    seq: int
    role: EntryRole
    text: str
    live: int
    partial: int
    superseded: int
    turn: int | None
    event: int | None
    more: str | None
    bound: int | None
    root: int | None
    source: str | None


class TakenReport(Row):
    """A report that a turn took. `root`: the root of that turn. `source`: of its event."""

    seq: int
    text: str
    source: str
    root: int


@dataclass(frozen=True)
class Spoken:
    """An entry of the history in a prompt. `more`: the entry's fields beside its text. `source`: of its event."""

    seq: int
    turn: int  # the root of the turn that the entry belongs to
    role: str  # user, agent, event, notice
    text: str
    partial: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    source: str | None = None

    @property
    def words(self) -> str:
        """The text, followed by the words of its voice notes."""
        return "\n".join(filter(None, (self.text, *voice_notes.list_transcripts(self.more))))


@dataclass(frozen=True)
class Deed:
    """A tool call that an attempt of a root had started. `call`: the agent's own id of the call."""

    title: str
    status: str
    input: Any = None
    output: str = ""  # the beginning of its output
    call: str | None = None
    lost: bool = False  # its attempt ended before the call did


@dataclass(frozen=True)
class Past:
    """The history of the current chapter, in order of turns, for an agent without a memory of its own.

    `turn`, `root`: the running turn and its root. `spoken` leaves out what attempts of this root said, because the
    prompt states that separately. `begun`: the tool calls that lost attempts of this root had started. `summary`:
    replaces the turns before those in `spoken`. `cut`: older turns were left out. `instructions`: those of a chat
    client, if their turn is not in `spoken`.
    """

    turn: int
    spoken: tuple[Spoken, ...] = ()
    cut: bool = False
    begun: tuple[Deed, ...] = ()
    summary: Summary | None = None
    root: int = 0
    instructions: Spoken | None = None


@dataclass(frozen=True)
class Stretch:
    """Consecutive turns to summarise. `before`: the existing summary of everything before them."""

    spoken: tuple[Spoken, ...]
    covers: SummaryScope
    before: Summary | None = None


def read_conversation(tx: Tx, session: int, chapter: int, turn: int) -> list[Spoken]:
    """Return the chapter before a turn, in order of turns: each turn's bound events, then what it said (Law 4).

    The turn's own root is left out, because the prompt states separately what its attempts said. Superseded texts are
    left out, so a text that was said again in full occurs only once.
    """
    row, turn_row = tx.one(SessionRow, "session_by_id", id=session), tx.one(TurnRow, "turn_get", id=turn)
    assert row is not None and turn_row is not None
    rows = _entries_before(tx, session, chapter, row.seq + 1, MAX_CONVERSATION_ENTRIES)
    return [entry for group in _group_by_root(rows[::-1], turn_row.root).values() for entry in group]


def read_past_turns(tx: Tx, session: int, max_bytes: int) -> Past:
    """Return the history before the running turn: the newest whole turns that fit into `max_bytes` of UTF-8 (Law 4).

    Each turn's bound events come first, then what it said. An entry that belongs to no turn follows the turn before it.
    If there is a summary and it fits, it replaces the turns that it covers, and these are not read. The instructions of
    a chat client stay, although their turn is left out.
    """
    row, running = _session_and_turn(tx, session)
    root = running.root if running is not None else 0
    attempts = {t.id for t in tx.all(TurnRow, "turns_of_root", root=running.root)} if running is not None else set()
    newest_summary = summary.get_newest(tx, row)
    summary_bytes = _byte_count(newest_summary.text) if newest_summary is not None else 0
    fits = summary_bytes <= max_bytes
    max_bytes -= summary_bytes if fits else 0
    instructions = find_instructions(tx, session, root)
    if instructions is not None and _byte_count(instructions.text) > max_bytes:
        instructions = None
    max_bytes -= _byte_count(instructions.text) if instructions is not None else 0
    rows, cut = _read_newest(tx, row, max_bytes, newest_summary)
    groups = _group_by_root(
        rows,
        running.root if running is not None else None,
        newest_summary.covers if newest_summary is not None else None,
    )
    spoken, left_out = _fit_turns(groups, max_bytes, cut or not fits)
    started_calls = tuple(call for turn in sorted(attempts - {row.turn}) for call in _calls_of_turn(tx, turn))
    if instructions is not None and any(entry.seq == instructions.seq for entry in spoken):
        instructions = None
    kept_summary = newest_summary if fits else None
    return Past(int(row.turn or 0), spoken, left_out, started_calls, kept_summary, root, instructions)


def find_instructions(tx: Tx, session: int, running_root: int) -> Spoken | None:
    """Return a chat client's newest instructions in the current chapter; None if the running turn took them."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    since = max(row.erased, row.seq - MAX_SEARCHED_ENTRIES) + 1
    report = tx.one(
        TakenReport, "report_taken", session=session, since=since, source=f"api:{row.key}", kind=INSTRUCTIONS
    )
    if report is None or report.root == running_root:
        return None
    return Spoken(report.seq, report.root, "event", report.text, more={"kind": INSTRUCTIONS}, source=report.source)


def find_turns_to_summarise(tx: Tx, session: int, kept_bytes: int, max_bytes: int) -> Stretch | None:
    """Return the turns that a new summary should replace; None if there are none.

    Of the newest `max_bytes` bytes of history, these are all turns except the newest ones that fit into `kept_bytes`
    bytes. `covers.cut` in the result: a part of the record was not read.
    """
    row, running = _session_and_turn(tx, session)
    newest_summary = summary.get_newest(tx, row)
    covered = newest_summary.covers if newest_summary is not None else None
    rows, cut = _read_newest(tx, row, max_bytes, newest_summary)
    running_root = running.root if running is not None else None
    groups = _group_by_root(rows, running_root, covered)
    complete_roots = _complete_roots(groups, cut)
    older_roots = complete_roots[: len(complete_roots) - len(_newest_that_fit(groups, complete_roots, kept_bytes))]
    if not older_roots:
        return None
    older_entries = tuple(entry for turn in older_roots for entry in groups[turn])
    first = newest_summary.covers.first if newest_summary is not None else min(entry.seq for entry in older_entries)
    covers = SummaryScope(
        first,
        max(entry.seq for entry in older_entries),
        older_roots[-1],
        0,
        cut or (covered is not None and covered.cut),
    )
    uncovered_seqs = (
        row_past.seq
        for root, row_past in _entries_with_root(rows, running_root, covered)
        if root is None or not covers.has(row_past.seq, root)
    )
    return Stretch(older_entries, replace(covers, since=min(uncovered_seqs, default=row.seq + 1)), newest_summary)


def _complete_roots(groups: dict[int, list[Spoken]], cut: bool) -> list[int]:
    """Return the roots whose turns were read completely, oldest first. If `cut`, the first one may be incomplete."""
    return sorted(groups)[1:] if cut else sorted(groups)


def _newest_that_fit(groups: dict[int, list[Spoken]], roots: list[int], bytes_left: int) -> list[int]:
    """Return those of the newest turns in `roots` that fit into `bytes_left` bytes, oldest first."""
    newest_roots = []
    for root in reversed(roots):
        bytes_left -= sum(_byte_count(entry.words) for entry in groups[root])
        if bytes_left < 0:
            break
        newest_roots.append(root)
    return newest_roots[::-1]


def _entries_before(tx: Tx, session: int, chapter: int, before: int, limit: int, *, since: int = 0) -> list[PastEntry]:
    """Return at most `limit` entries of a chapter with `since` <= seq < `before`, newest first."""
    return tx.all(
        PastEntry, "entries_before", session=session, chapter=chapter, before=before, since=since, limit=limit
    )


def _session_and_turn(tx: Tx, session: int) -> tuple[SessionRow, TurnRow | None]:
    """Return the session, and its running turn or None."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    return row, tx.one(TurnRow, "turn_get", id=row.turn) if row.turn is not None else None


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _entries_with_root(
    rows: list[PastEntry], running_root: int | None, covered: SummaryScope | None
) -> Iterator[tuple[int | None, PastEntry]]:
    """Yield each entry, in order of acceptance, as (root, entry), where the root is that of its turn.

    The root is None if the entry's event still waits. An entry without a turn belongs to the turn before it, but never
    to `running_root`.
    """
    latest = covered.turn if covered is not None else 0
    for entry in rows:
        root = latest if entry.event is None and entry.turn is None else entry.root
        latest = max(latest, root or 0) if root != running_root else latest
        yield root, entry


def _group_by_root(
    rows: list[PastEntry], running_root: int | None, covered: SummaryScope | None = None
) -> dict[int, list[Spoken]]:
    """Group the entries by the root of their turn, oldest root first.

    In each group, events come before what was said. All attempts of a root are one group. An entry without a turn
    belongs to the turn before it. These entries are left out: those that wait, stream or were superseded; summaries and
    what they cover; those of `running_root`.
    """
    groups: dict[int, list[tuple[int, Spoken]]] = {}
    for root, row in _entries_with_root(rows, running_root, covered):
        if (
            root is None
            or root == running_root
            or row.live
            or row.superseded
            or (covered is not None and covered.has(row.seq, root))
        ):
            continue
        entry = Spoken(row.seq, root, row.role, row.text, bool(row.partial), entries.load(row.more), row.source)
        if entry.more.get("kind") == summary.KIND:
            continue
        groups.setdefault(root, []).append((0 if row.event is not None else 1, entry))
    return {
        root: [entry for _, entry in sorted(groups[root], key=lambda p: (p[0], p[1].seq))] for root in sorted(groups)
    }


def _read_newest(
    tx: Tx, session: SessionRow, bytes_left: int, newest_summary: Summary | None
) -> tuple[list[PastEntry], bool]:
    """Return the newest entries that may fit into `bytes_left` bytes, in order of acceptance.

    The second value is True if older entries were not read.
    """
    rows: list[PastEntry] = []
    before_seq, since_seq = session.seq + 1, newest_summary.covers.since if newest_summary is not None else 0
    while bytes_left > 0 and len(rows) < MAX_HISTORY_ENTRIES:
        page = _entries_before(tx, session.id, session.chapter, before_seq, PAGE_ENTRIES, since=since_seq)
        rows += page
        if len(page) < PAGE_ENTRIES:
            return rows[::-1], False
        before_seq = page[-1].seq
        bytes_left -= sum(len(e.text) for e in page)
    return rows[::-1], True


def _fit_turns(groups: dict[int, list[Spoken]], max_bytes: int, cut: bool) -> tuple[tuple[Spoken, ...], bool]:
    """Return the newest whole turns that fit into `max_bytes` bytes, and whether older turns were left out."""
    complete_roots = _complete_roots(groups, cut)
    newest_roots = _newest_that_fit(groups, complete_roots, max_bytes)
    cut = cut or len(newest_roots) < len(complete_roots)
    newest_groups = [groups[turn] for turn in newest_roots]
    return tuple(
        entry for group in (newest_groups[_stable_start(newest_groups) :] if cut else newest_groups) for entry in group
    ), cut


def _stable_start(newest_groups: list[list[Spoken]]) -> int:
    """Return the index in `newest_groups` at which a shortened history should begin.

    It moves only once in START_STEP_TURNS turns, so that a model's provider can cache the prompt's prefix. For that, at
    most a quarter of the turns that would fit are left out.
    """
    for n in range(1, len(newest_groups) // 4 + 1):
        if newest_groups[n][0].turn // START_STEP_TURNS != newest_groups[n - 1][0].turn // START_STEP_TURNS:
            return n
    return 0


def list_started_calls(tx: Tx, root: int) -> list[Deed]:
    """Return the tool calls that the attempts of a root have started so far."""
    return [call for turn in tx.all(TurnRow, "turns_of_root", root=root) for call in _calls_of_turn(tx, turn.id)]


def _calls_of_turn(tx: Tx, turn: int) -> list[Deed]:
    calls = []
    for item in tx.all(ItemRow, "items_of_turn", turn=turn):
        if item.kind == "tool":
            body = entries.load(item.body)
            title = str(body.get("title") or body.get("name") or "a tool")
            status, call_input, output = str(body.get("status") or "pending"), body.get("input"), str(item.text)[:2000]
            calls.append(Deed(title, status, call_input, output, item.name, bool(body.get("lost"))))
    return calls


def _typed_text(text: str, more: dict[str, Any]) -> str | None:
    return remove_mentions(text, more["mentions"]) if more.get("mentions") else None


def list_recorded(tx: Tx, session: int, turn: int | None = None) -> tuple[list[RecordedMessage], bool]:
    """Return the chapter's messages from and to people, in order of turns, and whether the list is complete.

    `turn`: the turn whose events are left out, because the agent's history does not contain them yet. If it is None,
    these are the events of a turn that has begun and whose agent was not prompted yet, if there is one.
    """
    row, begun_turn = _session_and_turn(tx, session)
    if turn is None and begun_turn is not None and begun_turn.how is None and begun_turn.attempt == 1:
        turn = begun_turn.id
    rows = _entries_before(tx, session, row.chapter, row.seq + 1, MAX_COMPARED_ENTRIES)
    keyed: list[tuple[tuple[int, int, int], RecordedMessage]] = []
    latest = 0
    for entry in reversed(rows):
        root = latest if entry.event is None and entry.turn is None else entry.root
        running = entry.event is not None and entry.bound == turn and turn is not None
        if root is None or entry.live or entry.role not in ("user", "agent") or running:
            continue
        latest = max(latest, root)
        more: dict[str, Any] = entries.load(entry.more)
        needed = not entry.superseded and more.get("kind") not in REWORDED_KINDS and not more.get("automatic")
        keyed.append(
            (
                (root, 0 if entry.event is not None else 1, entry.seq),
                RecordedMessage(entry.seq, entry.role, entry.text, needed, _typed_text(entry.text, more)),
            )
        )
    for root in {order[0] for order, _ in keyed}:
        for claim, text in tx.pairs(
            int, str, "claims_for_reason", root=root, reason=CUT_REASON
        ):  # the agent may remember the text
            keyed.append(((root, 1, row.seq + claim), RecordedMessage(-claim, "agent", text, needed=False)))
    return [message for _, message in sorted(keyed, key=lambda pair: pair[0])], len(rows) < MAX_COMPARED_ENTRIES
