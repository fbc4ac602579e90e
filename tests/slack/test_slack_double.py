"""The double of Slack is held to Slack's documents: requests, the documented answer, and the page that says so."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from semel.testing.slack import APP_TOKEN, BOT_TOKEN, SlackDouble

Json = dict[str, Any]
METHODS = "https://docs.slack.dev/reference/methods"
LIMITS = "https://docs.slack.dev/apis/web-api/rate-limits"
BLOCKS = "https://docs.slack.dev/reference/block-kit/blocks"
LONG_BLOCK = [{"type": "markdown", "text": "x" * 12_001}]


def button(n: int, **more: Any) -> Json:
    text = {"type": "plain_text", "text": "x"}
    return {"type": "button", "action_id": f"a{n}", "value": "v", "text": text, **more}


def actions(*elements: Json) -> list[Json]:
    return [{"type": "actions", "block_id": "b", "elements": list(elements)}]


@dataclass
class Case:
    """A call, and the documented answer. `error`: "" if it succeeds. `has`: fields of the answer."""

    method: str
    arguments: Json
    error: str = ""
    has: Json = field(default_factory=dict)
    page: str = ""
    token: str = BOT_TOKEN
    prepare: Callable[[SlackDouble], None] = lambda slack: None

    @property
    def source(self) -> str:
        return self.page or f"{METHODS}/{self.method}"


def archive(slack: SlackDouble) -> None:
    slack.conversations["C1"].is_archived = True


def take_scope(scope: str) -> Callable[[SlackDouble], None]:
    return lambda slack: slack.scopes.discard(scope)


CASES = [
    Case("auth.test", {}, has={"user_id": "U0BOT", "bot_id": "B0BOT", "team_id": "T0TEST"}),
    Case("auth.test", {}, "not_authed", token=""),
    Case("auth.test", {}, "invalid_auth", token="xoxb-wrong"),
    Case("auth.test", {}, "not_allowed_token_type", token=APP_TOKEN),
    Case("no.such", {}, "unknown_method", page="https://docs.slack.dev/apis/web-api/#evaluating_responses"),
    Case("apps.connections.open", {}, "not_allowed_token_type"),
    Case("chat.postMessage", {"channel": "C1", "text": "x"}, has={"channel": "C1"}),
    Case("chat.postMessage", {"channel": "C1"}, "no_text"),
    Case("chat.postMessage", {"channel": "C9", "text": "x"}, "channel_not_found"),
    Case("chat.postMessage", {"channel": "C2", "text": "x"}, "not_in_channel"),
    Case("chat.postMessage", {"channel": "G3", "text": "x"}, "channel_not_found"),
    Case("chat.postMessage", {"channel": "C1", "text": "x"}, "is_archived", prepare=archive),
    Case("chat.postMessage", {"channel": "C1", "text": "x"}, "missing_scope", {"needed": "chat:write"},
         prepare=take_scope("chat:write")),
    Case("chat.postMessage", {"channel": "C1", "text": "x", "metadata": {"event_type": "t"}},
         "invalid_metadata_format"),
    Case("chat.postMessage", {"channel": "C1", "blocks": LONG_BLOCK}, "invalid_blocks",
         page=f"{BLOCKS}/markdown-block"),
    Case("chat.postMessage", {"channel": "C1", "blocks": [{"type": "markdown", "text": "x" * 6_001}] * 2},
         "invalid_blocks", page=f"{BLOCKS}/markdown-block"),
    Case("chat.postMessage", {"channel": "C1", "blocks": [{"type": "markdown", "text": "x" * 7_000}] * 2},
         "msg_blocks_too_long", page="https://github.com/slackapi/bolt-js/issues/2509"),
    Case("chat.postMessage", {"channel": "C1", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks", page=BLOCKS),
    Case("chat.postMessage", {"channel": "C1", "blocks": ["x"]}, "invalid_blocks_format"),
    Case("chat.postMessage", {"channel": "C1", "blocks": actions(*map(button, range(26)))}, "invalid_blocks",
         page=f"{BLOCKS}/actions-block"),
    Case("chat.postMessage", {"channel": "C1", "blocks": actions(button(1), button(1))}, "invalid_blocks",
         page="https://docs.slack.dev/reference/block-kit/block-elements/button-element"),
    Case("chat.postMessage", {"channel": "C1", "blocks": actions(button(1, text={"text": "x" * 76}))}, "invalid_blocks",
         page="https://docs.slack.dev/reference/block-kit/block-elements/button-element"),
    Case("chat.postMessage", {"channel": "C1", "blocks": actions(button(1, action_id="a" * 256))}, "invalid_blocks",
         page="https://docs.slack.dev/reference/block-kit/block-elements/button-element"),
    Case("chat.postMessage", {"channel": "C1", "text": "x" * 4_001}),
    Case("chat.update", {"channel": "C1", "ts": "OURS", "text": "x" * 4_000}),
    Case("chat.update", {"channel": "C1", "ts": "OURS", "text": "x" * 4_001}, "msg_too_long"),
    Case("chat.update", {"channel": "C1", "ts": "OURS", "text": "x"}, "is_inactive", prepare=archive),
    Case("chat.update", {"channel": "C1", "ts": "1.000001", "text": "x"}, "message_not_found"),
    Case("chat.update", {"channel": "C1", "ts": "THEIRS", "text": "x"}, "cant_update_message"),
    Case("chat.delete", {"channel": "C1", "ts": "1.000001"}, "message_not_found"),
    Case("chat.delete", {"channel": "C1", "ts": "THEIRS"}, "cant_delete_message"),
    Case("reactions.add", {"channel": "C1", "timestamp": "THEIRS", "name": "eyes"}),
    Case("reactions.add", {"channel": "C1", "timestamp": "THEIRS", "name": "no_such_emoji"}, "invalid_name"),
    Case("reactions.add", {"channel": "C1", "timestamp": "1.000001", "name": "eyes"}, "message_not_found"),
    Case("reactions.add", {"channel": "C1", "timestamp": "THEIRS", "name": "eyes"}, "is_archived", prepare=archive),
    Case("reactions.add", {"channel": "C1", "timestamp": "THEIRS", "name": "eyes"}, "already_reacted",
         prepare=lambda slack: call(slack, "reactions.add", channel="C1", timestamp=theirs(slack), name="eyes")),
    Case("conversations.history", {"channel": "C1"}, has={"has_more": False}),
    Case("conversations.history", {"channel": "C2"}, "not_in_channel"),
    Case("conversations.history", {"channel": "C1"}, "missing_scope", {"needed": "channels:history"},
         prepare=take_scope("channels:history")),
    Case("conversations.replies", {"channel": "C1", "ts": "1.000001"}, "thread_not_found"),
    Case("conversations.open", {"users": "U1"}, has={"channel": {"id": "D1"}}),
    Case("conversations.open", {"users": "U99"}, "user_not_found"),
    Case("conversations.info", {"channel": "C99"}, "channel_not_found"),
    Case("users.info", {"user": "U99"}, "user_not_found"),
    Case("assistant.threads.setStatus", {"channel_id": "C1", "thread_ts": "1.0", "status": "x"}, "invalid_thread_ts"),
    Case("files.getUploadURLExternal", {"filename": "a.txt", "length": 0}, "missing_argument"),
    Case("files.completeUploadExternal", {"files": [{"id": "F9"}]}, "file_not_found"),
    Case("files.info", {"file": "F9"}, "file_not_found"),
]  # fmt: skip


def theirs(slack: SlackDouble) -> str:
    """The `ts` of a person's message."""
    return next(message["ts"] for message in slack.shown("C1") if message["user"] == "U1")


