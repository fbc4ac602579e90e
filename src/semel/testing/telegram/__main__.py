"""`semel-telegram-double --port 8081`: the double in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

from semel.testing.telegram.double import TOKEN, TelegramDouble
from semel.testing.telegram.server import serve


def main() -> None:
    """Serve until Ctrl-C. Prints the URL and the token in one line, then the bot's name, when the server listens."""
    parser = argparse.ArgumentParser(
        prog="semel-telegram-double", description="Simulate Telegram's Bot API on this machine."
    )
    parser.add_argument("--port", type=int, default=8081, help="0: any free one")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    parser.add_argument("--username", default="test_semel_bot", help="the bot's name, without the @")
    parser.add_argument("--no-privacy", action="store_true", help="the bot sees all messages of its groups")
    parser.add_argument("--seed", type=int, default=0, help="of the faults that strike by chance")
    options = parser.parse_args()
    first_id = int(time.time())  # like Telegram, use no id twice, even after a restart: a gateway remembers old ids
    double = TelegramDouble(
        options.token,
        options.username,
        privacy=not options.no_privacy,
        seed=options.seed,
        first_update=first_id,
        first_message=first_id,
    )
    try:
        asyncio.run(_serve(double, options.port))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        parser.exit(1, f"{parser.prog}: port {options.port} cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(double: TelegramDouble, port: int) -> None:
    async with serve(double, port) as url:
        sys.stdout.write(f"{url} {double.token}\nthe bot is @{double.me.username}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
