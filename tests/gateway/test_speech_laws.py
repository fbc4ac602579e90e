"""Law 5 and 6 on a running gateway with a real agent process: what the tool said and what the closing text says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_world import PATIENCE, World, destination, script, until

from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.gateway.turns.announcements import ANNOUNCEMENT_TIMEOUT_S
from semel.ledger.storage.rows import ClaimRow
from semel.testing import FakeChannel, Platform

Json = dict[str, Any]


def _exists(path: Path) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        return path.exists()

    return exists


def send(text: str, **arguments: Any) -> Json:
    return {"call": "send_message", "arguments": {"text": text, **arguments}}


async def test_a_closing_text_that_repeats_the_tool_verbatim_is_an_echo(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        said = await w.ask(script({"text": "On it. "}, send("The report is ready."), {"text": "The report is ready."}))
        assert said == ["On it. ", "The report is ready."]
        assert (await w.entries())[-1]["echoes"] == 1


async def test_a_different_closing_text_is_delivered(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        said = await w.ask(script(send("On it - looking at your calendar."), "Tomorrow at 2pm you are free."))
        assert said == ["On it - looking at your calendar.", "Tomorrow at 2pm you are free."]


async def test_white_space_is_folded_and_case_is_kept(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        said = await w.ask(
            script(send("hello  big\nworld"), {"tool": "gap"}, "Hello big world", {"tool": "gap"}, "hello big world ")
        )
        assert said == ["hello  big\nworld", "Hello big world"]


async def test_a_reaction_claims_nothing(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        react = {"call": "add_reaction", "arguments": {"emoji": "thumbsup"}}
        await w.ask(script(react, "thumbsup"))
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        assert [e.get("kind") for e in entries] == ["reaction", None]
        assert entries[0]["of"] == 1
        assert entries[1]["text"] == "thumbsup"


async def test_a_second_tool_call_that_repeats_itself_is_said(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        said = await w.ask(script(send("Same text."), send("Same text."), "Same text."))
        assert said == ["Same text.", "Same text."]


async def test_two_honest_blocks_of_the_same_text_are_both_said(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        said = await w.ask(script("ha", {"tool": "breathe"}, "ha"))
        assert said == ["ha", "ha"]


async def test_the_same_text_to_another_destination_is_delivered_and_known_there(tmp_path: Path) -> None:
    async with World(tmp_path, destinations=destination("family", "fam")) as w:
        await w.ask(script("Hello family."), session="fam")
        said = await w.ask(script(send("Dinner at 7.", to="family"), "Dinner at 7."))
        assert said == ["Dinner at 7.", "Dinner at 7."]
        there = await w.entries("fam")
        assert there[-1]["text"] == "Dinner at 7."
        assert there[-1]["from"] == "s"
        assert [e["role"] for e in there] == ["user", "agent", "agent"]


async def test_an_echo_in_the_next_turn_is_said(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script(send("Done."), "Done."))
        said = await w.ask(script("Done."))
        assert said == ["Done.", "Done."]


async def test_what_may_be_an_echo_is_not_previewed_until_it_differs(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        watch = w.gateway.watch("s")
        go = tmp_path / "go"
        await w.gateway.say(
            "s",
            script(
                send("The report is ready."), {"text": "The report is"}, {"touch": str(tmp_path / "held")},
                {"wait": str(go)}, {"text": " late."},
            ),
        )  # fmt: skip
        seen: list[Json] = []

        async def judge() -> None:
            await until(_exists(tmp_path / "held"))
            await next(iter(w.gateway.turns.runs.values())).flush()
            texts = [c.get("text", "") for c in seen if c["op"] in ("entry", "append")]
            assert not [t for t in texts if t.startswith("The report is") and t != "The report is ready."]
            go.touch()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as both:
            both.create_task(judge())
            async for message in watch:
                seen += message.get("changes", [])
                if any(e["op"] == "entry" and e.get("text") == "The report is late." for e in seen):
                    break
        await w.idle()
        assert await w.texts("s", "agent") == ["The report is ready.", "The report is late."]


@pytest.mark.parametrize(("agent", "delay_s"), [("unknown", 0.3), ("OpenCode", 2.0)])
async def test_a_call_that_overtakes_the_stream_is_recorded_behind_what_was_said_before_it(
    tmp_path: Path, agent: str, delay_s: float
) -> None:
    told = {"toolCallId": "t1", "title": "mcp__semel__send_message", "rawInput": {"text": "The report is ready."}}
    late = [
        {"sleep": delay_s}, {"text": "On it. ", "chunks": 1},
        {"update": {"sessionUpdate": "tool_call", **told, "status": "in_progress"}},
    ]  # fmt: skip
    async with World(tmp_path, args=("--name", agent)) as w:
        call = {**send("The report is ready."), "announce": False}
        said = await w.ask(script({"together": [call, late]}, {"text": "Done.", "message": "another"}))
        assert said == ["On it. ", "The report is ready.", "Done."]


async def test_the_first_call_of_an_agent_that_tells_of_no_calls_is_soon_made(tmp_path: Path) -> None:
    """Which turn it belongs to is no question in a process's first turn; what was said before it stays before it."""
    async with World(tmp_path) as w:
        await w.ask(script("warm"), session="other")
        loop = asyncio.get_running_loop()
        for _ in range(2):
            call = {**send("The report is ready."), "announce": False}
            began = loop.time()
            said = await w.ask(script({"text": "On it. ", "chunks": 3}, call, call | {"id": "c2"}, "Done."))
            assert said[-4:] == ["On it. ", "The report is ready.", "The report is ready.", "Done."]
            took = loop.time() - began
            assert took < 2 * ANNOUNCEMENT_TIMEOUT_S, "neither of the calls was waited for in vain"
        [live] = [one for one in w.gateway.spawns.live.values() if one.key == "s"]
        assert live.announces is False


