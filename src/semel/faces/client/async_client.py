"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

import msgspec

from semel.faces.api_types import Accepted, AskItem, Entry, Hit, Option, PermissionItem, SessionRow, UploadedFile
from semel.faces.client import wait_for_answer as waiting
from semel.faces.client.connection import (
    AGENT_START_TIMEOUT_S,
    Connection,
    RequestRefused,
    quote_segment,
    session_path,
)
from semel.faces.client.iterators import StreamIterator
from semel.faces.client.wait_for_answer import Answer
from semel.faces.client.watch import Update, watch_list, watch_session
from semel.faces.config import locate
from semel.faces.config.paths import expand_path
from semel.faces.frame_types import SessionListChanges, SessionListSnapshot
from semel.law.wake import Busy as BusyMode
from semel.text.json_types import Json

Outcome = Literal["answered", "already", "closed"]


class AsyncClient(Connection):
    """Talks with the gateway of this machine or, with `url`, with one elsewhere.

        async with AsyncClient() as client:
            answer = await client.ask("main:web:me", "hello")
            print(answer.text)

    The gateway is found as the command line finds it: by `data_dir`, `config`, $SEMEL_DATA, $SEMEL_CONFIG, ./semel.toml
    or ~/.config/semel/semel.toml, or in ~/.local/share/semel. `url` and `token`: the address of a gateway elsewhere,
    and its owner's token ($SEMEL_TOKEN by default).

    Every method may raise NoGateway (nobody answers) or RequestRefused (the gateway's reason). `get`, `post`, `put`,
    `patch`, `delete` and `list_all` call any operation of the API by its path.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
    ):
        if url is not None:
            super().__init__(None, url, token or os.environ.get("SEMEL_TOKEN"))
            return
        if data_dir is not None:
            super().__init__(expand_path(data_dir).absolute())
        else:
            super().__init__(locate(Path(config) if config is not None else None)[0])

    # ------------------------------------------------------------ talking

    async def say(
        self,
        session: str,
        text: str = "",
        *,
        blocks: Sequence[Json] | None = None,
        files: Sequence[str | Path | UploadedFile] = (),
        id: str | None = None,
        sender: str | None = None,
        busy: BusyMode | None = None,
        automatic: bool = False,
        seen: int | None = None,
    ) -> Accepted:
        """Send a message, and return when it is in the ledger. A new key creates the session.

        `text`, or else `blocks`: the message, as text or as ACP content blocks, which the agent gets as they are.
        `files`: what comes with the text, by path, or as `upload` returned it. `id`: an idempotency key: a repeat with
        the same id, text and files is accepted once. `busy`: what becomes of the message if the session is busy.
        `automatic`: a program sent it, and it starts no turn by itself. `seen`: the rev of the view that the person was
        looking at.

        If the answer is lost, the message is sent again with the same id. Raises NoGateway if it provably did not
        arrive, OutcomeUnknown if it may have arrived, OSError if a file cannot be read.
        """
        body: Json = {"id": id or uuid.uuid4().hex}
        uploaded = [file if isinstance(file, UploadedFile) else await self.upload(file) for file in files]
        body |= {"files": [{"id": file.id, "name": file.name} for file in uploaded]} if uploaded else {}
        body |= {"text": text} if text or blocks is None else {}
        body |= {} if blocks is None else {"blocks": list(blocks)}
        optional = {"sender": sender, "busy": busy, "automatic": automatic, "seen": seen}
        body.update((name, value) for name, value in optional.items() if value)
        return msgspec.convert(await self.post_message(session, body), Accepted)

    async def upload(self, file: str | Path | bytes, name: str | None = None) -> UploadedFile:
        """Upload a file, and return it for `say(files=...)`. A file that no message takes is removed after a day.

        `file`: its path, or its content. `name`: what people and the agent read; that of the path by default. Raises
        OSError if it cannot be read.
        """
        content = file if isinstance(file, bytes) else Path(file)
        name = name or (content.name if isinstance(content, Path) else "file")
        path = f"/v1/files?{urlencode({'name': name}, errors='replace')}"  # a name on a disk may be no UTF-8
        try:
            row = await self.post_file(path, content, "application/octet-stream")
        except RequestRefused as error:
            raise RequestRefused(error.status, error.code, f"{name}: {error}") from None
        return msgspec.convert(row, UploadedFile)

    async def wait_for_answer(
        self,
        session: str,
        event: int,
        on_news: Callable[[str], None] | None = None,
        *,
        timeout: float | None = None,
    ) -> Answer:
        """Wait until the turn that took `event` has ended, and return what the turns that took the event said.

        `event`: `Accepted.event`, as `say` returned it. `on_news` is called with what a person should know meanwhile:
        retries, and the questions and permission requests whose answer the agent waits for. `timeout`: seconds after
        which TimeoutError is raised; the turn goes on, and can be waited for again. Raises NoGateway if the gateway is
        away for 30 seconds, and ValueError if the session has no such event.
        """
        try:
            async with asyncio.timeout(timeout):
                return await waiting.wait_for_answer(self, session, event, on_news or (lambda news: None))
        except TimeoutError:
            if timeout is None:
                raise
            raise TimeoutError(f"no answer to event {event} within {timeout:g} s; its turn goes on") from None

    async def ask(
        self,
        session: str,
        text: str,
        *,
        files: Sequence[str | Path | UploadedFile] = (),
        id: str | None = None,
        sender: str | None = None,
        on_news: Callable[[str], None] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a message and wait for its answer: `say` and `wait_for_answer`. A repeat with the same `id` waits for
        the answer to the first one.
        """
        accepted = await self.say(session, text, files=files, id=id, sender=sender)
        return await self.wait_for_answer(session, accepted.event, on_news, timeout=timeout)

    async def stop(
        self,
        session: str,
        by: str | None = None,
        *,
        turn: int | None = None,
        seen: int | None = None,
    ) -> bool:
        """Cancel the turn that runs or is about to begin. Returns whether there was one.

        With `turn`, as in `SessionRow.turn` or `Entry.turn`, cancel this turn and no other. A caller that repeats the
        request after a lost answer names it: else a turn that began in between is cancelled. `seen`: the rev of the
        view in which it was seen; nothing is cancelled if the gateway was restored from a backup since, because another
        turn may have that id now.
        """
        body = {"by": by, "turn": turn, "seen": seen}
        return bool((await self.post(f"{session_path(session)}/stop", body))["stopped"])

    async def withdraw(self, session: str, message: str, by: str | None = None) -> bool:
        """Withdraw the message with this id, if it waits: no agent gets it. Else cancel the turn that has taken it.

        Returns whether it is withdrawn. A repeat changes nothing, and returns the same.
        """
        body = {"by": by, "message": message}
        return bool((await self.post(f"{session_path(session)}/stop", body))["withdrawn"])

    async def start_agent(
        self, session: str, *, agent: str | None = None, folder: str | Path | None = None
    ) -> SessionRow:
        """Start the session's agent before anybody speaks, and return the session with what the agent offers: `modes`,
        `models`, `options` and `commands`. A missing session is made first, as `make_session` does.

        Raises RequestRefused, whose text says why, if the agent does not start.
        """
        body = {"agent": agent, "folder": None if folder is None else str(folder)}
        path = f"{session_path(session)}/agent"
        return msgspec.convert(await self.post(path, body, timeout_s=AGENT_START_TIMEOUT_S), SessionRow)

    # ------------------------------------------------------------ watching

    def watch(
        self, session: str, after: int | None = None, *, give_up_after: float | None = None
    ) -> StreamIterator[Update]:
        """Yield the session as it is, then every change of it as it happens, until the session is deleted.

        Updates are `EntryUpdate`, `ItemUpdate` and `SessionUpdate`. If the connection breaks, the iterator reconnects
        and goes on where it was: nothing comes twice, and nothing is left out. `after`: the `rev` of the last update
        that the caller has handled, perhaps before a restart; only what changed since is yielded.

        `give_up_after`: seconds without a gateway after which NoGateway is raised; None: never.

        A loop over it may be left at any time; its connection is closed then.
        """
        return StreamIterator(watch_session(self, session, after, give_up_after), self.open_streams)

    def watch_sessions(
        self, after: int | None = None, *, give_up_after: float | None = None
    ) -> StreamIterator[SessionListSnapshot | SessionListChanges]:
        """Yield the list of all sessions as it is, then every change of it.

        A `SessionListSnapshot` replaces what the caller has; it comes first, and again after a restart of the gateway.
        `SessionListChanges` has the rows that changed (`SessionListed`) and the keys that are gone (`SessionGone`). If
        the connection breaks, the iterator reconnects. `after`, `give_up_after`: as for `watch`.
        """
        return StreamIterator(watch_list(self, after, give_up_after), self.open_streams)

    # ------------------------------------------------------------ reading

    async def sessions(self, archived: bool = False, *, folder: str | Path | None = None) -> list[SessionRow]:
        """Return all sessions that are not archived, newest first; with `archived`, the archived ones instead.

        `folder`: only those that were made for this folder.
        """
        return msgspec.convert(await self.list_sessions(archived, folder), list[SessionRow])

    async def list_sessions(self, archived: bool = False, folder: str | Path | None = None) -> list[Json]:
        """Return the sessions as JSON objects."""
        place = None if folder is None else str(folder)
        return await self.list_all("/v1/sessions", "sessions", limit=1000, archived=int(archived), folder=place)

    async def make_session(
        self, session: str, *, agent: str | None = None, folder: str | Path | None = None
    ) -> SessionRow:
        """Make a session before anybody speaks in it. The same again changes nothing.

        `agent`: the name of its agent, if it is not the one that the key names. `folder`: an absolute path on the
        gateway's machine, where its agent works.
        """
        body = {"agent": agent, "folder": None if folder is None else str(folder)}
        return msgspec.convert(await self.put(session_path(session), body), SessionRow)

    async def session(self, session: str) -> SessionRow:
        """Return one session."""
        return msgspec.convert(await self.get(session_path(session)), SessionRow)

    async def mark_seen(self, session: str, rev: int) -> None:
        """Say that the owner has seen the session up to this rev of its view. What comes later is `unread`."""
        await self.post(f"{session_path(session)}/seen", {"rev": rev})

    async def entries(self, session: str, after: int = 0) -> list[Entry]:
        """Return the transcript: every entry whose rev is above `after`, in the order of the view."""
        return msgspec.convert(await self.list_entries(session, after), list[Entry])

    async def list_entries(self, session: str, after: int = 0) -> list[Json]:
        """Return the entries as JSON objects."""
        rows = await self.list_all(f"{session_path(session)}/entries", "entries", after=after)
        newest = {int(row["seq"]): row for row in rows}  # an entry that changed meanwhile came again
        return sorted(newest.values(), key=lambda row: int(row["born"]))

    async def search(self, words: str, *, limit: int = 20, **filters: str | int | None) -> list[Hit]:
        """Return the entries that match, at most `limit`. `filters`: `session`, `role`, `since`, `until`, `order`."""
        hits: list[Json] = []
        after = None
        while len(hits) < limit:
            size = min(limit - len(hits), 100)
            page = await self.search_page(words, limit=size, after=after, **filters)
            hits += page["hits"]
            if not page["more"]:
                break
            after = page["next"]
        return msgspec.convert(hits, list[Hit])

    async def search_page(self, words: str, **filters: str | int | None) -> Json:
        """Return one page of the results, as JSON (`GET /v1/search`)."""
        return await self.get("/v1/search", q=words, **filters)

    async def output(self, session: str, item: int) -> str:
        """Return the whole output of a tool call. `item`: the id of its item."""
        pieces = self.read_pieces(f"{session_path(session)}/outputs/{item}")
        return b"".join([piece async for piece in pieces]).decode()

    # ------------------------------------------------------------ answering

    async def answer(
        self,
        session: str,
        item: int | PermissionItem | AskItem,
        option: str | Option | None,
        *,
        by: str | None = None,
        seen: int | None = None,
    ) -> Outcome:
        """Answer a permission request or a question. The first answer counts.

        `item`: its item, or the id of it. `option`: one of its options, or the id of one; None to cancel a request; for
        a question, a text. `by`: who answers. `seen`: the rev of the view in which it was read; if `item` is the item,
        its rev. Returns "answered", "already" (somebody else was faster) or "closed".
        """
        if not isinstance(item, int):
            seen, item = item.rev if seen is None else seen, item.id
        chosen = option.option_id if isinstance(option, Option) else option
        body = {"item": item, "option": chosen, "by": by, "seen": seen}
        outcome: Outcome = (await self.post(f"{session_path(session)}/answers", body))["outcome"]
        return outcome

    async def approve(self, session: str, request: PermissionItem, *, by: str | None = None) -> Outcome:
        """Allow what a permission request asks for, this time. Raises ValueError if it has no such option."""
        return await self.answer(session, request, _find_option(request, "allow"), by=by)

    async def deny(self, session: str, request: PermissionItem, *, by: str | None = None) -> Outcome:
        """Deny what a permission request asks for, this time. Raises ValueError if it has no such option."""
        return await self.answer(session, request, _find_option(request, "reject"), by=by)

    # ------------------------------------------------------------ files

    async def read_file(self, id: str) -> bytes:
        """Return the content of a file of an entry (`entry.files`)."""
        return b"".join([piece async for piece in self.read_pieces(f"/v1/blobs/{quote_segment(id)}")])

    def export(self, session: str, format: Literal["jsonl", "md", "html"] = "jsonl") -> StreamIterator[bytes]:
        """Yield the session as a document, in pieces."""
        pieces = self.read_pieces(f"{session_path(session)}/export?format={format}")
        return StreamIterator(pieces, self.open_streams)

    async def import_file(self, path: str | Path, key: str | None = None) -> Json:
        """Import an exported session. Returns {"session", "status", "entries", "added"}.

        The status is "imported", "known" or, for another system's conversation with new messages, "grown".

        `key`: the new session's key, if not the exported one. Repeating the import is harmless.
        """
        query = f"?{urlencode({'as': key})}" if key else ""
        return await self.post_file(f"/v1/import{query}", Path(path), "application/jsonl")


def _find_option(request: PermissionItem, answer: Literal["allow", "reject"]) -> Option:
    """Return the option that allows or rejects once or, if there is none, of the one that does so always."""
    for kind in (f"{answer}_once", f"{answer}_always"):
        for option in request.options:
            if option.kind == kind:
                return option
    names = ", ".join(option.option_id for option in request.options) or "none"
    raise ValueError(f"the request has no option to {answer}; its options: {names}. Choose one with `answer`.")
