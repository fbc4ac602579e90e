"""A closing text that breaks off while it repeats what a tool had sent: the person has it, and no fragment follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from test_left_behind import KEY, NOTHING, UNAVAILABLE, chat, send

from fewer_cases import cross
from semel.gateway.ports import Safety
from semel.ledger.storage.rows import ClaimRow
from semel.testing import Fault

Json = dict[str, Any]
REPORT, CUT = "Your report is ready.", "Your report is re"
DIES: list[Json] = [{"sleep": 0.2}, {"die": 9}]
ENDS = {
    "it dies and remembers": [{"save": True}, *DIES],
    "it dies and forgets": DIES,
    "it fails": [UNAVAILABLE],
    "the model's limit": [{"stop": "max_tokens"}],
}
HOMES: dict[str, Json] = {
    "chat": {}, "all of it": {"narration": "all"}, "as it is written": {"stream": True},
    "all, as it is written": {"narration": "all", "stream": True},
}  # fmt: skip
TOLD = "The answer was cut off at the model's token limit."


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))


def repeats(cut: str = CUT) -> list[Any]:
    """It sends the report, and its closing text is on its way to repeat that."""
    return [send(REPORT), {"text": cut, "chunks": 3}]


async def story(w: World) -> list[tuple[str, str | None]]:
    """What became of each claim of the agent."""
    rows = await w.gateway.record.read(lambda tx: [tx.one(ClaimRow, "claim_get", id=n) for n in range(1, 20)])
    return [(row.outcome, row.reason) for row in rows if row is not None and row.how in ("block", "recovery")]


async def hangs(w: World, mark: Path) -> None:
    """The agent hangs behind its cut text, and all that it told is recorded."""

    async def there() -> bool:
        return mark.exists()

    await until(there)
    await next(iter(w.gateway.turns.runs.values())).flush()


@pytest.mark.parametrize(("end", "home"), cross(ENDS, HOMES))
async def test_a_chat_gets_no_fragment_of_what_it_has(tmp_path: Path, end: str, home: str) -> None:
    async with chat(tmp_path, **HOMES[home]) as c:
        posts = await c.ask(script(*repeats(), *ENDS[end], resume=NOTHING))
        assert posts == [REPORT, *([TOLD] if end == "the model's limit" else [])]
        assert await c.w.texts(KEY, "agent") == [REPORT]
        assert not any(repr(CUT) in line for line in c.told)
        assert {one[0] for one in await story(c.w)} == {"echo"}


@pytest.mark.parametrize("end", ENDS)
async def test_a_page_shows_no_fragment_of_what_it_has(tmp_path: Path, end: str) -> None:
    async with World(tmp_path) as w:
        assert await w.ask(script(*repeats(), *ENDS[end], resume=NOTHING)) == [REPORT]


@pytest.mark.parametrize(
    ("by", "home"), cross(["a stop", "a newer message", "/new"], ["chat", "all of it", "as it is written"])
)
async def test_whoever_stops_a_turn_gets_no_fragment(tmp_path: Path, by: str, home: str) -> None:
    mark = tmp_path / "hangs"
    async with chat(tmp_path, **HOMES[home]) as c:
        gateway = c.w.gateway
        await gateway.say(KEY, script(*repeats(), {"touch": str(mark)}, {"hang": True}))
        await hangs(c.w, mark)
        if by == "a stop":
            assert await gateway.controls.stop_turn(KEY, "me")
        elif by == "/new":
            await gateway.say(KEY, "/new")
        else:
            await gateway.say(KEY, script("Now this."), busy="interrupt")
        await c.rest()
        assert REPORT in c.posts
        assert CUT not in c.posts
        assert CUT not in await c.w.texts(KEY, "agent")
        assert ("echo", "it broke off") in await story(c.w)


async def test_the_next_attempt_says_the_whole_of_it_again_and_that_is_an_echo(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        assert await c.ask(script(*repeats(), *ENDS["it fails"], resume=[REPORT])) == [REPORT]
        assert await story(c.w) == [("echo", "it broke off"), ("echo", None)]
        (told,) = [line["text"] for line in (await c.w.gateway.why("c2"))["lines"] if "c2:" in line["text"]]
        assert told.endswith("an echo of c1: not shown again (it broke off)")


async def test_a_text_that_had_gone_another_way_is_said_as_far_as_it_came(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        assert await c.ask(script(*repeats("Your report is la"), *DIES, resume=NOTHING)) == [
            REPORT,
            "Your report is la",
        ]


@pytest.mark.parametrize("end", ENDS)
async def test_what_was_cut_off_counts_if_the_tools_text_was_refused(tmp_path: Path, end: str) -> None:
    async with chat(tmp_path, safety=Safety.AT_MOST_ONCE) as c:
        c.platform.fail_next(Fault.REJECT)
        steps = [send(REPORT), {"sleep": 1.0}, {"text": CUT, "chunks": 3}]
        posts = await c.ask(script(*steps, *ENDS[end], resume=NOTHING))
        assert posts[:1] == [CUT], "the only words that reached the person"


async def test_a_fragment_of_what_a_lost_attempt_said_does_not_leave_in_its_place(tmp_path: Path) -> None:
    """Where only closing texts leave, the lost attempt's text never did: it is the answer, and whole."""
    async with chat(tmp_path, agent={"attempts": 3}) as c:
        attempts = [["It is 42, all told.", UNAVAILABLE], [{"text": "It is 42,", "chunks": 1}, UNAVAILABLE], []]
        assert await c.ask(script(attempts=attempts, name="n")) == ["It is 42, all told."]


