"""Tokens and secrets: each opens its own door, and stands in no place where somebody else can read it."""

from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path

import httpx2
import pytest
from security_house import CONFIG, ENVIRONMENT, bearer, owner_token
from system_house import House, script

ROOT = Path(__file__).parents[2] / "src/semel"

DOORS = [
    ("GET", "/v1/sessions"), ("GET", "/v1/sessions/ci:a/entries"), ("GET", "/v1/sessions/ci:a/stream"),
    ("POST", "/v1/sessions/ci:a/messages"), ("POST", "/v1/sessions/ci:a/answers"), ("POST", "/v1/sessions/ci:a/stop"),
    ("GET", "/metrics"), ("GET", "/v1/parts"), ("GET", "/v1/people"), ("POST", "/v1/import"), ("GET", "/v1/search"),
    ("GET", "/v1/doctor"), ("GET", "/v1/why/e1"), ("GET", "/v1/openapi.json"), ("GET", "/v1/blobs/" + "0" * 64),
    ("DELETE", "/v1/sessions/ci:a"), ("GET", "/"), ("POST", "/v1/login"), ("POST", "/v1/hooks/bell"),
]  # fmt: skip


def test_a_nodes_token_opens_the_events_of_its_own_sessions_and_no_other_door(house: House) -> None:
    ci = bearer(ENVIRONMENT["CI_TOKEN"])
    report = {"kind": "build.done", "text": "built", "key": "scope-1"}
    assert httpx2.post(f"{house.url}/v1/sessions/ci:a/events", json=report, headers=ci).status_code == 202
    for session in ("box:a", "demo:web:a", "ci", "CI:a"):
        got = httpx2.post(f"{house.url}/v1/sessions/{session}/events", json=report, headers=ci)
        assert (got.status_code, got.json()["type"]) == (403, "urn:semel:problem:node-scope"), session
    for method, path in DOORS:
        got = httpx2.request(method, house.url + path, headers=ci)
        assert got.status_code == 403 and got.json()["type"] == "urn:semel:problem:node-scope", (method, path)


def test_refused_requests_of_a_node_are_told_to_the_operator(house: House) -> None:
    box, url = bearer(ENVIRONMENT["BOX_TOKEN"]), f"{house.url}/v1/sessions"
    report = {"kind": "build.done", "text": "built", "key": "told-1"}
    assert httpx2.post(f"{url}/box:a/events", json=report, headers=box).status_code == 202
    assert httpx2.post(f"{url}/ci:a/events", json=report, headers=box).status_code == 403
    other = httpx2.post(f"{url}/box:a/events", json={**report, "text": "other"}, headers=box)
    assert other.status_code == 409
    lost = httpx2.post(f"{url}/box:a/events", json=report, headers=bearer("no-nodes-token-0123"))
    assert lost.status_code == 401
    refused = {node["node"]: node["refused"] for node in house.get("/v1/status")["refused_nodes"]}
    assert refused["box"] == {"conflict": 1, "node-scope": 1} and refused[None]["no-token"] >= 1
    for command in ("status", "doctor"):
        shown = house.cli(command).stdout
        assert "box: 2 requests were refused (1 conflict, 1 node-scope), the last at " in shown
        assert "reports without a valid token: " in shown
    lines = house.cli("logs", "-n", "1000", "--level", "warning").stdout.splitlines()
    logged = [line for line in lines if "request refused" in line and "node=box" in line]
    assert [line.partition("reason=")[2].split()[0] for line in logged] == ["node-scope", "conflict"]
    assert "session=box:a" in logged[1] and f"first=e{other.json()['event']}" in logged[1]
    assert any("node=unknown" in line and "reason=no-token" in line for line in lines)
    assert "node:box: 1 refused, HTTP requests with node-scope" in house.cli("people", "strangers").stderr


def test_a_channels_token_is_none_of_the_owners_nor_another_channels(house: House) -> None:
    bell = bearer(ENVIRONMENT["HOOK_TOKEN"])
    assert httpx2.get(f"{house.url}/v1/sessions", headers=bell).status_code == 401
    body = {"text": "ring", "kind": "bell.rang"}
    key = {"Idempotency-Key": "bell-1"}
    assert httpx2.post(f"{house.url}/v1/hooks/bell", json=body, headers=bell | key).status_code == 202
    assert httpx2.post(f"{house.url}/v1/hooks/door", json=body, headers=bell | key).status_code == 401
    for other in (owner_token(house), ENVIRONMENT["HOOK_SECRET"]):
        assert httpx2.post(f"{house.url}/v1/hooks/bell", json=body, headers=bearer(other) | key).status_code == 401
    got = httpx2.post(f"{house.url}/v1/hooks/bell", json=body, headers=bearer(ENVIRONMENT["CI_TOKEN"]) | key)
    assert got.status_code == 403, "a node has no business there"


