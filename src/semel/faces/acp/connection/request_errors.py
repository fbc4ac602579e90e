"""The errors with which an editor's requests are answered (JSON-RPC and ACP)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from semel.text.json_types import Json
from semel.tools.address import NoGateway

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
AUTH_REQUIRED = -32000  # of ACP; the others are JSON-RPC's
REFUSALS = {
    "agent-logged-out": AUTH_REQUIRED, "bad-field": INVALID_PARAMS, "no-such-session": INVALID_PARAMS,
    "not-found": INVALID_PARAMS, "too-large": INVALID_PARAMS,
}  # fmt: skip
"""The error code for each refusal of the gateway; for any other, it is INTERNAL_ERROR."""
FIELDS = {"after": "cursor", "folder": "cwd", "servers": "mcpServers", "blocks": "prompt"}
"""What the protocol calls a field of the API that has another name there."""

NO_SESSION = "the session was deleted, or there never was one with this id; open another one"


class RequestFailed(Exception):
    """A request of the editor that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def ignore_deleted_session() -> Iterator[None]:
    """Ignore that the gateway refuses a request because the session was deleted. Other refusals are raised."""
    from semel.faces.client import RequestRefused

    try:
        yield
    except RequestRefused as error:
        if error.code != "no-such-session":
            raise


def describe_error(error: Exception) -> Json:
    """Return the error with which the editor's request is answered. One that we do not expect is a bug of ours."""
    if isinstance(error, RequestFailed):
        return {"code": error.code, "message": str(error)}
    from semel.faces.client import OutcomeUnknown, RequestRefused  # it imports an HTTP client, which takes a while

    if isinstance(error, RequestRefused):
        if error.code == "no-such-session":
            return {"code": REFUSALS[error.code], "message": NO_SESSION}
        message = re.sub(r"^\w+(?=[:\[])", lambda match: FIELDS.get(match[0], match[0]), str(error))
        return {"code": REFUSALS.get(error.code, INTERNAL_ERROR), "message": message}
    if isinstance(error, NoGateway | OutcomeUnknown | OSError):
        return {"code": INTERNAL_ERROR, "message": str(error)}
    return {"code": INTERNAL_ERROR, "message": f"Semel failed: {type(error).__name__}: {error}"}
