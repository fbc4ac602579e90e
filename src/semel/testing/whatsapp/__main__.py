"""`semel-whatsapp-double --port 8085`: the double in a process of its own, with Ann (16505551234)."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from semel.testing.whatsapp.double import WhatsAppDouble
from semel.testing.whatsapp.model import APP_SECRET, NUMBER_ID, TOKEN, VERIFY_TOKEN
from semel.testing.whatsapp.server import serve

PERSON = "16505551234"
CALLBACK = "http://127.0.0.1:8420/v1/hooks/whatsapp"


def main() -> None:
    """Serve until Ctrl-C. Prints the settings of the channel, a line each, when the server listens."""
    parser = argparse.ArgumentParser(prog="semel-whatsapp-double", description="Simulate WhatsApp's Cloud API here.")
    parser.add_argument("--port", type=int, default=8085, help="0: any free one")
    parser.add_argument("--callback", default=CALLBACK, help="the address of the gateway's webhook")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.callback))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        parser.exit(1, f"{parser.prog}: port {options.port} cannot be used: {os.strerror(error.errno or 0)}\n")


async def _serve(port: int, callback: str) -> None:
    double = WhatsAppDouble(repeat_s=1.0)
    double.callback = callback
    double.person(PERSON, "Ann")
    async with serve(double, port) as url:
        settings = {
            "api": url, "phone_number_id": NUMBER_ID, "token": TOKEN, "app_secret": APP_SECRET,
            "verify_token": VERIFY_TOKEN,
        }  # fmt: skip
        sys.stdout.write("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
