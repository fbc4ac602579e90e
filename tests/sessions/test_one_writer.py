"""Law 4: one writer of the transcript. No code outside the ledger can add an entry, and in it two functions do."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from gateway_world import World, script, until

import semel
from semel.ledger.storage.sql import queries

ROOT = Path(semel.__file__).parent
LEDGER = ROOT / "ledger"
STORES = ROOT / "faces" / "stores"  # reads the databases of other systems
WRITERS = {
    "entry_add": {"ledger/transcript/entries.py"},
    "import_entry": {"ledger/admin/import_session.py"},
}
"""What adds an entry, and who runs it: what happens here, and what is carried over from elsewhere."""


def nodes(path: Path, *texts: str) -> Iterator[ast.AST]:
    """The nodes of a file that holds one of these texts; of others, which take most of the time, none."""
    source = path.read_text("utf-8")
    if any(text in source for text in texts):
        yield from ast.walk(ast.parse(source))


def calls(path: Path, names: Collection[str]) -> Iterator[str]:
    """The names of the statements that a file runs, of these."""
    for node in nodes(path, *names):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            runs = node.func.attr in ("run", "value", "one", "all") and isinstance(first, ast.Constant)
            if runs and first.value in names:
                yield str(first.value)


def test_two_statements_add_an_entry_and_each_is_run_in_one_place() -> None:
    adding = {name for name, query in queries().items() if re.search(r"\bINTO\s+entry\b", query.sql, re.I)}
    assert adding == set(WRITERS)
    found = {
        name: {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if name in calls(path, [name])}
        for name in WRITERS
    }
    assert found == WRITERS


def test_nothing_outside_the_ledger_writes() -> None:
    writing = {name for name, query in queries().items() if not re.match(r"\s*(SELECT|WITH)\b", query.sql, re.I)}
    assert "entry_add" in writing
    wrong = []
    for path in ROOT.rglob("*.py"):
        if LEDGER in path.parents or STORES in path.parents:
            continue
        wrong += [f"{path.name} runs {name}" for name in calls(path, writing)]
        for node in nodes(path, "apsw", "sqlite3"):
            opens = isinstance(node, ast.Attribute) and node.attr in ("Connection", "connect", "Blob")
            if opens and isinstance(node.value, ast.Name) and node.value.id in ("apsw", "sqlite3"):
                wrong.append(f"{path.name}:{node.lineno} opens a database")
    assert not wrong


async def test_a_message_that_the_agent_echoes_and_replays_is_one_entry(tmp_path: Path) -> None:
    """The same message told by the gateway and by the agent, live and in a loaded session, has one identity."""
    echo = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello there"}}
    async with World(tmp_path) as w:
        await w.gateway.say("s", "hello there", key="m1")
        await w.idle()
        await w.ask(script({"update": echo}, {"update": {**echo, "messageId": "u1"}}, "answered"))
        said = await w.texts("s", "agent")
    async with World(tmp_path) as w:  # the agent's history is loaded, and replayed
        assert (await w.gateway.say("s", "hello there", key="m1")).status == "duplicate"
        agent = await w.ask("and now")
        assert agent[: len(said)] == said
        assert (await w.texts("s", "user")).count("hello there") == 1
        assert len(await w.texts("s", "user")) == 3


async def test_the_record_is_in_order_of_hearing_and_the_prompt_in_order_of_turns(tmp_path: Path) -> None:
    """u1 runs, u2 arrives, a1 ends: people see u1, u2, a1, a2; an agent without memory is told u1, a1, u2, a2."""
    log = tmp_path / "log"
    u1 = script({"touch": str(tmp_path / "a")}, {"wait": str(tmp_path / "b")}, "a1")
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.gateway.say("s", u1)
        await until(lambda: _there(tmp_path / "a"))
        await w.gateway.say("s", script("a2"))
        (tmp_path / "b").touch()
        await w.idle()
        assert await w.texts() == [u1, script("a2"), "a1", "a2"]
    for path in (tmp_path / "agent").rglob("*"):
        path.unlink() if path.is_file() else None
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask("what did we say?")
    from semel.testing.scripted_agent import read_prompts

    told = read_prompts(log)[-1].text
    places = [told.index(text) for text in ('"a1"', "agent: a1", '"a2"', "agent: a2")]
    assert places == sorted(places)


async def _there(path: Path) -> bool:
    return path.exists()
