"""Run signal-cli as a child process, and call its methods (signal-cli-jsonrpc(5)).

A request is a line of JSON on its standard input. Its standard output is the journal (`journal.py`), where answers and
received messages come in one stream; whoever reads the journal hands each answer over with `resolve`. If the gateway
dies, the input ends, and signal-cli ends after it has written the answers to what it was asked; what then still runs is
found by a variable in its environment (`end_leftovers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semel.channels.recent_map import RecentMap
from semel.channels.signal.journal import Journal
from semel.channels.signal.settings import SignalSettings
from semel.gateway.ports import Denied, NotSent, Offline, Unknown
from semel.gateway.process_identity import find_tagged_processes, kill_tagged_processes
from semel.gateway.start_errors import correct_start_error
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

CHANNEL_VARIABLE = "SEMEL_SIGNAL"
"""Environment variable with the journal's directory, by which a signal-cli of an earlier gateway is found."""
PASSED_VARIABLES = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "JAVA_HOME",
    "JAVA_OPTS", "SIGNAL_CLI_OPTS", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
"""Variables that signal-cli gets from our environment; the secrets of other channels are not among them."""
LEFTOVER_GRACE_S = 10.0
"""How long a signal-cli that outlived its gateway may take to end by itself."""
END_GRACE_S = 3.0
"""How long signal-cli may take to end when its input ends, and again after SIGTERM."""
MAX_STDERR_LINES = 20
MAX_ANSWERED = 2_000
"""How many of the last answers are remembered as handed over: a part of the journal may be read twice."""
START_WAIT_S = 20.0
"""How long a call waits for a signal-cli that starts: on a busy machine, Java takes its time."""
RETRY_DELAY_S = 2.0
"""Seconds after which a part is tried again that found no signal-cli running."""
IN_USE = "in use by another instance"
"""In signal-cli's words when it waits for another one to release the account."""

_log = logging.getLogger("semel.signal")


@dataclass(frozen=True)
class SignalReply:
    """An answer of signal-cli: `result`, or an error with its `code` and text."""

    result: object = None
    code: int | None = None
    error_text: str = ""
    data: Json = field(default_factory=dict)  # of an error


