"""Texts of strangers and agents on a terminal and in the log: shown, and neither commanding nor forging anything."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from system_house import House

from semel.faces import log
from semel.text.visible import escape_json, visible

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202egnp.exe\x1b[1A"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
DANGER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


ALL = """
import json, sys
from semel.faces.cli import load_commands
for args in json.loads(sys.argv[1]):
    print("=====", *args, flush=True)
    load_commands()(args, standalone_mode=False)
    sys.stdout.flush()
"""


def on_a_terminal(house: House, *commands: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    """What each of these commands writes to a person's terminal, colours aside. One process: a start takes a second."""
    ours, theirs = pty.openpty()
    where = ("--config", str(house.toml), "--data-dir", str(house.data))
    given = json.dumps([[*args, *where] for args in commands])
    env = {**house.environment, "TERM": "xterm-256color", "COLUMNS": "1000"}
    done = subprocess.Popen(
        [sys.executable, "-c", ALL, given], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=house.home
    )
    os.close(theirs)
    got = b""
    try:
        while chunk := os.read(ours, 65536):
            got += chunk
    except OSError:  # its end (Linux)
        pass
    os.close(ours)
    text = COLOURS.sub("", got.decode("utf-8").replace("\r\n", "\n"))
    assert done.wait(60) == 0, text
    return dict(zip(commands, text.split("===== ")[1:], strict=True))


@pytest.fixture(scope="module")
def evil(house: House) -> House:
    """A session in which a stranger wrote, and whose title, sender, kinds and notices are theirs."""
    body = {"text": f"hello {EVIL}", "sender": f"Eve{EVIL}", "data": {"x": EVIL}}
    assert house.hook("door", {**body, "session": "demo:door:evil"}, "evil-1").status_code == 202
    house.idle("demo:door:evil")
    url = f"{house.url}/v1/sessions/demo:door:evil"
    due = {"name": "evil", "session": "demo:door:evil", "text": f"x{EVIL}", "every": "1d"}
    assert httpx2.post(f"{house.url}/v1/schedules", json=due, timeout=60).status_code == 200
    assert httpx2.patch(url, json={"title": f"Title{EVIL}"}, timeout=60).status_code == 200
    return house


COMMANDS = [
    ("show", "demo:door:evil"),
    ("show", "demo:door:evil", "--json"),
    ("sessions",),
    ("sessions", "--json"),
    ("search", "hello"),
    ("export", "demo:door:evil"),
    ("export", "demo:door:evil", "--format", "jsonl"),
    ("why", "demo:door:evil#1"),
    ("outbox", "list"),
    ("outbox", "list", "--json"),
    ("schedules", "list"),
    ("schedules", "show", "evil"),
]


@pytest.mark.long
def test_no_command_hands_a_strangers_text_to_the_terminal_raw(evil: House) -> None:
    for args, told in on_a_terminal(evil, *COMMANDS).items():
        text = told.partition("\n")[2]
        assert "hello" in text or "evil" in text, (args, text)
        assert not DANGER.search(text), (args, re.findall(DANGER, text))


def test_json_on_a_terminal_says_the_same_and_shows_all_of_it() -> None:
    value = {"a": EVIL, EVIL: ["\u2028", "ä🙂"]}
    told = escape_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(told) == value
    assert not DANGER.search(told) and "ä🙂" in told


def test_what_is_visible_keeps_words_lines_and_other_scripts() -> None:
    assert visible("Grüße\r\n\tשלום 你好 🙂") == "Grüße\n\tשלום 你好 🙂"
    assert not DANGER.search(visible(EVIL)) and "␛" in visible(EVIL)


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Configures the log, and gives what it writes."""
    root, semel = logging.getLogger(), logging.getLogger("semel")
    before = root.handlers[:], root.level, semel.level, structlog.get_config()

    def lines(how: str, speak: Any) -> str:
        log.configure_logging(how)
        speak()
        return capfd.readouterr().err

    yield lines
    root.handlers[:], level, semel_level, config = before[0], before[1], before[2], before[3]
    root.setLevel(level)
    semel.setLevel(semel_level)
    structlog.configure(**config)
    logging.captureWarnings(False)


def speak() -> None:
    forged = "x\n12:00:00 [info     ] owner logged in"
    structlog.get_logger("semel.evil1").warning(f"stderr {EVIL}", why=forged, agent=EVIL, also=[EVIL], data={"a": EVIL})
    logging.getLogger("semel.evil2").warning("agent says %s", f"{EVIL}{forged}")
    try:
        raise ValueError(f"{EVIL}{forged}")
    except ValueError:
        structlog.get_logger("semel.evil3").exception("it failed")


def test_a_log_for_people_holds_no_command_and_no_forged_line(logged: Any) -> None:
    told = COLOURS.sub("", logged("human", speak))
    assert "gnp.exe" in told and "owner logged in" in told, "it is told"
    assert not DANGER.search(told) and "\r" not in told
    assert not any(line.startswith("12:00:00") for line in told.splitlines())
    assert len([line for line in told.splitlines() if re.match(r"\d\d:\d\d:\d\d", line)]) == 3, told


def test_a_log_for_machines_is_a_line_of_json_each(logged: Any) -> None:
    told = logged("json", speak)
    rows = [json.loads(line) for line in told.splitlines()]
    assert [row["logger"] for row in rows] == ["semel.evil1", "semel.evil2", "semel.evil3"]
    assert rows[0]["agent"] == EVIL and told.isascii() and not DANGER.search(told)


def test_a_trace_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lzma

    from semel.faces import fold

    monkeypatch.setattr(fold, "MAX_LINE_BYTES", 1_000_000)
    bomb = tmp_path / "bomb.jsonl.xz"
    bomb.write_bytes(lzma.compress(b'{"a": "' + b"x" * 5_000_000))
    assert bomb.stat().st_size < 5_000
    with pytest.raises(fold.TraceError, match="a line of more than"):
        list(fold.fold_file(bomb))


def test_no_variable_of_the_code_that_failed_is_in_the_log(logged: Any) -> None:
    """The tracebacks that are fine to look at show locals: tokens among them."""

    def failing() -> None:
        token = "a-token-that-no-log-should-hold"
        try:
            raise ValueError(f"it has {len(token)} signs")
        except ValueError:
            structlog.get_logger("semel.evil4").exception("it failed")

    for how in ("human", "json"):
        told = logged(how, failing)
        assert "it has 31 signs" in told and "no-log-should-hold" not in told
