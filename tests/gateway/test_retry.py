"""A turn that fails for a passing reason is tried again, and says nothing twice (Laws 4, 5, 9)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from structlog.testing import capture_logs

from semel.gateway.settings import GatewaySettings
from semel.gateway.turns import turn_end
from semel.ledger.storage.rows import SpawnRow
from semel.testing.scripted_agent import read_prompts

OVERLOADED = {"error": {"code": -32603, "message": "API Error: 529 Overloaded"}}
REFUSED = {"error": {"code": -32602, "message": "API Error: 400 invalid_request_error"}}


GAVE_UP: list[Any] = [  # what codex-acp 2.6.0 sends before it ends the prompt as if it were answered
    {"update": {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}}},
    {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "last status: 429\n\n"}}},
]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The back-off, in less time."""
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.3, 0.4))


def logged(path: Path, **more: Any) -> World:
    return World(path, log=path / "prompts", **more)


def agent_saw(w: World) -> list[str]:
    return [one.text for one in read_prompts(w.path / "prompts")]


async def notices(w: World) -> list[str]:
    return await w.texts("s", "notice")


async def failing(w: World) -> None:
    async def told() -> bool:
        return any("tried again" in text for text in await notices(w))

    await until(told)


async def any_of(w: World, words: str) -> bool:
    return any(words in text for text in await notices(w))


def test_the_notice_of_a_retry_ends_each_sentence_once() -> None:
    told = turn_end.make_retry_notice("Request timed out.", 5.2, 2)
    assert told.text == "The agent's turn failed: Request timed out. It is tried again in 5 s (attempt 2)."


@pytest.mark.usefixtures("soon")
async def test_a_passing_failure_is_tried_again_under_the_same_root_without_a_second_entry(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        said = await w.ask(script(name="n", attempts=[[OVERLOADED], ["Here it is."]]))
        assert said == ["Here it is."]
        assert len(await w.texts("s", "user")) == 1
        assert len(agent_saw(w)) == 2
        (told,) = await notices(w)
        assert told.startswith("The agent's turn failed: API Error: 529 Overloaded. It is tried again in")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("again", "view"),
    [
        ("The answer is 4.", ["The answer is 4."]),
        ("The answer is 4. It always was.", ["The answer is 4.", "The answer is 4. It always was."]),
        ("Four.", ["The answer is 4.", "Four."]),
    ],
)
async def test_what_was_said_before_the_failure_is_not_said_again(tmp_path: Path, again: str, view: list[str]) -> None:
    async with logged(tmp_path) as w:
        said = await w.ask(script(name="n", attempts=[["The answer is 4.", OVERLOADED], [again]]))
        assert said == view
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        cut_off = view[0] != again  # the same words again: they were all of it
        assert [bool(e.get("partial")) for e in entries] == [cut_off] + [False] * (len(view) - 1)


@pytest.mark.usefixtures("soon")
async def test_a_failure_after_a_tool_call_resumes_in_the_living_agent(tmp_path: Path) -> None:
    first = script({"tool": "deploy", "output": ["ok"]}, OVERLOADED, resume=["It is deployed."])
    async with logged(tmp_path) as w:
        assert await w.ask(first) == ["It is deployed."]
        assert len(agent_saw(w)) == 2
        assert "your turn goes on" in agent_saw(w)[1]
        assert len(w.gateway.spawns.live) == 1


