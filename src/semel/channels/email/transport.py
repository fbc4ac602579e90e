"""One IMAP connection, in a thread of its own: the library blocks, the gateway must not.

Nothing here waits for ever, and nothing is read without an end. Every read has a time-out, and so has each piece of
work as a whole; what a server sends in answer to it is bounded, lines and literals alike (`Endless`). `close` says
goodbye, and where the server does not take part it cuts the connection, so that whatever the thread waits for ends at
once. Errors of imaplib and imap-tools come out as `Offline`, a refused login as `Denied`.
"""

from __future__ import annotations

import asyncio
import contextlib
import imaplib
import logging
import os
import select
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from imap_tools import BaseMailBox
from imap_tools.errors import ImapToolsError

from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Denied, Offline

T = TypeVar("T")

GOODBYE = 1.0
"""Seconds a thread has to come to its end by itself."""
_PASSING = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "[CONTACTADMIN]")
"""Refusals that speak of the server and not of what was asked (RFC 5530)."""

SLOWEST = 50_000
"""Bytes a second that a server sends at the least, where it sends much."""
BESIDE = 16 * 1024 * 1024
"""Bytes of an answer beside the mail that is in it: a mailbox of a million mails is listed in seven."""

_log = logging.getLogger("semel.email")


class Endless(Offline):
    """The answer was larger than it may be, or took longer."""


