"""Check what the gateway stands on: directory, files, disk, clock, versions, address, backups and waiting reports."""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from semel import __version__
from semel.faces.health.finding import Finding, Level
from semel.gateway.disk_use import LOW_FREE_BYTES, MIN_FREE_BYTES, format_bytes
from semel.ledger.storage.migrations import list_migrations
from semel.text.json_types import Json
from semel.timing.walltime import format_utc

CLOCK_TOLERANCE_MS = 5_000
"""How far the clock may be behind the ledger: a time server that corrects it by less is no reason to worry."""
BACKUP_WARNING_AGE_MS = 7 * 86_400_000
"""Older than this, the last backup is worth a warning."""
MIN_DAYS_LEFT = 30
"""If the disk is full in fewer days at the present growth, people are warned."""


def examine_files(data_dir: Path, ledger: Path | None) -> list[Finding]:
    """Return the findings about owners and modes of the data directory, the owner's token and the ledger's file."""
    if not data_dir.exists():
        return [_examine_missing_dir(data_dir)]
    faults = list(_list_file_faults(data_dir, ledger))
    return faults or [Finding("files", "ok", f"{data_dir} and what is in it belong to this user alone")]


def _examine_missing_dir(data_dir: Path) -> Finding:
    """Return the finding about a data directory that the first `semel up` has to make."""
    parent = next(path for path in data_dir.parents if path.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("files", "ok", f"{data_dir} does not exist yet; the first `semel up` makes it")
    reason = f"{data_dir} cannot be made: {parent} is not a directory that this user can write"
    return Finding("files", "broken", reason, "name another data directory, or make it and give it to this user")


def _list_file_faults(data_dir: Path, ledger: Path | None) -> Iterator[Finding]:
    from semel.faces.run import OWNER_TOKEN_FILE  # only now: `semel status` needs neither this nor what it imports

    if not data_dir.is_dir():  # another program's file, whose mode is none of our business
        yield Finding("files", "broken", f"{data_dir} is not a directory", "move it away, or name another directory")
        return
    if not os.access(data_dir, os.W_OK | os.X_OK):
        yield Finding("files", "broken", f"{data_dir} cannot be written by this user", _advise_write(data_dir, "-R "))
    if _is_open(data_dir):
        yield Finding("files", "warning", f"{data_dir} is open to other users of this machine", f"chmod 700 {data_dir}")
    if _is_open(token := data_dir / OWNER_TOKEN_FILE):
        yield Finding("files", "broken", f"{token} can be read by others, and whoever reads it is the owner. "
                      "`semel up` refuses it", f"chmod 600 {token}")  # fmt: skip
    if ledger is None:
        return
    if _is_open(ledger):
        yield Finding("files", "warning", f"{ledger} is open to other users of this machine", f"chmod 600 {ledger}*")
    if ledger.exists() and not os.access(ledger, os.R_OK | os.W_OK):
        yield Finding("files", "broken", f"{ledger} cannot be written by this user", f"{_advise_write(ledger)}*")


def _advise_write(path: Path, flags: str = "") -> str:
    """Return the command after which this user can write the path: another owner, or only another mode."""
    owned = path.stat().st_uid == os.geteuid()
    return f"chmod {flags}u+rwX {path}" if owned else f"chown {flags}$USER {path}"


def _is_open(path: Path) -> bool:
    """Whether users other than the owner of a file may read, write or enter it. False if it does not exist."""
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:
        return False


def examine_disk(disk: Json) -> Finding:
    """Return the finding about the sizes of the ledger and its files, their growth, and the free space.

    `disk`: as in the answer of /v1/status.
    """
    free, growth = int(disk["free"]), disk.get("growth")  # an older gateway tells no growth
    text = (
        f"{format_bytes(free)} free; the ledger takes {format_bytes(disk['ledger'])}, stored files "
        f"{format_bytes(disk['files'])}, {_describe_growth(growth)}"
    )
    days_left = free / growth if growth is not None and growth > 0 else None
    level: Level = "ok"
    if days_left is not None and days_left < MIN_DAYS_LEFT:
        text, level = f"{text}: the disk is full in about {days_left:.0f} days", "warning"
    if free < LOW_FREE_BYTES:
        level = "broken" if free < MIN_FREE_BYTES else "warning"
    remedy = "free some space: a full disk takes no messages (nothing accepted is lost)"
    return Finding("disk", level, text, "" if level == "ok" else remedy)


def _describe_growth(growth: int | None) -> str:
    if growth is None:
        return "their growth is known after a day"
    return f"growing by {format_bytes(growth)} a day" if growth > 0 else "not growing"


def examine_clock(newest_ms: int, now_ms: int) -> Finding:
    """Return the finding about the clock. `newest_ms`: when something was last recorded in the ledger."""
    behind_s = (newest_ms - now_ms) / 1000
    if behind_s * 1000 > CLOCK_TOLERANCE_MS:
        remedy = "set the clock, for example with a time service: until then, timers and retries come late"
        return Finding("clock", "broken", f"it is {behind_s:,.0f} s behind the newest row of the ledger", remedy)
    return Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now_ms / 1000)))


