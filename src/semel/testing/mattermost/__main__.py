"""`semel-mattermost-double --port 8086`: the double in a process of its own, with Ann and a channel."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys


def main() -> None:
    """Serve until Ctrl-C. Prints the settings of a channel and the ids, a line each, when the servers listen."""
    parser = argparse.ArgumentParser(prog="semel-mattermost-double", description="Simulate a Mattermost server here.")
    parser.add_argument("--port", type=int, default=8086, help="of the REST API; 0: any free one")
    parser.add_argument("--websocket-port", type=int, default=0, help="of the WebSocket; 0: any free one")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.websocket_port))
    except KeyboardInterrupt:
        pass
    except ModuleNotFoundError as error:
        from semel.installation import find_install_command

        missing = (error.name or "").partition(".")[0]
        parser.exit(1, f"{parser.prog} needs {missing}: {find_install_command('mattermost')}\n")
    except OSError as error:
        parser.exit(1, f"{parser.prog}: a port cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(port: int, websocket_port: int) -> None:
    from semel.testing.mattermost import MattermostDouble, serve

    double = MattermostDouble()
    ann = double.person("ann")
    direct, room = double.direct(ann), double.channel("garden", ann)
    async with serve(double, port, websocket_port) as urls:
        sys.stdout.write(f'url = "{urls.url}"\ntoken = "{double.token}"\nwebsocket = "{urls.websocket}"\n')
        sys.stdout.write(f"# Ann: {ann}, her direct message: {direct}, the channel: {room}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
