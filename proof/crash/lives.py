"""The zygote, from outside: `Lives.start` gives a process, and tells when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import semel

HERE = Path(__file__).parents[2]


def search_path() -> str:
    """PYTHONPATH for what is started: the semel and the proof that this process has, wherever they come from."""
    own = [str(Path(semel.__file__).parents[1]), str(HERE)]
    return os.pathsep.join([*own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])


def environment(home: Path) -> dict[str, str]:
    """Of every life: nothing of Semel's own settings comes from whoever runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "XDG_"))}
    return {**kept, "HOME": str(home), "PYTHONPATH": search_path()}


class Life:
    """One process. `code` is None while it lives, then as `subprocess.Popen.returncode`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<Life {self.pid} {'going on' if self.code is None else f'over: {self.code}'}>"

    @property
    def code(self) -> int | None:
        return self.ended.result() if self.ended.done() else None

    async def wait(self) -> int:
        """Until it is over; its code."""
        return await asyncio.shield(self.ended)

    def signal(self, number: int) -> None:
        """Nothing happens to one that is over: its pid is not looked at again."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def kill(self) -> None:
        """SIGKILL, and until it is over."""
        self.signal(signal.SIGKILL)
        await self.wait()


class Lives:
    """The zygote under `library`. `async with Lives(library) as lives`: every life ends with the block."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self._numbers = itertools.count()
        self._born: dict[int, asyncio.Future[Life]] = {}
        self._living: dict[int, Life] = {}

    def __repr__(self) -> str:
        return f"<Lives {len(self._living)}>"

    async def __aenter__(self) -> Lives:
        env = {**os.environ, "LD_PRELOAD": str(self.library), "PYTHONPATH": search_path()}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what it compiles, no other process compiles again
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proof.crash.zygote", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=env, cwd=HERE,
        )  # fmt: skip
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._listening

    async def start(self, do: str, place: Path, **told: Any) -> Life:
        """A new process; see `zygote.py` for what it is told."""
        assert self._process.stdin is not None
        id = next(self._numbers)
        born: asyncio.Future[Life] = asyncio.get_running_loop().create_future()
        self._born[id] = born
        line = {"id": id, "do": do, "place": str(place), "env": environment(place), **told}
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        await self._process.stdin.drain()
        return await born

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "born" in told:
                life = self._living[told["pid"]] = Life(told["pid"])
                asked = self._born.pop(told["born"])
                if asked.done():  # whoever asked for it is gone
                    life.signal(signal.SIGKILL)
                else:
                    asked.set_result(life)
            else:
                self._living.pop(told["dead"]).ended.set_result(told["code"])
        for life in self._living.values():  # every process of a zygote ends with it
            life.ended.set_result(-signal.SIGKILL)
        for born in self._born.values():
            if not born.done():
                born.set_exception(RuntimeError("the process that starts them ended; what it said is on stderr"))


async def strays(place: Path, patience: float = 20.0) -> list[str]:
    """What still runs of the worlds in `place`, after a while: command lines. It is killed."""
    end = time.monotonic() + patience
    while found := _strays(place):
        if time.monotonic() > end:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            break
        await asyncio.sleep(0.05)  # a process does not tell that it ended to who did not start it
    return list(found.values())


def _strays(place: Path) -> dict[int, str]:
    found = {}
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = one.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(place) in line and int(one.parent.name) != os.getpid():
                found[int(one.parent.name)] = line.strip()
    return found
