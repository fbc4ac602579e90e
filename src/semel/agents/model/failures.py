"""Convert a model API's exceptions into the answer of a failed prompt: a sentence for people, and whether to retry.

pydantic-ai's exceptions are converted only here. The answer's `meta` has `passing` (the error is transient) and
`retry_after` (seconds) for `semel.law.retries`.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import exceptions as theirs

from semel.agents.connection_errors import describe_root_cause
from semel.agents.model.server import ModelServer
from semel.gateway.ports import Answered
from semel.text.sentences import join_sentences
from semel.timing.durations import format_duration

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
    """The API's response is not in the API's format, such as a web page."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"what the model's API answered could not be read ({reason}); is `base_url` the whole address of an API of "
            "this kind? It often ends with /v1"
        )


def is_cut_inside_a_character(error: Exception) -> bool:
    """Return whether the stream ended inside a UTF-8 character, because the connection broke off."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__
    return cause is not None and cause.reason == "unexpected end of data"


def answer_for_failure(error: Exception, text: str) -> Answered:
    """Return the answer to a prompt that failed with this error, and decide whether the error is transient.

    `text`: describes the error to people (`ConfiguredModel.describe_error`).
    """
    passing, after = False, None
    if isinstance(error, StreamCutOff):
        passing = True
    elif isinstance(error, theirs.ModelAPIError):
        passing = isinstance(error, TRANSIENT_ERRORS) or getattr(error, "status_code", 0) in TRANSIENT_STATUS_CODES
        after = error.retry_after
        if isinstance(error, theirs.ModelHTTPError) and error.provider_retry_hint is False:
            passing = False
    return error_answer(text, passing, after)


def error_answer(text: str, passing: bool, after: float | None = None) -> Answered:
    return Answered("error", text, {"semel": {"passing": passing, "retry_after": after}})


def describe_error(error: Exception, server: ModelServer) -> str:
    """Describe an error to people: what failed at which address, and what to do.

    Callers must remove the API key (`ConfiguredModel.without_key`), which some APIs quote.
    """
    if isinstance(error, theirs.ModelContextWindowExceededError):
        return (
            f"the request was longer than the model's context window: set a lower `context` ({_extract_message(error)})"
        )
    if isinstance(error, theirs.ModelHTTPError):
        message = _extract_message(error)
        reason = f"the model's API at {server.url} answered {error.status_code}: {message}"
        advice = _TOOLS_ADVICE if _NO_TOOLS in message.lower() else _find_advice(error.status_code, server)
        if error.retry_after:
            advice = f"It asks to wait {format_duration(error.retry_after)} before the next request"
        return _add_advice(reason, advice)
    if isinstance(error, theirs.ModelConnectionError):
        cause = describe_root_cause(error)[:MAX_ERROR_CHARS]
        if str(error.phase) not in ("pool", "connect"):
            return f"the connection to the model's API at {server.url} broke off: {cause}"
        reason = f"the model's API at {server.url} could not be reached: {cause}"
        return _add_advice(reason, _OWN_ADVICE if server.is_own else _BASE_URL_ADVICE)
    if isinstance(error, theirs.UnexpectedModelBehavior) and _NO_JSON in error.message:
        return str(UnreadableResponse("it is not JSON"))
    if isinstance(error, theirs.ModelAPIError | theirs.AgentRunError | StreamCutOff | UnreadableResponse):
        return str(error)[:MAX_ERROR_CHARS]
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]


_OWN_ADVICE = "Is this machine connected to the network?"
_NO_TOOLS = "support tool"
"""Part of the error for a model without tools: Ollama's "does not support tools", OpenRouter's "support tool use"."""
_TOOLS_ADVICE = "Semel gives each model tools: set `model` to one that can call tools"
_NO_JSON = "expected JSON data"
"""Part of pydantic-ai's error for a response that is no event stream and not JSON, such as a web page."""
_BASE_URL_ADVICE = "Start that server, or correct `base_url`"


def _find_advice(status: int, server: ModelServer) -> str:
    """Return what to do about an HTTP status; "" if only the API's own message can say that."""
    if status in (401, 403):
        return server.key_advice
    if status == 404:
        address = "" if server.is_own else ", and is `base_url` the whole address of its API, which often ends with /v1"
        return f"Does it have the model {server.model!r}{address}?"
    return "The fault is the server's: its log or its provider's status page says more" if status >= 500 else ""


def _add_advice(reason: str, advice: str) -> str:
    return join_sentences(reason, advice)


def _extract_message(error: theirs.ModelAPIError) -> str:
    body: Any = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return str(body if body is not None else error)[:MAX_ERROR_CHARS]
