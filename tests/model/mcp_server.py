"""An MCP server with four tools, over stdio or HTTP (`python mcp_server.py [PORT]`)."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
def environment() -> str:
    """Names of the variables it has."""
    return " ".join(sorted(os.environ))


@server.tool()
def die() -> str:
    """End at once, without an answer."""
    os._exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
