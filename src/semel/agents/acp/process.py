"""Start, watch and end an agent's process group.

The started process is the *leader* of its group; the others in the group are its *workers*. A leader may be only a
launcher whose workers live on after it, and descendants may hold Semel's pipes open. So an exit is detected with the
kernel's help (pidfd, or a thread in waitpid where there is none) and not by the end of a pipe, and the whole group is
ended. No process runs before its spawn is recorded (`launch.py`), and none outlives the gateway (`Guard`; Law 10).
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

from semel.agents.acp.pipes import StderrReader, StdinWriter
from semel.gateway import process_identity
from semel.gateway.process_identity import kill_group_if_same as kill_group_if_same

LAUNCHER_PATH = Path(__file__).parent.parent / "launch.py"
MAX_WORKER_GRACE_S = 1.0  # how long workers may run on between their leader's exit and SIGKILL
GUARD_SCRIPT = '''trap "" INT TERM HUP; read -r word; [ "$word" = leave ] || kill -s KILL -- "-$1"'''
KILL_TIMEOUT_S = 5.0  # how long to wait after SIGKILL; a process in uninterruptible sleep takes longer


class GuardedProcess:
    """A started process, with a process group and a guard of its own.

    - `pid`, `pgid`: the ids of process and group; they are the same number.
    - `born`: the start time, which identifies the process even if its pid is reused (`process_identity.read_identity`).
    - `mark`: its spawn tag, which is the value of SEMEL_SPAWN in its environment.
    """

    def __init__(self, popen: subprocess.Popen[bytes], born: str, stderr: StderrReader, guard: Guard) -> None:
        self.pid = self.pgid = popen.pid
        self.born = born
        self.mark = process_identity.make_spawn_tag(popen.pid, born)
        self.stderr = stderr
        assert popen.stdin and popen.stdout
        self.writer = StdinWriter(popen.stdin)
        self.stdout = popen.stdout  # raw; its reader closes it
        self._popen = popen
        self._guard = guard
        self._exited = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        self._ending: asyncio.Task[None] | None = None
        self._is_gone = False  # the group is gone, and its number may be reused: send no more signals
        self._watch_exit()

    def __repr__(self) -> str:
        return f"<GuardedProcess {self.pid} {'exit ' + str(self.code) if self._exited.is_set() else 'running'}>"

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
        """Start the launcher, let `on_start(pid, pgid, born)` record it, then let it exec the command.

        Return the process. `log`: gets each line of stderr. Raises OSError if no process could be started. If
        `on_start` raises, the process is ended and the exception is raised here.
        """
        popen, control = _spawn_launcher(command, cwd, env)
        try:
            assert popen.stderr
            born = process_identity.read_identity(popen.pid) or "gone"
            self = cls(popen, born, StderrReader(popen.stderr, log), _start_guard(popen))
            try:
                await on_start(self.pid, self.pgid, born)
            except BaseException:
                self.stdout.close()
                await self.end(0.0)
                raise
            with contextlib.suppress(OSError):  # the launcher is dead already; `call_on_exit` reports that
                os.write(control, f"{self.mark}\n".encode())
            return self
        finally:
            os.close(control)

    # ---------------------------------------------------------------- watching for its exit

    @property
    def code(self) -> int | None:
        """The leader's exit code, or minus the number of the signal that killed it; None while it runs."""
        return self._popen.returncode

    def call_on_exit(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the event loop when the leader exits, or now if it already has."""
        if self._exited.is_set():
            callback()
        else:
            self._watchers.append(callback)

    async def wait_for_exit(self, within: float) -> bool:
        """Wait up to `within` seconds for the leader's exit. Return whether it has exited."""
        if not self._exited.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._exited.wait()
        return self._exited.is_set()

    @property
    def is_ending(self) -> bool:
        """Whether `end` was called. It gives the workers time to exit, so nobody else may kill them at once."""
        return self._ending is not None

    def describe_end(self) -> str:
        """Return the process's end in words: "exited with code 3", "was killed by SIGKILL", or "is running"."""
        if self.code is None:
            return "is running"
        if self.code >= 0:
            return f"exited with code {self.code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-self.code).name}"
        return f"was killed by signal {-self.code}"

    def _watch_exit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, args=(loop,), daemon=True).start()
            return

        def on_gone() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            self._popen.wait()
            self._on_exit()

        loop.add_reader(fd, on_gone)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the event loop is closed already
            loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        self._exited.set()
        watchers, self._watchers = self._watchers, []
        for call in watchers:
            call()

    # ---------------------------------------------------------------- ending it

    def kill(self) -> None:
        """Send SIGKILL to the whole group now.

        Afterwards, `end` must still be awaited, to reap the process and clean up.
        """
        self._signal(signal.SIGKILL)

    async def end(self, grace: float) -> None:
        """End the group: close stdin, send SIGTERM after `grace` seconds, and SIGKILL after `grace` more.

        Return when the group is gone. Several calls are harmless. If the caller is cancelled, the termination
        continues.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(grace))
        elif grace == 0 and not self._ending.done():
            self.kill()
        await asyncio.shield(self._ending)

    async def _end(self, grace: float) -> None:
        self.writer.close()
        if grace > 0:
            orderly = await self.wait_for_exit(grace)
            self._signal(signal.SIGTERM)  # also for workers that a leader left behind
            if orderly or await self.wait_for_exit(grace):
                await self._wait_for_workers(min(grace, MAX_WORKER_GRACE_S))
        self.kill()
        await self.wait_for_exit(KILL_TIMEOUT_S)
        await asyncio.to_thread(process_identity.kill_tagged_processes, self.mark)
        self._reap_adopted()
        self._is_gone = True
        self._guard.dismiss()
        self.stderr.close()

    async def _wait_for_workers(self, within: float) -> None:
        """Wait up to `within` seconds for the workers to exit.

        One may still be writing the history for a later load.
        """
        deadline = asyncio.get_running_loop().time() + within
        while await asyncio.to_thread(process_identity.list_group_members, self.pgid):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.02)
        self._is_gone = True

    def _signal(self, number: signal.Signals) -> None:
        if self._is_gone:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pgid, number)

    def _reap_adopted(self) -> None:
        """Reap the group's orphans. In a container, the gateway may be pid 1, and they become its zombies."""
        if not self._exited.is_set():
            return  # the leader is Popen's to reap
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pgid, os.WNOHANG)[0]:
                pass


