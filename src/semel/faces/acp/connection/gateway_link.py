"""The way from an editor's process to the gateway: find it, start it if none runs, and ask it.

The gateway is a process of its own, in a process session of its own, so it goes on when the editor ends. If several
editors want to start one, the first does: they take turns at a lock in the data directory, and each looks first whether
a gateway answers by now. A gateway that an editor has started gives way to a person's `semel up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from semel.text.json_types import Json
from semel.tools.address import (
    START_LOCK_FILE,
    NoGateway,
    find_last_config,
    find_pid,
    find_socket,
    try_lock_start,
    was_killed,
)

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient, RequestRefused

T = TypeVar("T")

START_TIMEOUT_S = 60.0  # how long a gateway may take until it answers: a second, or half a minute on a busy machine
POLL_INTERVAL_S = 0.05
RESTART_AFTER_S = 15.0  # after its last answer; before that, it is left to whoever has stopped or killed the gateway
RETRY_DELAYS_S = (0.1, 0.2, 0.4, 0.8)  # between attempts to reach a gateway that is away; the last one repeats
MIN_FREE_BYTES = 65_536  # with less, a gateway may not even write why it ends
ERROR_CHARS = 2000  # kept of what a gateway printed that did not start


class GatewayLink:
    """Makes requests to the gateway of a data directory.

    `config`: the configuration file of a gateway that is started here; None: the one that the last gateway read.
    `may_start`: whether one is started if none runs.
    """

    def __init__(self, data_dir: Path, config: Path | None, may_start: bool) -> None:
        self.data_dir = data_dir
        self._config = config
        self.may_start = may_start
        self._start_delay_s = RESTART_AFTER_S  # how long a gateway that was there is left to others to start
        self._last_contact: float | None = None  # with the gateway, on the loop's clock
        self._open_streams = 0  # while there are any, the gateway counts as there
        self._client: AsyncClient | None = None
        self._socket: Path | None = None

    def __repr__(self) -> str:
        return f"<GatewayLink {self.data_dir}{' connected' if self._client is not None else ''}>"

    async def connect(self) -> AsyncClient:
        """Return a client of the gateway that runs now. Raises NoGateway if none has left its address."""
        socket = find_socket(self.data_dir)
        if self._client is None or socket != self._socket:
            await self.close()
            from semel.faces.client import AsyncClient  # it imports an HTTP client, which takes a while

            self._client, self._socket = AsyncClient(self.data_dir), socket
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def ask(self, request: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Make a request that may be repeated, and return its answer. If no gateway runs, start one first.

        One that has answered just now is waited for: whoever stopped it is about to start it again.
        Raises NoGateway, RequestRefused, and OutcomeUnknown if a message may have been accepted.
        """
        failures, was_lost, has_started = 0, False, False
        while True:
            has_started = has_started or await self.start_if_away()
            from semel.faces.client import NoAnswer, RequestRefused  # only now: a start imports it meanwhile

            try:
                return await self.ask_running(request)
            except NoAnswer:
                raise
            except RequestRefused as error:
                if not is_unavailable(error) or not self._was_there_lately():
                    raise
            except NoGateway:
                if self._was_there_lately():
                    pass  # a killed gateway may look as if it answered, until its socket is gone
                elif await self.is_answering():  # only the answer was lost
                    if was_lost:
                        raise
                    was_lost = True
                elif has_started or not self.may_start:
                    raise
            failures += 1
            await self.wait_before_retry(failures)

    async def ask_running(self, request: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Make a request, and return its answer. Raises as `ask`; no gateway is started."""
        answer = await request(await self.connect())
        self.note_contact()
        return answer

    async def stream(self, session: str, rev: int | None) -> AsyncGenerator[Json, None]:
        """Yield the frames of a session's stream, as `AsyncClient.stream`. The gateway counts as there until it ends:
        one that is stopping takes no connections any more, but its streams are still open.
        """
        client, is_open = await self.connect(), False
        try:
            async with contextlib.aclosing(client.stream(session, rev)) as frames:
                async for frame in frames:
                    if not is_open:
                        self._open_streams, is_open = self._open_streams + 1, True
                    yield frame
        finally:
            if is_open:
                self._open_streams -= 1
                self.note_contact()

    def skip_restart_delay(self) -> None:
        """Start a gateway at once from now on, also if one was there until now: the editor does not wait for it."""
        self._start_delay_s = 0.0

    def note_contact(self) -> None:
        """Note that the gateway has just answered."""
        self._last_contact = asyncio.get_running_loop().time()

    def _was_there_lately(self) -> bool:
        now = asyncio.get_running_loop().time()
        last_contact = now if self._open_streams else self._last_contact
        return last_contact is not None and now - last_contact < self._start_delay_s

    async def wait_before_retry(self, failures: int) -> None:
        """Wait until a gateway that is away is tried again, after so many attempts that failed one after the other."""
        await asyncio.sleep(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S)) - 1])

    async def ask_until_answered(
        self,
        request: Callable[[AsyncClient], Awaitable[T]],
        note_failed_start: Callable[[NoGateway], None] | None = None,
    ) -> T:
        """Make a request that may be repeated, and repeat it until a gateway answers. Raises RequestRefused.

        `note_failed_start`: None: no gateway is started. Otherwise one is (`start_if_away`), until that fails once:
        then it is called with the reason, and the request waits for a gateway that somebody else starts.
        """
        from semel.faces.client import OutcomeUnknown, RequestRefused

        failures = 0
        while True:
            if note_failed_start is not None:
                try:
                    await self.start_if_away()
                except NoGateway as error:
                    note_failed_start(error)
                    note_failed_start = None
            try:
                return await self.ask_running(request)
            except (NoGateway, OutcomeUnknown):
                pass
            except RequestRefused as error:
                if not is_unavailable(error):
                    raise
            failures += 1
            await self.wait_before_retry(failures)

    async def is_answering(self) -> bool:
        """Return whether a gateway answers now."""
        with contextlib.suppress(OSError, NoGateway):
            _, writer = await asyncio.open_unix_connection(find_socket(self.data_dir))
            writer.close()
            return True
        return False

    # ---- starting one

    async def restart_killed(self) -> None:
        """As `start_if_away`, but only if the last gateway was killed. One that was stopped is left alone."""
        if was_killed(self.data_dir):
            await self.start_if_away()

    async def start_if_away(self) -> bool:
        """Start a gateway if none answers now or has just before. Return whether one was started.

        Raises NoGateway: GatewayNotStarted with the reason, unless a signal ends this process meanwhile.
        """
        if not self.may_start or self._was_there_lately() or await self.is_answering():
            return False
        await self._start()
        self.note_contact()
        return True

    async def _start(self) -> None:
        """Start a gateway, unless somebody else does so first, and wait until it answers. Raises NoGateway."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise GatewayNotStarted(
                f"the data directory {self.data_dir} cannot be made ({error.strerror}); name another with --data-dir"
            ) from None
        try:
            with (self.data_dir / START_LOCK_FILE).open("wb") as lock:
                while not try_lock_start(lock):  # in no thread, which our end would have to wait for
                    if await self.is_answering():  # a stopped process (SIGSTOP) keeps the lock
                        return
                    await asyncio.sleep(POLL_INTERVAL_S)
                if not await self.is_answering():
                    if not self.may_start:  # any more: a signal has come
                        raise NoGateway(self.data_dir)
                    last = self._find_pid()
                    started = self._spawn()
                    await asyncio.gather(self._wait_for(*started, last), asyncio.to_thread(_import_client))
        except OSError as error:
            raise GatewayNotStarted(f"{error.filename or self.data_dir}: {error.strerror or error}") from None

    def _spawn(self) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a gateway. Return its process, and the file with what it prints before it has its log file."""
        log = self.data_dir / "logs" / "start.log"
        log.parent.mkdir(mode=0o700, exist_ok=True)
        config = self._config or find_last_config(self.data_dir)
        where = ["--data-dir", str(self.data_dir), *(["--config", str(config)] if config else [])]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "semel", "up", "--give-way", *where], cwd=self.data_dir, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        return process, log

    def _find_pid(self) -> int | None:
        """Return the process id of the gateway that has published its address last: it may be gone."""
        with contextlib.suppress(NoGateway):
            return find_pid(self.data_dir)
        return None

    async def _wait_for(self, process: subprocess.Popen[bytes], log: Path, last: int | None) -> None:
        """Wait until a gateway answers and has published its address: `semel up` waits for that, to take it over.

        `last`: whose address was published before. Raises GatewayNotStarted.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._find_pid() == last or not await self.is_answering():
            if process.poll() is not None:
                printed = log.read_text(errors="replace").strip()[-ERROR_CHARS:].splitlines()
                raise GatewayNotStarted(" ".join(printed[-2:]) or self._describe_end(process.returncode))
            if time.monotonic() > deadline:
                raise GatewayNotStarted(f"it did not answer within {START_TIMEOUT_S:g} s; `semel logs` shows why")
            await asyncio.sleep(POLL_INTERVAL_S)

    def _describe_end(self, code: int) -> str:
        """Return why a gateway may have ended that could not print why."""
        if shutil.disk_usage(self.data_dir).free < MIN_FREE_BYTES:
            return f"the disk of {self.data_dir} is full"
        return f"it ended with exit code {code}"


def is_unavailable(refusal: RequestRefused) -> bool:
    """Return whether a gateway cannot answer now, such as one that is stopping: it counts as away."""
    return refusal.code == "unavailable"


def _import_client() -> None:
    """Import what the first request needs, while the gateway starts: an HTTP client, and the view of a session."""
    importlib.import_module("semel.faces.acp.session.open_session")


class GatewayNotStarted(NoGateway):
    """A gateway was started, and does not answer."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, f"the gateway did not start: {reason}")

    __str__ = Exception.__str__
