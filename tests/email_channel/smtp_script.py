"""A mail server that does as a test says, step by step, and counts what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from semel.testing.servers import serve_streams

HANG, DROP = "hang", "drop"

USUAL = {
    "connect": "220 mx.example.org",
    "EHLO": "250-mx.example.org\r\n250-SIZE 50000000\r\n250-STARTTLS\r\n250-SMTPUTF8\r\n250 AUTH PLAIN",
    "AUTH": "235 2.7.0 welcome",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go ahead",
    ".": "250 2.0.0 taken",
    "QUIT": "221 bye",
    "RSET": "250 ok",
}


@dataclass
class Script:
    """`steps`: what is answered to a command (or "connect", "."). HANG: nothing, ever; DROP: the connection ends."""

    steps: dict[str, str] = field(default_factory=dict)
    port: int = 0
    connections: int = 0
    commands: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)  # that came to their end, whatever was answered
    came: asyncio.Event = field(default_factory=asyncio.Event)  # the first of them
    recipients: list[str] = field(default_factory=list)

    def answer(self, step: str) -> str:
        return self.steps.get(step, USUAL.get(step, "500 what?"))


@asynccontextmanager
async def smtp(
    tls: ssl.SSLContext | None = None, starttls: ssl.SSLContext | None = None, **steps: str
) -> AsyncIterator[Script]:
    """Serve on 127.0.0.1; the step "end" is what is answered to the mail itself."""
    script = Script({{"end": ".", "connect": "connect"}.get(name, name): value for name, value in steps.items()})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script.connections += 1
        try:
            await converse(script, reader, writer, starttls)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass

    async with serve_streams(talk, tls=tls) as script.port:
        yield script


async def converse(
    script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, starttls: ssl.SSLContext | None
) -> None:
    await say(script, "connect", writer)
    while line := (await reader.readuntil(b"\r\n")).decode().rstrip():
        command = line.split(" ")[0].upper()
        script.commands.append(line if command != "AUTH" else "AUTH ...")
        if command == "RCPT":
            script.recipients.append(line)
            known = next(
                (value for name, value in script.steps.items() if name.startswith("RCPT ") and name[5:] in line), None
            )
            await say(script, "RCPT", writer, known)
        elif command == "STARTTLS" and starttls:
            writer.write(b"220 go\r\n")
            await writer.drain()
            await writer.start_tls(starttls)
        else:
            await say(script, command, writer)
        if command == "DATA" and script.answer("DATA").startswith("354"):
            mail = await reader.readuntil(b"\r\n.\r\n")
            script.mails.append(mail)
            script.came.set()
            await say(script, ".", writer)


async def say(script: Script, step: str, writer: asyncio.StreamWriter, instead: str | None = None) -> None:
    answer = instead or script.answer(step)
    if answer == HANG:
        await asyncio.Event().wait()
    if answer == DROP:
        raise ConnectionError
    writer.write(answer.encode() + b"\r\n")
    await writer.drain()
