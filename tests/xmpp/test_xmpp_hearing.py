"""What the XMPP channel hears: out of the archive, page by page, each thing once, with a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from wire_server import Entry, WireServer, entry

from semel.channels.xmpp import receive
from semel.channels.xmpp.archive import parse_time
from semel.channels.xmpp.channel import XmppChannel
from semel.gateway.ports import Denied, Offline, Op, Person, Unknown
from semel.testing.inbox import KeptInbox

ALICE = Person("alice@localhost")
EMPTY = '{"own":{"id":"","at":0.0},"rooms":{}}'
"""The cursor of an account whose archive was empty when it was first read."""


def chat(id: str, text: str = "", inside: str = "", *, written: str = "", stamp: str = "") -> Entry:
    """One archived message of alice's."""
    body = f"<body>{text}</body>" if text else ""
    message = f"<message type='chat' from='alice@localhost/phone' to='bot@localhost' id='{written or 'w-' + id}'>"
    return entry(id, f"{message}{body}{inside}</message>", *([stamp] if stamp else []))


def ours(id: str, key: str) -> Entry:
    origin = f"<origin-id xmlns='urn:xmpp:sid:0' id='{key}'/>"
    return entry(
        id, f"<message type='chat' from='bot@localhost/semel' to='alice@localhost' id='{key}'>{origin}</message>"
    )


