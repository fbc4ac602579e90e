"""The proxies before all of a platform's ports."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from semel.testing.conformance.http_proxy import HttpProxy
from semel.testing.conformance.proxy import Proxy
from semel.testing.conformance.rig import HttpFront, Rig
from semel.testing.conformance.tcp_proxy import TcpProxy


@dataclass(frozen=True)
class Network:
    """`all` by name; `send` is the one that something is said through."""

    all: dict[str, Proxy]

    @property
    def send(self) -> Proxy:
        return next(iter(self.all.values()))

    @property
    def ports(self) -> dict[str, int]:
        return {name: proxy.port for name, proxy in self.all.items()}

    async def down(self) -> None:
        """An outage: every connection breaks, new ones are refused."""
        for proxy in self.all.values():
            await proxy.refuse()

    async def up(self) -> None:
        """It is over."""
        for proxy in self.all.values():
            await proxy.accept()


@contextlib.asynccontextmanager
async def network(rig: Rig) -> AsyncIterator[Network]:
    """Proxies before every port of this platform."""
    async with contextlib.AsyncExitStack() as stack:
        proxies: dict[str, Proxy] = {}
        for name, front in rig.fronts().items():
            proxy = HttpProxy(front) if isinstance(front, HttpFront) else TcpProxy(front)
            proxy.losses = tuple(loss for loss in proxy.losses if loss.status not in rig.not_accepted)
            proxies[name] = await stack.enter_async_context(proxy)
        yield Network(proxies)
