"""Check the PostgreSQL server that holds the ledger."""

from __future__ import annotations

from pathlib import Path

from semel.faces.health.finding import Finding
from semel.installation import find_install_command
from semel.ledger import file_pieces
from semel.ledger.engines import lacks_engine
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.store import LedgerStore

MAX_TRANSACTION_S = 600
"""An older open transaction keeps the server from removing dead rows, of which every turn leaves some."""
TIMEOUT_EFFECTS = {
    "statement_timeout": "a commit that is given up while it waits for a standby may be lost",
    "lock_timeout": "a message is refused that only waits for another one",
    "idle_session_timeout": "the connection that holds the database for the gateway is ended",
    "transaction_timeout": "an upgrade of a large ledger, or a copy, is given up",
}
"""Timeout of the server -> what it does to a gateway."""
MIN_FREE_CONNECTIONS = 10
MAX_QUEUE_PERCENT = 25  # of the queue through which gateways tell each other of commits; full, it refuses these hints


def examine_database(ledger: DatabaseUrl) -> list[Finding]:
    """Connect, and return the findings about the server: its version and durability, standbys, connections. Blocks."""
    if lacks_engine(ledger):
        return [Finding("database", "broken", f"{ledger} needs psycopg", find_install_command("postgres"))]
    from semel.ledger.postgres.server import read_facts
    from semel.ledger.postgres.store import connecting

    try:
        with connecting(ledger.uri) as connection:
            facts = read_facts(connection, ledger.uri, str(ledger))
    except LedgerError as error:
        return [Finding("database", "broken", str(error))]
    standbys = f"{facts.standbys} standby{'' if facts.standbys == 1 else 's'}, {facts.confirming} of them synchronous"
    text = f"PostgreSQL {facts.version} at {ledger}, durable; {standbys if facts.standbys else 'no standby'}"
    findings = [Finding("database", "ok", text)]
    if not facts.has_settings:
        text = "the server does not get the settings of Semel's connections, so they may be slow: a pooler drops them"
        findings.append(Finding("database", "warning", text, "name the server itself in url, not the pooler"))
    for name, value in facts.timeouts.items():
        text = f"{name} = {value} holds for Semel's connections: {TIMEOUT_EFFECTS[name]}"
        findings.append(Finding("database", "warning", text, f"as an administrator: ALTER ROLE user SET {name} = 0"))
    if facts.standbys and not facts.confirming:
        remedy = "set synchronous_standby_names; after a failover to an asynchronous standby, run: semel restore --here"
        findings.append(Finding("database", "warning", "no standby confirms what is accepted", remedy))
    if facts.oldest_s > MAX_TRANSACTION_S:
        text = f"a transaction has been open for {facts.oldest_s:,} s: dead rows are kept as long"
        findings.append(Finding("database", "warning", text, "end it: see pg_stat_activity"))
    if facts.most - facts.connections < MIN_FREE_CONNECTIONS:
        text = f"{facts.connections} of {facts.most} connections are in use"
        findings.append(Finding("database", "warning", text, "raise max_connections, or end programs that hold some"))
    if facts.queue_percent > MAX_QUEUE_PERCENT:
        text = f"the server's queue of notifications is {facts.queue_percent}% full: some program does not read them"
        findings.append(Finding("database", "warning", text, "end it: see pg_stat_activity for an old transaction"))
    return findings


def examine_content(store: LedgerStore, folder: Path) -> list[Finding]:
    """Return the findings about files of messages whose content is not in the database. Blocks. Raises LedgerError.

    `folder`: of stored files, where an earlier Semel put them.
    """
    lacking: list[str] = []
    while ids := store.read_sync(file_pieces.list_lacking, lacking[-1] if lacking else ""):
        lacking += ids
    here = sum((folder / id).is_file() for id in lacking)
    findings = []
    if here:
        text = f"files of messages are in {folder}, not in the database: {here}"
        remedy = "start the gateway with this data directory: it moves them"
        findings.append(Finding("database", "warning", text, remedy))
    if here < len(lacking):
        text = f"files of messages are neither in the database nor in {folder}: {len(lacking) - here}"
        remedy = "start the gateway once on the machine and with the data directory that have them"
        findings.append(Finding("database", "broken", text, remedy))
    return findings
