"""Bad input at every door of a running gateway: a clear refusal, never a fault of ours, nothing half accepted."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from system_house import DEMO, House, opened, script, send, until

SESSION = "demo:web:a"
SAY, REPORT, ANSWERS = (f"/v1/sessions/{SESSION}/{what}" for what in ("messages", "events", "answers"))
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("input"), DEMO)) as one:
        one.say(SESSION, "hello")
        one.idle(SESSION)
        yield one
        one.idle(SESSION)


def event(**more: Any) -> bytes:
    fields = {"kind": "exec.progress", "text": "x", **more}
    return (
        "{" + ", ".join(f'"{k}": {v if k == "data" else chr(34) + v + chr(34)}' for k, v in fields.items()) + "}"
    ).encode()


BODIES = [  # path, body, status
    (SAY, b'{"text":', 400),
    (SAY, b"", 400),
    (SAY, b"null", 400),
    (SAY, b'{"text": 5}', 400),
    (SAY, b'{"text": " \\n"}', 400),
    (SAY, b'{"text": "\\ud800"}', 400),
    (SAY, b'{"text": "a", "id": "\\udc00"}', 400),
    (SAY, b'{"text": "\xff"}', 400),
    (SAY, b'{"text": "a", "x": ' + DEEP + b"}", 400),
    (SAY, b'{"text": "a", "id": ""}', 400),
    (SAY, b'{"text": "a", "id": "a\\u0000"}', 400),
    (SAY, b'{"text": "a", "id": "' + b"i" * 256 + b'"}', 400),
    (SAY, b'{"text": "' + b"a" * 1_048_576 + b'"}', 400),
    (ANSWERS, b'{"item": 1, "option": "' + b"a" * 1_048_576 + b'"}', 413),
    (REPORT, event(data=DEEP.decode()), 400),
    (REPORT, event(data='{"n": ' + "9" * 5000 + "}"), 400),
    (REPORT, event(data='{"n": 1e999}'), 400),
    (REPORT, event(data='{"n": NaN}'), 400),
    (REPORT, event(kind=""), 400),
    (REPORT, event(kind="K K\\n"), 400),
    (REPORT, event(kind="k" * 65), 400),
    (ANSWERS, b'{"item": 99999999999999999999999999, "option": "a"}', 404),
    (ANSWERS, b'{"item": -1, "option": "a"}', 404),
    (ANSWERS, b'{"item": "1", "option": "a"}', 400),
]


def test_a_bad_body_is_refused_with_a_reason_and_accepts_nothing(house: House) -> None:
    before = house.entries(SESSION)
    for path, body, status in BODIES:
        got = httpx2.post(house.url + path, content=body, headers={"content-type": "application/json"}, timeout=60)
        assert got.status_code == status, (body[:80], got.text)
        assert got.headers["content-type"] == "application/problem+json" and got.json()["detail"], body[:80]
    assert house.entries(SESSION) == before


def test_a_bad_key_path_or_query_is_refused_with_a_reason(house: House) -> None:
    entries = f"/v1/sessions/{SESSION}/entries"
    paths = [
        *(
            f"/v1/sessions/{key}/entries"
            for key in ("a" * 201, "a%20b", "a%00b", "%ff", "ä", "%", "a%0d%0aX:y", "nope")
        ),
        *(f"{entries}?{query}" for query in ("after=-1", "after=x", "after=1.5", f"after={10**30}", "limit=x", "x=1")),
        *(f"/v1/why/{ref}" for ref in ("e999", f"e{10**30}", f"{SESSION}%23{10**30}", "%00", "a%2Fb", "e%D9%A3")),
        *(f"/v1/parts/{id}" for id in ("0", "-1", "x", 10**30)),
        "/v1/parts?state=bogus",
        "/v1/blobs/..%2f..%2fowner.token",
        "/static/../../etc/passwd",
        "/nope",
    ]
    for path in paths:
        got = httpx2.get(house.url + path, timeout=60)
        assert got.status_code in (400, 404), (path, got.status_code, got.text)
        assert got.headers["content-type"] == "application/problem+json" and got.json()["detail"], path
    for method, path in (("HEAD", SAY), ("OPTIONS", SAY), ("DELETE", "/v1/sessions"), ("BREW", "/healthz")):
        got = httpx2.request(method, house.url + path, timeout=60)
        assert got.status_code == 405 and got.headers["allow"], (method, path)
    assert httpx2.get(house.url + entries, params={"after": 10**6}).json()["entries"] == []
    assert house.post("/v1/sessions/" + "k" * 200 + "/messages", {"text": "the longest key"}).status_code == 202


def first(house: House, last: str) -> str:
    """The first message of a stream that resumes after this id."""
    url = f"{house.url}/v1/sessions/{SESSION}/stream"
    with httpx2.stream("GET", url, headers={"last-event-id": last}, timeout=60) as stream:
        if stream.status_code != 200:
            return str(stream.status_code)
        return next(line for line in stream.iter_lines() if line.startswith("event:"))


def test_an_id_that_no_stream_gave_out_is_refused_or_answered_with_a_snapshot(house: House) -> None:
    for nonsense in ("abc", "-1", "1e3", "0x1", str(10**30)):
        assert first(house, nonsense) == "400", nonsense
    assert first(house, "999999") == "event: snapshot", "from beyond the head: another ledger's"


def raw(house: House, data: bytes, patience: float = 30) -> bytes:
    """What comes back for these bytes, until the other side closes."""
    host, _, port = house.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=patience) as sock:
        sock.sendall(data)
        got = b""
        try:
            while chunk := sock.recv(65536):
                got += chunk
        except ConnectionError:
            pass
        return got


def test_bytes_that_are_not_quite_http_get_an_answer_and_hurt_nobody(house: House) -> None:
    host = b"Host: " + house.url.removeprefix("http://").encode() + b"\r\n"
    post = b"POST " + SAY.encode() + b" HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    before = len(house.texts(SESSION, "user"))
    refused = {
        "a long header": b"GET /healthz HTTP/1.1\r\n" + host + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "two hosts": b"GET /v1/sessions HTTP/1.1\r\n" + host + b"Host: evil\r\n\r\n",
        "no host": b"GET /v1/sessions HTTP/1.1\r\n\r\n",
        "a negative length": post + b"Content-Length: -5\r\n\r\n",
        "an endless length": post + b"Content-Length: 99999999999\r\n\r\n",
    }
    for why, data in refused.items():
        assert raw(house, data)[9:12] in (b"400", b"413"), why
    one = post + b'Content-Length: 14\r\n\r\n{"text": "pi"}'
    answers = raw(house, one * 5 + b"GET /healthz HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    assert answers.count(b"HTTP/1.1 202") == 5 and answers.count(b"HTTP/1.1 200") == 1, "pipelined, each answered"
    with socket.create_connection(tuple(house.url.removeprefix("http://").split(":"))) as sock:  # type: ignore[arg-type]
        sock.sendall(post + b'Content-Length: 50\r\n\r\n{"text": "cut')
    house.idle(SESSION)
    assert house.texts(SESSION, "user")[before:] == ["pi"] * 5, "what was cut off was not heard"


@pytest.mark.long
def test_who_connects_and_never_asks_is_let_go_and_meanwhile_delays_nobody(house: House) -> None:
    done: list[bytes] = []
    slow = [
        threading.Thread(target=lambda: done.append(raw(house, b"POST /v1/login HTTP/1.1\r\nHost: x\r\n", 60)))
        for _ in range(50)
    ]
    for one in slow:
        one.start()
    assert house.get("/healthz") == {"ok": True}
    for one in slow:
        one.join(60)
    until(lambda: len(done) == len(slow), "all were let go", 5)


CONFIGS = {  # what is wrong -> what the line must say
    "[gateway\n": "not TOML",
    "a=" + "[" * 3000 + "]" * 3000: "nested too deep",
    "[gatway]\n": '"gateway"',
    "[gateway]\nlisten_on = 'x'": '"listen"',
    "[gateway]\nlisten = 'nonsense'": "host:port",
    "[gateway]\ngrace = 'ten'": "duration",
    "[gateway]\nmax_live_agents = 0": "max_live_agents",
    "[gateway]\ndefault_agent = 'x'": "demo",
    "[agents.main]\ncommand = 'codex'": "list",
    "[agents.main]\n": "needs a command",
    "[agents.main]\nkind = 'acpp'": "'acp'",
    "[agents.main]\nkind = 'demo'\npermissions = 'alow'": "'allow'",
    "[agents.'a b']\nkind = 'demo'": "not a name",
    "[agents.main]\nkind = 'demo'\nenv = {A = 'env:NO_SUCH'}": "NO_SUCH",
    "[channels.x]\nkind = 'webhok'": "webhook",
    "[channels.x]\nkind = 'webhook'\nsesion = 'x'": '"session"',
    "[channels.x]\nkind = 'webhook'\nsession = 'a b'": "session key",
    "[channels.x]\nkind = 'webhook'\nsecret = 'file:/nonexistent'": "/nonexistent",
    "[channels.x]\nkind = 'webhook'\nurl = 'http://127.0.0.1/'": "allow_private",
    "[destinations.d]\nchannel = 'nope'\naddress = 'x'": "nope",
    "[channels.x]\nkind = 'webhook'\n[destinations.home]\nchannel = 'x'\naddress = 'y'": "home",
    "[ledger]\nurl = 'postgres://x'": "it names no database",
}


def test_u_0000_is_shown_as_its_symbol_and_never_stored(house: House) -> None:
    """No text that comes in through any door keeps U+0000, which PostgreSQL could not store."""
    session = "demo:web:nul"
    assert house.post(f"/v1/sessions/{session}/messages", {"text": "a\0b", "sender": "an\0n"}).status_code == 202
    report = {"kind": "job.done", "text": "do\0ne", "data": {"x\0": ["y\0"]}}
    assert house.post(f"/v1/sessions/{session}/events", report).status_code == 202
    thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "th\0ink"}}
    tool = {"tool": "run\0it", "id": "t\0", "output": ["out\0put"]}
    house.say(session, script({"update": thought}, tool, send("sent\0by a tool"), "an\0swer"))
    house.idle(session)
    texts = house.texts(session)
    assert texts[0] == "You said: a\u2400b" and {"sent\u2400by a tool", "an\u2400swer"} <= set(texts), texts
    with sqlite3.connect(f"file:{house.data}/ledger.db?mode=ro", uri=True) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = [row for table in tables for row in db.execute(f'SELECT * FROM "{table}"')]
    stored = [text for row in rows for text in row if isinstance(text, str) and "[[script" not in text]
    assert not [text for text in stored if "\0" in text or "\\u0000" in text]
    assert len([text for text in stored if "\u2400" in text]) >= 7
    house.doctor()


def test_a_broken_configuration_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.faces.config import ConfigError
    from semel.faces.config.load import load_config

    monkeypatch.delenv("NO_SUCH", raising=False)
    path = tmp_path / "semel.toml"
    for text, told in CONFIGS.items():
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_config(path, tmp_path / "data")
        assert told in str(caught.value) and "\n" not in str(caught.value).strip(), (text[:60], str(caught.value))
    path.write_bytes(b"\xef\xbb\xbf[gateway]\nmax_live_agents = 2\n")
    assert load_config(path, tmp_path / "data").gateway.max_live_agents == 2, "a byte order mark is no fault"
    house = House(tmp_path, "[gatway]\n")
    assert house.cli("up", rc=2).stderr.count("\n") == 1


def test_a_wrong_command_is_wrong_usage_and_never_a_traceback(house: House) -> None:
    for rc, *command in (
        (2, "nope"),
        (2, "say", "a b", "x"),
        (1, "show", "nosession"),
        (1, "why", f"e{10**30}"),
        (1, "fold", "/nonexistent"),
    ):
        where = () if command[0] in ("fold", "nope") else None
        done = house.cli(*command, rc=None) if where is None else house.cli_alone(*command)
        assert done.returncode == rc and done.stderr, (command, done)
