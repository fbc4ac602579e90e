"""The agent side of ACP v1: initialize, sessions, prompts, cancel, modes and models.

The main thread reads and answers messages; each turn runs in a thread of its own (`turn.py`). A prompt that arrives
during a turn joins it (steering), and both prompts get the same answer.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.agents.demo import script, words
from semel.agents.demo.mcp import Cancelled, Server
from semel.agents.demo.memory import Memory
from semel.agents.demo.rpc import Client, Json
from semel.agents.demo.turn import PromptEnded, PromptFailed, Turn

NAME = "semel-demo"
MODES = [
    {"id": "auto", "name": "Auto", "description": "Runs its tools without asking"},
    {"id": "ask", "name": "Ask", "description": "Asks before it runs a tool"},
]
MODELS = [
    {"value": "demo-brisk", "name": "Demo, brisk"},
    {"value": "demo-slow", "name": "Demo, slow", "description": "Streams ten times slower"},
]


class Refused(Exception):
    """A request of the client is invalid; it is answered with this JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Options:
    """The agent's options, from the command line or the environment (`__main__`)."""

    state: Path
    script: str | None = None
    log: Path | None = None
    instant: bool = False
    name: str = NAME


class Session:
    """One session: its memory, its MCP servers and its running turn."""

    def __init__(self, client: Client, memory: Memory, servers: list[Json]) -> None:
        self.client = client
        self.memory = memory
        self.mode = "auto"
        self.model = "demo-brisk"
        self.turn: Turn | None = None
        self._specs = servers
        self._servers: list[Server] = []
        self._lock = threading.Lock()

    def emit(self, update: Json) -> None:
        params = {"sessionId": self.memory.session, "update": update}
        self.client.send({"method": "session/update", "params": params})

    def ask(self, method: str, params: Json) -> Json:
        return self.client.ask(method, {"sessionId": self.memory.session, **params})

    def server(self, tool: str, name: str | None) -> Server:
        """The server that has this tool; starts the servers if none runs. Raises LookupError or OSError."""
        with self._lock:
            if not self._servers:
                self._servers = [Server(one) for one in self._specs if "command" in one]
            for server in self._servers:
                if (name is None or server.name == name) and server.has(tool):
                    return server
        raise LookupError(f"no MCP server of this session has a tool {tool!r}")

    def stop_servers(self, kill: bool = False) -> None:
        with self._lock:
            servers, self._servers = self._servers, []
        for server in servers:
            server.stop(kill)

    def offers(self) -> Json:
        """Modes and configuration options, in the format of the answers to session/new and session/load."""
        model = {"id": "model", "name": "Model", "category": "model", "type": "select"}
        return {
            "modes": {"currentModeId": self.mode, "availableModes": MODES},
            "configOptions": [{**model, "currentValue": self.model, "options": MODELS}],
        }


