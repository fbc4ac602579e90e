"""`semel acp` through a gateway: its start and memory, the latency that it adds, and what lists and loads cost.

Targets: `initialize` in 150 ms; 40 MB; p50 5 ms and p99 20 ms from the editor to the agent and from the agent to the
editor, p99 60 ms with 100 sessions; `session/list` p99 20 ms beside 10,000 sessions; `session/load` of 1,000 entries in
200 ms; the first prompt answered in 5 s if no gateway runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.house import Client, House, house, line, rss
from semel.testing import scripted_agent

Json = dict[str, Any]
STARTS, PROMPTS, LISTS, LOADS, SESSIONS = 20, 500, 200, 10, 10_000
AT_ONCE, PER_SECOND = 100, 50  # sessions of one editor, and their prompts
FIRST_PROMPTS = 5
LOADED_PROMPTS, ANSWERS = 100, 9  # of the session that is loaded: 1,000 entries, as a load shows at most 200 prompts
BLOCKS = [{"type": "text", "text": "ping"}]
INFO = {"clientInfo": {"name": "zed", "version": "1"}, "protocolVersion": 1}


class Editor:
    """An editor that has started `semel acp` beside a house. `took`: ms until `initialize` was answered."""

    def __init__(self, one: House, *options: str) -> None:
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semel", "acp", "--config", str(one.config), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._number = 0
        self.folder = str(one.root)
        self.call("initialize", **INFO)
        self.took = (time.monotonic() - begin) * 1000

    def call(self, method: str, **params: Any) -> tuple[Json, list[tuple[int, Json]]]:
        """Send a request. Returns its result, and what came before, each with its time in monotonic ns."""
        assert self.process.stdout
        self._send(method, **params)
        before: list[tuple[int, Json]] = []
        for text in self.process.stdout:
            at, answer = time.monotonic_ns(), json.loads(text)
            if answer.get("id") == self._number and "method" not in answer:
                return dict(answer["result"]), before
            before.append((at, answer))
        raise RuntimeError("semel acp has ended")

    def _send(self, method: str, **params: Any) -> int:
        assert self.process.stdin
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._number

    def new(self) -> str:
        return str(self.call("session/new", cwd=self.folder, mcpServers=[])[0]["sessionId"])

    def send_prompt(self, session: str, blocks: list[Json] = BLOCKS) -> list[tuple[int, Json]]:
        """Send a prompt and wait for its answer. Returns what came before the answer."""
        return self.call("session/prompt", sessionId=session, prompt=blocks)[1]

    def prompt(self, session: str) -> tuple[int, int, int]:
        """When a prompt was sent, when the agent had it, and when the editor had its answer."""
        sent = time.monotonic_ns()
        before = self.send_prompt(session)
        for at, message in before:
            if had := _read_pong(message):
                return sent, had, at
        raise RuntimeError("the agent did not answer")

    def prompt_many(self, sessions: list[str], count: int) -> list[tuple[int, int, int]]:
        """The same for so many prompts, PER_SECOND of them, in these sessions by turns."""
        assert self.process.stdout
        sent: dict[str, int] = {}

        def send() -> None:
            for number in range(count):
                session = sessions[number % len(sessions)]
                sent[session] = time.monotonic_ns()
                self._send("session/prompt", sessionId=session, prompt=BLOCKS)
                time.sleep(1 / PER_SECOND)

        sender = threading.Thread(target=send)
        sender.start()
        times: list[tuple[int, int, int]] = []
        while len(times) < count:
            text = self.process.stdout.readline()
            at, message = time.monotonic_ns(), json.loads(text)
            if had := _read_pong(message):
                times.append((sent[message["params"]["sessionId"]], had, at))
        sender.join()
        return times

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _read_pong(message: Json) -> int:
    """When the agent had the prompt, if this message is its answer; otherwise 0."""
    text = str(message.get("params", {}).get("update", {}).get("content", {}).get("text", ""))
    return int(text[5:]) if text.startswith("pong ") else 0


def _start(one: House) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = []
    for _ in range(STARTS):
        editor = Editor(one, "--no-start")
        took.append(editor.took)
        editor.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(line("start -> initialize is answered", took))
    print(f"CPU time of such a process: {used / STARTS:.3f} s", flush=True)


def _latency(editor: Editor) -> None:
    session = editor.new()
    _print_latency("", [editor.prompt(session) for _ in range(PROMPTS)])


def _print_latency(where: str, times: list[tuple[int, int, int]]) -> None:
    print(line(f"editor -> agent has the prompt{where}", [(had - sent) / 1e6 for sent, had, _ in times]))
    print(line(f"agent's text -> editor has it{where}", [(at - had) / 1e6 for _, had, at in times]), flush=True)


def _many_sessions() -> None:
    with house(live=AT_ONCE) as one:
        editor = Editor(one)
        sessions = [editor.new() for _ in range(AT_ONCE)]
        editor.prompt_many(sessions, AT_ONCE)
        _print_latency(f", {AT_ONCE} sessions", editor.prompt_many(sessions, PROMPTS))
        print(f"memory of semel acp with {AT_ONCE} sessions: {rss(editor.process.pid):.1f} MB", flush=True)
        editor.close()


def _first_prompt() -> None:
    """Without a gateway: from the editor's start of `semel acp` to the answer to its first prompt."""
    took = []
    for _ in range(FIRST_PROMPTS):
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
            one = House(Path(root))
            begin = time.monotonic()
            editor = Editor(one)
            editor.prompt(editor.new())
            took.append((time.monotonic() - begin) * 1000)
            editor.close()
            _stop_gateway(one)
    print(line("no gateway runs -> the first prompt is answered", took), flush=True)


def _stop_gateway(one: House) -> None:
    """Stop a gateway that an editor has started."""
    address = one.root / "data" / "gateway.json"
    pid = json.loads(address.read_text())["pid"]
    os.kill(pid, signal.SIGTERM)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)


def _load() -> None:
    with house(instant=False) as one:
        editor = Editor(one)
        session = _make_history(editor)
        took, shown = [], 0
        for _ in range(LOADS):
            begin = time.monotonic()
            _, before = editor.call("session/load", sessionId=session, cwd=editor.folder, mcpServers=[])
            took.append((time.monotonic() - begin) * 1000)
            shown = sum("messageId" in message["params"]["update"] for _, message in before)
        print(line(f"session/load: {shown} of {LOADED_PROMPTS * (ANSWERS + 1)} entries are shown", took), flush=True)
        editor.close()


def _make_history(editor: Editor) -> str:
    """Return a session with LOADED_PROMPTS prompts, each with ANSWERS messages of the agent."""
    session = editor.new()
    steps = [{"text": f"answer {number}", "message": f"m{number}"} for number in range(ANSWERS)]
    blocks = [{"type": "text", "text": scripted_agent.prompt(*steps)}]
    for _ in range(LOADED_PROMPTS):
        editor.send_prompt(session, blocks)
    return session


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
            _latency(editor)
            _list(one, editor)
            print(f"memory of semel acp afterwards: {rss(editor.process.pid):.1f} MB")
        finally:
            editor.close()
    _load()
    _many_sessions()
    _first_prompt()
