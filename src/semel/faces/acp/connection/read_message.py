"""Read the JSON-RPC messages that an editor sends, one in each line."""

from __future__ import annotations

import json
import math

from semel.faces.acp.connection.request_errors import INVALID_REQUEST, PARSE_ERROR, RequestFailed
from semel.text.json_types import Json
from semel.text.wellformed import scrub


def read_message(line: bytes) -> Json:
    """Return the JSON-RPC message of a line, with well-formed texts. Raises RequestFailed if it is none.

    The editor's own ids stay as they are.
    """
    try:
        message = json.loads(line, parse_float=_read_float, parse_constant=_refuse_constant)
        scrubbed = scrub(message)
    except (ValueError, RecursionError):
        words = "this line is not JSON, is nested too deeply, or has a number that is too large"
        raise RequestFailed(PARSE_ERROR, words) from None
    if not isinstance(message, dict):
        raise RequestFailed(INVALID_REQUEST, "a message must be a JSON object")
    if not isinstance(message.get("id"), str | int | float | None) or isinstance(message.get("id"), bool):
        raise RequestFailed(INVALID_REQUEST, "id must be a string or a number")
    if not {"method", "id"} & set(message):
        raise RequestFailed(INVALID_REQUEST, "a message needs a method (requests, notifications) or an id (answers)")
    if not isinstance(message.get("method", ""), str):
        raise RequestFailed(INVALID_REQUEST, "method must be a string")
    return {**scrubbed, **({"id": message["id"]} if "id" in message else {})}


def _read_float(digits: str) -> float:
    if math.isinf(value := float(digits)):  # it could not be written as JSON again
        raise ValueError
    return value


def _refuse_constant(name: str) -> None:
    """NaN and Infinity, which Python reads, are not JSON."""
    raise ValueError
