"""One connection to the server: TLS, lines in, lines out at a pace. It is used once and does not reconnect.

A line that `write` refused has provably not been sent (Law 7). Lines leave at the pace of the setting, after a burst of
BURST_LINES, because servers drop who floods them; answers to the server's own pings leave at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from semel.channels.irc.settings import IrcSettings
from semel.channels.irc.wire import IrcMessage, format_line, parse_line
from semel.gateway.ports import Denied, Offline

log = logging.getLogger(__name__)

MAX_RECEIVED_BYTES = 65_536
"""Longest line that is read. Servers send at most 8,703 bytes: 8,191 of tags, and 512."""
BURST_LINES = 5
LINES_PER_COMMAND = {"JOIN": 2, "WHOIS": 2}
"""How many lines a command counts as; others count as one. Some servers, such as InspIRCd, count by command."""
CLOSE_TIMEOUT_S = 1.0


class IrcConnection:
    """One connection. Each message is passed to `on_message`, in order. `over` is done when the connection is lost."""

    def __init__(self, settings: IrcSettings, on_message: Callable[[IrcMessage], None]) -> None:
        self.settings = settings
        self.over: asyncio.Future[Offline | Denied] = asyncio.get_running_loop().create_future()
        self._on_message = on_message
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._pacing = asyncio.Lock()
        self._free_at = 0.0  # when the burst is whole again, by the loop's clock

    def __repr__(self) -> str:
        return f"<IrcConnection {self.settings.server} {'lost' if self.over.done() else 'open'}>"

    async def open(self) -> None:
        """Connect. Raises Offline, or Denied if the server's certificate or ours cannot be used."""
        server, port = self.settings.server, self.settings.used_port
        context = await asyncio.to_thread(make_tls_context, self.settings)
        try:
            async with asyncio.timeout(self.settings.timeout):
                reader, self._writer = await asyncio.open_connection(
                    server, port, ssl=context, server_hostname=server if context else None, limit=MAX_RECEIVED_BYTES
                )
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or str(error)
            raise Denied(f"the server's certificate is not trusted ({why}); give its issuer's in ca_file") from None
        except TimeoutError:
            raise Offline(f"{server} did not answer in time") from None
        except (OSError, ssl.SSLError) as error:
            raise Offline(f"{server} port {port} cannot be reached: {error.strerror or error}") from None
        self._reading = asyncio.create_task(self._read(reader))

    async def close(self) -> None:
        """Close the connection. Afterwards no task and no socket of it is left."""
        self.give_up(Offline("the connection was closed"))
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.wait_closed()
            self._writer.transport.abort()

    def give_up(self, why: Offline | Denied) -> None:
        """Give up the connection."""
        if not self.over.done():
            self.over.set_result(why)

    async def write(self, command: str, *params: str, tags: dict[str, str] | None = None) -> None:
        """Write a line once the pace allows it. If it raises Offline, nothing of the line was written."""
        line = format_line(command, *params, tags=tags)
        async with self._pacing:
            clock = asyncio.get_running_loop().time
            wait = self._free_at - BURST_LINES * self.settings.pace - clock()
            if wait > 0:
                await asyncio.wait([self.over], timeout=wait)
            self._write(line)
            self._free_at = max(self._free_at, clock()) + LINES_PER_COMMAND.get(command, 1) * self.settings.pace

    def write_at_once(self, command: str, *params: str) -> None:
        """Write a line ahead of those that wait. Raises Offline."""
        self._write(format_line(command, *params))

    def _write(self, line: bytes) -> None:
        if self.over.done():
            raise Offline(str(self.over.result()))
        if self._writer is None or self._writer.transport.is_closing():
            raise Offline("the connection is closed")
        self._writer.write(line)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                try:
                    line = await reader.readline()
                except ValueError:
                    self.give_up(Offline(f"the server sends a line of more than {MAX_RECEIVED_BYTES} bytes"))
                    return
                if not line.endswith(b"\n"):  # a line that breaks off is none
                    self.give_up(Offline("the server closed the connection"))
                    return
                message = parse_line(line.rstrip(b"\r\n"))
                if message is not None:
                    self._on_message(message)
        except (OSError, ssl.SSLError) as error:
            self.give_up(Offline(f"the connection broke: {error.strerror or error}"))
        except (Offline, Denied) as error:
            self.give_up(error)
        except Exception as error:  # whatever it is, nothing is read any more
            log.exception("a line could not be dealt with")
            self.give_up(Offline(f"a line of the server could not be dealt with: {type(error).__name__}"))


def make_tls_context(settings: IrcSettings) -> ssl.SSLContext | None:
    """Return a TLS context with the system's certificates, those of `ca_file`, and our own; None without TLS.

    Raises Denied if a file cannot be used.
    """
    if settings.tls == "none":
        return None
    files = [Path(name) if name else None for name in (settings.ca_file, settings.certificate)]
    try:
        return _cached_context(*files, *(file.stat().st_mtime_ns if file else 0 for file in files))
    except (OSError, ssl.SSLError) as error:
        raise Denied(f"ca_file or certificate cannot be read: {error}", ["ca_file", "certificate"]) from None


@lru_cache(8)
def _cached_context(ca_file: Path | None, certificate: Path | None, *changed: int) -> ssl.SSLContext:
    """Building one takes 0.2 s, so it is cached. `changed`: the files' modification times."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    if certificate is not None:
        context.load_cert_chain(certificate, password=lambda: b"")  # a key with a password would be asked for
    return context
