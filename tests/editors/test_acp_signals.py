"""`semel acp` when a signal ends it: what the editor wrote is recorded, or stderr says that it may be lost."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest
from editor_help import line_of
from gateway_editor import gateways_of, opened_desk

from semel.tools.address import START_LOCK_FILE

END_S = 20.0  # by when it has ended after a signal, on a busy machine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_an_editor_wrote_before_a_signal_is_recorded_or_told(tmp_path: Path, number: signal.Signals) -> None:
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        session = editor.new()
        editor.process.send_signal(signal.SIGSTOP)
        for index in range(8):
            editor.begin(f"say: {index}")
        editor.process.send_signal(number)
        editor.process.send_signal(signal.SIGCONT)
        code, words = editor.leave()
        desk.house.idle(session)
        lost = 8 - len(desk.house.texts(session, "user"))
        assert words.count(b"was not recorded") >= lost
        assert code == (1 if words else 0)


def test_what_an_editor_writes_after_a_signal_is_told_as_lost(tmp_path: Path) -> None:
    """The gateway answers nothing. So the first message is waited for, and the second one comes meanwhile."""
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        editor.new()
        assert desk.house.process is not None
        desk.house.process.send_signal(signal.SIGSTOP)
        editor.begin("say: before")
        editor.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        editor.begin("say: after")
        code, words = editor.leave()
        desk.house.process.send_signal(signal.SIGCONT)
        assert (code, words.count(b"was not recorded")) == (1, 2), words


def test_what_an_editor_writes_until_it_cannot_is_told_as_lost(tmp_path: Path) -> None:
    """The end of the process takes a while, too. What is written then fails, or stderr says that it was not read."""
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        editor.new()
        assert desk.house.process is not None
        desk.house.process.send_signal(signal.SIGSTOP)
        editor.process.send_signal(signal.SIGTERM)
        assert editor.process.stdin is not None
        params = {"sessionId": editor.session, "prompt": [{"type": "text", "text": "say: hi"}]}
        written = 0
        with pytest.raises(BrokenPipeError):
            while written < 1000:
                prompt = {"jsonrpc": "2.0", "id": 100 + written, "method": "session/prompt", "params": params}
                os.write(editor.process.stdin.fileno(), line_of(prompt))
                written += 1
                time.sleep(0.03)
        code, words = editor.leave()
        desk.house.process.send_signal(signal.SIGCONT)
        assert code == 1 and (b"was not read" in words or words.count(b"was not recorded") == written), (written, words)


def test_a_line_that_is_not_whole_at_a_signal_is_told_as_unread(tmp_path: Path) -> None:
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        editor.new()
        assert editor.process.stdin is not None
        editor.process.stdin.write(b'{"jsonrpc": "2.0", "id": 9')
        editor.process.stdin.flush()
        editor.process.send_signal(signal.SIGTERM)
        assert editor.process.wait(END_S) == 1
        assert b"was not read" in editor.leave()[1]


def test_an_editor_that_closes_its_end_before_the_signal_has_written_everything(tmp_path: Path) -> None:
    with opened_desk(tmp_path) as desk:
        editor = desk.editor()
        session = editor.new()
        editor.begin("say: the last")
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        editor.process.send_signal(signal.SIGTERM)
        code, words = editor.leave()
        assert b"not read" not in words
        desk.house.idle(session)
        assert code == 0 or not desk.house.texts(session, "user")


def test_a_signal_ends_it_while_another_start_is_under_way_and_starts_no_gateway(tmp_path: Path) -> None:
    with opened_desk(tmp_path) as desk:
        first = desk.editor()
        session = first.new()
        first.end()
        desk.house.kill()
        with (desk.house.data / START_LOCK_FILE).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = desk.editor()
            waiting.session = session
            waiting.begin("say: lost")
            waiting.request("session/list")
            waiting.process.send_signal(signal.SIGTERM)
            code, words = waiting.leave()
            assert code == 1 and f"a message to session {session} was not recorded".encode() in words
        assert gateways_of(desk.house) == []
        desk.house.up()
