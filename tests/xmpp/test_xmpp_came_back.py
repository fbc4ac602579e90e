"""A message that comes back after the server took it: told once, and only where nobody waits for that answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_xmpp_hearing import EMPTY, running
from wire_server import WireServer, bounces, entry

from semel.gateway.ports import Op, Rejected
from semel.testing.inbox import KeptInbox


def came_back(id: str, source: str = "alice@localhost") -> str:
    return (
        f"<message type='error' from='{source}' to='bot@localhost/semel' id='{id}'><error type='cancel'>"
        "<remote-server-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    )


async def test_a_message_that_comes_back_late_has_failed(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox, channel = KeptInbox(tmp_path, EMPTY), server.channel()
        async with running(channel, inbox):
            assert (await channel.send(Op("part-1", "post", "alice@localhost", "x"))).id == "part-1"
            server.say(came_back("part-1") * 3)
            [failed] = await inbox.wait(1)
            assert (failed.kind, failed.of) == ("failed", "part-1")
            assert failed.text == "alice@localhost: remote-server-not-found"
            server.say(came_back("part-2"))
            await inbox.wait(2)
            assert inbox.repeats[failed.key] == 2


async def test_one_out_of_the_archive_is_the_same_report(tmp_path: Path) -> None:
    async with WireServer() as server:
        inbox, channel = KeptInbox(tmp_path, EMPTY), server.channel()
        async with running(channel, inbox):
            server.say(came_back("part-1"))
            await inbox.wait(1)
        server.archive.append(entry("e1", came_back("part-1")))
        async with running(channel, inbox, 2):
            assert [each.kind for each in inbox.events] == ["failed"]
            assert inbox.repeats.total() == 1


async def test_an_answer_that_is_waited_for_is_no_late_one(tmp_path: Path) -> None:
    async with WireServer(on_message=bounces("item-not-found")) as server:
        inbox, channel = KeptInbox(tmp_path, EMPTY), server.channel()
        async with running(channel, inbox):
            with pytest.raises(Rejected):
                await channel.send(Op("part-1", "post", "alice@localhost", "x"))
            server.say(came_back("part-2"))
            [failed] = await inbox.wait(1)
            assert failed.of == "part-2", "it was told to who sent it, and to nobody else"


async def test_what_a_room_refuses_and_what_another_device_sent_is_not_told(tmp_path: Path) -> None:
    room = "lobby@rooms.localhost"
    async with WireServer(rooms=True) as server:
        inbox, channel = KeptInbox(tmp_path, EMPTY), server.channel(rooms=[room])
        async with running(channel, inbox):
            before = list(inbox.events)
            server.say(came_back("part-1", room))
            server.say(
                "<message from='bot@localhost' to='bot@localhost/semel'><received xmlns='urn:xmpp:carbons:2'>"
                f"<forwarded xmlns='urn:xmpp:forward:0'>{came_back('part-2')}</forwarded></received></message>"
            )
            server.say("<message type='error' from='alice@localhost'><error type='cancel'/></message>")
            server.say(came_back("part-3"))
            [*_, failed] = await inbox.wait(len(before) + 1)
            assert (len(inbox.events), failed.of) == (len(before) + 1, "part-3")
