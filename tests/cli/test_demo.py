"""`semel demo`: every case holds, a planted fault is found, nothing is left, and the README's picture is up to date."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import Cli, Done
from python_process import run_python
from rich.text import Text
from terminal import semel

from scripts.demo_picture import PICTURE, draw_picture, read_picture

NO_ECHO = "from semel.law import echo\necho.find_original = lambda *args, **kwargs: None\n"


def play(home: Path, *args: str, **variables: str) -> Done:
    """Run `semel demo`, and check that it leaves no file behind. `variables`: of its environment."""
    temporary = home / "tmp"
    temporary.mkdir()
    env = {**Cli(home, home / "data").env, "TMPDIR": str(temporary), **variables}
    done = run_python("-m", "semel", "demo", *args, env=env, cwd=home)
    left = [file.name for file in temporary.iterdir() if file.name != f"semel-{os.getuid()}"]  # links of long sockets
    assert left == []
    assert not (home / "data").exists()
    return Done(str(done.stdout), str(done.stderr), done.returncode)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    yield play(tmp_path_factory.mktemp("home"), FORCE_COLOR="1")


@pytest.mark.long
def test_every_case_holds_with_its_books(played: Done) -> None:
    lines = Text.from_ansi(played.stdout).plain.splitlines()
    assert played.rc == 0, played
    assert "BROKEN" not in played.stdout
    assert [line.split()[1] for line in lines if re.match(r"\d  ", line)] == [
        *("echo", "completion", "redelivery", "cut", "kill"),
    ]
    assert sum(bool(re.match(r" +books +ok \d\d laws hold: sessions \d", line)) for line in lines) == 5
    assert lines[-1] == "5 cases hold"


def test_the_picture_of_the_readme_is_what_is_printed_now(played: Done) -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert read_picture(svg) == read_picture(draw_picture(played.stdout)), "run `make samples`"
    assert len(read_picture(svg)) == len([line for line in played.stdout.splitlines() if line.strip()]) + 1
    assert len(svg) < 40_000
    assert "https://" not in svg.replace("https://www.textualize.io", "")


@pytest.mark.long
def test_a_gateway_that_takes_an_echo_for_news_fails_the_case(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")  # a short name: the sockets are in it
    (home / "fault").mkdir()
    (home / "fault" / "sitecustomize.py").write_text(NO_ECHO)
    done = play(home, "echo", PYTHONPATH=str(home / "fault"))
    assert done.rc == 1
    assert "BROKEN 2 messages in the chat" in done.stdout
    assert "there should be 1" in done.stdout
    assert done.stdout.endswith("does not hold: echo\n")


@pytest.mark.long
def test_on_a_terminal_its_lines_are_wrapped_between_words_below_each_other(tmp_path: Path) -> None:
    with semel("demo", "redelivery", env=Cli(tmp_path, tmp_path / "data").env, cwd=tmp_path, columns=60) as terminal:
        assert terminal.wait() == 0
    lines = [Text.from_ansi(line).plain.rstrip() for line in terminal.said.splitlines()]
    case = lines[next(number for number, line in enumerate(lines) if line.endswith("redelivery")) + 1 :]
    rows = case[: case.index("")]
    assert max(map(len, rows)) <= 60 and len(rows) > 8
    assert {row[:13].strip() for row in rows} == {"happens", "elsewhere", "here", "books", ""}
    assert "here ok 29 lines of output from the agent ok 10 lines in the view: " in " ".join(" ".join(rows).split())