class _Client(imaplib.IMAP4):
    """imaplib on a connection that stands already."""

    def __init__(self, standing: socket.socket, host: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        self._standing = standing
        self._tls = tls
        self.left = BESIDE  # bytes that may still be read for the work that is done
        super().__init__(host, timeout=timeout)

    def read(self, size: int) -> bytes:
        """A literal, as long as the server says."""
        self._take(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Endless("the mail server's answer is larger than any that was asked for")

    def _create_socket(self, timeout: float | None) -> socket.socket:
        if self._tls is None:
            return self._standing
        return self._tls.wrap_socket(self._standing, server_hostname=self.host)


class MailBox(BaseMailBox):
    """imap-tools on that."""

    def __init__(self, client: imaplib.IMAP4) -> None:
        self._given = client
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return self._given


class Line:
    """A connection that is logged in. Make it with `dial`, end it with `close`."""

    def __init__(self, settings: EmailSettings, standing: socket.socket) -> None:
        self._settings = settings
        self._cord = socket.socket(fileno=os.dup(standing.fileno()))  # to cut it by, whoever holds the other one
        self._woken, self._waker = socket.socketpair()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="semel-imap")
        self._work: Future[Any] | None = None
        self._box: MailBox | None = None
        self.closing = False

    def __repr__(self) -> str:
        state = "closing" if self.closing else "open" if self._box else "new"
        return f"<Line to {self._settings.imap}, {state}>"

    async def call(self, work: Callable[..., T], *given: Any, mail: int = 0, waits: float = 0.0) -> T:
        """`work(box, ...)` in the thread. Raises Offline (Endless) or Denied.

        `mail`: bytes of a mail that are asked for; `waits`: seconds that it waits for news.
        """
        most = mail + BESIDE
        if self._box is not None:
            assert isinstance(self._box.client, _Client)
            self._box.client.left = most
        patience = waits + 4 * self._settings.timeout + most / SLOWEST
        self._work = self._pool.submit(work, self._box, *given)
        try:
            async with asyncio.timeout(patience) as bound:
                return await asyncio.wrap_future(self._work)
        except TimeoutError as fault:
            if bound.expired():
                self._cut()
                raise Endless(f"{self._settings.imap} takes more than {patience:.0f} s for an answer") from None
            raise Offline(f"{self._settings.imap}: {told(fault, self._settings)}") from None
        except (Offline, Denied):
            raise
        except (imaplib.IMAP4.error, ImapToolsError, OSError, EOFError) as fault:
            raise Offline(f"{self._settings.imap}: {told(fault, self._settings)}") from None
        except Exception as fault:  # the libraries fall over answers that they do not expect
            _log.warning("an answer of %s is not understood", self._settings.imap, exc_info=True)
            raise Offline(f"{self._settings.imap} is not understood: {told(fault, self._settings)}") from None

    def wait(self, seconds: float) -> bool:
        """In the thread: until the server sends something, or `close` is called, or for so long. Whether it sent."""
        assert self._box is not None
        waiting = self._box.client.sock
        with select_poll(waiting, self._woken) as poller:
            ready = poller.poll(seconds * 1000)
        return any(number == waiting.fileno() for number, _ in ready)

    async def close(self) -> None:
        """Say goodbye, or hang up. Returns when the thread has ended, in a few seconds at most."""
        self.closing = True
        self._waker.send(b"x")
        try:
            if not await self._idle(GOODBYE):
                self._cut()
            elif self._box is not None:
                self._work = self._pool.submit(_say_goodbye, self._box)
                if not await self._idle(GOODBYE):
                    self._cut()
        finally:
            self._cut()
            ended = await self._idle(GOODBYE)
            self._pool.shutdown(wait=False, cancel_futures=True)
            if ended and self._box is not None:
                with contextlib.suppress(OSError):
                    self._box.client.shutdown()
            if not ended:
                _log.warning("a connection to %s does not end", self._settings.imap)
            for each in (self._cord, self._woken, self._waker):
                each.close()

    async def _idle(self, seconds: float) -> bool:
        """Whether the thread is done within that time."""
        if self._work is None or self._work.done():
            return True
        done = asyncio.ensure_future(asyncio.wrap_future(self._work))
        await asyncio.wait({done}, timeout=seconds)
        if done.done():
            done.cancelled() or done.exception()
        else:
            done.cancel()
        return self._work.done()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self._cord.shutdown(socket.SHUT_RDWR)

    def _log_in(self, _: None, standing: socket.socket, tls: ssl.SSLContext) -> MailBox:
        """In the thread. Raises Denied."""
        settings = self._settings
        host = settings.imap.strip("[]")
        client = _Client(standing, host, settings.timeout, tls if settings.imap_tls == "tls" else None)
        try:
            if settings.imap_tls == "starttls":
                client.starttls(tls)
            box = MailBox(client)
            self._authenticate(box)
        except BaseException:
            with contextlib.suppress(OSError):
                client.shutdown()
            raise
        return box

    def _authenticate(self, box: MailBox) -> None:
        user, password = self._settings.login, self._settings.password
        try:
            if user.isascii() and password.isascii() and "LOGINDISABLED" not in box.client.capabilities:
                box.login(user, password, initial_folder=None)
            else:
                box.login_utf8(user, password, initial_folder=None)
        except imaplib.IMAP4.abort:
            raise
        except (ImapToolsError, imaplib.IMAP4.error) as no:
            why = told(no, self._settings)
            if is_passing(why):
                raise Offline(f"{self._settings.imap}: {why}") from None
            raise Denied(
                f"{self._settings.imap} refuses the login of {user}: {why}. Set user and password as the mail provider "
                "tells; many want a password made for this program (an app password)"
            ) from None


async def dial(settings: EmailSettings, tls: ssl.SSLContext) -> Line:
    """Connect and log in. Raises Offline or Denied."""
    standing = await _connect(settings)
    line = Line(settings, standing)
    try:
        line._box = await line.call(line._log_in, standing, tls)
    except BaseException:
        await finish(line.close())
        standing.close()
        raise
    return line


async def finish(work: Any) -> None:
    """To its end, though we are cancelled meanwhile; it is bounded."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _connect(settings: EmailSettings) -> socket.socket:
    """A connection to the first of the host's addresses that takes one."""
    loop = asyncio.get_running_loop()
    host, port = settings.imap.strip("[]"), settings.port("imap")
    why = "it has no address"
    try:
        async with asyncio.timeout(settings.timeout):
            for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                standing = socket.socket(family, kind, protocol)
                try:
                    standing.setblocking(False)
                    await loop.sock_connect(standing, address)
                    standing.settimeout(settings.timeout)
                    return standing
                except OSError as fault:
                    standing.close()
                    why = fault.strerror or str(fault)
                except BaseException:
                    standing.close()
                    raise
    except TimeoutError:
        why = f"no connection within {settings.timeout:g} s"
    except (OSError, UnicodeError) as fault:
        why = f"it cannot be looked up: {getattr(fault, 'strerror', None) or fault}"
    raise Offline(f"{settings.imap}: {why}")


def _say_goodbye(box: MailBox) -> None:
    try:
        box.logout()
    except (imaplib.IMAP4.error, ImapToolsError, OSError, EOFError):
        with contextlib.suppress(OSError):
            box.client.shutdown()


@contextlib.contextmanager
def select_poll(*waiting: socket.socket) -> Any:
    """A poll over these: there may be more than 1024 open files."""
    poller = select.poll()
    for each in waiting:
        poller.register(each.fileno(), select.POLLIN)
    yield poller


def is_passing(why: str) -> bool:
    """Whether the server says that it is its own trouble."""
    return any(word in why.upper() for word in _PASSING)


def told(fault: BaseException, settings: EmailSettings) -> str:
    """What an error says, without the password, which a server may repeat to us."""
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    result = getattr(fault, "command_result", None)
    text = _line(result[1]) if isinstance(result, tuple) and len(result) > 1 else _line(fault.args)
    text = text or type(fault).__name__
    return text.replace(settings.password, "***")[:300] if settings.password else text[:300]


def _line(value: Any) -> str:
    if isinstance(value, bytes):
        return " ".join(value.decode("utf-8", "replace").split())
    if isinstance(value, list | tuple):
        return " ".join(filter(None, (_line(each) for each in value)))
    return " ".join(str(value).split()) if value is not None else ""
