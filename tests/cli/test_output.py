"""What a command prints may meet a full disk or a reader that has gone: one line, or silence, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_house import PATIENCE, Cli, Done
from python_process import start_python
from rich.text import Text

from semel.faces.cli import why

FULL = Path("/dev/full")
TRACES = Path(__file__).parents[1] / "data" / "traces"
COMMANDS = (["docs"], ["config", "check"])
MISTAKES = (["frob"], ["docs", "nonsense"], ["status"])
"""They print on stderr."""
FAULTY = "import semel.faces.cli as cli; cli._run_command = lambda: 1 / 0; from semel.faces.start import main; main()"


def run(cli: Cli, *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE) -> Done:
    """Run `python WORDS`, whose output Python buffers as it does for a person, however these tests are run."""
    env = {name: value for name, value in cli.env.items() if name != "PYTHONUNBUFFERED"}
    process = start_python(
        *words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, env=env, cwd=cli.home
    )
    cli.started.append(process)
    out, err = process.communicate(timeout=PATIENCE)
    return Done(out or "", err or "", process.wait())


@contextmanager
def on_full_disk() -> Iterator[int]:
    with FULL.open("wb", buffering=0) as file:
        yield file.fileno()


@contextmanager
def without_reader() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def semel(*command: str) -> tuple[str, ...]:
    return ("-m", "semel", *command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written_is_an_error_in_one_line(cli: Cli, command: list[str]) -> None:
    with on_full_disk() as full:
        done = run(cli, *semel(*command), stdout=full)
    assert (done.rc, done.stderr) == (1, "semel: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_ends_the_command_in_silence(cli: Cli, command: list[str]) -> None:
    with without_reader() as gone:
        done = run(cli, *semel(*command), stdout=gone)
    assert (done.rc, done.stderr) == (1, "")


@pytest.mark.parametrize("command", ["logs", "fold"])
def test_a_full_disk_is_not_taken_for_a_file_that_cannot_be_read(cli: Cli, command: str) -> None:
    log, trace = cli.data / "logs" / "gateway.jsonl", TRACES / "hermes" / "kill_send.jsonl.xz"
    log.parent.mkdir(parents=True)
    log.write_text('{"event": "ready", "level": "info"}\n')
    arguments = [str(trace), "--agent", "hermes"] if command == "fold" else []
    with on_full_disk() as full:
        done = run(cli, *semel(command, *arguments), stdout=full)
    assert (done.rc, done.stderr) == (1, "semel: the output cannot be written: No space left on device\n")


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS + MISTAKES, ids=" ".join)
def test_an_error_that_cannot_be_printed_leaves_only_the_exit_code(cli: Cli, command: list[str]) -> None:
    with on_full_disk() as full:
        assert run(cli, *semel(*command), stdout=full, stderr=full).rc == 1


@pytest.mark.long
@pytest.mark.parametrize("command", MISTAKES, ids=" ".join)
def test_a_mistake_that_nobody_can_be_told_leaves_only_the_exit_code(cli: Cli, command: list[str]) -> None:
    with on_full_disk() as full, without_reader() as gone:
        assert run(cli, *semel(*command), stderr=full).rc == 1
        assert run(cli, *semel(*command), stdout=gone, stderr=gone).rc == 1


def test_a_fault_of_semel_that_cannot_be_printed_leaves_only_the_exit_code(cli: Cli) -> None:
    assert "ZeroDivisionError" in run(cli, "-c", FAULTY).stderr
    with on_full_disk() as full:
        assert run(cli, "-c", FAULTY, stdout=full, stderr=full).rc == 1


def test_a_new_interpreter_ends_with_the_exit_code_too(cli: Cli) -> None:
    env = {name: value for name, value in cli.env.items() if name != "PYTHONUNBUFFERED"}
    with on_full_disk() as full:
        words = [sys.executable, "-m", "semel", "docs"]
        assert subprocess.run(words, stdout=full, stderr=full, env=env, cwd=cli.home, timeout=PATIENCE).returncode == 1


def test_a_command_without_open_streams_ends_with_its_own_exit_code(cli: Cli) -> None:
    """A service that closes them must not find a file of Semel's in their place."""
    code = "import os; [os.close(n) for n in (0, 1, 2)]; os.execv({0!r}, [{0!r}, '-m', 'semel', *{1!r}])"
    for words, rc in ((["docs"], 0), (["frob"], 2)):
        assert run(cli, "-c", code.format(sys.executable, words)).rc == rc


def test_a_long_line_is_wrapped_between_words_beside_its_label_and_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = {"lines": [{"at": None, "text": "it asked for a permission; Allow, by the owner"}]}
    why._print_story(story)
    assert capsys.readouterr().out.split("\n") == [f"{'':21}{story['lines'][0]['text']}", ""]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    why._print_story(story)
    lines = [line.rstrip() for line in Text.from_ansi(capsys.readouterr().out).plain.splitlines()]
    assert lines == [f"{'':21}it asked for a permission;", f"{'':21}Allow, by the owner"]
