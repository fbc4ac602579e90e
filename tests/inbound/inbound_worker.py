"""Gateway processes whose channel reads a platform that is a file, and that kill themselves where they are told to.

For each line `DIR WHERE N` of its input it forks one (what it needs is imported once), tells its process id, and how it
ended. WHERE: it is killed at the Nth time that it comes to "receive", "keep", "kept", "commit" or "ack"; "never".
The platform tells everything behind what was acknowledged to it, three times each, a page of seven at a time.

Where WHERE is a place on the way of an upload ("drafted", "stored", "uploaded", "said"), a person uploads DIR/file and
says something with it, instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from semel.gateway import Gateway
from semel.gateway.ports import Caps, Inbox, Incoming, Kept, Missing, Op, Person, Receipt, Safety
from semel.gateway.settings import AgentSettings, ChannelSettings, GatewaySettings, PersonSettings
from semel.ledger.inbound import channel_batch, uploads
from semel.ledger.sqlite.store import Store

PAGE = 7


class Bomb:
    """SIGKILL at the nth time at one place."""

    def __init__(self, where: str, n: int) -> None:
        self.where = where
        self.left = n

    def at(self, where: str) -> None:
        if where == self.where:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class FileChannel:
    def __init__(self, path: Path, bomb: Bomb) -> None:
        self.name = "file"
        self.caps = Caps(Safety.AT_MOST_ONCE)
        self.path = path
        self.bomb = bomb
        self.finished = asyncio.Event()

    async def run(self, inbox: Inbox) -> None:
        ack = self.path / "ack"
        lines = (self.path / "incoming.jsonl").read_text().splitlines()
        inbox.online()
        while (done := int(ack.read_text()) if ack.exists() else 0) < len(lines):
            page = [json.loads(line) for line in lines[done : done + PAGE]]
            self.bomb.at("receive")
            for _ in range(3):
                events = [await self._read(inbox, one) for one in page]
                await inbox.put(events, str(done + len(page)))
            self.bomb.at("ack")
            fresh = ack.with_suffix(".new")
            fresh.write_text(str(done + len(page)))
            fresh.replace(ack)  # a platform does not forget half of it
        self.finished.set()
        await asyncio.Event().wait()

    async def _read(self, inbox: Inbox, one: dict[str, Any]) -> Incoming:
        files: tuple[Kept | Missing, ...] = ()
        one = dict(one)
        if content := one.pop("file", None):
            files = (await inbox.keep("f.txt", "text/plain", _pieces(content.encode())),)
        sender = Person(**one.pop("sender"))
        return Incoming(**one, sender=sender, group=True, files=files)

    async def send(self, op: Op) -> Receipt:
        raise NotImplementedError

    async def find(self, op: Op, since: float) -> Receipt | None:
        raise NotImplementedError


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _arm(bomb: Bomb) -> None:
    """Places inside the gateway: the end of a batch's transaction, before its commit; a file that was kept."""
    put, keep = channel_batch.record_batch, channel_batch.record_file

    def bombed_put(*args: Any) -> Any:
        done = put(*args)
        bomb.at("commit")
        return done

    def bombed_keep(*args: Any) -> None:
        bomb.at("keep")
        keep(*args)
        bomb.at("kept")

    channel_batch.record_batch = bombed_put
    channel_batch.record_file = bombed_keep


async def main(path: Path, where: str, n: int) -> None:
    bomb = Bomb(where, n)
    _arm(bomb)
    ann, bob = (
        PersonSettings(name="ann", role="owner", accounts=("file:ann",)),
        PersonSettings(name="bob", role="member", accounts=("file:bob",)),
    )
    agent = AgentSettings(name="main", command=(sys.executable, "-c", "raise SystemExit"), cwd=path)
    settings = GatewaySettings(
        data_dir=path, ledger=path / "ledger.db", agents={"main": agent}, people={"ann": ann, "bob": bob},
        channels={"file": ChannelSettings(name="file", kind="file")},
    )  # fmt: skip
    channel = FileChannel(path, bomb)
    gateway = Gateway(settings, await asyncio.to_thread(Store.open, settings.ledger), {}, {"file": channel})
    await gateway.start()
    (path / "started").touch()
    await channel.finished.wait()
    await gateway.stop(0)
    await asyncio.to_thread(gateway.store.close)


UPLOAD_PLACES = ("drafted", "stored", "uploaded", "said")


async def upload(path: Path, where: str) -> None:
    """A person uploads a file and sends it, to a gateway whose agent never starts."""
    bomb = Bomb(where, 1)
    record = uploads.record_upload

    def bombed_record(*args: Any) -> int:
        bomb.at("stored")
        return record(*args)

    async def content() -> AsyncIterator[bytes]:
        yield (path / "file").read_bytes()
        bomb.at("drafted")

    uploads.record_upload = bombed_record
    agent = AgentSettings(name="demo", command=(sys.executable, "-c", "raise SystemExit"), cwd=path)
    settings = GatewaySettings(data_dir=path, ledger=path / "ledger.db", agents={"demo": agent})
    gateway = Gateway(settings, await asyncio.to_thread(Store.open, settings.ledger), {})
    await gateway.start()
    file = await gateway.upload("plan.png", content())
    bomb.at("uploaded")
    gateway.turns.idle_start = None  # type: ignore[assignment]  # the turn begins after the commit of the message
    await gateway.say("s", "what is this?", attached=[{"id": file.id}], key="m-1")
    bomb.at("said")


def nursery() -> None:
    """One gateway a line. No thread was started here: to fork is safe."""
    for line in sys.stdin:
        path, where, n = line.split()
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)  # the log is not what the nursery tells
            try:
                run = upload(Path(path), where) if where in UPLOAD_PLACES else main(Path(path), where, int(n))
                asyncio.run(run)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    nursery()
