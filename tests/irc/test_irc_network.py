"""The channel on a real InspIRCd with services: who is known, where answers go, and what does not let it in."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from irc_house import House
from ircds import FLOOD_LIMITS, Inspircd, IrcUser, Ngircd, SecondInspircd
from server_process import CERTIFICATE

from semel.channels.irc import send
from semel.faces.channel_check import check_channel, send_test_message
from semel.gateway.ports import Answers, Denied, NotSent, Offline, Receipt, Rejected, Unknown

pytestmark = pytest.mark.channels
LONG = " ".join(f"word{n} and ümläut" for n in range(400))


async def test_a_private_message_of_an_account_is_heard_and_answered(house: House) -> None:
    channel = house.channel(login="bot", password="pw")
    async with house.running(channel), house.user("zoe", account=house.ann) as zoe:
        await zoe.say(house.bot, "hello")
        [event] = await house.heard(1)
        assert event.sender is not None
        assert (event.sender.id, event.sender.name, event.address, event.group) == (house.ann, "zoe", house.ann, False)
        receipt = await channel.send(house.op(house.ann, "re: **hello**"))
        await zoe.wait(lambda: zoe.texts == ["re: \x02hello\x02"] or zoe.texts == ["re: \x02hello"])
        assert receipt.id == zoe.messages[0].tags["msgid"]


async def test_an_answer_is_not_sent_to_a_nick_that_somebody_else_has_taken(house: House) -> None:
    channel = house.channel()
    async with house.running(channel):
        async with house.user(house.ann) as ann:
            await ann.say(house.bot, "hello")
            await house.heard(1)
            assert isinstance(await channel.send(house.op(house.ann, "one")), Receipt)
        for account in (None, house.ben):
            async with house.user(house.ann, account=account) as thief:
                with pytest.raises(NotSent, match="nobody who is logged in as"):
                    await channel.send(
                        house.op(house.ann, "secret", answers=Answers("m", house.ann, {"nick": house.ann}))
                    )
                await thief.say(house.bot, "I am ann")
                assert thief.texts == []
        async with house.user("back", account=house.ann) as ann:  # the account is back under another nick
            await ann.say(house.bot, "again")
            await house.heard(3 if house.inbox.events[1].sender.id == house.ben else 2)  # type: ignore[union-attr]
            await channel.send(house.op(house.ann, "two"))
            await ann.wait(lambda: ann.texts == ["two"])


async def test_a_nick_that_changes_hands_between_two_parts_is_noticed_as_soon_as_between_two_lines(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "NICK_CHECK_INTERVAL_S", 1.5)
    channel = house.channel(pace=0.1)
    async with house.running(channel):
        async with house.user(house.ann) as ann:
            await ann.say(house.bot, "hello")
            await house.heard(1)
            await channel.send(house.op(house.ann, "one"))
        async with house.user(house.ann, account=None) as thief:
            await asyncio.sleep(0.2)
            with pytest.raises((NotSent, Unknown), match="nobody who is logged in as"):
                await channel.send(house.op(house.ann, "secret\n" * 30, n=1))
            await thief.settle()
            assert len(thief.texts) <= 17, "no more than until the second check"


async def test_who_has_no_account_is_not_heard(house: House) -> None:
    async with (
        house.running(house.channel(channels=[house.room])),
        house.user(house.ann, house.room, account=None) as nobody,
        house.user(house.ben, house.room) as ben,
    ):
        await nobody.say(house.bot, "a code")
        await nobody.say(house.room, f"{house.bot}: do it")
        await ben.say(house.room, f"{house.bot}: well?")
        [event] = await house.heard(1)
        assert event.sender is not None and event.sender.id == house.ben and event.text == "well?"


async def test_a_long_text_arrives_whole_in_lines_that_no_server_cuts(house: House) -> None:
    channel = house.channel(channels=[house.room], trust_nicks=True)
    async with house.user(house.ann, house.room) as ann, house.running(channel):
        await channel.send(house.op(house.room, LONG))
        await ann.wait(lambda: "".join(ann.texts) == LONG)
        assert all(len(text.encode()) <= 400 for text in ann.texts)


async def test_a_line_that_is_refused_is_rejected_and_names_why(house: House) -> None:
    channel = house.channel(channels=[house.room])
    async with house.user(house.ann, house.room) as ann, house.running(channel):
        ann.write("MODE", house.room, "+m")
        await ann.settle()
        with pytest.raises(Rejected, match=r"moderated.*404"):
            await channel.send(house.op(house.room, "hello"))
        with pytest.raises(Rejected, match="not among the channels"):
            await channel.send(house.op("#elsewhere", "hello"))


async def test_an_answer_to_operators_alone_goes_to_no_one_else(house: House) -> None:
    channel = house.channel(channels=[house.room])
    async with house.user(house.ann, house.room) as ann, house.running(channel), house.user(house.ben, house.room) as b:
        ann.write("MODE", house.room, "+o", house.bot)
        await ann.say(f"@{house.room}", f"{house.bot}: between us")
        [event] = await house.heard(1)
        assert (event.text, event.address, event.group, event.mentioned) == (
            "between us", f"@{house.room}", True, True,
        )  # fmt: skip
        await channel.send(house.op(event.address, "agreed"))
        await channel.send(house.op(house.room, "hello all"))
        await b.wait(lambda: "hello all" in b.texts)
        await ann.wait(lambda: "hello all" in ann.texts)
        assert (ann.texts, b.texts) == (["agreed", "hello all"], ["hello all"])


async def test_a_split_of_the_network_loses_no_identity_and_repeats_nothing(house: House, tmp_path: Path) -> None:
    assert isinstance(house.server, Inspircd)
    channel = house.channel(channels=[house.room], keepalive=0.5)
    with SecondInspircd(tmp_path, house.server) as second:
        far = IrcUser(second.port, house.ann, [house.room], house.ann)
        async with house.running(channel), house.user(house.ben, house.room) as ben:
            async with second.user("probe", account=None) as probe:
                await until_linked(probe, house.bot)
            async with far:
                await far.say(house.bot, "before")
                await house.heard(1)
                await channel.send(house.op(house.ann, "re: before"))
                await far.wait(lambda: far.texts == ["re: before"])
                second.split()
                await ben.wait(lambda: any(line.command == "QUIT" and line.nick == house.ann for line in ben.lines))
                async with house.user(house.ann, account=None) as thief:
                    with pytest.raises(NotSent, match="nobody who is logged in as"):
                        await channel.send(house.op(house.ann, "secret"))
                    await ben.say(house.room, f"{house.bot}: during")
                    await house.heard(2)
                    await channel.send(house.op(house.room, "re: during"))
                    second.rejoin()
                    await until_linked(far, house.bot)  # both who had the nick may have another one now
                    await far.say(house.room, f"{house.bot}: after")
                    events = await house.heard(3)
                    assert [event.text for event in events] == ["before", "during", "after"]
                    assert [event.sender.id for event in events if event.sender] == [house.ann, house.ben, house.ann]
                    await channel.send(house.op(house.ann, "re: after"))
                    await channel.send(house.op(house.room, "to all"))
                    await far.wait(lambda: "to all" in far.texts)
                    assert far.texts == ["re: before", "re: after", "to all"] and thief.texts == []
                await ben.wait(lambda: "to all" in ben.texts)
                assert ben.texts.count("re: during") == ben.texts.count("to all") == 1
            assert len(house.inbox.events) == 3 and not house.inbox.repeats


async def until_linked(user: IrcUser, nick: str) -> None:
    """Until the user's server knows a nick of the other one."""
    async with asyncio.timeout(30):
        while True:
            del user.lines[:]
            user.write("WHOIS", nick)
            await user.wait(lambda: any(line.command == "318" for line in user.lines))
            if any(line.command == "311" for line in user.lines):
                return
            await asyncio.sleep(0.1)


