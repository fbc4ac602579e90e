"""The client for programs without an event loop. Its methods are those of AsyncClient, and block."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from semel.faces.api_types import Accepted, AskItem, Entry, Hit, Option, PermissionItem, SessionRow, UploadedFile
from semel.faces.client.async_client import AsyncClient, Outcome
from semel.faces.client.connection import ANSWER_TIMEOUT_S
from semel.faces.client.wait_for_answer import Answer
from semel.faces.client.watch import Update
from semel.faces.frame_types import SessionListChanges, SessionListSnapshot
from semel.law.wake import Busy as BusyMode
from semel.text.json_types import Json

T = TypeVar("T")


class Client:
    """Talks with a gateway.

        with Client() as client:
            print(client.ask("main:web:me", "hello").text)

    Its requests run on an event loop of its own, on a thread. So it can be used in a notebook, and by several threads.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
    ):
        self._client = AsyncClient(data_dir, config=config, url=url, token=token)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="semel client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncClient", "Client")

    def close(self) -> None:
        """Close all connections. The client cannot be used afterwards."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call. If waiting is interrupted, such as by Ctrl-C, the call is cancelled.

        Raises RuntimeError if the client is closed.
        """
        if self._loop.is_closed():
            call.close()
            raise RuntimeError("this client is closed; make a new one")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, iterator: AsyncIterator[T]) -> Iterator[T]:
        async def take() -> tuple[T, ...]:
            try:
                return (await anext(iterator),)
            except StopAsyncIteration:
                return ()

        try:
            while taken := self._run(take()):
                yield taken[0]
        finally:
            if not self._loop.is_closed():  # without waiting: a program that ends has no running loop any more
                self._loop.call_soon_threadsafe(lambda: self._loop.create_task(_close_iterator(iterator)))

    # ------------------------------------------------------------ one request, one answer

    def get(self, path: str, **query: str | int | None) -> Json:
        return self._run(self._client.get(path, **query))

    def post(self, path: str, body: Json | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Json:
        return self._run(self._client.post(path, body, timeout_s=timeout_s))

    def put(self, path: str, body: Json) -> Json:
        return self._run(self._client.put(path, body))

    def patch(self, path: str, body: Json) -> Json:
        return self._run(self._client.patch(path, body))

    def delete(self, path: str) -> None:
        self._run(self._client.delete(path))

    def compare_memory(self, session: str) -> Json:
        return self._run(self._client.compare_memory(session))

    def list_all(self, path: str, name: str, **query: str | int | None) -> list[Json]:
        return self._run(self._client.list_all(path, name, **query))

    # ------------------------------------------------------------ talking

    def say(
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
        return self._run(
            self._client.say(
                session,
                text,
                blocks=blocks,
                files=files,
                id=id,
                sender=sender,
                busy=busy,
                automatic=automatic,
                seen=seen,
            )
        )

    def upload(self, file: str | Path | bytes, name: str | None = None) -> UploadedFile:
        return self._run(self._client.upload(file, name))

    def wait_for_answer(
        self,
        session: str,
        event: int,
        on_news: Callable[[str], None] | None = None,
        *,
        timeout: float | None = None,
    ) -> Answer:
        return self._run(self._client.wait_for_answer(session, event, on_news, timeout=timeout))

    def ask(
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
        return self._run(
            self._client.ask(session, text, files=files, id=id, sender=sender, on_news=on_news, timeout=timeout)
        )

    def start_agent(self, session: str, *, agent: str | None = None, folder: str | Path | None = None) -> SessionRow:
        return self._run(self._client.start_agent(session, agent=agent, folder=folder))

    def stop(
        self,
        session: str,
        by: str | None = None,
        *,
        turn: int | None = None,
        seen: int | None = None,
    ) -> bool:
        return self._run(self._client.stop(session, by, turn=turn, seen=seen))

    def withdraw(self, session: str, message: str, by: str | None = None) -> bool:
        return self._run(self._client.withdraw(session, message, by))

    # ------------------------------------------------------------ watching and reading

    def watch(self, session: str, after: int | None = None, *, give_up_after: float | None = None) -> Iterator[Update]:
        return self._iterate(self._client.watch(session, after, give_up_after=give_up_after))

    def watch_sessions(
        self, after: int | None = None, *, give_up_after: float | None = None
    ) -> Iterator[SessionListSnapshot | SessionListChanges]:
        return self._iterate(self._client.watch_sessions(after, give_up_after=give_up_after))

    def sessions(self, archived: bool = False, *, folder: str | Path | None = None) -> list[SessionRow]:
        return self._run(self._client.sessions(archived, folder=folder))

    def make_session(self, session: str, *, agent: str | None = None, folder: str | Path | None = None) -> SessionRow:
        return self._run(self._client.make_session(session, agent=agent, folder=folder))

    def session(self, session: str) -> SessionRow:
        return self._run(self._client.session(session))

    def mark_seen(self, session: str, rev: int) -> None:
        return self._run(self._client.mark_seen(session, rev))

    def entries(self, session: str, after: int = 0) -> list[Entry]:
        return self._run(self._client.entries(session, after))

    def search(self, words: str, *, limit: int = 20, **filters: str | int | None) -> list[Hit]:
        return self._run(self._client.search(words, limit=limit, **filters))

    def output(self, session: str, item: int) -> str:
        return self._run(self._client.output(session, item))

    # ------------------------------------------------------------ answering, files

    def answer(
        self,
        session: str,
        item: int | PermissionItem | AskItem,
        option: str | Option | None,
        *,
        by: str | None = None,
        seen: int | None = None,
    ) -> Outcome:
        return self._run(self._client.answer(session, item, option, by=by, seen=seen))

    def approve(self, session: str, request: PermissionItem, *, by: str | None = None) -> Outcome:
        return self._run(self._client.approve(session, request, by=by))

    def deny(self, session: str, request: PermissionItem, *, by: str | None = None) -> Outcome:
        return self._run(self._client.deny(session, request, by=by))

    def read_file(self, id: str) -> bytes:
        return self._run(self._client.read_file(id))

    def export(self, session: str, format: Literal["jsonl", "md", "html"] = "jsonl") -> Iterator[bytes]:
        return self._iterate(self._client.export(session, format))

    def import_file(self, path: str | Path, key: str | None = None) -> Json:
        return self._run(self._client.import_file(path, key))


def _describe_methods() -> None:
    """Give each method of Client without a docstring that of AsyncClient's method, so that each is written once."""
    for name, method in vars(Client).items():
        described = getattr(AsyncClient, name, None)
        if described is not None and inspect.isfunction(method) and not method.__doc__:
            method.__doc__ = described.__doc__


_describe_methods()


async def _close_iterator(iterator: AsyncIterator[Any]) -> None:
    if close := getattr(iterator, "aclose", None):
        with contextlib.suppress(RuntimeError):  # a cancelled step is still ending, and closes it
            await close()
