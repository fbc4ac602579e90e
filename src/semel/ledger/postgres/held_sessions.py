"""The rows of the sessions that a transaction holds: read once, with their lock, and saved once.

A turn updates its session's row nine times, mostly to count an entry or a rev; each update would be a statement, a new
version of the row and a round trip. Nobody else can change a row that is locked. So the statements that only count or
set the columns in `_SAVED` are answered here, and one UPDATE saves the row: before another statement looks at one of
these columns that has changed, or before the COMMIT. The transaction functions do not know.

What a transaction locks is found before its locks are granted. While it waits for them, another one may add a session
with the same home, or say something to one more. A write to such a session is refused here: the transaction runs again,
and locks that session, too (`locks.widen`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from semel.ledger.postgres import gathered
from semel.ledger.postgres.statements import Statement, own_statements, statements
from semel.ledger.postgres.wire import Connection, ServerError
from semel.ledger.storage.rows import OutgoingPart, SessionRow

if TYPE_CHECKING:
    from semel.ledger.postgres.locks import Taken

SERIALIZATION_FAILURE = "40001"
PARTS_DUE = "parts_due"  # the only statement that finds rows of sessions which its transaction could not name before
_COLUMNS = SessionRow.__struct_fields__
_PART_SESSION = OutgoingPart.__struct_fields__.index("session")
_PART_DEST = OutgoingPart.__struct_fields__.index("dest")
_SAVED = ("seq", "rev", "wake_at", "wake_since", "epoch", "turn", "lease")
_get_saved = itemgetter(*_SAVED)
_TABLES_OF_SESSIONS = frozenset(
    b"hearing command turn spawn entry item piece claim job holding erasure limited".split()
)
"""The tables whose column `session` names the session that a row belongs to."""
_LOOKS_AT_SESSIONS = re.compile(rb"\b(?:FROM|JOIN|UPDATE)\s+session\b(?:\s+(\w)\b)?")
_CHANGES_SESSIONS = re.compile(rb"\bUPDATE\s+session\b")
_CHANGED_TABLE = re.compile(rb"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)")

SessionValues = dict[str, Any]
Rows = list[list[Any]]


class SessionNotHeld(ServerError):
    """A transaction was to write to a session that it has not locked. Nothing of it happened; it runs again."""

    def __init__(self, session: int, statement: str) -> None:
        super().__init__(SERIALIZATION_FAILURE, f"session {session} is not held, and {statement} writes to it")
        self.session = session


class HeldSessions:
    """The rows of locked sessions, by id. `read_taken` returns what the transaction has locked; it may wait for it.

    `keys`: the keys of sessions that the transaction wanted to lock; those of them that have no row do not exist yet.
    """

    def __init__(self, connection: Connection, read_taken: Callable[[], Taken], keys: Collection[str] = ()) -> None:
        self._connection = connection
        self._gathered = gathered.GatheredWrites(connection)
        self._read_taken: Callable[[], Taken] | None = read_taken  # None: it was read
        self._ids: set[int] = set()
        self._lines: frozenset[str] | None = None  # None: every session that was there then is held, and every line
        self._rows: dict[int, SessionValues] = {}
        self._missing = set(keys)
        self._unsaved: dict[int, set[str]] = {}  # the columns that differ from the server's row

    def __repr__(self) -> str:
        return f"<HeldSessions {sorted(self._rows)}, unsaved {self._unsaved}>"

    def answer(self, name: str, params: Mapping[str, Any]) -> Rows | None:
        """Return the rows of a statement that can be answered from a held row. None: the server must be asked.

        Raise SessionNotHeld as `prepare` does.
        """
        if name in gathered.TABLES:
            self._refuse_unheld_write(name, params)
            self._gathered.add(name, params)
            return []
        step = _STEPS.get(name)
        if step is None and name != "session_by_key":
            return None
        self._load()
        if step is None:
            return next(([_list_values(row)] for row in self._rows.values() if row["key"] == params["key"]), None)
        row = self._rows.get(params["id"])
        if row is None:
            return None
        before = _get_saved(row)
        rows = step(row, params)
        if (after := _get_saved(row)) != before:
            changed = {column for column, old, new in zip(_SAVED, before, after, strict=True) if old != new}
            self._unsaved.setdefault(row["id"], set()).update(changed)
        return rows

    def prepare(self, name: str, params: Mapping[str, Any]) -> None:
        """Save what another statement may look at. Forget the rows that it changes: the server is asked for them.

        Raise SessionNotHeld if it writes to a session that is not held.
        """
        self._refuse_unheld_write(name, params)
        if name in gathered.LOOKING:
            self._gathered.send(gathered.LOOKING[name])
        if self._unsaved and name in LOOKING and not LOOKING[name].isdisjoint(set().union(*self._unsaved.values())):
            self.save()
        if name in CHANGING:
            self._load()
            self.save()
            changed = [params["id"]] if "id" in params else list(self._rows)
            for id in changed:
                self._rows.pop(id, None)

    def _refuse_unheld_write(self, name: str, params: Mapping[str, Any]) -> None:
        if name in WRITING:
            self._load()
            if params[WRITING[name]] not in self._ids:
                raise SessionNotHeld(params[WRITING[name]], name)

    def _load(self) -> None:
        """Read which sessions are held, and their rows, as soon as that matters."""
        if self._read_taken is None:
            return
        taken, self._read_taken = self._read_taken(), None
        self._ids.update(taken.ids)
        self._lines = taken.lines
        for values in taken.rows:
            row = dict(zip(_COLUMNS, values, strict=True))
            self._rows[row["id"]] = row
            self._missing.discard(row["key"])

    def check_found(self, name: str, params: Mapping[str, Any], rows: Rows) -> Rows:
        """Return those of the rows that a statement found which the transaction may change.

        A part that came in line after the locks were taken is left to the next look: its session and the line of its
        destination may be in the hands of another transaction. Raise ServerError if the server found a session that did
        not exist when the transaction took its locks: it runs again and locks it, too. A session that the transaction
        adds by itself is its own.
        """
        if name == "session_add":
            self._load()
            self._missing.discard(params["key"])
            self._ids.update(id for (id,) in rows)
        elif name == "session_by_key" and rows and params["key"] in self._missing:
            raise ServerError(SERIALIZATION_FAILURE, f"the session {params['key']} was added meanwhile")
        elif name == PARTS_DUE:
            self._load()
            rows = [row for row in rows if row[_PART_SESSION] in self._ids]
            if self._lines is not None:
                rows = [row for row in rows if row[_PART_DEST] in self._lines]
        return rows

    def save_and_mark(self, worker: int, serial: int) -> None:
        """Let what waits be written with the COMMIT, and with it the number of a worker's transaction."""
        self._gathered.send()
        self.save()
        self._connection.send(own_statements()["worker_mark"], {"worker": worker, "serial": serial})

    def save(self) -> None:
        """Let the changed rows be written with the next round trip."""
        rows = [self._rows[id] for id in sorted(self._unsaved)]
        gathered.send_rows(self._connection, "session_save", own_statements()["session_save"], rows)
        self._unsaved.clear()


