"""An IMAP server of a few lines that does as a test says: what no well-behaved server does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from semel.testing.servers import serve_streams

HANG, DROP = "hang", "drop"


@dataclass
class Script:
    """`steps`: what is answered to a command instead; "{tag}" is its tag. `mails` by UID, from 1; empty: gone."""

    steps: dict[str, str] = field(default_factory=dict)
    mails: list[bytes] = field(default_factory=list)
    idle: bool = True
    validity: int = 7
    clock: str = "01-Jan-2037 10:00:00 +0000"  # when it says that a mail came
    broken: int = 0  # the UID of a mail that is not given out
    endless: str = ""  # how the answer to a fetch of the first mail has no end: "literal", "lines", "slow"
    late: bytes = b""  # a mail that comes with the leave to wait, and is told of in one piece with it
    early: bytes = b""  # a mail that comes before IDLE, and is told of before the leave to wait
    meanwhile: bytes = b""  # a mail that comes while another is fetched, and is told of with that
    port: int = 0
    commands: list[str] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)  # somebody waits for news, or hangs
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # a connection

    def add(self, mail: bytes) -> None:
        self.mails.append(mail)
        self.news.set()


@asynccontextmanager
async def imap(**more: object) -> AsyncIterator[Script]:
    """Serve on 127.0.0.1."""
    script = Script(**more)  # type: ignore[arg-type]
    async with serve_streams(partial(_talk, script)) as script.port:
        yield script


async def _talk(script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await _say(script, writer, script.steps.get("connect", "* OK ready"))
        while line := (await reader.readline()).decode().rstrip():
            tag, _, rest = line.partition(" ")
            name = rest.split(" ")[0].upper()
            name = f"UID {rest.split(' ')[1].upper()}" if name == "UID" else name
            script.commands.append(name)
            if name in script.steps:
                await _say(script, writer, script.steps[name].replace("{tag}", tag))
                continue
            await _answer(script, tag, name, rest, reader, writer)
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        pass
    finally:
        script.ended.set()


async def _say(script: Script, writer: asyncio.StreamWriter, text: str) -> None:
    if text == HANG:
        script.waiting.set()
        await asyncio.Event().wait()
    if text == DROP:
        raise ConnectionError
    writer.write(text.encode() + b"\r\n")
    await writer.drain()


async def _answer(
    script: Script, tag: str, name: str, rest: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    count = len(script.mails)
    if name == "CAPABILITY":
        writer.write(b"* CAPABILITY IMAP4rev1" + (b" IDLE" if script.idle else b"") + b"\r\n")
    elif name in ("SELECT", "EXAMINE"):
        state = f"* {count} EXISTS\r\n* OK [UIDVALIDITY {script.validity}] x\r\n* OK [UIDNEXT {count + 1}] x\r\n"
        writer.write(state.encode())
    elif name == "UID SEARCH":
        first = int(found[1]) if (found := re.search(r"UID (\d+):", rest)) else 1
        last = int(found[1]) if (found := re.search(r"UID \d+:(\d+)", rest)) else count
        uids = " ".join(str(uid) for uid in range(min(first, count or 1), last + 1))
        writer.write(f"* SEARCH {uids}\r\n".encode())
    elif name == "UID FETCH":
        asked = [int(each) for each in rest.split(" ")[2].split(",")]
        if "BODY" in rest and script.broken in asked:
            writer.write(f"{tag} NO broken\r\n".encode())
            return
        if "BODY" in rest and script.endless and 1 in asked:
            await _without_end(script.endless, writer)
        most = int(found[1]) if (found := re.search(r"BODY\S*<0\.(\d+)>", rest)) else None
        for uid in (each for each in asked if script.mails[each - 1]):
            writer.write(_fetched(script, uid, most))
        if script.meanwhile:
            script.mails.append(script.meanwhile)
            script.meanwhile = b""
            writer.write(f"* {len(script.mails)} EXISTS\r\n".encode())
    elif name == "LOGOUT":
        writer.write(b"* BYE bye\r\n")
    elif name == "IDLE":
        told = b""
        if script.late:
            script.mails.append(script.late)
            script.late, told = b"", f"* {len(script.mails)} EXISTS\r\n".encode()
        if script.early:
            script.mails.append(script.early)
            script.early = b""
            writer.write(f"* {len(script.mails)} EXISTS\r\n".encode())
        writer.write(b"+ go on\r\n" + told)
        await _idle(script, reader, writer)
    writer.write(f"{tag} OK done\r\n".encode())
    await writer.drain()


async def _without_end(how: str, writer: asyncio.StreamWriter) -> None:
    size = 4_000_000_000 if how == "literal" else 50
    writer.write(b"* 1 FETCH (UID 1 BODY[]<0> {%d}\r\n" % size if how != "lines" else b"")
    while True:
        writer.write(b"* 1 EXISTS\r\n" * 1000 if how == "lines" else b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


def _fetched(script: Script, uid: int, most: int | None) -> bytes:
    """`most`: bytes of it that were asked for; None: only its size."""
    mail = script.mails[uid - 1]
    told = f'* {uid} FETCH (UID {uid} RFC822.SIZE {len(mail)} INTERNALDATE "{script.clock}"'.encode()
    part = mail[:most]
    return told + (b" BODY[]<0> {%d}\r\n" % len(part) + part if most is not None else b"") + b")\r\n"


async def _idle(script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """News are told; DONE ends it."""
    await writer.drain()
    script.waiting.set()
    done = asyncio.ensure_future(reader.readline())
    news = asyncio.ensure_future(script.news.wait())
    await asyncio.wait({done, news}, return_when=asyncio.FIRST_COMPLETED)
    if news.done() and not done.done():
        script.news.clear()
        writer.write(f"* {len(script.mails)} EXISTS\r\n".encode())
        await writer.drain()
    news.cancel()
    if not await done:
        raise ConnectionError
