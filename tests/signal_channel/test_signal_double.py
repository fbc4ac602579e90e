"""The double is signal-cli in what its caller can tell: each case names the place that documents the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.testing.signal import ACCOUNT_ID, SignalDouble

ANN = "00000000-0000-0005-e3e4-800000000001"
MANUAL, SEND = "signal-cli-jsonrpc(5)", "SendCommand.java"
RESULTS, HANDLER = "SendMessageResultUtils.java, JsonSendMessageResult.java", "SignalJsonRpcCommandHandler.java"
READER, UTIL = "JsonRpcReader.java", "CommandUtil.java"


@pytest.fixture
def double() -> SignalDouble:
    double = SignalDouble(now=lambda: 1_700_000_000.0)
    double.person("Ann", "+491520000001")
    double.person("Bob", "+491520000002")
    double.group("Family", *double.people)
    return double


def ask(double: SignalDouble, request: Any) -> Any:
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    return double.answer(line + b"\n")


def call(double: SignalDouble, method: str, **params: Any) -> Any:
    return ask(double, {"jsonrpc": "2.0", "method": method, "params": params, "id": "7"})


EMPTY = "Sending empty message is not allowed, either a message, attachment or sticker must be given."
TO_ANN = {"recipient": "+491520000001"}
ERRORS = [
    (MANUAL, b'{"jsonrpc":"2.0","id":"1"}', -32600, "method field must be set"),
    (READER, b'{"jsonrpc":"1.0","method":"version","id":"1"}', -32600, "only jsonrpc version 2.0 is supported"),
    (READER, b"no json", -32700, None),
    (READER, b" ", -32700, "Empty input line"),
    (READER, b'"text"', -32600, "unexpected type: STRING"),
    (READER, b'{"jsonrpc":"2.0"}', -32600, "method field must be set"),
    (HANDLER, {"method": "fly", "params": {}}, -32601, "Method not implemented"),
    (UTIL, {"method": "send", "params": {"message": "x"}}, -1, "No recipients given"),
    (UTIL, {"method": "send", "params": {"recipient": "ann", "message": "x"}}, -1, None),
    (SEND, {"method": "send", "params": TO_ANN}, -1, EMPTY),
    (SEND, {"method": "send", "params": {"groupId": "AAAA", "message": "x"}}, -1, None),
    (
        SEND,
        {"method": "send", "params": {**TO_ANN, "message": "x", "textStyle": "0:BOLD"}},
        -1,
        "Invalid textStyle syntax (0:BOLD) expected 'start:length:STYLE'",
    ),
    (
        SEND,
        {"method": "send", "params": {**TO_ANN, "message": "x", "textStyle": "0:1:GLOW"}},
        -1,
        "Invalid style: GLOW",
    ),
    (SEND, {"method": "send", "params": {**TO_ANN, "attachment": "/nowhere"}}, -32603, None),
    (RESULTS, {"method": "send", "params": {"recipient": "+49000000", "message": "x"}}, -1, "Failed to send message"),
]


@pytest.mark.parametrize(("source", "request_", "code", "text"), ERRORS)
def test_a_request_gets_the_error_that_the_source_names(
    double: SignalDouble, source: str, request_: Any, code: int, text: str | None
) -> None:
    request = request_ if isinstance(request_, bytes) else {"jsonrpc": "2.0", "id": "7", **request_}
    error = ask(double, request)["error"]
    assert error["code"] == code, source
    assert text is None or error["message"] == text, source
    assert double.sent == []


FAILURES = [
    (RESULTS, "UNREGISTERED_FAILURE", -1),
    (RESULTS, "NETWORK_FAILURE", -1),
    (RESULTS, "IDENTITY_FAILURE", -4),
    (RESULTS, "RATE_LIMIT_FAILURE", -5),
]


@pytest.mark.parametrize(("source", "kind", "code"), FAILURES)
def test_if_nobody_gets_a_message_the_error_tells_of_each_recipient(
    double: SignalDouble, source: str, kind: Any, code: int
) -> None:
    double.failing = dict.fromkeys(double.people, kind)
    error = call(double, "send", groupId=next(iter(double.groups)), message="x")["error"]
    assert error["code"] == code, source
    assert [result["type"] for result in error["data"]["response"]["results"]] == [kind, kind]
    assert double.sent == []


def test_if_one_of_a_group_gets_a_message_it_was_sent(double: SignalDouble) -> None:
    ann, bob = double.people
    double.failing = {ann: "UNREGISTERED_FAILURE"}
    group = next(iter(double.groups))
    answer = call(double, "send", groupId=group, message="x")
    assert answer["id"] == "7"
    assert [(r["type"], r["groupId"]) for r in answer["result"]["results"]] == [
        ("UNREGISTERED_FAILURE", group),
        ("SUCCESS", group),
    ]
    assert double.texts(f"group:{group}") == ["x"]
    assert bob


def test_no_two_messages_have_the_same_time(double: SignalDouble) -> None:
    """CHANGELOG.md, 0.13.16: every sent message gets a unique timestamp."""
    times = [call(double, "send", recipient=["+491520000001"], message="x")["result"]["timestamp"] for _ in range(3)]
    assert len(set(times)) == 3
    assert [message.time for message in double.sent] == times


def test_a_message_is_edited_by_its_time_or_that_of_an_edit_and_deleted(double: SignalDouble) -> None:
    """signal-cli(1): send --edit-timestamp, remoteDelete."""
    to = {"recipient": "+491520000001"}
    first = call(double, "send", **to, message="a")["result"]["timestamp"]
    second = call(double, "send", **to, message="b", editTimestamp=first)["result"]["timestamp"]
    call(double, "send", **to, message="c", editTimestamp=second)
    assert [message.text for message in double.sent] == ["c"]
    call(double, "remoteDelete", **to, targetTimestamp=first)
    assert double.texts(double.sent[0].to) == []


def test_the_note_to_self_is_the_account(double: SignalDouble) -> None:
    """signal-cli(1): send --note-to-self."""
    call(double, "send", noteToSelf=True, message="x")
    assert double.texts(ACCOUNT_ID) == ["x"]


def test_a_request_without_an_id_gets_no_answer(double: SignalDouble) -> None:
    """JsonRpcReader.java."""
    assert ask(double, {"jsonrpc": "2.0", "method": "version"}) is None
    assert ask(double, {"jsonrpc": "2.0", "method": "send", "params": {"message": "x"}}) is None
    assert call(double, "version")["result"] == {"version": double.version}


def test_an_account_that_is_not_there_ends_the_program(double: SignalDouble) -> None:
    """App.java."""
    assert double.refuse_start(["-a", "+4900", "jsonRpc"]) == (1, "User +4900 is not registered.")
    double.registered = False
    assert double.refuse_start(["-a", "+4915100000000", "jsonRpc"]) is not None
