"""Commands on a running gateway: heard once, done once, answered by a notice, never given to the agent."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from command_world import answer, command, exists, given
from gateway_world import World, script, until

from semel.gateway.inbound.command_replies import format_choices
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import agent_notices
from semel.testing.channels import FakeChannel, Fault, Platform


async def test_a_command_is_answered_and_the_agent_never_hears_of_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with World(tmp_path, args=("--log", str(log))) as w:
        await w.ask("hello")
        assert "State: idle" in await command(w, "/status", sender="Ada")
        assert "/retry" in await command(w, "/help")
        assert "the owner: hello" in await command(w, "/history")
        assert "ended well" in await command(w, "/retry")
        assert await command(w, "/stop") == "Nothing runs here."
        await w.ask("bye")
        assert [text.splitlines()[-1] for text in given(log)] == ["hello", "bye"]
        assert not any("status" in text.lower() for text in given(log))
        rows = await w.entries()
        asked = next(row for row in rows if row["text"] == "/status")
        assert (asked["role"], asked["kind"], asked["sender"]) == ("user", "command", "Ada")
        story = await w.gateway.why(f"e{asked['event']}")
        assert any("answered in entry" in line["text"] for line in story["lines"])


async def test_the_history_is_that_of_the_chapter(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("before")
        await command(w, "/new")
        assert await command(w, "/history") == "Nothing was said in this chapter yet."
        await w.ask("after")
        history = await command(w, "/history")
        assert "after" in history and "before" not in history


async def test_the_history_shows_an_answer_once_that_a_lost_attempt_had_begun(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        attempts = [["Half an ans", {"sleep": 0.2}, {"die": 9}], ["Half an answer, whole."]]
        await w.ask(script(name="a", attempts=attempts))
        assert [text for text in await w.texts("s", "agent") if text.startswith("Half")] == [
            "Half an ans",
            "Half an answer, whole.",
        ]
        lines = (await command(w, "/history")).splitlines()
        assert [line for line in lines if line.startswith("agent: ")] == ["agent: Half an answer, whole."]


async def test_what_starts_no_turn_does_not_count_as_waiting_for_one(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        await w.gateway.report("s", "instructions", "Be brief.", wakes=False)
        assert (await command(w, "/new")).endswith("nothing of what was said before.")


async def test_a_command_that_is_delivered_again_is_done_once(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script({"error": {"code": 1, "message": "broken"}}))
        first = await w.gateway.say("s", "/retry", key="r1", source="channel:hook")
        again = await w.gateway.say("s", "/retry", key="r1", source="channel:hook")
        assert (first.event, first.status, again.event, again.status) == (
            again.event,
            "accepted",
            first.event,
            "duplicate",
        )
        assert "runs again" in await answer(w, first.event)
        await w.idle()
        other = await w.gateway.say("s", "/stop", key="r1", source="channel:hook")
        assert other.status == "conflict"
        assert len([row for row in await w.entries() if row.get("kind") == "turn.failed"]) == 2
        assert len([row for row in await w.entries() if row["text"] == "/retry"]) == 1


async def test_a_message_and_a_command_under_one_key_are_a_conflict(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        assert (await w.gateway.say("s", "//status", key="k")).status == "accepted"
        assert (await w.gateway.say("s", "/status", key="k")).status == "conflict"
        assert (await w.gateway.say("s", "//status", key="k")).status == "duplicate"
        await w.idle()
        assert await w.texts("s", "user") == ["/status"]


async def test_stop_stops_the_turn_that_ran_and_no_later_one(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script("began", {"touch": str(tmp_path / "a")}, {"hang": True}))
        await until(exists(tmp_path / "a"))
        assert "is being stopped" in await command(w, "/stop", sender="Ada")
        await w.idle()
        assert "Stopped by Ada." in await w.texts("s", "notice")
        await w.gateway.say("s", "/stop")
        assert "said" in (await w.ask(script("said")))[-1]


async def test_a_stop_given_while_nothing_ran_spares_the_turn_that_takes_an_older_report_along(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with World(tmp_path) as w:
        wake = w.gateway.commands.wake
        w.gateway.commands.wake = lambda session: None  # type: ignore[method-assign]  # the command is executed later
        await w.gateway.say("s", "q1 is built", wakes=False)
        stop = await w.gateway.say("s", "/stop", sender="Ada")
        await w.gateway.say("s", script("began", {"wait": str(go)}, {"touch": str(tmp_path / "done")}))
        await until(lambda: asyncio.sleep(0, bool(w.gateway.turns.runs)))
        wake(await w.gateway.record.find_session("s"))
        assert await answer(w, stop.event) == "Nothing runs here."
        go.touch()
        await w.idle()
        assert await w.texts("s", "agent") == ["began"]
        assert (tmp_path / "done").exists()


async def test_a_stop_that_is_left_to_the_next_gateway_spares_the_turn_that_began_after_it(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.start()
    w.gateway.commands.wake = lambda session: None  # type: ignore[method-assign]  # as if killed right there
    stop = await w.gateway.say("s", "/stop", sender="Ada")
    attempts = [[{"touch": str(tmp_path / "a")}, {"hang": True}], ["well now"]]
    await w.gateway.say("s", script(attempts=attempts, name="n"))
    await until(exists(tmp_path / "a"))
    await w.stop()
    async with World(tmp_path) as w:
        assert await answer(w, stop.event) == "Nothing runs here."
        await w.idle()
        assert await w.texts("s", "agent") == ["well now"]


async def test_retry_runs_a_failed_turn_again_without_a_second_message(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        steps = {"attempts": [[{"error": {"code": 1, "message": "broken"}}], ["well now"]], "name": "n"}
        await w.ask(script(**steps))
        assert (await command(w, "/status")).endswith("; /retry runs it again")
        assert "runs again" in await command(w, "/retry")
        await w.idle()
        assert await w.texts("s", "agent") == ["well now"]
        assert len(await w.texts("s", "user")) == 3  # the message once, and two commands
        turns = [row["turn"] for row in await w.entries() if row["role"] == "agent"]
        assert "ended well" in await command(w, "/retry")
        assert turns == [2]


async def test_retry_while_a_turn_runs_is_refused(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"touch": str(tmp_path / "a")}, {"hang": True}))
        await until(exists(tmp_path / "a"))
        assert "/stop it first" in await command(w, "/retry")
        await command(w, "/stop")
        await w.idle()
        assert "runs again" in await command(w, "/retry")
        await until(exists(tmp_path / "a"))
        await command(w, "/stop")
        await w.idle()


async def test_modes_and_models_are_listed_and_switched(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        assert await command(w, "/mode") == "Modes:\n* auto\n- ask"
        assert await command(w, "/mode ASK") == "The mode is ask now."
        assert await command(w, "/mode") == "Modes:\n- auto\n* ask"
        assert await command(w, "/model gpt-9") == "There is no model 'gpt-9'. There are: brisk, slow"
        assert await command(w, "/model slw") == "There is no model 'slw'; did you mean slow? There are: brisk, slow"
        assert await command(w, "/model slow") == "The model is slow now."
        assert "Model: slow" in await command(w, "/status")


async def test_a_mode_in_which_nobody_is_asked_is_told_when_it_is_chosen(tmp_path: Path) -> None:
    async with World(tmp_path, args=("--name", "claude-agent-acp")) as w:
        alone = (
            "The mode is auto now. In this mode the agent decides by itself: nobody is asked for a permission any more."
        )
        assert await command(w, "/mode auto") == alone, "before the first message"
        await w.ask("hello")
        assert await command(w, "/mode ask") == "The mode is ask now."
        assert await command(w, "/mode auto") == alone
        assert await command(w, "/mode") == "Modes:\n* auto (asks nobody)\n- ask"
        assert (await w.gateway.session("s"))["unattended_modes"] == ["auto"]


def test_the_variants_of_a_model_are_listed_on_one_line() -> None:
    """codex-acp 2.6.0 offers 48 models: nine of them, in up to six efforts."""
    codex = [f"gpt-{number}[{effort}]" for number in (6, 5) for effort in ("low", "high", "max")]
    listed = "Models:\n* gpt-6[high]; also [low], [max]\n- gpt-5[low]; also [high], [max]"
    assert format_choices("model", "gpt-6[high]", codex) == listed
    assert format_choices("model", "opus", ["opus", "opus[1m]"]) == "Models:\n* opus; also [1m]"
    assert format_choices("model", "opus[1m]", ["opus", "opus[1m]"]) == "Models:\n* opus[1m]; also opus"


async def test_a_mode_chosen_before_the_first_message_is_on_when_the_agent_starts(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        assert await command(w, "/mode") == "Modes:\n* auto\n- ask"
        assert await command(w, "/mode Ask") == "The mode is ask now."
        assert not w.gateway.spawns.live, "no agent is kept for it"
        await w.ask("hello")
        assert _running_mode(w) == "ask"


async def test_a_mode_chosen_after_the_agent_ended_is_on_when_it_starts_again(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        await w.gateway.spawns.end(1, "idle")
        assert await command(w, "/mode ask") == "The mode is ask now."
        assert await command(w, "/mode") == "Modes:\n- auto\n* ask"
        await w.ask("hello again")
        assert _running_mode(w) == "ask"


LISTS_MODES_ONCE = """
import json, sys
def out(id, **result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def say(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": "s1", "update": update}
    print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}), flush=True)
