"""`python -m semel.testing.scripted_agent`: the agent side of ACP v1; `command` describes the options.

The main thread reads and answers messages; each turn runs in a thread of its own (`turn.py`). A prompt that arrives
during a turn joins it (steering), and both prompts get the same answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from getopt import GetoptError, getopt
from pathlib import Path
from typing import Any, NamedTuple

from semel.testing.scripted_agent import script
from semel.testing.scripted_agent.memory import AgentMemory
from semel.testing.scripted_agent.rpc import Cancelled, Json, Peer
from semel.testing.scripted_agent.turn import MODES, OPTIONS, PromptEnded, PromptFailed, Session, Turn

NAME = "semel-demo"  # the gateway's profile for this name: prompts can steer it, its history marks the ends of turns


class Refused(Exception):
    """A request from the client is invalid, and this JSON-RPC error answers it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Options(NamedTuple):
    """The options on the command line; `scripted_agent.command` describes them."""

    state: Path
    script: Path | None
    log: Path | None
    name: str
    instant: bool
    mcp: str


class ScriptedAgent:
    """Answers the client's messages. Prompts run in threads; everything else is answered at once."""

    def __init__(self, options: Options) -> None:
        self.client = Peer(sys.stdin.buffer, sys.stdout.buffer)
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

    def serve(self) -> None:
        """Answer the client until it closes our stdin."""
        for message in self.client.read_requests():
            self._handle(message)
        for session in self.sessions.values():
            session.stop_servers()

    def _handle(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "session/prompt":
            self.prompt(message["id"], params)
        elif method == "session/cancel":
            session = self.sessions.get(params.get("sessionId", ""))
            if session and session.turn:
                session.turn.cancelled.set()
        elif "id" in message:
            self._answer(message["id"], method, params)

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
            "mcpCapabilities": {"http": self.options.mcp == "http"},
        }
        info = {"name": self.options.name, "title": "Semel's scripted agent", "version": "1"}
        return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": []}

    def new(self, params: Json) -> Json:
        session = self._open(AgentMemory.fresh(self.options.state), params)
        return {"sessionId": session.memory.session, **session.offers()}

    def load(self, params: Json) -> Json:
        """Send the history, then answer session/load, as real agents do. Nothing else marks the history as a replay."""
        session = self._restore(params)
        for update in session.memory.history():
            session.emit(update)
        return session.offers()

    def resume(self, params: Json) -> Json:
        return self._restore(params).offers()

    def set_mode(self, params: Json) -> Json:
        session = self._session(params)
        if params.get("modeId") not in {mode["id"] for mode in MODES}:
            raise Refused(-32602, f"no mode {params.get('modeId')!r}")
        session.mode = params["modeId"]
        return {}

    def set_option(self, params: Json) -> Json:
        session = self._session(params)
        option = next((option for option in OPTIONS if option["id"] == params.get("configId")), {})
        values = [choice["value"] for choice in option["options"]] if "options" in option else [False, True]
        if not option or params.get("value") not in values:
            raise Refused(-32602, f"no option {params.get('configId')!r} = {params.get('value')!r}")
        session.values[option["id"]] = params["value"]
        return {"configOptions": session.offers()["configOptions"]}

    def _open(self, memory: AgentMemory, params: Json) -> Session:
        session = Session(self.client, memory, self._choose_servers(params.get("mcpServers") or []))
        self.sessions[memory.session] = session
        return session

    def _choose_servers(self, specs: list[Json]) -> list[Json]:
        """Return the MCP servers that the session uses. Raises Refused if the agent takes none."""
        if self.options.mcp == "refused" and specs:
            raise Refused(-32602, "per-session mcpServers are not supported")
        return [spec for spec in specs if self.options.mcp == ("stdio" if "command" in spec else "http")]

    def _restore(self, params: Json) -> Session:
        memory = AgentMemory.existing(self.options.state, str(params.get("sessionId")))
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
        read_at = time.monotonic_ns()
        try:
            session = self._session(params)
        except Refused as error:
            self.client.send({"id": id, "error": {"code": error.code, "message": str(error)}})
            return
        text = "\n".join(str(block.get("text", "")) for block in params.get("prompt", []) if isinstance(block, dict))
        if self.options.log:
            with self.options.log.open("a") as file:
                file.write(json.dumps({"session": session.memory.session, "heard": read_at, "text": text}) + "\n")
        if self.options.instant:
            self._instant(id, session, read_at)
            return
        if session.turn is not None and session.turn.join(id, text):
            return  # steered: the running turn runs this prompt's steps and answers it
        session.turn = Turn(session, text)
        threading.Thread(target=self._run, args=(id, session, session.turn), daemon=True).start()

    def _instant(self, id: Any, session: Session, read_at: int) -> None:
        """Answer at once with `pong N`, where N is `read_at`, the time.monotonic_ns() of reading (for benchmarks)."""
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"pong {read_at}"},
        }
        params = {"sessionId": session.memory.session, "update": update}
        answer = {"id": id, "result": {"stopReason": "end_turn"}}
        self.client.send({"method": "session/update", "params": params}, answer)

    def _run(self, id: Any, session: Session, turn: Turn) -> None:
        answer: Json = {}
        try:
            prompt: str | None = turn.prompt
            while prompt is not None:
                chosen = self._script(session, prompt)
                steps = self._steps(session, chosen)
                answer = {"result": {"stopReason": chosen.get("stop", "end_turn"), "_meta": chosen.get("meta", {})}}
                turn.run(steps)
                prompt = turn.next()
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
        for prompt_id in (id, *joined):
            self.client.send({"id": prompt_id, **answer})

    def _script(self, session: Session, text: str) -> Json:
        written = script.strip_marked_text(text)
        chosen = script.find_in_prompt(written)
        if chosen is None and self.options.script:
            chosen = script.find_in_file(self.options.script, text)
        if chosen is not None:
            session.memory.set_resume(chosen.get("resume"))
            return chosen
        return {"steps": session.memory.take_resume() or script.steps_without_script(written or text)}

    def _steps(self, session: Session, chosen: Json) -> list[Any]:
        if "attempts" not in chosen:
            return list(chosen.get("steps", []))
        attempts = chosen["attempts"]
        return list(attempts[min(session.memory.attempt(chosen), len(attempts) - 1)])


def parse_options(arguments: list[str]) -> Options:
    """Parse the options of the command line. Exits with code 2 if they are wrong.

    It does not use argparse, which is slow to import: tests start thousands of agents.
    """
    try:
        pairs, _ = getopt(arguments, "", ["state=", "script=", "log=", "name=", "mcp=", "instant"])
    except GetoptError:
        sys.stderr.write(
            "usage: scripted_agent [--state DIR] [--script FILE] [--log FILE] [--name NAME] [--mcp HOW] [--instant]\n"
        )
        sys.exit(2)
    values = dict(pairs)
    return Options(
        state=Path(values.get("--state", ".scripted-agent")),
        script=Path(values["--script"]) if "--script" in values else None,
        log=Path(values["--log"]) if "--log" in values else None,
        name=values.get("--name", NAME),
        instant="--instant" in values,
        mcp=values.get("--mcp", "stdio"),
    )


if __name__ == "__main__":
    try:
        ScriptedAgent(parse_options(sys.argv[1:])).serve()
    except KeyboardInterrupt:
        pass
    os._exit(0)  # do not wait for threads of running prompts; no output is buffered
