"""Serve the editor that has started this process, at stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio import InvalidStateError
from typing import Any

from semel.faces.acp.connection.editor_pipe import EditorPipe
from semel.faces.acp.connection.editor_server import EditorServer
from semel.faces.acp.connection.gateway_link import GatewayLink
from semel.faces.acp.connection.opening import Opening

STDIN, STDOUT = 0, 1


def serve_editor(link: GatewayLink, opening: Opening) -> int:
    """Serve the editor at stdin and stdout until it closes them, or until a signal. Returns the exit code.

    Whatever waits in a thread is left behind then: the session goes on in the gateway. The code is 1 if the gateway may
    lack something that the editor said; stderr says so.
    """

    async def run_server() -> int:
        asyncio.get_running_loop().set_exception_handler(log_fault)
        task: asyncio.Task[None]

        def stop() -> None:
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # before anything is read
            asyncio.get_running_loop().add_signal_handler(number, stop)
        pipe = EditorPipe(STDIN, STDOUT)
        server = EditorServer(pipe, link, opening)
        task = asyncio.ensure_future(server.serve())
        with contextlib.suppress(asyncio.CancelledError):
            await task
        losses = server.describe_losses(has_unread_lines=pipe.stop_reading())
        sys.stderr.writelines(f"semel acp: {loss}\n" for loss in losses)
        return 1 if losses else 0

    return asyncio.run(run_server())


def log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what failed in a callback, as by default, but for a read that was cancelled just when its data came.

    anyio sets the result of such a read of a unix socket all the same. Nobody waits for it.
    """
    if not (
        "Future.set_result(None)" in context["message"] and isinstance(context.get("exception"), InvalidStateError)
    ):
        loop.default_exception_handler(context)
