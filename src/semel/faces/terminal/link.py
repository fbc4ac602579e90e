"""The terminal's connection to the gateway: one event stream, resumed by rev after every break (Law 8)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from semel.faces.api_types import Accepted
from semel.faces.client import AsyncClient, NoGateway, RequestRefused, session_path
from semel.faces.terminal.attachments import Attachment, CannotAttach
from semel.faces.terminal.outgoing import OutgoingMessage
from semel.faces.view import SessionView
from semel.law.wake import Busy as BusyMode
from semel.text.json_types import Json

State = Literal["connecting", "connected", "away", "new"]

RECONNECT_DELAYS_S = (0.1, 0.3, 1.0, 2.0)
LATE_ANSWER_S = 10.0  # as long as a stream that has begun may be silent by default
SESSION_POLL_S = 2.0  # seconds between two checks whether a new session exists by now


class SessionLink:
    """Keeps the view of one session up to date. Calls `on_change(rows, state)` after every change of view or state."""

    def __init__(self, data_dir: Path, session: str, on_change: Callable[[list[Json], State], None]):
        self.data_dir = data_dir
        self.session = session
        self.view = SessionView()
        self.state: State = "connecting"
        self._on_change = on_change
        self._message_sent = asyncio.Event()  # set after a message was sent: the first one creates the session
        self.client: AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<SessionLink {self.session} {self.state} {self.view!r}>"

    async def run(self) -> None:
        """Follow the stream until cancelled, reconnecting with increasing delays. Raises RequestRefused."""
        failures = 0
        while True:
            try:
                async with AsyncClient(self.data_dir) as self.client:
                    async for frame in self._open_stream(self.client):
                        failures = 0
                        self.state = "connected"
                        self._on_change(self.view.apply(frame), self.state)
            except NoGateway:
                pass
            except RequestRefused as error:
                if error.code != "no-such-session":
                    raise
                await self._wait_until_created()
                continue
            self._set_state("away")
            await asyncio.sleep(RECONNECT_DELAYS_S[min(failures, len(RECONNECT_DELAYS_S) - 1)])
            failures += 1

    async def _open_stream(self, client: AsyncClient) -> AsyncGenerator[Json, None]:
        """Yield the frames of the stream. Until the first one comes, a gateway that is late counts as away."""
        late = asyncio.get_running_loop().call_later(LATE_ANSWER_S, self._set_state, "away")
        try:
            async for frame in client.stream(self.session, self.view.rev):
                late.cancel()
                yield frame
        finally:
            late.cancel()

    async def _wait_until_created(self) -> None:
        if removed_rows := self.view.forget():  # the session was deleted while it was shown
            self.state = "new"
            self._on_change(removed_rows, self.state)
        self._set_state("new")
        with contextlib.suppress(TimeoutError):  # somebody else may create the session
            await asyncio.wait_for(self._message_sent.wait(), SESSION_POLL_S)
        self._message_sent.clear()

    def _set_state(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._on_change([], state)

    async def say(self, text: str, sender: str | None, busy: BusyMode | None = None, id: str | None = None) -> Accepted:
        """Send a message. Raises NoGateway, RequestRefused or OutcomeUnknown, whose `id` makes a repeat safe."""
        async with AsyncClient(self.data_dir) as client:
            accepted = await client.say(self.session, text, sender=sender, busy=busy, id=id, seen=self.view.rev)
        self._message_sent.set()
        return accepted

    async def post(self, message: OutgoingMessage, keep: Callable[[OutgoingMessage], None]) -> Accepted:
        """Try once to send a message, after its files. `keep` is called when they are uploaded: another attempt then
        names the same uploads, whatever became of the files.

        Raises NoGateway, even if it may have arrived, RequestRefused, or CannotAttach if a file cannot be read.
        """
        async with AsyncClient(self.data_dir) as client:
            if any(file.id is None for file in message.files):
                await upload_files(client, message.files)
                keep(message)
            try:
                answer = await client.post(f"{session_path(self.session)}/messages", message.write_body())
            except RequestRefused as error:
                if error.code != "not-found" or not message.files:
                    raise
                await upload_files(client, message.files)  # the uploads were too old, and nothing was accepted
                keep(message)
                answer = await client.post(f"{session_path(self.session)}/messages", message.write_body())
        self._message_sent.set()
        return msgspec.convert(answer, Accepted)

    async def stop(self, by: str | None) -> bool:
        turn, seen = self.view.session.get("turn"), self.view.rev
        async with AsyncClient(self.data_dir) as client:
            return await client.stop(self.session, by, turn=turn, seen=seen)

    async def answer(self, item: int, option: str | None, by: str | None) -> str:
        async with AsyncClient(self.data_dir) as client:
            return await client.answer(self.session, item, option, by=by, seen=self.view.rev)

    async def mark_seen(self, rev: int) -> None:
        async with AsyncClient(self.data_dir) as client:
            await client.mark_seen(self.session, rev)

    async def load_output(self, item: int) -> str | None:
        """Return the whole output of a tool call as it is stored; None if it cannot be had."""
        pieces = []
        try:
            async with AsyncClient(self.data_dir) as client:
                async for piece in client.read_pieces(f"{session_path(self.session)}/outputs/{item}?raw=1"):
                    pieces.append(piece)
        except (NoGateway, RequestRefused):
            return None
        return b"".join(pieces).decode(errors="replace")

    async def find_workspace(self) -> Path | None:
        """Return the folder in which the session's agent works; None if it is not known yet."""
        try:
            async with AsyncClient(self.data_dir) as client:
                workspace = (await client.get(session_path(self.session))).get("workspace")
        except (NoGateway, RequestRefused):
            return None
        return Path(str(workspace)) if workspace else None

    async def load_older(self) -> list[Json]:
        """Load a page of older history into the view. Returns the new rows; empty if there is no more."""
        oldest_seq = min(self.view.entries, default=0)
        if not self.view.has_older or not oldest_seq:
            return []
        async with AsyncClient(self.data_dir) as client:
            path = f"{session_path(self.session)}/history"
            return self.view.prepend(await client.get(path, before=oldest_seq, limit=100))


async def upload_files(client: AsyncClient, files: Sequence[Attachment]) -> None:
    """Upload files, and note the ids of their uploads. Raises CannotAttach, NoGateway, RequestRefused."""
    for file in files:
        try:
            file.id = (await client.upload(file.path, file.wire_name)).id
        except OSError as error:
            raise CannotAttach(f"{file.wire_name} cannot be read: {error.strerror}") from None
