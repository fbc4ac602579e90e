"""`python -m semel.testing.discord --port 8082`: the double in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from semel.testing.discord.double import TOKEN, DiscordDouble
from semel.testing.discord.server import serve


def main() -> None:
    """Serve until Ctrl-C. Prints the settings of a channel when the servers listen."""
    parser = argparse.ArgumentParser(prog="python -m semel.testing.discord", description="Simulate Discord here.")
    parser.add_argument("--port", type=int, default=8082, help="of the REST API; 0: any free one")
    parser.add_argument("--gateway-port", type=int, default=0, help="of the gateway; 0: any free one")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(DiscordDouble(options.token), options.port, options.gateway_port))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        parser.exit(1, f"{parser.prog}: a port cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(double: DiscordDouble, port: int, gateway_port: int) -> None:
    async with serve(double, port, gateway_port) as urls:
        sys.stdout.write(f'token = "{double.token}"\napi = "{urls.api}"\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
