"""What the fuzzers found, as promises; and every fuzz target holds on its own first inputs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.fuzz.engine import load
from proof.fuzz.gate import HOST, Gate
from proof.fuzz.house import House
from proof.fuzz.targets import names
from semel.channels.email.render import render_page
from semel.channels.matrix.render import render
from semel.channels.matrix.transport import MatrixReply, check_write, parse_json, room_path
from semel.channels.telegram.receipts import receipt_of
from semel.channels.telegram.transport import parse_reply
from semel.faces.config.load import load_config
from semel.faces.config.problems import ConfigError
from semel.faces.http import serve
from semel.gateway.clock import SystemClock
from semel.gateway.outbound.attempt import send
from semel.gateway.ports import Incoming, NotSent, Op, Person, Unknown
from semel.gateway.turns.permissions import is_self_guarded

KEPT = Path(__file__).parent.parent / "data" / "fuzzed"
IN_PROCESS = sorted(set(names()) - {"http", "sse", "server"})  # these start a gateway: see `gate` below
HEAVY = {"markdown", "split"}
POST = Op("k", "post", "-100", "hello")


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_target_holds_on_its_seeds_and_on_what_was_found(name: str) -> None:
    target = load(name)
    found = [file.read_bytes() for file in sorted((KEPT / name).glob("*"))]
    seeds = target.SEEDS[:: max(1, len(target.SEEDS) // 4)] if name in HEAVY else target.SEEDS
    for data in (*found, *seeds):
        target.one(data)


# ---------------------------------------------------------------- what comes in


@pytest.mark.parametrize("at", [1e308, -1e308, 1e17, float("inf"), float("nan"), 10**400])
def test_a_message_from_beyond_every_calendar_is_heard_and_the_channel_goes_on(at: Any) -> None:
    house = House()
    inbox = house.fresh()
    house.run(inbox.put([Incoming("message", "m1", "room", Person("ann"), "hello", at=at)], "next"))
    assert house.run(inbox.cursor()) == "next"
    [told] = house.store.read_sync(lambda tx: tx._cursor.execute("SELECT more FROM entry").fetchall())
    assert "at" not in json.loads(told[0])["data"]
    house.check()
    house.loop.close()


@pytest.mark.parametrize("meta", ["x", 7, [1], {"claudeCode": "x"}, {"claudeCode": {"mcpServer": 5}}])
def test_an_agent_asks_for_permission_with_any_meta(meta: Any) -> None:
    assert not is_self_guarded({"toolCallId": "t", "title": "rm", "_meta": meta}, {"_meta": meta})


@pytest.mark.parametrize("half", ["\\ud800", "\\uDC00x", "a\\udfff"])
def test_half_a_character_in_an_event_does_not_stop_a_channel(half: str) -> None:
    """Whatever is made of a homeserver's answer, a path to ask it with among it, can be sent and stored."""
    body = b'{"\xff%s": [{"event_id": "$%s", "pair": "\\ud83d\\ude00"}]}' % (half.encode(), half.encode())
    [(name, [event])] = parse_json(body).items()
    assert room_path(name, "event", event["event_id"]).isascii()
    assert "\ufffd" in event["event_id"]
    assert event["pair"] == "\U0001f600"


# ---------------------------------------------------------------- configuration


@pytest.mark.parametrize("setting", ['pace = "env:HIDDEN"', 'session = "env:HIDDEN"', 'url = "file:hidden"'])
def test_a_secret_that_stands_where_none_belongs_is_not_told(setting: str, tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text("s3cr3t of 'mine'")
    (tmp_path / "semel.toml").write_text(f'[channels.hook]\nkind = "webhook"\n{setting}\n')
    with pytest.raises(ConfigError) as no:
        load_config(tmp_path / "semel.toml", tmp_path, env={"HOME": "/", "HIDDEN": "s3cr3t of 'mine'"})
    assert "[channels.hook]" in str(no.value)
    assert "s3cr3t" not in str(no.value)


def test_a_size_that_no_disk_has_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(f'[background]\noutput = "{"9" * 400}B"\n')
    with pytest.raises(ConfigError) as no:
        load_config(tmp_path / "semel.toml", tmp_path, env={"HOME": "/"})
    assert "is not a size" in str(no.value)


@pytest.mark.parametrize("path", ["\\u0000", "~no-such-user/x"])
@pytest.mark.parametrize(
    "setting",
    [
        '[gateway]\ndata_dir = "{}"',
        '[ledger]\nurl = "sqlite:///{}"',
        '[agents.a]\ncommand = ["x"]\ncwd = "{}"',
        '[channels.hook]\nkind = "webhook"\nsecret = "file:{}"',
    ],
)
def test_a_path_that_no_file_can_have_is_an_error_of_the_configuration(setting: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(setting.format(path) + "\n")
    with pytest.raises(ConfigError):
        load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)})


