"""`semel up` ends although a channel from elsewhere swallows its cancellation."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

CHILD = """
import asyncio, sys
from dataclasses import dataclass
import semel.channels, semel.gateway.api.gateway
from semel.channels import Kind
from semel.faces.cli import main
from semel.testing.channels import FakeChannel, Safety

@dataclass(frozen=True)
class Settings:
    mood: str = "stubborn"

class Stubborn(FakeChannel):
    async def run(self, inbox):
        inbox.online()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

semel.gateway.api.gateway.STOP_TIMEOUT_S = 0.2
semel.channels._OWN["stubborn"] = Kind(Settings, lambda name, settings: Stubborn(name, Safety.IDEMPOTENT))
sys.argv = ["semel", "up", "--listen", "127.0.0.1:0", "--log", "json", "--config", sys.argv[1]]
main()
"""


async def test_a_channel_that_does_not_end_is_left_behind(tmp_path: Path) -> None:
    config = tmp_path / "semel.toml"
    config.write_text(f'[gateway]\ndata_dir = "{tmp_path / "data"}"\n[channels.mule]\nkind = "stubborn"\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(config), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    seen = b""
    try:
        async with asyncio.timeout(300):  # an upper bound: other work may share the machine
            while b'"ready"' not in seen:
                line = await process.stderr.readline()
                assert line, seen.decode()
                seen += line
            process.send_signal(signal.SIGTERM)
            rest = await process.stderr.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert b"left behind" in rest and b"channel mule" in rest
    assert not (tmp_path / "data" / "gateway.json").exists()
