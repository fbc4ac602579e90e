"""The processes of `semel demo`: a gateway with a data directory of its own, a scripted agent, a simulated Telegram.

They are real processes: `semel up`, the agent that it starts, and `semel-telegram-double`. The agent's script says what
it answers to which message; the double is controlled over HTTP.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx2

from semel.faces.client import Client, NoGateway, RequestRefused
from semel.faces.client.connection import session_path
from semel.text.json_types import Json, object_at

T = TypeVar("T")

STEP_TIMEOUT_S = 90.0  # for one step; on a quiet machine each takes less than two seconds
POLL_INTERVAL_S = 0.03
AGENT = "demo"
CHANNEL = "phone"
PERSON = 7  # the person who writes on the simulated Telegram, and so the id of their chat
CHAT_SESSION = f"{AGENT}:{CHANNEL}:{PERSON}"
_SETTINGS = """\
[gateway]
check_agents = false

[agents.{agent}]
command = {command}
trace = "traces"

[channels.{channel}]
kind = "telegram"
token = "{token}"
api = "{api}"
pace = 0
reserve = false

[people.ann]
role = "owner"
accounts = ["{channel}:{person}"]
"""


class StageError(Exception):
    """A process of the demonstration did not start, or did not get where a case needs it. The message says which."""


class Stage:
    """Starts and ends the processes. `folder`: an empty directory for everything that they write.

    `scripts`: what the agent does, as `semel.testing.scripted_agent.script` describes a file of scripts.
    """

    def __init__(self, folder: Path, scripts: list[Json]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._scripts = scripts
        self._prompts = folder / "prompts.jsonl"
        self._processes: list[subprocess.Popen[str]] = []
        self._gateway: subprocess.Popen[str] | None = None
        self._port = 0  # any free one at first; the page stays where it is when the gateway starts again
        self._client: Client | None = None
        self._telegram = httpx2.Client(timeout=20, trust_env=False)

    def __enter__(self) -> Self:
        try:
            self._write_settings(*self._start_telegram())
            self.start_gateway()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; the gateway gets the time to end its agents."""
        self._forget_client()
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._telegram.close()

    # ------------------------------------------------------------ processes

    def start_gateway(self) -> None:
        """Start the gateway and wait until it answers. Raises StageError."""
        command = ["up", "--config", str(self.folder / "semel.toml"), "--data-dir", str(self.data), "--log", "human"]
        with (self.folder / "gateway.log").open("a") as log:
            listen = ["--listen", f"127.0.0.1:{self._port}"]
            self._gateway = self._start("semel", [*command, *listen], stdout=log, stderr=log)
        self.wait_until(self._connect, "the gateway answers and hears the chat")
        self._port = urlsplit(self.url).port or 0

    def kill_gateway(self) -> None:
        """Kill the gateway as `kill -9` does, and wait until it is gone."""
        assert self._gateway is not None
        self._forget_client()
        self._gateway.send_signal(signal.SIGKILL)
        self._gateway.wait()

    def _connect(self) -> bool:
        """Make a client of the gateway. Returns whether it answers and hears the chat."""
        assert self._gateway is not None
        if self._gateway.poll() is not None:
            raise StageError(f"the gateway ended with exit code {self._gateway.returncode}: {self._read_log_end()}")
        try:
            self._client = self._client or Client(self.data)
            (channel,) = self._client.get("/v1/channels")["channels"]
        except NoGateway:  # not yet; or what is there is the address of the one that was killed
            self._forget_client()
            return False
        return bool(channel["state"] == "online")

    def _read_log_end(self) -> str:
        lines = (self.folder / "gateway.log").read_text(errors="replace").splitlines()
        return " / ".join(lines[-5:])

    def _start_telegram(self) -> tuple[str, str]:
        """Start the double. Returns its URL and the bot's token."""
        process = self._start("semel.testing.telegram", ["--port", "0"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if len(words) != 2:
            raise StageError("the simulated Telegram did not start")
        self._telegram.base_url = f"{words[0]}/control/"
        return words[0], words[1]

    def _start(self, module: str, arguments: list[str], **streams: Any) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "XDG_"))}
        env = {**kept, "XDG_STATE_HOME": str(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder)}
        command = [sys.executable, "-P", "-m", module, *arguments]
        process = subprocess.Popen(command, cwd=self.folder, env=env, text=True, stdin=subprocess.DEVNULL, **streams)
        self._processes.append(process)
        return process

    def _write_settings(self, api: str, token: str) -> None:
        script = self.folder / "script.json"
        script.write_text(json.dumps(self._scripts))
        agent = [sys.executable, "-P", "-m", "semel.testing.scripted_agent", "--state", str(self.folder / "agent")]
        agent += ["--script", str(script), "--log", str(self._prompts)]
        text = _SETTINGS.format(
            agent=AGENT, command=json.dumps(agent), channel=CHANNEL, token=token, api=api, person=PERSON
        )
        (self.folder / "semel.toml").write_text(text)

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # ------------------------------------------------------------ what people do, and what is there

    @property
    def client(self) -> Client:
        """A client of the running gateway."""
        assert self._client is not None
        return self._client

    @property
    def url(self) -> str:
        """The address of the gateway and its page."""
        return str(json.loads((self.data / "gateway.json").read_text())["url"])

    def find_page(self, session: str) -> str:
        """Return the address of a session on the page."""
        return f"{self.url}/#/s/{quote(session, safe='')}"

    def wait_until(self, condition: Callable[[], T], what: str) -> T:
        """Return what `condition` returns as soon as that is true. Raises StageError, which names `what` was expected.

        `what`: a clause, such as "the gateway answers".
        """
        end = time.monotonic() + STEP_TIMEOUT_S
        while not (value := condition()):
            if time.monotonic() > end:
                raise StageError(f"after {STEP_TIMEOUT_S:.0f} s it is still not true that {what}")
            time.sleep(POLL_INTERVAL_S)
        return value

    def telegram(self, control: str, **arguments: Any) -> Any:
        """Return the result of a control of the double, such as `write` or `texts`. Raises StageError."""
        try:
            answer = self._telegram.post(control, json=arguments)
        except httpx2.HTTPError as error:
            raise StageError(f"the simulated Telegram does not answer: {error}") from None
        if answer.status_code != 200:
            raise StageError(f"the simulated Telegram refuses {control}: {answer.text}")
        return answer.json()["result"]

    def ask(self, session: str, text: str) -> str:
        """Send a message, and wait until its turn has ended. Returns what the agent said last. Raises StageError."""
        self.client.say(session, text)
        self.wait_for_end(session, text)
        said = [entry["text"] for entry in self.read_entries(session) if entry["role"] == "agent"]
        return said[-1] if said else ""

    def read_entries(self, session: str) -> list[Json]:
        """Return the transcript of a session, in its order; [] if there is no such session."""
        try:
            rows = self.client.list_all(session_path(session) + "/entries", "entries")
        except RequestRefused as error:
            if error.status != 404:
                raise
            return []
        return sorted(rows, key=lambda row: int(row["seq"]))

    def find_entries(self, session: str, text: str) -> list[Json]:
        """Return the entries of a session with exactly this text."""
        return [entry for entry in self.read_entries(session) if entry["text"] == text]

    def wait_for_end(self, session: str, text: str) -> Json:
        """Wait until the turn that a message or an event with this text asked for has ended. Returns its entry."""
        ended = self.wait_until(
            lambda: [entry for entry in self.find_entries(session, text) if "ended" in entry],
            f"the turn of {text!r} has ended",
        )
        return ended[0]

    def read_tools(self, session: str) -> list[Json]:
        """Return the tool calls in the view of a session."""
        items = self.client.get(session_path(session) + "/history")["items"]
        return [item for item in items if item["kind"] == "tool"]

    def read_books(self) -> Json:
        """Check every law. Returns the report of GET /v1/doctor."""
        return self.client.get("/v1/doctor")

    def read_prompts(self, words: str) -> list[str]:
        """Return the prompts with these words that the agent received, as it wrote them down itself."""
        lines = self._prompts.read_text().splitlines() if self._prompts.exists() else []
        return [text for text in (json.loads(line)["text"] for line in lines) if words in text]

    def read_updates(self, words: str) -> list[Json]:
        """Return the updates that the agent has sent with these words, from the traces of what came over its pipe."""
        lines = [line for path in sorted((self.folder / "traces").iterdir()) for line in path.read_text().splitlines()]
        records = [record for record in map(json.loads, lines) if record["dir"] == "a2c"]
        updates = [object_at(record["msg"], "params", "update") for record in records]
        return [update for update in updates if words in json.dumps(update)]
