"""Replies, edits, deletions and reactions refer to the entry of the message meant, wherever that came from."""

from __future__ import annotations

from pathlib import Path

from gateway_world import script
from inbound_world import ANN, BOB, KEY, Chat, message, until

from semel.gateway.ports import Incoming


async def test_what_is_done_to_a_message_refers_to_its_entry_and_the_entry_says_so(chat: Chat) -> None:
    await chat.tell(
        message("m1", "Meet at five", BOB, group=True), message("m2", "Fine", group=True, of="m1"),
        Incoming("edit", "m1/2", "room", BOB, "Meet at six", of="m1", group=True),
        message("m3", "Really?", group=True, of="m1"),
        Incoming("reaction", "r1", "room", ANN, "👍", of="m1", group=True),
        Incoming("reaction", "r2", "room", ANN, "👍", of="m1", group=True, removed=True),
        Incoming("delete", "m1/gone", "room", BOB, of="m1", group=True),
    )  # fmt: skip
    first, reply, edit, later, sign, back, gone = await chat.heard()
    assert (first["text"], first["edited"], first["deleted"]) == ("Meet at five", edit["seq"], gone["seq"])
    assert (reply["of"], reply["quote"], reply["whose"]) == (1, "Meet at five", "bob")
    assert (edit["kind"], edit["of"], edit["text"]) == ("edit", 1, "Meet at six")
    assert later["quote"] == "Meet at six"  # as it was edited
    assert (sign["kind"], sign["of"], sign["emoji"], "removed" in sign) == ("reaction", 1, "👍", False)
    assert back["removed"]
    assert (gone["kind"], gone["of"], gone["text"]) == ("delete", 1, "")


async def test_what_the_agent_said_is_found_by_its_receipt(chat: Chat) -> None:
    await chat.told(message("x1", script({"text": "Here you are."})))

    async def sent() -> bool:
        return bool(chat.chat.platform.log)

    await until(sent)
    receipt = chat.chat.platform.log[0].id

    async def known() -> bool:
        return [part["state"] for part in await chat.gateway.parts()] == ["sent"]

    await until(known)
    await chat.tell(Incoming("reaction", "r1", "room", ANN, "🎉", of=receipt))
    last = (await chat.heard())[-1]
    assert (last["of"], last["quote"], last["whose"]) == (2, "Here you are.", "agent")


async def test_an_unknown_original_is_no_reason_to_lose_what_was_done(chat: Chat) -> None:
    await chat.tell(
        Incoming("edit", "x/2", "room", ANN, "new words", of="x"), Incoming("delete", "y/2", "room", ANN, of="y"),
        message("m1", "hm", group=True, of="z"),
    )  # fmt: skip
    entries = await chat.heard()
    assert [entry["text"] for entry in entries] == ["new words", "", "hm"]
    assert not any("of" in entry for entry in entries)
    assert [entry["data"]["of"] for entry in entries] == ["x", "y", "z"]


async def test_an_id_of_another_conversation_brings_nothing_of_it_to_light(chat: Chat) -> None:
    await chat.tell(message("m1", "the code is 1234", group=True, address="private"))
    await chat.tell(message("m2", "what does it say?", BOB, address="room", group=True, of="m1"))
    [asked] = await chat.heard()
    assert "of" not in asked
    assert "quote" not in asked


async def test_an_edit_by_somebody_else_does_not_put_words_into_a_mouth(chat: Chat) -> None:
    await chat.tell(
        message("m1", "No.", ANN, group=True), Incoming("edit", "m1/2", "room", BOB, "Yes!", of="m1", group=True),
        message("m2", "see", group=True, of="m1"),
    )  # fmt: skip
    first, edit, reply = await chat.heard()
    assert "edited" not in first
    assert (edit["of"], edit["sender"], edit["whose"]) == (1, "bob", "ann")
    assert reply["quote"] == "No."


async def test_what_was_deleted_with_its_session_is_referred_to_no_more(chat: Chat) -> None:
    await chat.tell(message("m1", "secret", group=True))
    await chat.gateway.delete(KEY)
    await chat.tell(message("m2", "what was that?", group=True, of="m1"))
    last = (await chat.heard())[-1]
    assert "quote" not in last


async def test_an_echo_of_our_own_message_settles_it_and_leaves_no_row(tmp_path: Path) -> None:
    from semel.testing.channels import Fault

    async with Chat(tmp_path) as chat:
        chat.chat.platform.fail_always(Fault.HANG_AFTER)
        await chat.told(message("m1", script({"text": "Done."})))

        async def taken() -> bool:
            return bool(chat.chat.platform.log)

        await until(taken)
        [post] = chat.chat.platform.log
        await chat.tell(Incoming("echo", post.key, "elsewhere", BOB, of="forged"))
        assert [part.get("receipt") for part in await chat.gateway.parts()] == [None]
        await chat.tell(Incoming("echo", post.key, of="platform-7"), Incoming("echo", "nobody's", of="8"), copies=2)
        [part] = await chat.gateway.parts()
        assert (part["state"], part["receipt"]) == ("sent", "platform-7")
        assert len(await chat.heard()) == 1
        assert await chat.gateway.quarantined() == []
