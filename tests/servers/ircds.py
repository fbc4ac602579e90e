"""Real IRC servers, InspIRCd and ngIRCd, and people on them.

    with Inspircd(tmp_path) as server:                    # services that know every account, with the password "pw"
        server.port, server.tls_port                      # the certificate is CERTIFICATE (server_process)
        with SecondInspircd(tmp_path, server) as other:   # linked to it, until `other.split()`
            ...
        async with server.user("ann", "#lobby") as ann:   # logged in to the account ann; account=None: to none
            await ann.say("semel", "hello")
            await ann.wait(lambda: "re: hello" in ann.texts)

A channel of InspIRCd keeps HISTORY lines and plays them back to who joins, as long as somebody is in it. ngIRCd has no
message ids, no echo and no history.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest
from server_process import CERTIFICATE, CannotStart, ServerProcess, free_ports, installed, started

from semel.channels.irc.wire import IrcMessage, format_line, parse_line

HISTORY = 400
MODULES = [
    "cap", "ircv3", "ircv3_echomessage", "ircv3_labeledresponse", "ircv3_msgid", "ircv3_batch", "ircv3_servertime",
    "ircv3_ctctags", "chanhistory", "kicknorejoin", "redirect", "ssl_gnutls", "sslinfo",
]  # fmt: skip
ACCOUNT_MODULES = ["ircv3_accounttag", "services_account", "sasl", "spanningtree"]
INSPIRCD = """
<server name="{name}" description="test" network="Test" id="{id}">
<admin name="a" nick="a" email="a@localhost">
<bind address="127.0.0.1" port="{port}" type="clients">
<bind address="127.0.0.1" port="{tls_port}" type="clients" sslprofile="tls">
<sslprofile name="tls" provider="gnutls" certfile="{certificate}" keyfile="{certificate}" requestclientcert="yes">
<path configdir="{home}" datadir="{home}" logdir="{home}" moduledir="{modules}" runtimedir="{home}">
<connect allow="*" timeout="60" pingfreq="120" sendq="4194304" recvq="1048576" softsendq="2097152" hardsendq="4194304"
 {flood_limits} fakelag="no" limit="1000" localmax="1000" globalmax="1000"
 resolvehostnames="no" useident="no" maxchans="200">
<class name="none">
<pid file="{home}/inspircd.pid">
<log method="file" type="* -USERINPUT -USEROUTPUT" level="default" target="ircd.log">
<chanhistory maxlines="1000" prefixmsg="no">
<dns server="127.0.0.1" timeout="1">
<files motd="{home}/motd.txt">
<options defaultmodes="not">
"""
SERVICES = """
<bind address="127.0.0.1" port="{link_port}" type="servers">
<sasl target="services.localhost">
<link name="services.localhost" ipaddr="127.0.0.1" port="{link_port}" allowmask="127.0.0.1" sendpass="link"
 recvpass="link">
<link name="irc2.localhost" ipaddr="127.0.0.1" port="{link_port}" allowmask="127.0.0.1" sendpass="link"
 recvpass="link">
