"""What `[channels.NAME]` of kind "xmpp" may hold, and what it says where that is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from semel.channels import ChannelError, make
from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.settings import ChannelSettings

ENOUGH: dict[str, Any] = {"jid": "bot@example.org", "password": "hunter2"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"jid": ""}, "jid is needed"),
        ({"jid": "bot"}, "should read like name@example.org"),
        ({"jid": "b t@example.org"}, "should read like"),
        ({"password": ""}, 'password = "env:XMPP_PASSWORD"'),
        ({"port": 5222}, "name the host it belongs to"),
        ({"port": 0, "server": "x"}, "between 1 and 65535"),
        ({"tls": "none"}, "shows the password to everyone"),
        ({"tls": "none", "server": "192.168.1.1"}, "shows the password to everyone"),
        ({"ca_file": "/nowhere.pem"}, "there is no file /nowhere.pem"),
        ({"rooms": ["lobby"]}, "a room is 'lobby'"),
        ({"rooms": ["a@x.org", "A@x.org"]}, "names a room twice"),
        ({"nick": "  "}, "nick should be"),
        ({"nick": "a\nb"}, "nick should be"),
        ({"max_len": 10}, "max_len should be between"),
        ({"timeout": 0}, "timeout should be between"),
        ({"keepalive": 10**6}, "keepalive should be between"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_should_be(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as bad:
        XmppSettings(**(ENOUGH | given))
    assert "hunter2" not in str(bad.value)


def test_addresses_are_put_into_their_normal_form() -> None:
    settings = XmppSettings("Bot@Example.ORG/desk", "pw", rooms=["Lobby@Conference.example.org"])
    assert (settings.jid, settings.rooms) == ("bot@example.org", ["lobby@conference.example.org"])
    assert (settings.domain, settings.name) == ("example.org", "bot")
    assert "pw" not in repr(settings)


def test_the_kind_is_known_and_makes_a_channel_that_speaks_to_nobody() -> None:
    channel = make(ChannelSettings(name="jabber", kind="xmpp", options=ENOUGH))
    assert isinstance(channel, XmppChannel)
    assert channel.caps.max_len == 10_000 and channel.caps.unit == "byte"
    assert "hunter2" not in repr(channel)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ChannelError, match=r"XMPP needs slixmpp: .*slixmpp>="):
        make(ChannelSettings(name="x", kind="xmpp", options=ENOUGH))


def test_the_library_is_loaded_only_when_it_connects() -> None:
    code = (
        "import sys, semel.channels; from semel.channels.xmpp import XmppSettings, make; "
        "make('x', XmppSettings('a@b.c', 'pw')); assert 'slixmpp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
