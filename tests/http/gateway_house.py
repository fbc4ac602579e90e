"""A real gateway for tests of the HTTP face: its ledger is a file in memory, and its agents say what the test says.

`GatewayHouse` makes, starts and stops it. `Script` writes rows of one session with the ledger's own functions, as turns
do: a test of what a watcher is sent or a page shows need not act out how the rows came about. Where that matters,
`GatewayHouse.begin` starts a real turn, and the test plays its agent (`PlayedConversation`).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from semel.gateway import Gateway
from semel.gateway.files import blob_id
from semel.gateway.ports import Answered, Asked, Channel, Died, Inbox, Launch, Safety, Signal, Update
from semel.gateway.settings import AgentSettings, ChannelSettings, GatewaySettings
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, views
from semel.testing.channels import FakeChannel, Fault

Json = dict[str, Any]
T = TypeVar("T")

MEMORY = Path("/dev/shm")  # a file system in memory, on Linux
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}


class PlayedConversation:
    """One session of a `PlayedAgent`. A turn goes on until the test ends it, or somebody stops it."""

    memory = "played"
    restored = "new"
    agent_name = profile = ""
    images = audio = resources = False
    tools_problem = ""
    tools_advice = ""
    left_out_servers = ()
    models = None

    def __init__(self) -> None:
        self.options = [{"id": "search", "name": "Search", "type": "boolean", "currentValue": False}]
        self.modes: Json | None = None
        self.answers: dict[str, str | None] = {}  # what its permission requests were answered
        self.prompts = 0
        self.contents: list[list[Json]] = []  # the content blocks of each prompt
        self._signals: asyncio.Queue[Signal] = asyncio.Queue()

    async def next(self) -> Signal:
        return await self._signals.get()

    async def prompt(self, content: Sequence[Json]) -> None:
        self.contents.append(list(content))
        self.prompts += 1

    def update(self, kind: str, **fields: Any) -> None:
        self._signals.put_nowait(Update({"sessionUpdate": kind, **fields}))

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, title: str, options: Sequence[Json], **call: Any) -> None:
        """Ask for a permission, as the request "1". `call`: more fields of the tool call."""
        self._signals.put_nowait(Asked("1", {"toolCallId": "t1", "title": title, **call}, tuple(options)))

    def end(self, stop: str = "end_turn", error: str | None = None) -> None:
        self._signals.put_nowait(Answered(stop, error))

    async def answer(self, id: str, option: str | None) -> None:
        self.answers[id] = option

    async def cancel(self) -> None:
        self.end("cancelled")

    async def set_mode(self, mode: str) -> None:
        pass

    async def set_model(self, model: str) -> None:
        pass

    async def set_option(self, option: str, value: str | bool) -> None:
        pass

    async def close(self, grace: float) -> None:
        self._signals.put_nowait(Died("closed"))


class PlayedAgent:
    """An agent in this process, played by the test."""

    process = False

    def __init__(self, name: str):
        self.name = name
        self.conversations: dict[str, PlayedConversation] = {}
        self.first_updates: list[Json] = []  # what it tells before its first prompt

    async def open(self, launch: Launch) -> PlayedConversation:
        conversation = self.conversations[launch.session] = PlayedConversation()
        for update in self.first_updates:
            conversation.update(**update)
        return conversation


class RawHook(FakeChannel):
    """A webhook channel that answers with what it was handed."""

    def knows_token(self, token: str) -> bool:
        return token == "right"

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        return 202, {"signed": headers.get("webhook-signature"), "bytes": len(body)}


def lossy_channel(name: str) -> FakeChannel:
    """A channel whose platform takes every message of up to 20 characters, and whose answers are lost."""
    channel = FakeChannel(name, Safety.AT_MOST_ONCE, max_len=20)
    channel.platform.fail_always(Fault.DROP)
    return channel


class GatewayHouse:
    """A gateway with the agents `main` and `codex`. `settings`: further ones of the gateway.

    Unless others are given, it has these channels: `chat`, a platform that takes messages and whose answers are lost,
    and the webhook `ci`.
    """

    def __init__(
        self,
        channels: Mapping[str, Channel] | None = None,
        channel_settings: Mapping[str, ChannelSettings] | None = None,
        **settings: Any,
    ):
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        root = Path(self._folder.name)
        self.channels = dict(channels or {"chat": lossy_channel("chat"), "ci": RawHook("ci", Safety.IDEMPOTENT)})
        self.agents = {name: PlayedAgent(name) for name in ("main", "codex")}
        self.settings = GatewaySettings(
            data_dir=root, ledger=root / "ledger.db", default_agent="main",
            agents={name: AgentSettings(name=name, command=("played",), cwd=root) for name in self.agents},
            channels=channel_settings or {name: ChannelSettings(name=name, kind=name) for name in self.channels},
            **settings,
        )  # fmt: skip
        self.gateway: Gateway

    async def start(self) -> Gateway:
        store = await asyncio.to_thread(Store.open, self.settings.ledger)
        self.gateway = Gateway(self.settings, store, self.agents, self.channels)  # type: ignore[arg-type]
        await self.gateway.start()
        return self.gateway

    async def stop(self) -> None:
        await self.gateway.stop(0.0)
        await asyncio.to_thread(self.gateway.store.close)
        self._folder.cleanup()

    async def script(self, key: str = "s") -> Script:
        """The session is there, and rows can be written into it."""
        script = Script(self.gateway, key)
        await script.write(lambda tx, session: None)
        return script

    async def begin(self, key: str = "s", text: str = "go") -> PlayedConversation:
        """A turn runs, in which the test plays the agent until `end`."""
        conversations = self.agents["main"].conversations
        before = conversations[key].prompts if key in conversations else 0
        await self.gateway.say(key, text)

        async def prompted() -> bool:
            return key in conversations and conversations[key].prompts > before

        await until(prompted)
        return conversations[key]

    async def open_request(self, key: str = "s") -> int:
        """Wait for the agent's permission request; return its item."""
        found: list[int] = []

        async def asked() -> bool:
            items = (await self.gateway.history(key, 1 << 60))["items"]
            found[:] = [item["id"] for item in items if item["kind"] == "permission" and item["state"] == "open"]
            return bool(found)

        await until(asked)
        return found[0]

    async def entries(self, key: str = "s") -> list[Json]:
        """The entries of a session, in their order."""
        return sorted((await self.gateway.entries(key))[0], key=lambda entry: int(entry["seq"]))

    async def idle(self, key: str = "s") -> None:
        """Wait until no turn runs in the session, and nothing looks for one."""

        async def rests() -> bool:
            row = await self.gateway.record.read(views.find_session, key)
            return row is not None and row.turn is None and row.id not in self.gateway.turns.tasks

        await until(rests)

    async def hold(self, text: str = "hi", key: str = "main:chat:room", state: str = "held") -> list[int]:
        """The agent says this in a session of `chat`, and all parts end there in `state`; their ids, in order."""
        conversation = await self.begin(key)
        conversation.say(text)
        conversation.end()
        await self.idle(key)

        async def held() -> bool:
            parts[:] = [part for part in await self.gateway.parts() if part["kind"] == "post"]
            return bool(parts) and all(part["state"] == state for part in parts)

        parts: list[Json] = []
        await until(held)
        return sorted(part["id"] for part in parts)

    async def add_file(self, content: bytes, name: str, mime: str) -> Json:
        """Store a file; return it as an entry holds it."""
        id = blob_id(content)
        await asyncio.to_thread(self.gateway.file_store.content.store_bytes, content, name, mime)
        await self.gateway.record.write(_add_blob, id, len(content), name, mime)
        return {"id": id, "name": name, "mime": mime, "size": len(content)}


