"""A small IRC server with what InspIRCd 3 has not: `draft/chathistory` (https://ircv3.net/specs/extensions/chathistory).

    async with IrcDouble() as server:
        server.port
        server.history["#room"] = [("ann", "m1", "2026-11-22T10:00:00.000Z", "hello")]
        server.said                                       # [(target, text)]
        server.tell("semel", "ann", "hello")              # from the nick and account ann

It knows the account "bot" with the password "pw", lets everybody join every channel, and echoes with labels. Every nick
is there, and is logged in to the account of its name, or to that in `accounts`. A text in `dropped` is acknowledged and
not shown to anybody. A page of history has at most `page` messages, whatever is asked for.
"""

from __future__ import annotations

import asyncio
import base64
from types import TracebackType

from semel.channels.irc.wire import IrcMessage, format_line, parse_line
from semel.testing.servers import close_server

CAPABILITIES = "account-tag batch draft/chathistory echo-message labeled-response message-tags sasl server-time"


class IrcDouble:
    def __init__(self, page: int = 20) -> None:
        self.page = page
        self.history: dict[str, list[tuple[str, str, str, str]]] = {}
        self.said: list[tuple[str, str]] = []
        self.accounts: dict[str, str] = {}
        self.dropped: set[str] = set()
        self.asked: list[tuple[str, ...]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._told = 0
        self._more = asyncio.Event()

    async def wait_said(self, text: str, seconds: float = 60.0) -> None:
        """Wait for a message to somebody that holds this text. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not any(text in said for _, said in self.said):
                self._more.clear()
                await self._more.wait()

    def tell(self, target: str, nick: str, text: str) -> None:
        """Send a message of somebody else to every client."""
        self._told += 1
        for writer in self._writers:
            writer.write(
                f"@account={nick};msgid=told{self._told} :{nick}!{nick}@localhost PRIVMSG {target} :{text}\r\n".encode()
            )

    async def __aenter__(self) -> IrcDouble:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_server(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nick = "*"
        self._writers.add(writer)
        while line := await reader.readline():
            message = parse_line(line.rstrip(b"\r\n"))
            if message is None:
                continue
            if message.command == "NICK":
                nick = message.param(0)
            for answer in self._answer(message, nick):
                writer.write(answer.encode() + b"\r\n")
        self._writers.discard(writer)
        writer.close()

    def _answer(self, message: IrcMessage, nick: str) -> list[str]:
        own = f"{nick}!{nick}@localhost"
        match message.command, message.params:
            case "CAP", ("LS", *_):
                return [f":double CAP * LS :{CAPABILITIES}"]
            case "CAP", ("REQ", words):
                return [f":double CAP {nick} ACK :{words}"]
            case "CAP", ("END",):
                return [f":double 001 {nick} :Welcome", f":double 422 {nick} :No message of the day"]
            case "AUTHENTICATE", ("PLAIN",):
                return ["AUTHENTICATE +"]
            case "AUTHENTICATE", (answer,):
                if base64.b64decode(answer).endswith(b"bot\0pw"):
                    return [f":double 900 {nick} {own} bot :You are logged in", f":double 903 {nick} :Successful"]
                return [f":double 904 {nick} :SASL authentication failed"]
            case "PING", (token,):
                return [f"@time=2026-11-22T12:00:00.000Z :double PONG double :{token}"]
            case "JOIN", (channel, *_):
                return [f":{own} JOIN {channel}", f":double 366 {nick} {channel} :End of names"]
            case "WHOIS", (who,):
                return [
                    f":double 311 {nick} {who} {who} localhost * :{who}",
                    f":double 330 {nick} {who} {self.accounts.get(who, who)} :is logged in as",
                    f":double 318 {nick} {who} :End of WHOIS",
                ]
            case "PRIVMSG", (_, text) if text in self.dropped:
                return [f"@label={message.tags['label']} :double ACK"]
            case "PRIVMSG", (target, text):
                self.said.append((target, text))
                self._more.set()
                tags = f"label={message.tags.get('label', '')};msgid=said{len(self.said)}"
                return [f"@{tags} :{own} PRIVMSG {target} :{text}"]
            case "CHATHISTORY", ("AFTER", channel, start, _):
                self.asked.append(message.params)
                return self._play_back(channel, start)
        return []

    def _play_back(self, channel: str, start: str) -> list[str]:
        kept = self.history.get(channel, [])
        kind, _, value = start.partition("=")
        if kind == "msgid":
            later = kept[[id for _, id, _, _ in kept].index(value) + 1 :]
        else:
            later = [each for each in kept if each[2] > value]
        lines = [
            format_line("PRIVMSG", channel, text, tags={"batch": "h", "msgid": id, "time": time, "account": author})
            .decode()
            .strip()
            .replace(" PRIVMSG", f" :{author}!a@h PRIVMSG", 1)
            for author, id, time, text in later[: self.page]
        ]
        return [f":double BATCH +h chathistory {channel}", *lines, ":double BATCH -h"]
