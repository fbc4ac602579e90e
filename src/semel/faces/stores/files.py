"""Read the files and SQLite databases of another program: read-only, and with errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from semel.faces.stores.records import BadStore, StoreReport
from semel.text.json_types import Json

BUSY_TIMEOUT_S = 5.0
MAX_SMALL_FILE_BYTES = 64 << 20
_QUOTED = re.compile(r"""(["'])(.*?)\1""")


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an SQLite database that another program may be using, for reading. Raises BadStore.

    All that is read in the `with` is the state of one moment.
    """
    try:
        check_regular(path)
        file = path.resolve()  # the log lies beside the file, not beside a link to it
        uri = f"{file.as_uri()}?{'immutable=1' if _is_idle_wal(file) else 'mode=ro'}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise BadStore(f"{path} cannot be opened: {error}") from None
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection
    except sqlite3.DatabaseError as error:
        raise BadStore(describe_database_error(path, error)) from None
    finally:
        connection.close()


def _is_idle_wal(path: Path) -> bool:
    """Return whether a database has a write-ahead log, which is empty now.

    Such a database is opened without locks, because SQLite would create files beside it.
    """
    wal = path.with_name(f"{path.name}-wal")
    with path.open("rb") as file:
        has_wal = file.read(20)[18:20] == b"\2\2"  # https://www.sqlite.org/fileformat.html, read and write version
    return has_wal and not (wal.exists() and wal.stat().st_size)


def describe_database_error(path: Path, error: sqlite3.Error) -> str:
    """Return a sentence about an error of a database, which says what to do."""
    if "locked" in str(error) or "busy" in str(error):
        return f"{path} is locked by another program; stop that program, and import again"
    return f"{path} cannot be read ({error}); if it is damaged, import from a backup of it"


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none if there is no such table."""
    return {row["name"] for row in connection.execute(f'PRAGMA table_info("{table}")')}


def require_version(system: str, path: Path, version: int, lowest: int, highest: int, advice: str) -> None:
    """Raise BadStore if the version of a store's format is not one that Semel knows. `advice`: for an old one."""
    if version > highest:
        raise BadStore(
            f"{path} has version {version} of {system}'s format; this Semel knows up to {highest}. Import it with a "
            "newer Semel"
        )
    if version < lowest:
        raise BadStore(f"{path} has version {version} of {system}'s format, which is too old to be read. {advice}")


def check_regular(path: Path) -> None:
    """Raise OSError if there is something other than a file: a pipe or a device would be read without end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")


def read_text_file(path: Path) -> str:
    """Return the content of a text file; bytes that are no UTF-8 are replaced. Raises OSError."""
    check_regular(path)
    return path.read_text(encoding="utf-8-sig", errors="replace")


def read_json_file(path: Path, report: StoreReport, parse: Callable[[str], Any] = json.loads) -> Any:
    """Return the content of a JSON file. If it cannot be read, name it in the report and return None.

    `parse`: reads another form of JSON. Raises ValueError or RecursionError.
    """
    try:
        if path.stat().st_size > MAX_SMALL_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_SMALL_FILE_BYTES:,} bytes")
        return parse(read_text_file(path))
    except OSError as error:
        report.name_unread(str(path), error.strerror or str(error))
    except (ValueError, RecursionError) as error:
        report.name_unread(str(path), f"it is no JSON: {error}")
    return None


def parse_object(text: str | bytes | None) -> Json:
    """Return a JSON object; {} if the text is none."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_time(value: Any) -> int | None:
    """Return a time in ms since 1970: from ISO 8601 (UTC if it has no zone), seconds or ms. None if it is no time."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return int(value) if value > 1e11 else int(value * 1000)
        moment = datetime.fromisoformat(str(value).strip().replace("Z", "+00:00"))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def format_moment(at: int) -> str:
    """Return a time (ms) as a schedule's `at`."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_interval(seconds: int) -> str:
    """Return an interval as a schedule's `every`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def read_environment_file(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the assignments of a .env file: (name, value)."""
    try:
        lines = read_text_file(path).splitlines()
    except OSError:
        return
    for line in lines:
        name, is_assignment, value = line.strip().removeprefix("export ").partition("=")
        if is_assignment and not name.startswith("#"):
            quoted = _QUOTED.match(value.strip())
            yield name.strip(), quoted[2] if quoted else re.split(r"\s#", value)[0].strip()


def local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it has none."""
    name = os.environ.get("TZ") or ""
    if not name:
        with contextlib.suppress(OSError):
            name = str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2]
    return name.lstrip(":") or "UTC"