# ---------------------------------------------------------------- what platforms answer


@pytest.mark.parametrize("wait", ["1e999", "-1e999", "-5", "NaN", "1" + "0" * 400, "true", '"soon"'])
def test_a_wait_that_nobody_can_wait_is_none(wait: str) -> None:
    body = b'{"ok": false, "description": "x", "parameters": {"retry_after": %s}}' % wait.encode()
    with pytest.raises(NotSent) as no:
        receipt_of(POST, parse_reply(429, body))
    assert no.value.retry_after is None


@pytest.mark.parametrize("wait", [float("inf"), float("nan"), 1e300])
async def test_a_channel_that_asks_for_an_endless_wait_was_not_sent_and_is_tried_again(wait: float) -> None:
    class Endless:
        name = "endless"
        caps = type("caps", (), {"edits": True, "timeout": 5.0})

        async def send(self, op: Op) -> None:
            raise NotSent("not now", wait)

    outcome = await send(Endless(), POST, SystemClock(), asyncio.Event())  # type: ignore[arg-type]
    assert outcome.result == "not sent"
    assert outcome.retry_after is None or outcome.retry_after <= 30 * 86_400_000


@pytest.mark.parametrize(
    "result", [b'{"chat": {"id": 1e999}, "message_id": 2}', b'{"chat": {"id": 1}, "message_id": NaN}']
)
def test_an_answer_that_names_no_message_leaves_the_outcome_unknown(result: bytes) -> None:
    with pytest.raises(Unknown):
        receipt_of(POST, parse_reply(200, b'{"ok": true, "result": %s}' % result))


def test_an_empty_event_id_is_no_receipt() -> None:
    with pytest.raises(Unknown):
        check_write(MatrixReply(200, {}, {"event_id": ""}), "event_id")


# ---------------------------------------------------------------- what leaves


def test_half_a_character_is_shown_by_its_stand_in_in_a_formatted_message() -> None:
    assert render("**a**\ud800b").html == "<p><strong>a</strong>\ufffdb</p>"


@pytest.mark.parametrize("link", ["\x00javascript:alert(1)", "/etc/passwd", "//x.y/z", "../x"])
def test_a_mail_links_to_no_place_that_is_not_named_whole(link: str) -> None:
    html = render_page(f"[x]({link}) [y](https://x.y/z)")
    assert html is not None
    assert re.findall(r'href="([^"]*)"', html) == ["https://x.y/z"]


# ---------------------------------------------------------------- the HTTP face


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.end()


def test_a_number_of_thousands_of_digits_is_not_found_and_no_failure(gate: Gate) -> None:
    for path in (f"/v1/sessions/s/outputs/{'9' * 5000}", f"/v1/parts/{'9' * 5000}", f"/v1/parts/{'9' * 30}"):
        assert gate.ask("GET", path, headers=[(b"host", HOST)]).status == 404


def test_a_page_of_no_entries_is_refused(gate: Gate) -> None:
    answer = gate.ask("GET", "/v1/sessions/s/entries", query=b"limit=0", headers=[(b"host", HOST)])
    assert answer.status == 400 and "limit" in answer.json()["detail"], "whoever asks on would ask for ever"


def test_a_body_that_turns_into_nonsense_ends_its_request_without_a_fault(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /v1/sessions/s/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    stream = b"GET /v1/sessions/s/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"

    async def ask() -> list[bytes]:
        server = await serve(gate.app, "127.0.0.1", 0)
        answers = []
        for beginning, pause in ((head + chunked, 0), (stream + chunked, 1)):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(beginning + (b"" if pause else b"nonsense\r\n"))
            begun = await reader.read(10) if pause else b""  # the stream has begun
            writer.write(b"nonsense\r\n")
            answers.append(begun + await reader.read())
            writer.close()
        await server.stop()
        return answers

    with caplog.at_level(logging.ERROR):
        refused, cut_off = gate.loop.run_until_complete(ask())
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert refused.count(b"HTTP/1.1") == 1
    assert cut_off.startswith(b"HTTP/1.1 200 ")
    assert not [record.getMessage() for record in caplog.records if record.name in ("uvicorn.error", "asyncio")]