def ours(slack: SlackDouble) -> str:
    """The `ts` of the bot's message."""
    return str(call(slack, "chat.postMessage", channel="C1", text="ours")["ts"])


def call(slack: SlackDouble, method: str, token: str = BOT_TOKEN, **arguments: Any) -> Json:
    """Call a method as a form does."""
    params = {name: v if isinstance(v, str) else json.dumps(v) for name, v in arguments.items()}
    return slack.call(method, token, params)[1]


@pytest.fixture
def slack() -> SlackDouble:
    double = SlackDouble()
    double.person("U1", "Ann")
    double.channel("C1", "general", "U1")
    double.channel("C2", "elsewhere", "U1", with_bot=False)
    double.channel("G3", "secret", "U1", with_bot=False, kind="private_channel")
    double.write("C1", "U1", "hello")
    return double


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} {case.error or 'ok'}")
def test_a_call_gets_the_documented_answer(slack: SlackDouble, case: Case) -> None:
    stamps = {"THEIRS": theirs(slack), "OURS": ours(slack)}
    case.prepare(slack)
    arguments = {name: stamps.get(str(value), value) for name, value in case.arguments.items()}
    answer = call(slack, case.method, case.token, **arguments)
    expected = {"ok": not case.error, **({"error": case.error} if case.error else {}), **case.has}
    assert {name: answer.get(name) for name in expected} == expected, case.source


