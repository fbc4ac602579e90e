"""Sessions are renamed, put away, deleted; what the laws count outlives all of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until

from semel.gateway.errors import BadRequest, NoSuchSession
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.admin.erase import Erasure
from semel.ledger.admin.explain import ConflictOfEvent
from semel.ledger.inbound import schedules
from semel.ledger.storage.rows import ClaimRow, EntryRow, EventRow, ItemRow, PartRow, SessionRow, TurnRow
from semel.testing.channels import FakeChannel, Fault

SECRET = "the plum is under the stone"


async def _there(path: Path) -> bool:
    return path.exists()


async def erased(w: World) -> None:
    """Wait until the content of what was deleted is gone."""

    async def over() -> bool:
        left: list[Any] = await w.gateway.record.read(lambda tx: tx.values(int, "erasures_left", deleted=tx.now))
        return not left and not await w.gateway.record.read(lambda tx: tx.values(str, "blobs_gone", limit=9))

    await until(over)


async def listed(w: World, archived: bool = False) -> list[str]:
    return [s["key"] for s in await w.gateway.sessions(archived=archived)]


async def test_a_persons_title_stays_and_the_agents_comes_back_without_it(tmp_path: Path) -> None:
    titled = script({"update": {"sessionUpdate": "session_info_update", "title": "By the agent"}}, "x")
    async with World(tmp_path) as w:
        await w.ask(titled)
        assert (await w.gateway.session("s"))["title"] == "By the agent"
        await w.gateway.rename("s", "  By a\n person ")
        await w.ask(titled)
        assert (await w.gateway.session("s"))["title"] == "By a person"
        await w.gateway.rename("s", None)
        assert "title" not in await w.gateway.session("s")
        with pytest.raises(BadRequest):
            await w.gateway.rename("s", "x" * 201)
        with pytest.raises(NoSuchSession):
            await w.gateway.rename("nobody", "x")


async def test_a_session_is_named_after_what_a_person_said_first_until_the_agent_names_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", "/status")
        assert "title" not in await w.gateway.session("s")
        await w.ask("  What is the\ncapital of France? " + "x" * 100)
        title = (await w.gateway.session("s"))["title"]
        assert title.startswith("What is the capital of France? xx") and len(title) == 60
        await w.ask("and of Spain?")
        assert (await w.gateway.session("s"))["title"] == title
        await w.ask(script({"update": {"sessionUpdate": "session_info_update", "title": "Capitals"}}, "x"))
        assert (await w.gateway.session("s"))["title"] == "Capitals"


async def test_a_note_of_semel_is_no_title(tmp_path: Path) -> None:
    """Some agents name a session after the beginning of its first prompt, which may be a note of ours."""
    note = "[semel: about the message below"
    async with World(tmp_path) as w:
        await w.ask(script({"update": {"sessionUpdate": "session_info_update", "title": note}}, "x"))
        assert (await w.gateway.session("s"))["title"].startswith("[[script")


async def test_an_agents_title_is_one_line_of_at_most_200_characters(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        title = "By\n\tthe agent " + "x" * 300
        await w.ask(script({"update": {"sessionUpdate": "session_info_update", "title": title}}, "x"))
        told = (await w.gateway.session("s"))["title"]
        assert told.startswith("By the agent xx")
        assert len(told) == 200


async def test_no_session_is_left_out_of_the_pages_of_the_list(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        for n in range(7):
            await w.gateway.report(f"s{n}", "exec.started", "made")
        await w.gateway.archive("s3")
        pages: list[list[str]] = []
        before = None
        while page := await w.gateway.sessions(before=before, limit=3):
            pages.append([s["key"] for s in page])
            before = page[-1]["key"]
        assert pages == [["s6", "s5", "s4"], ["s2", "s1", "s0"]]
        with pytest.raises(NoSuchSession):
            await w.gateway.sessions(before="nobody")


async def test_an_archived_session_is_listed_where_asked_and_a_message_brings_it_back(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        await w.ask("hello", "other")
        await w.gateway.archive("s")
        assert (await listed(w), await listed(w, True)) == (["other"], ["s"])
        assert (await w.gateway.session("s"))["archived"] is True
        await w.ask("again")
        assert (await listed(w), await listed(w, True)) == (["other", "s"], [])
        await w.gateway.archive("s")
        await w.gateway.archive("s", False)
        assert await listed(w, True) == []


async def test_deleting_takes_the_content_and_keeps_what_the_laws_count(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", SECRET, key="k1", sender="Ada Lovelace")
        await w.idle()
        tool = {"tool": "look", "input": {"command": SECRET}, "output": [SECRET]}
        await w.ask(
            script(SECRET + "!", {"think": SECRET}, tool, {"call": "send_message", "arguments": {"text": SECRET}})
        )
        await w.gateway.report("s", "exec.finished", SECRET, key="k2")
        await w.gateway.say("s", "/queue")
        await w.gateway.rename("s", SECRET)
        await w.gateway.say("s", "other text", key="k1")  # a conflict is content, too
        await w.idle()
        before = await w.gateway.session("s")
        await w.gateway.delete("s")
        with pytest.raises(NoSuchSession):
            await w.gateway.entries("s")
        assert await listed(w) == await listed(w, True) == []
        await w.balanced()
        await erased(w)
        await w.balanced()
        rows = await w.gateway.record.read(_everything)
        assert SECRET not in json.dumps(rows) and "Lovelace" not in json.dumps(rows)
        assert (await w.gateway.say("s", SECRET, key="k1", sender="Ada Lovelace")).status == "duplicate"
        assert (await w.gateway.say("s", "other", key="k1", sender="Ada Lovelace")).status == "conflict"
        assert await listed(w) == []  # a repeat is no message
        story = await w.gateway.why("k1")
        assert any("its content was deleted" in line["text"] for line in story["lines"])
        await w.gateway.say("s", "good morning")
        await w.idle()
        rows = await w.entries()
        assert next(row["text"] for row in rows) == "good morning"
        assert rows[0]["seq"] == before["seq"] + 1 or rows[0]["seq"] > before["seq"]
        after = await w.gateway.session("s")
        assert after["chapter"] == 2 and after["title"] == "good morning"
        history = await w.gateway.history("s", rows[0]["seq"], 10)
        assert (history["entries"], history["more"]) == ([], False)
        with pytest.raises(NoSuchSession):
            await w.gateway.delete("nobody")


def _everything(tx: Any) -> list[Any]:
    """Every text the ledger could still tell, but for what a conflict brought after the deletion."""
    out: list[Any] = []
    for session in tx.all(SessionRow, "session_list", before=1 << 62, limit=99):
        out.append([session.title, session.about])
    for number in range(1, 200):
        out.append(str(tx.one(EventRow, "event_get", id=number)))
        out.append(str(tx.one(ClaimRow, "claim_get", id=number)))
        out.append(str(tx.one(TurnRow, "turn_get", id=number)))
        out.append(str(tx.one(ItemRow, "item_get", id=number)))
        out.append(str(tx.one(EntryRow, "entry_get", session=1, seq=number)))
        out.append(str(tx.all(PartRow, "parts_of_claim", claim=number)))
        out += [row.payload for row in tx.all(ConflictOfEvent, "conflicts_of", event=number)]
        out += tx.values(str, "output_of_item", item=number)
    return out


async def test_a_running_turn_is_stopped_its_agent_ended_and_what_waits_is_bound(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script("shown", {"touch": str(tmp_path / "a")}, {"deaf": True}, {"hang": True}))
        await until(lambda: _there(tmp_path / "a"))
        await w.gateway.say("s", "this one waits", key="w")
        await w.gateway.schedules.add("often", "wake up", every="1h", session="s")
        seen: list[dict[str, Any]] = []

        async def watch() -> None:
            async for frame in w.gateway.watch("s"):
                seen.append(frame)

        watching = asyncio.create_task(watch())
        await until(lambda: _some(seen))
        await w.gateway.delete("s")
        await asyncio.wait_for(watching, 10)  # a watcher is told, and let go
        assert seen[-1]["changes"][-1]["state"] == "deleted"
        assert not w.gateway.turns.runs and not w.gateway.spawns.live
        assert await w.gateway.schedules.list() == []
        await w.balanced()
        await erased(w)
        assert (await w.gateway.say("s", "this one waits", key="w")).status == "duplicate"
        assert await w.ask(script("a new conversation")) == ["a new conversation"]


async def _some(seen: list[Any]) -> bool:
    return bool(seen)


async def test_a_session_that_only_waits_can_be_deleted(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.report("s", "exec.progress", "half way", wakes=False)
        await w.gateway.delete("s")
        await erased(w)
        await w.gateway.delete("s") if await listed(w) else None


async def test_what_has_not_left_still_leaves_and_is_erased_after_that(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT)
    chat.platform.fail_always(Fault.REFUSE)
    async with World(
        tmp_path, channels={"chat": chat}, channel_settings={"chat": ChannelSettings(name="chat", kind="fake")}
    ) as w:
        key = "demo:chat:room"
        await w.ask(script(SECRET), key)
        w.gateway.erasures.part_retry_s = 0.05
        await w.gateway.delete(key)
        await until(lambda: _waits(w))
        chat.platform.fail_always(None)
        w.gateway.outbox.kick()
        await erased(w)
        assert chat.platform.shown("room") == [SECRET]
        [part] = await w.gateway.parts()
        assert (part["state"], part["text"]) == ("sent", "")
        assert part["receipt"]


async def _waits(w: World) -> bool:
    row = await w.gateway.record.read(lambda tx: tx.one(Erasure, "erasure_get", session=1))
    return row is not None and row.later > 0


async def test_a_file_goes_with_the_last_entry_that_holds_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        (w.work / "a.txt").write_text(SECRET)
        send = {"call": "send_file", "arguments": {"path": "a.txt"}}
        await w.ask(script(send, "sent"), "one")
        await w.ask(script(send, "sent"), "two")
        [blob] = list((tmp_path / "blobs").iterdir())
        await w.gateway.delete("one")
        await erased(w)
        assert blob.exists()
        await w.gateway.delete("two")
        await erased(w)
        await until(lambda: _gone(blob))
        await w.ask(script(send, "sent"), "two")
        assert blob.exists()


async def _gone(path: Path) -> bool:
    return not path.exists()


async def test_what_another_session_was_told_stays_there(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        both = ["one", "two"]
        heard = await w.gateway.inbox.hear(source="api", session=both, key="k", text=SECRET)
        await w.idle("one")
        await w.idle("two")
        await w.gateway.delete("one")
        await erased(w)
        assert SECRET in await w.texts("two", "user")
        assert (await w.gateway.record.read(lambda tx: tx.one(EventRow, "event_get", id=heard.event))).payload
        await w.gateway.delete("two")
        await erased(w)
        assert (await w.gateway.record.read(lambda tx: tx.one(EventRow, "event_get", id=heard.event))).payload is None


async def test_no_heartbeat_asks_in_a_session_that_was_put_away(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")

        async def beat() -> bool:
            pulse = await w.gateway.record.read(schedules.read_activity, 1)
            return bool(await w.gateway.record.write(schedules.fire_heartbeat, pulse, 1, "Anything?", ["NOTHING"]))

        await w.gateway.archive("s")
        assert not await beat()
        await w.gateway.archive("s", False)
        assert await beat()
        w.gateway.turns.wake(1)
        await w.idle()
        await w.gateway.delete("s")
        assert not await beat()
        await erased(w)


async def test_a_watcher_that_comes_back_to_a_session_that_was_begun_anew_gets_a_snapshot(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        rev = (await w.gateway.session("s"))["rev"]
        await w.gateway.delete("s")
        await w.ask("fresh")
        frames = w.gateway.watch("s", rev)
        first = await anext(frames)
        await frames.aclose()  # type: ignore[attr-defined]
        assert first["type"] == "snapshot"
        assert [row["text"] for row in first["entries"] if row["role"] == "user"] == ["fresh"]
        await erased(w)