def _spawn_launcher(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start the launcher, which waits for its spawn tag before it execs `command` (`launch.py`).

    Return (process, control pipe). The control pipe is the write end of a pipe that the launcher reads. Once the spawn
    is recorded, the caller writes the spawn tag (`GuardedProcess.mark`) and a newline to it. If the caller closes it
    without that line, the launcher exits. Call this function in the event loop's thread: the kernel kills the process
    when the thread that started it ends.
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


class Guard:
    """A guard process, which kills one process group if the gateway dies, even by SIGKILL.

    PDEATHSIG (`launch.py`) is not enough. It exists only on Linux and reaches only the group's leader, and many agents
    are launchers whose workers would go on and run the tool calls of their model's last answer
    (docs/decisions/own-the-pipe.md).

    So each group has a guard: a small shell that is a child of the gateway, has a session of its own and reads from a
    pipe. If the gateway dies, the pipe ends and the guard kills the group. After a normal end, the gateway writes
    "leave".
    """

    def __init__(self, pgid: int) -> None:
        theirs, ours = os.pipe()
        try:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", GUARD_SCRIPT, "semel-guard", str(pgid)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._pipe: int | None = ours

    def dismiss(self) -> None:
        """End the guard and reap it, which takes about 1 ms.

        Call this when the group is gone. A second call is harmless.
        """
        if self._pipe is None:
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"leave\n")
        os.close(self._pipe)
        self._pipe = None
        self._popen.wait()