def _list_values(row: SessionValues) -> list[Any]:
    return [row[column] for column in _COLUMNS]


# ---------------------------------------------------------------- what the statements do to a row


def _read(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    return [_list_values(row)]


def _next_entry(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    row["seq"] += 1
    row["rev"] += 1
    return [[row["seq"], row["rev"], row["chapter"]]]


def _next_rev(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    row["rev"] += 1
    return [[row["rev"]]]


def _begin(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    row.update(epoch=row["epoch"] + 1, turn=params["turn"], lease=params["lease"])
    return _next_rev(row, params)


def _idle(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    if row["turn"] is None or row["turn"] != params["turn"]:
        return []
    row.update(turn=None, lease=None)
    return _next_rev(row, params)


def _begin_again(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    row["lease"] = None
    return []


def _wake(row: SessionValues, params: Mapping[str, Any]) -> Rows:
    # `Tx` has checked that `session_wake` has both; `session_clear_wake` has neither.
    row.update(wake_at=params.get("due"), wake_since=params.get("since"))
    return []


_STEPS: dict[str, Callable[[SessionValues, Mapping[str, Any]], Rows]] = {
    "session_by_id": _read,
    "session_next_entry": _next_entry,
    "session_next_rev": _next_rev,
    "session_begin": _begin,
    "session_idle": _idle,
    "session_begin_again": _begin_again,
    "session_wake": _wake,
    "session_clear_wake": _wake,
}


def _list_looked_at(sql: bytes) -> frozenset[str]:
    """Return the columns of `_SAVED` that a statement may look at in rows of sessions.

    Where it gives each session a short name, these are the columns under that name; else all that it mentions.
    """
    aliases = [match[1] for match in _LOOKS_AT_SESSIONS.finditer(sql)]
    prefix = rb"\b(?:%s)\." % b"|".join(aliases) if all(aliases) else rb"\b"
    mentioned = {word.decode() for word in re.findall(prefix + rb"(\w+)", sql)} if aliases else set()
    return frozenset(mentioned.intersection(_SAVED))


LOOKING = {name: columns for name, statement in statements().items() if (columns := _list_looked_at(statement.sql))}
"""The statements that look at rows of sessions, with the columns of `_SAVED` that each may look at."""
CHANGING = frozenset(name for name, statement in statements().items() if _CHANGES_SESSIONS.search(statement.sql))


def _find_written(statement: Statement) -> str | None:
    """Return the parameter that names the session to which a statement writes; None if none does."""
    tables = set(_CHANGED_TABLE.findall(statement.sql))
    if "id" in statement.parameters and b"session" in tables:
        return "id"
    return "session" if "session" in statement.parameters and not tables.isdisjoint(_TABLES_OF_SESSIONS) else None


WRITING = {name: parameter for name, statement in statements().items() if (parameter := _find_written(statement))}
"""The statements that write to a session which a parameter names, with that parameter."""
