"""A forked process is like one that Python has just started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from python_process import PythonProcess, run_python, start_python

DESCRIBE = """
import asyncio, gc, json, logging, os, random, signal, sys, threading
try:
    asyncio.get_running_loop()
    loop = "runs"
except RuntimeError:
    loop = "none"
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path[0], "cwd": os.getcwd(), "env": dict(os.environ),
    "command_line": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
    "variables": sorted(filter(None, open("/proc/self/environ").read().split("\\0"))),
    "descriptors": [fd for fd in range(100) if os.path.exists(f"/proc/self/fd/{fd}")],
    "tasks": len(os.listdir("/proc/self/task")), "threads": threading.active_count(), "loop": loop,
    "signals": {name: str(signal.getsignal(getattr(signal, name))) for name in ("SIGINT", "SIGTERM", "SIGCHLD", "SIGPIPE")},
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "handlers": len(logging.getLogger().handlers), "level": logging.getLogger().level, "umask": os.umask(0),
    "group": os.getpgrp() == os.getpgid(int(sys.argv[1])), "session": os.getsid(0) == os.getsid(int(sys.argv[1])),
    "encodings": [(s.encoding, s.errors, s.line_buffering, s.write_through) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "flags": list(sys.flags), "gc": [gc.isenabled(), gc.get_threshold()], "testing": "semel.testing" in sys.modules,
    "random": random.random(), "name": __name__,
}))
"""  # noqa: E501
UNLIKE = ("random", "testing")


def describe(env: dict[str, str], cwd: Path) -> dict[str, object]:
    done = run_python("-c", DESCRIBE, str(os.getpid()), env=env, cwd=cwd, check=True)
    return dict(json.loads(done.stdout))


def test_a_forked_process_is_like_one_that_was_started_anew(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "SEMEL_DATA": "a b\nc"}
    command = [sys.executable, "-c", DESCRIBE, str(os.getpid())]
    done = subprocess.run(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    forked, anew = describe(env, tmp_path), json.loads(done.stdout)
    assert [key for key in anew if forked[key] != anew[key] and key not in UNLIKE] == []
    assert forked["testing"] is False
    assert describe(env, tmp_path)["random"] != forked["random"]


def test_it_reads_writes_and_ends_as_any_process(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read().upper(), end=''); sys.stderr.write('e'); sys.exit(3)"
    done = run_python("-c", code, input="ä", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("Ä", "e", 3)
    failed = run_python("-c", "import atexit; atexit.register(print, 'at exit'); 1 / 0")
    assert (failed.stdout, failed.returncode) == ("at exit\n", 1)
    assert "ZeroDivisionError" in failed.stderr
    script = tmp_path / "script.py"
    script.write_text("import sys; print(__name__, sys.argv[1:], sys.path[0])")
    assert run_python(script, "x").stdout == f"__main__ ['x'] {tmp_path}\n"
    assert run_python("-m", "semel", "--version").stdout.startswith("semel ")
    with pytest.raises(subprocess.CalledProcessError):
        run_python("-c", "raise SystemExit(2)", check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import atexit, threading, time\n"
        "atexit.register(print, 'at exit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('end')",
        "import sys; sys.exit('words')",
        "import sys; sys.exit(-1)",
        "import sys; print('words', file=sys.stderr, end=''); sys.stdout.close()",
        "import sys; sys.stdout = open('/dev/full', 'w'); print('words')",
    ],
    ids=["threads", "words", "minus one", "closed", "full"],
)
def test_its_end_is_that_of_any_python(code: str) -> None:
    anew = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    forked = run_python("-c", code)
    assert (forked.stdout, forked.stderr, forked.returncode) == (anew.stdout, anew.stderr, anew.returncode)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_code_says_so(number: signal.Signals) -> None:
    code = "import time; print('up', flush=True); time.sleep(60)"
    pipe = subprocess.PIPE
    with PythonProcess("-c", code, stdout=pipe, stderr=pipe, text=True, interruptible=True) as process:
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(60) == process.returncode == -number
        assert ("KeyboardInterrupt" in process.stderr.read()) is (number == signal.SIGINT)
        process.kill()  # it has ended: nobody is meant


def test_it_has_a_session_of_its_own_if_asked() -> None:
    code = "import os; print(os.getpid(), os.getpgrp(), os.getsid(0))"
    with PythonProcess("-c", code, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.communicate()[0].split() == [str(process.pid)] * 3


@pytest.mark.parametrize("more", [(), ("-W", "default")], ids=["forked", "anew"])
def test_a_terminal_becomes_its_own(more: tuple[str, ...]) -> None:
    code = (
        "import os; print(os.ttyname(0), os.getsid(0) == os.getpid() == os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)))"
    )
    ours, side = os.openpty()
    name = os.ttyname(side)
    process = start_python(*more, "-c", code, stdin=side, stdout=side, stderr=side, on_terminal=True)
    assert process.wait(60) == 0
    os.close(side)
    assert os.read(ours, 1000).decode() == f"{name} True\r\n"
    os.close(ours)


def test_what_only_the_start_of_python_reads_starts_a_new_interpreter(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'found'")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert run_python("-c", "import beside; print(beside.WORD)", env=env).stdout == "found\n"
    assert run_python("-W", "error", "-c", "import sys; print(sys.warnoptions)").stdout == "['error']\n"
    with pytest.raises(ValueError, match="PYTHONPATH"):
        PythonProcess("-c", "", env=env)
    with pytest.raises(ValueError, match="-W"):
        PythonProcess("-W", "error", "-c", "")
