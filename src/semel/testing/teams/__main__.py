"""`semel-teams-double --port 8087`: the double in a process of its own, with Ann and a channel."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

CALLBACK = "http://127.0.0.1:8420/v1/hooks/teams"


def main() -> None:
    """Serve until Ctrl-C. Prints the settings of a channel and the ids, a line each, when the server listens."""
    parser = argparse.ArgumentParser(prog="semel-teams-double", description="Simulate Microsoft Teams here.")
    parser.add_argument("--port", type=int, default=8087, help="0: any free one")
    parser.add_argument("--callback", default=CALLBACK, help="the address of the gateway's webhook")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.callback))
    except KeyboardInterrupt:
        pass
    except ModuleNotFoundError as error:
        from semel.installation import find_install_command

        missing = (error.name or "").partition(".")[0]
        parser.exit(1, f"{parser.prog} needs {missing}: {find_install_command('teams')}\n")
    except OSError as error:
        parser.exit(1, f"{parser.prog}: port {options.port} cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(port: int, callback: str) -> None:
    from semel.testing.teams import TeamsDouble, serve

    double = TeamsDouble()
    double.callback = callback
    ann = double.person("Ann")
    room = double.channel("garden", ann)
    async with serve(double, port) as settings:
        sys.stdout.write("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
        sys.stdout.write(f"# Ann: {ann}, the channel: {room}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
