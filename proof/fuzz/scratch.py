"""A folder for what one process writes, in memory where the system has such a place."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from proof.room import memory

GIVEN = "SEMEL_FUZZ_FOLDER"
"""The variable by which whoever started this process gives it a folder, and removes that."""


@cache
def folder() -> Path:
    if GIVEN in os.environ:
        return Path(os.environ[GIVEN])
    made = Path(tempfile.mkdtemp(prefix="semel-fuzz-", dir=memory()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
