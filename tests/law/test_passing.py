"""Failures that pass, by what real agents and model APIs say of them."""

from __future__ import annotations

import pytest

from semel.law.retries import Failure, judge_failure
from semel.law.turn import MAX_ATTEMPTS, RETRY_DELAYS_S, delay_after_failure

PASSING = [
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "Internal error: API Error: Repeated 529 Overloaded errors",
    "Request failed with status code 503",
    "unexpected status 502 Bad Gateway",
    "stream disconnected before completion: Transport error: network error",
    "429 Too Many Requests",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "error: socket hang up",
    "fetch failed: ECONNRESET",
    "Request timed out.",
    "Connection error.",
    "The model is temporarily unavailable, try again later",
    "peer closed connection: Server disconnected without sending a response.",
    "terminated",
    "Internal error: other side closed",
    "Internal error: Response does not match the HTTP/1.1 protocol (Invalid EOF state)",  # a stream that was cut
]
FINAL = [
    "Internal error",
    'API Error: 401 {"error":{"message":"invalid x-api-key"}}',
    "unexpected status 400 Bad Request: context length exceeded",
    "You exceeded your current quota, please check your plan and billing details (429)",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "model not found",
    "Authentication required: log in first",
    "'NoneType' has no attribute 'startswith'",
    "it gave no reason",
    "stream disconnected before completion: Incomplete response returned, reason: content_filter",
]


@pytest.mark.parametrize("text", PASSING)
def test_what_passes_is_known_by_status_and_words(text: str) -> None:
    assert judge_failure(text).is_transient


@pytest.mark.parametrize("text", FINAL)
def test_what_is_not_known_to_pass_is_told_at_once(text: str) -> None:
    assert not judge_failure(text).is_transient


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("429 rate limited. Retry after 12 seconds", 12.0),
        ("Rate limit reached, please try again in 1.5s", 1.5),
        ("Rate limit reached, try again in 250ms", 0.25),
        ("overloaded; retry in 2 min", 120.0),
        ("overloaded", None),
    ],
)
def test_the_wait_that_is_asked_for_is_read(text: str, seconds: float | None) -> None:
    assert judge_failure(text) == Failure(True, seconds)


def test_a_wait_of_hours_is_a_failure() -> None:
    assert judge_failure("429 rate limit: try again in 180 min") == Failure(False, 10800.0)


def test_what_our_own_agents_say_decides() -> None:
    assert judge_failure("Overloaded", {"semel": {"passing": False}}) == Failure(False)
    assert judge_failure("odd", {"semel": {"passing": True, "retry_after": 7}}) == Failure(True, 7.0)
    assert judge_failure("odd", {"semel": {"passing": "yes"}}) == Failure(False)


def test_the_status_of_a_models_api_may_be_the_errors_code() -> None:
    """gemini-cli 0.61.0."""
    assert judge_failure("Too busy, retry in 1s", {"code": 429}) == Failure(True, 1.0)
    assert not judge_failure("Too busy", {"code": 400}).is_transient
    assert not judge_failure("You exceeded your current quota", {"code": 429}).is_transient
    assert not judge_failure("Internal error", {"code": -32603}).is_transient


def test_a_passing_failure_is_tried_three_times_in_all_each_a_while_later() -> None:
    assert [delay_after_failure(attempt=n, is_transient=True, retry_after=None) for n in (1, 2, 3)] == [
        *RETRY_DELAYS_S,
        None,
    ]
    assert MAX_ATTEMPTS == 3
    assert delay_after_failure(attempt=1, is_transient=False, retry_after=1.0) is None
    assert delay_after_failure(attempt=1, is_transient=True, retry_after=90.0) == 90.0
    assert delay_after_failure(attempt=1, is_transient=True, retry_after=0.1) == RETRY_DELAYS_S[0]
    assert delay_after_failure(attempt=1, is_transient=True, retry_after=None, max_attempts=1) is None
