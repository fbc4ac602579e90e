"""One message that nobody foresaw does not stop those behind it (Law 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_xmpp_hearing import EMPTY, chat, running
from wire_server import WireServer

from semel.channels.xmpp import incoming, receive, transport
from semel.gateway.ports import Missing, Offline
from semel.testing.inbox import KeptInbox


def linked(url: str) -> str:
    return f"<x xmlns='jabber:x:oob'><url>{url}</url></x>"


@pytest.mark.parametrize("url", ["http://[::1", "http://[x]/a", "http://host:999999/a", "http://\u2100/a", "//", "x:"])
async def test_a_link_that_is_no_address_is_named_and_the_next_message_is_heard(tmp_path: Path, url: str) -> None:
    archive = [chat("a1", "look", linked(url)), chat("a2", "and now?")]
    async with WireServer(archive=archive) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            look, now = await inbox.wait(2)
            assert (look.text, now.text) == ("look", "and now?")
            [file] = look.files
            assert isinstance(file, Missing)


async def test_a_mistake_over_one_message_quarantines_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*given: Any) -> None:
        raise TypeError("nobody thought of that")

    monkeypatch.setattr(incoming, "fetch", broken)
    archive = [chat("a1", "before"), chat("a2", "look", linked("https://example.org/a")), chat("a3", "behind")]
    async with WireServer(archive=archive) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            before, odd, behind = await inbox.wait(3)
            assert (before.text, behind.text) == ("before", "behind")
            assert (odd.kind, odd.key, odd.why) == ("unreadable", "a2", "TypeError: nobody thought of that")
            assert b"example.org" in odd.raw


async def test_a_message_that_forwards_messages_hundreds_deep_is_heard(tmp_path: Path) -> None:
    """slixmpp's class for forwarded messages (XEP-0297) exceeds the recursion limit; its stream drops the message."""
    opening = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'>"
    deep = opening * 1000 + "</message></forwarded>" * 1000
    archive = [chat("a1", "around it", deep), chat("a2", "behind it")]
    async with WireServer(archive=archive) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            assert [each.text for each in await inbox.wait(2)] == ["around it", "behind it"]


async def test_a_stanza_without_an_end_ends_the_connection_and_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server goes against its own limits: the channel is offline, with the reason, and connects anew later."""
    monkeypatch.setattr(transport, "MAX_STANZA_BYTES", 200_000)
    archive = [chat("a1", "x" * 150_000), chat("a2", "y" * 150_000)]
    async with WireServer(archive=archive) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox) as run:
            assert [len(each.text) for each in await inbox.wait(2)] == [150_000, 150_000]
            server.say("<message from='ann@localhost' type='chat'><body>" + "z" * 250_000)
            with pytest.raises(Offline, match="a stanza of more than"):
                await run


async def test_an_archive_id_that_the_sender_made_up_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prosody 0.12 leaves it in the message that it hands over, before its own."""
    monkeypatch.setattr(receive, "ARCHIVE_RETRY_DELAYS_S", (0.0,))
    made_up = "<stanza-id xmlns='urn:xmpp:sid:0' by='bot@localhost' id='made-up'/>"
    async with WireServer() as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        async with running(server.channel(), inbox):
            for number, each in enumerate((chat("a1", "once", made_up), chat("a2", "behind")), 1):
                server.archive.append(each)
                server.live(each)
                await inbox.wait(number)
            assert [each.key for each in inbox.events] == ["a1", "a2"]


@pytest.mark.parametrize("garbled", ["", "null", "[]", '{"own":{"id":5,"at":0}}', "\ud800{"])
async def test_a_cursor_that_cannot_be_read_is_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, garbled: str
) -> None:
    async with WireServer(archive=[chat("a1", "old")]) as server:
        inbox = KeptInbox(tmp_path, garbled)
        async with running(server.channel(), inbox):
            assert inbox.events == []
    assert "cannot be read: reading begins at the present" in caplog.text
