"""`python -m semel.testing.telegram --port 8081`: the double in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from semel.testing.telegram.double import TOKEN, TelegramDouble
from semel.testing.telegram.server import serve


def main() -> None:
    """Serve until Ctrl-C. Writes one line, the URL and the token, once it listens."""
    parser = argparse.ArgumentParser(prog="python -m semel.testing.telegram", description=__doc__)
    parser.add_argument("--port", type=int, default=8081, help="0: any free one")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    parser.add_argument("--username", default="test_semel_bot", help="the bot's name, without the @")
    parser.add_argument("--no-privacy", action="store_true", help="the bot sees all messages of its groups")
    parser.add_argument("--seed", type=int, default=0, help="of the faults that strike by chance")
    told = parser.parse_args()
    first = int(time.time())  # like Telegram, it uses no id twice, also when it is started again: a gateway remembers
    double = TelegramDouble(
        told.token, told.username, privacy=not told.no_privacy, seed=told.seed, first_update=first, first_message=first
    )
    try:
        asyncio.run(_serve(double, told.port))
    except KeyboardInterrupt:
        pass


async def _serve(double: TelegramDouble, port: int) -> None:
    async with serve(double, port) as url:
        sys.stdout.write(f"{url} {double.token}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
