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
