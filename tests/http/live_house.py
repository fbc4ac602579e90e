"""A page in a browser over a gateway in memory, and what tests say about it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from browser import Browser
from memory_gateway import MemoryGateway, Script

from semel.faces.http import Server, Settings, make_app, serve

T = TypeVar("T")

ROWS = "#rows > li:not([hidden])"
OPTIONS = [
    {"optionId": "y", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "n", "name": "Reject", "kind": "reject_once"},
]


class LiveHouse:
    """A server on its own thread and loop, so that a browser may be waited for."""

    def __init__(self, settings: Settings | None = None, **gateway: Any):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.gateway = self.do(lambda: MemoryGateway(**gateway))
        self.settings = settings or Settings()
        self.port = 0
        self.server: Server
        self.open()

    def do(self, act: Callable[[], T]) -> T:
        async def acted() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acted(), self.loop).result(20)

    def open(self) -> None:
        app = make_app(self.gateway, self.settings)
        serving = serve(app, "127.0.0.1", self.port)
        self.server = asyncio.run_coroutine_threadsafe(serving, self.loop).result(20)
        self.port = self.server.port

    def shut(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(20)

    def script(self, key: str = "s") -> Script:
        return self.do(lambda: self.gateway.script(key))

    def close(self) -> None:
        self.shut()
        asyncio.run_coroutine_threadsafe(self.loop.shutdown_asyncgens(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


def visit(window: Browser, house: LiveHouse, key: str = "s") -> None:
    window.go("about:blank")
    window.go(f"{house.server.url}/#/s/{key}")
    wait_live(window)


def wait_live(window: Browser) -> None:
    window.until(lambda: window.run("document.querySelector('#link')?.dataset.state") == "live", "the stream")


def shows(window: Browser, css: str, *expected: str) -> None:
    window.until(lambda: window.texts(css) == list(expected), f"{css} = {expected}, but {window.texts(css)}")


def bodies(window: Browser, *expected: str) -> None:
    """Every message on the page, those on their way included: shown once, in order."""
    shows(window, "#rows .entry .body, #outgoing .entry .body", *expected)
