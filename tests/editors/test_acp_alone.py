"""`semel acp --alone` as a process between an editor and an agent: bytes, ends, signals, and who waits for whom."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from editor_help import call, delta, line_of, prompt, request
from model_editor import ModelEditor
from python_process import run_python, start_python

from semel.gateway.process_identity import read_identity

PATIENCE_S = 60.0  # other work may share the machine
RELAY = (
    "import sys; from semel.faces.acp.alone.relay import Relay; from semel.faces.acp.alone.stream import EditorStream\n"
    "sys.exit(Relay(sys.argv[1:], EditorStream('made')).run())"
)
"""The command without the command line, which takes longer to start than all the rest."""


class Editor:
    """An editor that has started an agent. `editor`: what it shows."""

    def __init__(self, *arguments: str) -> None:
        pipe = subprocess.PIPE
        self.process = start_python(*arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.model = ModelEditor()

    def say(self, message: dict[str, Any]) -> None:
        self.stdin.write(line_of(message))
        self.stdin.flush()

    def read_until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Show what comes, until a message for which `done` is true. Returns it."""
        for line in self.stdout:
            self.model.read([line])
            message = json.loads(line)
            if done(message):
                return dict(message)
        raise AssertionError(f"the agent has ended: {self.process.wait()}")

    def call(self, number: object, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return the answer."""
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.read_until(lambda message: "method" not in message and message["id"] == number)

    def introduce(self) -> None:
        """Say who we are: an editor that shows what comes outside of a turn."""
        self.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": "zed"}}})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Editor]]:
    editors: list[Editor] = []

    def start(script: str, *arguments: str, command: list[str] | None = None) -> Editor:
        """Start an agent that is a Python script; or `command`, the arguments of Python, instead."""
        path = tmp_path / f"agent{len(editors)}.py"
        path.write_text("import json, os, signal, sys, time\n" + textwrap.dedent(script))
        editors.append(Editor(*(command or ["-c", RELAY, sys.executable, "-S", str(path), *arguments])))
        return editors[-1]

    yield start
    for editor in editors:
        editor.process.kill()
        editor.process.wait()
        for pipe in (editor.stdin, editor.stdout, editor.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def until(what: Callable[[], Any], why: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (result := what()):
        assert time.monotonic() < end, f"{why} did not come true"
        time.sleep(0.02)
    return result


def is_gone(pid: int, born: str) -> bool:
    return read_identity(pid) != born


# ---- the command


def test_an_editor_talks_with_an_agent_and_sees_what_it_says(start: Callable[..., Editor]) -> None:
    demo = [sys.executable, "-m", "semel.agents.demo"]
    editor = start("", command=["-m", "semel", "acp", "--alone", "--", *demo])
    info = {"name": "zed", "version": "1"}
    first = editor.call(0, "initialize", protocolVersion=1, clientInfo=info, clientCapabilities={})
    assert first["result"]["agentInfo"]["name"] == "semel-demo"
    session = editor.call("new", "session/new", cwd="/", mcpServers=[])["result"]["sessionId"]
    editor.say(request(1, "session/prompt", session, prompt=[{"type": "text", "text": "permission"}]))
    question = editor.read_until(lambda message: message.get("method") == "session/request_permission")
    outcome = {"outcome": "selected", "optionId": question["params"]["options"][0]["optionId"]}
    editor.say({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": outcome}})
    end = editor.read_until(lambda message: message.get("id") == 1)
    assert end["result"]["stopReason"] == "end_turn"
    shown = editor.model.sessions[session]
    assert shown.texts()
    assert [call.fields["status"] for call in shown.calls.values()] == ["completed"]
    editor.stdin.close()
    assert editor.process.wait(PATIENCE_S) == 0
    assert editor.process.stderr is not None and editor.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--alone", "--agent", "demo", "--", "x"], 2, "takes only the agent's command"),
        (["--agent", "demo", "--", "x"], 2, "give one of them"),
        (["--alone"], 2, "name the agent's command"),
        (["--print", "emacs", "--agent", "demo"], 2, "name none here"),
        (["--alone", "--", "/no/such/agent"], 127, "/no/such/agent cannot be started: No such file"),
        (["--alone", "--", str(Path(__file__).parent)], 126, "cannot be started: Permission denied"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments: list[str], code: int, words: str) -> None:
    done = run_python("-m", "semel", "acp", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr and done.stderr.count("\n") == 1


def test_in_a_terminal_a_person_is_told_that_an_editor_starts_it() -> None:
    ours, theirs = pty.openpty()
    done = run_python("-m", "semel", "acp", stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2 and "semel acp --print zed" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("mode", [["--alone"], []])
def test_in_a_terminal_the_agents_command_runs_by_itself(mode: list[str]) -> None:
    """An editor logs an agent in there: it runs the command with more arguments."""
    ours, theirs = pty.openpty()
    script = "import os, sys; print(os.getppid(), os.isatty(0), sys.argv[1:])"
    command = [sys.executable, "-m", "semel", "acp", *mode, "--", sys.executable, "-c", script, "--login"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the terminal ends with its last user
        while chunk := os.read(ours, 4096):
            said += chunk
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    assert said.decode().strip() == f"{os.getpid()} True ['--login']"


# ---- bytes

COPY = """
    while chunk := os.read(0, 65536):
        os.write(1, chunk)
"""


def test_bytes_that_are_no_messages_pass_both_ways_unchanged(start: Callable[..., Editor]) -> None:
    lines = [b"not json\n", b"\xff\xfe\x00\n", b'{"id":0,  "x":1}\r\n', b"\n", b"[" * 5000 + b"\n", b"no newline"]
    lines.insert(3, b'{"jsonrpc":"2.0","id":"a","result":"' + b"x" * 3_000_000 + b'"}\n')
    data = b"".join(lines)
    editor = start(COPY)
    out, _ = editor.process.communicate(data, timeout=PATIENCE_S)
    assert out == data
    assert editor.process.returncode == 0


def test_a_line_is_passed_on_when_it_comes(start: Callable[..., Editor]) -> None:
    editor = start(COPY)
    for n in range(20):
        editor.say({"jsonrpc": "2.0", "id": n, "result": {}})
        assert json.loads(editor.stdout.readline())["id"] == n


def test_output_of_a_running_tool_comes_without_a_further_line(start: Callable[..., Editor]) -> None:
    said = [call(), delta("one\n"), delta("two\n")]
    editor = start(f"sys.stdin.readline(); os.write(1, {b''.join(map(line_of, said))!r}); sys.stdin.read()")
    editor.introduce()
    editor.read_until(lambda _: editor.model.sessions["s"].calls["t"].text == "one\ntwo\n")


def test_a_fault_of_ours_is_said_and_holds_nothing_back(start: Callable[..., Editor]) -> None:
    broken = RELAY.replace("sys.exit(", "EditorStream.handle_agent_line = lambda *_: 1 / 0\nsys.exit(", 1)
    editor = start("", command=["-c", broken, "cat"])
    out, error = editor.process.communicate(b"one\ntwo\n", timeout=PATIENCE_S)
    assert out == b"one\ntwo\n"
    assert error.startswith(b"semel: ZeroDivisionError") and b"passes as it comes" in error


# ---- ends


def test_exit_code_and_stderr_are_the_agents(start: Callable[..., Editor]) -> None:
    editor = start("sys.stdin.read(); os.write(2, b'why\\xff\\n'); sys.exit(7)")
    out, error = editor.process.communicate(b"", timeout=PATIENCE_S)
    assert (editor.process.returncode, out, error) == (7, b"", b"why\xff\n")


def test_an_agent_that_is_killed_leaves_all_that_it_said(start: Callable[..., Editor]) -> None:
    said = b"".join(line_of({"jsonrpc": "2.0", "id": n, "result": {}}) for n in range(5_000)) + b'{"half'
    editor = start(f"sys.stdout.buffer.write({said!r}); sys.stdout.flush(); os.kill(os.getpid(), 9)")
    assert editor.stdout.read() == said
    assert editor.process.wait(PATIENCE_S) == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_agent(start: Callable[..., Editor], number: int) -> None:
    editor = start("""
        signal.signal(int(sys.argv[1]), lambda *_: sys.exit(40 + int(sys.argv[1])))
        os.write(1, b"ready\\n")
        time.sleep(600)
    """, str(int(number)))  # fmt: skip
    assert editor.stdout.readline() == b"ready\n"
    editor.process.send_signal(number)
    assert editor.process.wait(PATIENCE_S) == 40 + number


STUBBORN = """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())
    while True:
        time.sleep(600)