# ------------------------------------------------------------ what an echo closes


NARRATED = ["I look at the lamp.", {"tool": "look"}, send("The lamp is on.")]
LAST = {"an echo": "The lamp is on.", "an echo, cut off": {"text": "The lamp is", "chunks": 2}}


@pytest.mark.parametrize(
    ("end", "last", "again"),
    cross(["it dies and remembers", "it dies and forgets", "it fails"], LAST, [NOTHING, ["The lamp is on."]]),
)
async def test_narration_does_not_leave_behind_the_answer(
    tmp_path: Path, end: str, last: str, again: list[Any]
) -> None:
    async with chat(tmp_path) as c:
        assert await c.ask(script(*NARRATED, LAST[last], *ENDS[end], resume=again)) == ["The lamp is on."]
        assert await c.w.texts(KEY, "agent") == ["I look at the lamp.", "The lamp is on."]
        assert not any("it leaves as your answer" in line for line in c.told)


async def test_a_turn_that_its_agents_history_finishes_leaves_no_narration(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        posts = await c.ask(script(*NARRATED, "The lamp is on.", {"save": "end"}, *DIES, resume=["Never."]))
        assert posts == ["The lamp is on."]


@pytest.mark.parametrize("by", ["a stop", "/new"])
async def test_a_stop_of_the_next_attempt_leaves_no_narration(tmp_path: Path, by: str) -> None:
    mark = tmp_path / "hangs"
    async with chat(tmp_path) as c:
        steps = [*NARRATED, "The lamp is on.", {"save": True}, *DIES]
        await c.w.gateway.say(KEY, script(*steps, resume=[{"touch": str(mark)}, {"hang": True}]))
        await hangs(c.w, mark)
        if by == "/new":
            await c.w.gateway.say(KEY, "/new")
        else:
            assert await c.w.gateway.controls.stop_turn(KEY, "me")
        await c.rest()
        assert "I look at the lamp." not in c.posts


async def test_narration_does_not_leave_behind_a_file_whose_words_were_repeated(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        (c.w.work / "lamp.txt").write_text("on")
        sends = {"call": "send_file", "arguments": {"path": "lamp.txt", "text": "The lamp is on."}}
        posts = await c.ask(script("I look at the lamp.", sends, "The lamp is on.", *DIES, resume=NOTHING))
        assert posts == ["The lamp is on."]


async def test_narration_behind_the_echo_is_the_answer(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        steps = [send("On it."), "On it.", {"tool": "look"}, "It is 42.", {"tool": "look"}]
        assert await c.ask(script(*steps, {"save": True}, *DIES, resume=NOTHING)) == ["On it.", "It is 42."]