<uline server="services.localhost" silent="yes">
"""
SECOND = """
<sasl target="services.localhost">
<link name="irc.localhost" ipaddr="127.0.0.1" port="{link_port}" allowmask="127.0.0.1" sendpass="link" recvpass="link">
<autoconnect period="1" server="irc.localhost">
<uline server="services.localhost" silent="yes">
"""
NO_FLOOD_LIMITS = 'threshold="5000" commandrate="1000000"'
FLOOD_LIMITS = 'threshold="20" commandrate="10000"'
"""Ten commands in a second: ten times what servers usually take. They are counted down once in a second."""
NGIRCD = """
[Global]
Name = irc.localhost
Info = test
Listen = 127.0.0.1
Ports = {port}
MotdPhrase = hello
{password}
[Limits]
MaxConnectionsIP = 0
MaxPenaltyTime = 0
MaxNickLength = 30
PingTimeout = 120
[Options]
Ident = no
PAM = no
DNS = no
"""
_numbers = itertools.count(1)


class _Ircd:
    name = ""

    def __init__(self, home: Path) -> None:
        self.home = home / f"{self.name}{next(_numbers)}"
        try:
            self.root = installed("ircds", "irc") / "root"
        except CannotStart as missing:
            pytest.skip(str(missing))
        self.port = self.tls_port = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} 127.0.0.1:{self.port}>"

    def __enter__(self) -> _Ircd:
        self.home.mkdir(parents=True)
        self.process = started(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def _first(self) -> ServerProcess:
        raise NotImplementedError

    def _start(self, *command: str | Path) -> ServerProcess:
        (library,) = (self.root / "usr/lib").glob("*-linux-*")
        ports = [self.port] + ([self.tls_port] if self.tls_port else [])
        program = self.root / "usr/sbin" / self.name
        return ServerProcess([program, *command], ports, self.home / "out.log", {"LD_LIBRARY_PATH": str(library)})

    def user(self, nick: str, *channels: str, account: str | None = "") -> IrcUser:
        """This person, to be connected with `async with`. `account`: by default named as the nick; None: no account."""
        return IrcUser(self.port, nick, channels, nick if account == "" else account)


class Inspircd(_Ircd):
    """`accounts`: it has services, and tells who is logged in. `flood_limits`: attributes of a class of connections."""

    name = "inspircd"
    server_name, server_id = "irc.localhost", "0AA"

    def __init__(self, home: Path, *, accounts: bool = True, flood_limits: str = NO_FLOOD_LIMITS) -> None:
        super().__init__(home)
        self._accounts = accounts
        self._flood_limits = flood_limits
        self.link_port = 0
        self.services: Services | None = None

    def _first(self) -> ServerProcess:
        self.port, self.tls_port, self.link_port = free_ports(3)
        shutil.copy(CERTIFICATE, self.home / "localhost.pem")
        (self.home / "motd.txt").write_text("hello\n")
        config = INSPIRCD.format(
            name=self.server_name,
            id=self.server_id,
            flood_limits=self._flood_limits,
            home=self.home,
            port=self.port,
            tls_port=self.tls_port,
            certificate=self.home / "localhost.pem",
            modules=self.root / "usr/lib/inspircd/modules",
        )
        if self._accounts:
            config += self._links()
        config += "".join(
            f'<module name="{module}">\n' for module in (*MODULES, *(ACCOUNT_MODULES if self._accounts else ()))
        )
        (self.home / "inspircd.conf").write_text(config)
        process = self._start(f"--config={self.home / 'inspircd.conf'}", "--nofork", "--runasroot")
        try:
            self.services = self._start_services()
        except (OSError, TimeoutError) as error:
            process.kill()
            raise CannotStart(f"InspIRCd did not link the services: {error}") from None
        return process

    def _links(self) -> str:
        return SERVICES.format(link_port=self.link_port)

    def _start_services(self) -> Services | None:
        return Services(self.link_port) if self._accounts else None

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, fault, trace)
        if self.services is not None:
            self.services.close()


class SecondInspircd(Inspircd):
    """A server of the network of `first`, which links itself to that again within some seconds after a split."""

    server_name, server_id = "irc2.localhost", "0AB"

    def __init__(self, home: Path, first: Inspircd) -> None:
        super().__init__(home)
        self._link = Relay(first.link_port)

    def _links(self) -> str:
        return SECOND.format(link_port=self._link.port)

    def _start_services(self) -> None:
        return None

    def split(self) -> None:
        """Break the link, and keep it broken until `rejoin`."""
        self._link.cut()

    def rejoin(self) -> None:
        self._link.is_cut = False

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, fault, trace)
        self._link.close()


class Relay:
    """Passes connections on to a port, and cuts them."""

    def __init__(self, to: int) -> None:
        self.to, self.is_cut = to, False
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                there, _ = self._server.accept()
                if self.is_cut:
                    there.close()
                    continue
                here = socket.create_connection(("127.0.0.1", self.to), 10)
                here.settimeout(None)
                self._sockets += [here, there]
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()


class Ngircd(_Ircd):
    """`password`: the one that each connection has to give."""

    name = "ngircd"

    def __init__(self, home: Path, password: str = "") -> None:
        super().__init__(home)
        self.password = password

    def _first(self) -> ServerProcess:
        (self.port,) = free_ports(1)
        password = f"Password = {self.password}" if self.password else ""
        (self.home / "ngircd.conf").write_text(NGIRCD.format(port=self.port, password=password))
        return self._start("-n", "-f", self.home / "ngircd.conf")


class Services:
    """The services of a network, linked as a server: they log in whoever gives the password "pw" (SASL PLAIN), or shows
    a certificate (EXTERNAL: to the account "bot")."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._socket.settimeout(None)
        self._linked = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        if not self._linked.wait(20):
            raise TimeoutError("InspIRCd did not link the services")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _write(self, *lines: str) -> None:
        self._socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def _serve(self) -> None:
        self._write("CAPAB START 1205", "CAPAB CAPABILITIES :PROTOCOL=1205", "CAPAB END")
        self._write("SERVER services.localhost link 0 9SV :services")
        mechanisms: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            for line in lines:
                message = parse_line(line.rstrip(b"\r\n"))
                if message is None:
                    continue
                match message.command, message.params:
                    case "SERVER", _ if not message.source:
                        self._write(
                            f":9SV BURST {int(time.time())}",
                            ":9SV METADATA * saslmechlist :PLAIN,EXTERNAL",
                            ":9SV ENDBURST",
                        )
                    case "ENDBURST", _:
                        self._linked.set()
                    case "PING", _:
                        self._write(f":9SV PONG {message.source}")
                    case "ENCAP", (_, "SASL", user, _, step, *rest):
                        self._log_in(message.source, user, step, rest, mechanisms)

    def _log_in(self, server: str, user: str, step: str, rest: list[str], mechanisms: dict[str, str]) -> None:
        answer = f":9SV ENCAP {server} SASL 9SVAAAAAA {user}"
        if step == "S":
            mechanisms[user] = rest[0]
            self._write(f"{answer} C +")
        if step != "C":
            return
        account, password = "bot", "pw"
        if mechanisms.get(user) == "PLAIN":
            _, account, password = base64.b64decode(rest[0]).decode().split("\0")
        if password != "pw":
            self._write(f"{answer} D F")
            return
        self._write(f":9SV METADATA {user} accountname :{account}", f"{answer} D S")