@asynccontextmanager
async def running(channel: XmppChannel, inbox: KeptInbox, online: int = 1) -> AsyncIterator[asyncio.Task[None]]:
    run = asyncio.create_task(channel.run(inbox))
    try:
        waits = asyncio.create_task(inbox.wait_online(online))
        await asyncio.wait({run, waits}, return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            waits.cancel()
            run.result()
        await waits
        yield run
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_the_first_run_begins_at_the_present(tmp_path: Path) -> None:
    async with WireServer(archive=[chat("a1", "old"), chat("a2", "older than us")]) as server:
        inbox = KeptInbox(tmp_path)
        async with running(server.channel(), inbox):
            assert inbox.events == []
            assert json.loads(inbox.at or "") == {
                "own": {"id": "a2", "at": parse_time("2026-11-22T10:00:00Z")},
                "rooms": {},
            }


async def test_everything_that_was_missed_is_put_in_order_to_the_last_page_before_online(tmp_path: Path) -> None:
    async with WireServer(archive=[chat(f"a{n}", f"text {n}") for n in range(120)], page=50) as server:
        inbox = KeptInbox(tmp_path, '{"own":{"id":"a4","at":0},"rooms":{}}')
        async with running(server.channel(), inbox):
            assert [each.text for each in inbox.events] == [f"text {n}" for n in range(5, 120)]
            assert [len(batch) for batch, _ in inbox.puts] == [50, 50, 15]
            assert json.loads(inbox.puts[0][1] or "")["own"]["id"] == "a54", "each page with the cursor behind it"
            assert inbox.events[0].key == "a5" and inbox.events[0].sender == ALICE


async def test_a_restart_after_any_page_repeats_and_misses_nothing(tmp_path: Path) -> None:
    """Killed between receiving and committing: the page comes again, and the pages before it do not."""
    async with WireServer(archive=[chat(f"a{n}", f"text {n}") for n in range(30)], page=10) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        for _ in range(3):
            inbox.fail = OSError("No space left on device")
            with pytest.raises(OSError, match="No space left"):
                async with running(server.channel(), inbox):
                    pass
        async with running(server.channel(), inbox):
            assert [each.text for each in inbox.events] == [f"text {n}" for n in range(30)]
            assert not inbox.repeats


async def test_a_message_that_comes_live_is_put_once_under_the_archives_id(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            for n in range(3):
                server.archive.append(chat(f"a{n}", f"text {n}"))
                server.live(server.archive[-1])
            await inbox.wait(3)
            assert [(each.key, each.text) for each in inbox.events] == [(f"a{n}", f"text {n}") for n in range(3)]
            assert not inbox.repeats
        async with running(server.channel(), inbox, online=2):
            assert len(inbox.events) == 3
            assert not inbox.repeats


async def test_what_was_lost_on_the_way_is_found_when_the_next_message_comes(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            server.archive += [chat("a1", "never delivered"), chat("a2", "delivered")]
            server.live(server.archive[-1])
            await inbox.wait(2)
            assert [each.text for each in inbox.events] == ["never delivered", "delivered"]


async def test_what_was_lost_on_the_way_is_found_even_if_nothing_follows(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(keepalive=0.2), inbox):
            server.archive.append(chat("a1", "never delivered"))
            await inbox.wait(1)


async def test_an_archive_that_is_slow_to_show_a_message_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with WireServer(hidden={"a1"}) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            server.archive.append(chat("a1", "hello"))
            server.live(server.archive[-1])
            asked = server.queries
            await server.until(lambda: server.queries > asked + 1)
            server.hidden.clear()
            await inbox.wait(1)
        assert [each.key for each in inbox.events] == ["a1"]
        assert json.loads(inbox.at or "")["own"]["id"] == "a1"


async def test_an_archive_that_never_shows_a_message_loses_nothing_either(tmp_path: Path) -> None:
    async with WireServer(hidden={"a1"}) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            server.archive.append(chat("a1", "hello"))
            server.live(server.archive[-1])
            await inbox.wait(1)
            assert inbox.events[0].key == "a1"
            assert inbox.at == EMPTY, "the cursor does not pass what the archive may still show before it"
            server.hidden.clear()
            server.archive.append(chat("a2", "more"))
            server.live(server.archive[-1])
            await inbox.wait(2)
            assert inbox.repeats == {"a1": 1}, "folded by its key"


async def test_an_archive_that_forgot_our_place_is_read_on_from_its_time(tmp_path: Path) -> None:
    old = [chat("a5", "before", stamp="2026-11-22T09:59:00Z")]
    new = [chat("a6", "at that time"), chat("a7", "later", stamp="2026-11-22T11:00:00Z")]
    async with WireServer(archive=old + new) as server:
        inbox = KeptInbox(tmp_path, f'{{"own":{{"id":"gone","at":{parse_time("2026-11-22T10:00:00Z")}}},"rooms":{{}}}}')
        async with running(server.channel(), inbox):
            assert [each.text for each in inbox.events] == ["at that time", "later"]
            assert json.loads(inbox.at or "")["own"]["id"] == "a7"


async def test_a_server_without_an_archive_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with WireServer(features=()) as server:
        with pytest.raises(Denied, match="set archive = false"):
            await server.channel().run(KeptInbox(tmp_path))


async def test_without_an_archive_messages_are_heard_as_they_come(tmp_path: Path) -> None:
    async with WireServer(features=()) as server:
        inbox = KeptInbox(tmp_path)
        async with running(server.channel(archive=False), inbox):
            server.say(chat("", "hello", written="w1").xml)
            server.say(chat("", "hello", written="w1").xml)
            server.say(chat("", "again", written="w2").xml)
            await inbox.wait(2)
            assert [each.text for each in inbox.events] == ["hello", "again"]
            assert inbox.events[0].key == "alice@localhost/alice@localhost/w1"
            assert server.queries == 0
            with pytest.raises(Unknown):
                await server.channel(archive=False).find(Op("k", "post", "room@muc.localhost", ""), 0.0)


async def test_an_offline_copy_of_an_archived_message_is_not_heard_twice(tmp_path: Path) -> None:
    """Some servers keep a message for us and put it into the archive, without its id in the copy."""
    async with WireServer(archive=[chat("a1", "hello", written="w1")]) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            delay = "<delay xmlns='urn:xmpp:delay' stamp='2026-11-22T10:00:00Z'/>"
            server.say(chat("", "hello", delay, written="w1").xml)
            server.archive.append(chat("a2", "next"))
            server.live(server.archive[-1])
            await inbox.wait(2)
            assert [each.key for each in inbox.events] == ["a1", "a2"]


async def test_what_no_archive_keeps_is_put_as_it_came(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            server.archive.append(chat("a1", "hello", written="w1"))
            server.live(server.archive[-1])
            server.say(
                chat("", "", "<reactions xmlns='urn:xmpp:reactions:0' id='w1'><reaction>👍</reaction></reactions>").xml
            )
            await inbox.wait(2)
            reaction = inbox.events[1]
            assert (reaction.kind, reaction.text, reaction.of) == ("reaction", "👍", "a1")
            assert json.loads(inbox.at or "")["own"]["id"] == "a1"


async def test_nobody_but_the_server_can_forge_the_archive_or_a_copy(tmp_path: Path) -> None:
    message = chat("", "forged").xml.replace("alice@localhost", "owner@localhost")
    inner = f"<forwarded xmlns='urn:xmpp:forward:0'>{message}</forwarded>"
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            for source in ("mallory@localhost/x", "bot@localhost.evil"):
                server.say(
                    f"<message from='{source}'><received xmlns='urn:xmpp:carbons:2'>{inner}</received></message>"
                )
                server.say(
                    f"<message from='{source}'><result xmlns='urn:xmpp:mam:2' id='f1'>{inner}</result></message>"
                )
            forged = "<stanza-id xmlns='urn:xmpp:sid:0' by='mallory@localhost' id='a0'/>"
            server.say(chat("", "no archive has it", forged, written="w9").xml)
            server.archive.append(chat("a1", "real"))
            server.live(server.archive[-1])
            await inbox.wait(2)
            assert {each.text for each in inbox.events} == {"no archive has it", "real"}
            assert {each.sender for each in inbox.events} == {ALICE}


async def test_a_copy_of_what_another_device_did_is_heard_once(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            server.archive.append(chat("a1", "to another device"))
            stamped = server.archive[0].xml.replace(
                "</message>", "<stanza-id xmlns='urn:xmpp:sid:0' by='bot@localhost' id='a1'/></message>"
            )
            server.say(
                "<message from='bot@localhost'><received xmlns='urn:xmpp:carbons:2'>"
                f"<forwarded xmlns='urn:xmpp:forward:0'>{stamped}</forwarded></received></message>"
            )
            await inbox.wait(1)
            assert (inbox.events[0].key, inbox.events[0].text) == ("a1", "to another device")


async def test_our_own_message_in_the_archive_settles_what_was_unknown(tmp_path: Path) -> None:
    async with WireServer(archive=[ours("a1", "part-7")]) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            [echo] = inbox.events
            assert (echo.kind, echo.key, echo.of, echo.address) == ("echo", "part-7", "part-7", "alice@localhost")


async def test_a_correction_an_answer_and_a_reaction_name_the_archives_message(tmp_path: Path) -> None:
    reply = "<reply xmlns='urn:xmpp:reply:0' id='part-7'/>"
    after = [
        chat("a3", "hello!", "<replace xmlns='urn:xmpp:message-correct:0' id='w1'/>"),
        chat("a4", "thanks", reply),
        chat("a5", "", "<reactions xmlns='urn:xmpp:reactions:0' id='part-7'><reaction>👍</reaction></reactions>"),
        chat("a6", "", "<reactions xmlns='urn:xmpp:reactions:0' id='part-7'><reaction>🎉</reaction></reactions>"),
        chat("a7", "gone", "<retract xmlns='urn:xmpp:message-retract:1' id='w1'/>"),
    ]
    first = [chat("a1", "helo", written="w1"), ours("a2", "part-7")]
    for known in (0, 2):  # 2: what they mean was heard before a restart, and is looked up in the archive
        async with WireServer(archive=first + after) as server:
            inbox = KeptInbox(tmp_path, EMPTY if not known else '{"own":{"id":"a2","at":0},"rooms":{}}')
            async with running(server.channel(), inbox):
                edit, answer, *reactions, deletion = inbox.events[2 - known :]
                assert (edit.kind, edit.of, edit.text) == ("edit", "a1", "hello!")
                assert (answer.kind, answer.of) == ("message", "part-7")
                assert [(each.text, each.removed, each.of) for each in reactions] == [
                    ("👍", False, "part-7"),
                    ("🎉", False, "part-7"),
                    ("👍", True, "part-7"),
                ]
                assert (deletion.kind, deletion.of) == ("delete", "a1")
                assert len({each.key for each in inbox.events}) == len(inbox.events)


async def test_nobody_corrects_or_takes_back_what_another_wrote(tmp_path: Path) -> None:
    mallory = "<message type='chat' from='mallory@localhost/x' to='bot@localhost' id='m{0}'>{1}</message>"
    async with WireServer(archive=[chat("a1", "mine", written="w1")]) as server:
        server.archive += [
            entry("a2", mallory.format(1, "<retract xmlns='urn:xmpp:message-retract:1' id='w1'/>")),
            entry("a3", mallory.format(2, "<body>x</body><replace xmlns='urn:xmpp:message-correct:0' id='w1'/>")),
        ]
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            assert not any(each.of == "a1" for each in inbox.events)


async def test_only_people_we_know_may_see_that_we_are_there(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        inbox.strangers.add("mallory@localhost")
        async with running(server.channel(), inbox):
            before = len(server.presences)
            server.say("<presence type='subscribe' from='mallory@localhost'/>")
            server.say("<presence type='subscribe' from='alice@localhost'/>")
            await server.until(lambda: len(server.presences) == before + 2)
            told = [(each.get("to"), each.get("type")) for each in server.presences[before:]]
            assert told == [("alice@localhost", "subscribed"), ("alice@localhost", "subscribe")]


async def test_what_is_encrypted_is_kept_with_what_to_do_but_not_for_strangers(tmp_path: Path) -> None:
    omemo = "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'/><payload>AAAA</payload></encrypted>"
    keys = "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'/></encrypted>"
    stranger = f"<message type='chat' from='mallory@localhost/x' to='bot@localhost' id='m'>{omemo}</message>"
    async with WireServer(
        archive=[chat("a1", "a fallback", omemo), chat("a2", "", keys), entry("a3", stranger)]
    ) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        inbox.strangers.add("mallory@localhost")
        async with running(server.channel(), inbox):
            [hidden] = inbox.events
            assert (hidden.kind, hidden.key, hidden.sender) == ("unreadable", "a1", ALICE)
            assert "OMEMO" in hidden.why and b"AAAA" in hidden.raw
            assert json.loads(inbox.at or "")["own"]["id"] == "a3"


async def test_the_archive_that_breaks_off_ends_run(tmp_path: Path) -> None:
    async with WireServer(archive=[chat("a1", "x")]) as server:

        def breaks(*args: Any) -> None:
            server.connections[-1].cut()

        server._query = breaks  # type: ignore[method-assign]
        with pytest.raises(Offline):
            await server.channel().run(KeptInbox(tmp_path, EMPTY))


async def test_find_goes_through_all_pages_and_takes_a_returned_message_for_absent() -> None:
    archive = [ours("b0", "part-1"), ours("b1", "part-2")]
    archive += [chat(f"a{n}", f"text {n}") for n in range(120)]
    archive.append(entry("e1", "<message type='error' from='alice@localhost' to='bot@localhost/x' id='part-2'/>"))
    async with WireServer(archive=archive) as server:
        channel = server.channel()
        since = parse_time("2026-11-22T10:00:00Z")
        found = await channel.find(Op("part-1", "post", "alice@localhost", "x"), since)
        assert found is not None and found.id == "part-1"
        assert server.queries == 3
        assert await channel.find(Op("part-2", "post", "alice@localhost", "x"), since) is None
        assert await channel.find(Op("part-3", "post", "alice@localhost", "x"), since) is None
        assert await channel.find(Op("part-1", "post", "bob@localhost", "x"), since) is None


async def test_an_archive_that_refuses_its_second_page_does_not_prove_a_message_absent() -> None:
    async with WireServer(archive=[chat(f"a{n}", f"text {n}") for n in range(120)]) as server:
        answer_query = server._query

        def refuse_second(connection: Any, iq: Any) -> None:
            if server.queries == 1:
                error = (
                    "<error type='wait'><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
                )
                connection.say(f"<iq type='error' id='{iq.get('id')}'>{error}</iq>")
            else:
                answer_query(connection, iq)

        server._query = refuse_second  # type: ignore[method-assign]
        with pytest.raises(Unknown, match="internal-server-error"):
            await server.channel().find(
                Op("part-1", "post", "alice@localhost", "x"), parse_time("2026-11-22T10:00:00Z")
            )
        assert server.queries == 1, "the first page was read"


async def test_a_server_that_falls_silent_is_noticed(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(keepalive=0.2, timeout=0.5), inbox) as run:
            server.silent_after = "login"
            with pytest.raises(Offline, match="did not answer in time"):
                await run


LOBBY = "lobby@muc.localhost"


async def test_a_room_that_does_not_answer_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with WireServer(rooms=True, silent_to="dead@") as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        rooms = [LOBBY, "dead@muc.elsewhere"]
        async with running(server.channel(rooms=rooms, keepalive=0.2, timeout=0.5), inbox) as run:
            text = f"<message type='groupchat' from='{LOBBY}/alice' id='w1'><body>hello</body></message>"
            server.room_archive.append(entry("r1", text))
            server.live(server.room_archive[-1], by=LOBBY)
            server.archive.append(chat("a1", "and a chat"))
            server.live(server.archive[-1])
            await inbox.wait(2)
            assert {each.key for each in inbox.events} == {f"{LOBBY}/r1", "a1"}
            asked = server.queries
            await server.until(lambda: server.queries > asked + 2)
            assert not run.done() and len(server.connections) == 1


async def test_a_room_that_forgot_us_is_joined_again(tmp_path: Path) -> None:
    async with WireServer(rooms=True) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(rooms=[LOBBY], keepalive=0.2), inbox):
            joins = [each for each in server.presences if each.get("to") == f"{LOBBY}/bot"]
            assert len(joins) == 1
            server.forgets = True

            async def chatter() -> None:  # somebody always has something to say
                while True:
                    server.say("<message type='chat' from='alice@localhost/x'><composing xmlns='urn:x'/></message>")
                    await asyncio.sleep(0.02)

            talk = asyncio.create_task(chatter())
            await server.until(lambda: sum(each.get("to") == f"{LOBBY}/bot" for each in server.presences) == 2)
            talk.cancel()


async def test_a_room_given_again_later_begins_at_its_present_then(tmp_path: Path) -> None:
    async with WireServer(rooms=True) as server:
        inbox = KeptInbox(tmp_path)
        async with running(server.channel(rooms=[LOBBY]), inbox):
            assert LOBBY in json.loads(inbox.at or "")["rooms"]
        async with running(server.channel(), inbox, online=2):
            server.archive.append(chat("a1", "x"))
            server.live(server.archive[-1])
            await inbox.wait(1)
            assert json.loads(inbox.at or "")["rooms"] == {}


async def test_what_is_committed_is_confirmed_to_people_we_know(tmp_path: Path) -> None:
    ask = "<request xmlns='urn:xmpp:receipts'/>"
    stranger = (
        f"<message type='chat' from='mallory@localhost/x' to='bot@localhost' id='m'><body>x</body>{ask}</message>"
    )
    async with WireServer(archive=[chat("a1", "hello", ask, written="w1"), entry("a2", stranger)]) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        inbox.strangers.add("mallory@localhost")
        async with running(server.channel(), inbox):
            await server.until(lambda: bool(server.messages))
            server.archive.append(chat("a3", "no receipt asked"))
            server.live(server.archive[-1])
            await inbox.wait(3)
        [receipt] = server.messages
        assert receipt.get("to") == "alice@localhost/phone"
        assert receipt.find("{urn:xmpp:receipts}received").get("id") == "w1"  # type: ignore[union-attr]


async def test_strangers_do_not_learn_whether_we_are_there(tmp_path: Path) -> None:
    answers: list[str] = []
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        inbox.strangers.add("mallory@localhost")
        async with running(server.channel(), inbox):
            server._iq = lambda connection, iq: answers.append(f"{iq.get('to')} {iq.get('type')}")  # type: ignore[method-assign]
            server.say("<presence type='subscribe' from='alice@localhost'/>")
            await server.until(lambda: any(each.get("type") == "subscribed" for each in server.presences))
            for who in ("mallory", "alice"):
                server.say(
                    f"<iq type='get' id='q' from='{who}@localhost/x'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
                )
            await server.until(lambda: len(answers) == 2)
        assert answers == ["mallory@localhost/x error", "alice@localhost/x result"]


async def test_what_nobody_foresaw_is_kept_and_the_line_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(message: Any, *args: Any) -> Any:
        if message.get("id") == "w1":
            raise RecursionError("too deep")
        return real(message, *args)

    real = receive.parse_message
    monkeypatch.setattr(receive, "parse_message", broken)
    async with WireServer(archive=[chat("a1", "bad", written="w1"), chat("a2", "good")]) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            bad, good = inbox.events
            assert (bad.kind, bad.key, good.text) == ("unreadable", "a1", "good")
            assert b"bad" in bad.raw and "too deep" in bad.why


async def test_a_refusal_of_the_archive_is_told_as_it_is(tmp_path: Path) -> None:
    async with WireServer(archive=[chat("a1", "x")]) as server:
        inbox = KeptInbox(tmp_path, '{"own":{"id":"a0","at":0},"rooms":{}}')

        def no(connection: Any, iq: Any) -> None:
            error = "<error type='wait'><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
            connection.say(f"<iq type='error' id='{iq.get('id')}'>{error}</iq>")

        server._query = no  # type: ignore[method-assign]
        with pytest.raises(Offline, match=r"archive cannot be read.*internal-server-error") as why:
            await server.channel().run(inbox)
        assert why.value.retry_after == 60.0
