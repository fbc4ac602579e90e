"""The ends of a copy of a ledger where one is a PostgreSQL database (`semel.ledger.copy_ledger`).

Rows go in and out by COPY, in PostgreSQL's binary format. From the beginning to the end, the target has the table
`unfinished_copy`; while it does, no gateway starts there. All rows are written in one transaction.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import psycopg

from semel.ledger.file_pieces import count_pieces
from semel.ledger.postgres.errors import DatabaseHasLedger, DatabaseOfAnother
from semel.ledger.postgres.holder import Holder
from semel.ledger.postgres.migrate import UNFINISHED_TABLE, create_tables, list_table_names, refuse_other_version
from semel.ledger.postgres.moved import read_moved_to, write_note
from semel.ledger.postgres.server import refuse_pooler, refuse_unfit_server
from semel.ledger.postgres.store import connecting
from semel.ledger.postgres.tx import PostgresTx
from semel.ledger.postgres.wire import JSON_COLUMNS, Connection, ConnectionLost, ServerError, replace_nul
from semel.ledger.sqlite.tables import list_tables
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.transfer import CopySource, CopyTarget, LedgerReader, RowValues, Table

T = TypeVar("T")

_TYPES = {"INTEGER": "int8", "TEXT": "text", "BLOB": "bytea", "REAL": "float8"}
_NO_TIMEOUTS = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c jit=off"
_TABLE_LIST = ", ".join(f'"{table.name}"' for table in list_tables())
_OTHER_TABLES = "blob_piece, schema_version, mark, worker"
_INDEXES = """SELECT format('DROP INDEX %s', i.indexrelid::regclass), pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY i.indexrelid"""
_REFERENCES = """SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
  format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY oid"""
_DOMAINS = """SELECT DISTINCT format('DROP DOMAIN %I', domain_name) FROM information_schema.columns
WHERE table_schema = current_schema() AND domain_name IS NOT NULL"""
_SEQUENCES = """SELECT table_name::text, format(
  'SELECT setval(pg_get_serial_sequence(%L, ''id''), (SELECT max(id) FROM %I))', table_name, table_name)
