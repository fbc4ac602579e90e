"""signal-cli itself, as far as it goes without an account: SIGNAL_CLI=/opt/signal-cli/bin/signal-cli."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_signal_double import ERRORS, HANDLER, MANUAL, READER

from semel.channels.signal.channel import SignalChannel
from semel.channels.signal.settings import SignalSettings
from semel.gateway.ports import Denied
from semel.testing.inbox import KeptInbox
from semel.testing.signal import ACCOUNT

PROGRAM = os.environ.get("SIGNAL_CLI", "signal-cli")
pytestmark = pytest.mark.channels
CASES = [case for case in ERRORS if case[0] in (MANUAL, READER, HANDLER)]


def ask(config: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    """The answers of a signal-cli without accounts, once its input ends."""
    command = [PROGRAM, "--config", str(config), "--output=json", "jsonRpc", "--ignore-stories"]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_no_request_gets_the_errors_that_the_double_gives(tmp_path: Path) -> None:
    requests = [case[1] for case in CASES]
    version = {"jsonrpc": "2.0", "method": "version", "id": "v"}
    lines = [
        request if isinstance(request, bytes) else json.dumps({"jsonrpc": "2.0", "id": "7", **request}).encode()
        for request in (*requests, version)
    ]
    answers = ask(tmp_path, lines)
    assert {"version"} in [set(answer.get("result", ())) for answer in answers]
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert sorted(error["code"] for error in errors) == sorted(case[2] for case in CASES)
    assert {case[3] for case in CASES if case[3]} <= {error["message"] for error in errors}


async def test_an_account_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    settings = SignalSettings(account=ACCOUNT, command=[PROGRAM], config=str(tmp_path))
    with pytest.raises(Denied, match="signal-cli link -n semel"):
        await SignalChannel("signal", settings).run(KeptInbox(tmp_path / "files"))
