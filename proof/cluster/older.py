"""The code of earlier commits, for gateways of two versions on one database; they come from this clone's history."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = "src/semel/ledger/migrations"
PAGE = "src/semel/faces/page/dist"  # built, so no commit has it


def find_commit() -> str | None:
    """Return the first commit whose ledger has the version of today's; None if this is no clone with its history."""
    if _git("rev-parse", "--is-shallow-repository").strip() != b"false":
        return None
    newest = max((ROOT / MIGRATIONS).glob("[0-9]*.sql")).name
    return _git("log", "--diff-filter=A", "--format=%H", "-1", "--", f"{MIGRATIONS}/{newest}").decode().strip() or None


def extract(commit: str, folder: Path) -> Path:
    """Put the sources of a commit into a folder, and return where Python finds them."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src"))) as archive:
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # CPython before 3.11.4 has none
        archive.extractall(folder, **safely)
    if (ROOT / PAGE).exists():
        shutil.copytree(ROOT / PAGE, folder / PAGE)
    return folder / "src"


def _git(*args: str) -> bytes:
    try:
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
