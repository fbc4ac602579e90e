"""A conversation of another system that grew since it was imported: what is new is added, once, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from export_house import agent, content, exported, header, turn, user, written
from gateway_world import World, script, until

from semel.gateway.api import archive
from semel.gateway.errors import BadRequest, Conflict
from semel.ledger.admin import import_growth

Json = dict[str, Any]
ORIGIN = "other:chat-7"


def conversation(turns: int, *, chapters: int = 1, key: str = "main:web:old", answered: bool = True) -> io.BytesIO:
    """A question and an answer a turn; the last `chapters - 1` turns begin a chapter each."""

    def chapter(number: int) -> int:
        return max(1, number - turns + chapters)

    def lines() -> Iterator[Json]:
        entries = 2 * turns - (not answered)
        yield header(key, entries, turns, chapter=chapters, origin=ORIGIN, agent="", home=None)
        yield from (turn(number, chapter=chapter(number)) for number in range(1, turns + 1))
        for number in range(1, turns + 1):
            more = {"chapter": chapter(number)}
            yield user(2 * number - 1, f"question {number}?", number, key=f"q{number}", source="import:other", **more)
            if number < turns or answered:
                yield agent(2 * number, f"answer {number}", number, **more)

    return io.BytesIO(written(lines()))


async def texts(world: World, key: str = "main:web:old") -> list[str]:
    return await world.texts(key)


async def last_chapter(world: World) -> int:
    entries = [line for line in content(await exported(world.gateway, "main:web:old")) if line["line"] == "entry"]
    return int(entries[-1]["chapter"])


async def test_what_is_new_there_is_added_at_the_end_once(world: World) -> None:
    assert (await world.gateway.import_session(conversation(2)))["status"] == "imported"
    assert (await world.gateway.import_session(conversation(2)))["status"] == "known"
    grown = {"session": "main:web:old", "status": "grown", "entries": 6, "added": 2}
    assert await world.gateway.import_session(conversation(3)) == grown
    assert (await world.gateway.import_session(conversation(3)))["status"] == "known"
    assert await texts(world) == [text for n in (1, 2, 3) for text in (f"question {n}?", f"answer {n}")]
    assert not world.gateway.turns.runs
    assert (await world.gateway.session("main:web:old"))["waiting"] == 0
    await world.balanced()


async def test_a_session_that_went_on_here_keeps_what_was_said_here(world: World) -> None:
    await world.gateway.import_session(conversation(2))
    await world.ask("say: said here", "main:web:old")
    assert (await world.gateway.import_session(conversation(4)))["added"] == 4
    await world.ask("say: said later", "main:web:old")
    assert (await world.gateway.import_session(conversation(5)))["added"] == 2
    before = [f"{kind} {n}{mark}" for n in (1, 2) for kind, mark in (("question", "?"), ("answer", ""))]
    grown = [f"{kind} {n}{mark}" for n in (3, 4) for kind, mark in (("question", "?"), ("answer", ""))]
    assert await texts(world) == [
        *before, "say: said here", "said here", *grown, "say: said later", "said later", "question 5?", "answer 5",
    ]  # fmt: skip
    copy = await exported(world.gateway, "main:web:old")
    assert (await world.gateway.import_session(io.BytesIO(copy), "copy"))["status"] == "imported"
    await world.balanced()


async def test_an_answer_that_came_later_belongs_to_the_turn_that_was_imported_before(world: World) -> None:
    await world.gateway.import_session(conversation(2, answered=False))
    await world.ask("say: between", "main:web:old")
    assert (await world.gateway.import_session(conversation(3)))["added"] == 3
    entries = await world.entries("main:web:old")
    by_text = {entry["text"]: entry for entry in entries}
    turns = {text: by_text[text]["turn"] for text in ("answer 1", "answer 2", "answer 3")}
    assert len(set(turns.values())) == 3
    assert turns["answer 2"] < by_text["between"]["turn"] < turns["answer 3"]
    await world.balanced()


async def test_new_chapters_there_follow_those_that_were_begun_here(world: World) -> None:
    await world.gateway.import_session(conversation(2))
    await world.gateway.new_chapter("main:web:old", "Ann")
    await world.ask("say: in a new chapter", "main:web:old")
    chapter = await last_chapter(world)
    await world.gateway.import_session(conversation(3))
    assert await last_chapter(world) == chapter
    await world.gateway.import_session(conversation(4, chapters=2))
    assert await last_chapter(world) == chapter + 1
    await world.ask("say: on", "main:web:old")
    assert await last_chapter(world) == chapter + 1
    await world.balanced()


async def test_a_conversation_that_was_changed_there_adds_nothing(world: World) -> None:
    await world.gateway.import_session(conversation(3))
    for changed in (conversation(2), io.BytesIO(written(list(other_lines())))):
        with pytest.raises(Conflict, match="does not begin with the 6 entries"):
            await world.gateway.import_session(changed)
    assert len(await texts(world)) == 6


def other_lines() -> Iterator[Json]:
    yield header("main:web:old", 8, 4, origin=ORIGIN)
    yield from (turn(number) for number in range(1, 5))
    for number in range(1, 5):
        yield user(2 * number - 1, f"another question {number}?", number, key=f"o{number}")
        yield agent(2 * number, f"answer {number}", number)


async def test_a_session_of_somebody_else_keeps_its_key_and_the_conversation_gets_one_on_the_page(
    world: World,
) -> None:
    await world.ask("say: mine", "main:web:old")
    first = await world.gateway.import_session(conversation(2))
    assert first["status"] == "imported"
    assert first["session"].startswith("main:web:other:chat-7:")
    assert await world.gateway.import_session(conversation(2)) == {**first, "status": "known", "added": 0}
    grown = await world.gateway.import_session(conversation(3))
    assert (grown["session"], grown["status"]) == (first["session"], "grown")
    assert await texts(world) == ["say: mine", "mine"]


async def test_nothing_is_added_while_a_turn_runs(world: World) -> None:
    await world.gateway.import_session(conversation(1))
    await world.gateway.say("main:web:old", script({"sleep": 30}), key="long")

    async def runs() -> bool:
        return bool(world.gateway.turns.runs)

    await until(runs)
    with pytest.raises(Conflict, match="a turn runs"):
        await world.gateway.import_session(conversation(2))


async def test_a_growth_that_was_interrupted_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.gateway.import_session(conversation(1))
    monkeypatch.setattr(archive, "STEP_LINES", 3)
    calls = 0
    add_lines = import_growth.add_lines

    def failing(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError("the disk is full")
        return add_lines(*args)

    monkeypatch.setattr(import_growth, "add_lines", failing)
    with pytest.raises(Exception, match="disk is full"):
        await world.gateway.import_session(conversation(6))
    assert 2 < len(await texts(world)) < 12
    await world.ask("say: between", "main:web:old")
    await world.gateway.import_session(conversation(7))
    said = [text for text in await texts(world) if "between" not in text]
    assert said == [text for n in range(1, 8) for text in (f"question {n}?", f"answer {n}")]
    await world.balanced()


async def test_a_file_with_an_origin_names_no_numbers_of_entries(world: World, tmp_path: Path) -> None:
    lines = [header("x", 1, 0, origin=ORIGIN), user(1, "hi", None, more={"of": 1})]
    with pytest.raises(BadRequest, match="line 2: more: the field 'of' is not for a file with an `origin`"):
        await world.gateway.import_session(io.BytesIO(written(lines)))
