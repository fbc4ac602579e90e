"""A chapter bounds what an agent knows, not what was heard: the transcript and every key go on."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script, until

from semel.testing.scripted_agent import read_prompts


async def _there(path: Path) -> bool:
    return path.exists()


def given(log: Path) -> list[str]:
    return [one.text for one in read_prompts(log)]


async def test_a_new_chapter_is_a_new_agent_with_no_memory_and_the_transcript_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.gateway.say("s", "the word is plum", key="k1")
        await w.idle()
        before = read_prompts(log)[-1].session
        await w.gateway.new_chapter("s", "Ada", key="c1")
        assert (await w.gateway.new_chapter("s", "Ada", key="c1")).status == "duplicate"
        await w.ask("what is the word?")
        assert read_prompts(log)[-1].session != before
        assert "plum" not in given(log)[-1]
        assert (await w.gateway.session("s"))["chapter"] == 2
        assert (await w.gateway.say("s", "the word is plum", key="k1")).status == "duplicate"
        rows = await w.entries()
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert rows[0]["text"] == "the word is plum"


async def test_an_agent_that_lost_its_memory_is_told_its_chapter_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask("in the first chapter")
        await w.gateway.say("s", "/new")
        await w.ask("in the second chapter")
        await w.gateway.say("s", "/status")
    for path in (tmp_path / "agent").rglob("*"):
        path.unlink() if path.is_file() else None
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask("now")
        assert "in the second chapter" in given(log)[-1]
        assert "in the first chapter" not in given(log)[-1]
        assert "/new" not in given(log)[-1]
        assert "Session s" not in given(log)[-1]  # the answer to /status is between people and the gateway


async def test_the_turn_that_runs_is_stopped_and_what_waits_is_taken_by_the_new_chapter(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.gateway.say("s", script("old words", {"touch": str(tmp_path / "a")}, {"hang": True}))
        await until(lambda: _there(tmp_path / "a"))
        await w.gateway.say("s", script("to the waiting one"))
        await w.gateway.say("s", "/new")
        await w.gateway.say("s", script("to the later one"))
        await w.idle()
        assert "old words" not in given(log)[-1]  # what was shown of the old turn is not told in the new chapter
        said = await w.texts("s", "agent")
        assert said[0] == "old words"
        assert said[-1] in ("to the waiting one", "to the later one")
        prompts = list(read_prompts(log))
        assert len({one.session for one in prompts}) == 2
        assert any(row.get("kind") == "turn.cancelled" for row in await w.entries())
    for path in (tmp_path / "agent").rglob("*"):
        path.unlink() if path.is_file() else None
    async with World(tmp_path, args=("--log", str(log))) as w:  # and both are in the new chapter's history
        await w.ask("now")
        assert "to the waiting one" in given(log)[-1]
        assert "to the later one" in given(log)[-1]
        assert "old words" not in given(log)[-1]


async def test_a_chapter_that_began_as_the_gateway_died_holds_after_the_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    w = World(tmp_path, args=("--log", str(log)))
    await w.start()
    await w.gateway.say("s", script("old words", {"touch": str(tmp_path / "a")}, {"hang": True}))
    await until(lambda: _there(tmp_path / "a"))
    w.gateway.commands.wake = lambda session: None  # type: ignore[method-assign]
    w.gateway.turns.act_on = lambda heard: None  # type: ignore[method-assign]  # as if killed right after the commit
    await w.gateway.say("s", "/new", sender="Ada")
    await w.stop()
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.idle()
        assert len(given(log)) == 1  # the old turn was not tried again
        assert "Stopped by Ada: a new chapter began." in await w.texts("s", "notice")
        await w.ask("hello")
        assert "old words" not in given(log)[-1]
        assert len({one.session for one in read_prompts(log)}) == 2


async def test_a_turn_of_an_earlier_chapter_is_not_tried_again_by_the_next_gateway(tmp_path: Path) -> None:
    log = tmp_path / "log"
    w = World(tmp_path, args=("--log", str(log)))
    await w.start()
    await w.gateway.say("s", script("old words", {"touch": str(tmp_path / "a")}, {"hang": True}))
    await until(lambda: _there(tmp_path / "a"))
    w.gateway.turns.act_on = lambda heard: None  # type: ignore[method-assign]  # killed before the turn was stopped
    await w.gateway.say("s", "/new", sender="Ada")
    await until(lambda: _answered(w))
    await w.stop()
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.idle()
        assert len(given(log)) == 1
        assert "Stopped by a new chapter." in await w.texts("s", "notice")
        await w.ask("hello")
        assert "old words" not in given(log)[-1]


async def _answered(w: World) -> bool:
    return any(text.startswith("A new chapter begins") for text in await w.texts("s", "notice"))
