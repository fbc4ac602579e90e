"""A small XMPP server that does as a test says: it counts connections and messages, hangs, drops, refuses and forges.

    async with WireServer() as server:
        server.archive.append(entry("a1", "<message from='alice@localhost/x' ...><body>hi</body></message>"))
        server.on_message = drops                # what becomes of a message; default: it is taken
        channel = server.channel()

It knows one account, bot@localhost with the password "pw", logs in with PLAIN without TLS, and pages its archive as
a real server does: at most `page` messages, whatever is asked for.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from xml.etree.ElementTree import Element, XMLPullParser, fromstring

from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings
from semel.testing.servers import close_server

HEADER = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' "
    "id='s' from='localhost' version='1.0'>"
)
PLAIN = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
BIND = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"
MAM, RSM = "{urn:xmpp:mam:2}", "{http://jabber.org/protocol/rsm}"
START = "2026-11-22T10:00:00Z"


@dataclass(frozen=True)
class Entry:
    """One archived message, as XML in jabber:client."""

    id: str
    xml: str
    stamp: str = START


def entry(id: str, xml: str, stamp: str = START) -> Entry:
    return Entry(id, xml.replace("<message", "<message xmlns='jabber:client'", 1), stamp)


@dataclass
class Connection:
    """One client's connection."""

    server: WireServer
    writer: asyncio.StreamWriter
    logged_in: bool = False
    gone: bool = False
    resource: str = ""

    def say(self, xml: str) -> None:
        self.writer.write(xml.encode())

    def cut(self) -> None:
        self.gone = True
        self.writer.transport.abort()


Way = Callable[[Connection, Element], Awaitable[None]]


async def takes(connection: Connection, message: Element) -> None:
    """It is taken."""


async def drops(connection: Connection, message: Element) -> None:
    """It is taken, and the connection is lost."""
    connection.cut()


async def hangs(connection: Connection, message: Element) -> None:
    """It is taken, and nothing is said ever after."""
    await asyncio.Event().wait()


