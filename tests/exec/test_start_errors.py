"""Why a program could not be started, where a folder of the PATH may not be searched."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from semel.gateway.start_errors import correct_start_error

DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_program_that_no_folder_has_is_missing(tmp_path: Path) -> None:
    reason = correct_start_error("no-such-whisper", DENIED, str(tmp_path))
    assert isinstance(reason, FileNotFoundError)
    assert reason.strerror == "No such file or directory"


def test_a_program_that_may_not_be_executed_is_denied(tmp_path: Path) -> None:
    (tmp_path / "whisper").touch(0o600)
    assert correct_start_error("whisper", DENIED, f"/nowhere:{tmp_path}") is DENIED


def test_a_path_is_denied_as_it_is(tmp_path: Path) -> None:
    assert correct_start_error(f"{tmp_path}/whisper", DENIED, str(tmp_path)) is DENIED


def test_another_error_is_kept(tmp_path: Path) -> None:
    broken = OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC))
    assert correct_start_error("no-such-whisper", broken, str(tmp_path)) is broken
