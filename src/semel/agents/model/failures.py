"""Convert a model API's exceptions into the answer of a failed prompt: a sentence for people, and whether to retry.

pydantic-ai's exceptions are converted only here. The answer's `meta` has `passing` (the error is transient) and
`retry_after` (seconds) for `semel.law.retries`.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import exceptions as theirs

from semel.gateway.ports import Answered

TRANSIENT_ERRORS = (
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
    theirs.ModelConnectionError,
    theirs.ModelRequestTimeout,
)
TRANSIENT_STATUS_CODES = frozenset({408, 409, 425})  # others have exceptions of their own, see above
MAX_ERROR_CHARS = 500  # how much of an API's error message people see


STREAM_CUT_OFF_TEXT = "the model's answer broke off before its end"


class StreamCutOff(Exception):
    """The model's stream ended without a finish reason, so the answer is incomplete."""

    def __init__(self) -> None:
        super().__init__(STREAM_CUT_OFF_TEXT)


class UnreadableResponse(Exception):
    """The client library could not parse the API's response."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"what the model's API answered could not be read ({type(error).__name__}: {error}); is `base_url` the "
            "address of an API of this kind?"
        )


def is_cut_inside_a_character(error: Exception) -> bool:
    """Return whether the stream ended inside a UTF-8 character, because the connection broke off."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__
    return cause is not None and cause.reason == "unexpected end of data"


def answer_for_failure(error: Exception) -> Answered:
    """Return the answer of a prompt that failed with this error, including whether the error is transient."""
    passing, after = False, None
    if isinstance(error, StreamCutOff):
        passing = True
    elif isinstance(error, theirs.ModelAPIError):
        passing = isinstance(error, TRANSIENT_ERRORS) or getattr(error, "status_code", 0) in TRANSIENT_STATUS_CODES
        after = error.retry_after
        if isinstance(error, theirs.ModelHTTPError) and error.provider_retry_hint is False:
            passing = False
    return error_answer(describe_error(error), passing, after)


def error_answer(text: str, passing: bool, after: float | None = None) -> Answered:
    return Answered("error", text, {"semel": {"passing": passing, "retry_after": after}})


def describe_error(error: Exception) -> str:
    """Return an error in one sentence for people.

    The caller must remove the API key (`ConfiguredModel.without_key`).
    """
    if isinstance(error, theirs.ModelContextWindowExceededError):
        return (
            f"the request was longer than the model's context window: set a lower `context` ({_extract_message(error)})"
        )
    if isinstance(error, theirs.ModelHTTPError):
        return f"the model's API answered {error.status_code}: {_extract_message(error)}"
    if isinstance(error, theirs.ModelConnectionError):
        ending = {"pool": "could not be reached", "connect": "could not be reached"}.get(str(error.phase), "broke off")
        return f"the connection to the model's API {ending}: {_describe_root_cause(error)}"
    if isinstance(error, theirs.ModelAPIError | theirs.AgentRunError | StreamCutOff | UnreadableResponse):
        return str(error)[:MAX_ERROR_CHARS]
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]


def _describe_root_cause(error: BaseException) -> str:
    """Return the message of the innermost exception. The outer ones only say "Connection error."."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return (str(error) or type(error).__name__)[:MAX_ERROR_CHARS]


def _extract_message(error: theirs.ModelAPIError) -> str:
    body: Any = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return str(body if body is not None else error)[:MAX_ERROR_CHARS]