def bounces(condition: str, type: str = "cancel") -> Way:
    """It comes back."""

    async def way(connection: Connection, message: Element) -> None:
        connection.say(
            f"<message type='error' from='{message.get('to')}' id='{message.get('id')}'><error type='{type}'>"
            f"<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )

    return way


@dataclass
class WireServer:
    """What it does is in its fields; what it saw is in `connections`, `messages` and `presences`."""

    features: tuple[str, ...] = ("urn:xmpp:mam:2", "urn:xmpp:sid:0")
    archive: list[Entry] = field(default_factory=list)
    room_archive: list[Entry] = field(default_factory=list)
    page: int = 50
    hidden: set[str] = field(default_factory=set)  # archive ids that it does not show yet
    on_message: Way = takes
    offers: str = PLAIN
    password: str = "pw"
    silent_after: str = ""  # "connect", "login": says nothing from there on
    messages: list[Element] = field(default_factory=list)
    presences: list[Element] = field(default_factory=list)
    queries: int = 0
    silent_to: str = ""  # does not answer what is asked of addresses that hold this
    rooms: bool = False  # lets everybody into any room
    forgets: bool = False  # says so to who asks whether they are still in a room
    connections: list[Connection] = field(default_factory=list)
    port: int = 0
    _server: Any = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> WireServer:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port or None)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_server(self._server)
        for connection in self.connections:
            connection.writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def channel(self, **settings: Any) -> XmppChannel:
        usual = {"jid": "bot@localhost", "password": "pw", "server": "127.0.0.1", "port": self.port, "tls": "none"}
        return XmppChannel("jabber", XmppSettings(**(usual | {"timeout": 5.0, "keepalive": 60.0} | settings)))

    def say(self, xml: str) -> None:
        """To the newest connection."""
        self.connections[-1].say(xml)

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Looked at again with everything that comes. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._more.clear()
                await self._more.wait()

    # ------------------------------------------------------------ one connection

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(self, writer)
        self.connections.append(connection)
        self._more.set()
        parser, depth = XMLPullParser(("start", "end")), 0
        try:
            while not connection.gone and (data := await reader.read(65536)):
                parser.feed(data)
                for event, element in parser.read_events():
                    depth += 1 if event == "start" else -1
                    if event == "start" and depth == 1:
                        self._greet(connection)
                    elif event == "end" and depth == 1 and await self._stanza(connection, element):
                        parser, depth = XMLPullParser(("start", "end")), 0
                        break
                    elif event == "end" and depth == 0:
                        return
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _greet(self, connection: Connection) -> None:
        if self.silent_after == "connect":
            return
        inside = BIND if connection.logged_in else self.offers
        connection.say(f"{HEADER}<stream:features>{inside}</stream:features>")

    async def _stanza(self, connection: Connection, stanza: Element) -> bool:
        """Whether the stream begins anew."""
        name = stanza.tag.rpartition("}")[2]
        if name == "auth":
            return self._login(connection, stanza)
        if self.silent_after == "login":
            return False
        if name == "iq":
            self._iq(connection, stanza)
        elif name == "presence":
            self.presences.append(stanza)
            self._presence(connection, stanza)
        elif name == "message":
            self.messages.append(stanza)
            self._more.set()
            await self.on_message(connection, stanza)
        self._more.set()
        return False

    def _login(self, connection: Connection, auth: Element) -> bool:
        _, _, password = base64.b64decode(auth.text or "").decode().split("\0")
        if password != self.password:
            connection.say("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>")
            return False
        connection.logged_in = True
        connection.say("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
        return True

    def _presence(self, connection: Connection, presence: Element) -> None:
        if self.rooms and presence.find("{http://jabber.org/protocol/muc}x") is not None:
            connection.say(
                f"<presence from='{presence.get('to')}'><x xmlns='http://jabber.org/protocol/muc#user'>"
                "<item affiliation='none' role='participant'/><status code='110'/></x></presence>"
            )

    def _iq(self, connection: Connection, iq: Element) -> None:
        if iq.get("type") not in ("get", "set"):
            return
        kind = iq[0].tag
        if self.silent_to and self.silent_to in iq.get("to", ""):
            return
        if kind.endswith("ping}ping") and self.forgets and "/" in iq.get("to", ""):
            self.forgets = False
            connection.say(
                f"<iq type='error' id='{iq.get('id')}' from='{iq.get('to')}'><error type='cancel'>"
                "<not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
            )
            return
        if kind.endswith("}bind"):
            wanted = iq[0].findtext("{urn:ietf:params:xml:ns:xmpp-bind}resource") or "made-up"
            connection.resource = wanted
            inside = f"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>bot@localhost/{wanted}</jid></bind>"
        elif kind.endswith("disco#info}query"):
            features = "".join(f"<feature var='{each}'/>" for each in self.features)
            inside = f"<query xmlns='http://jabber.org/protocol/disco#info'>{features}</query>"
        elif kind == MAM + "query":
            self._query(connection, iq)
            return
        else:
            inside = ""
        source = f"from='{iq.get('to')}'" if iq.get("to") else ""
        connection.say(f"<iq type='result' id='{iq.get('id')}' {source}>{inside}</iq>")

    # ------------------------------------------------------------ the archive

    def _query(self, connection: Connection, iq: Element) -> None:
        self.queries += 1
        source = f"from='{iq.get('to')}'" if iq.get("to") else ""
        query = iq[0]
        rsm = query.find(RSM + "set")
        assert rsm is not None
        after, before = rsm.findtext(RSM + "after"), rsm.findtext(RSM + "before")
        found = [each for each in self._asked_for(query, iq.get("to")) if each.id not in self.hidden]
        ids = [each.id for each in found]
        if (after and after not in ids) or (before and before not in ids):
            connection.say(
                f"<iq type='error' id='{iq.get('id')}' {source}><error type='modify'>"
                "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
            )
            return
        found = found[ids.index(after) + 1 :] if after else found
        found = found[: ids.index(before)] if before else found
        most = min(self.page, int(rsm.findtext(RSM + "max") or 20))
        backwards = rsm.find(RSM + "before") is not None
        page = found[-most:] if backwards else found[:most]
        for each in page:
            self._result(connection, query.get("queryid", ""), each, iq.get("to") or "bot@localhost")
        ends = f"<first>{page[0].id}</first><last>{page[-1].id}</last>" if page else ""
        complete = " complete='true'" if len(page) == len(found) else ""
        connection.say(
            f"<iq type='result' id='{iq.get('id')}' {source}><fin xmlns='urn:xmpp:mam:2'{complete}>"
            f"<set xmlns='http://jabber.org/protocol/rsm'>{ends}</set></fin></iq>"
        )

    def _asked_for(self, query: Element, query_to: str | None) -> list[Entry]:
        told = {
            each.get("var"): each.findtext("{jabber:x:data}value") or "" for each in query.iter("{jabber:x:data}field")
        }
        kept = self.archive if query_to is None else self.room_archive
        found = [each for each in kept if each.stamp >= told.get("start", "")]
        with_ = told.get("with")
        if with_:
            found = [each for each in found if with_ in (_bare(each, "from"), _bare(each, "to"))]
        return found

    def _result(self, connection: Connection, query: str, each: Entry, source: str) -> None:
        connection.say(
            f"<message from='{source}'><result xmlns='urn:xmpp:mam:2' queryid='{query}' id='{each.id}'>"
            f"<forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{each.stamp}'/>"
            f"{each.xml}</forwarded></result></message>"
        )

    def live(self, each: Entry, extra: str = "", by: str = "bot@localhost") -> None:
        """A message that comes live, with the archive's id."""
        sid = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{by}' id='{each.id}'/>"
        self.say(each.xml.replace("</message>", f"{sid}{extra}</message>"))


def _bare(each: Entry, attribute: str) -> str:
    return (fromstring(each.xml).get(attribute) or "").partition("/")[0]


def body(message: Element) -> str:
    return message.findtext("{jabber:client}body") or ""


__all__ = ["Entry", "WireServer", "body", "bounces", "drops", "entry", "hangs", "takes"]
