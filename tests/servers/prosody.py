"""A real Prosody (XMPP), and people on it.

    with Prosody(tmp_path) as server:                     # bot@localhost, alice@localhost, bob@localhost, password "pw"
        server.port                                       # c2s on 127.0.0.1: plain, and STARTTLS where offered
        server.tls_port                                   # direct TLS; the certificate is CERTIFICATE (server_process)
        server.upload                                     # upload.localhost (XEP-0363), rooms are at muc.localhost
        async with server.user("alice") as alice:
            id = await alice.say("bot@localhost", "hello")            # its origin-id
            await alice.join("lobby@muc.localhost")                   # makes the room if it is not there
            await alice.say("lobby@muc.localhost", "hi", group=True)
            await alice.wait(lambda: "re: hello" in alice.texts)      # what came live
            await alice.put("a.txt", b"abc")                          # a file: the URL to share
            await alice.archive("bot@localhost")                      # [Archived]: her own archive (MAM), all pages
            await alice.room_archive("lobby@muc.localhost")           # the room's
        server.process.kill(); server.restart()           # on the same ports, with the same data

`Prosody(home, tls="required")` refuses what is not encrypted; `tls="none"` has no certificate at all.
The archive answers at most 50 messages a page, whatever is asked for.
"""

from __future__ import annotations

import asyncio
import shutil
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from xml.etree import ElementTree

from server_process import CERTIFICATE, ServerProcess, free_ports, installed, started

UPLOAD = "urn:xmpp:http:upload:0"
CONFIG = """
run_as_root = true
daemonize = false
modules_enabled = {{ "roster", "saslauth", {tls} "disco", "carbons", "pep", "mam", "smacks", "ping", "posix", "time",
    "version", "csi_simple", "bookmarks", "blocklist", "vcard4", "vcard_legacy" }}
modules_disabled = {{ "s2s", "offline" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {tls_ports} }}
https_ports = {{ }}
http_ports = {{ {http} }}
http_interfaces = {{ "127.0.0.1" }}
http_host = "127.0.0.1"
http_external_url = "http://127.0.0.1:{http}/"
c2s_require_encryption = {required}
allow_unencrypted_plain_auth = true
authentication = "internal_plain"
archive_expires_after = "never"
default_archive_policy = true
max_archive_query_results = 50
log = {{ info = "{home}/prosody.log" }}
pidfile = "{home}/prosody.pid"
storage = "internal"
data_path = "{home}/data"
smacks_hibernation_time = 60
{ssl}
VirtualHost "localhost"
Component "muc.localhost" "muc"
    modules_enabled = {{ "muc_mam" }}
    muc_room_default_public = true
    muc_room_locking = false
    muc_room_default_persistent = true
    max_archive_query_results = 50
Component "upload.localhost" "http_file_share"
    http_file_share_size_limit = 5*1024*1024
"""


@dataclass(frozen=True)
class Archived:
    """One message of an archive. `id` is the archive's (the stanza-id), `origin` the sender's own."""

    id: str
    sender: str  # full JID as the archive has it
    text: str
    origin: str
    xml: ElementTree.Element


