"""schemathesis over the OpenAPI document of a running gateway: `semel up` on a free port, with the owner's token.

Every operation of the document is asked with what the document allows and with what it forbids (phases examples,
coverage, fuzzing). Checked: no failure of ours, the documented statuses, content types, headers and bodies, refused
methods, required headers and data that is not valid.

Left out, and why:

- `GET .../stream` and `GET /v1/stream` never end (server-sent events): the target `sse` reads such.
- `POST /v1/import` reads a file and no JSON: the target `imports` makes such files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proof.fuzz.campaign import Campaign, Outcome

NAME = "api"
CONFIG = """\
[gateway]
listen = "127.0.0.1:0"
data_dir = "data"

[agents.demo]
kind = "demo"

[channels.hook]
kind = "webhook"
token = "the-token-of-the-hook"
session = "demo:ci"
"""
OUT = ("/v1/sessions/{key}/stream", "/v1/stream", "/v1/import")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
    "allow_header_conformance",
)  # fmt: skip
START = 30.0
PATIENCE = 60
"""Seconds beyond its time after which schemathesis is ended."""


def tested(seconds: int, seed: int, keep: Path, campaign: Campaign) -> Outcome:
    """So many seconds of it. What is found is told in a file in `keep`, with the requests that show it."""
    from proof.fuzz.campaign import Outcome

    seed = seed or int.from_bytes(os.urandom(3), "big")
    outcome = Outcome(NAME)
    home = campaign.work / NAME
    home.mkdir()
    (home / "semel.toml").write_text(CONFIG, encoding="utf-8")
    try:
        with _gateway(home) as (url, token):
            _furnish(url, token)
            told, code = campaign.process(_command(url, token, seconds, seed, home), seconds + PATIENCE, home)
            _alive(url)
    except (OSError, GatewayFailed) as fault:
        outcome.failed = f"the gateway: {fault}"
        print(outcome, flush=True)
        return outcome
    _read(outcome, home / "report.json", told, code, seed, seconds, keep)
    _logged(outcome, home / "log", keep / f"{NAME}-{seed}.log")
    print(outcome, flush=True)
    return outcome


class GatewayFailed(Exception):
    """The gateway did not start, or is gone."""


def _command(url: str, token: str, seconds: int, seed: int, home: Path) -> list[str]:
    out = [part for path in OUT for part in ("--exclude-path", path)]
    return [
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/v1/openapi.json",
        "--header", f"Authorization: Bearer {token}", "--phases", "examples,coverage,fuzzing", "--mode", "all",
        "--checks", ",".join(CHECKS), "--max-time", str(seconds), "--seed", str(seed), "--continue-on-failure",
        "--request-timeout", "20", "--no-color", "--generation-database", "none", "--suppress-health-check", "all",
        "--report", "json", "--report-json-path", str(home / "report.json"), *out,
    ]  # fmt: skip


def _read(outcome: Outcome, report: Path, told: str, code: int, seed: int, seconds: int, keep: Path) -> None:
    """Its verdict. Its exit code is 1 where something was found, and 0 where nothing was."""
    again = shlex.join(["python", "-m", "proof", "fuzz", NAME, "--seconds", str(seconds), "--seed", str(seed)])
    try:
        verdict: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome.failed = f"schemathesis ended with {code} and told nothing: {told.strip()[-300:]}; again: {again}"
        return
    outcome.executions = int(verdict["test_cases"]["generated"])
    operations = verdict["operations"] or {"tested": 0, "selected": 0}
    if operations["tested"] < operations["selected"]:
        outcome.failed = f"{operations['tested']} of {operations['selected']} operations were tested; again: {again}"
    kept = keep / f"{NAME}-{seed}.txt"
    found = [
        f"{each['title']} ({each['count']}x): {', '.join(each['operations'])[:300]}" for each in verdict["failures"]
    ]
    found += [f"{each['title']} ({each['count']}x)" for each in verdict["errors"]]
    if found:
        kept.write_text(told, encoding="utf-8")
        outcome.findings += [f"{NAME}: {each}; requests: {kept}; again: {again}" for each in found]


def _logged(outcome: Outcome, log: Path, kept: Path) -> None:
    """What the gateway itself calls a fault, in its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    faults = {line.rpartition("\\n")[2][:200] for line in lines if "Traceback (most recent call last)" in line}
    if faults:
        kept.write_text("\n".join(lines), encoding="utf-8")
        outcome.findings += [f"{NAME}: the gateway's log tells of a fault: {fault}; log: {kept}" for fault in faults]


# ---------------------------------------------------------------- the gateway


@contextlib.contextmanager
def _gateway(home: Path) -> Iterator[tuple[str, str]]:
    """A running one, and the owner's token."""
    command = [sys.executable, "-m", "semel", "up", "--config", str(home / "semel.toml")]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home, start_new_session=True
        )
    try:
        url = _url(home / "data", process)
        yield url, (home / "data" / "owner.token").read_text(encoding="utf-8").strip()
        if process.poll() is not None:
            raise GatewayFailed(f"it ended by itself, with {process.returncode}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _url(data: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads((data / "gateway.json").read_text(encoding="utf-8"))["url"])
        time.sleep(0.05)
    raise GatewayFailed("it did not start; its log is gone with it")


def _furnish(url: str, token: str) -> None:
    """Something that operations can find."""
    for text in ("hello", "/status", "[[script]]"):
        _post(f"{url}/v1/sessions/0/messages", token, {"text": text})
    _post(f"{url}/v1/schedules", token, {"name": "0", "text": "count", "cron": "@daily", "session": "0"})


def _post(url: str, token: str, body: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()


def _alive(url: str) -> None:
    with urllib.request.urlopen(f"{url}/healthz", timeout=20) as answer:
        if answer.status != 200:
            raise GatewayFailed(f"afterwards it answers {answer.status} to /healthz")