mode = "write"
for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize": out(got["id"], protocolVersion=1, agentCapabilities={"loadSession": True})
        case "session/new":
            modes = {"currentModeId": mode, "availableModes": [{"id": "write"}, {"id": "look"}]}
            out(got["id"], sessionId="s1", modes=modes)
        case "session/load": out(got["id"])
        case "session/set_mode":
            mode = got["params"]["modeId"]
            out(got["id"])
        case "session/prompt":
            say(f"in {mode}")
            out(got["id"], stopReason="end_turn")
"""


async def test_a_mode_that_the_agent_does_not_tell_again_is_on_after_a_restart(tmp_path: Path) -> None:
    """As with agentao: what people see as the session's mode is the one in which the agent works."""
    (tmp_path / "agent.py").write_text(LISTS_MODES_ONCE)
    async with World(tmp_path, command=(sys.executable, str(tmp_path / "agent.py"))) as w:
        await w.ask("hello")
        assert await command(w, "/mode look") == "The mode is look now."
        await w.gateway.spawns.end(1, "idle")
        assert (await w.ask("hello again"))[-1] == "in look"
        assert await command(w, "/mode fly") == "There is no mode 'fly'. There are: write, look"
        assert await command(w, "/mode write") == "The mode is write now."
        assert (await w.ask("and again"))[-1] == "in write"


