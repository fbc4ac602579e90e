"""Run a channel's work over one connection, and end it with the reason why the connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from semel.gateway.ports import Denied, Offline


async def run_until_lost(
    work: Coroutine[Any, Any, None], loss: Coroutine[Any, Any, Offline | Denied], is_alive: Callable[[], bool]
) -> None:
    """Run `work` until it fails or the connection is lost. Raises what it raised, or the reason of the loss.

    `loss` waits for the loss and returns its reason. If the connection is not alive, an Offline of `work` only follows
    from the loss, whose reason says more.
    """
    working, losing = asyncio.create_task(work), asyncio.create_task(loss)
    try:
        await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and (is_alive() or not isinstance(working.exception(), Offline)):
            working.result()
        raise await losing
    finally:
        working.cancel()
        losing.cancel()
        await asyncio.gather(working, losing, return_exceptions=True)