async def test_an_answer_of_many_lines_arrives_whole_from_a_server_that_drops_who_floods_it(tmp_path: Path) -> None:
    with Inspircd(tmp_path, flood_limits=FLOOD_LIMITS) as server:
        house = House(server, tmp_path)
        channel = house.channel(channels=[house.room], pace=0.1)
        async with house.running(channel) as run, house.user(house.ann) as ann:
            await ann.say(house.bot, "hello")
            await house.heard(1)
            for n in range(60):
                await channel.send(house.op(house.ann, f"line {n}", n=n))
            await ann.wait(lambda: ann.texts == [f"line {n}" for n in range(60)])
            assert not run.done()
        channel = house.channel(channels=[house.room], pace=0.0)
        async with house.running(channel) as run:
            with pytest.raises((NotSent, Unknown)):  # so the limit is one
                for n in range(200):
                    await channel.send(house.op(house.room, f"line {n}"))
            with pytest.raises(Offline, match="Excess Flood"):
                await run


@pytest.mark.parametrize("nick", ["semel[ai]", "a|b^", "stop"])
async def test_a_nick_of_odd_characters_is_taken_off_a_command(house: House, nick: str) -> None:
    house.bot = f"{nick}{house.number}"
    async with house.user(house.ann, house.room) as ann, house.running(house.channel(channels=[house.room])):
        for text in (f"/stop@{house.bot} now", f"{house.bot}: /approve 1", f"@{house.bot} /new", f"/stop {house.bot}x"):
            await ann.say(house.room, text)
        heard = [(event.text, event.mentioned) for event in await house.heard(4)]
        assert heard == [("/stop now", True), ("/approve 1", True), ("/new", True), (f"/stop {house.bot}x", False)]


async def test_after_a_kick_the_channel_is_joined_again(house: House) -> None:
    channel = house.channel(channels=[house.room], channel_key="k")
    async with house.user(house.ann, house.room) as ann:
        ann.write("MODE", house.room, "+k", "k")
        await ann.settle()
        async with house.running(channel):
            ann.write("KICK", house.room, house.bot)
            await ann.settle()
            op = house.op(house.room, "back")
            with suppress(NotSent):  # if the kick was not read when it left
                await channel.send(op)
            if not ann.texts:
                await channel.send(op)
            await ann.wait(lambda: ann.texts == ["back"])