async def test_a_choice_that_the_agent_does_not_offer_any_more_is_dropped(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        await w.gateway.spawns.end(1, "idle")
        await w.gateway.record.write(lambda tx: entries.set_about(tx, 1, {"mode": "gone"}))
        await w.ask("hello again")
        assert _running_mode(w) == "auto"
        assert await command(w, "/mode") == "Modes:\n* auto\n- ask"


def _running_mode(world: World) -> str:
    [live] = world.gateway.spawns.live.values()
    assert live.conversation.modes is not None
    return str(live.conversation.modes["currentModeId"])


async def test_an_agent_that_tells_of_no_models_is_not_said_to_tell_of_them_later(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        await w.gateway.record.write(_forget)
        assert await command(w, "/model") == "The agent has reported no models."
        assert await command(w, "/mode ask") == "The agent has reported no modes."


def _forget(tx: Tx) -> None:
    """As of an agent that tells of neither modes nor models."""
    tx.run("session_set_about", id=1, about="{}")


async def test_queue_and_steer_say_a_text_or_set_the_sessions_mode(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"touch": str(tmp_path / "a")}, {"wait": str(tmp_path / "b")}))
        await until(exists(tmp_path / "a"))
        heard = await w.gateway.say("s", "/queue " + script("second"))
        assert heard.waiting == "queue"
        assert "join it" in await command(w, "/steer")
        assert (await w.gateway.session("s"))["busy"] == "steer"
        assert "wait for its end" in await command(w, "/queue")
        assert (await w.gateway.session("s"))["busy"] == "queue"
        (tmp_path / "b").touch()
        await w.idle()
        assert (await w.texts("s", "agent"))[-1] == "second"
        assert script("second") in await w.texts("s", "user")