class SignalCli:
    """At most one running signal-cli. `start` starts it, `call` calls one of its methods, `end` ends it."""

    def __init__(self, name: str, settings: SignalSettings) -> None:
        self._name = name
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: asyncio.Task[None] | None = None
        self._stderr_lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._pending: dict[str, asyncio.Future[SignalReply]] = {}
        self._answered = RecentMap[str, None](MAX_ANSWERED)  # ids of calls whose answers were handed over
        self._ready = asyncio.Event()  # it has loaded the account
        self.hangs = False  # it did not answer in time
        self.called = asyncio.Event()  # set whenever a method is called

    def __repr__(self) -> str:
        state = "ready" if self._ready.is_set() else "starting" if self.is_running else "down"
        return f"<SignalCli of {self._name}, {state}, {len(self._pending)} calls>"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def waits_for_another(self) -> bool:
        """Whether another signal-cli uses the account, and this one waits until it ends."""
        return any(IN_USE in line for line in self._stderr_lines)

    @property
    def is_waiting(self) -> bool:
        """Whether answers are awaited."""
        return bool(self._pending)

    async def start(self, journal: Journal) -> None:
        """Start signal-cli, which appends its output to the journal. Raises Offline or Denied."""
        self._stderr_lines.clear()
        self.hangs = False
        try:
            output = await asyncio.to_thread(journal.open_for_append)
        except OSError as error:
            raise Offline(f"the journal in {journal.folder} cannot be written: {error.strerror}") from None
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._make_command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=asyncio.subprocess.PIPE,
                env=_make_environment(journal.folder),
                start_new_session=True,  # Ctrl-C is the gateway's
            )
        except OSError as error:
            program = self._settings.command[0]
            reason = correct_start_error(program, error)
            if not isinstance(reason, FileNotFoundError):
                raise Denied(f"{program} cannot be started: {reason.strerror}") from None
            raise Denied(
                f"there is no program {program!r}: install signal-cli, or say where it is, as with "
                'command = ["/opt/signal-cli/bin/signal-cli"]'
            ) from None
        finally:
            os.close(output)
        self._stderr = asyncio.create_task(self._read_stderr(self._process))

    def _make_command(self) -> Sequence[str]:
        where = ["--config", str(self._settings.config_folder)] if self._settings.config is not None else []
        files = [] if self._settings.fetch else ["--ignore-attachments"]
        account = ["-a", self._settings.account, "--output=json", "jsonRpc"]
        return [*self._settings.command, *where, *account, "--ignore-stories", *files]

    async def call_method(self, method: str, params: Mapping[str, object], id: str, timeout: float) -> SignalReply:
        """Call a method and return its answer, also an error. A signal-cli that was just started is waited for.

        `id`: of the request; it comes back with the answer. `timeout`: for the answer, in seconds. Raises NotSent if
        signal-cli does not run, else Unknown.
        """
        await self._wait_for_start()
        if not self._ready.is_set() or not self.is_running:
            raise NotSent("signal-cli does not run yet, or not any more", RETRY_DELAY_S)
        return await self.send_request(method, params, id, timeout)

    async def _wait_for_start(self) -> None:
        """Wait while signal-cli starts, for START_WAIT_S at most."""
        until = time.monotonic() + START_WAIT_S
        while self.is_running and not self._ready.is_set() and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.2)):  # it may also end
                    await self._ready.wait()

    def note_ready(self) -> None:
        """Let calls begin, because signal-cli has loaded the account."""
        self._ready.set()

    async def send_request(self, method: str, params: Mapping[str, object], id: str, timeout: float) -> SignalReply:
        """Do what `call_method` does, also before signal-cli is ready."""
        assert self._process is not None and self._process.stdin is not None
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": id}
        future: asyncio.Future[SignalReply] = asyncio.get_running_loop().create_future()
        self._pending[id] = future
        self.called.set()
        try:
            async with asyncio.timeout(timeout):
                self._process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
                await self._process.stdin.drain()
                return await future
        except TimeoutError:
            self.hangs = True
            raise Unknown(f"signal-cli did not answer within {timeout:g} s") from None
        except OSError:
            raise Unknown("signal-cli ended while it was asked") from None
        finally:
            self._pending.pop(id, None)

    def resolve_request(self, id: str, reply: SignalReply) -> bool:
        """Hand over an answer. Returns False if nobody waits for it, and nobody got it before."""
        future = self._pending.get(id)
        if future is not None and not future.done():
            future.set_result(reply)
            self._answered[id] = None
        return id in self._answered

    def fail_calls(self) -> None:
        """Let all calls end as unknown, because no more answers will come."""
        for future in self._pending.values():
            if not future.done():
                future.set_exception(Unknown("signal-cli ended before it answered"))

    async def end_process(self) -> None:
        """End signal-cli: by the end of its input, else by SIGTERM, else by SIGKILL. Several calls are harmless."""
        self._ready.clear()
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for stop in (None, signal.SIGTERM, signal.SIGKILL):
            if stop is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, stop)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_GRACE_S):
                    await process.wait()
                    break
        if self._stderr is not None:
            self._stderr.cancel()
            await asyncio.gather(self._stderr, return_exceptions=True)
        self._process = None

    async def wait_for_stderr(self) -> None:
        """Wait until all that a signal-cli that ended wrote to its standard error was read."""
        if self._stderr is not None:
            await asyncio.wait({self._stderr}, timeout=1.0)

    @property
    def stderr_text(self) -> str:
        """The last lines that signal-cli wrote to its standard error."""
        return "\n".join(self._stderr_lines)

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = b""
        while part := await process.stderr.read(65536):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self._note_stderr(line)
        self._note_stderr(rest)

    def _note_stderr(self, line: bytes) -> None:
        if text := shorten_to_line(line.decode("utf-8", "replace"), 500):
            self._stderr_lines.append(text)
            _log.info("signal-cli of channel %s: %s", self._name, text)


def make_request_id(*words: str) -> str:
    """Return an id for a request, which begins with these words and is different each time."""
    return " ".join((*words, secrets.token_hex(4)))


def _make_environment(folder: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    return {**passed, CHANNEL_VARIABLE: str(folder)}


def end_leftovers(folder: Path) -> None:
    """Wait until no signal-cli of an earlier gateway writes to this journal any more; kill it if it takes too long.

    It blocks. Elsewhere than on Linux it finds none; there, signal-cli's own lock on the account holds the next one up.
    """
    until = time.monotonic() + LEFTOVER_GRACE_S
    while find_tagged_processes(str(folder), CHANNEL_VARIABLE):
        if time.monotonic() > until:
            kill_tagged_processes(str(folder), CHANNEL_VARIABLE)
        time.sleep(0.05)
