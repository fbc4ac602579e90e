"""A slixmpp connection that is used once: one attempt to connect, no reconnecting, no task or timer that outlives it.

slixmpp provides the stream: look-up, TCP, TLS, SASL, binding, XML parsing. After the login, every message, presence and
iq is passed to `handle` instead of slixmpp's handlers. `write` writes a stanza at once and does not queue it, so that a
stanza that was not written has provably not been sent (Law 7).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

from slixmpp import ClientXMPP
from slixmpp.xmlstream.tostring import tostring
from slixmpp.xmlstream.xmlstream import NotConnectedError

from semel.channels.xmpp import ns
from semel.gateway.ports import Denied, Offline

logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # slixmpp logs stanzas, which may contain secrets

ConnectionLoss = Offline | Denied
MAX_STANZA_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a received stanza; it is kept in memory until it is complete. Servers accept 256 KiB of a client."""


class XmppStream(ClientXMPP):  # type: ignore[misc, unused-ignore]
    """One connection, with two futures. `ready` is done when stanzas can be sent. `over` is done when the connection is
    lost, and its result is the reason."""

    def __init__(
        self, jid: str, password: str, tls: str, context: ssl.SSLContext, handle: Callable[[Element], None]
    ) -> None:
        super().__init__(jid, password, ssl_context=context)
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[ConnectionLoss] = loop.create_future()
        self.gone = asyncio.Event()  # the socket is closed
        self._handle = handle
        self._started: set[asyncio.Task[Any]] = set()
        self._refused: list[object] = []
        self._unread_bytes = 0  # bytes received since the last complete stanza
        self._tls = tls
        self.enable_direct_tls = tls == "direct"
        self.enable_starttls = tls == "required"
        self.enable_plaintext = tls == "none"
        mechanisms = self.plugin["feature_mechanisms"]
        mechanisms.unencrypted_plain = mechanisms.unencrypted_scram = tls == "none"
        self._add_handlers()

    def _add_handlers(self) -> None:
        for name, handler in (
            ("session_start", self._on_ready),
            ("disconnected", self._on_gone),
            ("connection_failed", self._refused.append),
            ("failed_auth", self._on_refused),
            ("no_auth", self._on_no_mechanism),
            ("ssl_invalid_chain", lambda error: self.give_up(_untrusted(error))),
            ("stream_error", self._on_stream_error),
        ):
            self.add_event_handler(name, handler)

    # ------------------------------------------------------------ lifecycle

    def start(self, server: str | None, port: int | None) -> None:
        """Start to connect to the given server, or to the one that DNS names."""
        if server is None:
            self.enable_direct_tls = self._tls != "none"  # DNS decides between direct TLS and STARTTLS
        attempt = self.connect(server, port) if server is not None else self.connect()
        assert isinstance(attempt, asyncio.Task)
        self._started.add(attempt)

    def give_up(self, why: ConnectionLoss) -> None:
        """Give up the connection. `why` becomes the result of the future `over`, unless that has one already."""
        if not self.over.done():
            self.over.set_result(why)
        self.abort()

    async def shut_down(self, grace: float = 2.0) -> None:
        """Close the connection and wait up to `grace` seconds each for its tasks and its socket to end. Idempotent."""
        self.give_up(Offline("closed"))
        self.cancel_connection_attempt()
        for handle in self.scheduled_events.values():
            handle.cancel()
        self.scheduled_events.clear()
        for task in self._started:
            task.cancel()
        if self._started:
            await asyncio.wait(self._started, timeout=grace)
        if self.transport is not None:
            self.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.gone.wait()

    def close_stream(self) -> None:
        """Close the XML stream, so that the server knows that we have left."""
        with contextlib.suppress(NotConnectedError):
            self.send_raw(self.stream_footer)

    def _adopt_task(self) -> None:
        """Register the running task as one of this connection, to be cancelled by `shut_down`."""
        task = asyncio.current_task()
        if task is not None:
            self._started.add(task)
            task.add_done_callback(self._started.discard)

    # ------------------------------------------------------------ stanzas

    def write(self, stanza: Element) -> None:
        """Write a stanza now. If it raises Offline, nothing of the stanza was written."""
        if self.over.done() or not self.ready.done():
            raise Offline("the connection is not open")
        try:
            self.send_raw(tostring(stanza, xmlns=self.default_ns, stream=self, top_level=True))
        except NotConnectedError:
            raise Offline("the connection is lost") from None

    def recv_stanza(self, stanza: Any) -> None:
        """Pass a stanza to `handle`; slixmpp gets only those that it needs for negotiation."""
        self._unread_bytes = 0
        if stanza.xml.tag in (ns.MESSAGE, ns.PRESENCE, ns.IQ) and self.ready.done():
            self._handle(stanza.xml)
        elif stanza.xml.tag not in (ns.MESSAGE, ns.PRESENCE):
            super().recv_stanza(stanza)

    def data_received(self, data: Any) -> None:
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_STANZA_BYTES:
            self.give_up(Offline(f"the server sends a stanza of more than {MAX_STANZA_BYTES >> 20} MiB"))
            return
        try:
            super().data_received(data)
        except Exception as fault:
            self.give_up(Offline(f"the server's XML cannot be read: {type(fault).__name__}"))

    # ------------------------------------------------------------ no reconnecting, no leaked tasks

    def reschedule_connection_attempt(self) -> None:
        """Give up instead: slixmpp would retry endlessly."""
        untrusted = next((why for why in self._refused if isinstance(why, ssl.SSLCertVerificationError)), None)
        if untrusted is not None:
            self.give_up(_untrusted(untrusted))
        else:
            self.give_up(
                Offline("; ".join(dict.fromkeys(map(str, self._refused))) or "the server cannot be connected to")
            )

    def reconnect(self, wait: float = 0.0, reason: str = "") -> None:
        self.give_up(Offline(reason or "the server redirects us to another host"))

    def disconnect(self, wait: float = 0.0, reason: str | None = None, ignore_send_queue: bool = True) -> Any:
        self.give_up(Offline(reason or "the connection ended before the login was complete"))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def run_filters(self) -> None:
        self._adopt_task()
        await super().run_filters()

    async def start_tls(self) -> bool:
        self._adopt_task()
        try:
            return bool(await super().start_tls())
        except Exception as fault:  # the connection was lost in the handshake
            self.give_up(Offline(f"TLS failed: {fault or type(fault).__name__}"))
            return False

    async def _handle_stream_features(self, features: Any) -> Any:
        self._adopt_task()
        return await super()._handle_stream_features(features)

    def exception(self, exception: Any) -> None:
        self.give_up(Offline(f"{type(exception).__name__} while the connection was used"))

    # ------------------------------------------------------------ events of slixmpp

    def _on_ready(self, event: Any) -> None:
        if self._tls != "none" and not isinstance(self.socket, ssl.SSLObject | ssl.SSLSocket):
            self.give_up(Denied("the server did not encrypt the connection"))
        elif not self.ready.done():
            self.ready.set_result(None)

    def _on_gone(self, why: Any) -> None:
        self.gone.set()
        if isinstance(why, ssl.SSLCertVerificationError):
            self.give_up(_untrusted(why))
        self.give_up(Offline(str(why) if why else "the server closed the connection"))

    def _on_refused(self, failure: Any) -> None:
        if failure["condition"] == "temporary-auth-failure":
            self.give_up(Offline("the server cannot check the password now"))
        else:
            self.give_up(
                Denied(f"the server does not accept the password of {self.requested_jid.bare}: check password")
            )

    def _on_no_mechanism(self, event: Any) -> None:
        self.give_up(
            Denied(
                "the server offers no way to log in that keeps the password secret: it should offer STARTTLS, or set "
                'tls = "direct" and port if it speaks TLS from the first byte'
            )
        )

    def _on_stream_error(self, error: Any) -> None:
        condition = error["condition"]
        if condition == "conflict":
            why = f"another connection of {self.requested_jid.bare} took the resource {self.boundjid.resource!r}"
            self.give_up(Denied(f"{why}: is a second gateway running? Give this one another resource"))
        elif condition in ("host-unknown", "not-authorized"):
            self.give_up(Denied(f"the server refuses {self.requested_jid.bare}: {condition}"))
        else:
            self.give_up(Offline(f"the server ended the connection: {condition} {error['text'] or ''}".strip()))


def _untrusted(fault: object) -> Denied:
    why = getattr(fault, "verify_message", "") or fault
    return Denied(f"the server's certificate is not trusted ({why}); give its issuer's in ca_file")
