"""What `semel acp` writes to stderr, which the editor shows: nothing but its own words."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import anyio
import pytest

from semel.faces.acp.connection.serve_editor import log_fault


async def test_a_read_that_is_cancelled_as_its_data_comes_is_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, logged = asyncio.get_running_loop(), list[str]()
    monkeypatch.setattr(loop, "default_exception_handler", lambda context: logged.append(context["message"]))
    monkeypatch.chdir(tmp_path)  # the path of a socket may be short only
    for handler in (None, log_fault):
        loop.set_exception_handler(handler)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(handler is None))
            server.listen()
            stream = await anyio.connect_unix(str(handler is None))
            peer, _ = server.accept()
            reading = asyncio.ensure_future(stream.receive())
            await asyncio.sleep(0.01)
            ended, end = os.pipe()
            loop.add_reader(ended, reading.cancel)
            os.write(end, b"the editor closed its end")
            peer.send(b"data")
            await asyncio.wait([reading])
            loop.remove_reader(ended)
            await asyncio.sleep(0)
            for descriptor in (ended, end):
                os.close(descriptor)
            peer.close()
            await stream.aclose()
    assert logged in ([], ["Exception in callback Future.set_result(None)"]), (
        "without our handler, if anyio has the race"
    )
    logged.clear()
    log_fault(loop, {"message": "Exception in callback f()", "exception": ValueError()})
    assert logged, "anything else is"
