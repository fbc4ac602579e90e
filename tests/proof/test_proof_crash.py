"""The proof by crash points: the library that kills strikes exactly where it is told to, and the judge can tell."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from proof.crash import killat, script
from proof.crash.judge import judge
from proof.crash.lives import Lives
from proof.crash.main import prove
from proof.crash.world import World

pytestmark = pytest.mark.proof

PROGRAM = """
import os, sys
os.write(1, b"log")                                  # descriptor 1 is the log: it does not count
file = os.open("a", os.O_WRONLY | os.O_CREAT)        # before it: 1; behind it, at its end: 2
os.write(file, b"x")                                 # behind it: 3
os.pwrite(file, b"y", 1)
os.fsync(file)                                       # before it: 4; behind it: 5
os.close(os.open("a", os.O_RDONLY))
if os.fork() == 0:
    os.write(file, b"the child's do not count")
    os._exit(0)
os.wait()
os.rename("a", "b")                                  # behind it, before the next: 6
os.rename("b", "c")                                  # behind it: 7
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return killat.build(tmp_path_factory.mktemp("killat"))
    except killat.NoCompiler as missing:
        pytest.skip(str(missing))


def run(library: Path, place: Path, target: int) -> killat.Seen:
    place.mkdir()
    control = killat.Control(place / "control", target)
    env = {"LD_PRELOAD": str(library), "KILLAT_FILE": str(control.path), "KILLAT_WORD": PROGRAM}
    told = subprocess.run([sys.executable, "-I", "-S", "-c", PROGRAM], cwd=place, env=env, stdout=subprocess.PIPE)
    assert told.stdout == b"log"
    assert told.returncode == (-signal.SIGKILL if target else 0)
    return control.seen()


def test_a_process_is_killed_exactly_between_the_calls_that_count(library: Path, tmp_path: Path) -> None:
    assert run(library, tmp_path / "0", 0).count == 7
    found = {}
    for target in range(1, 8):
        seen = run(library, tmp_path / str(target), target)
        assert seen.struck and seen.count == target
        files = {one.name: one.read_bytes()[:2] for one in (tmp_path / str(target)).iterdir() if one.name in "abc"}
        found[target] = (" ".join(seen.what.split()[:2]), files)
    assert found == {
        1: ("before open64", {}), 2: ("before write", {"a": b""}), 3: ("after write", {"a": b"x"}),
        4: ("before fsync", {"a": b"xy"}), 5: ("after fsync", {"a": b"xy"}),
        6: ("before rename", {"b": b"xt"}), 7: ("after rename", {"c": b"xt"}),
    }  # fmt: skip


def test_a_few_points_of_a_gateway_that_recovers_hold(library: Path) -> None:
    args = argparse.Namespace(process="recovery", point=[151, 400], first=True, jobs=2, verbose=False)
    proof = prove(False, args)
    assert proof.holds, proof.violations
    assert proof.counts["kills"] == 2


async def test_a_ledger_that_is_put_back_is_settled_once_whenever_it_dies(library: Path, tmp_path: Path) -> None:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as http, Lives(library) as lives:
        world = World(lives, http, tmp_path / "world", "restored", 200)
        await world.run()
    assert judge(world) == []
    assert world.control.struck and world.house.deaths == 2
    [notice] = [one for one in world.post.log if "restored to its state" in one.text]
    world.post.log.append(notice)
    assert any("were told" in one for one in judge(world))
    world.post.log.pop()
    world.bird.log.append(replace(world.bird.log[0], key="sent again under a new key"))
    assert any("of which the ledger knows nothing" in one for one in judge(world))


async def test_a_prompt_of_a_killed_editor_is_recorded_and_shown_once(library: Path, tmp_path: Path) -> None:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as http, Lives(library) as lives:
        world = World(lives, http, tmp_path / "world", "editor", 25)
        await world.run()
    assert judge(world) == []
    first, second = world.editors
    assert world.control.struck and second.list_texts("user").count(script.E1) <= 1
    second.texts["twice"] = "user", script.E1
    assert any("who loads the session sees" in one for one in judge(world))
    second.texts.pop("twice")
    first.texts["echo"] = "user", script.E1
    assert any("its own prompt" in one for one in judge(world))
    first.texts.pop("echo")
    first.answers[3] = [{"result": {}}, {"result": {}}]
    assert any("the editor's prompt was answered [" in one for one in judge(world))


async def test_the_judge_tells_what_is_lost_repeated_or_told_otherwise(library: Path, tmp_path: Path) -> None:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as http, Lives(library) as lives:
        world = World(lives, http, tmp_path / "world", "tools", 0)
        await world.run()
    assert judge(world) == []
    kept, seen = list(world.bird.log), dict(world.watcher.view.entries[1])
    world.bird.log.append(kept[0])
    assert any("2 times" in one for one in judge(world))
    world.bird.log.clear()
    assert any("never got" in one for one in judge(world))
    world.bird.log.append(replace(kept[0], key="another"))
    assert any("of which the ledger knows nothing" in one for one in judge(world))
    world.bird.log[:] = kept
    _tell_what_people_miss(world)
    world.watcher.view.entries[1]["text"] = "something else"
    assert any("the watching client sees" in one for one in judge(world))
    world.watcher.view.entries[1] = seen
    world.caller.answers["h1"] = [(202, {"event": 999, "status": "accepted"})]
    assert any("was told of event 999" in one for one in judge(world))
    world.caller.answers.clear()
    log = world.place / "agent.log"
    log.write_text(log.read_text() + '{"calls": "send_message"}\n')
    assert any("called its tool 2 times" in one for one in judge(world))


def _tell_what_people_miss(world: World) -> None:
    """A text that is gone from the outbox and from the chat alike, and one that both have in another order."""
    room = list(world.post.log)
    (part,) = _ask(world, "SELECT * FROM part WHERE key = ?", room[-1].key)
    _ask(world, "DELETE FROM part WHERE id = ?", part[0])
    world.post.log.pop()
    found = judge(world)
    assert any("ended well with" in one and "nothing was sent" in one for one in found), found
    assert any("can see what became of" in one for one in found), found
    _ask(world, f"INSERT INTO part VALUES({', '.join('?' * len(part))})", *part)
    _ask(world, "UPDATE part SET line = 0 WHERE id = ?", part[0])
    world.post.log[:] = [room[-1], *room[:-1]]
    found = judge(world)
    assert any("the record is the other way" in one for one in found), found
    assert not any("in another order than they were said" in one for one in found), found
    _ask(world, "UPDATE part SET line = ? WHERE id = ?", part[1], part[0])
    world.post.log[:] = room
    assert judge(world) == []


def _ask(world: World, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(world.house.ledger))) as db:
        return list(db.execute(sql, values))


def test_without_a_compiler_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    proof = prove(True, argparse.Namespace(process=None, point=None, first=False, jobs=2, verbose=False))
    assert proof.missing is not None and "gcc" in proof.missing and not proof.holds
