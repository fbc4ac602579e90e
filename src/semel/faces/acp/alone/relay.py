"""Run an agent for an editor, and pass bytes between the two (`semel acp --alone`).

Each direction has a thread of its own, which reads, decides (`stream`) and writes. If the program at one end stops
reading, this thread blocks, and then the program at the other end blocks, too, as it would without us. Only the thread
that reads from the agent writes to the editor; lines that waited for a line from the editor are put into its queue. The
descriptors that the editor gave us are not made non-blocking, because the editor may share them.

The agent has a process group of its own. It gets the signals that we get. It is ended when the editor is gone, because
nobody else would end it. If we are killed, a guard process ends it (`semel.agents.acp.process.Guard`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from semel.agents.acp.process import Guard
from semel.faces.acp.alone.stream import EditorStream
from semel.faces.acp.pipes import CHUNK_BYTES, LineSplitter, pass_stderr, read_blocking, write_all

END_GRACE_S = 2.0  # how long the agent has to end by itself if the editor is gone, and again after SIGTERM
SIGNAL_GRACE_S = 5.0  # how long it has to end after a signal that we were sent
WORKER_GRACE_S = 1.0  # how long its workers have to end after it
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STDIN, STDOUT, STDERR = 0, 1, 2


class Relay:
    """One agent and one editor, which is at the other end of our stdin, stdout and stderr."""

    def __init__(self, command: Sequence[str], stream: EditorStream) -> None:
        """Start the agent. Raises OSError if it cannot be started."""
        self._stream = stream
        self._lock = threading.Lock()  # guards `_stream`
        self._queue: deque[bytes] = deque()  # lines for the editor from the thread that reads the editor
        self._main_wake, self._agent_wake = _SelfPipe(), _SelfPipe()
        self._agent_has_ended = False
        self._group_has_ended = False  # its process group
        self._is_signalled = False
        self._next_signal, self._signal_at = signal.SIGTERM, inf
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self._stdin, self._stdout = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        self._stderr = self._popen.stderr.fileno()
        try:
            self._guard = Guard(self._popen.pid)
        except BaseException:
            self._popen.kill()
            raise

    def __repr__(self) -> str:
        return f"<Relay {self._popen.args!r} {self._stream!r}>"

    def run(self) -> int:
        """Pass bytes between editor and agent until the agent has ended.

        Returns the agent's exit code; 128 + n if signal n ended it.
        """
        for number in FORWARDED:
            signal.signal(number, self._forward_signal)
        reads_agent = threading.Thread(target=self._pass_from_agent, daemon=True)
        reads_stderr = threading.Thread(target=pass_stderr, args=(self._stderr, STDERR), daemon=True)
        threads = (reads_agent, reads_stderr, threading.Thread(target=self._pass_from_editor, daemon=True))
        for thread in (*threads, threading.Thread(target=self._wait_for_agent, daemon=True)):
            thread.start()
        self._watch_agent()
        code = self._end_group()
        reads_agent.join(SIGNAL_GRACE_S if self._is_signalled else None)  # a slow editor still gets all of it
        reads_stderr.join(WORKER_GRACE_S)
        return code

    # ---- the main thread

    def _watch_agent(self) -> None:
        """Wait until the agent has ended. End it if the editor is gone, or if we got a signal."""
        poller = select.poll()
        poller.register(self._main_wake.reader, select.POLLIN)
        poller.register(STDOUT, 0)  # its reader's end is reported without asking
        while not self._agent_has_ended:
            events = dict(poller.poll(_milliseconds_until(self._signal_at)))
            self._main_wake.clear()
            if STDOUT in events:
                poller.unregister(STDOUT)
                self._schedule_signal(signal.SIGTERM, END_GRACE_S)
            if time.monotonic() >= self._signal_at:
                self._send_signal(self._next_signal)
                self._schedule_signal(signal.SIGKILL, END_GRACE_S)

    def _schedule_signal(self, number: signal.Signals, delay_s: float) -> None:
        self._next_signal, self._signal_at = number, time.monotonic() + delay_s

    def _forward_signal(self, number: int, _frame: object) -> None:
        """Pass a signal on to the agent. If we have got one before, kill the agent."""
        self._send_signal(signal.SIGKILL if self._is_signalled else signal.Signals(number))
        self._is_signalled = True
        self._schedule_signal(signal.SIGKILL, SIGNAL_GRACE_S)
        self._main_wake.set()

    def _send_signal(self, number: signal.Signals) -> None:
        if not self._agent_has_ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)

    def _end_group(self) -> int:
        """Wait for the end of the agent and, at most WORKER_GRACE_S, of its process group; then kill the group.

        Returns the agent's exit code; 128 + n if signal n ended it.
        """
        code = self._popen.wait()
        deadline = time.monotonic() + WORKER_GRACE_S
        while _group_exists(self._popen.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._guard.dismiss()
        self._group_has_ended = True
        self._agent_wake.set()
        return code if code >= 0 else 128 - code

    # ---- the other threads

    def _wait_for_agent(self) -> None:
        self._popen.wait()
        self._agent_has_ended = True
        self._main_wake.set()

    def _pass_from_editor(self) -> None:
        splitter = LineSplitter()
        while chunk := read_blocking(STDIN):
            for piece in splitter.split_chunk(chunk):
                if piece.is_line and (lines := self._convert_line(self._stream.handle_editor_line, piece.data, [])):
                    self._queue.extend(lines)
                    self._agent_wake.set()
            write_all(self._stdin, chunk)
        assert self._popen.stdin
        with contextlib.suppress(OSError):
            self._popen.stdin.close()

    def _pass_from_agent(self) -> None:
        splitter = LineSplitter()
        poller = select.poll()
        poller.register(self._stdout, select.POLLIN)
        poller.register(self._agent_wake.reader, select.POLLIN)
        while True:
            events = dict(poller.poll(self._milliseconds_to_flush()))
            self._agent_wake.clear()
            chunk = b""
            if self._stdout in events:
                chunk = read_blocking(self._stdout)
                if not chunk:
                    break
            elif self._group_has_ended:
                break  # a process that left its group may hold the pipe
            self._write_out(splitter, chunk)
        with self._lock:
            lines = self._stream.end()
        write_all(STDOUT, b"".join((*self._pop_queue(), *lines, splitter.take_rest())))

    def _write_out(self, splitter: LineSplitter, chunk: bytes) -> None:
        out: list[bytes] = [] if splitter.is_inside_long_line else self._pop_queue()
        for piece in splitter.split_chunk(chunk):
            if piece.is_line:
                out += self._convert_line(self._stream.handle_agent_line, piece.data, [piece.data])
            else:
                out.append(piece.data)
        if not splitter.is_inside_long_line:
            with self._lock:
                out += self._stream.flush(time.monotonic())
        write_all(STDOUT, b"".join(out))  # if nobody reads it any more, the main thread notices that

    def _convert_line(
        self, convert: Callable[[bytes, float], list[bytes]], line: bytes, fallback: list[bytes]
    ) -> list[bytes]:
        """Return what `convert` returns for a line; `fallback` if it raises an exception, which is a bug of Semel.

        After a bug, every line passes unchanged: a message that is shown twice is better than an editor that waits for
        ever.
        """
        try:
            with self._lock:
                return convert(line, time.monotonic())
        except Exception as error:
            self._stream.pass_all()
            fault = f"semel: {type(error).__name__}: {error}. From here on, every line passes as it comes.\n"
            write_all(STDERR, fault.encode(errors="replace"))
            return fallback

    def _pop_queue(self) -> list[bytes]:
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _milliseconds_to_flush(self) -> float | None:
        with self._lock:
            due_at = self._stream.due_at
        return 0 if self._group_has_ended else _milliseconds_until(inf if due_at is None else due_at)


class _SelfPipe:
    """Wakes a thread that waits in poll() for `reader`."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        os.set_blocking(self.reader, False)

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is set already
            os.write(self._writer, b"w")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, CHUNK_BYTES)


def _milliseconds_until(deadline: float) -> float | None:
    return None if deadline == inf else max(0.0, deadline - time.monotonic()) * 1000


def _group_exists(pgid: int) -> bool:
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