def _add_blob(tx: Tx, id: str, size: int, name: str, mime: str) -> None:
    tx.run("blob_add", id=id, size=size, name=name, mime=mime, at=tx.now)


async def until(true: Callable[[], Any]) -> None:
    """Wait for a condition of the ledger, with a bound."""
    async with asyncio.timeout(20):
        while not await true():  # noqa: ASYNC110  the condition is in the ledger
            await asyncio.sleep(0.005)


COLUMNS = ("turn", "event", "claim", "live", "partial")
"""Fields of an entry that are columns; the others are in its JSON."""


class Script:
    """Writes entries and items of one session. Each call is one transaction, and one change with one rev."""

    def __init__(self, gateway: Gateway, key: str):
        self.gateway = gateway
        self.key = key

    async def write(self, act: Callable[[Tx, int], T]) -> T:
        """Do this with the session's row number, in one transaction."""

        def write(tx: Tx) -> T:
            row = tx.one(SessionRow, "session_by_key", key=self.key)
            if row is not None:
                return act(tx, row.id)
            id = tx.value(int, "session_add", key=self.key, agent="main", home=f"web:{self.key}", at=tx.now)
            assert id is not None
            return act(tx, id)

        return await self.gateway.record.write(write)

    async def entry(self, role: str, text: str, **fields: Any) -> int:
        (seq,) = await self.entries([(role, text, fields)])
        return seq

    async def entries(self, rows: Sequence[tuple[str, str, Json]]) -> list[int]:
        """Many entries in one transaction."""
        return await self.write(lambda tx, session: [_add_entry(tx, session, *row) for row in rows])

    async def append(self, seq: int, text: str) -> None:
        await self.write(lambda tx, session: entries.grow_entry(tx, session, seq, text))

    async def set(self, seq: int, text: str | None = None, live: bool | None = None, **more: Any) -> None:
        """Change an entry; a field that is None is removed."""
        await self.write(lambda tx, session: entries.set_entry(tx, session, seq, text=text, live=live, more=more))

    async def finish(self, seq: int, text: str) -> None:
        await self.set(seq, text, live=False)

    async def item(self, kind: str, text: str = "", live: bool = False, **body: Any) -> int:
        name = body.pop("call", None) if kind == "tool" else None
        return await self.write(
            lambda tx, session: entries.add_item(
                tx, session, turn=None, kind=kind, name=name, text=text, body=body, live=live
            )
        )

    async def set_item(self, id: int, text: str | None = None, live: bool | None = None, **body: Any) -> None:
        await self.write(lambda tx, session: entries.set_item(tx, id, text=text, body=body, live=live))

    async def output(self, id: int, text: str) -> None:
        """Text joins the end of a live item."""
        await self.write(lambda tx, session: entries.grow_item(tx, session, id, text))

    async def add_output(self, id: int, text: str) -> None:
        """The whole output of a tool call, of which the item shows head and tail."""
        await self.write(lambda tx, session: tx.run("output_add", item=id, text=text))

    async def about(self, **fields: Any) -> None:
        """What the agent offers in this session, such as its modes."""
        await self.write(lambda tx, session: entries.set_about(tx, session, fields))

    async def entitle(self, title: str) -> None:
        def write(tx: Tx, session: int) -> None:
            tx.run("session_rename", id=session, title=title, named=1)
            entries.touch_session(tx, session)

        await self.write(write)


def _add_entry(tx: Tx, session: int, role: str, text: str, fields: Json) -> int:
    columns = {name: fields[name] for name in COLUMNS if name in fields}
    more = {name: value for name, value in fields.items() if name not in COLUMNS}
    live = columns.get("live", False)
    seq = entries.add_entry(tx, session, role=role, text="" if live else text, more=more, **columns)
    if live and text:
        entries.grow_entry(tx, session, seq, text)
    return seq


@pytest.fixture
async def world() -> AsyncIterator[GatewayHouse]:
    house = GatewayHouse()
    await house.start()
    yield house
    await house.stop()


@pytest.fixture
def gateway(world: GatewayHouse) -> Gateway:
    return world.gateway
