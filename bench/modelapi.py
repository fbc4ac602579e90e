"""A model that answers at once with the time it was asked: the tests' scripted API in a process of its own.

It prints its address.

python -m bench.modelapi
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "model"))

from model_server import Answer, ModelServer, Request


class Always(list[object]):
    """Never at an end of its answers, and forgets what it was asked: requests grow with the conversation."""

    def __init__(self, api: ModelServer) -> None:
        super().__init__([self._answer])
        self.api = api

    def pop(self, *_: object) -> object:  # type: ignore[override]
        return self._answer

    def _answer(self, request: Request) -> Answer:
        self.api.requests.clear()
        return Answer(f"pong {time.monotonic_ns()}")


async def main() -> None:
    async with ModelServer() as api:
        api.answers = Always(api)  # type: ignore[assignment]
        print(api.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