def test_the_history_has_the_newest_first_in_pages_without_replies_and_metadata_if_asked(slack: SlackDouble) -> None:
    """https://docs.slack.dev/reference/methods/conversations.history"""
    metadata = {"event_type": "t", "event_payload": {"key": "k"}}
    root = str(call(slack, "chat.postMessage", channel="C1", text="root", metadata=metadata)["ts"])
    slack.write("C1", "U1", "reply", thread=root)
    slack.write("C1", "U1", "last")
    page = call(slack, "conversations.history", channel="C1", limit=2)
    assert [m["text"] for m in page["messages"]] == ["last", "root"] and page["has_more"]
    assert "metadata" not in page["messages"][1] and page["messages"][1]["reply_count"] == 1
    cursor = page["response_metadata"]["next_cursor"]
    rest = call(slack, "conversations.history", channel="C1", limit=2, cursor=cursor, include_all_metadata=True)
    assert ([m["text"] for m in rest["messages"]], rest["has_more"]) == (["hello"], False)
    newer = call(slack, "conversations.history", channel="C1", oldest=root)
    assert [m["text"] for m in newer["messages"]] == ["last"]  # `oldest` itself is left out
    replies = call(slack, "conversations.replies", channel="C1", ts=root, include_all_metadata=True)
    assert [m["text"] for m in replies["messages"]] == ["root", "reply"]
    assert replies["messages"][0]["metadata"] == metadata


def test_a_text_is_cut_at_40000_characters(slack: SlackDouble) -> None:
    """https://docs.slack.dev/reference/methods/chat.postMessage, "Truncating content"."""
    call(slack, "chat.postMessage", channel="C1", text="x" * 40_001)
    assert len(slack.shown("C1")[-1]["text"]) == 40_000


def test_more_calls_than_a_tier_allows_get_429_with_a_time(slack: SlackDouble) -> None:
    """https://docs.slack.dev/apis/web-api/rate-limits"""
    now = [1_700_000_000.0]
    slack.now, slack.limits = lambda: now[0], True
    outcomes = [slack.call("conversations.history", BOT_TOKEN, {"channel": "C1"}) for _ in range(51)]
    assert [status for status, _, _ in outcomes] == [200] * 50 + [429]
    assert outcomes[-1][1:] == ({"ok": False, "error": "ratelimited"}, {"retry-after": "60"})
    now[0] += 60
    assert slack.call("conversations.history", BOT_TOKEN, {"channel": "C1"})[0] == 200


def test_an_event_without_a_connection_is_lost_and_an_unacknowledged_one_comes_four_times(slack: SlackDouble) -> None:
    """https://docs.slack.dev/apis/events-api: three retries. Socket Mode documents no queue."""
    slack.write("C1", "U1", "nobody listens")
    assert slack.pending == {}
    link: asyncio.Queue[Json] = asyncio.Queue()
    slack.links.append(link)
    slack.write("C1", "U1", "heard")
    for _ in range(5):
        slack.repeat_pending()
    assert [link.get_nowait()["retry_attempt"] for _ in range(link.qsize())] == [0, 1, 2, 3]
    assert slack.pending == {}


def test_the_double_runs_in_a_process_of_its_own_and_does_what_a_tester_says() -> None:
    def control(name: str, **arguments: Any) -> Json:
        request = urllib.request.Request(f"{base}/control/{name}", json.dumps(arguments).encode())
        try:
            with direct.open(request, timeout=20) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return dict(json.load(error))

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    arguments = [sys.executable, "-m", "semel.testing.slack", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, bot_token, app_token = process.stdout.readline().split()
            base = url.removesuffix("/api")
            assert (bot_token, app_token) == (BOT_TOKEN, APP_TOKEN)
            assert control("write", channel="D7", user="U7", text="hello")["result"]
            assert control("texts", channel="D7") == {"result": []}
            assert "there is no control 'bot_token'" in control("bot_token")["error"]
            assert "missing 2 required" in control("write", channel="D7")["error"]
        finally:
            process.kill()
