"""`semel-discord-double --port 8083`: the double in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from semel.testing.discord.double import TOKEN


def main() -> None:
    """Serve until Ctrl-C. Prints the settings of a channel, a line each, when the servers listen."""
    parser = argparse.ArgumentParser(prog="semel-discord-double", description="Simulate Discord here.")
    parser.add_argument("--port", type=int, default=8083, help="of the REST API; 0: any free one")
    parser.add_argument("--gateway-port", type=int, default=0, help="of the gateway; 0: any free one")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.token, options.port, options.gateway_port))
    except KeyboardInterrupt:
        pass
    except ModuleNotFoundError as error:
        from semel.installation import find_install_command

        missing = (error.name or "").partition(".")[0]
        parser.exit(1, f"{parser.prog} needs {missing}: {find_install_command('discord')}\n")
    except OSError as error:
        parser.exit(1, f"{parser.prog}: a port cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(token: str, port: int, gateway_port: int) -> None:
    from semel.testing.discord import DiscordDouble, serve

    double = DiscordDouble(token, identify_s=5.0)
    async with serve(double, port, gateway_port) as urls:
        sys.stdout.write(f'token = "{double.token}"\napi = "{urls.api}"\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