@pytest.mark.usefixtures("soon")
async def test_it_gives_up_visibly_after_three_attempts(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.ask(script(OVERLOADED))
        assert len(agent_saw(w)) == 3
        assert (await notices(w))[-1] == "The agent's turn failed: API Error: 529 Overloaded (tried 3 times)"
        assert len(await notices(w)) == 3


@pytest.mark.usefixtures("soon")
async def test_a_failure_that_only_the_stream_tells_is_tried_again(tmp_path: Path) -> None:
    answer = {"text": "Here it is.", "message": "m2"}
    half = {"text": "Here", "message": "m1"}
    async with logged(tmp_path, args=("--name", "codex")) as w:
        assert await w.ask(script(name="n", attempts=[[*GAVE_UP], [half, *GAVE_UP], [answer]])) == [
            "Here",
            "Here it is.",
        ]
        retries = [text for text in await notices(w) if "tried again" in text]
        assert len(retries) == 2
        assert retries[0].startswith("The agent's turn failed: last status: 429. It is tried again in")
        assert await w.ask(script(answer)) == ["Here", "Here it is.", "Here it is."]
        assert len(agent_saw(w)) == 4


@pytest.mark.usefixtures("soon")
async def test_giving_up_after_a_death_names_the_failure_before_it(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.ask(script(name="n", attempts=[[OVERLOADED], [OVERLOADED], [{"die": 9}]]))
        last = (await notices(w))[-1]
        assert "the last time the agent was killed by SIGKILL" in last
        assert last.endswith("; the time before: API Error: 529 Overloaded.")


@pytest.mark.usefixtures("soon")
async def test_what_does_not_pass_fails_at_once(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.ask(script(REFUSED))
        assert len(agent_saw(w)) == 1
        assert await notices(w) == ["The agent's turn failed: API Error: 400 invalid_request_error"]


@pytest.mark.usefixtures("soon")
async def test_an_agent_with_one_attempt_is_never_tried_again(tmp_path: Path) -> None:
    async with logged(tmp_path, agent={"attempts": 1}) as w:
        await w.ask(script(OVERLOADED))
        assert len(agent_saw(w)) == 1
        await w.ask(script("Now. ", {"die": 9}))
        assert len(agent_saw(w)) == 2
        assert "it was lost; the last time the agent was killed by SIGKILL" in (await notices(w))[-1]


async def test_what_is_said_meanwhile_waits_and_comes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (1.0, 1.0))
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(name="n", attempts=[[OVERLOADED], ["First."]]))
        await failing(w)
        heard = await w.gateway.say("s", script("Second."))
        assert (heard.waiting, heard.place) == ("queue", 1)
        await w.idle()
        assert await w.texts("s", "agent") == ["First.", "Second."]


async def test_a_turn_that_waits_to_be_tried_again_can_be_stopped(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(OVERLOADED))
        await failing(w)
        assert await w.gateway.controls.stop_turn("s", "owner")
        await w.idle()
        assert (await notices(w))[-1] == "Stopped by owner."
        assert len(agent_saw(w)) == 1
        assert await w.ask(script("I am well.")) == ["I am well."]


async def test_status_and_why_tell_that_a_turn_waits_to_be_tried_again(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(OVERLOADED), key="k")
        await failing(w)
        await w.gateway.say("s", "/status")
        await until(lambda: any_of(w, "State: the turn failed, and is tried again in "))
        assert await any_of(w, "\nLast turn: t1 failed (API Error: 529 Overloaded)")
        last = (await w.gateway.why("k"))["lines"][-1]["text"]
        assert last == "t1: failed, API Error: 529 Overloaded; the next attempt is not before this time"
        await w.gateway.controls.stop_turn("s", "owner")


async def test_a_newer_message_may_interrupt_a_turn_that_waits_to_be_tried_again(tmp_path: Path) -> None:
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(OVERLOADED))
        await failing(w)
        assert await w.ask(script("Other."), busy="interrupt") == ["Other."]
        assert (await notices(w))[-1] == "Stopped by a newer message."


async def test_it_is_tried_again_by_the_next_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (1.0, 1.0))
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(name="n", attempts=[[OVERLOADED], ["First."]]))
        await failing(w)
        await w.stop()
        await w.start()
        await w.idle()
        assert await w.texts("s", "agent") == ["First."]
        assert len(agent_saw(w)) == 2
        assert len(await w.texts("s", "user")) == 1


async def test_what_a_failed_attempt_left_in_the_agents_history_is_not_taken_for_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (1.0, 1.0))
    async with logged(tmp_path) as w:
        await w.gateway.say("s", script(name="n", attempts=[["I begin.", OVERLOADED], ["First."]]))
        await failing(w)
        await w.stop()
        await w.start()  # a new process: it replays what it remembers
        await w.idle()
        assert await w.texts("s", "agent") == ["I begin.", "First."]
        assert len(agent_saw(w)) == 2


@pytest.mark.usefixtures("soon")
async def test_a_prompt_answered_only_by_words_about_a_queue_is_asked_again_of_a_new_process(tmp_path: Path) -> None:
    queued = [{"text": "Queued for the next turn. (1 queued)", "chunks": 1}]
    async with logged(tmp_path, args=("--name", "hermes-agent")) as w:
        said = await w.ask(script(name="n", attempts=[queued, ["The real answer."]]))
        assert said == ["The real answer."]
        assert len(agent_saw(w)) == 2
        spawned = await w.gateway.record.read(lambda tx: tx.one(SpawnRow, "spawn_get", id=2))
        assert spawned is not None, "the wedged process was replaced"


@pytest.mark.usefixtures("soon")
async def test_an_agent_that_only_ever_queues_is_given_up_visibly(tmp_path: Path) -> None:
    async with logged(tmp_path, args=("--name", "hermes-agent")) as w:
        await w.ask(script({"text": "Queued for the next turn. (1 queued)", "chunks": 1}))
        assert len(agent_saw(w)) == 3
        assert "answered only that" in (await notices(w))[-1]


async def test_an_agent_that_never_answers_is_replaced_and_asked_again(tmp_path: Path) -> None:
    async with logged(tmp_path, agent={"silence_s": 0.5}) as w:
        said = await w.ask(script(name="n", attempts=[[{"deaf": True}, {"hang": True}], ["I am back."]]))
        assert said == ["I am back."]


async def test_an_agent_whose_tool_runs_may_be_silent(tmp_path: Path) -> None:
    tool = {"tool": "build", "output": ["a", "b"], "delay": 0.6}
    async with logged(tmp_path, agent={"silence_s": 0.4}) as w:
        assert await w.ask(script(tool, "Built.")) == ["Built."]
        assert len(agent_saw(w)) == 1


