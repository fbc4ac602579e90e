"""`semel acp` through a gateway: its start and memory, the latency that it adds, and what lists and loads cost.

Targets: `initialize` in 150 ms; 40 MB; p50 5 ms and p99 20 ms from the editor to the agent and from the agent to the
editor; `session/list` p99 20 ms beside 10,000 sessions; `session/load` of 1,000 entries in 200 ms.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import Any

from bench.house import Client, House, house, line, rss

Json = dict[str, Any]
STARTS, PROMPTS, LISTS, LOADS, SESSIONS = 20, 500, 200, 10, 10_000
INFO = {"clientInfo": {"name": "zed", "version": "1"}, "protocolVersion": 1}


class Editor:
    """An editor that has started `semel acp` beside a house. `took`: ms until `initialize` was answered."""

    def __init__(self, one: House) -> None:
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semel", "acp", "--no-start", "--config", str(one.config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0
        self.folder = str(one.root)
        self.call("initialize", **INFO)
        self.took = (time.monotonic() - begin) * 1000

    def call(self, method: str, **params: Any) -> tuple[Json, list[tuple[int, Json]]]:
        """Send a request. Returns its result, and what came before, each with its time in monotonic ns."""
        assert self.process.stdin and self.process.stdout
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        before: list[tuple[int, Json]] = []
        for text in self.process.stdout:
            at, answer = time.monotonic_ns(), json.loads(text)
            if answer.get("id") == self._number and "method" not in answer:
                return dict(answer["result"]), before
            before.append((at, answer))
        raise RuntimeError("semel acp has ended")

    def new(self) -> str:
        return str(self.call("session/new", cwd=self.folder, mcpServers=[])[0]["sessionId"])

    def prompt(self, session: str) -> tuple[int, int, int]:
        """When a prompt was sent, when the agent had it, and when the editor had its answer."""
        sent = time.monotonic_ns()
        blocks = [{"type": "text", "text": "ping"}]
        _, before = self.call("session/prompt", sessionId=session, prompt=blocks)
        for at, message in before:
            text = str(message["params"]["update"].get("content", {}).get("text", ""))
            if text.startswith("pong "):
                return sent, int(text[5:]), at
        raise RuntimeError("the agent did not answer")

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _start(one: House) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = []
    for _ in range(STARTS):
        editor = Editor(one)
        took.append(editor.took)
        editor.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(line("start -> initialize is answered", took))
    print(f"CPU time of such a process: {used / STARTS:.3f} s", flush=True)


def _latency(editor: Editor) -> str:
    session = editor.new()
    times = [editor.prompt(session) for _ in range(PROMPTS)]
    print(line("editor -> agent has the prompt", [(had - sent) / 1e6 for sent, had, _ in times]))
    print(line("agent's text -> editor has it", [(at - had) / 1e6 for _, had, at in times]), flush=True)
    return session


def _load(editor: Editor, session: str) -> None:
    took = []
    for _ in range(LOADS):
        begin = time.monotonic()
        _, before = editor.call("session/load", sessionId=session, cwd=editor.folder, mcpServers=[])
        took.append((time.monotonic() - begin) * 1000)
        shown = sum("messageId" in message["params"]["update"] for _, message in before)
    print(line(f"session/load: {shown} of {2 * PROMPTS} entries are shown", took), flush=True)


async def _make_sessions(one: House) -> None:
    client = await Client(one.port).open()
    for number in range(SESSIONS):
        status, _, _ = await client.request("PUT", f"/v1/sessions/demo:bench:{number}", b"{}")
        if status != 201:
            raise RuntimeError(f"no session was made: HTTP {status}")
    client.close()


def _list(one: House, editor: Editor) -> None:
    asyncio.run(_make_sessions(one))
    folders = {
        "": {},
        " by folder": {"cwd": editor.folder},
        " of the agent's workspace": {"cwd": str(one.root / "work")},
    }
    for name, where in folders.items():
        took = []
        for _ in range(LISTS):
            begin = time.monotonic()
            editor.call("session/list", **where)
            took.append((time.monotonic() - begin) * 1000)
        print(line(f"session/list{name}, {SESSIONS} sessions", took), flush=True)


def main() -> None:
    with house() as one:
        _start(one)
        editor = Editor(one)
        try:
            session = _latency(editor)
            _load(editor, session)
            _list(one, editor)
            print(f"memory of semel acp afterwards: {rss(editor.process.pid):.1f} MB")
        finally:
            editor.close()
