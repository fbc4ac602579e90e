"""An agent that misbehaves as the messages say; run as a program, without Semel on its path.

    python unruly_agent.py ROOT [memory]

A message names a marker and a deed: "Please look at q12x7a die". Whatever the deed, a prompt is answered with
"Seen: " and its markers, in the end. ROOT/prompts holds a line for each prompt and each answer, ROOT/memory the
sessions, ROOT/once which deeds were done that are done once.

| deed | what it does before it answers |
|---|---|
| stream | twelve pieces of text, slowly |
| long | more text than fits into one message of a chat platform |
| die, exit | once: SIGKILL to itself, or exit code 3, in mid-stream |
| hang | once: nothing, for ever |
| deaf | nothing, for ever, and does not heed a cancellation |
| rubbish | lines that are no JSON, updates of no known shape, answers to what nobody asked |
| flood | 500 kB of a tool's output, 100 kB on stderr, a thought of 100 kB in one line |
| orphan | a child in a session of its own that outlives the prompt |
| again | says one thing twice, on purpose, with some work in between |
| tool | says something by `send_message` |
| echo | says its answer by `send_message`, and then once more |
| late | calls `send_message` when the prompt is answered already |
| reissue | kills its MCP process in mid-call, and calls again on a new one |
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = sys.argv[1]
sys.path.append(os.path.join(ROOT, "shared"))  # noqa: PTH118 - no pathlib: it is to start quickly

from marking_agent import After, Agent, Json, Turn  # noqa: E402

DEED = re.compile(r"\b(q\d+x\d+[ab]) ([a-z]+)")
NEVER = 10_000  # seconds


class Gone(Exception):
    """The MCP process ended before it answered."""


class Server:
    """The MCP process, as the session names it (MCP 2025-06-18)."""

    def __init__(self, spec: Json) -> None:
        import subprocess  # only where it is needed: the start is to be quick

        env = {one["name"]: one["value"] for one in spec.get("env", ())}
        self.process = subprocess.Popen(
            [spec["command"], *spec.get("args", ())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )  # fmt: skip
        self._ids = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "unruly", "version": "1"}}
        self.request("initialize", hello)

    def begin(self, method: str, params: Json) -> int:
        """Ask; the number of the request. Raises Gone."""
        self._ids += 1
        assert self.process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Gone from None
        return self._ids

    def request(self, method: str, params: Json, cut: bool = False) -> Json:
        """`cut`: the process is killed in the middle; what it had answered by then is read. Raises Gone."""
        number = self.begin(method, params)
        assert self.process.stdout is not None
        if cut:
            time.sleep(0.01)
            self.process.kill()
        for line in self.process.stdout:
            got = json.loads(line)
            if got.get("id") == number:
                return dict(got)
        raise Gone

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                assert pipe is not None
                pipe.close()
            except OSError:
                pass


class Tools:
    """`send_message`, as an agent calls it that starts a dead MCP process anew and asks again."""

    def __init__(self) -> None:
        self._server: Server | None = None

    def send(self, turn: Turn, call: Json, text: str, *, named: bool, cut: bool = False) -> None:
        """`named`: the call names its tool call. `cut`: the process is killed in the middle of the first one."""
        arguments = {"text": text}
        meta = {"_meta": {"claudecode/toolUseId": call["toolCallId"]}} if named else {}
        for _ in range(3):
            try:
                server = self._up(turn)
                server.request("tools/call", {"name": "send_message", "arguments": arguments, **meta}, cut)
                return
            except Gone:
                self.end()
                cut = False

    def _up(self, turn: Turn) -> Server:
        if self._server is None:
            self._server = Server(turn.agent.servers[0])
        return self._server

    def end(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None


TOOLS = Tools()


def once(mark: str, deed: str) -> bool:
    """Whether this is done for the first time, over all attempts."""
    try:
        os.close(os.open(os.path.join(ROOT, "once", f"{mark}.{deed}"), os.O_CREAT | os.O_EXCL))  # noqa: PTH118
    except FileExistsError:
        return False
    return True


def send(turn: Turn, text: str, **how: Any) -> Json | None:
    """Say it by a tool call that the stream tells of, unless a lost attempt said it."""
    if text in turn.said:
        return None
    call = turn.begin_call("mcp__semel__send_message", "other", rawInput={"text": text})
    TOOLS.send(turn, call, text, **how)
    turn.end_call(call)
    return call


# -------------------------------------------------------------------- the deeds


def die(turn: Turn, mark: str) -> None:
    if once(mark, "die"):
        turn.say(f"Dying over {mark} in the mid", 4, 0.02)
        os.kill(os.getpid(), signal.SIGKILL)


def exits(turn: Turn, mark: str) -> None:
    if once(mark, "exit"):
        turn.say(f"Leaving {mark} in the mid", 4, 0.02)
        sys.stderr.write("I cannot go on\n")
        sys.stderr.flush()
        os._exit(3)


def hang(turn: Turn, mark: str) -> None:
    if once(mark, "hang"):
        time.sleep(NEVER)


def deaf(turn: Turn, mark: str) -> None:
    turn.say(f"Busy with {mark} for")
    time.sleep(NEVER)


def rubbish(turn: Turn, mark: str) -> None:
    for line in (b"Welcome!", b"\xff\xfe\x00", b"{", b"[]", b"null", b"{}", b"[[[[", b'{"id":{"a":1}}', b""):
        turn.agent.raw(line)
    for kind in (None, 5, "unknown_kind", "agent_message_chunk", "tool_call_update", "plan"):
        for fields in ({}, {"content": [5]}, {"toolCallId": 5}, {"entries": [1, None, {"content": 5}]}):
            turn.update(kind, **fields)  # type: ignore[arg-type]
    turn.agent.tell(method="session/update", params=5)
    turn.agent.tell(id=12345, result={"stopReason": "end_turn"})
    turn.agent.tell(id=77, method="fs/read_text_file", params={"path": "/etc/passwd"})


def flood(turn: Turn, mark: str) -> None:
    call = turn.begin_call("flood")
    for _ in range(10):
        data = {"terminal_output": {"terminal_id": call["toolCallId"], "data": "x" * 50_000}}
        turn.update("tool_call_update", toolCallId=call["toolCallId"], _meta=data)
    turn.end_call(call)
    sys.stderr.write(("e" * 4000 + "\n") * 25)
    sys.stderr.flush()
    turn.update("agent_thought_chunk", content={"type": "text", "text": "z" * 100_000}, messageId=mark)


def orphan(turn: Turn, mark: str) -> None:
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", str(NEVER)])


def again(turn: Turn, mark: str) -> None:
    turn.say(f"Ha {mark}")
    turn.end_call(turn.begin_call())
    turn.say(f"Ha {mark}")


def tool(turn: Turn, mark: str) -> None:
    send(turn, f"Told: {mark}.", named=True)


def echo(turn: Turn, mark: str) -> None:
    if send(turn, turn.text, named=True):
        turn.said.append(turn.text)  # by the next deed it is said


def reissue(turn: Turn, mark: str) -> None:
    send(turn, f"Told: {mark}.", named=False, cut=True)


DEEDS: dict[str, Callable[[Turn, str], None]] = {
    "die": die, "exit": exits, "hang": hang, "deaf": deaf, "rubbish": rubbish, "flood": flood, "orphan": orphan,
    "again": again, "tool": tool, "echo": echo, "reissue": reissue,
}  # fmt: skip
STILL = ("tool", "reissue", "deaf")
"""What an attempt still does that goes on where another one broke off."""


def work(turn: Turn) -> After | None:
    deeds = [found for one in turn.asked for found in DEED.findall(one)]
    kinds = {deed for _, deed in deeds}
    if "long" in kinds:  # a full stop stands at the end alone
        turn.text = turn.text[:-1] + " and so it goes on and on" * 250 + "."
    answered = turn.text in turn.said
    for mark, deed in deeds:
        if deed in DEEDS and (not turn.resumed or deed in (STILL[:2] if answered else STILL)):
            DEEDS[deed](turn, mark)
    if answered:
        turn.save()
        return None
    late = [
        (turn.begin_call("mcp__semel__send_message", "other", rawInput={"text": f"Late: {mark}."}), mark)
        for mark, deed in deeds
        if deed == "late" and not turn.resumed
    ]
    turn.say(turn.text, *((12, 0.05) if "stream" in kinds else ()))
    turn.agent.note(answered=turn.marks)
    turn.save()
    return (lambda: say_late(turn, late)) if late else None


def say_late(turn: Turn, calls: list[tuple[Json, str]]) -> None:
    time.sleep(0.3)
    for call, mark in calls:
        TOOLS.send(turn, call, f"Late: {mark}.", named=True)
        turn.end_call(call)


if __name__ == "__main__":
    Agent(work, f"{ROOT}/prompts", f"{ROOT}/memory" if sys.argv[2:] else None).serve()
