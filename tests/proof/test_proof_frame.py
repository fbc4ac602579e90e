"""The frame that runs the parts: what makes no sense is refused, and nothing counts as proven that was not done."""

from __future__ import annotations

import ast
import errno
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from proof import __main__ as frame
from proof.report import Proof, told

pytestmark = pytest.mark.proof

REFUSED = [
    "crash --process exec --jobs 0", "crash --point 5", "crash --process exec --point -3", "power --draws 0",
    "power --point=-1", "machines --ledger nonsense", "machines --ledger os:getcwd", "machines --seed 1",
    "machines --machine parts --seed 1 --lives -1", "schedules --seeds 0", "schedules --seeds=-5",
    "schedules --plan /no", "schedules --plan README.md", "schedules --seed 1 --keep a,b",
    "schedules --seed 1 --keep 999", "schedules --verbose", "schedules --shrink", "schedules --seed 1 --shrink",
    "soak --keep /etc/passwd", "soak --minutes nan", "soak --minutes 1e999", "soak --rate 0",
    "soak --sessions x", "mutants --jobs 0", "mutants --only nope", "fuzz nope", "fuzz --seconds 0",
    "fuzz --replay /nope split", "nothing", "crash power",
]  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    def run(*given: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["proof", *given])
        before = signal.getsignal(signal.SIGTERM)
        try:
            code = frame.main()
        except SystemExit as left:  # argparse leaves so
            code = int(left.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("given", REFUSED)
def test_what_makes_no_sense_is_refused_in_words(run, given: str) -> None:  # type: ignore[no-untyped-def]
    if given.startswith(("schedules --seed ", "schedules --plan ")):  # its process becomes one with settled hashes
        done = subprocess.run([sys.executable, "-m", "proof", *given.split()], capture_output=True, text=True)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = run(*given.split())
    assert code == 2, (out, err)
    assert err.strip() and "Traceback" not in err
    assert "violations" not in out


def test_a_part_that_did_nothing_proves_nothing(run, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run("power", "--short", "--point", "99999999")
    assert code == 1 and "NOT RUN: 0 images" in out
    assert Proof("crash", {"kills": 3}, work="kills").holds
    assert not Proof("crash", {"kills": 0}, work="kills").holds
    assert told(Proof("crash", {"kills": 0}, ["broken"], work="kills"), 1.0).splitlines()[1] == "  ! broken"


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 1), (errno.EROFS, 1)])
def test_a_disk_without_room_is_told_in_a_line(run, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:  # type: ignore[no-untyped-def]
    def prove(quick: bool, args: Namespace) -> Proof:
        raise OSError(number, "no room", "/dev/shm/x")

    part = SimpleNamespace(prove=prove, options=lambda parser: None)
    monkeypatch.setattr(frame, "_module", lambda name: part)
    done, out, _ = run("power")
    assert done == code and "NOT RUN: /dev/shm/x: no room" in out


def test_a_tool_that_is_not_installed_is_named(run, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def gone(name: str) -> None:
        raise ModuleNotFoundError("no", name="httpx2")

    monkeypatch.setattr(frame.importlib, "import_module", gone)
    code, _, err = run("crash")
    assert code == 2 and "httpx2 is not installed" in err and "make prove" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_is_told_that_nothing_is_proven(tmp_path: Path, number: signal.Signals) -> None:
    watching = tmp_path / "begun"
    code = (
        "import sys, time, pathlib\nfrom types import SimpleNamespace\nfrom proof import __main__ as frame\n"
        f"def prove(*_):\n    pathlib.Path({str(watching)!r}).touch()\n    time.sleep(60)\n"
        "frame._module = lambda name: SimpleNamespace(prove=prove, options=lambda parser: None)\n"
        "sys.argv = ['proof', 'power']\nsys.exit(frame.main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as running:
        try:
            while not watching.exists():
                assert running.poll() is None
            running.send_signal(number)
            assert running.communicate(timeout=30)[1] == "interrupted: nothing is proven\n"
        finally:
            running.kill()
    assert running.returncode == 130


def test_the_judge_of_conversations_shares_no_code_with_what_it_judges() -> None:
    source = ast.parse((Path(__file__).parents[2] / "proof" / "conversations.py").read_text("utf-8"))
    imports = [node for node in ast.walk(source) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = [getattr(node, "module", None) or node.names[0].name for node in imports]
    assert "apsw" in named and not [name for name in named if name.split(".")[0] == "semel"]
