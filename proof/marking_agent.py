"""An agent that answers with the markers it was given, and writes down every prompt; run as a program.

    python marking_agent.py LOG [MEMORY]

LOG: each prompt is a line {"pid", "at", "blocks"}, written before anything is done about it; `at` is the monotonic
clock in ns. MEMORY: a directory; with it sessions can be loaded again, history first. What it says depends only on the
markers, so that a second attempt at a turn says the same. It starts in 25 ms, and holds 10 MB.

An agent that works otherwise is `Agent(work, LOG, MEMORY).serve()`: `work(turn)` tells what is to be told, and may
return what is to be done once the prompt is answered.
"""

# ruff: noqa: PTH103, PTH110, PTH118, PTH123
from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any  # and no pathlib: without it a start takes half the time

MARK = re.compile(r"\bq\d+x\d+[ab]\b")
NOTES = ("[semel: notes for you", "[semel: this conversation so far")
RESUMED = "[semel: your turn goes on"
SAID, ASKED = "- already said", "- it was asked"
Json = dict[str, Any]
After = Callable[[], None]


def quoted(line: str) -> str:
    """The text that stands quoted at the end of a line."""
    import ast  # rarely needed, and the start is to be quick

    return str(ast.literal_eval(line.partition(": ")[2]))


def questions(blocks: list[str]) -> list[str]:
    """What a prompt asks about; notes and what was said already are no question."""
    new = [one for one in blocks if not one.startswith(NOTES)]
    if new and new[0].startswith(RESUMED):
        return [quoted(line) for line in new[0].splitlines() if line.startswith(ASKED)]
    return new


class Turn:
    """One prompt: `asked`, the `marks` in it, the `text` that answers it, and what was `said` of it before.

    What is told is kept, for the history, as whole messages.
    """

    def __init__(self, agent: Agent, session: str, blocks: list[str]) -> None:
        self.agent = agent
        self.session = session
        self.asked = questions(blocks)
        self.marks = [mark for one in self.asked for mark in MARK.findall(one)]
        self.text = f"Seen: {' '.join(self.marks)}."
        self.resumed = any(one.startswith(RESUMED) for one in blocks)
        lines = [line for one in blocks if one.startswith(RESUMED) for line in one.splitlines()]
        self.said = [quoted(line) for line in lines if line.startswith(SAID)]
        self._kept: list[Json] = []
        self.keep("user_message_chunk", "\n".join(blocks))

    def keep(self, kind: str, text: str) -> None:
        content = {"type": "text", "text": text}
        self._kept.append({"sessionUpdate": kind, "content": content, "messageId": self.agent.fresh("kept")})

    def update(self, of: str, **fields: Any) -> None:
        update = {"sessionUpdate": of, **fields}
        self.agent.tell(method="session/update", params={"sessionId": self.session, "update": update})

    def say(self, text: str, chunks: int = 1, delay: float = 0.0) -> None:
        """A whole message, in so many pieces, with `delay` seconds behind each."""
        message = self.agent.fresh("said")
        size = -(-len(text) // chunks)
        for at in range(0, len(text), size):
            content = {"type": "text", "text": text[at : at + size]}
            self.update("agent_message_chunk", content=content, messageId=message)
            time.sleep(delay)
        self.keep("agent_message_chunk", text)

    def think(self) -> None:
        self.update(
            "agent_thought_chunk", content={"type": "text", "text": "Hm."}, messageId=self.agent.fresh("thought")
        )
        time.sleep(0.15)

    def begin_call(self, title: str = "work", kind: str = "execute", **more: Any) -> Json:
        call = {"toolCallId": self.agent.fresh("call"), "title": title, "kind": kind, **more}
        self.update("tool_call", status="in_progress", **call)
        return call

    def end_call(self, call: Json) -> None:
        self.update("tool_call_update", toolCallId=call["toolCallId"], status="completed")
        self._kept.append({"sessionUpdate": "tool_call", "status": "completed", **call})

    def save(self) -> None:
        told, self._kept = self._kept, []
        if self.agent.memory is not None:
            with open(os.path.join(self.agent.memory, self.session), "a") as file:
                file.writelines(json.dumps(one) + "\n" for one in told)


class Agent:
    """The wire, on stdin and stdout, one prompt at a time: a cancellation is read once the prompt is answered."""

    def __init__(self, work: Callable[[Turn], After | None], log: str, memory: str | None) -> None:
        self.work, self.log, self.memory = work, log, memory
        self.servers: list[Json] = []  # as the session was opened with
        self._count = 0

    def tell(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def raw(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def fresh(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{os.getpid()}-{self._count}"

    def note(self, **line: Any) -> None:
        """A line of the log."""
        told = json.dumps({"pid": os.getpid(), "at": time.monotonic_ns(), **line}) + "\n"
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(log, told.encode())  # in one piece: others write there, too
        os.close(log)

    def serve(self) -> None:
        """Until stdin ends."""
        for line in sys.stdin.buffer:
            got = json.loads(line)
            if "id" not in got or "method" not in got:
                continue
            try:
                result, after = self._handle(got["method"], got.get("params") or {})
                self.tell(id=got["id"], result=result)
            except LookupError:
                self.tell(id=got["id"], error={"code": -32601, "message": "no such method or session"})
                continue
            if after is not None:
                after()

    def _handle(self, method: str, params: Json) -> tuple[Json, After | None]:
        match method:
            case "initialize":
                return {"protocolVersion": 1, "agentCapabilities": {"loadSession": self.memory is not None}}, None
            case "session/new":
                self.servers = params.get("mcpServers") or []
                return {"sessionId": self._new()}, None
            case "session/load" if self._load(params["sessionId"]):
                self.servers = params.get("mcpServers") or []
                return {}, None
            case "session/prompt":
                blocks = [str(one.get("text", "")) for one in params["prompt"]]
                self.note(blocks=blocks)
                return {"stopReason": "end_turn"}, self.work(Turn(self, params["sessionId"], blocks))
        raise LookupError(method)

    def _new(self) -> str:
        session = f"s-{os.urandom(8).hex()}"
        if self.memory is not None:
            os.makedirs(self.memory, exist_ok=True)
            with open(os.path.join(self.memory, session), "w"):
                pass
        return session

    def _load(self, session: str) -> bool:
        path = os.path.join(self.memory or "", session)
        if self.memory is None or not os.path.exists(path):
            return False
        with open(path) as file:
            for line in file:
                self.tell(method="session/update", params={"sessionId": session, "update": json.loads(line)})
        return True


def work(turn: Turn) -> None:
    """How it works is chance, too, and the same at each attempt. Tools only where a lost turn can be resumed."""
    if turn.text in turn.said:
        return turn.save()
    style = sum(map(ord, turn.text)) % (5 if turn.agent.memory else 3)
    if style == 2:
        turn.think()
        turn.say(turn.text.replace("Seen:", "Looking at"))  # over once the next message begins: said, if it dies then
    if style == 3:
        turn.say("Let me look.")
    if style in (3, 4):
        call = turn.begin_call()
        time.sleep(0.2)
        turn.end_call(call)
    turn.say(turn.text, *((12, 0.03) if style in (1, 2) else (3, 0.01)))
    turn.save()
    if style in (0, 4):
        time.sleep(0.25)  # its history has the answer, and nobody was told yet that the turn ended
    return None


if __name__ == "__main__":
    Agent(work, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None).serve()
