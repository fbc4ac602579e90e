"""One IMAP connection with its own worker thread, because the IMAP libraries block and the event loop must not.

All waiting and reading is bounded: each read has a time-out, each call has a total time limit, and the bytes of an
answer are limited. `close` logs out; if the server does not answer, it shuts the socket down, which ends any read in
the worker thread at once. Errors of imaplib and imap-tools are mapped to `Offline`, a refused login to `Denied`.
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
"""Seconds that each step of closing waits for the worker thread."""
_PASSING = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "[CONTACTADMIN]")
"""Response codes of transient server problems, which are not about the request (RFC 5530)."""

MIN_DOWNLOAD_BYTES_PER_S = 50_000
"""Assumed minimum download rate in bytes per second; it extends the time limit of large answers."""
MAX_OVERHEAD_BYTES = 16 * 1024 * 1024
"""Bytes that an answer may have in addition to the requested mail. Listing a million mails takes 7 MB."""

_log = logging.getLogger("semel.email")


class AnswerTooLarge(Offline):
    """The server's answer exceeded its size or time limit."""


class _Client(imaplib.IMAP4):
    """imaplib over an already connected socket, with a limit on the bytes of an answer."""

    def __init__(self, standing: socket.socket, host: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        self._standing = standing
        self._tls = tls
        self.left = MAX_OVERHEAD_BYTES  # bytes that the current call may still read
        super().__init__(host, timeout=timeout)

    def read(self, size: int) -> bytes:
        """Read a literal, whose length the server announced."""
        self._take(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise AnswerTooLarge("the mail server's answer is larger than any that was asked for")

    def _create_socket(self, timeout: float | None) -> socket.socket:
        if self._tls is None:
            return self._standing
        return self._tls.wrap_socket(self._standing, server_hostname=self.host)


class MailBox(BaseMailBox):
    """imap-tools over an existing imaplib client."""

    def __init__(self, client: imaplib.IMAP4) -> None:
        self._given = client
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return self._given


class Line:
    """A logged-in IMAP connection. `connect_imap` creates it, `close` ends it."""

    def __init__(self, settings: EmailSettings, standing: socket.socket) -> None:
        self._settings = settings
        self._cord = socket.socket(fileno=os.dup(standing.fileno()))  # a duplicate, to cut the connection any time
        self._woken, self._waker = socket.socketpair()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="semel-imap")
        self._work: Future[Any] | None = None
        self._box: MailBox | None = None
        self.closing = False

    def __repr__(self) -> str:
        state = "closing" if self.closing else "open" if self._box else "new"
        return f"<Line to {self._settings.imap}, {state}>"

    async def call(self, work: Callable[..., T], *given: Any, mail: int = 0, waits: float = 0.0) -> T:
        """Run `work(box, *given)` in the worker thread. Raises Offline (a subclass of it above the limits) or Denied.

        `mail`: bytes of mail that the work requests. `waits`: seconds that the work may wait for new mail.
        """
        most = mail + MAX_OVERHEAD_BYTES
        if self._box is not None:
            assert isinstance(self._box.client, _Client)
            self._box.client.left = most
        patience = waits + 4 * self._settings.timeout + most / MIN_DOWNLOAD_BYTES_PER_S
        self._work = self._pool.submit(work, self._box, *given)
        try:
            async with asyncio.timeout(patience) as bound:
                return await asyncio.wrap_future(self._work)
        except TimeoutError as fault:
            if bound.expired():
                self._cut()
                raise AnswerTooLarge(f"{self._settings.imap} takes more than {patience:.0f} s for an answer") from None
            raise Offline(f"{self._settings.imap}: {told(fault, self._settings)}") from None
        except (Offline, Denied):
            raise
        except (imaplib.IMAP4.error, ImapToolsError, OSError, EOFError) as fault:
            raise Offline(f"{self._settings.imap}: {told(fault, self._settings)}") from None
        except Exception as fault:  # the libraries raise anything on unexpected answers
            _log.warning("an answer of %s is not understood", self._settings.imap, exc_info=True)
            raise Offline(f"{self._settings.imap} is not understood: {told(fault, self._settings)}") from None

    def wait(self, seconds: float) -> bool:
        """Runs in the worker thread: wait until the server sends something, `close` is called, or the time is over.

        Returns whether the server sent something.
        """
        assert self._box is not None
        waiting = self._box.client.sock
        with select_poll(waiting, self._woken) as poller:
            ready = poller.poll(seconds * 1000)
        return any(number == waiting.fileno() for number, _ in ready)

    async def close(self) -> None:
        """Log out, or cut the connection if that takes too long. Returns within a few seconds."""
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
        """Wait for the worker thread's current work; whether it finished within that time."""
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
        """Runs in the worker thread: start TLS and log in. Raises Denied if the login is refused."""
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


async def connect_imap(settings: EmailSettings, tls: ssl.SSLContext) -> Line:
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
    """Await `work` to its end even if the caller is cancelled, then re-raise the cancellation."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _connect(settings: EmailSettings) -> socket.socket:
    """Connect to the first of the host's addresses that accepts a connection. Raises Offline."""
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
    """A `poll` object for these sockets. `select` cannot handle descriptors above 1023."""
    poller = select.poll()
    for each in waiting:
        poller.register(each.fileno(), select.POLLIN)
    yield poller


def is_passing(why: str) -> bool:
    """Whether an error text holds a response code of a transient server problem."""
    return any(word in why.upper() for word in _PASSING)


def told(fault: BaseException, settings: EmailSettings) -> str:
    """Describe an error. The password is masked, because a server may repeat it in its answer."""
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
