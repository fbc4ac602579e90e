"""Start, watch and end an agent's process group.

The spawned pid may be a launcher whose workers live on, and grandchildren may hold our pipes open. So an exit is
learned from the kernel (pidfd; elsewhere a thread in waitpid), never from a pipe's end, and the whole process group is
ended. No process runs before its spawn is recorded (`launch.py`), and none outlives the gateway (`guard.py`; Law 10).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from semel.agents.acp.guard import Guard
from semel.agents.acp.pipes import StderrReader, StdinWriter
from semel.gateway import process_identity
from semel.gateway.process_identity import kill_group_if_same as kill_group_if_same

LAUNCHER_PATH = Path(__file__).parent.parent / "launch.py"
MAX_WORKER_GRACE_S = 1.0  # for workers, between their leader's exit and SIGKILL
KILL_TIMEOUT_S = 5.0  # after SIGKILL; a process in uninterruptible sleep takes longer


class GuardedProcess:
    """A started process with a group and a guard of its own.

    pid, pgid   the same number
    born        identifies the process even if its pid is reused (`process_identity.identity`)
    mark        the value of SEMEL_SPAWN in its environment
    """

    def __init__(self, popen: subprocess.Popen[bytes], born: str, stderr: StderrReader, guard: Guard) -> None:
        self.pid = self.pgid = popen.pid
        self.born = born
        self.mark = process_identity.mark(popen.pid, born)
        self.stderr = stderr
        assert popen.stdin and popen.stdout
        self.writer = StdinWriter(popen.stdin)
        self.stdout = popen.stdout  # raw; its reader closes it
        self._popen = popen
        self._guard = guard
        self._exited = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        self._ending: asyncio.Task[None] | None = None
        self._over = False  # the group is gone, and its number may be reused: send no more signals
        self._watch()

    def __repr__(self) -> str:
        return f"<Process {self.pid} {'exit ' + str(self.code) if self._exited.is_set() else 'running'}>"

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        on_start: Callable[[int, int, str], Awaitable[None]],
        log: Callable[[str], None],
    ) -> GuardedProcess:
        """Start the launcher, have `on_start(pid, pgid, born)` record it, then let it exec the command.

        log: called with each line of stderr. Raises OSError if no process could be started. If `on_start` raises,
        the process is ended and the exception passes on.
        """
        popen, control = _spawn_launcher(command, cwd, env)
        try:
            assert popen.stderr
            born = process_identity.identity(popen.pid) or "gone"
            self = cls(popen, born, StderrReader(popen.stderr, log), _start_guard(popen))
            try:
                await on_start(self.pid, self.pgid, born)
            except BaseException:
                self.stdout.close()
                await self.end(0.0)
                raise
            with contextlib.suppress(OSError):  # it is dead already; the watcher reports that
                os.write(control, f"{self.mark}\n".encode())
            return self
        finally:
            os.close(control)

    # ---------------------------------------------------------------- watching for its exit

    @property
    def code(self) -> int | None:
        """Exit code, or minus the signal's number (subprocess); None while it runs."""
        return self._popen.returncode

    def on_exit(self, call: Callable[[], None]) -> None:
        """Call `call` in the event loop when the leader exits; at once if it already has."""
        if self._exited.is_set():
            call()
        else:
            self._watchers.append(call)

    async def exited(self, within: float) -> bool:
        """Wait up to `within` seconds for the leader's exit; True if it has exited."""
        if not self._exited.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._exited.wait()
        return self._exited.is_set()

    @property
    def ending(self) -> bool:
        """Whether the gateway is ending the process, so that workers get their grace period."""
        return self._ending is not None

    def how_it_ended(self) -> str:
        """For people: "exited with code 3", "was killed by SIGKILL", "is running"."""
        if self.code is None:
            return "is running"
        if self.code >= 0:
            return f"exited with code {self.code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-self.code).name}"
        return f"was killed by signal {-self.code}"

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, args=(loop,), daemon=True).start()
            return

        def gone() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            self._popen.wait()
            self._has_exited()

        loop.add_reader(fd, gone)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the event loop is closed already
            loop.call_soon_threadsafe(self._has_exited)

    def _has_exited(self) -> None:
        self._exited.set()
        watchers, self._watchers = self._watchers, []
        for call in watchers:
            call()

    # ---------------------------------------------------------------- ending it

    def kill(self) -> None:
        """SIGKILL for the whole group, now. `end` still has to be awaited for the rest."""
        self._signal(signal.SIGKILL)

    async def end(self, grace: float) -> None:
        """Close stdin, send SIGTERM after `grace` seconds and SIGKILL after `grace` more; afterwards the group is gone.

        May be called several times. If the caller is cancelled, the termination continues.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(grace))
        elif grace == 0 and not self._ending.done():
            self.kill()
        await asyncio.shield(self._ending)

    async def _end(self, grace: float) -> None:
        self.writer.close()
        if grace > 0:
            orderly = await self.exited(grace)
            self._signal(signal.SIGTERM)  # also for workers that a leader left behind
            if orderly or await self.exited(grace):
                await self._workers_gone(min(grace, MAX_WORKER_GRACE_S))
        self.kill()
        await self.exited(KILL_TIMEOUT_S)
        await asyncio.to_thread(process_identity.kill_tagged_processes, self.mark)
        self._reap_adopted()
        self._over = True
        self._guard.leave()
        self.stderr.close()

    async def _workers_gone(self, within: float) -> None:
        """Wait for the group's workers to exit: one may still be writing the history that a later load reads."""
        until = asyncio.get_running_loop().time() + within
        while await asyncio.to_thread(process_identity.list_group_members, self.pgid):
            if asyncio.get_running_loop().time() > until:
                return
            await asyncio.sleep(0.02)
        self._over = True

    def _signal(self, number: signal.Signals) -> None:
        if self._over:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pgid, number)

    def _reap_adopted(self) -> None:
        """Reap orphans of the group. In a container the gateway may be pid 1 and inherits them as zombies."""
        if not self._exited.is_set():
            return  # the leader is Popen's to reap
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pgid, os.WNOHANG)[0]:
                pass


def _spawn_launcher(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start the launcher; returns it and the write end of its control pipe. It waits there for its mark.

    Must run in the event loop's thread, because PDEATHSIG fires when the starting thread ends.
    """
    theirs, ours = os.pipe()
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER_PATH), str(theirs), "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            pass_fds=(theirs,),
            bufsize=0,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return popen, ours


def _start_guard(popen: subprocess.Popen[bytes]) -> Guard:
    try:
        return Guard(popen.pid)
    except BaseException:
        popen.kill()
        popen.communicate()  # the launcher is still waiting, so this returns at once; it closes the pipes
        raise
