"""A sanitizer for PostgreSQL: a change to a row of a session that the transaction does not hold is refused.

`semel.ledger.postgres.locks` says what each function locks. A feature that writes to another session and does not say
so works in every other test, and goes wrong once in a thousand evenings. Here triggers look at each row that is
written: the row of its session must have been locked before anything else, or made, by this transaction. They are for
tests; the engine has no code of its own in the database.

The engine itself refuses most of these writes, and runs the transaction again with wider locks. That is for what other
transactions commit meanwhile; where there are none, it is an error, too (`refuse_wider_locks`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.ledger.postgres.wire import Connection

OWNERS = {
    "session": "{row}.id",
    **dict.fromkeys(
        (
            "hearing",
            "command",
            "turn",
            "spawn",
            "entry",
            "item",
            "piece",
            "claim",
            "job",
            "holding",
            "erasure",
            "limited",
        ),
        "{row}.session",
    ),
    "part": "(SELECT c.session FROM claim c WHERE c.id = {row}.claim)",
    "output": "(SELECT i.session FROM item i WHERE i.id = {row}.item)",
    "job_call": "(SELECT j.session FROM job j WHERE j.id = {row}.job)",
}
"""How the session of a row is found, for each table whose rows belong to one."""

_CHECKED = {
    "session": "TG_OP <> 'INSERT'",
    "part": "(TG_OP <> 'UPDATE' OR to_jsonb(NEW) - 'due' <> to_jsonb(OLD) - 'due')",
}
"""Which changes are checked. When a part is due is a matter of its destination's line, which sessions may share."""

_FUNCTION = """
CREATE FUNCTION refuse_unheld_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  owner bigint;
BEGIN
  IF TG_OP = 'DELETE' THEN owner := {old}; ELSE owner := {new}; END IF;
  IF {is_checked} AND NOT owner = ANY (string_to_array(coalesce(current_setting('test.held', true), ''), ',')::bigint[])
      AND NOT EXISTS (SELECT 1 FROM session s WHERE s.id = owner AND s.xmin = pg_current_xact_id()::xid) THEN
    RAISE EXCEPTION 'session % is not held, and a row of {table} is written', owner;
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_unheld BEFORE INSERT OR UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION refuse_unheld_{table}();
"""

_NOTE_HELD = """SELECT set_config('test.held', coalesce(string_agg(CAST(s.id AS text), ','), ''), true) FROM session s
WHERE s.xmax = CAST(pg_current_xact_id() AS xid)"""
"""A row that is locked names the transaction that holds it."""


def note_what_is_held() -> None:
    """Let each transaction of this process note, behind its locks, which sessions it holds."""
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.statements import Statement

    take, note = locks.take, Statement("note_held", _NOTE_HELD)

    def take_and_note(connection: Connection, wanted: locks.Locks, now: int) -> Callable[[], locks.Taken]:
        taken = take(connection, wanted, now)
        connection.send(note, {})
        return taken

    locks.take = take_and_note


def refuse_wider_locks() -> None:
    """Let a transaction fail where it would run again with wider locks: alone, it can name all that it writes to."""
    from semel.ledger.postgres import locks
    from semel.ledger.postgres.wire import ServerError

    @wraps(locks.widen)
    def refuse(wanted: locks.Locks, sessions: Collection[int]) -> locks.Locks:
        raise ServerError("P0001", f"session {min(sessions)} is not held: LOCKS does not name it")

    locks.widen = refuse


def sanitizer_sql() -> str:
    """The statements that install the triggers."""
    return "".join(
        _FUNCTION.format(
            table=table,
            old=owner.format(row="OLD"),
            new=owner.format(row="NEW"),
            is_checked=_CHECKED.get(table, "true"),
        )
        for table, owner in OWNERS.items()
    )
