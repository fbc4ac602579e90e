"""A model API's failure, as the end of a prompt: whether it passes, in the words a person reads.

Foreign exceptions are mapped here and nowhere else. `meta` is what `semel.law.transient_errors` reads.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import exceptions as theirs

from semel.gateway.ports import Answered

PASSING = (
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
    theirs.ModelConnectionError,
    theirs.ModelRequestTimeout,
)
STATUS = frozenset({408, 409, 425})  # beside those that have a class of their own
LENGTH = 500  # characters of a body that a person is shown


BROKE_OFF = "the model's answer broke off before its end"


class Broken(Exception):
    """The model's stream ended without saying why: it was cut off."""

    def __init__(self) -> None:
        super().__init__(BROKE_OFF)


class Unreadable(Exception):
    """What came is no answer of the kind that its library reads."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"what the model's API answered could not be read ({type(error).__name__}: {error}); is `base_url` the "
            "address of an API of this kind?"
        )


def is_cut_inside_a_character(error: Exception) -> bool:
    """Whether a stream was closed within the bytes of one UTF-8 character: the connection broke off there."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__
    return cause is not None and cause.reason == "unexpected end of data"


def ended(error: Exception) -> Answered:
    """The answer to a prompt that failed so."""
    passing, after = False, None
    if isinstance(error, Broken):
        passing = True
    elif isinstance(error, theirs.ModelAPIError):
        passing = isinstance(error, PASSING) or getattr(error, "status_code", 0) in STATUS
        after = error.retry_after
        if isinstance(error, theirs.ModelHTTPError) and error.provider_retry_hint is False:
            passing = False
    return answer(words(error), passing, after)


def answer(text: str, passing: bool, after: float | None = None) -> Answered:
    return Answered("error", text, {"semel": {"passing": passing, "retry_after": after}})


def words(error: Exception) -> str:
    """One sentence for a person; never a traceback, and never a key."""
    if isinstance(error, theirs.ModelContextWindowExceededError):
        return f"the request was longer than the model's context window: set a lower `context` ({_said(error)})"
    if isinstance(error, theirs.ModelHTTPError):
        return f"the model's API answered {error.status_code}: {_said(error)}"
    if isinstance(error, theirs.ModelConnectionError):
        how = {"pool": "could not be reached", "connect": "could not be reached"}.get(str(error.phase), "broke off")
        return f"the connection to the model's API {how}: {_cause(error)}"
    if isinstance(error, theirs.ModelAPIError | theirs.AgentRunError | Broken | Unreadable):
        return str(error)[:LENGTH]
    return f"{type(error).__name__}: {error}"[:LENGTH]


def _cause(error: BaseException) -> str:
    """The innermost word on it: the outer ones say "Connection error."."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return (str(error) or type(error).__name__)[:LENGTH]


def _said(error: theirs.ModelAPIError) -> str:
    body: Any = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return str(body if body is not None else error)[:LENGTH]
