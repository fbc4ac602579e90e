"""One agent process and its group: started, watched, ended. It never waits on a pipe to learn of a death.

The spawned pid may be a launcher whose worker lives on, and grandchildren may hold our pipes: so the
exit is learned from the kernel (pidfd; elsewhere a waiting thread), and what is ended is the whole
process group.
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
from semel.agents.acp.pipes import Stderr, Writer
from semel.gateway import process_identity
from semel.gateway.process_identity import kill_group_if_same as kill_group_if_same

LAUNCH = Path(__file__).parent.parent / "launch.py"
SWEEP = 1.0  # seconds that workers get between their leader's exit and SIGKILL
REAP = 5.0  # seconds a SIGKILL may take (a process in uninterruptible sleep takes longer)


class Process:
    """A started agent: `pid`, `pgid` (the same), `born` (births.identity), its pipes, and how it ended."""

    def __init__(self, popen: subprocess.Popen[bytes], born: str, stderr: Stderr, guard: Guard) -> None:
        self.pid = self.pgid = popen.pid
        self.born = born
        self.mark = process_identity.mark(popen.pid, born)
        self.stderr = stderr
        assert popen.stdin and popen.stdout
        self.writer = Writer(popen.stdin)
        self.stdout = popen.stdout  # raw; whoever reads it closes it
        self._popen = popen
        self._guard = guard
        self._exited = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        self._ending: asyncio.Task[None] | None = None
        self._over = False  # the group is gone: its number may belong to others now
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
    ) -> Process:
        """Start the launcher, have `on_start(pid, pgid, born)` record it, then let it run the command.

        Raises OSError if no process could be made; what `on_start` raises passes, and the process is
        gone then.
        """
        popen, control = _popen(command, cwd, env)
        try:
            assert popen.stderr
            born = process_identity.identity(popen.pid) or "gone"
            self = cls(popen, born, Stderr(popen.stderr, log), _guard(popen))
            try:
                await on_start(self.pid, self.pgid, born)
            except BaseException:
                self.stdout.close()
                await self.end(0.0)
                raise
            with contextlib.suppress(OSError):  # it is dead: what watches it says so
                os.write(control, f"{self.mark}\n".encode())
            return self
        finally:
            os.close(control)

    # ---------------------------------------------------------------- its end, as it is learned

    @property
    def code(self) -> int | None:
        """Exit code, or minus the signal's number (subprocess); None while it runs."""
        return self._popen.returncode

    def on_exit(self, call: Callable[[], None]) -> None:
        """Have `call` called, in the event loop, when the leader has exited (at once, if it has)."""
        if self._exited.is_set():
            call()
        else:
            self._watchers.append(call)

    async def exited(self, within: float) -> bool:
        """Wait for the leader's exit, for at most so many seconds."""
        if not self._exited.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._exited.wait()
        return self._exited.is_set()

    @property
    def ending(self) -> bool:
        """The gateway is ending it: workers get their grace."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
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
        """stdin closed, SIGTERM after `grace` seconds, SIGKILL after `grace` more; then nothing is left.

        May be called again, by several, and be cancelled: the ending goes on.
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
            self._signal(signal.SIGTERM)  # to what the leader left, too
            if orderly or await self.exited(grace):
                await self._workers_gone(min(grace, SWEEP))
        self.kill()
        await self.exited(REAP)
        await asyncio.to_thread(process_identity.kill_strays, self.mark)
        self._reap_adopted()
        self._over = True
        self._guard.leave()
        self.stderr.close()

    async def _workers_gone(self, within: float) -> None:
        """An agent's worker may still be writing the history that a later load will read: let it finish."""
        until = asyncio.get_running_loop().time() + within
        while await asyncio.to_thread(process_identity.members, self.pgid):
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
        """In a container the gateway may be process 1, and inherits orphans: none stays a zombie."""
        if not self._exited.is_set():
            return  # the leader is Popen's to reap
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pgid, os.WNOHANG)[0]:
                pass


def _popen(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """The launcher, waiting for its mark, and our end of its control pipe. Called in the event loop's thread,
    because that thread's end is what PDEATHSIG tells."""
    theirs, ours = os.pipe()
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCH), str(theirs), "--", *command],
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


def _guard(popen: subprocess.Popen[bytes]) -> Guard:
    try:
        return Guard(popen.pid)
    except BaseException:
        popen.kill()
        popen.communicate()  # it has executed nothing yet: this ends at once, and closes its pipes
        raise
