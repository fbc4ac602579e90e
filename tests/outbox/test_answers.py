"""What a part answers, which part it is, and what a channel cannot take: told before anything leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from stream_world import ROOM

from semel.gateway.outbound.previews import MORE_MARKER
from semel.gateway.ports import Answers, Incoming, Op, Person, Receipt, Safety
from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.testing import FakeChannel, Fault

HERE = "demo:chat:room"


class Watched(FakeChannel):
    """Keeps what it was given."""

    def __init__(self, **facts: Any) -> None:
        super().__init__("chat", Safety.IDEMPOTENT, **facts)
        self.ops: list[Op] = []

    async def send(self, op: Op) -> Receipt:
        self.ops.append(op)
        return await super().send(op)


def world(path: Path, channel: FakeChannel, **more: Any) -> World:
    own = ChannelSettings(name="chat", kind="fake", **more)
    people = {
        "ann": PersonSettings(name="ann", role="owner", accounts=("chat:ann",)),
        "bob": PersonSettings(name="bob", role="member", accounts=("chat:bob",)),
    }
    return World(path, channels={"chat": channel}, channel_settings={"chat": own}, people=people)


def wrote(text: str, key: str = "m1", who: str = "ann", **more: Any) -> Incoming:
    return Incoming("message", key, "room", Person(who, who.title()), text, data={"thread": "t9"}, **more)


async def over(w: World, session: str = HERE) -> None:
    await w.idle(session)
    await w.sent()


async def test_a_part_names_the_message_it_answers(tmp_path: Path) -> None:
    chat = Watched(max_len=20)
    async with world(tmp_path, chat) as w:
        await chat.tell(wrote(script("One two three four. Five six seven.")))
        await over(w)
        assert [op.n for op in chat.ops] == [0, 1]
        assert [op.answers for op in chat.ops] == [Answers("m1", "ann", {"thread": "t9"})] * 2


async def test_it_is_the_message_that_asked_and_the_same_on_every_retry(tmp_path: Path) -> None:
    chat = Watched()
    async with world(tmp_path, chat, groups="mention") as w:
        chat.platform.fail_next(Fault.DROP)
        asks = wrote(script("done"), "m1", group=True, mentioned=True)
        await chat.tell(asks, wrote("by the way", "m2", "bob", group=True))
        await over(w)
        async with asyncio.timeout(30):
            while len(chat.ops) < 2:  # noqa: ASYNC110 - the outbox sends it again after its back-off
                await asyncio.sleep(0.02)
        assert [op.answers for op in chat.ops] == [Answers("m1", "ann", {"thread": "t9"})] * 2


async def test_what_answers_nobody_there_names_nothing(tmp_path: Path) -> None:
    chat = Watched()
    async with world(tmp_path, chat) as w:
        await w.gateway.say(ROOM, script("done"))  # from the page
        await over(w, ROOM)
        assert [op.answers for op in chat.ops] == [None]


async def test_a_message_that_is_reserved_carries_the_mark(tmp_path: Path) -> None:
    chat = Watched(deletes=True)
    async with world(tmp_path, chat, stream=True) as w:
        await chat.tell(wrote(script("done")))
        await over(w)
        parts = [op for op in chat.ops if not op.text.endswith(MORE_MARKER)]  # a preview is no part
        assert [(op.kind, op.answers and op.answers.id) for op in parts] == [("post", "m1"), ("edit", "m1")]


# ---------------------------------------------------------------- what a channel cannot take


async def test_an_agent_is_told_at_once_that_a_file_is_too_large(tmp_path: Path) -> None:
    chat = Watched(file_limit=10)
    async with world(tmp_path, chat) as w:
        (w.work / "big.txt").write_text("x" * 11)
        (w.work / "fits.txt").write_text("x" * 10)
        calls = [{"call": "send_file", "arguments": {"path": name}} for name in ("big.txt", "fits.txt")]
        await chat.tell(wrote(script(*calls, "done")))
        await over(w)
        assert [(op.kind, op.name) for op in chat.ops] == [("file", "fits.txt"), ("post", None)]
        [held] = [e for e in await w.entries(HERE) if e["role"] == "notice"]
        assert (
            held["text"] == "Held back \"big.txt\": 'big.txt' is larger than 10 bytes, the most that can be sent; "
            "send a smaller file. Tell the agent if you still want it."
        )


async def test_an_agent_is_told_at_once_that_a_platform_takes_no_empty_file(tmp_path: Path) -> None:
    chat = Watched(empty_files=False)
    async with world(tmp_path, chat) as w:
        (w.work / "empty.txt").touch()
        empty = {"call": "send_file", "arguments": {"path": "empty.txt", "text": "The list."}}
        await chat.tell(wrote(script(empty, "done")))
        await over(w)
        assert [op.kind for op in chat.ops] == ["post"]
        [held] = [e for e in await w.entries(HERE) if e["role"] == "notice"]
        assert "it is empty, and chat takes no file of 0 bytes; write the file first, or say it" in held["text"]


async def test_a_caption_that_is_too_long_goes_on_in_posts(tmp_path: Path) -> None:
    chat = Watched(max_len=12)
    async with world(tmp_path, chat) as w:
        (w.work / "a.txt").write_text("x")
        call = {"call": "send_file", "arguments": {"path": "a.txt", "text": "A long caption of it."}}
        await chat.tell(wrote(script(call)))
        await over(w)
        assert [(op.kind, op.n) for op in chat.ops] == [("file", 0), ("post", 1), ("post", 2)]
        assert "".join(op.text for op in chat.ops) == "A long caption of it."


async def test_where_a_file_has_no_text_the_text_follows_and_the_file_is_lent_again_until_it_is_erased(
    tmp_path: Path,
) -> None:
    chat = Watched(caption_len=0)
    async with world(tmp_path, chat) as w:
        (w.work / "a.txt").write_text("x")
        call = {"call": "send_file", "arguments": {"path": "a.txt", "text": "Here it is."}}
        await chat.tell(wrote(script(call)))
        await over(w)
        assert [(op.kind, op.n, op.text) for op in chat.ops] == [("file", 0, ""), ("post", 1, "Here it is.")]
        inbox = w.gateway.channel_manager.inboxes["chat"]
        sent, text = chat.ops
        async with inbox.lend_file(sent.key, sent.address) as path:
            assert path is not None and path.read_text() == "x"
        for key, address in ((sent.key, "elsewhere"), (text.key, text.address), ("none", sent.address)):
            with pytest.raises(LookupError):
                await inbox.lend_file(key, address).__aenter__()
        await w.gateway.delete(HERE)

        async def erased() -> bool:
            async with inbox.lend_file(sent.key, sent.address) as path:
                return path is None

        await until(erased)


async def test_an_agent_is_told_what_a_channel_does_not_have(tmp_path: Path) -> None:
    chat = Watched(files=False, reactions=False, edits=False)
    async with world(tmp_path, chat) as w:
        (w.work / "a.txt").write_text("x")
        await chat.tell(
            wrote(
                script(
                    {"call": "send_file", "arguments": {"path": "a.txt"}},
                    {"call": "add_reaction", "arguments": {"emoji": "+1"}},
                    {"call": "send_message", "arguments": {"text": "teh"}},
                    {"call": "edit_message", "arguments": {"message": "c3", "text": "the"}},
                )
            )
        )
        await over(w)
        assert [op.text for op in chat.ops] == ["teh"]
        notices = [e["text"] for e in await w.entries(HERE) if e["role"] == "notice"]
        assert [notice.removesuffix(" Tell the agent if you still want it.") for notice in notices] == [
            'Held back "a.txt": chat takes no files.',
            'Held back "+1": chat has no reactions.',
            'Held back "the": a message cannot be changed on chat once it was sent.',
        ]


async def test_a_message_of_several_parts_is_changed_part_by_part(tmp_path: Path) -> None:
    chat = Watched(max_len=10)
    async with world(tmp_path, chat) as w:
        await chat.tell(
            wrote(
                script(
                    {"call": "send_message", "arguments": {"text": "Teh first. Teh second."}},
                    {"call": "edit_message", "arguments": {"message": "c1", "text": "The first. The second."}},
                    {"call": "edit_message", "arguments": {"message": "c1", "text": "Short."}},
                )
            )
        )
        await over(w)
        posts = [op for op in chat.ops if op.kind == "post"]
        edits = [op for op in chat.ops if op.kind == "edit"]
        assert len(posts) == len(edits) > 1
        assert [op.target for op in edits] == [post.id for post in chat.platform.log[: len(posts)]]
        assert "".join(op.text for op in edits) == "The first. The second."
        [told] = [e["text"] for e in await w.entries(HERE) if e["role"] == "notice"]
        assert told.startswith('Held back "Short.": the new text has another number of parts')
