"""Sessions as rows of a list: what was said last, what is new, and whether somebody has to do something.

The same row is listed (`GET /v1/sessions`) and streamed (`GET /v1/stream`), so that a list which follows the stream
shows what a new request would. A preview is one plain line, made here once for all faces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from semel.law.limits import MILLION
from semel.ledger.storage.rows import EntryRow, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript.entries import load
from semel.ledger.transcript.views import ask_session_json
from semel.text.json_types import Json
from semel.text.preview import SOURCE_CHARS_PER_CHAR, make_preview

NEWEST_SESSIONS = 5_000
"""How many sessions are looked at for those that have an agent and no folder of their own: no index has both."""

OFFERED = frozenset(("modes", "models", "options", "commands"))
"""The fields that a list of sessions leaves out: they may take more than 1 KB for each session."""

MAX_PREVIEW_CHARS = 200
MAX_UNREAD = 200  # a session's newest changes in which unread entries are counted, so that the cost is bounded (Law 11)
NEWEST_HELD = 1_000  # held parts that are counted
NEWEST_TURNS = 2_000  # turns among which failed ones are looked for
MAX_IN_NEED = 1_000  # sessions with an open request or question that are listed
PREVIEWED_ENTRIES = 20  # entries before a command among which the one is looked for that is previewed
LIVE_PIECES = 60  # pieces of a text that still streams, of which the preview is made


class SessionNews(Row):
    """What a list tells of a session besides its own columns.

    `unread`: entries of agent and gateway after what the owner has seen. `approvals`, `questions`: open requests.
    `state`, `error`: those of the newest turn, if it failed.
    """

    unread: int
    approvals: int
    questions: int
    state: str | None
    error: str | None


def list_sessions(tx: Tx, before: int = 1 << 62, limit: int = 200, archived: bool = False) -> list[Json]:
    """Return a page of sessions as JSON objects, newest first: those in use or, if `archived`, the archived ones.

    Deleted sessions are left out, and OFFERED fields. `before`: only sessions with a lower id.
    """
    if archived:
        return _list_rows(tx, tx.all(SessionRow, "session_list_archived", before=before, limit=limit))
    return _list_rows(tx, tx.all(SessionRow, "session_list", before=before, limit=limit))


def list_sessions_of_folder(
    tx: Tx, folder: str, agents: Iterable[str], before: int, limit: int, archived: bool
) -> list[Json]:
    """Return a page of the sessions that work in a folder, as `list_sessions` does.

    `agents`: the agents whose workspace it is. Of their sessions without a folder of their own, each page finds those
    among the NEWEST_SESSIONS below `before`, so that its cost is bounded (Law 11).
    """
    page: Json = {"archived": int(archived), "before": before, "limit": limit}
    rows = tx.all(SessionRow, "session_list_folder", folder=folder, **page)
    for agent in agents:
        rows += tx.all(SessionRow, "session_list_workspace", agent=agent, newest=NEWEST_SESSIONS, **page)
    return _list_rows(tx, sorted(rows, key=lambda row: row.id, reverse=True)[:limit])


def read_session(tx: Tx, session: int) -> Json:
    """Return one session in the same form as `list_sessions`, with what its agent offers."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    return _ask_full_json(tx, row)(count_held(tx).get(session, 0))


def read_rows(tx: Tx, sessions: Iterable[int]) -> list[tuple[str, Json | None]]:
    """Return the key of each of these sessions, and its row as `list_sessions` has it; None if it was deleted."""
    rows = [row for number in sessions if (row := tx.one(SessionRow, "session_by_id", id=number)) is not None]
    listed = {out["key"]: out for out in _list_rows(tx, [row for row in rows if row.deleted is None])}
    return [(row.key, listed.get(row.key)) for row in rows]


