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

CLOSE_STEP_TIMEOUT_S = 1.0
"""Seconds that each step of closing waits for the worker thread."""
_TRANSIENT_CODES = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "[CONTACTADMIN]")
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

    def __init__(self, connected: socket.socket, host: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        self._connected = connected
        self._tls = tls
        self.readable_bytes = MAX_OVERHEAD_BYTES  # bytes that the current call may still read
        super().__init__(host, timeout=timeout)

    def read(self, size: int) -> bytes:
        """Read a literal, whose length the server announced."""
        self._count_read(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._count_read(len(line))
        return line

    def _count_read(self, size: int) -> None:
        self.readable_bytes -= size
        if self.readable_bytes < 0:
            raise AnswerTooLarge("the mail server's answer is larger than any that was asked for")

    def _create_socket(self, timeout: float | None) -> socket.socket:
        if self._tls is None:
            return self._connected
        return self._tls.wrap_socket(self._connected, server_hostname=self.host)


class MailBox(BaseMailBox):
    """imap-tools over an existing imaplib client."""

    def __init__(self, client: imaplib.IMAP4) -> None:
        self._existing_client = client
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return self._existing_client


class ImapConnection:
    """A logged-in IMAP connection. `connect_imap` creates it, `close` ends it."""

    def __init__(self, settings: EmailSettings, connected: socket.socket) -> None:
        self._settings = settings
        self._socket_copy = socket.socket(
            fileno=os.dup(connected.fileno())
        )  # a duplicate, to shut the connection down at any time
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="semel-imap")
        self._work: Future[Any] | None = None
        self._mailbox: MailBox | None = None
        self.closing = False

    def __repr__(self) -> str:
        state = "closing" if self.closing else "open" if self._mailbox else "new"
        return f"<ImapConnection to {self._settings.imap}, {state}>"

    async def call(self, work: Callable[..., T], *arguments: Any, mail_bytes: int = 0, wait_s: float = 0.0) -> T:
        """Run `work(box, *arguments)` in the worker thread and return its result.

        `mail_bytes`: bytes of mail that the work requests. `wait_s`: seconds that the work may wait for new mail.
        Raises Offline or Denied; the Offline is an AnswerTooLarge if a limit of size or time was exceeded.
        """
        max_bytes = mail_bytes + MAX_OVERHEAD_BYTES
        if self._mailbox is not None:
            assert isinstance(self._mailbox.client, _Client)
            self._mailbox.client.readable_bytes = max_bytes
        timeout_s = wait_s + 4 * self._settings.timeout + max_bytes / MIN_DOWNLOAD_BYTES_PER_S
        self._work = self._pool.submit(work, self._mailbox, *arguments)
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                return await asyncio.wrap_future(self._work)
        except TimeoutError as error:
            if deadline.expired():
                self._shut_socket()
                raise AnswerTooLarge(f"{self._settings.imap} takes more than {timeout_s:.0f} s for an answer") from None
            raise Offline(f"{self._settings.imap}: {describe_error(error, self._settings)}") from None
        except (Offline, Denied):
            raise
        except (imaplib.IMAP4.error, ImapToolsError, OSError, EOFError) as error:
            raise Offline(f"{self._settings.imap}: {describe_error(error, self._settings)}") from None
        except Exception as error:  # the libraries raise anything on unexpected answers
            _log.warning("an answer of %s is not understood", self._settings.imap, exc_info=True)
            raise Offline(f"{self._settings.imap} is not understood: {describe_error(error, self._settings)}") from None

    def wait(self, seconds: float) -> bool:
        """Wait until the server sends something, `close` is called or `seconds` have passed. Runs in the worker thread.

        Returns whether the server sent something.
        """
        assert self._mailbox is not None
        connection = self._mailbox.client.sock
        poller = select.poll()  # `select` cannot handle descriptors above 1023
        for readable in (connection, self._wake_receiver):
            poller.register(readable, select.POLLIN)
        return any(number == connection.fileno() for number, _ in poller.poll(seconds * 1000))

    async def close(self) -> None:
        """Log out, or cut the connection if that takes too long. Returns within a few seconds."""
        self.closing = True
        self._wake_sender.send(b"x")
        try:
            if not await self._wait_for_worker(CLOSE_STEP_TIMEOUT_S):
                self._shut_socket()
            elif self._mailbox is not None:
                self._work = self._pool.submit(_log_out, self._mailbox)
                if not await self._wait_for_worker(CLOSE_STEP_TIMEOUT_S):
                    self._shut_socket()
        finally:
            self._shut_socket()
            worker_ended = await self._wait_for_worker(CLOSE_STEP_TIMEOUT_S)
            self._pool.shutdown(wait=False, cancel_futures=True)
            if worker_ended and (box := self._mailbox or self._find_unused_login()) is not None:
                with contextlib.suppress(OSError):
                    box.client.shutdown()
            if not worker_ended:
                _log.warning("a connection to %s does not end", self._settings.imap)
            for open_socket in (self._socket_copy, self._wake_receiver, self._wake_sender):
                open_socket.close()

    def _find_unused_login(self) -> MailBox | None:
        """Return the mailbox of a login whose caller was cancelled before the login ended, to be closed; else None."""
        if self._work is None or self._work.cancelled() or self._work.exception() is not None:
            return None
        result = self._work.result()
        return result if isinstance(result, MailBox) else None

    async def _wait_for_worker(self, seconds: float) -> bool:
        """Wait for the worker thread's current work. Returns whether it finished within that time."""
        if self._work is None or self._work.done():
            return True
        finished = asyncio.ensure_future(asyncio.wrap_future(self._work))
        await asyncio.wait({finished}, timeout=seconds)
        if finished.done():
            finished.cancelled() or finished.exception()
        else:
            finished.cancel()
        return self._work.done()

    def _shut_socket(self) -> None:
        with contextlib.suppress(OSError):
            self._socket_copy.shutdown(socket.SHUT_RDWR)

    def _log_in(self, _: None, connected: socket.socket, tls: ssl.SSLContext) -> MailBox:
        """Start TLS and log in. Raises Denied if the login is refused. Runs in the worker thread."""
        settings = self._settings
        host = settings.imap.strip("[]")
        client = _Client(connected, host, settings.timeout, tls if settings.imap_tls == "tls" else None)
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
        except (ImapToolsError, imaplib.IMAP4.error) as error:
            reason = describe_error(error, self._settings)
            if is_transient(reason):
                raise Offline(f"{self._settings.imap}: {reason}") from None
            raise Denied(
                f"{self._settings.imap} refuses the login of {user}: {reason}. Set user and password as the mail "
                "provider tells; many want a password made for this program (an app password)",
                ["address", "user", "password"],
            ) from None


async def connect_imap(settings: EmailSettings, tls: ssl.SSLContext) -> ImapConnection:
    """Connect and log in. Raises Offline or Denied."""
    connected = await _connect(settings)
    line = ImapConnection(settings, connected)
    try:
        line._mailbox = await line.call(line._log_in, connected, tls)
    except BaseException:
        await run_to_end(line.close())
        connected.close()
        raise
    return line


async def run_to_end(work: Any) -> None:
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
    reason = "it has no address"
    try:
        async with asyncio.timeout(settings.timeout):
            for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                connecting = socket.socket(family, kind, protocol)
                try:
                    connecting.setblocking(False)
                    await loop.sock_connect(connecting, address)
                    connecting.settimeout(settings.timeout)
                    return connecting
                except OSError as error:
                    connecting.close()
                    reason = error.strerror or str(error)
                except BaseException:
                    connecting.close()
                    raise
    except TimeoutError:
        reason = f"no connection within {settings.timeout:g} s"
    except (OSError, UnicodeError) as error:
        reason = f"it cannot be looked up: {getattr(error, 'strerror', None) or error}"
    raise Offline(f"{settings.imap}: {reason}")


def _log_out(box: MailBox) -> None:
    try:
        box.logout()
    except (imaplib.IMAP4.error, ImapToolsError, OSError, EOFError):
        with contextlib.suppress(OSError):
            box.client.shutdown()


def is_transient(reason: str) -> bool:
    """Whether an error text holds a response code of a transient server problem."""
    return any(word in reason.upper() for word in _TRANSIENT_CODES)


def describe_error(error: BaseException, settings: EmailSettings) -> str:
    """Describe an error. The password is masked, because a server may repeat it in its answer."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    result = getattr(error, "command_result", None)
    text = _to_line(result[1]) if isinstance(result, tuple) and len(result) > 1 else _to_line(error.args)
    text = text or type(error).__name__
    return text.replace(settings.password, "***")[:300] if settings.password else text[:300]


def _to_line(value: Any) -> str:
    if isinstance(value, bytes):
        return " ".join(value.decode("utf-8", "replace").split())
    if isinstance(value, list | tuple):
        return " ".join(filter(None, (_to_line(item) for item in value)))
    return " ".join(str(value).split()) if value is not None else ""