class Prosody:
    """A server called `localhost`. What it needs stands below `home`, which is made."""

    upload = "upload.localhost"

    def __init__(
        self,
        home: Path,
        accounts: tuple[str, ...] = ("bot", "alice", "bob"),
        *,
        tls: Literal["none", "offered", "required"] = "offered",
    ) -> None:
        self.home = home / "prosody"
        self._installed = installed("prosody", "xmpp")
        self._accounts, self._tls = accounts, tls
        self.port = self.tls_port = self.http_port = 0

    def __repr__(self) -> str:
        return f"<Prosody 127.0.0.1:{self.port}>"

    def __enter__(self) -> Prosody:
        for name in self._accounts:
            self.register(name)
        self.process = started(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def register(self, name: str) -> None:
        """One account more; also while it runs."""
        folder = self.home / "data/localhost/accounts"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.dat").write_text('return {\n\t["password"] = "pw";\n};\n')

    def _first(self) -> ServerProcess:
        self.port, self.tls_port, self.http_port = free_ports(3)
        with_tls = self._tls != "none"
        shutil.copy(CERTIFICATE, self.home / "localhost.pem")
        pem = f'{{ certificate = "{self.home}/localhost.pem", key = "{self.home}/localhost.pem" }}'
        config = CONFIG.format(
            home=self.home,
            port=self.port,
            http=self.http_port,
            tls='"tls",' if with_tls else "",
            tls_ports=self.tls_port if with_tls else "",
            required="true" if self._tls == "required" else "false",
            ssl=f"ssl = {pem}\nc2s_direct_tls_ssl = {pem}" if with_tls else "",
        )
        (self.home / "prosody.cfg.lua").write_text(config)
        return self._start()

    def _start(self) -> ServerProcess:
        root = self._installed / "root"
        (library,) = (root / "usr/lib").glob("*-linux-*")
        env = {
            "LD_LIBRARY_PATH": str(library),
            "LUA_PATH": f"{root}/usr/share/lua/5.4/?.lua;{root}/usr/share/lua/5.4/?/init.lua",
            "LUA_CPATH": f"{library}/lua/5.4/?.so",
        }
        script = self._installed / "prosody.lua"
        command = [root / "usr/bin/lua5.4", script, "--config", self.home / "prosody.cfg.lua", "-F"]
        ports = [self.port, self.http_port] + ([self.tls_port] if self._tls != "none" else [])
        return ServerProcess(command, ports, self.home / "out.log", env)

    def restart(self) -> None:
        """After `process.kill()` or `process.stop()`: again, with the same data, on the same ports."""
        self.process = self._start()

    def user(self, name: str, resource: str = "person") -> XmppUser:
        """This person, to be connected with `async with`."""
        return XmppUser(self, name, resource)


class XmppUser:
    """A person with a client of their own. `messages` are the live message stanzas, `texts` their bodies."""

    def __init__(self, server: Prosody, name: str, resource: str) -> None:
        self.server, self.name, self.jid = server, name, f"{name}@localhost"
        self.messages: list[Any] = []
        self._resource = resource
        self._more = asyncio.Event()
        self._client: Any = None

    def __repr__(self) -> str:
        return f"<XmppUser {self.jid}>"

    @property
    def client(self) -> Any:
        """The slixmpp ClientXMPP, for what is not offered here."""
        return self._client

    @property
    def texts(self) -> list[str]:
        return [message["body"] for message in self.messages if message["body"]]

    async def __aenter__(self) -> XmppUser:
        from slixmpp import ClientXMPP

        plain = {"feature_mechanisms": {"unencrypted_plain": True, "unencrypted_scram": True}}
        client = self._client = ClientXMPP(f"{self.jid}/{self._resource}", "pw", plugin_config=plain)
        for plugin in ("xep_0030", "xep_0045", "xep_0059", "xep_0313", "xep_0359", "xep_0308", "xep_0444"):
            client.register_plugin(plugin)
        client.enable_direct_tls = False
        client.enable_starttls = self.server._tls == "required"
        client.enable_plaintext = not client.enable_starttls
        client.ca_certs = str(CERTIFICATE)
        client.add_event_handler("message", self._came)
        ready: asyncio.Future[Any] = client.wait_until("session_start", timeout=30)
        client.connect("127.0.0.1", self.server.port)
        await ready
        client.send_presence()
        await self.settle()  # from here on, what is written to this person comes live
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.disconnect(wait=1.0)

    def _came(self, stanza: Any) -> None:
        self.messages.append(stanza)
        self._more.set()

    async def wait(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Until it holds; looked at again with each message that comes. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._more.clear()
                await self._more.wait()

    async def say(self, to: str, text: str, *, group: bool = False, **stanza: Any) -> str:
        """A message; its id, which is its origin-id, too. `stanza`: elements to append (`append=[element]`)."""
        message = self._client.make_message(mto=to, mbody=text, mtype="groupchat" if group else "chat")
        message["id"] = message["origin_id"]["id"] = self._client.new_id()
        for element in stanza.get("append", ()):
            message.xml.append(element)
        message.send()
        await self.settle()
        return str(message["id"])

    async def settle(self) -> None:
        """Until the server has dealt with all that was sent so far (a ping, which it answers in order)."""
        iq = self._client.make_iq_get(ito="localhost")
        iq.xml.append(ElementTree.Element("{urn:xmpp:ping}ping"))
        await iq.send(timeout=30)

    async def join(self, room: str, nick: str | None = None) -> None:
        """Into a room, which is made if it is not there."""
        await self._client.plugin["xep_0045"].join_muc_wait(room, nick or self.name, maxstanzas=0, timeout=30)

    async def put(self, name: str, content: bytes, mime: str = "application/octet-stream") -> str:
        """A file for the server (XEP-0363, its slixmpp plugin needs aiohttp); the URL to share."""
        iq = self._client.make_iq_get(ito=self.server.upload)
        asked = {"filename": name, "size": str(len(content)), "content-type": mime}
        iq.xml.append(ElementTree.Element(f"{{{UPLOAD}}}request", asked))
        slot = (await iq.send(timeout=30)).xml.find(f"{{{UPLOAD}}}slot")
        there = slot.find(f"{{{UPLOAD}}}put")
        headers = {each.get("name"): each.text for each in there} | {"content-type": mime}
        request = urllib.request.Request(there.get("url"), content, headers, method="PUT")
        (await asyncio.to_thread(urllib.request.urlopen, request, None, 30)).close()
        return str(slot.find(f"{{{UPLOAD}}}get").get("url"))

    async def archive(self, with_: str | None = None) -> list[Archived]:
        """This person's own archive, with one other if named, to the last page, oldest first."""
        return await self._query(None, with_)

    async def room_archive(self, room: str) -> list[Archived]:
        """What a room's archive has, to the last page, oldest first."""
        return await self._query(room, None)

    async def _query(self, jid: str | None, with_: str | None) -> list[Archived]:
        found: list[Archived] = []
        after = None
        mam = self._client.plugin["xep_0313"]
        while True:
            rsm = {"max": 50} | ({"after": after} if after else {})
            answer = await mam.retrieve(jid=jid, with_jid=with_, rsm=rsm, timeout=30)
            page = [_archived(each) for each in answer["mam"]["results"]]
            found += page
            after = answer["mam_fin"]["rsm"]["last"]
            if answer["mam_fin"].xml.get("complete") == "true" or not page:
                return found


def _archived(result: Any) -> Archived:
    stanza = result["mam_result"]["forwarded"]["stanza"]
    origin = stanza.xml.find("{urn:xmpp:sid:0}origin-id")
    return Archived(
        id=str(result["mam_result"]["id"]),
        sender=str(stanza["from"]),
        text=str(stanza["body"]),
        origin="" if origin is None else str(origin.get("id", "")),
        xml=stanza.xml,
    )