async def test_a_channel_that_sends_us_elsewhere_or_wants_a_delay_breaks_no_connection(house: House) -> None:
    channel = house.channel(channels=[house.room])
    elsewhere = f"{house.room}-elsewhere"
    async with house.user(house.ann, house.room, elsewhere) as ann:
        ann.write("MODE", house.room, "+lL", "1", elsewhere)
        await ann.settle()
        async with house.running(channel):
            with pytest.raises(NotSent, match="transferred"):
                await channel.send(house.op(house.room, "hello"))
            await ann.wait(lambda: any(line.command == "PART" and line.params[0] == elsewhere for line in ann.lines))
            ann.write("MODE", house.room, "-lL+J", "60")
            await ann.settle()
            assert isinstance(await channel.send(house.op(house.room, "now")), Receipt)
            ann.write("KICK", house.room, house.bot)
            await ann.settle()
            for _ in range(2):  # the kick may be read after the first line left
                with pytest.raises(NotSent):
                    await channel.send(house.op(house.room, "back"))
            assert ann.texts == ["now"]


async def test_a_nick_that_is_in_use_is_taken_back_once_it_is_free(house: House) -> None:
    channel = house.channel(keepalive=0.2, channels=[house.room])
    async with house.user(house.ann, house.room) as ann:
        async with house.user(house.bot, account=None), house.running(channel):
            await channel.send(house.op(house.room, "as another"))
            await ann.wait(lambda: ann.texts == ["as another"])
            assert ann.messages[0].nick == f"{house.bot}_"
        house.inbox.events.clear()
        async with house.user(house.bot, account=None) as holder, house.running(channel):
            holder.write("QUIT", "bye")
            await ann.wait(lambda: any(line.command == "NICK" and line.params[0] == house.bot for line in ann.lines))
            await channel.send(house.op(house.room, "as myself"))
            await ann.wait(lambda: ann.texts[-1] == "as myself")
            assert ann.messages[-1].nick == house.bot


async def test_over_tls_a_certificate_logs_in_and_one_that_nobody_vouches_for_is_denied(
    house: House, tmp_path: Path
) -> None:
    shutil.copy(CERTIFICATE, tmp_path / "own.pem")
    secure = {"tls": "required", "server": "localhost", "port": house.server.tls_port}
    channel = house.channel(**secure, ca_file=str(CERTIFICATE), certificate=str(tmp_path / "own.pem"))
    assert not (await check_channel(channel)).problem
    with pytest.raises(Denied, match="certificate is not trusted"):
        await house.channel(**secure).run(house.inbox)


async def test_a_wrong_password_is_denied_and_names_the_setting(house: House) -> None:
    with pytest.raises(Denied, match="does not accept the account bot") as denied:
        await house.channel(login="bot", password="wrong").run(house.inbox)
    assert denied.value.settings == ("password",)


async def test_a_server_that_tells_no_accounts_is_refused_unless_nicks_are_trusted(
    ngircd: Ngircd, tmp_path: Path
) -> None:
    house = House(ngircd, tmp_path)
    with pytest.raises(Denied, match="set trust_nicks = true"):
        await house.channel().run(house.inbox)
    async with house.user(house.ann, account=None) as ann, house.running(house.channel(trust_nicks=True)):
        await ann.say(house.bot, "hello")
        [event] = await house.heard(1)
        assert event.sender is not None and event.sender.id == event.address == f"~{house.ann}"


async def test_a_server_password_is_given(tmp_path: Path) -> None:
    with Ngircd(tmp_path, password="open") as server:
        house = House(server, tmp_path)
        assert not (await check_channel(house.channel(trust_nicks=True, server_password="open"))).problem
        with pytest.raises((Denied, Offline), match=r"(?i)password"):
            await house.channel(trust_nicks=True, server_password="shut").run(house.inbox)


async def test_a_test_message_is_confirmed_by_its_echo(house: House) -> None:
    async with house.user(house.ann, house.room) as ann:
        sent = await send_test_message(house.channel(channels=[house.room]), house.room)
        await ann.wait(lambda: len(ann.texts) == 1)
        assert sent.receipt == ann.messages[0].tags["msgid"]


async def test_a_server_that_stops_answering_leaves_the_outcome_unknown(house: House) -> None:
    channel = house.channel(channels=[house.room], timeout=2.0)
    async with house.user(house.ann, house.room), house.running(channel) as run:
        house.server.process.pause()
        try:
            with pytest.raises(Unknown):
                await channel.send(house.op(house.room, "hello"))
            with pytest.raises(Offline):
                await asyncio.wait_for(run, 10)
            with pytest.raises(NotSent):
                await channel.send(house.op(house.room, "hello"))
        finally:
            house.server.process.resume()
