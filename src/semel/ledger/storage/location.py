"""Where a ledger is: in a SQLite file, or in a PostgreSQL database.

Every command imports this module, so it imports little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

DATABASE_SCHEMES = ("postgresql", "postgres")


@dataclass(frozen=True)
class DatabaseUrl:
    """The connection URI of the PostgreSQL database that holds a ledger (PostgreSQL documentation, "Connection URIs").

    As a text, it is a name for people, which has no password.
    """

    uri: str = field(repr=False)

    @property
    def database(self) -> str:
        return urlsplit(self.uri).path.strip("/")

    def __str__(self) -> str:
        parts = urlsplit(self.uri)
        host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
        return f"postgresql://{host}/{self.database}"


LedgerLocation = Path | DatabaseUrl
"""Where a ledger is: its SQLite file, or its PostgreSQL database."""


def is_database_uri(text: str) -> bool:
    """Whether a text is a connection URI of PostgreSQL."""
    try:
        return urlsplit(text).scheme in DATABASE_SCHEMES and "://" in text
    except ValueError:
        return False


def name_database(location: LedgerLocation) -> str | None:
    """Return the name of the ledger's database, without a password; None if the ledger is in a file."""
    return str(location) if isinstance(location, DatabaseUrl) else None


def may_exist(location: LedgerLocation) -> bool:
    """Whether there is a ledger. True for a database: only the server can tell."""
    return isinstance(location, DatabaseUrl) or location.exists()
