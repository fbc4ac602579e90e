"""An agent that answers with the markers it was given, and writes down every prompt; run as a program.

    python marking_agent.py LOG [MEMORY]

LOG: each prompt is a line {"pid", "blocks"}, written before anything is done about it. MEMORY: a directory; with it
sessions can be loaded again, history first. What it says depends only on the markers, so that a second attempt at a
turn says the same.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

MARK = re.compile(r"\bq\d+x\d+[ab]\b")
NOTES = ("[semel: notes for you", "[semel: this conversation so far")
RESUMED = "[semel: your turn goes on"
SAID, ASKED = "- already said: ", "- it was asked: "
LOG = Path(sys.argv[1])
MEMORY = Path(sys.argv[2]) if len(sys.argv) > 2 else None
Json = dict[str, Any]
count = 0


def tell(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def fresh(kind: str) -> str:
    global count
    count += 1
    return f"{kind}-{os.getpid()}-{count}"


class Turn:
    """What is told in one prompt, and kept for the history as whole messages."""

    def __init__(self, session: str, blocks: list[str]) -> None:
        self.session = session
        self.kept: list[Json] = []
        self.keep("user_message_chunk", "\n".join(blocks))

    def keep(self, kind: str, text: str) -> None:
        content = {"type": "text", "text": text}
        self.kept.append({"sessionUpdate": kind, "content": content, "messageId": fresh("kept")})

    def update(self, of: str, **fields: Any) -> None:
        tell(method="session/update", params={"sessionId": self.session, "update": {"sessionUpdate": of, **fields}})

    def say(self, text: str, chunks: int = 1, delay: float = 0.0) -> None:
        message = fresh("said")
        size = -(-len(text) // chunks)
        for at in range(0, len(text), size):
            content = {"type": "text", "text": text[at : at + size]}
            self.update("agent_message_chunk", content=content, messageId=message)
            time.sleep(delay)
        self.keep("agent_message_chunk", text)

    def think(self) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": "Hm."}, messageId=fresh("thought"))
        time.sleep(0.15)

    def work(self) -> None:
        call = {"toolCallId": fresh("call"), "title": "work", "kind": "execute"}
        self.update("tool_call", status="in_progress", **call)
        time.sleep(0.2)
        self.update("tool_call_update", toolCallId=call["toolCallId"], status="completed")
        self.kept.append({"sessionUpdate": "tool_call", "status": "completed", **call})

    def save(self) -> None:
        told, self.kept = self.kept, []
        if MEMORY is not None:
            with (MEMORY / self.session).open("a") as file:
                file.writelines(json.dumps(one) + "\n" for one in told)


def quoted(line: str, head: str) -> str:
    return str(ast.literal_eval(line[len(head) :]))


def answer(blocks: list[str]) -> tuple[str, bool]:
    """What is to be said, and whether it was said before."""
    new = [one for one in blocks if not one.startswith(NOTES)]
    said: list[str] = []
    if new and new[0].startswith(RESUMED):
        lines = new[0].splitlines()
        said = [quoted(one, SAID) for one in lines if one.startswith(SAID)]
        new = [quoted(one, ASKED) for one in lines if one.startswith(ASKED)]
    marks = [mark for one in new for mark in MARK.findall(one)]
    text = f"Seen: {' '.join(marks)}."
    return text, text in said


def style_of(text: str) -> int:
    """How it works is chance, too, and the same at each attempt. Tools only where a lost turn can be resumed."""
    return sum(map(ord, text)) % (5 if MEMORY else 3)


def prompt(session: str, blocks: list[str]) -> None:
    text, said = answer(blocks)
    turn = Turn(session, blocks)
    style = style_of(text)
    if said:
        return turn.save()
    if style == 2:
        turn.think()
        turn.say(text.replace("Seen:", "Looking at"))  # over once the next message begins: said, if it dies then
    if style == 3:
        turn.say("Let me look.")
    if style in (3, 4):
        turn.work()
    turn.say(text, *((12, 0.03) if style in (1, 2) else (3, 0.01)))
    turn.save()
    if style in (0, 4):
        time.sleep(0.25)  # its history has the answer, and nobody was told yet that the turn ended
    return None


def load(session: str) -> bool:
    if MEMORY is None or not (MEMORY / session).exists():
        return False
    for line in (MEMORY / session).read_text().splitlines():
        tell(method="session/update", params={"sessionId": session, "update": json.loads(line)})
    return True


def handle(id: Any, method: str, params: Json) -> Json:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {"loadSession": MEMORY is not None}}
        case "session/new":
            session = f"s-{os.urandom(8).hex()}"
            if MEMORY is not None:
                MEMORY.mkdir(exist_ok=True)
                (MEMORY / session).touch()
            return {"sessionId": session}
        case "session/load" if load(params["sessionId"]):
            return {}
        case "session/prompt":
            blocks = [str(one.get("text", "")) for one in params["prompt"]]
            with LOG.open("a") as file:
                file.write(json.dumps({"pid": os.getpid(), "blocks": blocks}) + "\n")
            prompt(params["sessionId"], blocks)
            return {"stopReason": "end_turn"}
    raise LookupError(method)


for line in sys.stdin.buffer:
    got = json.loads(line)
    if "id" not in got or "method" not in got:
        continue
    try:
        tell(id=got["id"], result=handle(got["id"], got["method"], got.get("params") or {}))
    except LookupError:
        tell(id=got["id"], error={"code": -32601, "message": "no such method or session"})
