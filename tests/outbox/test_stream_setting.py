"""`stream = true` in a channel's section."""

from __future__ import annotations

import pytest

from semel.channels import ChannelError, make
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel


def test_a_channel_that_cannot_stream_says_so_and_what_to_do() -> None:
    with pytest.raises(ChannelError) as told:
        make(ChannelSettings(name="hook", kind="webhook", options={"url": "https://example.com/in"}, stream=True))
    assert str(told.value) == (
        "[channels.hook]: stream = true needs a platform where messages can be edited and deleted, "
        "and webhook has none; leave the setting out"
    )


@pytest.mark.parametrize(
    ("stream", "facts", "streams"),
    [
        (True, {"edits": True, "deletes": True}, True),
        (True, {"edits": True, "deletes": False}, False),
        (True, {"edits": False, "deletes": True}, False),
        (False, {"edits": True, "deletes": True}, False),
    ],
)
def test_a_home_streams_where_it_is_wanted_and_possible(stream: bool, facts: dict[str, bool], streams: bool) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, **facts)
    places = Destinations({}, {"chat": ChannelSettings(name="chat", kind="fake", stream=stream)}, {"chat": chat})
    assert places.streams("chat:room") is streams
    assert not places.streams("web:me")
    assert places.cut_answer("chat:room", "s", "hello")[0].op.get("fill", False) is streams
