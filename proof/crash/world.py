"""One run: the script is played, one process is killed at one point, and everything goes on until all is at rest."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2

from proof.crash import script
from proof.crash.editors import Editor
from proof.crash.house import LOOK, TOKEN, House, configuration
from proof.crash.killat import Control
from proof.crash.lives import Life, Lives
from proof.crash.people import Caller, Watcher
from proof.crash.platforms import Hook, Post, Taken

SCRIPTS = {
    "gateway": ("pair", "desk", "run", "stop", "hook"),
    "recovery": ("pair", "hook"),
    "restored": ("pair", "desk", "copied", "hook"),
    "tools": ("pair", "hook"),
    "exec": ("run", "hook"),
    "flush": ("run", "hook"),
    "jobs": ("job", "hook"),
    "editor": ("pair", "edit", "hook"),
}
"""The steps of the script for each process that is killed."""
PROCESSES = tuple(SCRIPTS)
ARMED = {"tools": "semel.tools", "jobs": "semel.tools.exec.supervisor"}
"""Processes that are armed as they start, by an argument of their command."""
PATIENCE = 120.0  # seconds that a run may take; it takes one or two where nobody else wants the machine
NODE = "node"
IN_LINE = "SELECT count(*) FROM part WHERE state IN ('queued', 'sending', 'unknown')"


class World:
    """`process` is killed at `point`; 0: nobody is. `base`: where a reporter is killed before one that takes over."""

    def __init__(
        self, lives: Lives, http: httpx2.AsyncClient, place: Path, process: str, point: int, base: int = 0,
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.lives, self.place, self.process, self.patience = lives, place, process, patience
        place.mkdir()
        (place / "memory").mkdir()
        self.control = Control(place / "killat", point)
        self.base = Control(place / "killat.base", base)
        number = {"gateway": 1, "recovery": 2, "restored": 2}.get(process)
        armed: dict[str, str] = {}
        if word := ARMED.get(process):
            armed = {"LD_PRELOAD": str(lives.library), "KILLAT_FILE": str(self.control.path), "KILLAT_WORD": word}
        self.house = House(lives, place, {number: self.control} if number else {}, armed)
        self.armed = armed if process == "tools" else {}
        self.post = Post(dropped=script.DROPPED, refused=script.REFUSED)
        self.bird = Post(dropped=script.DROPPED, refused=script.REFUSED)
        self.hook = Hook(dropped=script.DROPPED, refused=script.REFUSED)
        self.caller = Caller(http, self.house.url)
        self.watcher = Watcher(http, self.house.url, script.SESSION)
        self.editors = [Editor(lives, place, name) for name in ("first", "second")]
        self.faults: list[str] = []
        self.step = "start"
        self.asked: list[str] = []  # what was asked, in its order (script.MARKS)
        self.settling = 0  # points until a ledger that was put back was settled, and all of it was at rest
        self.exec_died = False
        self.exec_known = False  # a run was in the spool when its reporter died
        self.exec_finished = False  # and so was its end
        self._tasks: list[asyncio.Task[None]] = []

    def __repr__(self) -> str:
        return f"<World {self.process} {self.control!r} at {self.step!r}, {self.house!r}>"

    async def run(self) -> None:
        """Play it. Afterwards everything is dead, and the judge may look."""
        platforms = {"post": self.post, "bird": self.bird, "hook": self.hook}
        try:
            ports = {name: await each.start() for name, each in platforms.items()}
            config = self.place / "semel.toml"
            config.write_text(configuration(self.place, ports, self.armed))
            config.chmod(0o600)
            self._tasks.append(asyncio.create_task(self.house.run()))
            await self._bounded()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self.house.life is not None:
                await self.house.life.kill()
            for editor in self.editors:
                await editor.kill()
            for each in platforms.values():
                await each.stop()

    async def _bounded(self) -> None:
        """The script, until it is over, takes too long, or the gateway is no more."""
        playing = asyncio.create_task(self._play())
        await asyncio.wait({playing, self._tasks[0]}, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            playing.result()
        elif not self._tasks[0].done():
            self.faults.append(f"it did not come to rest: not within {self.patience:g} s of {self.step!r}")
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        self.faults += self.house.faults

    # ------------------------------------------------------------ the script

    async def _play(self) -> None:
        """Once the kill has struck, the step under way goes on to its end, and the last one shows that life does."""
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "pair": self._hears, "desk": self._is_called, "run": self._runs, "stop": self._restarts,
            "hook": self._is_hooked, "job": self._has_it_run, "copied": self._is_put_back, "edit": self._is_prompted,
        }  # fmt: skip
        chosen = SCRIPTS[self.process]
        for name in chosen:
            if name == chosen[-1] or not self.control.struck:
                self.step = name
                self.asked += {"stop": [], "job": ["job", "run"]}.get(name, [name])
                await steps[name]()
                if self.post.answers.is_set():
                    await self.house.rest()
            if name == "copied":
                self.settling = self.control.seen().count
        if self.process == "editor":
            await self._ends_editor()
        self.step = "watch"
        if rev := self.house.rev():
            self._watch()
            await self.watcher.reaches(rev)

    def _watch(self) -> None:
        if len(self._tasks) == 1:
            self._tasks.append(asyncio.create_task(self.watcher.run()))

    async def _hears(self) -> None:
        if self.process == "recovery":
            self.post.on_take = self._kill_once
        if self.process == "restored":
            for each in (self.post, self.bird, self.hook):
                each.answers.clear()
        self.post.write(script.M1, script.M2)
        await self.post.heard()
        self._watch()
        if self.process == "restored":
            await self._until(lambda: self.house.ask(IN_LINE) == [(3,)])

    async def _has_it_run(self) -> None:
        self.post.write(script.M3)
        await self.post.heard()
        self._watch()

    async def _is_put_back(self) -> None:
        """The ledger is copied while all is under way: a channel of each class has a message whose answer is out, and
        another one in line behind it; a turn runs, and a message waits. The gateway goes on for a while and is killed.
        """
        await self._until(lambda: self.house.ask(IN_LINE) == [(6,)])
        self.post.write(script.M4)
        await self._until(lambda: "copied" in (self.place / "agent.log").read_text())
        self.post.write(script.M5)
        await self.post.heard()
        await self._command("backup", str(self.place / "backups"))
        self.post.write(script.M6)
        await self.post.heard()
        self.hook.answers.set()
        await self._until(lambda: self.hook.has(script.HOOK_2))
        self.house.between = self._put_back
        self.house.kill()
        await self._until(lambda: self.house.number == 2)

    async def _put_back(self) -> None:
        await self._command("restore", "--replace", str(self.place / "backups"))
        for each in (self.post, self.bird, self.hook):
            each.answers.set()

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():  # noqa: ASYNC110 - what is waited for is plain state, of other processes too
            await asyncio.sleep(LOOK)

    def _kill_once(self, taken: Taken) -> None:
        """The platform has it, the gateway was not told so, and its turn still runs."""
        if self.house.number == 1:
            self.house.kill()

    async def _is_called(self) -> None:
        await self.caller.post(f"/v1/sessions/{script.SESSION}/messages", {"text": script.H1}, "h1")

    async def _is_hooked(self) -> None:
        await self.caller.post("/v1/hooks/hook", {"text": script.H2}, "h2", TOKEN)

    async def _restarts(self) -> None:
        if self.house.number == 1:
            await self.house.restart()

    async def _runs(self) -> None:
        """A command is run and reported; where its reporter dies, the next one reports."""
        await self.house.url()
        control = {"exec": self.control, "flush": self.base}.get(self.process)
        what = ["sh", "-c", f"echo ran >> {self.place}/ran"]
        command = ["exec", "--session", script.SESSION, "--wait", "60", *self._where(), "--", *what]
        await self._report(command, control)
        if self.exec_died:
            runs = self.spooled()
            self.exec_known = bool(runs)
            ends = [one.parent / f"exec.finished.{state}" for one in runs for state in ("json", "sent")]
            self.exec_finished = any(end.exists() for end in ends)
            flush = ["exec", "--flush", "--wait", "60", *self._where()]
            if self.process == "flush":
                await self._is_refused(flush)
            if await self._report(flush, self.control if self.process == "flush" else None):
                await self._report(flush, None)

    async def _is_prompted(self) -> None:
        """An editor prompts, and its `semel acp` ends or is killed. Another one then loads the session, and stays."""
        await self.house.url()
        first, second = self.editors
        await first.start(self.house.data, self.control.path)
        text = {"type": "text", "text": script.E1}
        is_answered = await first.load(script.SESSION, str(self.place)) and await first.ask(
            3, "session/prompt", sessionId=script.SESSION, prompt=[text]
        )
        ended = await first.end()
        if ended != 0 and not (ended == -signal.SIGKILL and self.control.struck):
            self.faults.append(f"`semel acp` ended with {ended}: {self._log('editor')}")
        if not is_answered and not self.control.struck:
            self.faults.append(f"the editor's prompt was not answered: {first.answers}")
        await second.start(self.house.data, None)
        if not await second.load(script.SESSION, str(self.place)):
            self.faults.append(f"the session cannot be loaded: {self._log('editor')}")

    async def _ends_editor(self) -> None:
        """The second editor shows what was said last, and is closed."""
        self.step = "editor"
        second = self.editors[1]
        await second.shows(script.HOME_4)
        if (ended := await second.end()) != 0:
            self.faults.append(f"the second `semel acp` ended with {ended}: {self._log('editor')}")

    async def _command(self, *argv: str) -> None:
        await self._report([*argv, "--data-dir", str(self.house.data)], None)

    async def _is_refused(self, flush: list[str]) -> None:
        """A reporter shows a token that is none: whatever it is told, the reports are there for the next one."""
        runs = self.spooled()
        token = self.place / "token"
        token.write_text("not-the-token-of-anybody")
        await self._report([*flush, "--token-file", str(token)], None, code=int(bool(runs)))
        if lost := [one.parent.name for one in runs if not one.exists()]:
            self.faults.append(f"the reports of {lost} were refused, and the spool does not hold them any more")

    def spooled(self) -> list[Path]:
        """The runs that are not reported to their end."""
        return sorted((self.house.data / "exec" / NODE).glob("*/run.json"))

    @property
    def ran(self) -> int:
        """How often the command was run."""
        ran = self.place / "ran"
        return len(ran.read_text().splitlines()) if ran.exists() else 0

    def _where(self) -> list[str]:
        return ["--name", NODE, "--data-dir", str(self.house.data)]

    async def _report(self, argv: list[str], control: Control | None, code: int = 0) -> bool:
        """Whether it was killed. `code`: what it ends with otherwise."""
        told = {"killat": str(control.path)} if control is not None else {}
        life: Life = await self.lives.start("exec", self.place, argv=argv, **told)
        try:
            ended = await life.wait()
        finally:
            life.signal(signal.SIGKILL)
        killed = ended == -signal.SIGKILL and control is not None and control.struck
        if ended != code and not killed:
            self.faults.append(f"`semel {argv[0]} {argv[1]}` ended with {ended}, not {code}: {self._log('exec')}")
        self.exec_died = self.exec_died or killed
        return killed

    def _log(self, name: str) -> str:
        return " ".join((self.place / f"{name}.log").read_text(errors="replace")[-400:].split())