class DemoAgent:
    """Answers the client's messages. Prompts run in threads; everything else is answered at once."""

    def __init__(self, options: Options) -> None:
        self.client = Client()
        self.options = options
        self.sessions: dict[str, Session] = {}
        self._methods = {
            "initialize": self.initialize,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_option,
        }

    def handle(self, message: Json) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self.client.answered(message)
        elif method == "session/prompt":
            self.prompt(message["id"], params)
        elif method == "session/cancel":
            session = self.sessions.get(params.get("sessionId", ""))
            if session and session.turn:
                session.turn.cancelled.set()
        elif "id" in message:
            self._answer(message["id"], method, params)

    def close(self) -> None:
        for session in self.sessions.values():
            session.stop_servers()

    def _answer(self, id: Any, method: str, params: Json) -> None:
        try:
            if method not in self._methods:
                raise Refused(-32601, f"method not found: {method}")
            self.client.send({"id": id, "result": self._methods[method](params)})
        except Refused as error:
            self.client.send({"id": id, "error": {"code": error.code, "message": str(error)}})

    # ---------------------------------------------------------------- requests

    def initialize(self, params: Json) -> Json:
        capabilities = {
            "loadSession": True,
            "promptCapabilities": {"embeddedContext": True},
            "sessionCapabilities": {"resume": {}},
        }
        info = {"name": self.options.name, "title": "Semel's demo agent", "version": "1"}
        return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": []}

    def new(self, params: Json) -> Json:
        session = self._open(Memory.fresh(self.options.state), params)
        return {"sessionId": session.memory.session, **session.offers()}

    def load(self, params: Json) -> Json:
        """Replay the history before the answer, as real agents do; nothing else marks it as replay."""
        session = self._restore(params)
        for update in session.memory.history():
            session.emit(update)
        return session.offers()

    def resume(self, params: Json) -> Json:
        return self._restore(params).offers()

    def set_mode(self, params: Json) -> Json:
        session = self._session(params)
        if params.get("modeId") not in {one["id"] for one in MODES}:
            raise Refused(-32602, f"no mode {params.get('modeId')!r}")
        session.mode = params["modeId"]
        return {}

    def set_option(self, params: Json) -> Json:
        session = self._session(params)
        known = {one["value"] for one in MODELS}
        if params.get("configId") != "model" or params.get("value") not in known:
            raise Refused(-32602, f"no option {params.get('configId')!r} = {params.get('value')!r}")
        session.model = params["value"]
        return {"configOptions": session.offers()["configOptions"]}

    def _open(self, memory: Memory, params: Json) -> Session:
        session = Session(self.client, memory, params.get("mcpServers") or [])
        self.sessions[memory.session] = session
        return session

    def _restore(self, params: Json) -> Session:
        memory = Memory.existing(self.options.state, str(params.get("sessionId")))
        if memory is None:
            raise Refused(-32002, f"no session {params.get('sessionId')!r}")
        return self._open(memory, params)

    def _session(self, params: Json) -> Session:
        session = self.sessions.get(str(params.get("sessionId")))
        if session is None:
            raise Refused(-32602, f"no session {params.get('sessionId')!r}")
        return session

    # ---------------------------------------------------------------- prompts

    def prompt(self, id: Any, params: Json) -> None:
        heard = time.monotonic_ns()
        try:
            session = self._session(params)
        except Refused as error:
            self.client.send({"id": id, "error": {"code": error.code, "message": str(error)}})
            return
        text = "\n".join(str(one.get("text", "")) for one in params.get("prompt", []) if isinstance(one, dict))
        if self.options.log:
            with self.options.log.open("a") as file:
                file.write(json.dumps({"session": session.memory.session, "heard": heard, "text": text}) + "\n")
        if self.options.instant:
            self._instant(id, session, heard)
            return
        if session.turn is not None and session.turn.join(id, text):
            return  # steered: the running turn does what it asks for and answers it
        session.turn = Turn(session, text)
        threading.Thread(target=self._run, args=(id, session, session.turn), daemon=True).start()

    def _instant(self, id: Any, session: Session, heard: int) -> None:
        """For benchmarks: answer at once with `pong N`; N is time.monotonic_ns() when the prompt was read."""
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"pong {heard}"},
        }
        params = {"sessionId": session.memory.session, "update": update}
        done = {"id": id, "result": {"stopReason": "end_turn"}}
        self.client.send({"method": "session/update", "params": params}, done)

    def _run(self, id: Any, session: Session, turn: Turn) -> None:
        answer: Json = {}
        try:
            asked: str | None = turn.prompt
            while asked is not None:
                chosen = self._script(session, asked)
                steps = self._steps(session, chosen)
                if session.model == "demo-slow":
                    steps = [_slower(one) for one in steps]
                answer = {"result": {"stopReason": chosen.get("stop", "end_turn"), "_meta": chosen.get("meta", {})}}
                turn.run(steps)
                asked = turn.next()
        except Cancelled:
            answer = {"result": {"stopReason": "cancelled"}}
        except PromptEnded as ended:
            answer = {"result": {"stopReason": str(ended)}}
        except PromptFailed as failed:
            answer = {"error": failed.error}
        except Exception as error:  # whatever is wrong with a script, the prompt must end
            answer = {"error": {"code": -32602, "message": f"the script cannot be read: {error!r}"}}
        joined = turn.close()
        turn.save(answer.get("result", {}).get("stopReason", "error"))
        if session.turn is turn:
            session.turn = None
        for one in (id, *joined):
            self.client.send({"id": one, **answer})

    def _script(self, session: Session, text: str) -> Json:
        written = script.strip_marked_text(text)
        found = script.find_in_prompt(written)
        if found is None and self.options.script:
            found = script.find_in_file(self.options.script, text)
        if found is not None:
            session.memory.set_resume(found.get("resume"))
            return found
        return {"steps": session.memory.take_resume() or words.steps_for(written or script.told(text))}

    def _steps(self, session: Session, chosen: Json) -> list[Any]:
        if "attempts" not in chosen:
            return list(chosen.get("steps", []))
        attempts = chosen["attempts"]
        return list(attempts[min(session.memory.attempt(chosen), len(attempts) - 1)])


def _slower(step: Any) -> Any:
    return {**step, "delay": step["delay"] * 10} if isinstance(step, dict) and "delay" in step else step
