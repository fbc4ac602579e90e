"""A reference: the gateway's HTTP server with nothing behind it. It prints its port and answers every POST with 202.

python -m bench.echo
"""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from semel.faces.http.server import serve


async def echo(request: Request) -> JSONResponse:
    """What a program gets back that reports an event, without the event."""
    told = await request.json()
    return JSONResponse({"event": 1, "status": told["key"]}, 202)


async def main() -> None:
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])])
    server = await serve(app, "127.0.0.1", 0)
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