async def test_a_slip_is_told_and_the_agents_own_commands_pass(tmp_path: Path) -> None:
    own = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "modes", "description": "d"}]}
    async with World(tmp_path) as w:
        assert "did you mean /mode?" in await command(w, "/modes")
        await w.ask(script({"update": own}, "ready"))
        assert "You said: /modes" in (await w.ask("/modes"))[-1]
        assert "You said: /etc/hosts" in (await w.ask("/etc/hosts"))[-1]
        assert "You said: /stop the presses" in (await w.ask("/stop the presses"))[-1]
        assert "You said: /stop" in (await w.ask("//stop"))[-1]
        assert (await w.texts("s", "user"))[-1] == "/stop"


async def test_what_programs_send_is_never_a_command(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", "/new", automatic=True)
        await w.gateway.report("s", "exec.finished", "/stop")
        await w.idle()
        assert [row.get("kind") for row in await w.entries() if row["role"] != "agent"] == [None, "exec.finished"]


async def test_an_answer_reaches_the_person_in_a_chat(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT, max_len=400)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    async with World(tmp_path, channels={"chat": chat}, channel_settings=settings) as w:
        await w.gateway.inbox.hear(source="channel:chat", session="demo:chat:room", key="1", text="/help", sender="Ada")
        await w.gateway.inbox.hear(source="channel:chat", session="demo:chat:room", key="1", text="/help", sender="Ada")

        async def all_left() -> bool:
            return sum(map(len, chat.platform.shown("room"))) > 400

        await until(all_left)  # a long answer leaves in parts
        assert len(chat.platform.shown("room")) > 1
        assert all(len(text) <= 400 for text in chat.platform.shown("room"))
        assert "/retry" in "".join(chat.platform.shown("room"))
        assert await w.texts("demo:chat:room", "agent") == []


async def test_a_command_that_was_heard_and_not_done_is_done_by_the_next_gateway(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.start()
    await w.gateway.say("s", script({"touch": str(tmp_path / "a")}, {"hang": True}))
    await until(exists(tmp_path / "a"))
    w.gateway.commands.wake = lambda session: None  # type: ignore[method-assign]  # as if killed right there
    heard = await w.gateway.say("s", "/stop", sender="Ada")
    await w.stop()
    async with World(tmp_path) as w:
        assert await answer(w, heard.event) == "The running turn was stopped."
        await w.idle()
        assert "Stopped by Ada." in await w.texts("s", "notice")
        assert "runs again" in await command(w, "/retry")
        await command(w, "/stop")
        await w.idle()


async def test_retry_runs_a_turn_again_that_ended_without_a_word(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script(attempts=[[], ["well now"]], name="n"))
        assert (await w.entries())[-1]["kind"] == "turn.empty"
        assert "Last turn: t1 ended without a word; /retry runs it again" in await command(w, "/status")
        assert "runs again" in await command(w, "/retry")
        await w.idle()
        assert await w.texts("s", "agent") == ["well now"]
        assert "ended well" in await command(w, "/status")
        assert "ended well" in await command(w, "/retry")


async def test_status_tells_that_the_agent_is_silent_or_why_it_tries_again_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"message": "Reconnecting... 1/5", "additionalDetails": "The server is busy.", "willRetry": True}
    retry = {"update": {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": error}}}}
    begins, goes_on, ends = tmp_path / "begins", tmp_path / "goes on", tmp_path / "ends"
    async with World(tmp_path) as w:
        await w.gateway.say(
            "s", script({"wait": str(begins)}, "Before.", retry, {"wait": str(goes_on)}, "After.", {"wait": str(ends)})
        )

        async def is_silent() -> bool:
            status = await command(w, "/status")
            return "State: a turn runs\nNothing came from the agent yet: its key may be refused\n" in status

        assert not await is_silent()
        monkeypatch.setattr(agent_notices, "SILENT_MS", -1)
        await until(is_silent)
        assert [notice.get("silent") for notice in (await w.gateway.overview())["agent_notices"]] == ["demo"]
        begins.touch()

        async def is_told() -> bool:
            status = await command(w, "/status")
            told = re.search(r"The agent said \d+ s ago: Reconnecting\.\.\. 1/5 The server is busy\.\n", status)
            assert told is None or "Nothing came" not in status
            return told is not None and re.search(r"Last turn: t1 runs, for \d+ s$", status) is not None

        await until(is_told)
        (notice,) = (await w.gateway.overview())["agent_notices"]
        assert (notice["session"], notice["turn"]) == ("s", "t1") and notice["at"] <= notice["said_at"]
        assert notice["says"] == "Reconnecting... 1/5\nThe server is busy."
        goes_on.touch()

        async def has_gone_on() -> bool:
            return "The agent said" not in await command(w, "/status")

        await until(has_gone_on)
        assert (await w.gateway.overview())["agent_notices"] == []
        ends.touch()
        await w.idle()
        assert (await w.gateway.overview())["agent_notices"] == []


async def test_status_tells_that_the_turn_asks_for_a_permission(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"permission": "rm", "allowed": ["tidy"], "denied": ["left"]}))

        async def is_told() -> bool:
            return "State: a turn runs; it asks for a permission: rm" in await command(w, "/status")

        await until(is_told)
        await command(w, "/stop")
        await w.idle()
        assert "it asks" not in await command(w, "/status")


async def test_status_tells_that_a_question_waits_for_an_answer(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script({"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}))
        assert "State: its question waits for an answer: Which? 1. red 2. blue" in await command(w, "/status")
        await w.ask(script("blue, then"))
        assert "State: idle" in await command(w, "/status")


async def test_status_in_a_chat_tells_what_did_not_arrive_there(tmp_path: Path) -> None:
    platform = Platform()
    channel = FakeChannel("chat", Safety.AT_MOST_ONCE, platform)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    room = "demo:chat:room"
    async with World(tmp_path, channels={"chat": channel}, channel_settings=settings) as w:
        assert "Delivery" not in await command(w, "/status", room)
        await w.sent()
        platform.fail_next(Fault.REJECT, Fault.DROP, Fault.REFUSE)
        for words, ends in (("one", "rejected"), ("two", "held"), ("three", "queued")):
            await w.ask(script(words), room)

            async def has_ended(words: str = words, ends: str = ends) -> bool:
                parts = await w.gateway.parts()
                return any(part["text"] == words and part["state"] == ends and part.get("error") for part in parts)

            await until(has_ended)
        told = (await command(w, "/status", room)).splitlines()[-1]
        assert told.startswith(
            "Delivery here: 1 message of the last day did not arrive, 1 message may not have arrived"
        )
        assert told.endswith(". /history shows them whole")
        history = (await command(w, "/history", room)).splitlines()
        assert [line for line in history if line.startswith("agent")] == [
            "agent (did not arrive): one", "agent (may not have arrived): two", "agent: three",
        ]  # fmt: skip
        [held] = await w.gateway.parts("held")
        await w.gateway.decide_part(held["id"], "drop")
        history = (await command(w, "/history", room)).splitlines()
        assert "agent (dropped): two" in history
        assert "may not have arrived" not in (await command(w, "/status", room))


async def test_what_may_not_have_arrived_is_read_whole_in_the_chat_whatever_followed(tmp_path: Path) -> None:
    platform = Platform()
    channel = FakeChannel("chat", Safety.AT_MOST_ONCE, platform, files=True)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    room, long = "demo:chat:room", "words " * 100 + "to its end"
    async with World(tmp_path, channels={"chat": channel}, channel_settings=settings) as w:
        (w.work / "plan.txt").write_text("a plan")
        platform.fail_next(Fault.DROP)
        await w.ask(script({"call": "send_file", "arguments": {"path": "plan.txt"}}), room)
        await until(lambda: _are_held(w, 1))
        assert (await command(w, "/history 1", room)) == "agent (may not have arrived): [file plan.txt]"
        await w.sent()
        platform.fail_next(Fault.DROP)
        await w.ask(script(long), room)
        await until(lambda: _are_held(w, 2))
        for _ in range(4):
            await w.ask("and more", room)
        status = await command(w, "/status", room)
        assert status.endswith("Delivery here: 2 messages may not have arrived. /history 11 shows them whole"), status
        assert f"agent (may not have arrived): {long}" in (await command(w, "/history 11", room)).splitlines()
        await command(w, "/new", room)
        status = await command(w, "/status", room)
        assert status.endswith(": 2 messages may not have arrived. The owner can read them on the page"), status


async def _are_held(w: World, number: int) -> bool:
    return len(await w.gateway.parts("held")) == number
