"""Iterators over what a connection streams, which a program may leave at any time.

An asynchronous generator that is left by `break` or `return` is closed by the garbage collector: at an unknown time,
and together with the generators inside it, which ends in "aclose(): asynchronous generator is already running". So the
connection owns its generators: it closes the one of an iterator that nobody uses any more, and all when it is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")


class StreamIterator(AsyncIterator[T], Generic[T]):
    """Yields the items of a stream.

    The stream ends with `aclose`, when the client is closed, or when the program no longer uses this iterator.
    """

    def __init__(self, generator: AsyncGenerator[T, None], open_streams: OpenStreams):
        self._generator = generator
        self._open_streams = open_streams
        self._loop: asyncio.AbstractEventLoop | None = None  # the event loop on which the iteration began

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._open_streams.add(self._generator)
        try:
            return await anext(self._generator)
        except BaseException:  # then the generator has ended
            self._open_streams.discard(self._generator)
            raise

    async def aclose(self) -> None:
        self._open_streams.discard(self._generator)
        await self._generator.aclose()

    def __del__(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._open_streams.begin_close, self._generator)


class OpenStreams:
    """The generators of a connection that have not ended."""

    def __init__(self) -> None:
        self._generators: set[AsyncGenerator[Any, None]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def add(self, generator: AsyncGenerator[Any, None]) -> None:
        self._generators.add(generator)

    def discard(self, generator: AsyncGenerator[Any, None]) -> None:
        self._generators.discard(generator)

    def begin_close(self, generator: AsyncGenerator[Any, None]) -> None:
        """Close a generator in a task, unless it has ended or is being closed already."""
        if generator in self._generators:
            self._generators.discard(generator)
            task = asyncio.get_running_loop().create_task(_close_generator(generator))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all generators, and return when they have ended."""
        for generator in list(self._generators):
            self.begin_close(generator)
        await asyncio.gather(*self._closing)


async def _close_generator(generator: AsyncGenerator[Any, None]) -> None:
    try:
        await generator.aclose()
    except RuntimeError:
        pass  # another task waits for its next update; that one ends when the connection closes
