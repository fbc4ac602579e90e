"""What a command prints may meet a full disk or a reader that has gone: one line, or silence, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_house import PATIENCE, Cli

FULL = "/dev/full"
TRACES = Path(__file__).parents[1] / "data" / "traces"
COMMANDS = (["docs"], ["config", "check"])


def run(cli: Cli, line: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell `line`, which names it "$@"."""
    words = ["bash", "-c", line, "bash", sys.executable, "-m", "semel", *command]
    return subprocess.run(words, capture_output=True, text=True, env=cli.env, cwd=cli.home, timeout=2 * PATIENCE)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written_is_an_error_in_one_line(cli: Cli, command: list[str]) -> None:
    done = run(cli, f'"$@" > {FULL}', *command)
    assert (done.returncode, done.stderr) == (1, "semel: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_ends_the_command_in_silence(cli: Cli, command: list[str]) -> None:
    done = run(cli, 'set -o pipefail; "$@" | true', *command)
    assert done.stderr == "" and done.returncode in (0, 1)


@pytest.mark.parametrize("command", ["logs", "fold"])
def test_a_full_disk_is_not_taken_for_a_file_that_cannot_be_read(cli: Cli, command: str) -> None:
    log, trace = cli.data / "logs" / "gateway.jsonl", TRACES / "hermes" / "kill_send.jsonl.xz"
    log.parent.mkdir(parents=True)
    log.write_text('{"event": "ready", "level": "info"}\n')
    done = run(cli, f'"$@" > {FULL}', command, *([str(trace), "--agent", "hermes"] if command == "fold" else []))
    assert (done.returncode, done.stderr) == (1, "semel: the output cannot be written: No space left on device\n")


def test_an_error_that_cannot_be_printed_leaves_only_the_exit_code(cli: Cli) -> None:
    assert run(cli, f'"$@" > {FULL} 2> {FULL}', "docs").returncode == 1
