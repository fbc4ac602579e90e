"""Make `data-0.1.0.tar.xz`: the data directory of a gateway of version 0.1.0 that was killed while an agent answered.

    python tests/upgrade/make_old_data.py

The version's own code, from a checkout of its commit, runs a gateway with data of every kind: each table has rows. The
gateway kills itself (SIGKILL) while text streams. Beside the data lie `exports.json`, what that version's export says
of each session, {key: [record]}, and `versions.json`.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

COMMIT = "0954bca2e7be41d670ffe6596e36e924382bbc5e"  # the last commit whose ledger has schema version 1
ARCHIVE = Path(__file__).with_name("data-0.1.0.tar.xz")
UNNEEDED = (
    "work",
    "agent",
    "jobs",
    "gateway.json",
    "*.sock",
    "*.lock",
    "*-shm",
    "*-search*",
)  # of no use, or made anew
REPOSITORY = Path(__file__).parents[2]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-0.1.0-") as folder:
        checkout, data = Path(folder, "semel"), Path(folder, "data")
        checkout.mkdir()
        content = subprocess.run(["git", "archive", COMMIT], cwd=REPOSITORY, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(checkout, filter="data")
        paths = [checkout / "src", *(checkout / "tests" / name for name in ("gateway", "outbox"))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        filled = subprocess.run([sys.executable, __file__, "fill", str(data)], env=env, cwd=folder, check=False)
        if filled.returncode != -signal.SIGKILL:
            raise SystemExit(f"the old gateway ended with {filled.returncode} instead of being killed")
        kept, copy = Path(folder, "kept"), Path(folder, "copy")
        for target in (kept / "data", copy):  # opening a ledger changes its log: the exports are read from a copy
            shutil.copytree(data, target, ignore=shutil.ignore_patterns(*UNNEEDED))
        subprocess.run([sys.executable, __file__, "export", str(copy), str(kept / "exports.json")], env=env, check=True)
        (kept / "versions.json").write_text(json.dumps({"semel": "0.1.0", "commit": COMMIT}))
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            archive.add(kept, arcname=".", filter=_without_owner)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


# ---------------------------------------------------------------- run by the old version's code


async def fill(data: Path) -> None:
    """Run the old gateway twice: once until its ledger is copied, and then on the copy, as after a restore."""
    from semel.ledger.backup.snapshot import take_snapshot
    from semel.ledger.sqlite.store import now_ms

    first = data.with_name("first")
    first.mkdir()
    world = await start(first)
    await world.gateway.say("talk", _script("Hello, before the restore."), key="t1", sender="Ada")
    await world.idle("talk")
    await world.stop()
    data.mkdir(mode=0o700)
    take_snapshot(first / "ledger.db", data / "ledger.db", now_ms)
    world = await start(data)
    await _talk(world)
    await _chat(world)
    await _manage(world)
    await _leave_open(world)


def _script(*steps: Any) -> str:
    return f"[[script {json.dumps({'steps': list(steps)})}]]"


async def start(path: Path) -> Any:
    """Start a gateway with two channels in this data directory."""
    from gateway_world import World, _reap

    from semel.agents.acp import AcpAgent
    from semel.gateway import Gateway
    from semel.gateway.ports import Safety
    from semel.gateway.settings import ChannelSettings, PersonSettings
    from semel.ledger.inbound import nodes
    from semel.ledger.sqlite.store import Store
    from semel.testing import FakeChannel
    from semel.tools.address import GATEWAY_FILE
    from semel.tools.exec.background import JobEnvironment, SupervisorRunner

    world = World(
        path, default_agent="demo", permissions="ask",
        channels={"chat": FakeChannel("chat", Safety.AT_MOST_ONCE), "hook": FakeChannel("hook", Safety.IDEMPOTENT)},
        channel_settings={"chat": ChannelSettings(name="chat", kind="fake"),
                          "hook": ChannelSettings(name="hook", kind="fake", narration="all")},
        people={"ada": PersonSettings(name="ada", role="owner", accounts=("chat:@ada",))},
    )  # fmt: skip
    store = await asyncio.to_thread(Store.open, world.settings.ledger, marked=True)
    await store.write(nodes.assign_sources, {"builder": b"digest of a token"})
    agents = {name: AcpAgent(name, a.command, a.cwd, a.env) for name, a in world.settings.agents.items()}
    background = SupervisorRunner(path, {"demo": JobEnvironment(path / "work", dict(os.environ))})
    world.gateway = Gateway(world.settings, store, agents, world.channels, reap=_reap, background=background)
    await world.begin()
    address = {"url": "", "socket": str(world.gateway.socket), "pid": os.getpid()}  # where jobs find the gateway
    (path / GATEWAY_FILE).write_text(json.dumps(address))
    return world


async def _talk(world: Any) -> None:
    """Turns with thoughts, tools, a permission, a background job, an error; a repeat and a conflict; commands."""
    from gateway_world import until

    gateway = world.gateway
    steps = [
        {"think": "The person wants a build."},
        {"tool": "make", "output": ["compiling\n", "done\n"]},
        {"update": {"sessionUpdate": "usage_update", "used": 5000, "size": 100000,
                    "cost": {"amount": 0.25, "currency": "USD"}}},
        {"update": {"sessionUpdate": "plan", "entries": [{"content": "build", "status": "completed"}]}},
        {"call": "run_in_background", "arguments": {"command": "true", "name": "tidy"}, "meta": "claude"},
        "It is built: äöü, 日本語, 🎉.",
    ]  # fmt: skip
    await gateway.say("talk", _script(*steps), key="t2", sender="Ada")
    await until(lambda: _has_ended_job(gateway))
    await world.idle("talk")
    for text in (_script(*steps), "other content under the same key"):
        await gateway.say("talk", text, key="t2", sender="Ada")
    await gateway.say("talk", _script({"error": {"code": -32000, "message": "no such model"}}), key="t3")
    await gateway.say("talk", "/status", key="t4")
    await gateway.say("talk", "/new", key="t5")
    await world.idle("talk")
    await gateway.report("talk", "ci.finished", _script("The build is green."), key="b1", source="node:builder")
    await world.idle("talk")


async def _has_ended_job(gateway: Any) -> bool:
    return [job["state"] for job in await gateway.jobs_of("talk")] == ["finished"]


async def _chat(world: Any) -> None:
    """A chat with people, a file, what could not be read, and parts that were sent, rejected, held and dropped."""
    from semel.gateway.ports import Incoming, Person
    from semel.testing import Fault

    ada, chat = Person("@ada", "Ada"), world.channels["chat"]
    kept = await chat.attach("notes.txt", b"what Ada sent", "text/plain")
    faults = (None, Fault.DROP, Fault.REJECT, Fault.DROP)
    for n, fault in enumerate(faults):
        chat.platform.fail_next(fault)
        files = (kept,) if n == 0 else ()
        await chat.tell(Incoming("message", f"m{n}", "dm", ada, _script(f"answer {n}"), files=files), cursor=f"c{n}")
        await world.idle("demo:chat:dm")
        await world.sent()
    await chat.tell(Incoming("unreadable", "u1", raw=b"\x00\x01", why="a kind of message that is not known"))
    await chat.tell(Incoming("reaction", "r1", "dm", ada, "👍", of="m1"))
    held = await world.gateway.parts("held")
    await world.gateway.decide_part(held[0]["id"], "drop")
    await world.gateway.say("demo:chat:dm", "/status", key="c1")
    await world.sent()


async def _manage(world: Any) -> None:
    """People, a pairing code, schedules, an imported session, an archived one, a deleted one."""
    from semel.ledger.admin.export import ExportWriter

    gateway = world.gateway
    await gateway.people.add("chat:@bob", "bob", "member")
    await gateway.people.pair("chat", "eve", "guest")
    await gateway.schedules.add("tick", "say: tick", session="talk", cron="0 9 * * *", tz="Europe/Berlin")
    await gateway.schedules.add("once", "say: once", every="1d")
    await gateway.schedules.pause("once")
    writer = ExportWriter()
    lines = [writer.format_line(record) async for page in gateway.export("talk") for record in page]
    await gateway.import_session(io.BytesIO(b"".join([*lines, writer.end()])), "copy")
    await gateway.say("put-away", _script("kept"), key="a1")
    await world.idle("put-away")
    await gateway.archive("put-away")
    await gateway.say("gone", _script("a secret"), key="g1")
    await world.idle("gone")
    await gateway.delete("gone")
    await asyncio.sleep(0.5)


async def _leave_open(world: Any) -> None:
    """What a killed gateway leaves: an erasure that waits for a part, waiting messages, an answer that streams."""
    from gateway_world import until

    from semel.testing import Fault

    gateway, hook = world.gateway, world.channels["hook"]
    hook.platform.fail_always(Fault.LIMIT)
    await hook.write("room", _script("a promise"), key="h1")
    await world.idle("main:hook:room")
    await gateway.delete("main:hook:room")
    await asyncio.sleep(0.5)
    await gateway.say("open", _script({"text": "half of an answer " * 40, "chunks": 60, "delay": 0.05}), key="o1")
    await until(lambda: _has_piece(gateway))
    await gateway.say("open", "this one waits", key="o2")
    os.kill(os.getpid(), signal.SIGKILL)


async def _has_piece(gateway: Any) -> bool:
    return bool(await gateway.record.read(lambda tx: tx._cursor.execute("SELECT count(*) FROM piece").get > 2))


def export(data: Path, target: Path) -> None:
    """Write what this version's export says of each session that is there, {key: [record]}."""
    from semel.ledger.sqlite.store import Store

    with Store.open_sync(data / "ledger.db") as store:
        target.write_text(json.dumps(store.read_sync(read_exports), ensure_ascii=False))


def read_exports(tx: Any) -> dict[str, list[Any]]:
    """Return the export of every session that is not deleted, {key: [record]}."""
    from semel.ledger.admin import export as exports

    found = {}
    sessions = tx._cursor.execute("SELECT key, id FROM session WHERE deleted IS NULL ORDER BY id").fetchall()
    for key, number in sessions:
        scope = exports.read_scope(tx, number)
        found[key] = [scope.header]
        for page in (exports.read_turns, exports.read_entries, exports.read_unsaid_claims):
            after: int | None = 0
            while after is not None:
                records, after = page(tx, scope, after)
                found[key] += records
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", data]:
            asyncio.run(fill(Path(data)))
        case ["export", data, target]:
            export(Path(data), Path(target))
        case _:
            main()
