"""Agents that remember a turn as real ones were seen to: `python remembering_agent.py STATE WAY`.

Each session plays one turn, as its prompt says (a JSON object {"dies": [POINT, ...]} or {"waits": [POINT]}): it looks,
runs a tool, sends a message by Semel's tool and says how it went. POINTS name where it is killed, each time anew, or
waits to be killed. What its history holds then, and what it does when it is asked to go on, is the WAY:

    finished   what is finished is stored: a text once a tool call or the end comes behind it, a call once it has ended;
               calls of Semel's tools never (fast-agent, pi)
    items      each message of the model as it is whole, before all of it was streamed; calls as they begin (codex)
    halves     each chunk as it is streamed, and calls as they begin
    joined     each chunk as it is streamed, and no calls, so that texts come back in one piece; it sends what it looks
               at by Semel's tool first, and then says the same as text
    late       a turn is stored with its end: the history ends before it (gemini, vibe)
    other ids  as `finished`, and a load tells everything under new ids (hermes, kimi)
    after      as `items`, and the history comes behind the answer to the load (gemini)
    again      as `items`; where it goes on, it says its closing text once more from the beginning
    silent     as `items`; where it goes on, it ends without a word

Where it goes on it is as careful as a model can be: it does what neither its memory nor its prompt says was done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from semel.testing.scripted_agent.rpc import StdioMcpServer

Json = dict[str, Any]
STATE, WAY = (Path(sys.argv[1]), sys.argv[2]) if __name__ == "__main__" else (Path(), "")
NAME = {"items": "@agentclientprotocol/codex-acp", "after": "gemini-cli", "finished": "pi-acp"}.get(WAY, WAY)
LOOK, SENT, DONE = "Let me look at it. ", "The report is sent.", "All of it is done, and the result is 42."
POINTS = ("in the text", "tool runs", "tool ended", "sent", "in the answer", "answered")
GOES_ON = "[semel: your turn goes on"


def tell(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


class Turn:
    """One prompt of a session. `past`: what its memory held before."""

    def __init__(self, session: str, text: str, spec: Json) -> None:
        self.session, self.spec, self.path = session, spec, STATE / f"{session}.history"
        self.past = self.path.read_text() if self.path.exists() else ""
        self.text = text
        self.goes_on = GOES_ON in text
        told = (STATE / f"{session}.asked").read_text() if self.goes_on else text
        self.plan: Json = json.loads(told[told.index("{") : told.rindex("}") + 1])
        if not self.goes_on:
            (STATE / f"{session}.asked").write_text(json.dumps(self.plan))
        self.kept: list[Json] = []
        self.keep("user_message_chunk", text)

    # ---- memory

    def keep(self, kind: str, text: str) -> None:
        self.store({"sessionUpdate": kind, "content": {"type": "text", "text": text}, **self.identity(text)})

    def identity(self, text: str) -> Json:
        """Codex names each message, and by the same id in its history."""
        return {"messageId": f"msg-{len(text)}"} if WAY == "items" else {}

    def store(self, update: Json) -> None:
        self.kept.append(update)
        if WAY != "late":
            self.save()

    def save(self) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in self.kept)
        self.kept = []

    def knows(self, what: str) -> bool:
        """Whether its memory, or its prompt, says that this was said or done."""
        return what.strip() in self.past or (self.goes_on and what.strip() in self.text)

    # ---- death

    def at(self, point: str) -> None:
        """This point is reached: it is told, and the agent dies there, or waits for its death."""
        deaths = STATE / f"{self.session}.deaths"
        died = len(deaths.read_text()) if deaths.exists() else 0
        points = self.plan.get("dies") or self.plan.get("waits") or []
        if point not in points[died : died + 1]:
            return
        deaths.write_text("x" * (died + 1))
        if "dies" in self.plan:
            time.sleep(0.15)  # so that what was streamed is recorded
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)

    # ---- the work

    def update(self, of: str, **fields: Any) -> None:
        tell(method="session/update", params={"sessionId": self.session, "update": {"sessionUpdate": of, **fields}})

    def say(self, text: str, point: str, *, whole: bool = True) -> None:
        """Stream a text in two chunks; `whole`: it is over with that."""
        if WAY in ("items", "after", "again", "silent"):
            self.keep("agent_message_chunk", text)
        for n, piece in enumerate((text[: len(text) // 2], text[len(text) // 2 :])):
            self.update("agent_message_chunk", content={"type": "text", "text": piece}, **self.identity(text))
            if WAY in ("halves", "joined"):
                self.keep("agent_message_chunk", piece)
            if n == 0:
                self.at(point)
        self.unfinished = text if WAY in ("finished", "other ids", "late") else ""

    def settle(self) -> None:
        """The text before is over."""
        if self.unfinished:
            self.keep("agent_message_chunk", self.unfinished)
        self.unfinished = ""

    def call(self, id: str, title: str, given: Json, point: str, ended: str, do: Any) -> None:
        call = {"toolCallId": f"{self.session}-{id}", "title": title, "kind": "execute", "rawInput": given}
        self.update("tool_call", status="in_progress", **call)
        self.settle()
        if WAY not in ("finished", "other ids", "late", "joined"):
            self.store({"sessionUpdate": "tool_call", "status": "in_progress", **call})
        self.at(point)
        do()
        self.update("tool_call_update", toolCallId=call["toolCallId"], status="completed")
        if WAY != "joined" and (WAY != "finished" or id != "send"):
            self.store({"sessionUpdate": "tool_call", "status": "completed", **call})
        self.at(ended)

    def run(self) -> None:
        self.unfinished = ""
        if self.goes_on and WAY == "silent":
            return
        if not self.knows(LOOK):
            if WAY == "joined":
                self.call("look", "mcp__semel__send_message", {"text": LOOK.strip()}, "", "", lambda: self.send(LOOK))
            self.say(LOOK, "in the text")
        if not self.knows("work.sh"):
            self.call("tool", "work.sh", {"command": "work.sh"}, "tool runs", "tool ended", self.work)
        if not self.knows(SENT):
            self.call("send", "mcp__semel__send_message", {"text": SENT}, "", "sent", self.send)
        if not self.knows(DONE) or (self.goes_on and WAY == "again"):
            self.say(DONE, "in the answer")
        self.at("answered")
        self.settle()

    def work(self) -> None:
        with (STATE / f"{self.session}.ran").open("a") as file:
            file.write("ran\n")

    def send(self, text: str = SENT) -> None:
        StdioMcpServer(self.spec).call("send_message", {"text": text.strip()}, None)


def load(session: str) -> None:
    path = STATE / f"{session}.history"
    for n, line in enumerate(path.read_text().splitlines() if path.exists() else ()):
        update = json.loads(line)
        if WAY == "other ids" and "toolCallId" in update:
            update["toolCallId"] = f"again-{n}"
        tell(method="session/update", params={"sessionId": session, "update": update})


def main() -> None:
    specs: dict[str, Json] = {}
    for line in sys.stdin:
        got = json.loads(line)
        params, result = got.get("params") or {}, {}
        session = params.get("sessionId", "")
        match got.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentInfo": {"name": NAME, "version": "1"}}
                result["agentCapabilities"] = {"loadSession": True}
            case "session/new":
                session = os.urandom(6).hex()
                specs[session] = params["mcpServers"][0]
                result = {"sessionId": session}
            case "session/load":
                specs[session] = params["mcpServers"][0]
                if WAY != "after":
                    load(session)
            case "session/prompt":
                text = "\n".join(str(one.get("text", "")) for one in params["prompt"])
                turn = Turn(session, text, specs[session])
                turn.run()
                turn.save()
                result = {"stopReason": "end_turn"}
        if "id" in got:
            tell(id=got["id"], result=result)
        if got.get("method") == "session/load" and WAY == "after":
            load(session)


if __name__ == "__main__":
    main()