"""


def test_a_second_signal_kills_an_agent_that_ignores_the_first(start: Callable[..., Editor]) -> None:
    editor = start(STUBBORN)
    editor.stdout.readline()
    editor.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)  # two signals at once may be one
    editor.process.send_signal(signal.SIGTERM)
    assert editor.process.wait(PATIENCE_S) == 128 + signal.SIGKILL


@pytest.mark.parametrize("is_killed", [False, True], ids=["the editor is gone", "we are killed"])
def test_no_agent_is_left_behind(start: Callable[..., Editor], is_killed: bool) -> None:
    editor = start(STUBBORN)
    pid = int(editor.stdout.readline())
    born = read_identity(pid)
    assert born
    if is_killed:
        editor.process.kill()
    else:
        editor.stdin.close()
        editor.stdout.close()
    until(lambda: is_gone(pid, born), "the end of the agent")
    editor.process.wait(PATIENCE_S)


def test_a_closed_stdin_is_not_the_end_of_an_agent_that_still_talks(start: Callable[..., Editor]) -> None:
    editor = start("sys.stdin.read(); time.sleep(0.5); os.write(1, b'the end\\n')")
    out, _ = editor.process.communicate(b"", timeout=PATIENCE_S)
    assert out == b"the end\n" and editor.process.returncode == 0


def test_workers_that_the_agent_leaves_end_with_it(start: Callable[..., Editor]) -> None:
    editor = start("""
        worker = os.fork()
        if not worker:
            time.sleep(600)
        os.write(1, b"%d\\n" % worker)
    """)  # fmt: skip
    pid = int(editor.stdout.readline())
    assert editor.process.wait(PATIENCE_S) == 0
    until(lambda: not read_identity(pid), "the end of the worker")


# ---- who waits for whom


def test_an_editor_that_does_not_read_holds_the_agent_back_and_loses_nothing(start: Callable[..., Editor]) -> None:
    line = b'{"jsonrpc":"2.0","id":"a","result":"' + b"x" * 100_000 + b'"}\n'
    editor = start(f"""
        for n in range(300):
            os.write(1, {line!r})
            os.write(2, b".")
    """)  # fmt: skip
    assert editor.process.stderr is not None
    progress = 0
    while select.select([editor.process.stderr], [], [], 1.0)[0]:
        progress += len(os.read(editor.process.stderr.fileno(), 4096))
    assert progress < 50  # of 300: a few lines are in our memory and in the pipes
    assert sum(map(len, editor.stdout)) == 300 * len(line)
    assert editor.process.wait(PATIENCE_S) == 0


def test_an_agent_that_does_not_read_holds_the_editor_back_but_still_talks(start: Callable[..., Editor]) -> None:
    editor = start("""
        time.sleep(0.5)
        os.write(1, b"first\\n")
        print(len(sys.stdin.buffer.read()))
    """)  # fmt: skip
    size = 5_000_000
    writer = subprocess.Popen([sys.executable, "-c", f"print('x' * {size})"], stdout=editor.stdin)
    editor.stdin.close()
    assert editor.stdout.read() == b"first\n%d\n" % (size + 1)
    assert writer.wait(PATIENCE_S) == 0


def test_a_stderr_that_nobody_reads_blocks_nobody(start: Callable[..., Editor]) -> None:
    editor = start("""
        for n in range(300):
            os.write(2, b"x" * 9999 + b"\\n")
        os.write(1, b"done\\n")
        sys.stdin.read()
    """)  # fmt: skip
    assert editor.stdout.readline() == b"done\n"
    editor.stdin.close()
    assert editor.process.stderr is not None
    error = editor.process.stderr.read()
    assert 1_000_000 < len(error) < 3_000_000
    assert b"bytes of the agent's stderr were dropped" in error
    assert editor.process.wait(PATIENCE_S) == 0


def test_what_the_agent_says_to_a_prompt_comes_after_the_prompt_was_noted(start: Callable[..., Editor]) -> None:
    """The agent sends the prompt back faster than anything else could happen: it is not shown twice."""
    editor = start("""
        for line in sys.stdin:
            message = json.loads(line)
            text = message["params"]["prompt"][0]["text"]
            update = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
            params = {"sessionId": "s", "update": update}
            for out in ({"method": "session/update", "params": params}, {"id": message["id"], "result": {}}):
                print(json.dumps({"jsonrpc": "2.0", **out}), flush=True)
    """)  # fmt: skip
    for n in range(100):
        editor.say(prompt(f"prompt {n}", n))
        editor.read_until(lambda message, n=n: message.get("id") == n)  # type: ignore[misc]
    assert editor.model.sessions == {}


def test_a_cancel_ends_the_calls_before_the_agent_says_anything(start: Callable[..., Editor]) -> None:
    editor = start(f"sys.stdin.readline(); os.write(1, {line_of(call())!r}); sys.stdin.read()")
    editor.introduce()
    editor.read_until(lambda message: message["method"] == "session/update")
    cancel = request(0, "session/cancel")
    del cancel["id"]
    editor.say(cancel)
    editor.read_until(lambda _: editor.model.sessions["s"].calls["t"].fields["status"] == "failed")