@pytest.mark.usefixtures("soon")
async def test_an_agent_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    shell = f'echo >> {starts}; [ $(wc -l < {starts}) -gt 2 ] || kill -9 $$; exec "$0" -m semel.testing.scripted_agent'
    async with World(tmp_path, command=("sh", "-c", shell, sys.executable)) as w:
        assert await w.ask(script("Third time lucky.")) == ["Third time lucky."]
        assert [text[:46] for text in await notices(w)] == ["The agent's turn failed: the agent could not b"] * 2
        assert len(await w.texts("s", "user")) == 1


@pytest.mark.usefixtures("soon")
async def test_an_agent_that_ends_while_it_starts_is_reported_at_once(tmp_path: Path) -> None:
    async with World(tmp_path, command=("sh", "-c", "echo no key >&2; exit 3")) as w:
        await w.ask("hello")
        (told,) = await notices(w)
        assert "could not be started" in told
        assert "no key" in told
        assert (await w.gateway.metrics())['semel_agent_errors_total{agent="demo",error="start"}'] == 1


async def test_turns_that_ended_are_counted_and_a_failed_one_is_logged_with_its_reason(tmp_path: Path) -> None:
    error = {"error": {"code": -32603, "message": "no such model"}}
    async with World(tmp_path) as w:
        with capture_logs() as lines:
            await w.ask(script("fine"))
            await w.ask(script(error))
        metrics = await w.gateway.metrics()
        assert metrics['semel_turns_total{agent="demo",outcome="done"}'] == 1
        assert metrics['semel_turns_total{agent="demo",outcome="failed"}'] == 1
        assert metrics['semel_agent_errors_total{agent="demo",error="answer"}'] == 1
        [line] = [line for line in lines if line["event"] == "turn failed"]
        assert (line["session"], line["agent"], line["why"]) == ("s", "demo", "no such model")


async def test_without_a_configured_agent_a_session_stays_with_its_own_and_says_so(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("fine"))
    later = World(tmp_path)
    fields = {"data_dir": tmp_path, "ledger": tmp_path / "ledger.db", "continues_sessions": False}
    bundled = later.settings.agents["demo"].model_copy(update={"name": "bundled"})
    later.settings = GatewaySettings(**fields, agents={"bundled": bundled})
    async with later as w:
        await w.ask("are you there?")
        (told,) = await notices(w)
        assert "belongs to the agent 'demo', which is not configured any more: add [agents.demo]" in told
        (missing,) = (await w.gateway.overview())["missing_agents"]
        assert missing["text"].endswith("Nobody answers there until [agents.demo] is added to the configuration")


async def test_the_model_that_an_acp_agent_starts_with_may_be_changed(tmp_path: Path) -> None:
    async with World(tmp_path, agent={"model": "opus"}) as w:
        assert w.gateway.controls.fixed_model("demo") is None


@pytest.mark.usefixtures("soon")
async def test_a_turn_whose_agent_cannot_be_started_is_counted_and_logged(tmp_path: Path) -> None:
    async with World(tmp_path, command=("sh", "-c", "echo no key >&2; exit 3")) as w:
        with capture_logs() as lines:
            await w.ask("hello")
        assert (await w.gateway.metrics())['semel_turns_total{agent="demo",outcome="failed"}'] == 1
        assert ["no key" in line["why"] for line in lines if line["event"] == "turn failed"] == [True]


async def test_a_stop_at_the_very_moment_a_turn_is_put_off_stops_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("ready"))
        for n in range(12):
            failed = asyncio.Event()
            watching = asyncio.create_task(_sees_retries(w, failed, n))
            await w.gateway.say("s", script(OVERLOADED))
            await asyncio.wait_for(failed.wait(), 20)
            assert await w.gateway.controls.stop_turn("s", "owner")
            async with asyncio.timeout(4):  # it would be tried again after 5 s
                await w.idle()
            watching.cancel()
            assert (await notices(w))[-1] == "Stopped by owner."


async def _sees_retries(w: World, seen: asyncio.Event, before: int) -> None:
    """Sets `seen` as soon as one more notice of a retry than `before` is watched."""
    retries: set[int] = set()
    async for told in w.gateway.watch("s"):
        for change in (*told.get("changes", []), *told.get("entries", [])):
            if change.get("kind") == "retry":
                retries.add(change["seq"])
        if len(retries) > before:
            seen.set()


@pytest.mark.usefixtures("soon")
async def test_an_attempt_that_the_agents_own_retry_replaced_swallows_no_repeat(tmp_path: Path) -> None:
    """OpenCode tells its answer once more under another id where the model's stream broke: the two are one text."""
    text = "The kettle is on, the lamp is off, and the door is closed."
    first = [{"text": text, "message": "a"}, {"text": text, "message": "b"}, OVERLOADED]
    again = [{"text": text, "message": "c"}, {"text": "Once more:", "message": "d"}, {"text": text, "message": "e"}]
    async with World(tmp_path, args=("--name", "opencode")) as w:
        await w.ask(script(name="n", attempts=[first, again]))
        said = [e["text"] for e in await w.entries() if e["role"] == "agent" and not e.get("superseded")]
        assert said == [text, "Once more:", text]
        await w.balanced()
