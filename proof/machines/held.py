"""A sanitizer for PostgreSQL: a change to a row of a session that the transaction does not hold is refused.

`semel.ledger.postgres.locks` says what each function locks. A feature that writes to another session and does not say
so works in every other test, and waits for itself once in a thousand evenings. Here triggers look at each row that is
written: the row of its session must have been locked, or made, by this transaction. They are for tests; the engine has
no code of its own in the database.
"""

from __future__ import annotations

_OWNERS = {
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

_FUNCTION = """
CREATE FUNCTION refuse_unheld_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  owner bigint;
  mine xid := pg_current_xact_id()::xid;
BEGIN
  IF TG_OP = 'DELETE' THEN owner := {old}; ELSE owner := {new}; END IF;
  IF {is_new} AND NOT EXISTS (SELECT 1 FROM session s WHERE s.id = owner AND (s.xmin = mine OR s.xmax = mine)) THEN
    RAISE EXCEPTION 'session % is not held, and a row of {table} is written', owner;
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_unheld BEFORE INSERT OR UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION refuse_unheld_{table}();
"""


def sanitizer_sql() -> str:
    """The statements that install the triggers."""
    return "".join(
        _FUNCTION.format(
            table=table,
            old=owner.format(row="OLD"),
            new=owner.format(row="NEW"),
            is_new="TG_OP <> 'INSERT'" if table == "session" else "true",
        )
        for table, owner in _OWNERS.items()
    )
