"""An editor that has started `semel acp`, beside a real gateway: it sends requests, and shows and checks what comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "system"))

from acp_schema import SchemaCheck
from editor_help import line_of
from model_editor import ModelEditor, Shown
from python_process import start_python
from system_house import DEMO, House, left, opened, until

Json = dict[str, Any]
PUSH = ("session/push", "session_push_end")  # agent-shell's own, in no schema


class GatewayEditor:
    """`semel acp`, and what an editor with the name `client` shows of it."""

    def __init__(
        self,
        house: House,
        *options: str,
        client: str = "zed",
        capabilities: Json | None = None,
        introduction: Json | None = None,
    ) -> None:
        self.house = house
        command = ("-m", "semel", "acp", "--config", house.toml, "--data-dir", house.data, *options)
        pipe = subprocess.PIPE
        self.process = start_python(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=house.environment, cwd=house.home
        )
        self.model = ModelEditor()
        self.schema = SchemaCheck()
        self.messages: list[Json] = []  # all that came, in order
        self.answers: dict[str, Json] = {}
        self.asked: list[Json] = []  # requests for permission, in order
        self.closed: list[str] = []  # the ids of those whose dialogs were closed
        self.stderr = b""
        self.session = ""
        self.methods: dict[str, str] = {}
        self._numbers = 0
        self._flushes = True
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()
        info = {"name": client, "version": "1"}
        params = {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities or {}}
        introduction = introduction or {"id": "first", "method": "initialize", "params": params}
        self.send_as_it_is(introduction)
        self.initialized = self.answer_to(json.dumps(introduction["id"]))["result"]

    # ---- what comes

    def _read_stderr(self) -> None:
        self.stderr = self.process.stderr.read()

    def _read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            with self._changed:
                self._take(line, message)
                self.messages.append(message)
                self._changed.notify_all()

    def _take(self, line: bytes, message: Json) -> None:
        update = (message.get("params") or {}).get("update") or {}
        if "method" not in message:
            name = json.dumps(message["id"])
            assert name not in self.answers or name == "null", f"{message} is a second answer"
            self.answers[name] = message
            self.schema.check_result(self.methods[name], line)
        elif message["method"] not in PUSH and update.get("sessionUpdate") not in PUSH:
            self.schema.check(line)
            self.model.read([line])
        if message.get("method") == "session/request_permission":
            self.asked.append(message)
        if message.get("method") == "$/cancel_request":
            self.closed.append(message["params"]["requestId"])

    def until(self, is_so: Callable[[], Any], why: str, patience: float = 90.0) -> Any:
        """Wait until something has come, and return what `is_so` returns of it."""
        end = time.monotonic() + patience
        with self._changed:
            while not (value := is_so()):
                assert self._changed.wait(end - time.monotonic()), (why, self.messages[-5:], self.stderr)
            return value

    # ---- what is sent

    def send(self, **message: Any) -> None:
        self.process.stdin.write(line_of({"jsonrpc": "2.0", **message}))
        if self._flushes:
            self.process.stdin.flush()

    @contextmanager
    def sent_at_once(self) -> Iterator[None]:
        """What is sent meanwhile arrives in one piece: all of it is there before the first of it is answered."""
        self._flushes = False
        yield
        self._flushes = True
        self.process.stdin.flush()

    def send_as_it_is(self, message: Json) -> None:
        """Send a message, and note whether it is a request."""
        if "method" in message and "id" in message:
            self.methods[json.dumps(message["id"])] = message["method"]
        self.send(**{name: value for name, value in message.items() if name != "jsonrpc"})

    def request(self, method: str, **params: Any) -> str:
        """Send a request, and return its id as JSON."""
        self._numbers += 1
        self.methods[str(self._numbers)] = method
        self.send(id=self._numbers, method=method, params=params)
        return str(self._numbers)

    def answer_to(self, request: str) -> Json:
        return self.until(lambda: self.answers.get(request), f"an answer to {self.methods[request]}")

    def call(self, method: str, **params: Any) -> Json:
        """Send a request, and return its result."""
        answer = self.answer_to(self.request(method, **params))
        assert "result" in answer, answer
        return dict(answer["result"])

    def new(self, folder: Path | None = None) -> str:
        """Open a new session, and return its id."""
        result = self.call("session/new", cwd=str(folder or self.house.home), mcpServers=[])
        self.session = str(result["sessionId"])
        return self.session

    def load(self, session: str, method: str = "session/load", folder: Path | None = None) -> Json:
        self.session = session
        self.model.sessions.pop(session, None)
        return self.call(method, sessionId=session, cwd=str(folder or self.house.home), mcpServers=[])

    def begin(self, text: str) -> str:
        """Send a prompt, and return the request's id as JSON."""
        return self.request("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    def prompt(self, text: str) -> str:
        """Send a prompt, wait for the end of its turn, and return the stop reason."""
        answer = self.answer_to(self.begin(text))
        return str(answer["result"]["stopReason"]) if "result" in answer else str(answer["error"]["message"])

    def choose(self, request: Json, option: str) -> None:
        """Answer a request for permission."""
        self.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": option}})

    # ---- what is shown

    @property
    def shown(self) -> Shown:
        return self.model.sessions.setdefault(self.session, Shown())

    def texts(self, role: str = "agent") -> list[str]:
        return self.shown.texts(role)

    def sees(self, text: str, role: str = "agent") -> None:
        """Wait until a text is shown in full."""
        self.until(lambda: text in self.texts(role), f"{text!r} is shown")

    def kill(self) -> None:
        """SIGKILL, as Zed does it."""
        self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()
        self._close()

    def _close(self) -> None:
        for thread in self._threads:
            thread.join(30)
        self.process.stdout.close()
        self.process.stderr.close()

    def leave(self) -> tuple[int, bytes]:
        """Close the editor's end, and return the exit code and what Semel has said on stderr."""
        self.process.stdin.close()
        code = self.process.wait(60)
        self._close()
        return code, self.stderr

    def end(self) -> None:
        """Close the editor's end, and check that Semel ends and has said nothing but ACP."""
        code, words = self.leave()
        assert (code, words) == (0, b""), (code, words)
        assert not self.schema.violations, self.schema.violations
        assert self.schema.checked


class Desk:
    """A house, and the editors that are opened in it."""

    def __init__(self, house: House, stack: ExitStack) -> None:
        self.house = house
        self._stack = stack

    def editor(self, *options: str, **about: Any) -> GatewayEditor:
        editor = GatewayEditor(self.house, *options, **about)
        self._stack.callback(lambda: editor.end() if editor.process.poll() is None else None)
        return editor


def start_together(desk: Desk) -> str:
    """Open two editors where no gateway runs, and return the one gateway that they have started."""
    editors = [desk.editor() for _ in range(2)]
    folder = str(desk.house.home)
    requests = [editor.request("session/new", cwd=folder, mcpServers=[]) for editor in editors]
    for editor, request in zip(editors, requests, strict=True):
        editor.session = editor.answer_to(request)["result"]["sessionId"]
    assert [editor.prompt("say: hi") for editor in editors] == ["end_turn", "end_turn"]
    (gateway,) = gateways_of(desk.house)
    return gateway


def gateways_of(house: House) -> list[str]:
    """The gateways that run in a house, whoever has started them.

    A child that a gateway has forked has the gateway's command line until it executes its own program: it is none.
    """
    found = {process.partition(" ")[0]: process for process in left(house) if " up " in process}
    parents = {number: parent_of(number) for number in found}
    return [process for number, process in found.items() if parents[number] not in (None, *found)]


def parent_of(number: str) -> str | None:
    """The id of a process's parent; None if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1]
    return None


def end_gateways(house: House) -> None:
    for process in gateways_of(house):
        os.kill(int(process.split()[0]), signal.SIGTERM)
    until(lambda: not left(house), "the gateway has ended")


@contextmanager
def opened_desk(home: Path, config: str = "") -> Iterator[Desk]:
    """A gateway with the scripted agent, and no editor yet. Editors and gateway are ended, and the books looked at."""
    with opened(House(home, DEMO + config)) as house, ExitStack() as stack:
        yield Desk(house, stack)


__all__ = [
    "Desk", "GatewayEditor", "House", "end_gateways", "gateways_of", "opened_desk", "start_together", "until",
]  # fmt: skip
