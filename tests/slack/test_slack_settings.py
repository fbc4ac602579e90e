"""The settings of a Slack channel, what its manifest asks for, and how Markdown becomes mrkdwn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from semel.channels import ChannelError, make
from semel.channels.emoji_names import to_character, to_name
from semel.channels.slack.account import NEEDED_SCOPES, WANTED_SCOPES
from semel.channels.slack.parse_text import read_text
from semel.channels.slack.render import render_mrkdwn
from semel.channels.slack.settings import SlackSettings
from semel.gateway.settings import ChannelSettings
from semel.testing.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET

GOOD = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN}
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bot_token": "xapp-1-A"}, "bot_token should be the Bot User OAuth Token"),
        ({"app_token": "xoxb-1"}, "app_token should be an app-level token"),
        ({"app_token": None}, "give either app_token"),
        ({"signing_secret": SIGNING_SECRET}, "give either app_token"),
        ({"app_token": None, "signing_secret": "short"}, "signing_secret should be 32 hexadecimal digits"),
        ({"threads": "all"}, "threads should be start, own or room"),
        ({"api": "ftp://x"}, "api should begin with https://"),
        ({"file_limit": 0}, "file_limit should be"),
        ({"timeout": 0}, "timeout should be a number of seconds"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_do(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told) as wrong:
        SlackSettings(**{**GOOD, **change})
    assert BOT_TOKEN not in str(wrong.value) and APP_TOKEN not in str(wrong.value)


def test_two_sections_of_one_bot_are_one_account() -> None:
    assert SlackSettings(**GOOD).account == "bot 100000000001-200000000002 at slack.com"


def test_socket_mode_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    settings = ChannelSettings(name="slack", kind="slack", options=GOOD)
    with pytest.raises(ChannelError, match=r"Slack's Socket Mode needs websockets: .*websockets>=15"):
        make(settings)
    over_http = {"bot_token": BOT_TOKEN, "signing_secret": SIGNING_SECRET}
    assert make(ChannelSettings(name="slack", kind="slack", options=over_http)).name == "slack"


def test_the_manifest_of_the_docs_asks_for_every_scope_and_every_event_that_is_read() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", (DOCS / "slack.md").read_text(), re.S)
    manifest = json.loads(text)
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == NEEDED_SCOPES | WANTED_SCOPES
    events = set(manifest["settings"]["event_subscriptions"]["bot_events"])
    assert events == {
        "message.channels", "message.groups", "message.im", "message.mpim", "reaction_added", "reaction_removed"
    }  # fmt: skip
    assert manifest["settings"]["socket_mode_enabled"] and manifest["settings"]["interactivity"]["is_enabled"]
    assert manifest["features"]["app_home"]["messages_tab_enabled"]
    assert [each["command"] for each in manifest["features"]["slash_commands"]] == ["/semel"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("**bold** _it_ ~~gone~~ `a<b`", "*bold* _it_ ~gone~ `a&lt;b`"),
        ("# A **bold** title", "*A bold title*"),
        ("- one\n- two\n  - three", "• one\n• two\n  • three"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("> quoted\n> text\n\nafter", "> quoted\n> text\n\nafter"),
        ("```python\nif a < b: pass\n```", "```\nif a &lt; b: pass\n```"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "```\na  b\n-  -\n1  2\n```"),
        ("[a|b](https://e.org/?x=1&y=2)", "<https://e.org/?x=1&amp;y=2|a¦b>"),
        ("[x](ftp://e.org)", "x (ftp://e.org)"),
        ("![cat](https://e.org/cat.png)", "<https://e.org/cat.png|cat>"),
        ("https://e.org/a_b_c", "https://e.org/a_b_c"),
        ("one\n\ntwo\nthree", "one\n\ntwo\nthree"),
        ("---", "———"),
        ("<!everyone> & <@U1>", "&lt;!everyone&gt; &amp; <@U1>"),
    ],
)
def test_markdown_is_shown_in_slacks_marks(written: str, shown: str) -> None:
    assert render_mrkdwn(written) == shown


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<@UB> hello", ("hello", True)),
        ("<@UB|semel>: hello <@UB>", ("hello <@UB>", True)),
        ("hi <@U2|bob>", ("hi <@U2>", False)),
        ("<!here> <!subteam^S1|@ops> <!date^1^x|today>", ("@here @ops today", False)),
        ("<mailto:a@e.org|a@e.org> <http://e.org|e.org>", ("a@e.org http://e.org", False)),
        ("a &amp;lt; b", ("a &lt; b", False)),
        ("<broken", ("<broken", False)),
    ],
)
def test_slacks_marks_are_read(written: str, read: tuple[str, bool]) -> None:
    assert read_text(written, "UB") == read


def test_names_of_emoji_go_both_ways() -> None:
    assert to_name("❤️") == "heart" and to_character("heart") == "❤"
    assert to_name("🤷\u200d♂️") == "shrug" and to_character("wave::skin-tone-3") == "👋"
    assert to_name(":custom_one:") == "custom_one" and to_character("custom_one") == ":custom_one:"
    assert to_name("no emoji") is None