class IrcUser:
    """A person with a client of their own. `messages` are the PRIVMSGs and NOTICEs of others, `texts` their texts."""

    def __init__(self, port: int, nick: str, channels: Sequence[str], account: str | None) -> None:
        self.port, self.nick, self.account = port, nick, account
        self.messages: list[IrcMessage] = []
        self.lines: list[IrcMessage] = []
        self._channels = channels
        self._more = asyncio.Event()

    def __repr__(self) -> str:
        return f"<IrcUser {self.nick}>"

    @property
    def texts(self) -> list[str]:
        return [message.params[-1] for message in self.messages]

    async def __aenter__(self) -> IrcUser:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._reading = asyncio.create_task(self._read())
        self.write("CAP", "LS", "302")
        self.write("NICK", self.nick)
        self.write("USER", self.nick, "0", "*", self.nick)
        if self.account is not None:
            self.write("CAP", "REQ", "sasl message-tags server-time account-tag")
            self.write("AUTHENTICATE", "PLAIN")
            await self.wait_for("AUTHENTICATE")
            self.write("AUTHENTICATE", base64.b64encode(f"{self.account}\0{self.account}\0pw".encode()).decode())
            await self.wait_for("903")
        else:
            self.write("CAP", "REQ", "message-tags server-time account-tag")
        self.write("CAP", "END")
        await self.wait(lambda: any(line.command in ("376", "422") for line in self.lines))
        for channel in self._channels:
            await self.join(channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()

    async def _read(self) -> None:
        while line := await self._reader.readline():
            message = parse_line(line.rstrip(b"\r\n"))
            if message is None:
                continue
            if message.command == "PING":
                self.write("PONG", *message.params)
            if message.command in ("PRIVMSG", "NOTICE") and "!" in message.source:
                self.messages.append(message)
            self.lines.append(message)
            self._more.set()

    def write(self, command: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        self._writer.write(format_line(command, *params, tags=tags))

    async def wait(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Until it holds; looked at again with each line that comes. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._more.clear()
                await self._more.wait()

    async def wait_for(self, command: str) -> None:
        await self.wait(lambda: any(line.command == command for line in self.lines))

    async def settle(self) -> None:
        """Until the server has dealt with all that was sent so far."""
        token = f"t{next(_numbers)}"
        self.write("PING", token)
        await self.wait(lambda: any(line.command == "PONG" and line.params[-1] == token for line in self.lines))

    async def join(self, channel: str) -> None:
        """Into a channel. Who makes it, on InspIRCd, has it keep HISTORY lines."""
        self.write("JOIN", channel)
        self.write("MODE", channel, "+H", f"{HISTORY}:1d")
        await self.settle()

    async def say(self, target: str, text: str, *, tags: Mapping[str, str] | None = None) -> None:
        self.write("PRIVMSG", target, text, tags=tags)
        await self.settle()
