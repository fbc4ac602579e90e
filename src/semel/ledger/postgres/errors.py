"""Map errors of PostgreSQL to the ledger's errors.

The docstring of each class is the message that users see. It includes the next step to take.
"""

from __future__ import annotations

from semel.ledger.postgres.wire import ConnectionLost, ServerError
from semel.ledger.storage.errors import (
    CopyTargetInUse,
    LedgerBusy,
    LedgerError,
    LedgerFailed,
    LedgerFull,
    LedgerMissing,
    LedgerOlder,
    LedgerReadOnly,
    LedgerUnreachable,
)

RETRIED_STATES = frozenset({"40001", "40P01", "23505"})
"""Serialization failure, deadlock, and a unique key that another transaction took at the same time."""
FORBIDDEN_STATES = frozenset({"42501", "3F000"})
"""A right is missing; no schema in which tables could be made (also if the user may not use the one that is there)."""


class DatabaseNotOpened(LedgerUnreachable):
    """The database {path} cannot be opened ({why}). Check that PostgreSQL runs, and that url in [ledger] is right.
    A password belongs in ~/.pgpass or $PGPASSWORD."""


class DatabasePooled(LedgerError):
    """The database {path} is reached through a pooler, such as PgBouncer ({why}). Semel's locks and prepared statements
    belong to a connection, so it has to keep its process of the server: name the server itself in url, not the
    pooler."""


class DatabaseEmpty(LedgerMissing):
    """There is no ledger in the database {path}. It is made by the first 'semel up'; check url in [ledger] if it should
    exist."""


class DatabaseOlder(LedgerOlder):
    """The ledger {path} has version {found}; this Semel reads version {known}.
    Start the gateway once ('semel up'), or restart it if it runs: that upgrades the ledger. Back the database up before
    that."""


class DatabaseUnreachable(LedgerUnreachable, LedgerFailed):
    """The database {path} does not answer ({why}). Nothing was accepted by this; it may be tried again.
    Check that PostgreSQL runs, and that url in [ledger] is right."""

    def format_without_path(self) -> str:
        return "The database does not answer. Check that PostgreSQL runs, and that url in [ledger] is right."


class DatabaseFailed(LedgerFailed):
    """The database {path} refused a statement ({why}). This write was not accepted and may be tried again.
    See PostgreSQL's log."""


class DatabaseFull(LedgerFull):
    """There is no space left for the database {path} ({why}). This write was not accepted; nothing that was accepted
    is lost. Free some space on the database's disk: writing goes on by itself."""


class DatabaseBusy(LedgerBusy):
    """Other transactions on the database {path} got in the way {attempts} times ({why}). This write was not accepted.
    Close programs that hold locks on its tables."""


class DatabaseReadOnly(LedgerReadOnly):
    """The database {path} cannot be written ({why}). Check that it is the primary and that its user may write."""


class ServerTooOld(LedgerError):
    """The database {path} runs on PostgreSQL {found}; Semel needs version {needed} or newer."""


class DatabaseNotUnicode(LedgerError):
    """The database {path} has the encoding {found}, which cannot hold every message. Nothing was changed.
    Make a database with UTF8 and name it in url: createdb --encoding UTF8 --template template0 NAME"""


class DatabaseForbidden(LedgerError):
    """The user of the database {path} may not do what Semel needs there ({why}). It has to own the ledger's tables,
    and it needs CREATE on their schema. To begin a ledger, run as the database's owner:
    GRANT CREATE, USAGE ON SCHEMA public TO USER"""


class DatabaseIsStandby(LedgerError):
    """The database {path} is a standby, which may lag behind what was accepted. Connect to the primary:
    name all servers in url and add target_session_attrs=read-write."""


class DatabaseNotDurable(LedgerError):
    """The database {path} has {setting} = {found}: what it has accepted could be lost in a power failure.
    Set it to {needed} in postgresql.conf, and reload PostgreSQL."""


class DatabaseOfAnother(LedgerError):
    """The database {path} is not a Semel ledger: it holds other tables ({why}). Nothing was changed.
    Make a database for Semel alone (CREATE DATABASE semel) and name it in url."""


class DatabaseUnfinished(LedgerError):
    """The copy of a ledger into the database {path} is not finished. If none runs, run the same 'semel ledger copy'
    command again. To give the copy up, drop the database."""


class DatabaseHasLedger(CopyTargetInUse):
    """The database {path} holds a ledger already; nothing was changed. Make an empty database for the copy
    (CREATE DATABASE)."""


class DatabaseInUse(LedgerError):
    """The ledger in the database {path} belongs to a running gateway ({holder}). One ledger has one gateway:
    use that one, stop it first, or give this one a database of its own. Gateways that have a name in [cluster] share
    one."""


class ClusterRefused(LedgerUnreachable):
    """This gateway has no place among those of the database {path} ({why})."""


class DatabaseTakenOver(LedgerFailed):
    """Another gateway has taken over the ledger in the database {path}. This write was not accepted; but if the
    connection was lost during its commit, only the other gateway can tell. Stop this gateway."""


def explain_not_opened(error: ConnectionLost, path: str) -> LedgerError:
    """Return the LedgerError to raise because no connection could be made."""
    if "unsupported startup parameter" in str(error):  # PgBouncer, unless it was told to ignore `options`
        return DatabasePooled(path=path, why=error)
    return DatabaseNotOpened(path=path, why=error)


_CLASSES: dict[str, type[LedgerError]] = {"53100": DatabaseFull, "25006": DatabaseReadOnly}
_CLASSES |= dict.fromkeys(FORBIDDEN_STATES, DatabaseForbidden)


def to_ledger_error(error: BaseException, path: str) -> BaseException:
    """Return the LedgerError to raise for `error`. Return `error` itself if neither server nor network caused it."""
    if isinstance(error, ConnectionLost):
        ledger_error: LedgerError = DatabaseUnreachable(path=path, why=error)
    elif isinstance(error, ServerError) and (
        error.state in FORBIDDEN_STATES or not error.state.startswith(("22", "23", "42"))
    ):
        ledger_error = _CLASSES.get(error.state, DatabaseFailed)(path=path, why=error)
    else:
        return error
    ledger_error.__cause__ = error
    return ledger_error