def read_snapshot(tx: Tx, limit: int) -> tuple[list[Json], bool]:
    """Return the newest `limit` sessions that are not archived, and each older one that needs somebody, newest first.

    The second value says whether there are more than `limit` of the former.
    """
    newest = tx.all(SessionRow, "session_list", before=1 << 62, limit=limit + 1)
    known = {row.id for row in newest[:limit]}
    in_need = {
        *tx.values(int, "sessions_with_requests", limit=MAX_IN_NEED),
        *tx.values(int, "sessions_failed", newest=NEWEST_TURNS),
        *count_held(tx),
    }
    older = [tx.get(SessionRow, "session_by_id", id=number) for number in sorted(in_need - known, reverse=True)]
    listed = [*newest[:limit], *(row for row in older if row.deleted is None and row.archived is None)]
    return _list_rows(tx, listed), len(newest) > limit


def count_held(tx: Tx) -> dict[int, int]:
    """Return how many messages of each session wait for a person's decision, by its id.

    Those with a part among the NEWEST_HELD parts that do; once for each destination.
    """
    return dict(tx.pairs(int, int, "messages_held_by_session", newest=NEWEST_HELD))


def _list_rows(tx: Tx, rows: Sequence[SessionRow]) -> list[Json]:
    held = count_held(tx) if rows else {}
    asked = [(row.id, _ask_full_json(tx, row)) for row in rows]  # all first, so that a server is waited for once
    listed = [read_full(held.get(id, 0)) for id, read_full in asked]
    return [{name: value for name, value in out.items() if name not in OFFERED} for out in listed]


def _ask_full_json(tx: Tx, row: SessionRow) -> Callable[[int], Json]:
    """Ask for what is told of a session. Return a function that returns it; it takes how many messages are held."""
    read_session = ask_session_json(tx, row)
    read_last = tx.ask(EntryRow, "entries_last", session=row.id, before=row.seq + 1, limit=1)
    read_news = tx.ask(SessionNews, "session_news", id=row.id, most=MAX_UNREAD)
    return lambda held: _full_json(tx, row, read_session(), read_last(), read_news()[0], held)


def _full_json(tx: Tx, row: SessionRow, out: Json, last: list[EntryRow], news: SessionNews, held: int) -> Json:
    at = last[0].at if last else _read_last_turn_time(tx, row)
    out.update(seq=row.seq, rev=row.rev, at=at, last=_preview_last(tx, row, last[0]) if last else "")
    if row.cost is not None:
        out["cost"] = row.cost / MILLION
    if row.seen is not None:
        out["seen"] = row.seen
    counts = {"unread": news.unread, "approvals": news.approvals, "questions": news.questions, "held": held}
    out.update((name, count) for name, count in counts.items() if count)
    if news.state == "failed" and out["state"] == "idle":
        out["failed"] = news.error or "The turn failed."
    return out


def _read_last_turn_time(tx: Tx, row: SessionRow) -> int:
    """Return when something last happened in a session without entries (perhaps they were removed), in ms."""
    turn = tx.one(TurnRow, "turn_last", session=row.id)
    return row.at if turn is None else turn.ended or turn.started


def _preview_last(tx: Tx, row: SessionRow, last: EntryRow) -> str:
    """Return a preview of a session's last entry that is neither a command nor the answer to one.

    The answer to /history shows what others said. If the newest PREVIEWED_ENTRIES are all such, the last one counts.
    """
    if _is_command(last):
        newest = tx.all(EntryRow, "entries_last", session=row.id, before=last.seq, limit=PREVIEWED_ENTRIES)
        last = next((entry for entry in newest if not _is_command(entry)), last)
    return _preview_entry(tx, last)


def _is_command(entry: EntryRow) -> bool:
    return bool(entry.more) and load(entry.more).get("kind") == "command"


def _preview_entry(tx: Tx, row: EntryRow) -> str:
    """Return the beginning of an entry's text as a plain line; if it has none, the words or names of its files."""
    text = row.text
    if row.live and len(text) < MAX_PREVIEW_CHARS * SOURCE_CHARS_PER_CHAR:
        most = LIVE_PIECES
        text += "".join(
            tx.values(str, "first_pieces_of_entry", session=row.session, seq=row.seq, after=row.base, limit=most)
        )
    if not text.strip() and row.more:
        files = load(row.more).get("files") or ()
        text = ", ".join(str(file.get("transcript") or file.get("name") or "") for file in files)
    return make_preview(text, MAX_PREVIEW_CHARS)
