"""The demo agent that `semel up` serves without a configuration: it speaks ACP, and needs no model and no network.

`python -m semel.agents.demo` is a process of its own and imports nothing of Semel. The prompt "help" lists what it can
do. The main thread reads the client's messages; each turn runs in a thread. A prompt that comes while a turn runs joins
that turn (steering). A session's history is a file with one ACP update per line, which `session/load` replays.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

Json = dict[str, Any]
STATE_DIR = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "semel/demo"
TURN_ENDED_KEY = "semel-demo/ended"  # `_meta` key in the history: the stop reason of the turn that just ended
GATEWAY_NOTE = re.compile(r"\[semel: (.*?)\]\n(.*?)\n\[/semel\]", re.DOTALL)  # title and body of what the gateway adds
WORDS = "help|file|ask|permission|job|slow"
COMMAND = re.compile(rf"(?:[^:]{{1,80}}:\s+)?(?:({WORDS})[.!]?|(say|send):\s*(.+))\s*", re.IGNORECASE)
REPEATABLE = ("help", "say", "slow")  # commands that do nothing but talk: an interrupted one may run again
INTERRUPTED = re.compile(r"- it was asked: (['\"])(.*)\1$", re.MULTILINE)  # in the body of the note that resumes a turn
UNDER_WAY = ("event exec.started ", "event exec.progress ")  # titles of notes about a job that has not ended
QUIET = re.compile(r"answer with exactly (\S+)")  # in the title of a heartbeat's note
HELP = """I am Semel's demo agent: no model, no network. Words I know:

- `help`: this list
- `say: TEXT`: say exactly TEXT, and the lines below it
- `send: TEXT`: send TEXT in the middle of the turn, then close with the same text (an echo)
- `file`: send a small file
- `ask`: ask you to choose
- `permission`: ask for the permission to run a tool, and run it
- `job`: start a command of twelve seconds in the background; its end starts a turn
- `slow`: text for about ten seconds (try to cancel it, or kill the gateway and start it again)

