"""Chats with people on a real Prosody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prosody import Prosody
from xmpp_house import House, element, oob, reactions, shown

from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Answers, Denied, Kept, Missing, NotSent, Offline, Op, Receipt, Rejected

pytestmark = pytest.mark.channels


async def test_a_conversation_with_a_correction_a_reaction_and_a_retraction(house: House) -> None:
    channel, alice_jid = house.channel(), house.jid("alice")
    async with house.user("alice") as alice, house.running(channel):
        written = await alice.say(house.bot, "helo")
        [hello] = await house.heard("message")
        assert (hello.text, hello.address, hello.sender.id if hello.sender else "") == ("helo", alice_jid, alice_jid)
        assert not hello.group

        await alice.say(house.bot, "hello!", append=[element("urn:xmpp:message-correct:0", "replace", id=written)])
        [edit] = await house.heard("edit")
        assert (edit.of, edit.text) == (hello.key, "hello!")

        op = house.op("post", alice_jid, "**hi**")
        assert await channel.send(op) == Receipt(op.key)
        assert (await shown(alice, "*hi*"))["id"] == op.key

        await alice.say(house.bot, "", append=[reactions(op.key, "👍"), element("urn:xmpp:hints", "store")])
        [reaction] = await house.heard("reaction")
        assert (reaction.of, reaction.text, reaction.removed) == (op.key, "👍", False)

        await alice.say(house.bot, "", append=[element("urn:xmpp:message-retract:1", "retract", id=written)])
        [deletion] = await house.heard("delete")
        assert deletion.of == hello.key

        await channel.send(house.op("react", alice_jid, "🎉", target=hello.key))
        theirs = [each.xml.find("{urn:xmpp:reactions:0}reactions") for each in await alice.archive(house.bot)]
        assert [each.get("id") for each in theirs if each is not None] == [op.key, written], "hers, then ours"
        assert not house.inbox.repeats


async def test_what_was_missed_comes_in_order_across_pages_and_once(house: House) -> None:
    channel = house.channel()
    async with house.user("alice") as alice:
        async with house.running(channel):
            await alice.say(house.bot, "first")
            await house.heard("message")
        for n in range(130):
            await alice.say(house.bot, f"missed {n}")
        async with house.running(channel):
            await alice.say(house.bot, "last")
            heard = await house.heard("message", 132)
        assert [each.text for each in heard] == ["first", *(f"missed {n}" for n in range(130)), "last"]
        assert not house.inbox.repeats


async def test_find_looks_through_all_pages_of_the_archive(house: House) -> None:
    channel, to = house.channel(), house.jid("alice")
    first, never = house.op("post", to, "the one"), house.op("post", to, "never sent")
    await channel.send(first)
    async with house.running(channel):
        for n in range(60):
            await channel.send(house.op("post", to, f"after {n}"))
    assert await channel.find(first, 0.0) == Receipt(first.key)
    assert await channel.find(never, 0.0) is None


async def test_the_servers_end_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    with Prosody(tmp_path) as server:
        house = House(server, 1, tmp_path)
        channel = house.channel()
        async with house.running(channel) as run:
            async with house.user("alice") as alice:
                await alice.say(house.bot, "before")
                await house.heard("message")
            server.process.kill()
            with pytest.raises(Offline):
                await run
        with pytest.raises(NotSent):
            await channel.send(house.op("post", house.jid("alice"), "while it is down"))
        server.restart()
        async with house.user("alice") as alice:
            await alice.say(house.bot, "after")
            async with house.running(channel):
                assert [each.text for each in await house.heard("message", 2)] == ["before", "after"]
        assert not house.inbox.repeats


async def test_nobody_at_that_address_is_a_definite_no(house: House) -> None:
    with pytest.raises(Rejected, match="nobody@localhost"):
        await house.channel().send(house.op("post", "nobody@localhost", "hello?"))


async def test_files_both_ways(house: House) -> None:
    channel, path = house.channel(file_limit=1000), house.tmp_path / "report.txt"
    path.write_text("the report")
    async with house.user("alice") as alice, house.running(channel):
        op = house.op("file", house.jid("alice"), "here it is", file=path, name="report.txt", mime="text/plain")
        assert await channel.send(op) == Receipt(op.key)
        await alice.wait(lambda: bool(alice.texts))
        assert alice.texts[0].startswith("here it is\nhttp://127.0.0.1:")

        url = await alice.put("photo.png", b"\x89PNG", "image/png")
        await alice.say(house.bot, url, append=[oob(url)])
        [message] = await house.heard("message")
        [kept] = message.files
        assert isinstance(kept, Kept)
        assert (kept.name, kept.mime, kept.size, message.text) == ("photo.png", "image/png", 4, "")

        large = await alice.put("large.bin", b"x" * 2000)
        await alice.say(house.bot, large, append=[oob(large)])
        missing = (await house.heard("message", 2))[1].files[0]
        assert isinstance(missing, Missing) and "larger than 1000 bytes" in missing.why

        path.write_bytes(b"x" * (6 * 1024 * 1024))
        with pytest.raises(Rejected, match="takes at most"):
            await channel.send(house.op("file", house.jid("alice"), file=path, name="large.bin"))


async def test_a_file_is_not_fetched_for_a_stranger_nor_from_inside_this_machine(house: House) -> None:
    async with house.user("alice") as alice, house.running(house.channel(allow_private=False)):
        url = await alice.put("a.txt", b"abc")
        await alice.say(house.bot, url, append=[oob(url)])
        [message] = await house.heard("message")
        assert isinstance(message.files[0], Missing) and "allow_private" in message.files[0].why
        house.inbox.strangers.add(house.jid("alice"))
        await alice.say(house.bot, url, append=[oob(url)])
        message = (await house.heard("message", 2))[1]
        assert isinstance(message.files[0], Missing) and "stranger" in message.files[0].why


async def test_an_answer_stays_in_its_thread(house: House) -> None:
    async with house.user("alice") as alice, house.running(house.channel()):
        thread = element("jabber:client", "thread")
        thread.text = "t-1"
        await alice.say(house.bot, "hello", append=[thread])
        [hello] = await house.heard("message")
        answers = Answers(hello.key, house.jid("alice"), hello.data)
        await house.channel().send(house.op("post", hello.address, "hi", answers=answers))
        assert (await shown(alice, "hi"))["thread"] == "t-1"


async def test_a_second_gateway_on_the_same_account_is_denied_not_fought(house: House) -> None:
    async with house.running(house.channel()) as first, house.running(house.channel()):
        with pytest.raises(Denied, match="another resource"):
            await first
    async with house.running(house.channel()), house.running(house.channel(resource="other")) as second:
        assert not second.done()


# ---------------------------------------------------------------- TLS


@pytest.mark.parametrize("how", ["required", "direct"])
async def test_with_tls(house: House, how: str) -> None:
    port = house.server.port if how == "required" else house.server.tls_port
    channel = house.secure(tls=how, port=port)
    async with house.user("alice") as alice, house.running(channel):
        await alice.say(house.bot, "over TLS")
        await house.heard("message")
        assert await channel.send(house.op("post", house.jid("alice"), "answer"))
        await shown(alice, "answer")
    assert await channel.send(house.op("post", house.jid("alice"), "without run"))


@pytest.mark.parametrize("how", ["required", "direct"])
async def test_a_certificate_that_nobody_vouches_for_is_denied_before_the_password(house: House, how: str) -> None:
    port = house.server.port if how == "required" else house.server.tls_port
    channel = house.secure(tls=how, port=port, ca_file=None)
    with pytest.raises(Denied, match=r"certificate is not trusted .*ca_file"):
        await channel.run(house.inbox)
    with pytest.raises(NotSent, match="certificate"):
        await channel.send(house.op("post", house.jid("alice"), "x"))


async def test_a_server_that_does_not_encrypt_is_denied(tmp_path: Path) -> None:
    with Prosody(tmp_path, tls="none") as server:
        house = House(server, 1, tmp_path)
        with pytest.raises(Denied, match="keeps the password secret"):
            await house.secure().run(house.inbox)


async def test_a_wrong_password_on_a_real_server(house: House) -> None:
    with pytest.raises(Denied, match="check password"):
        await house.channel(password="wrong").run(house.inbox)
    with pytest.raises(NotSent, match="check password"):
        await house.channel(password="wrong").send(house.op("post", house.jid("alice"), "x"))


async def test_where_dns_says_nothing_the_domain_itself_is_asked() -> None:
    """Port 5222 of the account's domain: nobody is there, or somebody who does not let us in."""
    channel = XmppChannel("x", XmppSettings("nobody@localhost", "pw", timeout=5.0))
    with pytest.raises(NotSent):
        await channel.send(Op("k", "post", "alice@localhost", "x"))
    assert not [task for task in asyncio.all_tasks() if "slixmpp" in repr(task)]


async def test_a_message_that_comes_back_late_has_failed(house: House) -> None:
    """As another server would tell it: the address of the message is whose refusal it is."""
    channel = house.channel()
    async with house.user("alice") as alice, house.running(channel):
        op = house.op("post", house.jid("alice"), "hi")
        assert await channel.send(op) == Receipt(op.key)
        back = alice.client.make_message(mto=f"{house.bot}/semel", mtype="error")
        back["id"] = op.key
        back["error"]["condition"] = "recipient-unavailable"
        back.send()
        [failed] = await house.heard("failed")
        assert failed.of == op.key
        assert failed.text.startswith(f"{house.jid('alice')}: recipient-unavailable")
