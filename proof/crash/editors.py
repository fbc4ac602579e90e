"""An editor in a world: it starts `semel acp`, speaks ACP with it, and keeps what it is shown."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.crash.lives import Life, Lives
from semel.faces.acp.editor_profiles import EDITOR_PROFILES

Json = dict[str, Any]
CHUNKS = {"user_message_chunk": "user", "agent_message_chunk": "agent"}
NAME = "semel.nvim"  # it shows what others say at once
MAX_LINE_BYTES = 1 << 20
assert EDITOR_PROFILES[NAME].out_of_turn == "direct"


class Editor:
    """One editor with one `semel acp`. `name`: of its two named pipes, in `place`.

    `texts`: what it shows, by message: (role, text). `answers`: of `semel acp` to its requests, by id.
    """

    def __init__(self, lives: Lives, place: Path, name: str) -> None:
        self._lives, self._place, self._name = lives, place, name
        self.texts: dict[str, tuple[str, str]] = {}
        self.answers: dict[int, list[Json]] = {}
        self.life: Life | None = None
        self._news = asyncio.Event()
        self._input = -1
        self._reading: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Editor {self._name} {self.life!r} {len(self.texts)} texts>"

    async def start(self, data: Path, control: Path | None) -> None:
        """Start `semel acp`. `control`: the file that says where it is killed."""
        ends = [self._place / f"{self._name}.{end}" for end in ("in", "out")]
        for end in ends:
            os.mkfifo(end)
        self._input = os.open(ends[0], os.O_RDWR | os.O_NONBLOCK)
        output = os.fdopen(os.open(ends[1], os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
        reader = asyncio.StreamReader(MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), output)
        told = {"killat": str(control)} if control is not None else {}
        argv = ["acp", "--no-start", "--data-dir", str(data)]
        self.life = await self._lives.start("editor", self._place, argv=argv, pipes=[str(end) for end in ends], **told)
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, id: int, method: str, **params: Any) -> bool:
        """Send a request, and return whether it was answered before `semel acp` ended."""
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        os.write(self._input, json.dumps(request).encode() + b"\n")
        await self._until(lambda: id in self.answers)
        return id in self.answers

    async def load(self, session: str, folder: str) -> bool:
        """Load a session; return whether that was answered before `semel acp` ended."""
        about = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": NAME, "version": "1"}}
        return await self.ask(1, "initialize", **about) and await self.ask(
            2, "session/load", sessionId=session, cwd=folder, mcpServers=[]
        )

    async def shows(self, text: str) -> None:
        """Wait until it shows this text, or `semel acp` ends."""
        await self._until(lambda: text in self.list_texts("agent"))

    def list_texts(self, role: str) -> list[str]:
        """Return what it shows of a role: `user` or `agent`."""
        return [text for who, text in self.texts.values() if who == role]

    async def end(self) -> int:
        """Close its end, and return the code with which `semel acp` ends."""
        assert self.life is not None and self._reading is not None
        os.close(self._input)
        self._input = -1
        await self._reading
        return await self.life.wait()

    async def kill(self) -> None:
        """Kill `semel acp`, if it runs."""
        if self.life is not None and self._input != -1:
            await self.life.kill()
            await self.end()

    async def _until(self, true: Callable[[], bool]) -> None:
        assert self._reading is not None
        while not true() and not self._reading.done():
            self._news.clear()
            await self._news.wait()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            if not line.endswith(b"\n"):  # it was killed in the middle of a line
                break
            message = json.loads(line)
            if message.get("method") == "session/update":
                self._take_update(message["params"]["update"])
            elif "method" not in message:
                self.answers.setdefault(message["id"], []).append(message)
            self._news.set()
        asyncio.get_running_loop().call_soon(self._news.set)  # once this task is done

    def _take_update(self, update: Json) -> None:
        if role := CHUNKS.get(update["sessionUpdate"]):
            _, before = self.texts.get(update["messageId"], (role, ""))
            self.texts[update["messageId"]] = role, before + str(update["content"]["text"])