Anything else I simply answer. To a heartbeat I answer with the quiet word, which nobody sees."""
JOB = "for n in 1 2 3; do sleep 4; echo step $n; done"  # long enough to look at while it runs
QUESTION = {"question": "Tea or coffee?", "options": ["Tea", "Coffee"]}
ALLOW = {"optionId": "allow", "name": "Allow once", "kind": "allow_once"}
REJECT = {"optionId": "reject", "name": "Reject", "kind": "reject_once"}


def make_id(kind: str) -> str:
    return f"{kind}-{os.urandom(8).hex()}"


class TurnCancelled(Exception):
    """The client has cancelled the turn."""


class DemoPeer:
    """JSON-RPC with another process over a pair of pipes, one message per line."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer
        self._results: dict[str, Json] = {}
        self._changed = threading.Condition()
        self._closed = False

    def send(self, **message: Any) -> None:
        with self._changed, suppress(BrokenPipeError):  # the other process has ended; `read_requests` ends, too
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._writer.flush()

    def request(self, method: str, **params: Any) -> Json:
        """Send a request, wait for its result and return it; {} if the answer is an error or the other process ends."""
        request_id = make_id("request")
        self.send(id=request_id, method=method, params=params)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or request_id in self._results)
            return self._results.pop(request_id, {})

    def read_requests(self) -> Iterator[Json]:
        """Yield the other process's requests and notifications until it ends. Pass its answers to `request`."""
        for message in map(json.loads, self._reader):
            if "method" in message:
                yield message
            else:
                with self._changed:
                    self._results[message["id"]] = message.get("result") or {}
                    self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def start_mcp_server(server: Json) -> DemoPeer:
    """Start an MCP server, initialize it (MCP 2025-06-18) and return it.

    `server`: an entry of `mcpServers` in `session/new`.
    """
    env = os.environ | {variable["name"]: variable["value"] for variable in server["env"]}
    command = [server["command"], *server["args"]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert process.stdin and process.stdout
    peer = DemoPeer(process.stdout, process.stdin)
    threading.Thread(target=lambda: list(peer.read_requests()), daemon=True).start()
    info = {"name": "semel-demo", "version": "1"}
    peer.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
    peer.send(method="notifications/initialized")
    return peer


def make_chunk(kind: str, text: str) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": kind, "content": content, "messageId": make_id("message")}


def find_option(words: str) -> str | None:
    """Return the option of QUESTION that a message names, by its words or its number."""
    options = QUESTION["options"]
    by_number = {str(number): option for number, option in enumerate(options, 1)}
    return {**by_number, **{option.lower(): option for option in options}}.get(
        words.rpartition(": ")[2].strip().lower()
    )


def choose_reports(notes: list[tuple[str, str]]) -> list[str]:
    """Return what is said of the events among a prompt's notes; of a job under way only if there is nothing else.

    `notes`: the title and the body of each.
    """
    events = [note for note in notes if note[0].startswith("event ")]
    ends = [note for note in events if not note[0].startswith(UNDER_WAY)]
    return [describe_report(*note) for note in ends or events[-1:]]


def describe_report(title: str, body: str) -> str:
    """Return what is said of an event. `title`, `body`: of the gateway's note about it."""
    verb = "You chose" if title.startswith("event answer ") else "I was told"
    return f"{verb}: {body[:500]}"


class DemoSession:
    """A session: its history, its MCP server, and the turn that runs in it."""

    def __init__(self, client: DemoPeer, session_id: str, mcp_servers: list[Json]) -> None:
        self.cancelled = threading.Event()
        self._client, self._id, self._mcp_servers = client, session_id, mcp_servers
        self._tools: DemoPeer | None = None
        self._tools_lock = threading.Lock()
        self._lock = threading.Lock()
        self._prompt_ids: list[Any] = []  # of the running turn
        self._joined: list[str] = []  # texts of prompts that joined the turn and were not answered yet
        self._history: list[Json] = []  # updates of the running turn
        self._has_asked = False  # it waits for the answer to QUESTION, which may come as a message
        self._history_file = STATE_DIR / f"{session_id}.jsonl"
        self._history_file.touch()
        if mcp_servers:
            threading.Thread(target=self._connect_tools, daemon=True).start()

    def replay(self) -> None:
        for line in self._history_file.read_text().splitlines():
            self._emit(json.loads(line))

    def prompt(self, prompt_id: Any, text: str) -> None:
        """Begin a turn with this prompt, or let the prompt join the running turn.

        `prompt_id`: the request's JSON-RPC id.
        """
        with self._lock:
            self._prompt_ids.append(prompt_id)
            if len(self._prompt_ids) > 1:
                self._joined.append(text)
                return
            self.cancelled.clear()
        threading.Thread(target=self._run_turn, args=(text,), daemon=True).start()

    def _run_turn(self, text: str) -> None:
        stop_reason = "end_turn"
        while True:
            try:
                self._answer(text)
            except TurnCancelled:
                stop_reason = "cancelled"
            with self._lock:
                if not self._joined or stop_reason == "cancelled":
                    prompt_ids, self._prompt_ids, self._joined = self._prompt_ids, [], []
                    break
                text = self._joined.pop(0)
        updates, self._history = self._history, []
        updates.append({"sessionUpdate": "session_info_update", "_meta": {TURN_ENDED_KEY: stop_reason}})
        with self._history_file.open("a") as file:
            file.writelines(json.dumps(update) + "\n" for update in updates)
        for prompt_id in prompt_ids:
            self._client.send(id=prompt_id, result={"stopReason": stop_reason})

    def _answer(self, prompt: str) -> None:
        """Answer a person's words; or, if there are none, what the gateway's notes report and ask for."""
        self._history.append(make_chunk("user_message_chunk", prompt))
        notes = GATEWAY_NOTE.findall(prompt) or [("", "")]
        title, body = notes[-1]
        reports = choose_reports(notes)
        orders = [note[1] for note in notes if note[0].startswith("schedule ")]
        if words := GATEWAY_NOTE.sub("", prompt).strip():
            self._obey(words)
        elif interrupted := INTERRUPTED.findall(body):
            quote, question = interrupted[-1]
            self._go_on(ast.literal_eval(f"{quote}{question}{quote}"))
        elif reports or orders:
            if reports:
                self._say("\n\n".join(reports))
            if orders:
                self._obey("\n".join(orders))
        elif quiet := QUIET.search(title):
            self._say(quiet[1])
        else:
            self._obey(body)

    def _go_on(self, question: str) -> None:
        matches = list(filter(None, map(COMMAND.fullmatch, question.splitlines())))
        if matches and all((match[1] or match[2]).lower() in REPEATABLE for match in matches):
            self._obey(question)
        else:
            self._say("I was interrupted. I do nothing twice by myself: ask me again, if you still want it.")

    def _obey(self, words: str) -> None:
        """Run each command among the lines (see HELP), since several messages may have waited; or repeat the lines.

        Lines that are no command continue the text of the `say` or `send` above them.
        """
        lines = words.splitlines()
        commands: list[list[str]] = []  # word, verb, text
        for line in lines:
            if command := COMMAND.fullmatch(line):
                commands.append(list(command.groups(default="")))
            elif commands and commands[-1][1]:
                commands[-1][2] += f"\n{line}"
        for word, verb, text in commands:
            self._run_command(word, verb, text.rstrip())
        if not commands:
            said = "\n".join(filter(str.strip, lines))[:300]
            if self._has_asked and (chosen := find_option(said)):
                self._has_asked = False
                self._say(f"You chose: {chosen}")
                return
            self._say(f"You said: {said}\n\nI am Semel's demo agent. Say `help` to see what I can show.")

    def _run_command(self, word: str, verb: str, text: str) -> None:
        match (word or verb).lower():
            case "help":
                self._say(HELP, delay_s=0.002)
            case "say":
                self._say(text)
            case "send":
                self._call_tool("send_message", text=text)
                self._say(text)
            case "file":
                Path("semel-demo.txt").write_text("A file from Semel's demo agent.\n")
                self._call_tool("send_file", path="semel-demo.txt", text="Here it is.")
            case "ask":
                self._has_asked = True
                self._call_tool("ask", **QUESTION)
            case "permission":
                self._say("I would like to tidy up. ")
                self._say("Thank you, it is tidy now." if self._tidy_up() else "I leave it as it is, then.")
            case "job":
                answer = self._call_tool("run_in_background", command=JOB, name="demo")
                started = (
                    f"It was {answer.partition(';')[0]}. I tell you when it has ended; meanwhile, ask me anything."
                )
                self._say(started if answer.startswith("started ") else f"It was not started. {answer}".strip())
            case "slow":
                self._say("One word after the other. " * 12, delay_s=0.45)

    def _say(self, text: str, delay_s: float = 0.015) -> None:
        """Stream a message in small chunks, with a pause of `delay_s` seconds after each chunk.

        Raises TurnCancelled.
        """
        message = make_chunk("agent_message_chunk", "")
        self._history.append(message)
        for start in range(0, len(text), 14):
            chunk = text[start : start + 14]
            self._emit({**message, "content": {"type": "text", "text": chunk}})
            message["content"]["text"] += chunk
            if self.cancelled.wait(delay_s):
                raise TurnCancelled

    def _connect_tools(self) -> DemoPeer:
        """Start the MCP server if it does not run, and return it."""
        with self._tools_lock:
            if self._tools is None:
                self._tools = start_mcp_server(self._mcp_servers[0])
            return self._tools

    def _call_tool(self, name: str, /, **arguments: Any) -> str:
        """Call a tool of the MCP server and return its answer; "" if the server ended."""
        call = {"toolCallId": make_id("tool"), "title": f"mcp__semel__{name}", "rawInput": arguments}
        self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        tools, meta = self._connect_tools(), {"claudecode/toolUseId": call["toolCallId"]}
        result = tools.request("tools/call", name=name, arguments=arguments, _meta=meta)
        answer = "".join(block.get("text", "") for block in result.get("content", []))
        if not result:
            self._tools = None  # it may have ended: the next call starts another one
        self._end_tool(call, "completed" if result and not result.get("isError") else "failed", answer)
        return answer

    def _tidy_up(self) -> bool:
        """Ask for permission, then pretend to run a command. Return False if the permission is denied."""
        command = "rm -r ./build"
        call = {"toolCallId": make_id("tool"), "title": command, "kind": "execute", "rawInput": {"command": command}}
        params = {"toolCall": {**call, "status": "pending"}, "options": [ALLOW, REJECT]}
        outcome = self._client.request("session/request_permission", sessionId=self._id, **params).get("outcome", {})
        if self.cancelled.is_set():
            raise TurnCancelled
        if outcome.get("optionId") != "allow":
            return False
        self._emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        self._end_tool(call, "completed", "removed\n")
        return True

    def _end_tool(self, call: Json, status: str, output: str) -> None:
        ended = {
            **call,
            "status": status,
            "content": [{"type": "content", "content": {"type": "text", "text": output}}],
        }
        self._emit({"sessionUpdate": "tool_call_update", **ended})
        self._history.append({"sessionUpdate": "tool_call", **ended})

    def _emit(self, update: Json) -> None:
        self._client.send(method="session/update", params={"sessionId": self._id, "update": update})


def read_prompt(blocks: list[dict[str, Any]]) -> str:
    """Return the text of a prompt or, if nobody wrote a word, the names of the files that came."""
    text = "\n".join(block.get("text", "") for block in blocks)
    names = [block["name"] for block in blocks if block["type"] == "resource_link"]
    return f"(files: {', '.join(names)})" if names and not GATEWAY_NOTE.sub("", text).strip() else text


def answer_request(client: DemoPeer, sessions: dict[str, DemoSession], method: str, params: Json) -> Json:
    """Return the result of a request that is not a prompt.

    Raises LookupError if the method or the session is unknown.
    """
    session_id = str(params.get("sessionId"))
    if method == "initialize":
        capabilities = {"loadSession": True, "promptCapabilities": {"embeddedContext": True}}
        info = {"name": "semel-demo", "title": "Semel's demo agent", "version": "1"}
        return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": []}
    if method == "session/new":
        session_id = make_id("demo")
    elif method != "session/load" or not any(path.stem == session_id for path in STATE_DIR.glob("*.jsonl")):
        raise LookupError(f"no method {method!r}, or no session {session_id!r}")
    sessions[session_id] = session = DemoSession(client, session_id, params.get("mcpServers") or [])
    session.replay()
    return {"sessionId": session_id}


def main() -> None:
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    client, sessions = DemoPeer(sys.stdin.buffer, sys.stdout.buffer), dict[str, DemoSession]()
    for message in client.read_requests():
        method, params = message["method"], message.get("params", {})
        try:
            if method == "session/prompt":
                sessions[params["sessionId"]].prompt(message["id"], read_prompt(params["prompt"]))
            elif method == "session/cancel":
                sessions[params["sessionId"]].cancelled.set()
            elif "id" in message:
                client.send(id=message["id"], result=answer_request(client, sessions, method, params))
        except LookupError as error:
            if "id" in message:
                client.send(id=message["id"], error={"code": -32602, "message": str(error)})
    os._exit(0)  # do not wait for the threads of running turns


if __name__ == "__main__":
    main()
