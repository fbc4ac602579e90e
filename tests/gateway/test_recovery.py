"""Agents and gateways that die: exactly one outcome, nothing run twice by itself, nothing lost (Laws 6, 9, 10)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until

from semel.gateway.turns import run
from semel.ledger.inbound import answers
from semel.ledger.storage.rows import SpawnRow, TurnRow
from semel.ledger.turns import turn_ops

Json = dict[str, Any]
NOTHING = [{"sleep": 0.01}]


async def marks(w: World) -> list[tuple[str, bool | None, bool | None]]:
    """What the agent said: text, partial, superseded."""
    return [(e["text"], e.get("partial"), e.get("superseded")) for e in await w.entries() if e["role"] == "agent"]


async def how(w: World) -> list[str]:
    """How each attempt of the first turn was asked."""
    return [one.how for one in await w.gateway.record.read(lambda tx: tx.all(TurnRow, "turns_of_root", root=1))]


def send(text: str, **arguments: Any) -> Json:
    return {"call": "send_message", "arguments": {"text": text, **arguments}}


async def test_an_agent_that_dies_before_any_tool_is_asked_again(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        first = ["Half an ans", {"sleep": 0.2}, {"die": 9}]
        said = await w.ask(f"[[script {_attempts(first, ['The whole answer.'])}]]")
        assert said == ["Half an ans", "The whole answer."]
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        assert entries[0]["partial"] is True
        assert "partial" not in entries[1]
        story = await w.gateway.why("t2")
        assert any("restart" in line["text"] for line in story["lines"])


async def test_the_first_tool_call_of_a_turn_is_recorded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SHOW_INTERVAL_S", 60.0)
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        said = [{"text": each} for each in ("Looking. ", "Still. ")]
        await w.gateway.say("s", script(*said, {"sleep": 0.1}, {"tool": "ls"}, {"wait": str(gate)}, "Done."))

        async def recorded() -> bool:
            return any(item["kind"] == "tool" for item in (await anext(w.gateway.watch("s")))["items"])

        await until(recorded)
        gate.touch()
        await w.idle()


async def test_what_the_lost_attempt_said_is_not_said_again(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        first = [
            {"text": "Part one.", "message": "m1"},
            {"text": "Part t", "message": "m2"},
            {"sleep": 0.2},
            {"die": 9},
        ]
        second = [{"text": "Part one.", "message": "n1"}, {"text": "Part two.", "message": "n2"}]
        said = await w.ask(f"[[script {_attempts(first, second)}]]")
        assert said == ["Part one.", "Part t", "Part two."]


async def test_what_the_lost_attempt_began_to_say_is_marked_once_it_is_said_in_full(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(f"[[script {_attempts(['Half an ans', {'sleep': 0.2}, {'die': 9}], ['Half an answer, whole.'])}]]")
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        assert [(e["text"], e.get("partial"), e.get("superseded")) for e in entries] == [
            ("Half an ans", True, True),
            ("Half an answer, whole.", None, None),
        ]
        assert entries[1]["supersedes"] == [entries[0]["seq"]]


async def test_a_text_names_what_it_will_supersede_while_it_still_streams(tmp_path: Path) -> None:
    """A client that cannot take back the text of the lost attempt then shows only the rest."""
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        lost = ["Half an ans", {"sleep": 0.2}, {"die": 9}]
        again = [{"text": "Half an answer", "chunks": 1}, {"wait": str(gate)}, {"text": ", whole.", "chunks": 1}]
        await w.gateway.say("s", f"[[script {_attempts(lost, again)}]]")
        async for frame in w.gateway.watch("s"):
            rows = frame.get("entries") or [change for change in frame.get("changes", ()) if change["op"] == "entry"]
            if any(row.get("live") and row.get("supersedes") == [2] for row in rows):
                break
        assert (await marks(w))[0] == ("Half an ans", True, None), "it is not superseded before the other is whole"
        gate.touch()
        await w.idle()
        assert await marks(w) == [("Half an ans", True, True), ("Half an answer, whole.", None, None)]


async def test_another_text_after_a_lost_attempt_supersedes_nothing(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(f"[[script {_attempts(['Half an ans', {'sleep': 0.2}, {'die': 9}], ['Something else.'])}]]")
        assert [entry.get("supersedes") for entry in await w.entries()] == [None, None, None]


async def test_a_turn_whose_end_the_agents_history_marks_is_finished_from_it(tmp_path: Path) -> None:
    log = tmp_path / "prompts"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask(script("The whole answer.", {"save": "end"}, {"sleep": 0.2}, {"die": 9}))
        assert await marks(w) == [("The whole answer.", None, None)]
        assert await how(w) == ["start", "recall"]
        assert len(log.read_text().splitlines()) == 1, "it was not asked again"
        await w.ask(script("Next."))
        assert "[semel" not in json.loads(log.read_text().splitlines()[-1])["text"], (
            "nothing is missing from its memory"
        )


async def test_a_history_that_lacks_a_tool_call_is_not_believed_that_its_turn_had_ended(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        steps = ["Look. ", {"save": "end"}, {"tool": "ls"}, {"sleep": 0.2}, {"die": 9}]
        assert await w.ask(script(*steps, resume=["Seen."])) == ["Look. ", "Seen."]
        assert await how(w) == ["start", "resume"]


async def test_an_agent_that_tells_no_calls_is_not_asked_again_for_what_may_have_run_a_tool(tmp_path: Path) -> None:
    """gptme 0.35.1 runs commands that it never tells."""
    async with World(tmp_path, args=("--name", "gptme")) as w:
        assert await w.ask(script("Begun. ", {"sleep": 0.2}, {"die": 9}, resume=["Seen."])) == ["Begun. ", "Seen."]
        assert await how(w) == ["start", "resume"]


async def test_text_alone_does_not_prove_the_end_and_a_silent_agent_makes_it_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "prompts"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask(script("The whole answer.", {"save": True}, {"sleep": 0.2}, {"die": 9}, resume=NOTHING))
        assert await how(w) == ["start", "resume"]
        assert await marks(w) == [("The whole answer.", None, None)]
        assert await w.texts("s", "notice") == []
        prompts = [json.loads(line)["text"] for line in log.read_text().splitlines()]
        assert "- already said: 'The whole answer.'" in prompts[1]
        await w.ask(script("Next."))
        assert "[semel" not in json.loads(log.read_text().splitlines()[-1])["text"]


async def test_an_agent_that_dies_after_a_send_is_resumed_and_does_not_send_again(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        steps = [send("Invoice sent."), {"sleep": 0.2}, {"die": 9}]
        said = await w.ask(script(*steps, resume=["That was the invoice."]))
        assert said == ["Invoice sent.", "That was the invoice."]


async def test_what_is_left_of_an_agent_that_died_is_refused_and_that_is_recorded(tmp_path: Path) -> None:
    """The gateway has seen the death, and has not ended the rest of its process group yet."""
    async with World(tmp_path) as w:
        w.gateway.spawns.holds = lambda spawn: False
        assert await w.ask(script(send("Sent by an orphan."), "Closing.")) == ["Closing."]
        notices = await w.texts("s", "notice")
        assert notices == [
            'Held back "Sent by an orphan.": it came from an agent process that was already ended. '
            "Tell the agent if you still want it."
        ]


async def test_three_lost_attempts_are_failed_and_told(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("x", {"sleep": 0.1}, {"die": 9}))
        notices = await w.texts("s", "notice")
        assert any("lost 3 times" in n for n in notices)
        assert (
            await w.ask(script("Alive.")) == ["x", "x", "x", "Alive."] or (await w.texts("s", "agent"))[-1] == "Alive."
        )


async def test_a_gateway_that_stops_in_a_turn_leaves_it_to_the_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    mark = tmp_path / "began"
    steps = [["Half", {"touch": str(mark)}, {"sleep": 60}], ["Whole answer."]]
    await world.gateway.say("s", f"[[script {_attempts(*steps)}]]")
    await until(_exists(mark))
    await world.stop()
    async with World(tmp_path) as w:
        await w.idle()
        assert (await w.texts("s", "agent"))[-1] == "Whole answer."
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        assert len(entries) <= 2
        assert all(e.get("partial") for e in entries[:-1])


@pytest.mark.parametrize("step", [{"tool": "ls"}, {"permission": "rm -r build", "allowed": [{"sleep": 60}]}])
async def test_a_turn_fails_whose_agent_forgot_it_if_a_tool_may_have_run(tmp_path: Path, step: Json) -> None:
    world = World(tmp_path)
    await world.start()
    await world.gateway.say("s", script(step, {"permission": "rm -r dist", "allowed": ["gone"]}))
    if "permission" in step:
        item = await _open_request(world)
        await world.gateway.controls.answer("s", item["id"], item["options"][0]["optionId"], "page")
    else:
        await _open_request(world)
    await world.stop()
    shutil.rmtree(tmp_path / "agent")
    async with World(tmp_path) as w:
        await w.idle()
        assert any("a tool call had started" in text for text in await w.texts("s", "notice"))
        assert await w.texts("s", "agent") == []


async def test_a_turn_that_only_waited_for_permission_is_run_again_and_asks_again(tmp_path: Path) -> None:
    """Its agent has no memory, and nobody had allowed anything."""
    world = World(tmp_path)
    await world.start()
    await world.gateway.say("s", script({"permission": "rm -r build", "allowed": ["tidy"]}))
    old = await _open_request(world)
    await world.stop()
    shutil.rmtree(tmp_path / "agent")
    async with World(tmp_path) as w:
        new = await _open_request(w, after=old["id"])
        assert new["first"] > old["first"]
        option = new["options"][0]["optionId"]
        assert await w.gateway.controls.answer("s", old["id"], option, "page") == "closed"
        assert await w.gateway.controls.answer("s", new["id"], option, "page") == "answered"
        await w.idle()
        assert await how(w) == ["start", "restart"]
        assert await w.texts("s", "agent") == ["tidy"]


async def test_a_message_during_a_turn_yields_exactly_one_further_turn(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        mark, go = tmp_path / "began", tmp_path / "go"
        await w.gateway.say("s", script({"touch": str(mark)}, {"wait": str(go)}, "first"))
        await until(_exists(mark))
        for n in range(5):
            await w.gateway.say("s", script(f"later {n}"))
        go.touch()
        await w.idle()
        turns = {e["turn"] for e in await w.entries() if e["role"] == "agent"}
        assert len(turns) == 2


async def test_a_cancelled_turn_is_stopped_and_the_next_message_starts_one(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        mark = tmp_path / "began"
        await w.gateway.say("s", script("Long text", {"touch": str(mark)}, {"hang": True}))
        await until(_exists(mark))
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        assert any("Stopped by me" in n for n in await w.texts("s", "notice"))
        assert (await w.ask(script("Next.")))[-1] == "Next."


async def test_a_stop_that_names_its_turn_stops_the_next_attempt_but_no_turn_behind_it(tmp_path: Path) -> None:
    """As a face repeats it whose first request got no answer."""
    async with World(tmp_path) as w:
        mark, later, gate = tmp_path / "began again", tmp_path / "began later", tmp_path / "go on"
        first = ["Half an ans", {"sleep": 0.2}, {"die": 9}]
        await w.gateway.say("s", f"[[script {_attempts(first, [{'touch': str(mark)}, {'hang': True}])}]]")
        await until(_exists(mark))
        assert (await w.gateway.session("s"))["turn"] == 2
        await w.gateway.say("s", script({"touch": str(later)}, {"wait": str(gate)}, "Another's."))
        assert await w.gateway.controls.stop_turn("s", "me", turn=1)
        await until(_exists(later))
        assert not await w.gateway.controls.stop_turn("s", "me", turn=1)
        gate.touch()
        await w.idle()
        assert (await w.texts("s", "agent"))[-1] == "Another's."
        assert await w.texts("s", "notice") == ["Stopped by me."]


async def test_a_stop_while_the_agent_still_starts_is_heard(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script("Never said."))
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        assert await w.texts("s", "agent") == []
        assert any("Stopped by me" in n for n in await w.texts("s", "notice"))


async def test_an_agent_that_does_not_hear_the_stop_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.gateway.turns.run.CANCEL_TIMEOUT_S", 0.3)
    async with World(tmp_path) as w:
        mark = tmp_path / "began"
        await w.gateway.say("s", script("Long text", {"deaf": True}, {"touch": str(mark)}, {"sleep": 60}))
        await until(_exists(mark))
        await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        assert (await w.ask(script("Next.")))[-1] == "Next."


async def test_an_idle_agent_that_is_killed_is_started_again_for_the_next_message(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("one"))
        live = next(iter(w.gateway.spawns.live.values()))
        story = await w.gateway.record.read(lambda tx: tx.one(SpawnRow, "spawn_get", id=live.spawn))
        os.kill(story.pid, signal.SIGKILL)
        await until(_gone(w))
        assert await w.ask(script("two")) == ["one", "two"]
        turns = await w.gateway.record.read(lambda tx: tx.all(TurnRow, "turns_of_root", root=2))
        assert len(turns) == 1


async def test_a_permission_request_is_asked_answered_once_and_survives_a_reconnect(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        ask = {"permission": "rm -r build", "allowed": ["tidy"], "denied": ["left"]}
        await w.gateway.say("s", script(ask))
        item = await _open_request(w)
        assert item["state"] == "open"
        again = await _open_request(w)
        assert again["id"] == item["id"]
        option = next(o["optionId"] for o in item["options"] if o["kind"] == "allow_once")
        both = await asyncio.gather(
            w.gateway.controls.answer("s", item["id"], option, "page"),
            w.gateway.controls.answer("s", item["id"], option, "terminal"),
        )
        assert sorted(both) == ["already", "answered"]
        await w.idle()
        assert await w.texts("s", "agent") == ["tidy"]


async def test_an_answer_is_not_called_cancelled_because_a_second_person_answers_before_it_is_passed_on(
    tmp_path: Path,
) -> None:
    """The first one's answer was recorded, and its caller hears so late: if the second one's were passed on, the turn
    would have ended by then."""
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"permission": "rm", "allowed": ["tidy"], "denied": ["left"]}))
        item = await _open_request(w)
        option = next(o["optionId"] for o in item["options"] if o["kind"] == "reject_once")
        second: list[asyncio.Task[str]] = []
        write = w.gateway.record.write

        async def write_slowly(transaction: Any, *values: Any) -> Any:
            result = await write(transaction, *values)
            if transaction is answers.record_answer and "first" in values:
                second.append(asyncio.create_task(w.gateway.controls.answer("s", item["id"], option, "second")))
                if (await asyncio.wait(second, timeout=0.3))[0]:
                    await w.idle()
            return result

        w.gateway.record.write = write_slowly  # type: ignore[method-assign]
        assert await w.gateway.controls.answer("s", item["id"], option, "first") == "answered"
        assert await second[0] == "already"
        await w.idle()
        snapshot = await anext(w.gateway.watch("s"))
        assert [i["state"] for i in snapshot["items"] if i["id"] == item["id"]] == ["answered"]
        assert await w.texts("s", "agent") == ["left"]


async def test_a_cancel_answers_an_open_permission_request_as_cancelled(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"permission": "rm", "allowed": ["tidy"], "denied": ["left"]}))
        item = await _open_request(w)
        await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        snapshot = await anext(w.gateway.watch("s"))
        states = [i["state"] for i in snapshot["items"] if i["id"] == item["id"]]
        assert states == ["cancelled"]
        assert await w.gateway.controls.answer("s", item["id"], None, "page") == "closed"


async def test_an_answer_that_is_recorded_before_its_deadline_reaches_the_agent(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"permission": "rm", "allowed": ["tidy"], "denied": ["left"]}))
        item = await _open_request(w)
        (running,) = w.gateway.turns.runs.values()
        ((slot, one),) = running.permissions.open.items()
        assert one.timer is not None
        one.timer.cancel()
        running.permissions.on_expired(
            turn_ops.ItemSet(slot, {"state": "expired"}, live=False)
        )  # it passes, and is not recorded
        option = next(o["optionId"] for o in item["options"] if o["kind"] == "allow_once")
        told = await w.gateway.controls.answer("s", item["id"], option, "page")
        await w.idle()
        snapshot = await anext(w.gateway.watch("s"))
        (state,) = [i["state"] for i in snapshot["items"] if i["id"] == item["id"]]
        said = await w.texts("s", "agent")
        assert (told, state, said) in (("answered", "answered", ["tidy"]), ("closed", "expired", ["left"]))


async def test_a_deadline_that_passes_is_told_to_the_agent(tmp_path: Path) -> None:
    async with World(tmp_path, permission_deadline_s=0.3) as w:
        await w.gateway.say("s", script({"permission": "rm", "allowed": ["tidy"], "denied": ["left"]}))
        await w.idle()
        snapshot = await anext(w.gateway.watch("s"))
        (item,) = [i for i in snapshot["items"] if i["kind"] == "permission"]
        assert (item["state"], await w.texts("s", "agent")) == ("expired", ["left"])
        assert await w.gateway.controls.answer("s", item["id"], None, "page") == "closed"


async def test_idle_agents_make_room_and_resume_with_their_memory(tmp_path: Path) -> None:
    async with World(tmp_path, max_live_agents=1) as w:
        await w.ask("remember me", session="a")
        await w.ask("and me", session="b")
        assert len(w.gateway.spawns.live) == 1
        await w.ask("still there?", session="a")
        live = next(iter(w.gateway.spawns.live.values()))
        assert live.conversation.restored == "loaded"
        entries = await w.entries("a")
        assert [e["role"] for e in entries] == ["user", "agent", "user", "agent"]


async def _open_request(w: World, after: int = 0) -> Json:
    found: list[Json] = []

    async def there() -> bool:
        snapshot = await anext(w.gateway.watch("s"))
        found[:] = [
            i for i in snapshot["items"] if i["kind"] == "permission" and i["state"] == "open" and i["id"] > after
        ]
        return bool(found)

    await w.gateway.sessions()
    await until(there)
    return found[0]


def _attempts(*attempts: list[Any]) -> str:
    return json.dumps({"attempts": list(attempts), "name": "a"})


def _gone(w: World) -> Any:
    async def there() -> bool:
        return not w.gateway.spawns.live

    return there


def _exists(path: Path) -> Any:
    async def there() -> bool:
        return path.exists()

    return there


async def test_an_idle_agent_is_ended_after_a_while_and_restored_for_the_next_message(tmp_path: Path) -> None:
    async with World(tmp_path, idle_after_s=0.2) as w:
        await w.ask("remember me")
        await until(_gone(w))
        assert len(await w.ask("still there?")) == 2
        live = next(iter(w.gateway.spawns.live.values()))
        assert live.conversation.restored == "loaded"


async def test_an_agent_that_lost_its_memory_is_given_a_programs_instructions_again(tmp_path: Path) -> None:
    log, state = tmp_path / "prompts", tmp_path / "state"
    async with World(tmp_path, args=("--log", str(log), "--state", str(state)), idle_after_s=0.2) as w:
        await w.gateway.report("s", "instructions", "Be brief.", wakes=False)
        await w.ask("remember me")
        await until(_gone(w))
        shutil.rmtree(state)
        await w.ask("still there?")
        told = json.loads(log.read_text().splitlines()[-1])["text"]
        assert "follow them]\nBe brief.\n[/semel]" in told and told.count("Be brief.") == 1
        assert "this conversation so far" in told and "user: remember me" in told


async def test_a_command_that_is_not_there_fails_the_turn_with_a_notice_that_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    agent = world.settings.agents["demo"]
    broken = agent.model_copy(update={"command": ("no-such-agent-here",)})
    world.settings = world.settings.model_copy(update={"agents": {"demo": broken}})
    async with world as w:
        assert await w.ask("hello") == []
        notices = await w.texts("s", "notice")
        assert len(notices) == 1
        assert "no-such-agent-here" in notices[0]


async def test_what_the_agent_may_not_remember_is_told_in_its_next_prompt(tmp_path: Path) -> None:
    log = tmp_path / "prompts"
    async with World(tmp_path, args=("--log", str(log))) as w:
        mark = tmp_path / "began"
        await w.gateway.say("s", script("Shown before", {"touch": str(mark)}, {"hang": True}))
        await until(_exists(mark))
        run = next(iter(w.gateway.turns.runs.values()))
        await run.flush()
        await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        await w.ask(script("Next."))
        await w.ask(script("And next."))
        prompts = [json.loads(line)["text"] for line in log.read_text().splitlines()]
        assert "Shown before" in prompts[1].split("[/semel]")[0]
        assert "[semel" not in prompts[2]
