"""A page in a browser over a real gateway, and what tests say about it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from browser import Browser
from gateway_house import GatewayHouse, PlayedConversation, Script

from semel.faces.http import Server, Settings, make_app, serve

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
        self.world = self.do(lambda: GatewayHouse(**gateway))
        self.gateway = self.do(self.world.start)
        self.settings = settings or Settings()
        self.port = 0
        self.server: Server
        self.open()

    def do(self, act: Callable[[], Any]) -> Any:
        """Act on the gateway's loop; what can be awaited is, one after another where it is a list."""

        async def acted() -> Any:
            result = act()
            if isinstance(result, list):
                return [await each if inspect.isawaitable(each) else each for each in result]
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(acted(), self.loop).result(20)

    def open(self) -> None:
        app = make_app(self.gateway, self.settings)
        serving = serve(app, "127.0.0.1", self.port)
        self.server = asyncio.run_coroutine_threadsafe(serving, self.loop).result(20)
        self.port = self.server.port

    def shut(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(20)

    def script(self, key: str = "s") -> Script:
        """The session is there, and rows can be written into it."""
        script: Script = self.do(lambda: self.world.script(key))
        return script

    def begin(self, key: str = "s") -> PlayedConversation:
        """A turn runs, in which the test plays the agent."""
        conversation: PlayedConversation = self.do(lambda: self.world.begin(key))
        return conversation

    def session(self, key: str = "s") -> dict[str, Any]:
        return dict(self.do(lambda: self.gateway.session(key)))

    def entries(self, key: str = "s") -> list[dict[str, Any]]:
        return list(self.do(lambda: self.gateway.entries(key))[0])

    def close(self) -> None:
        self.shut()
        self.do(self.world.stop)
        asyncio.run_coroutine_threadsafe(self.loop.shutdown_asyncgens(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


def visit(window: Browser, house: LiveHouse, key: str = "s") -> None:
    if str(window.run("location.href")).startswith(house.server.url):
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
