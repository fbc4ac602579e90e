"""A small MCP server over stdio. `python mcp_house.py LOG`: each call is a line of LOG, with this process's id.

A text that starts with "crash:" is logged and then the first process of a LOG dies without an answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

NAMES = ("send_message", "send_file", "add_reaction", "ask")


def answer(message: dict[str, Any], log: Path) -> dict[str, Any]:
    params = message.get("params") or {}
    if message["method"] == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
    if message["method"] == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
    first = not log.exists()
    with log.open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "token": os.environ.get("SEMEL_TOKEN"), **params}) + "\n")
    text = str(params["arguments"].get("text", ""))
    if text.startswith("crash:") and first:
        os._exit(7)
    if text.startswith("hang:"):
        threading.Event().wait(60)
    return {
        "content": [{"type": "text", "text": "refused" if "bad" in text else "sent"}],
        "isError": "bad" in text,
    }


def serve(message: dict[str, Any], log: Path) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message, log)})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    log = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "notifications/cancelled":
            log.with_suffix(".cancelled").touch()
        if "id" in message:
            threading.Thread(target=serve, args=(message, log), daemon=True).start()


if __name__ == "__main__":
    main()
