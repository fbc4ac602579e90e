"""Choose the engine of a ledger by where the ledger is: SQLite for a file, PostgreSQL for a database.

Only the engine that is needed is imported: a ledger in a file needs nothing of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

from semel.ledger.storage.cluster import ClusterGateway, ClusterHints, ClusterMember, GatewayIdentity
from semel.ledger.storage.errors import EngineMissing, LedgerOlder
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation
from semel.ledger.storage.migrations import Upgrade
from semel.ledger.storage.store import LedgerSize, LedgerStore, note_restored


def lacks_engine(location: LedgerLocation) -> bool:
    """Whether the library is missing that the ledger's engine needs (the extra `postgres`)."""
    return isinstance(location, DatabaseUrl) and find_spec("psycopg") is None


def join_cluster(location: DatabaseUrl, identity: GatewayIdentity) -> ClusterMember:
    """Return a gateway's place among those that share a database. Raises LedgerError."""
    require_engine(location)
    from semel.ledger.postgres.members import Member

    return Member(location.uri, identity)


def open_hints(location: DatabaseUrl, name: str, has_duties: Callable[[], bool]) -> ClusterHints:
    """Return the hints between the gateways of a database. `name`: of this one. `has_duties`: whether it is active."""
    require_engine(location)
    from semel.ledger.postgres.hints import PostgresHints

    return PostgresHints(location.uri, name, has_duties)


def list_gateways(location: LedgerLocation) -> list[ClusterGateway]:
    """Return the living gateways of a ledger that several may share; [] for others. This blocks. Raises LedgerError."""
    if not isinstance(location, DatabaseUrl):
        return []
    require_engine(location)
    from semel.ledger.postgres.member_rows import list_gateways as list_of_database

    return list_of_database(location.uri)


def open_ledger(
    location: LedgerLocation,
    announce: Callable[[Upgrade], object] | None = None,
    member: ClusterMember | None = None,
) -> LedgerStore:
    """Create or migrate a ledger and open it for a gateway, which is the only one. This blocks.

    `announce` is called before an older ledger is migrated. `member`: the gateway's place in a cluster; if it has not
    taken over, the ledger is opened beside the active one. Raises LedgerError.
    """
    if isinstance(location, DatabaseUrl):
        require_engine(location)
        from semel.ledger.postgres.members import Member
        from semel.ledger.postgres.store import PostgresStore

        assert member is None or isinstance(member, Member)
        return PostgresStore.open(location.uri, announce=announce, member=member)
    from semel.ledger.sqlite.store import Store

    return Store.open(location, marked=True, announce=announce)


def open_readonly(location: LedgerLocation) -> LedgerStore:
    """Open a ledger for reading, whether or not a gateway runs. This changes nothing. Raises LedgerError."""
    if isinstance(location, DatabaseUrl):
        require_engine(location)
        from semel.ledger.postgres.store import PostgresStore

        return PostgresStore.open_readonly(location.uri)
    from semel.ledger.sqlite.store import Store

    return Store.open(location, readonly=True)


def find_copy(location: LedgerLocation) -> str | None:
    """Return the copy that has taken the place of a ledger (`semel.ledger.copy_ledger`); None if none has.

    Raises LedgerError.
    """
    if isinstance(location, DatabaseUrl):
        require_engine(location)
        from semel.ledger.postgres.moved import read_moved_to as read_in_database
        from semel.ledger.postgres.store import connecting

        with connecting(location.uri) as connection:
            return read_in_database(connection)
    from semel.ledger.sqlite.open_ledger import read_moved_to

    return read_moved_to(location)


def is_older_copy(location: LedgerLocation) -> bool:
    """Return whether a ledger is an older copy that somebody put in its place, as the next start will find, too.

    A database cannot tell. Raises LedgerError.
    """
    if isinstance(location, DatabaseUrl):
        return False
    from semel.ledger.sqlite.mark_file import is_older_copy as is_older_file
    from semel.ledger.sqlite.mark_file import read_mark
    from semel.ledger.sqlite.open_ledger import read_own_mark

    file_mark = read_mark(location)
    with open_readonly(location) as store:
        return is_older_file(store.read_sync(read_own_mark), file_mark)


def find_holder(location: LedgerLocation) -> int | None:
    """Return the pid of the process that holds a ledger's file, such as a gateway that starts.

    None if no process does, or if it cannot be told, as for a database.
    """
    if isinstance(location, DatabaseUrl):
        return None
    from semel.ledger.sqlite.open_ledger import find_holder as find_in_file

    return find_in_file(location)


def treat_database_as_restored(location: DatabaseUrl) -> None:
    """Mark a ledger as restored, for an operator who put an older state of its database in its place (Law 14).

    At its next start, the gateway settles the ledger. If it was marked as moved, it is taken back. No gateway may run.
    Raises LedgerError.
    """
    with suppress(LedgerOlder):
        open_readonly(location).close()  # an empty database is no ledger, and stays empty
    from semel.ledger.postgres.moved import forget_move
    from semel.ledger.postgres.store import PostgresStore, connecting

    with PostgresStore.open(location.uri, take_back=True) as store:
        store.write_sync(note_restored)
        with connecting(location.uri) as connection:
            forget_move(connection)


def measure_ledger(location: LedgerLocation) -> LedgerSize:
    """Return the size of a ledger; 0 if there is none, or if its database does not answer. This blocks."""
    if isinstance(location, DatabaseUrl):
        if lacks_engine(location):
            return LedgerSize()
        from semel.ledger.postgres.server import measure_database

        return measure_database(location.uri)
    from semel.ledger.sqlite.connect import measure_files

    return LedgerSize(measure_files(location))


def require_engine(location: DatabaseUrl) -> None:
    """Raise EngineMissing if the library is missing that the database needs."""
    if lacks_engine(location):
        raise EngineMissing(path=location)
