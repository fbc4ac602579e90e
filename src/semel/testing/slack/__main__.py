"""`semel-slack-double --port 8082`: the double in a process of its own, with Ann (U7), her chat (D7) and C100."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

PERSON, CHANNEL = "U7", "C100"


def main() -> None:
    """Serve until Ctrl-C. Prints the URL and the two tokens in one line, when the server listens."""
    parser = argparse.ArgumentParser(prog="semel-slack-double", description="Simulate a Slack workspace here.")
    parser.add_argument("--port", type=int, default=8082, help="0: any free one")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port))
    except KeyboardInterrupt:
        pass
    except ModuleNotFoundError as error:
        from semel.installation import find_install_command

        parser.exit(1, f"{parser.prog} needs {(error.name or '').partition('.')[0]}: {find_install_command('slack')}\n")
    except OSError as error:
        parser.exit(1, f"{parser.prog}: port {options.port} cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(port: int) -> None:
    from semel.testing.slack import SlackDouble, serve

    double = SlackDouble()
    double.direct(double.person(PERSON, "Ann"))
    double.channel(CHANNEL, "general", PERSON)
    async with serve(double, port) as url:
        sys.stdout.write(f"{url} {double.bot_token} {double.app_token}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
