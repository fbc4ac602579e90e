"""The agent of the script: a program that speaks ACP, and calls its tool over MCP, with the standard library alone.

    python -I -S agent.py LOG MEMORY

LOG: a line for each prompt, {"asked": [...], "resumes"}, written before anything is done about it, and for each call
of a tool, {"calls": name}. MEMORY: a directory; sessions can be loaded again, history first. Where its MCP process dies
it starts another and calls again, with no mark, as two real agents do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from proof.crash import script

LOG, MEMORY = Path(sys.argv[1]), Path(sys.argv[2])
NOTES = ("[semel: notes for you", "[semel: this conversation so far")
RESUMED, SAID, ASKED = "[semel: your turn goes on", "- already said", "- it was asked"
PACE = 0.04  # seconds between two pieces of streamed text: more than between two batches that are shown
Json = dict[str, Any]
count = 0


def tell(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def note(**line: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")


def fresh(kind: str) -> str:
    global count
    count += 1
    return f"{kind}-{os.getpid()}-{count}"


class Tools:
    """The MCP process of a session."""

    def __init__(self, spec: Json) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.ids = 0

    def call(self, name: str, arguments: Json) -> str:
        for _ in range(3):
            try:
                if self.process is None:
                    self._start()
                result = self._ask("tools/call", {"name": name, "arguments": arguments})
                return str(result["content"][0]["text"])
            except OSError:
                self.process = None
        return "the MCP process died again and again"

    def _start(self) -> None:
        env = {one["name"]: one["value"] for one in self.spec["env"]}
        self.process = subprocess.Popen(
            [self.spec["command"], *self.spec["args"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env},
        )  # fmt: skip
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "proof", "version": "1"}}
        self._ask("initialize", client)
        self._write({"method": "notifications/initialized"})

    def _ask(self, method: str, params: Json) -> Json:
        """Raises OSError where it died before it answered."""
        self.ids += 1
        self._write({"id": self.ids, "method": method, "params": params})
        assert self.process is not None and self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("id") == self.ids and "method" not in told:
                return dict(told["result"])
        self.process.wait()
        raise BrokenPipeError

    def _write(self, message: Json) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()


class Turn:
    """What is told in one prompt, and kept for the history as whole messages."""

    def __init__(self, session: str, blocks: Sequence[str]) -> None:
        self.session = session
        self.kept: list[Json] = []
        self.keep("user_message_chunk", "\n".join(blocks))

    def keep(self, kind: str, text: str) -> None:
        content = {"type": "text", "text": text}
        self.kept.append({"sessionUpdate": kind, "content": content, "messageId": fresh("kept")})

    def update(self, of: str, **fields: Any) -> None:
        tell(method="session/update", params={"sessionId": self.session, "update": {"sessionUpdate": of, **fields}})

    def say(self, text: str, chunks: int = 1) -> None:
        message = fresh("said")
        size = -(-len(text) // chunks)
        for at in range(0, len(text), size):
            if at:
                time.sleep(PACE)
            content = {"type": "text", "text": text[at : at + size]}
            self.update("agent_message_chunk", content=content, messageId=message)
        self.keep("agent_message_chunk", text)

    def call(self, name: str, arguments: Json) -> None:
        id = fresh("call")
        call = {"toolCallId": id, "title": f"mcp__semel__{name}", "kind": "other", "rawInput": arguments}
        self.update("tool_call", status="in_progress", **call)
        note(calls=name)
        told = tools[self.session].call(name, arguments)
        content = [{"type": "content", "content": {"type": "text", "text": told}}]
        self.update("tool_call_update", toolCallId=id, status="completed", content=content)
        self.kept.append({"sessionUpdate": "tool_call", "status": "completed", **call, "content": content})

    def save(self) -> None:
        with (MEMORY / self.session).open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in self.kept)


tools: dict[str, Tools] = {}


def quoted(line: str) -> str:
    """The text that stands quoted at the end of a line."""
    from ast import literal_eval  # seldom needed, and slow to load

    return str(literal_eval(line.partition(": ")[2]))


def prompt(session: str, blocks: Sequence[str]) -> None:
    new = [one for one in blocks if not one.startswith(NOTES)]
    resumes = any(one.startswith(RESUMED) for one in new)
    said: list[str] = []
    if resumes:
        lines = [line for one in new for line in one.splitlines()]
        said = [quoted(one) for one in lines if one.startswith(SAID)]
        new = [quoted(one) for one in lines if one.startswith(ASKED)]
    asked = script.marks("\n".join(new))
    note(asked=asked, resumes=resumes)
    if "copied" in asked:
        time.sleep(3600)  # at work, until it is killed
    turn = Turn(session, blocks)
    if "pair" in asked and script.LOOKING not in said:
        turn.say(script.LOOKING, 3)
    if "pair" in asked and not resumes:
        turn.call("send_message", {"text": script.SENT})
    if "job" in asked and not resumes:
        turn.call("run_in_background", {"command": f"echo ran >> {LOG.parent}/ran"})
    last = [piece for name in asked for piece in script.closing(name)]
    last = [piece for piece in last if piece == script.SENT or not any(text in piece for text in said)]
    if last:
        turn.say("\n".join(last), 2)
    turn.save()


def load(session: str) -> bool:
    if not (MEMORY / session).exists():
        return False
    for line in (MEMORY / session).read_text().splitlines():
        tell(method="session/update", params={"sessionId": session, "update": json.loads(line)})
    return True


def begin(session: str, params: Json) -> None:
    tools[session] = Tools(params["mcpServers"][0])


def handle(method: str, params: Json) -> Json:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        case "session/new":
            session = f"s-{os.urandom(8).hex()}"
            (MEMORY / session).touch()
            begin(session, params)
            return {"sessionId": session}
        case "session/load" if load(params["sessionId"]):
            begin(params["sessionId"], params)
            return {}
        case "session/prompt":
            prompt(params["sessionId"], [str(one.get("text", "")) for one in params["prompt"]])
            return {"stopReason": "end_turn"}
    raise LookupError(method)


def main() -> None:
    for line in sys.stdin.buffer:
        got = json.loads(line)
        if "id" not in got or "method" not in got:
            continue
        try:
            tell(id=got["id"], result=handle(got["method"], got.get("params") or {}))
        except LookupError:
            tell(id=got["id"], error={"code": -32601, "message": "no such method or session"})


if __name__ == "__main__":
    main()
