"""What a Matrix account is configured with, and what a cursor holds."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from semel.channels import kinds, make
from semel.channels.matrix import MatrixSettings
from semel.channels.matrix.invitations import Invite
from semel.channels.matrix.receive import SyncCursor
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings

GOOD = {"homeserver": "https://matrix.example.org", "user": "@bot:example.org", "password": "pass word"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"homeserver": "matrix.example.org"}, "homeserver should begin with https://"),
        ({"homeserver": "ftp://example.org"}, "homeserver should begin with https://"),
        ({"homeserver": "https://"}, "homeserver"),
        ({"homeserver": "https://me:hunter2@example.org"}, "an address alone"),
        ({"homeserver": "https://example.org/?x=1"}, "an address alone"),
        ({"homeserver": "https://example.org/_matrix/client"}, "end before /_matrix"),
        ({"homeserver": "http://example.org"}, "set allow_http = true"),
        ({"password": None}, "either token, or user and password"),
        ({"token": "t"}, "either token, or user and password"),
        ({"user": ""}, "a password needs user"),
        ({"user": "bot"}, "like @bot:example.org"),
        ({"password": ""}, "is empty"),
        ({"password": None, "token": "hunter2 \n"}, "no access token has"),
        ({"device": "ä"}, "device is"),
        ({"file_limit": 0}, "file_limit"),
        ({"timeout": 0}, "timeout should be a number of seconds above 0"),
        ({"key_life": float("nan")}, "key_life should be a number of seconds"),
        ({"pace": -1}, "pace should be a number of seconds"),
    ],
)
def test_settings_that_cannot_work_say_what_to_do(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        MatrixSettings(**{**GOOD, **changed})
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value) and "pass word" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["localhost:8008", "127.0.0.1", "192.168.1.5:8008", "synapse:8008", "matrix.lan", "[::1]"]
)
def test_a_homeserver_nearby_may_be_spoken_to_without_tls(host: str) -> None:
    assert MatrixSettings(**{**GOOD, "homeserver": f"http://{host}/"}).base == f"http://{host}"


def test_secrets_are_not_shown() -> None:
    settings = MatrixSettings(**GOOD)
    assert "pass word" not in repr(settings)
    assert "tok3n" not in repr(MatrixSettings("https://example.org", token="tok3n"))


def test_a_section_makes_a_channel_of_its_class() -> None:
    channel = make(ChannelSettings(name="chat", kind="matrix", options={**GOOD, "key_life": 1800.0}))
    facts = channel.caps
    assert (facts.safety, facts.key_life, facts.finds) == (Safety.IDEMPOTENT, 1800.0, True)
    assert facts.edits and facts.deletes and facts.reactions and facts.typing and facts.threads and facts.files
    assert "pass word" not in repr(channel) and kinds()["matrix"].people


def test_a_gateway_without_matrix_does_not_load_it() -> None:
    code = "import sys, semel.channels; print([m for m in sys.modules if m.startswith('semel.channels.matrix.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['semel.channels.matrix.settings']"


def test_a_cursor_comes_back_as_it_was() -> None:
    cursor = SyncCursor("@bot:t", "s1_2", {"!r:t": "t5"}, {"!i:t": Invite("@ada:t", True)})
    assert SyncCursor.load(cursor.dump(), "@bot:t") == cursor
    assert SyncCursor("@bot:t", "s1").dump() == '{"user":"@bot:t","since":"s1"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12345",
        "[]",
        "{}",
        '{"user": "@bot:t", "since": "s", "invites": {"!r": "a"}}',
        '{"user": "@bot:t", "since": "s", "gaps": [1]}',
        '{"user": "@other:t", "since": "s"}',
    ],
)
def test_a_cursor_of_another_account_or_kind_is_none(text: str) -> None:
    assert SyncCursor.load(text, "@bot:t") is None
