"""One connection to the server: login, sending stanzas, requests with their answers, and a complete shutdown.

session = XmppSession(settings, resource="semel")
await session.open()                                                     # raises Offline or Denied
answer = await session.request("get", make_element("ping", PING), jid)   # raises IqRefused or Offline
await session.close()
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import ssl
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree.ElementTree import Element

from semel.channels.xmpp import address, ns
from semel.channels.xmpp.settings import XmppSettings
from semel.channels.xmpp.xml import add_child, children, error_of, find_child, make_element
from semel.gateway.ports import Denied, Offline

if TYPE_CHECKING:
    from semel.channels.xmpp.transport import XmppStream

ANNOUNCED_FEATURES = (
    ns.DISCO_INFO, ns.PING, "urn:xmpp:message-correct:0", "urn:xmpp:reactions:0", "urn:xmpp:message-retract:1",
    "urn:xmpp:reply:0", "urn:xmpp:styling:0", "urn:xmpp:sid:0", "jabber:x:oob", "http://jabber.org/protocol/chatstates",
)  # fmt: skip
"""The features that we announce to service discovery (XEP-0030)."""
LOGIN_TIMEOUT_FACTOR = 2.0
"""Time limit for look-up, connection and login together, as a multiple of the setting `timeout`."""


class IqRefused(Exception):
    """The answer was an error stanza. `type` and `condition` as in RFC 6120, 8.3."""

    def __init__(self, asked: str, type: str, condition: str, text: str) -> None:
        super().__init__(f"{asked}: {condition}" + (f" ({text[:200]})" if text else ""))
        self.type, self.condition = type, condition


StanzaHandler = Callable[[Element], None]


class XmppSession:
    """One connection. It passes messages and presences to `on_message` and `on_presence` as they arrive, in order."""

    def __init__(self, settings: XmppSettings, resource: str = "") -> None:
        self.settings = settings
        self.on_message: StanzaHandler | None = None
        self.on_presence: StanzaHandler | None = None
        self.watchers: list[StanzaHandler] = []  # additional callbacks for every message
        self.awaited_ids: set[str] = set()  # ids of messages whose confirmation `send` awaits
        self.jid = settings.jid  # the account's bare address, after login as the server reports it
        self.friends: set[str] = set()  # addresses that may know we are online: rooms and subscribed contacts
        self.trust: ssl.SSLContext | None = None  # trusted certificates, set by `open`
        self._resource = resource
        self._stream: XmppStream | None = None
        self._pending: dict[str, tuple[str, asyncio.Future[Element]]] = {}

    def __repr__(self) -> str:
        state = "closed" if self._stream is None else "open" if self.alive else "lost"
        return f"<XmppSession {self.settings.jid}/{self._resource} {state}, {len(self._pending)} pending>"

    @property
    def alive(self) -> bool:
        """Whether the connection is logged in and not known to be lost."""
        return self._stream is not None and self._stream.ready.done() and not self._stream.over.done()

    # ------------------------------------------------------------ lifecycle

    async def open(self) -> None:
        """Connect and log in. Raises Offline or Denied, after closing everything that was opened."""
        module = await asyncio.to_thread(importlib.import_module, "semel.channels.xmpp.transport")
        self.trust = await asyncio.to_thread(_tls_context, self.settings)
        context = self.trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        jid = f"{self.settings.jid}/{self._resource}" if self._resource else self.settings.jid
        stream: XmppStream = module.XmppStream(jid, self.settings.password, self.settings.tls, context, self._dispatch)
        self._stream = stream
        stream.over.add_done_callback(lambda over: self._fail_pending(over.result()))
        port = self.settings.port or (5223 if self.settings.tls == "direct" else 5222)
        try:
            stream.start(self.settings.server, port)
            await wait_first(LOGIN_TIMEOUT_FACTOR * self.settings.timeout, stream.ready, stream.over)
            if stream.over.done():
                raise stream.over.result()
            self.jid = stream.boundjid.bare
            if not stream.ready.done():
                raise Offline(f"{self.settings.server or self.settings.domain} did not complete the login in time")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection. Afterwards no task, timer or socket of it is left."""
        stream, self._stream = self._stream, None
        if stream is not None:
            if stream.ready.done() and not stream.over.done():
                stream.close_stream()
            await stream.shut_down()
        self._fail_pending(Offline("the connection was closed"))

    def give_up(self, why: str) -> None:
        """Give up the connection; pending calls fail with Offline."""
        if self._stream is not None:
            self._stream.give_up(Offline(why))

    async def wait_until_lost(self) -> Offline | Denied:
        """Wait until the connection is lost. Returns the reason."""
        if self._stream is None:
            return Offline("the connection was closed")
        return await asyncio.shield(self._stream.over)

    # ------------------------------------------------------------ writing and requests

    def write(self, stanza: Element) -> None:
        """Write a stanza. If it raises Offline, nothing of the stanza was written."""
        if self._stream is None:
            raise Offline("the connection is closed")
        self._stream.write(stanza)

    async def request(self, type: Literal["get", "set"], payload: Element, to: str = "") -> Element:
        """Send a request, wait for the answer and return it. `to`: the asked address, "" for our own account.

        Raises IqRefused for an error, and Offline if the connection is lost or our server is silent.
        """
        id = secrets.token_hex(8)
        iq = make_element("iq", ns.CLIENT, type_=type, id=id, **({"to": to} if to else {}))
        iq.append(payload)
        future: asyncio.Future[Element] = asyncio.get_running_loop().create_future()
        self._pending[id] = (to, future)
        try:
            self.write(iq)
            async with asyncio.timeout(self.settings.timeout):
                answer = await future
        except TimeoutError:
            raise self._no_answer_error(to) from None
        finally:
            self._pending.pop(id, None)
        if answer.get("type") == "error":
            raise IqRefused(answer.get("from", "") or self.settings.domain, *error_of(answer))
        return answer

    def _no_answer_error(self, asked: str) -> Exception:
        """Return the error for a request that was not answered in time. For our own server this is Offline, and the
        connection is given up. For other addresses it is IqRefused with remote-server-timeout."""
        if asked not in ("", self.jid, self.settings.domain):
            return IqRefused(asked, "wait", "remote-server-timeout", "no answer")
        self.give_up(f"{self.settings.domain} did not answer in time")
        return Offline(f"{self.settings.domain} did not answer in time")

    async def ping(self) -> None:
        """Wait until the server has processed all earlier stanzas, which it does in order (RFC 6120, 10.1)."""
        try:
            await self.request("get", make_element("ping", ns.PING), self.settings.domain)
        except IqRefused:
            pass  # a server without ping support answers with an error, also in order

    async def discover_features(self, jid: str) -> tuple[frozenset[str], Element | None]:
        """Query the features of an entity by service discovery (XEP-0030). Returns (features, the query element).

        Raises IqRefused or Offline.
        """
        query = find_child(await self.request("get", make_element("query", ns.DISCO_INFO), jid), "query", ns.DISCO_INFO)
        return frozenset(each.get("var", "") for each in children(query, "feature", ns.DISCO_INFO)), query

    # ------------------------------------------------------------ incoming stanzas

    def _dispatch(self, stanza: Element) -> None:
        if stanza.tag == ns.MESSAGE:
            for handler in (*self.watchers, *([self.on_message] if self.on_message else [])):
                handler(stanza)
        elif stanza.tag == ns.PRESENCE:
            if self.on_presence is not None:
                self.on_presence(stanza)
        elif stanza.get("type") in ("result", "error"):
            to, future = self._pending.get(stanza.get("id", ""), ("", None))
            if future is not None and not future.done() and self._may_answer(to, stanza.get("from", "")):
                future.set_result(stanza)
        else:
            self._reply(stanza)

    def _may_answer(self, asked: str, source: str) -> bool:
        """Whether an answer is from the entity we asked. Our own server may omit its address (RFC 6120, 8.1.2.1)."""
        own = ("", self.jid, self.settings.domain)
        return source == asked or (asked in own and address.bare_jid(source) in own)

    def _reply(self, iq: Element) -> None:
        """Answer a request. Only friends get an answer to ping and service discovery; others cannot see us online."""
        source = address.bare_jid(iq.get("from", ""))
        friend = source in self.friends or source in ("", self.jid, self.settings.domain)
        reply = make_element("iq", ns.CLIENT, type_="result", id=iq.get("id", ""), to=iq.get("from", ""))
        if not iq.get("from"):
            del reply.attrib["to"]
        if friend and iq.get("type") == "get" and find_child(iq, "ping", ns.PING) is not None:
            pass
        elif friend and iq.get("type") == "get" and find_child(iq, "query", ns.DISCO_INFO) is not None:
            query = add_child(reply, "query", ns.DISCO_INFO)
            add_child(query, "identity", ns.DISCO_INFO, category="client", type_="bot", name="Semel")
            for feature in ANNOUNCED_FEATURES:
                add_child(query, "feature", ns.DISCO_INFO, var=feature)
        elif iq.get("type") == "set" and source in ("", self.jid):
            pass  # roster or block list push of our server: acknowledged
        else:
            reply.set("type", "error")
            error = add_child(reply, "error", ns.CLIENT, type_="cancel")
            add_child(error, "service-unavailable", ns.STANZA_ERRORS)
        self.write(reply)

    def _fail_pending(self, why: Offline | Denied) -> None:
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(Offline(str(why)))


async def wait_first(seconds: float | None, *futures: asyncio.Future[Any]) -> None:
    """Wait until one of the futures is done or `seconds` have passed."""
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _tls_context(settings: XmppSettings) -> ssl.SSLContext | None:
    """Return a TLS context with the system's certificates and those of `ca_file`; None without TLS and `ca_file`.

    Raises Denied if `ca_file` cannot be read.
    """
    if settings.ca_file is None:
        return _cached_context(None, 0) if settings.tls != "none" else None
    try:
        return _cached_context(settings.ca_file, Path(settings.ca_file).stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as bad:
        raise Denied(f"ca_file {settings.ca_file} cannot be read: {bad}") from None


@lru_cache(8)
def _cached_context(ca_file: str | None, changed: int) -> ssl.SSLContext:
    """Return a TLS context. Building one takes 0.2 s, so it is cached. `changed`: the file's modification time."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context