def test_no_secret_is_in_what_agents_processes_metrics_logs_errors_and_the_ledger_show(house: House) -> None:
    secrets = {**ENVIRONMENT, "owner": owner_token(house)}
    told: dict[str, str] = {}
    house.say("demo:web:look", script("I looked."))
    house.idle("demo:web:look")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and house.process is not None and int(entry.name) != house.process.pid:
            try:
                environ = (entry / "environ").read_bytes()
                if f"HOME={house.home}".encode() in environ.split(b"\0"):
                    told[f"process {entry.name}"] = (environ + (entry / "cmdline").read_bytes()).decode("latin-1")
            except OSError:
                continue
    assert told, "the agent runs"
    assert house.process is not None
    told["argv"] = Path(f"/proc/{house.process.pid}/cmdline").read_text()
    for path in (
        "/metrics",
        "/healthz",
        "/v1/status",
        "/v1/channels",
        "/v1/sessions",
        "/v1/doctor",
        "/v1/openapi.json",
    ):
        told[path] = httpx2.get(house.url + path, timeout=60).text
    for name, secret in secrets.items():
        wrong = bearer(secret[:-1])
        for path in ("/v1/sessions", "/v1/hooks/bell"):
            told[f"{path} with a wrong {name}"] = httpx2.post(house.url + path, headers=wrong, content=b"{}").text
    told["config"] = house.cli("sessions").stdout
    told["log"] = house.log
    told["gateway.json"] = (house.data / "gateway.json").read_text()
    with sqlite3.connect(f"file:{house.data / 'ledger.db'}?mode=ro", uri=True) as ledger:
        told["ledger"] = "\n".join(ledger.iterdump())
    for where, text in told.items():
        assert not [name for name, secret in secrets.items() if secret in text], where
    assert CONFIG.count("env:") == len(ENVIRONMENT), "none stands in the file either"


def test_a_spawns_token_is_kept_as_a_digest_and_known_to_its_own_tools_alone(house: House) -> None:
    """The agent gets it over its pipe, for its MCP server; it is not in the agent's own environment."""
    house.say(
        "demo:web:spawn", script({"call": "send_message", "arguments": {"text": "from the tool"}, "meta": "claude"})
    )
    house.idle("demo:web:spawn")
    tokens: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ, line = (entry / "environ").read_bytes().split(b"\0"), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"HOME={house.home}".encode() not in environ:
            continue
        here = {one.partition(b"=")[2].decode() for one in environ if one.startswith(b"SEMEL_TOKEN=")}
        assert not here or b"semel.tools" in line, "only our own tools hold it"
        assert not any(token.encode() in line for token in here)
        tokens |= here
    with sqlite3.connect(f"file:{house.data / 'ledger.db'}?mode=ro", uri=True) as ledger:
        dump = "\n".join(ledger.iterdump())
    assert not any(token in dump or token in house.log for token in tokens)
    for token in tokens:
        assert httpx2.get(f"{house.url}/v1/sessions", headers=bearer(token)).status_code == 401


def test_every_token_is_compared_in_constant_time() -> None:
    """No `==` between something given and something secret, anywhere."""
    plain = re.compile(
        r"\b\w*(token|secret|password|mac|signature)\w*\s*(==|!=)|(==|!=)\s*\w*(token|secret|password)\b(?![.(])"
    )
    allowed = {
        ("faces/run.py", "if node.token == token:"),  # two settings of the owner's own
    }
    found = {
        (str(path.relative_to(ROOT)), line.strip())
        for path in ROOT.rglob("*.py")
        if path.parts[-2] not in ("testing", "telegram") and "testing" not in path.parts
        for line in path.read_text().splitlines()
        if plain.search(line) and not line.lstrip().startswith("#")
    }
    assert found - allowed == set(), found - allowed
    used = [path for path in ROOT.rglob("*.py") if "hmac.compare_digest(" in path.read_text()]
    names = {str(path.relative_to(ROOT)) for path in used}
    assert {
        "faces/http/security.py",
        "channels/webhook_in.py",
        "channels/signature.py",
        "gateway/inbound/pairing.py",
    } <= names


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_the_gateways_environment_and_memory_are_closed_to_others_of_its_user(house: House) -> None:
    """PR_SET_DUMPABLE(2const): what is in /proc of such a process is root's."""
    assert house.process is not None
    place = Path(f"/proc/{house.process.pid}")
    owners = {name: (place / name).stat().st_uid for name in ("environ", "mem", "maps", "fd")}
    gateway = int(re.search(r"^Uid:\s+(\d+)", (place / "status").read_text(), re.M)[1])  # type: ignore[index]
    if gateway != 0:
        assert set(owners.values()) == {0}, owners
        with pytest.raises(PermissionError):
            (place / "environ").read_bytes()
    assert "Threads" in (place / "status").read_text()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_process_that_keeps_itself_private_is_so_and_what_it_starts_is_as_ever() -> None:
    import subprocess

    code = (
        "import ctypes, subprocess, sys\n"
        "from semel.faces.process_memory import keep_private\n"
        "dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        "assert dumpable() == 1 and not keep_private({'SEMEL_DUMPABLE': '1'}) and dumpable() == 1\n"
        "assert keep_private({}) and dumpable() == 0\n"
        "told = 'import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))'\n"
        "assert subprocess.run([sys.executable, '-c', told], capture_output=True).stdout == b'1\\n'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_gateway_keeps_itself_private_before_it_reads_a_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from semel.faces.cli import up
    from semel.faces.config import ConfigError, load

    order: list[str] = []

    def read(*_: object) -> None:
        order.append("read")
        raise ConfigError("enough")

    monkeypatch.setattr("semel.faces.process_memory.keep_private", lambda: order.append("private"))
    monkeypatch.setattr(load, "load_config", read)
    with pytest.raises(ConfigError, match="enough"):
        up.up(None, None, False, None, tmp_path)
    assert order == ["private", "read"]
