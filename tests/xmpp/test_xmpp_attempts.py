"""One attempt of the XMPP channel: what leaves, how often, and what is known afterwards."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from wire_server import WireServer, body, bounces, drops, hangs, takes

from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings
from semel.faces.channel_check import ChannelCheck, check_channel
from semel.gateway.ports import Denied, NotSent, Offline, Op, Receipt, Rejected, Safety, Unknown
from semel.testing.inbox import KeptInbox

OP = Op(key="k-1", kind="post", address="alice@localhost", text="Grüße, **Welt**", session="main:jabber:alice")


@pytest.fixture(autouse=True)
async def nothing_is_left_behind() -> AsyncIterator[None]:
    """slixmpp starts tasks and timers of its own: none may outlive what was asked of the channel."""
    yield
    assert not [task for task in asyncio.all_tasks() if "slixmpp" in repr(task)]


async def test_a_message_leaves_once_with_its_key_as_its_id() -> None:
    async with WireServer() as server:
        assert await server.channel().send(OP) == Receipt("k-1")
        [message] = server.messages
        assert (message.get("to"), message.get("type"), message.get("id")) == ("alice@localhost", "chat", "k-1")
        assert message.find("{urn:xmpp:sid:0}origin-id").attrib == {"id": "k-1"}  # type: ignore[union-attr]
        assert body(message) == "Grüße, *Welt*"
        assert len(server.connections) == 1


@pytest.mark.parametrize("way", [drops, hangs])
async def test_a_lost_answer_is_unknown_and_nothing_is_sent_again(way: Any) -> None:
    async with WireServer(on_message=way) as server:
        begun = time.monotonic()
        with pytest.raises(Unknown):
            await server.channel(timeout=0.5 if way is hangs else 30.0).send(OP)
        assert time.monotonic() - begun < 20, "a lost connection is noticed at once"
        assert [body(each) for each in server.messages] == ["Grüße, *Welt*"]
        assert len(server.connections) == 1


@pytest.mark.parametrize(
    ("condition", "type", "outcome"),
    [
        ("item-not-found", "cancel", Rejected),
        ("service-unavailable", "cancel", Rejected),
        ("remote-server-not-found", "cancel", Rejected),
        ("forbidden", "auth", Rejected),
        ("resource-constraint", "wait", NotSent),
        ("remote-server-timeout", "wait", NotSent),
        ("policy-violation", "wait", NotSent),
    ],
)
async def test_a_message_that_comes_back_was_not_accepted(condition: str, type: str, outcome: Any) -> None:
    async with WireServer(on_message=bounces(condition, type)) as server:
        with pytest.raises(outcome, match=f"alice@localhost: {condition}"):
            await server.channel().send(OP)
        assert len(server.messages) == 1


async def test_a_refusal_of_another_message_is_not_ours() -> None:
    async def way(connection: Any, message: Any) -> None:
        connection.say("<message type='error' from='alice@localhost' id='k-0'><error type='cancel'/></message>")

    async with WireServer(on_message=way) as server:
        assert await server.channel().send(OP) == Receipt("k-1")


async def test_what_cannot_connect_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    channel = XmppChannel("x", XmppSettings("bot@localhost", "pw", "127.0.0.1", port, tls="none", timeout=2.0))
    with pytest.raises(NotSent, match="Connect call failed"):
        await channel.send(OP)


async def test_a_name_that_leads_nowhere_is_offline_and_says_so(tmp_path: Path) -> None:
    settings = XmppSettings("bot@localhost", "pw", "nowhere.invalid", 5222, timeout=5.0)
    with pytest.raises(Offline):
        await XmppChannel("x", settings).run(KeptInbox(tmp_path))


@pytest.mark.parametrize("where", ["connect", "login"])
async def test_a_server_that_says_nothing_is_given_up_in_time(where: str, tmp_path: Path) -> None:
    async with WireServer(silent_after=where) as server:
        channel = server.channel(timeout=0.5)
        begun = time.monotonic()
        with pytest.raises(NotSent):
            await channel.send(OP)
        with pytest.raises(Offline):
            await channel.run(KeptInbox(tmp_path))
        assert time.monotonic() - begun < 10
        assert len(server.connections) == 2, "one connection an attempt, and none by the library"
        assert not server.messages


async def test_a_wrong_password_is_denied_and_never_shown(tmp_path: Path) -> None:
    async with WireServer() as server:
        channel = server.channel(password="hunter2")
        with pytest.raises(Denied, match="check password") as no:
            await channel.run(KeptInbox(tmp_path))
        with pytest.raises(NotSent):
            await channel.send(OP)
        assert "hunter2" not in f"{no.value!r}{channel!r}{channel.settings!r}"
        assert not server.messages


async def test_a_password_is_not_given_to_a_server_without_tls(tmp_path: Path) -> None:
    async with WireServer() as server:
        with pytest.raises(Denied, match="keeps the password secret"):
            await server.channel(tls="required").run(KeptInbox(tmp_path))
        assert not any(each.logged_in for each in server.connections)


async def test_a_lost_connection_ends_run_and_the_library_makes_no_other(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path)
        run = asyncio.create_task(server.channel().run(inbox))
        await inbox.wait_online()
        server.connections[-1].cut()
        with pytest.raises(Offline):
            await run
        await asyncio.sleep(0.2)
        assert len(server.connections) == 1


@pytest.mark.parametrize("condition", ["conflict", "see-other-host", "system-shutdown"])
async def test_a_stream_error_ends_run_with_what_it_means(condition: str, tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path)
        run = asyncio.create_task(server.channel().run(inbox))
        await inbox.wait_online()
        space = "urn:ietf:params:xml:ns:xmpp-streams"
        server.say(f"<stream:error><{condition} xmlns='{space}'>127.0.0.1:1</{condition}></stream:error>")
        with pytest.raises(Denied if condition == "conflict" else Offline):
            await run
        assert len(server.connections) == 1


async def test_a_stream_that_is_no_xml_ends_run(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path)
        run = asyncio.create_task(server.channel().run(inbox))
        await inbox.wait_online()
        server.say("<message><<<")
        with pytest.raises(Offline):
            await run


async def test_send_uses_the_connection_of_run_and_a_silent_one_ends_it(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path)
        channel = server.channel(timeout=0.5)
        run = asyncio.create_task(channel.run(inbox))
        await inbox.wait_online()
        assert await channel.send(OP) == Receipt("k-1")
        assert len(server.connections) == 1
        server.on_message = hangs
        with pytest.raises(Unknown):
            await channel.send(OP)
        with pytest.raises(Offline):
            await run
        server.on_message = takes
        assert await channel.send(OP) == Receipt("k-1")
        assert len(server.connections) == 2


async def test_cancelling_in_every_moment_leaves_nothing(tmp_path: Path) -> None:
    async with WireServer() as server:
        channel = server.channel()
        for steps in range(0, 60, 6):
            run = asyncio.create_task(channel.run(KeptInbox(tmp_path)))
            sending = asyncio.create_task(channel.send(OP))
            for _ in range(steps):
                await asyncio.sleep(0.001)
            run.cancel()
            sending.cancel()
            await asyncio.gather(run, sending, return_exceptions=True)
            assert not [task for task in asyncio.all_tasks() if "slixmpp" in repr(task)]


async def test_edits_reactions_and_retractions_name_what_they_mean() -> None:
    async with WireServer() as server:
        channel = server.channel()
        await channel.send(OP)
        await channel.send(Op("k-2", "edit", "alice@localhost", "better", target="k-1"))
        await channel.send(Op("k-3", "react", "alice@localhost", "👍", target="k-1"))
        await channel.send(Op("k-4", "react", "alice@localhost", "🎉", target="k-1"))
        await channel.send(Op("k-5", "delete", "alice@localhost", "", target="k-1"))
        _, edit, _, react, delete = server.messages
        assert edit.find("{urn:xmpp:message-correct:0}replace").get("id") == "k-1"  # type: ignore[union-attr]
        assert body(edit) == "better"
        reactions = react.find("{urn:xmpp:reactions:0}reactions")
        assert reactions is not None
        assert (reactions.get("id"), [each.text for each in reactions]) == ("k-1", ["👍", "🎉"])
        assert delete.find("{urn:xmpp:message-retract:1}retract").get("id") == "k-1"  # type: ignore[union-attr]


async def test_what_xml_cannot_hold_leaves_as_a_mark_and_not_as_a_broken_stream() -> None:
    async with WireServer() as server:
        assert await server.channel().send(Op("k-1", "post", "alice@localhost", "a\x1b[31m\x00\ud800b & <c>"))
        assert body(server.messages[0]) == "a\ufffd[31m\ufffd\ufffdb & <c>"


async def test_a_repeat_is_marked() -> None:
    async with WireServer() as server:
        await server.channel().send(Op("k-1", "post", "alice@localhost", "hi", marked=True))
        assert body(server.messages[0]) == "(repeat) hi"


async def test_without_an_archive_nothing_is_promised_that_needs_one() -> None:
    async with WireServer() as server:
        channel = server.channel(archive=False)
        assert (channel.caps.safety, channel.caps.finds) == (Safety.AT_MOST_ONCE, False)
        assert server.channel().caps.safety is Safety.RECONCILABLE
        assert await channel.send(OP) == Receipt("k-1")


async def test_an_account_without_an_archive_is_refused_before_it_is_written() -> None:
    async with WireServer() as server:
        assert await check_channel(server.channel()) == ChannelCheck()
        server.features = ("urn:xmpp:sid:0",)
        check = await check_channel(server.channel())
        assert check.refused and "keeps no archive" in check.problem


async def test_typing_is_shown_only_where_there_is_a_connection(tmp_path: Path) -> None:
    async with WireServer() as server:
        channel = server.channel()
        await channel.typing("alice@localhost")
        assert not server.connections
        inbox = KeptInbox(tmp_path)
        run = asyncio.create_task(channel.run(inbox))
        await inbox.wait_online()
        await channel.typing("alice@localhost")
        await server.until(lambda: bool(server.messages))
        assert server.messages[0].find("{http://jabber.org/protocol/chatstates}composing") is not None
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_a_server_that_takes_no_files_is_a_definite_no_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abc")
    async with WireServer() as server:
        with pytest.raises(Rejected, match="localhost takes no files"):
            await server.channel().send(Op("k-1", "file", "alice@localhost", "", file=path, name="a.txt"))
        path.unlink()
        assert not server.messages