FROM information_schema.columns
WHERE table_schema = current_schema() AND is_identity = 'YES' AND column_name = 'id' ORDER BY table_name"""


class _DatabaseReader(LedgerReader):
    """Reads on a connection of its own, while the database is held as by a gateway."""

    failures = (psycopg.Error, ServerError, ConnectionLost)

    def __init__(self, url: str, clock: Callable[[], int]) -> None:
        self._url = url
        self._name = str(DatabaseUrl(url))
        self._clock = clock
        with connecting(url) as connection, contextlib.ExitStack() as opened:
            refuse_pooler(connection, url, self._name)
            self._holder = Holder(url, self._name)
            opened.callback(self._holder.release)
            try:
                db = psycopg.connect(url, options=_NO_TIMEOUTS, client_encoding="UTF8", application_name="semel")
            except psycopg.Error as error:
                raise ConnectionLost(str(error)) from error
            self._db = opened.enter_context(contextlib.closing(db))
            self._check_database(connection)
            self._opened = opened.pop_all()

    def _check_database(self, connection: Connection) -> None:
        """Raise LedgerError if the database cannot be this end of a copy."""
        raise NotImplementedError

    def count_rows(self, table: Table) -> int:
        ((count,),) = self._db.execute(f'SELECT count(*) FROM "{table.name}"'.encode())
        return int(count)

    def read_rows(self, table: Table) -> Iterator[RowValues]:
        select = f'SELECT {table.column_list} FROM "{table.name}" ORDER BY {table.key_list}'
        copying = self._db.cursor().copy(f"COPY ({select}) TO STDOUT (FORMAT BINARY)".encode())
        with copying as copy:
            copy.set_types([_TYPES[kind] for kind in table.types])
            yield from copy.rows()

    def has_file(self, id: str, size: int) -> bool:
        last = count_pieces(size) - 1
        found = self._db.execute("SELECT 1 FROM blob_piece WHERE blob = %s AND n = %s", (id, last))
        return found.fetchone() is not None

    def read_file(self, id: str) -> Iterator[bytes]:
        query = "SELECT data FROM blob_piece WHERE blob = %s AND n = %s"
        for n in itertools.count():
            row = self._db.execute(query, (id, n), binary=True).fetchone()
            if row is None:
                return
            yield row[0]

    def run(self, fn: Callable[[Tx], T]) -> T:
        with contextlib.closing(Connection(self._url)) as connection:
            connection.queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return fn(PostgresTx(connection, self._clock()))

    def close(self) -> None:
        self._opened.close()


class PostgresSource(_DatabaseReader, CopySource):
    """A ledger in a database, held as by a gateway; one that was cut off before cannot write any more."""

    def _check_database(self, connection: Connection) -> None:
        refuse_other_version(connection, self._name)
        self._holder.take_over()
        self.moved_to = read_moved_to(connection)
        self._db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def mark_moved(self, target: str) -> None:
        # On the connection that has held the database all the time: if it was lost, another gateway may have written.
        self._holder.run(write_note(target))


class PostgresTarget(_DatabaseReader, CopyTarget):
    """A database that becomes a ledger. Raises DatabaseHasLedger or DatabaseOfAnother if it is not empty."""

    holds_files = True

    def _check_database(self, connection: Connection) -> None:
        refuse_unfit_server(connection, self._name)
        self.replaced = 0
        tables = list_table_names(connection)
        self.is_unfinished = UNFINISHED_TABLE in tables
        if "ledger" in tables and not self.is_unfinished:
            raise DatabaseHasLedger(path=self._name)
        if tables and not self.is_unfinished:
            raise DatabaseOfAnother(path=self._name, why=", ".join(tables[:3]))

    def begin(self, source: str) -> None:
        with connecting(self._url) as connection:
            connection.queue("BEGIN")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {UNFINISHED_TABLE}(source text)")
            domains = connection.execute(_DOMAINS)
            connection.execute(f"DROP TABLE IF EXISTS {_TABLE_LIST}, {_OTHER_TABLES} CASCADE")
            for (drop,) in domains:
                connection.execute(drop)
            connection.end("COMMIT")
            create_tables(connection, self._name, self._clock())
        self._references = self._execute(_REFERENCES)
        self._indexes = self._execute(_INDEXES)
        for drop, _ in (*self._references, *self._indexes):  # made from all rows at the end
            self._db.execute(drop)
        self._db.execute(f"TRUNCATE {_TABLE_LIST}".encode())

    def adapt_rows(self, table: Table, rows: Iterable[RowValues]) -> Iterator[RowValues]:
        texts = [
            (n, column in JSON_COLUMNS)
            for n, (column, kind) in enumerate(zip(table.columns, table.types, strict=True))
            if kind == "TEXT"
        ]
        for row in rows:
            for n, is_json in texts:
                value = row[n]
                if isinstance(value, str) and ("\0" in value or (is_json and "\\u0000" in value)):
                    row = (*row[:n], self._replace_nul(value, is_json), *row[n + 1 :])
            yield row

    def _replace_nul(self, text: str, is_json: bool) -> str:
        """Replace U+0000 as the gateway does in what comes from outside (`semel.text.wellformed.scrub`)."""
        replaced = replace_nul(text, is_json=is_json)
        self.replaced += replaced != text
        return replaced

    def write_rows(self, table: Table, rows: Iterable[RowValues]) -> None:
        query = f'COPY "{table.name}"({table.column_list}) FROM STDIN (FORMAT BINARY, FREEZE)'
        with self._db.cursor() as cursor, cursor.copy(query.encode()) as copy:
            copy.set_types([_TYPES[kind] for kind in table.types])
            write = copy.write_row
            for row in rows:
                write(row)

    def complete(self) -> None:
        for _, build in (*self._indexes, *self._references):
            self._db.execute(build)
        for _, continue_ids in self._execute(_SEQUENCES):
            self._db.execute(continue_ids)
        self._db.execute(f"ANALYZE {_TABLE_LIST}".encode())
        self._db.commit()

    def write_file(self, id: str, pieces: Iterable[bytes]) -> None:
        with self._db.transaction():
            for n, piece in enumerate(pieces):
                self._db.execute("INSERT INTO blob_piece(blob, n, data) VALUES(%s, %s, %b)", (id, n, piece))
        self._db.commit()

    def finish(self) -> None:
        self._holder.run(f"DROP TABLE {UNFINISHED_TABLE}")

    def _execute(self, query: str) -> list[tuple[bytes, bytes]]:
        """Return pairs of a statement that undoes something, and one that does it."""
        return [(str(undo).encode(), str(do).encode()) for undo, do in self._db.execute(query.encode()).fetchall()]
