"""`semel chat` while an answer of 10,000 lines streams, and opened when it is there: its CPU time, and what it writes.

A redraw of the whole screen must not cost more at the end than at the beginning: a terminal that grows slow flickers.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from bench.fold import verdict
from bench.house import House, cpu_of, rss
from semel.testing import scripted_agent

LINES, PIECES = 10_000, 2_000
ROWS, COLUMNS = 40, 120
WIDTHS = (60, 200)  # of the window, one after the other
IDLE_CPU_S = 0.05  # a second, of a terminal that has nothing to draw
PATIENCE_S = 600.0
MIN_REDRAW_BYTES = 3_000  # of a frame in which the text has scrolled
BEGIN, END = rb"\x1b\[\?2026h", rb"\x1b\[\?2026l"  # of a frame
HAS_FRAMES, FRAMES = b"\x1b[?2026$p", b"\x1b[?2026;2$y"  # what it asks a terminal about them, and the answer


class Screen:
    """`semel chat` on a pseudo-terminal. `written` is all that it has written."""

    def __init__(self, house: House) -> None:
        self.written = bytearray()
        self._file, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semel", "chat", "bench", "--config", str(house.config)],
            env={**os.environ, "HOME": str(house.root), "TERM": "xterm-256color"},
            stdin=side, stdout=side, stderr=side, start_new_session=True,
        )  # fmt: skip
        os.close(side)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)  # the terminal that controls it is another one

    def read_until_idle(self) -> float:
        """Read until it uses no CPU time any more; return how much it has used by then, in seconds."""
        used_s = -1.0
        while (now_s := cpu_of(self.process.pid)) - used_s > IDLE_CPU_S:
            used_s, end = now_s, time.monotonic() + 1
            while time.monotonic() < end:
                self._read()
        return now_s

    def type(self, text: bytes) -> None:
        os.write(self._file, text)

    def read_until(self, text: bytes) -> None:
        end = time.monotonic() + PATIENCE_S
        begin = max(len(self.written) - len(text), 0)
        while self.written.find(text, begin) < 0:
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{text!r} did not come: {bytes(self.written[-2000:])!r}")
            self._read()

    def _read(self) -> None:
        if select.select([self._file], [], [], 0.2)[0]:
            got = os.read(self._file, 65_536)
            self.written += got
            if HAS_FRAMES in got:
                self.type(FRAMES)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._file)


def _list_redraws(written: bytes) -> list[int]:
    """Return how many bytes each frame has in which the text has scrolled."""
    frames = re.findall(BEGIN + b"(.*?)" + END, written, re.DOTALL)
    return [len(frame) for frame in frames if len(frame) > MIN_REDRAW_BYTES]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        house = House(Path(folder), instant=False)
        text = "".join(f"Line {n}: so many words.\n{'' if n % 10 else chr(10)}" for n in range(1, LINES + 1))
        script = house.root / "script"
        script.write_text(json.dumps([{"when": "go", "steps": [{"text": text, "chunks": PIECES, "delay": 0.01}]}]))
        command = scripted_agent.command(state=house.root / "agent", script=script)
        config = house.config.read_text()
        house.config.write_text(re.sub(r"(?m)^command = .*$", lambda _: f"command = {json.dumps(command)}", config))
        house.up()
        screen = Screen(house)
        try:
            screen.read_until(b"a new session")
            time.sleep(1)
            used_s, size, begin = cpu_of(screen.process.pid), len(screen.written), time.monotonic()
            screen.type(b"go\r")
            screen.read_until(f"Line {LINES}:".encode())
            took_s, used_s = time.monotonic() - begin, cpu_of(screen.process.pid) - used_s
            redraws = _list_redraws(bytes(screen.written[size:]))
            third = len(redraws) // 3
            early, late = (sum(part) / max(len(part), 1) for part in (redraws[:third], redraws[-third:]))
            print(f"an answer of {LINES:,} lines in {PIECES:,} pieces: shown after {took_s:.0f} s")
            print(f"  {used_s:.1f} s of CPU, {(len(screen.written) - size) / LINES:.0f} bytes a line,", end=" ")
            print(f"{rss(screen.process.pid):.0f} MB")
            print(f"  {len(redraws)} redraws of the screen, {early / 1000:.1f} kB each in the first third")
            print(f"  one in the last third, against the first: {verdict(late / early, 1.2)}", flush=True)
            _measure_resizing("drawn whole", screen)
            screen.close()
            begin, screen = time.monotonic(), Screen(house)
            screen.read_until(f"Line {LINES}:".encode())
            took_s, used_s = time.monotonic() - begin, cpu_of(screen.process.pid)
            print(f"opened again: its end is shown after {took_s:.1f} s")
            print(f"  CPU by then, with the start of the program: {used_s:.1f} s; until idle:", end=" ")
            print(f"{screen.read_until_idle():.1f} s, {rss(screen.process.pid):.0f} MB", flush=True)
            _measure_resizing("opened again", screen)
        finally:
            screen.close()
            house.down()


def _measure_resizing(state: str, screen: Screen) -> None:
    used_s = screen.read_until_idle()
    for columns in WIDTHS:
        screen.resize(columns)
        now_s = screen.read_until_idle()
        print(f"  {state}, made {columns} columns wide: {now_s - used_s:.2f} s of CPU", flush=True)
        used_s = now_s


if __name__ == "__main__":
    main()