async def test_a_call_that_is_told_of_late_in_the_first_turn_is_waited_for_in_the_next(tmp_path: Path) -> None:
    told = {"toolCallId": "t1", "title": "mcp__semel__send_message", "rawInput": {"text": "The report is ready."}}
    late = [{"update": {"sessionUpdate": "tool_call", **told, "status": "completed"}}]
    async with World(tmp_path) as w:
        call = {**send("The report is ready."), "announce": False}
        await w.ask(script(call, *late, "Done."))
        [live] = w.gateway.spawns.live.values()
        assert live.announces is True


async def test_addressed_text_goes_where_it_is_addressed(tmp_path: Path) -> None:
    async with World(tmp_path, destinations=destination("family", "fam")) as w:
        await w.ask(script("hi"), session="fam")
        text = 'Home text. <internal>secret</internal><message to="family">To the family.</message>'
        said = await w.ask(script({"text": text, "chunks": 20}))
        assert said[0].strip() == "Home text."
        assert said[1] == "To the family."
        assert (await w.texts("fam"))[-1] == "To the family."
        assert not any("secret" in t for t in await w.texts("s", "agent"))


async def test_markup_is_text_where_only_home_can_be_reached(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        text = '<message to="family">To the family.</message>'
        assert await w.ask(script({"text": text, "chunks": 9})) == [text]


async def test_an_unknown_name_is_held_back_told_and_may_be_corrected_once(tmp_path: Path) -> None:
    async with World(tmp_path, destinations=destination("family", "fam")) as w:
        await w.ask(script("hi"), session="fam")
        wrong = '<message to="fmaily">Dinner?</message>'
        right = '<message to="family">Dinner?</message>'
        said = await w.ask(script(wrong, resume=[right]))
        assert said == ["Dinner?"]
        assert any("fmaily" in t for t in await w.texts("s", "notice"))
        assert (await w.texts("fam"))[-1] == "Dinner?"
        turns = {e.get("turn") for e in await w.entries() if e["role"] == "agent"}
        assert len(turns) == 1


async def test_a_silent_turn_is_told_to_the_person(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script({"think": "hm"}))
        assert await w.texts("s", "agent") == []
        assert len(await w.texts("s", "notice")) == 1


async def test_a_file_inside_the_workspace_is_copied_before_the_send(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        (w.work / "report.txt").write_text("figures")
        (w.work / "dot.gif").write_bytes(b"GIF89a\x02\0\x01\0")
        call = {"call": "send_file", "arguments": {"path": "report.txt", "text": "The report."}}
        await w.ask(script(call, {"call": "send_file", "arguments": {"path": "dot.gif"}}, "The report."))
        entry, image = [e for e in await w.entries() if e["role"] == "agent"]
        assert entry["files"][0]["name"] == "report.txt" and "width" not in entry["files"][0]
        assert (image["files"][0]["width"], image["files"][0]["height"]) == (2, 1)
        (w.work / "report.txt").write_text("changed")
        content, name, _ = await w.gateway.open_blob(entry["files"][0]["id"])
        with content:
            assert (content.read(), name) == (b"figures", "report.txt")
        assert await w.texts("s", "agent") == ["The report.", ""]


async def test_a_file_of_a_refused_call_does_not_stay(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        (w.work / "report.txt").write_text("figures")
        await w.ask(script({"call": "send_file", "arguments": {"path": "report.txt", "to": "nobody"}}, "sorry"))
        assert "Held back" in (await w.texts("s", "notice"))[0]

        async def gone() -> bool:
            return list(w.gateway.file_store.content.folder.iterdir()) == []

        await until(gone)


async def test_a_file_outside_the_workspace_is_refused_and_recorded(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script({"call": "send_file", "arguments": {"path": "/etc/hostname"}}, "sorry"))
        assert await w.texts("s", "agent") == ["sorry"]
        assert len(await w.texts("s", "notice")) == 1


async def test_a_call_repeated_by_a_restarted_tool_server_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hermes and Kimi restart a dead MCP server and issue the open call again, with nothing that marks it."""
    async with World(tmp_path) as w:
        committed, killed = tmp_path / "committed", tmp_path / "killed"
        do = w.gateway.tools._execute

        async def slow(asked: Any) -> Any:
            done = await do(asked)
            if not committed.exists():
                committed.touch()
                await until(_exists(killed))
            return done

        monkeypatch.setattr(w.gateway.tools, "_execute", slow)
        kill = [{"wait": str(committed)}, {"kill_mcp": True}, {"touch": str(killed)}]
        said = await w.ask(script({"together": [{**send("Only once."), "reissue": True}, kill]}, "Closing."))
        assert said == ["Only once.", "Closing."]
        claims = await w.gateway.record.read(lambda tx: tx.all(ClaimRow, "claims_of_root", root=1))
        assert [(c.outcome, c.how) for c in claims] == [("said", "tool"), ("echo", "tool"), ("said", "block")]


async def test_an_edit_refers_to_the_message_it_changes(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script(send("Tomorow."), "ok"))
        edit = {"call": "edit_message", "arguments": {"message": "c1", "text": "Tomorrow."}}
        await w.ask(script(edit, "fixed"))
        entry = [e for e in await w.entries() if e.get("kind") == "edit"]
        assert [(e["text"], e["of"]) for e in entry] == [("Tomorrow.", 2)]


async def test_a_question_is_answered_once_and_the_answer_is_an_event(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        ask = {"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}
        await w.ask(script(ask, "I asked.", resume=["Blue it is."]))
        entry = next(e for e in await w.entries() if e.get("kind") == "ask")
        assert await w.gateway.controls.answer("s", entry["item"], "blue", "page") == "answered"
        assert await w.gateway.controls.answer("s", entry["item"], "red", "page") == "already"
        await w.idle()
        assert (await w.texts("s", "agent"))[-1] == "Blue it is."
        assert (await w.texts("s", "user"))[-1] == "blue"


async def test_a_message_answers_the_open_question_that_its_writer_had_seen(tmp_path: Path) -> None:
    async with World(tmp_path) as w:

        async def read_question() -> Json:
            return next(item for item in (await w.gateway.history("s", 1 << 62))["items"] if item["kind"] == "ask")

        ask = {"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}
        await w.ask(script(ask, "I asked.", resume=["Blue it is."]))
        question = await read_question()
        assert (question["state"], question.get("live")) == ("open", True)  # also after its turn
        await w.gateway.say("s", "Hello?", seen=question["born"] - 1)  # written before the question was shown
        await w.gateway.say("s", "beep", automatic=True)
        await w.gateway.report("s", "job.note", "done", wakes=True)
        await w.idle()
        assert (await read_question())["state"] == "open"
        said = await w.gateway.say("s", "Rather green.", sender="Ann", seen=question["rev"])
        item = await read_question()
        assert (item["state"], item["answer"], item["by"]) == ("answered", "Rather green.", "Ann")
        assert (item["event"], item.get("live")) == (said.event, None)
        assert await w.gateway.controls.answer("s", question["id"], "red", "page") == "already"
        await w.idle()
        assert (await w.texts("s", "user"))[-1] == "Rather green."  # it was heard once


def _exists(path: Path) -> Any:
    async def there() -> bool:
        return path.exists()

    return there


async def test_a_failed_turn_is_told_where_the_person_is_at_home(tmp_path: Path) -> None:
    platform = Platform()
    channel = FakeChannel("chat", Safety.IDEMPOTENT, platform)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    async with World(tmp_path, channels={"chat": channel}, channel_settings=settings) as w:
        await w.gateway.say("demo:chat:room", script("x", {"error": {"code": -32000, "message": "model is away"}}))
        await w.idle("demo:chat:room")
        await w.sent()
        told = [post.text for post in platform.log]
        assert any("model is away" in text for text in told)