def examine_versions(gateway_version: str | None) -> Finding:
    """Return the finding about versions. `gateway_version`: that of the running gateway; None if none runs."""
    schema = list_migrations()[-1].version
    text = (
        f"Semel {__version__}, Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
        f"ledger schema {schema}"
    )
    if gateway_version not in (None, __version__):
        return Finding("versions", "warning", f"{text}; the running gateway is Semel {gateway_version}", "restart it")
    return Finding("versions", "ok", text)


async def examine_address(host: str, port: int) -> Finding:
    """Return the finding about the address on which a gateway would listen. Call this only if no gateway runs."""
    from semel.faces.http.server import CannotListen, bind

    place = f"{f'[{host}]' if ':' in host else host}:{port}"
    try:
        for sock in await bind(host, port):
            sock.close()
    except CannotListen as error:
        return Finding("address", "broken", str(error))
    return Finding("address", "ok", f"{place} is free; no gateway is running" if port else "no gateway is running")


def examine_backup(last: Json | None, restore: Json | None, ledger_began_ms: int, now_ms: int) -> Finding:
    """Return the finding about the last backup. A young ledger may have none. `last`, `restore`: as in /v1/status."""
    if restore is not None and (last is None or last["at"] < restore["restored"]):
        is_old = now_ms - restore["restored"] > BACKUP_WARNING_AGE_MS
        state = f"restored {_format_age(now_ms - restore['restored'])} ago from {restore['folder']}"
        text = f"{state}, as it was on {format_utc(restore['at'])}; none was made since"
        return Finding("backup", "warning" if is_old else "ok", text, "make one: semel backup")
    if last is None:
        is_old = now_ms - ledger_began_ms > BACKUP_WARNING_AGE_MS
        return Finding("backup", "warning" if is_old else "ok", "none was made yet", "make one: semel backup")
    text = f"{_format_age(now_ms - last['at'])} ago, in {last['folder']}"
    if not Path(last["folder"]).exists():
        return Finding("backup", "warning", f"{text}, which is not there now", "make another one: semel backup")
    if now_ms - last["at"] > BACKUP_WARNING_AGE_MS:
        return Finding("backup", "warning", text, "make a new one: semel backup")
    return Finding("backup", "ok", text)


def examine_reports(data_dir: Path) -> list[Finding]:
    """Return the finding about reports of `semel exec` on this machine that nobody sends; none if there are none."""
    from semel.tools.exec.inventory import list_runs
    from semel.tools.exec.spool import EXEC_FOLDER, list_spools

    try:
        if not (data_dir / EXEC_FOLDER).exists():
            return []
        left = [run for run in list_runs(list_spools(data_dir, EXEC_FOLDER)) if run.is_left]
    except OSError as error:
        reason = f"{data_dir / EXEC_FOLDER} cannot be read: {error.strerror or error}"
        return [Finding("reports", "warning", reason, "correct it, then run: semel exec --list")]
    if not left:
        return []
    targets = ", ".join(dict.fromkeys(run.to if "://" in run.to else f"the gateway of {run.to}" for run in left))
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime((left[0].ended or left[0].at) / 1000))
    runs = "1 run of semel exec waits" if len(left) == 1 else f"{len(left)} runs of semel exec wait"
    text = f"{runs} to be reported to {targets}, since {since}"
    return [Finding("reports", "warning", text, "send, redirect or drop them: semel exec --list")]


def _format_age(ms: int) -> str:
    minutes = max(0, ms) // 60_000
    for length, noun in ((1440, "day"), (60, "hour")):
        if minutes >= length:
            number = minutes // length
            return f"{number} {noun}{'' if number == 1 else 's'}"
    return f"{minutes} minute{'' if minutes == 1 else 's'}" if minutes else "less than a minute"
