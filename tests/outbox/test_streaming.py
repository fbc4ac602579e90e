"""An answer that is seen while it is written: a message is reserved, edited, and filled (docs/outbox.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from stream_world import ROOM, Board, Slow, asked, chat, world

from semel.gateway.outbound import previews
from semel.gateway.ports import Caps, Op, Receipt, Rejected, Safety
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import DestinationSettings
from semel.ledger.storage.rows import ClaimRow, EntryRow
from semel.ledger.storage.sql import Tx
from semel.testing import FakeChannel, Fault, Platform

LONG = "Let me think about this for a while."


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MIN_EDIT_INTERVAL_S", 0.02)


async def seen(true: Callable[[], bool]) -> None:
    async def check() -> bool:
        return true()

    await until(check)


async def still(w: World, session: str = ROOM) -> None:
    """The turn is over and nothing is on its way."""
    await w.idle(session)
    await w.sent()


async def reasons(w: World) -> list[str]:
    """What became of each reservation."""

    def look(tx: Tx) -> list[str]:
        rows = [tx.one(ClaimRow, "claim_get", id=n) for n in range(1, 50)]
        return [r.reason for r in rows if r is not None and r.outcome == "quiet"]

    return await w.gateway.record.read(look)


def kinds(channel: FakeChannel) -> list[str]:
    return [post.kind for post in channel.platform.log]


async def test_an_answer_is_one_message_that_grows_and_ends_as_what_was_said(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script(LONG, {"wait": str(gate)}, " It is 42."))
        await seen(lambda: board.messages() == [f"{LONG} …"])
        gate.touch()
        await still(w)
        assert board.messages() == [f"{LONG} It is 42."]
        assert kinds(channel)[0] == "post" and set(kinds(channel)[1:]) == {"edit"}
        assert channel.platform.log[0].text == "…"
        assert await reasons(w) == ["filled"]
        [entry] = [e for e in await w.entries(ROOM) if e["role"] == "agent"]
        assert entry["text"] == f"{LONG} It is 42."
        assert entry["delivery"][0]["state"] == "sent"


async def test_a_preview_shows_only_what_is_recorded(tmp_path: Path) -> None:
    channel = chat()
    async with world(tmp_path, channel) as w:
        recorded: list[str] = []
        take = channel.platform.take

        def noted(op: Op) -> Any:
            if op.kind == "edit" and op.text.endswith(previews.MORE_MARKER):
                entry = w.gateway.store.write_sync(_live)
                recorded.append(entry)
                assert entry.startswith(op.text.removesuffix(previews.MORE_MARKER))
            return take(op)

        channel.platform.take = noted  # type: ignore[method-assign]
        await asked(w, channel, script({"text": "word " * 200, "chunks": 60, "delay": 0.01}))
        await still(w)
        assert recorded
        assert Board(channel.platform).messages() == ["word " * 200]


def _live(tx: Tx) -> str:
    from semel.ledger.transcript import entries

    return next(
        (entries.shown_text(tx, 1, seq) for seq in (2, 3) if tx.one(EntryRow, "entry_get", session=1, seq=seq)), ""
    )


async def test_without_the_setting_nothing_is_reserved(tmp_path: Path) -> None:
    channel = chat()
    async with world(tmp_path, channel, stream=False) as w:
        await asked(w, channel, script({"text": "hello", "chunks": 5, "delay": 0.02}))
        await still(w)
        assert [(p.kind, p.text) for p in channel.platform.log] == [("post", "hello")]


async def test_a_turn_that_is_stopped_ends_as_what_was_shown(tmp_path: Path) -> None:
    channel = chat()
    board = Board(channel.platform)
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("On ", {"wait": str(tmp_path / "never")}))
        await seen(lambda: board.messages() == ["On …"])
        await w.gateway.controls.stop_turn(ROOM, "ann")
        await still(w)
        assert board.messages() == ["On ", "Stopped by ann."]
        assert await reasons(w) == ["filled"]


async def test_a_stop_of_a_turn_that_waits_to_be_tried_again_removes_what_is_reserved(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("It is", {"wait": str(gate)}, {"error": "529 Overloaded"}))
        await seen(lambda: bool(board.messages()))  # else there is nothing to remove
        gate.touch()

        async def waits() -> bool:
            return any("tried again" in text for text in await w.texts(ROOM, "notice"))

        await until(waits)
        assert await w.gateway.controls.stop_turn(ROOM, "ann")
        await seen(lambda: "…" not in "".join(board.messages()))
        await until(lambda: _all(w, "sent", "rejected", "dropped"))


@pytest.mark.parametrize("safety", list(Safety))
async def test_an_edit_that_is_refused_for_good_is_the_last_one_and_the_text_arrives_by_itself(
    tmp_path: Path, safety: Safety
) -> None:
    channel = NoEdits("chat", safety, deletes=True)
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script({"text": "word " * 60, "chunks": 60, "delay": 0.02}))
        await still(w)
        assert channel.edits == 2, "one preview, and the text itself"
        posts = [post.text for post in channel.platform.log if post.kind == "post"]
        assert posts == ["…", "word " * 60]
        await asked(w, channel, script({"text": "more " * 40, "chunks": 40, "delay": 0.02}), key="2")
        await still(w)
        assert channel.edits == 4, "the next message is another one"


class NoEdits(FakeChannel):
    """Somebody deletes each of our messages at once: an edit of it is refused for good."""

    edits = 0

    async def send(self, op: Op) -> Receipt:
        if op.kind == "edit":
            self.edits += 1
            raise Rejected("message to edit not found")
        return await super().send(op)


async def test_previews_cost_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """House: a turn is three, one for each batch that is shown, and two for each part."""
    channel, written, write = chat(), [], LedgerAccess.write

    async def noted(self: LedgerAccess, body: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        written.append(body.__name__)
        return await write(self, body, *args, **kwargs)

    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("warm"))
        await still(w)
        monkeypatch.setattr(LedgerAccess, "write", noted)
        before = len(channel.platform.log)
        await asked(w, channel, script({"text": "word " * 100, "chunks": 40, "delay": 0.02}), key="2")
        await still(w)
        assert len(channel.platform.log) - before > 4, "a reservation, previews, and the text"
        assert written.count("record_outcome") == 2
        assert set(written) <= {"hear", "record_batch", "begin", "show", "finish", "depart", "record_outcome"}
        assert [name for name in written if name in ("hear", "begin", "finish")] == ["hear", "finish"]


async def test_a_deleted_session_leaves_no_reserved_message(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("Wait", {"wait": str(gate)}))
        await seen(lambda: board.messages() == ["Wait …"])
        await w.gateway.delete(ROOM)
        await seen(lambda: board.messages() == [])
        assert await reasons(w) == ["withdrawn"]


async def test_what_is_said_meanwhile_is_not_above_the_answer(tmp_path: Path) -> None:
    """Parts leave in order: the reserved message makes way for what is said before the answer is."""
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        call = {"call": "send_message", "arguments": {"text": "On it"}}
        await asked(w, channel, script(LONG, call, {"wait": str(gate)}, "Done."))
        await seen(lambda: "On it" in board.messages())
        gate.touch()
        await still(w)
        assert board.messages() == ["On it", "Done."]
        assert (await reasons(w)).count("filled") == 1


async def test_every_block_fills_a_message_of_its_own_where_all_are_delivered(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel, narration="all") as w:
        await asked(w, channel, script("First.", {"tool": "make"}, "Second", {"wait": str(gate)}, " block."))
        await seen(lambda: board.messages() == ["First.", "Second …"])
        gate.touch()
        await still(w)
        assert board.messages() == ["First.", "Second block."]
        assert await reasons(w) == ["filled", "filled"]


async def test_a_long_answer_fills_with_its_first_part_and_posts_the_rest(tmp_path: Path) -> None:
    channel = chat(max_len=40)
    board, gate = Board(channel.platform), tmp_path / "go on"
    text = "One sentence of it. " * 5
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script(text, {"wait": str(gate)}, "The end."))
        await seen(lambda: [len(m) <= 40 and m.endswith(" …") for m in board.messages()] == [True])
        gate.touch()
        await still(w)
        assert "".join(board.messages()) == text + "The end."
        assert [p.kind for p in channel.platform.log if not p.text.endswith("…")] == ["edit", "post", "post"]


# ---------------------------------------------------------------- when something fails


def fills(*faults: Fault) -> Callable[[Op], Fault | None]:
    """What the edits meet that put an answer into the message that was reserved for it, in order."""
    left = list(faults)
    return lambda op: left.pop(0) if left and op.kind == "edit" and not op.text.endswith(previews.MORE_MARKER) else None


async def reserved(w: World, channel: FakeChannel, gate: Path) -> None:
    """The agent says that it is 42, and is not over before the reservation was tried."""
    await asked(w, channel, script("It is 42.", {"wait": str(gate)}))
    await seen(lambda: channel.platform.attempts.total() > 0)
    gate.touch()


async def test_an_unknown_fill_leaves_again_and_is_never_held(tmp_path: Path) -> None:
    platform = Platform()
    platform.always = fills(Fault.DROP, Fault.ERROR)
    channel = chat(platform=platform)
    async with world(tmp_path, channel) as w:
        await reserved(w, channel, tmp_path / "go on")
        await w.idle(ROOM)
        await until(lambda: _all(w, "sent"))
        assert Board(platform).messages() == ["It is 42."]
        assert [p for p in platform.log if p.kind == "post" and p.text != "…"] == []


async def _all(w: World, *states: str) -> bool:
    parts = await w.gateway.parts(None, 100, None)
    return bool(parts) and {p["state"] for p in parts} <= set(states)


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.LOSE, Fault.REJECT])
async def test_where_the_reserved_message_never_arrived_the_answer_is_a_post(tmp_path: Path, fault: Fault) -> None:
    platform = Platform()
    platform.fail_next(fault)
    channel = chat(platform=platform)
    async with world(tmp_path, channel) as w:
        await reserved(w, channel, tmp_path / "go on")
        await still(w)
        shown = Board(platform).messages()
        assert shown == (["…", "It is 42."] if fault is Fault.DROP else ["It is 42."])  # a stray "…" at most
        assert [e for e in await w.entries(ROOM) if e["role"] == "notice"] == [], "it said nothing: nobody is told"


async def test_a_reserved_message_whose_answer_was_lost_is_removed_where_a_key_finds_it(tmp_path: Path) -> None:
    """It waits to be sent again under its key while something else is said there: it may be there, and has to go."""
    platform, gate = Platform(folds=True), tmp_path / "go on"
    platform.fail_next(Fault.DROP)
    channel = chat(Safety.IDEMPOTENT, platform)
    async with world(tmp_path, channel) as w:
        call = {"call": "send_message", "arguments": {"text": "On it"}}
        await asked(w, channel, script(LONG, {"wait": str(gate)}, call, "Done."))
        await seen(lambda: bool(Board(platform).messages()))
        gate.touch()
        await w.idle(ROOM)
        await until(lambda: _all(w, "sent", "rejected"))
        assert Board(platform).messages() == ["On it", "Done."]


async def test_an_answer_whose_message_somebody_deleted_is_a_post(tmp_path: Path) -> None:
    platform = Platform()
    platform.always = fills(Fault.REJECT)
    channel = chat(platform=platform)
    async with world(tmp_path, channel) as w:
        await reserved(w, channel, tmp_path / "go on")
        await still(w)
        assert Board(platform).messages() == ["It is 42."]
        assert await reasons(w) == ["withdrawn"]


async def test_a_removal_that_fails_is_told_to_nobody(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        call = {"call": "send_message", "arguments": {"text": "On it"}}
        channel.platform.always = lambda op: Fault.REJECT if op.kind == "delete" else None
        await asked(w, channel, script("Hm", {"wait": str(gate)}, call))
        await seen(lambda: bool(board.messages()))
        gate.touch()
        await still(w)
        assert board.messages()[-1:] == ["Hm"]
        assert [e for e in await w.entries(ROOM) if e["role"] == "notice"] == []


async def test_a_preview_that_hangs_does_not_overtake_the_answer(tmp_path: Path, monkeypatch: Any) -> None:
    """What is said waits until the edit before it has ended: else an older text could come last."""
    monkeypatch.setattr(previews, "EDIT_TIMEOUT_S", 0.3)

    class Hanging(Slow):
        done: list[str]

        async def send(self, op: Op) -> Receipt:
            if op.kind == "edit" and op.text.endswith(previews.MORE_MARKER):
                self.begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.ended = len(self.platform.log)
            return await super().send(op)

    channel = Hanging("chat", Safety.AT_MOST_ONCE, deletes=True)
    channel.begun, channel.ended = asyncio.Event(), 0  # type: ignore[attr-defined]
    gate = tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("It is", {"wait": str(gate)}, " 42."))
        await asyncio.wait_for(channel.begun.wait(), 30)  # type: ignore[attr-defined]
        gate.touch()
        await still(w)
        assert Board(channel.platform).messages() == ["It is 42."]
        assert channel.ended == 1, "the fill left after the preview had ended"  # type: ignore[attr-defined]


async def test_a_preview_is_slower_where_the_platform_says_so(tmp_path: Path) -> None:
    platform = Platform(retry_after=3600.0)
    channel = chat(platform=platform)
    platform.always = lambda op: Fault.LIMIT if op.text.endswith(previews.MORE_MARKER) else None
    gate = tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script({"text": "word " * 50, "chunks": 50, "delay": 0.01}, {"wait": str(gate)}))
        await seen(lambda: sum(platform.attempts.values()) == 2)
        await asyncio.sleep(0.2)
        assert sum(platform.attempts.values()) == 2, "one edit was tried, and no other until it is allowed"
        gate.touch()
        await w.idle(ROOM)


# ---------------------------------------------------------------- lives of the gateway


@pytest.mark.parametrize("when", ["before it arrived", "while it shows", "on its way"])
async def test_a_gateway_that_dies_while_it_streams_leaves_one_answer_and_no_mark(tmp_path: Path, when: str) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    if when == "before it arrived":
        channel.platform.fail_always(Fault.REFUSE)
    if when == "on its way":
        channel.platform.fail_next(Fault.HANG)
    w = world(tmp_path, channel, grace_s=0.001)
    await w.start()
    await asked(
        w, channel, script(attempts=[["Let me see.", {"wait": str(gate)}], ["It is 42."]], resume=["It is 42."])
    )
    if when == "while it shows":
        await seen(lambda: board.messages() == ["Let me see. …"])
    else:
        await seen(lambda: sum(channel.platform.attempts.values()) > 0)
    await w.stop()
    channel.platform.fail_always(None)
    again = world(tmp_path, channel)
    async with again:
        gate.touch()
        await still(again)
        await until(lambda: _all(again, "sent", "rejected", "dropped"))
        kept = ["Let me see."] if when == "while it shows" else []
        assert board.messages() == [*kept, "It is 42."]


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize(
    ("then", "seen_then"),
    [
        (["It is 42."], ["Let me see.", "It is 42."]),
        (["Let me see. It is 42."], ["Let me see. It is 42."]),
        (["Let me "], ["Let me see.", "Let me "]),
        ([{"sleep": 0.01}], ["Let me see."]),
        ([{"call": "send_message", "arguments": {"text": "Sent."}}, "Done."], ["Let me see.", "Sent.", "Done."]),
    ],
    ids=["other words", "the same and more", "less", "nothing", "a message by tool"],
)
async def test_what_was_seen_of_a_lost_attempt_stays_unless_it_is_said_again(
    tmp_path: Path, narration: Any, then: list[Any], seen_then: list[str]
) -> None:
    channel, log = chat(), tmp_path / "prompts"
    board = Board(channel.platform)
    steps = ["Let me see.", {"save": True}, {"wait": str(tmp_path / "die")}, {"die": 9}]
    async with world(tmp_path, channel, narration=narration, args=("--log", str(log))) as w:
        await asked(w, channel, script(*steps, resume=then))
        await seen(lambda: board.messages() == ["Let me see. …"])
        (tmp_path / "die").touch()
        await still(w)
        await until(lambda: _all(w, "sent", "rejected", "dropped"))
        assert board.messages() == seen_then
        assert "never left" not in log.read_text()
        assert "the person saw it while you wrote it: 'Let me see.'" in log.read_text()


async def test_what_is_seen_longer_in_an_attempt_that_is_lost_too_counts_once(tmp_path: Path) -> None:
    channel = chat()
    board = Board(channel.platform)
    steps = [{"tool": "look"}, "It is 42", {"wait": str(tmp_path / "one")}, {"die": 9}]
    again = ["It is 42.", {"wait": str(tmp_path / "two")}, {"die": 9}]
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script(*steps, resume=[again, ["Or is it?"]]))
        await seen(lambda: board.messages() == ["It is 42 …"])
        (tmp_path / "one").touch()
        await seen(lambda: board.messages() == ["It is 42. …"])
        (tmp_path / "two").touch()
        await still(w)
        await until(lambda: _all(w, "sent", "rejected", "dropped"))
        assert board.messages() == ["It is 42.", "Or is it?"]
        said = [e["text"] for e in await w.entries(ROOM) if e["role"] == "agent" and not e.get("superseded")]
        assert said == ["It is 42.", "Or is it?"]


async def test_text_that_is_cut_for_a_preview_fits() -> None:
    for unit in ("char", "utf16", "byte"):
        for size in (8, 20, 100):
            caps = Caps(Safety.AT_MOST_ONCE, max_len=size, unit=unit)  # type: ignore[arg-type]
            for text in ("", "x", "x" * 500, "😀" * 100, "```py\n" + "x = 1\n" * 90 + "```", " \n" * 90 + "x"):
                cut = previews.fit_preview(text, caps)
                assert previews.measure(cut, caps.unit) <= size, (unit, size, text[:9])
                assert cut.endswith("…")


async def test_a_message_that_was_reserved_can_be_changed_and_found_by_its_id(tmp_path: Path) -> None:
    channel = chat()
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("It is 41."))
        await still(w)
        story = await w.gateway.why("m1")
        assert any("'It is 41.'" in line["text"] for line in story["lines"])
        story = await w.gateway.why("p1")
        assert any("a message to chat:room is reserved before its text is known" in x["text"] for x in story["lines"])
        [said] = [e for e in await w.entries(ROOM) if e["role"] == "agent"]
        call = {"call": "edit_message", "arguments": {"message": f"c{said['claim']}", "text": "It is 42."}}
        await asked(w, channel, script(call, "Mended."), key="2")
        await still(w)
        assert Board(channel.platform).messages() == ["It is 42.", "Mended."]


async def test_two_sessions_that_stream_to_one_person_do_not_disturb_each_other(tmp_path: Path) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel) as w:
        await asked(w, channel, script("One", {"wait": str(gate)}, " and one."))
        await w.gateway.say("demo:chat:room", script("Two", {"wait": str(gate)}, " and two."))
        await seen(lambda: sorted(board.messages()) == ["One …", "Two …"])
        gate.touch()
        await still(w)
        await still(w, "demo:chat:room")
        assert sorted(board.messages()) == ["One and one.", "Two and two."]
        assert await reasons(w) == ["filled", "filled"]
        assert repr(w.gateway.outbox.previews) == "<Previews of 0 messages, 0 edits under way>"


@pytest.mark.parametrize("narration", ["last", "all"])
async def test_the_parts_of_an_answer_that_streams_are_messages_in_their_order(tmp_path: Path, narration: Any) -> None:
    channel = chat()
    board = Board(channel.platform)
    family = {"family": DestinationSettings(name="family", channel="web", address="fam", allow=("*",))}
    text = 'First of all.<message to="family">Not here.</message>Then this.<message to="home">And that.</message>'
    async with world(tmp_path, channel, narration=narration, destinations=family) as w:
        await asked(w, channel, script({"text": text, "chunks": 40, "delay": 0.01}))
        await still(w)
        assert board.messages() == ["First of all.", "Then this.", "And that."]
