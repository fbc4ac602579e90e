"""The client tells a gateway that is slow from one that does not run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from semel.faces.client import AsyncClient, NoAnswer, NoGateway, connection
from semel.tools.address import GATEWAY_FILE


async def test_a_slow_answer_is_not_taken_for_a_gateway_that_does_not_run(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "socket"
    (tmp_path / GATEWAY_FILE).write_text(json.dumps({"socket": str(path)}))
    monkeypatch.setattr(connection, "AGENT_START_TIMEOUT_S", 0.05)
    connected = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(say_nothing, path)
    async with AsyncClient(tmp_path) as talk:
        with pytest.raises(NoAnswer, match=r"did not answer within 0\.05 s; it may still carry out"):
            await talk.compare_memory("s")
    assert connected.is_set()
    server.close()
    path.unlink()
    async with AsyncClient(tmp_path) as talk:
        with pytest.raises(NoGateway, match="no gateway is running"):
            await talk.compare_memory("s")


async def test_a_message_whose_answer_was_lost_between_two_gateways_is_sent_again_with_its_id(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    (tmp_path / GATEWAY_FILE).write_text(json.dumps({"socket": str(path)}))
    ids: list[str] = []

    async def lose_the_first_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        ids.append(json.loads(await reader.readexactly(length))["id"])
        status, body = ("502 Bad Gateway", b"{}") if len(ids) == 1 else ("202 Accepted", b'{"event": 7}')
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    server = await asyncio.start_unix_server(lose_the_first_answer, path)
    async with AsyncClient(tmp_path) as client:
        assert (await client.post_message("s", {"text": "hello", "id": "once"}))["event"] == 7
    assert ids == ["once", "once"]
    server.close()
