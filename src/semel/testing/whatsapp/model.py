"""What the double consists of, and how its calls fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from semel.testing.call_faults import CallFault
from semel.text.json_types import Json

NUMBER_ID = "106540352242922"
DISPLAY_NUMBER = "+1 555-078-3881"
TOKEN = "EAAGm0PX4ZCpsBA" + "7" * 40
APP_SECRET = "0123456789abcdef0123456789abcdef"
VERIFY_TOKEN = "confirms the address"
FaultKind = Literal["drop", "hang", "500", "502", "429", "error"]


class GraphError(Exception):
    """A call was refused. `code`: Meta's code. `status`: of the answer. `subcode`: 0 for none."""

    def __init__(self, code: int, message: str, *, status: int = 400, details: str = "", subcode: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = details
        self.subcode = subcode

    def body(self) -> Json:
        """Return the body of the answer
        (https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes)."""
        error: Json = {"message": f"(#{self.code}) {self}", "type": "OAuthException", "code": self.code}
        if self.details:
            error["error_data"] = {"messaging_product": "whatsapp", "details": self.details}
        if self.subcode:
            error["error_subcode"] = self.subcode
        return {"error": {**error, "fbtrace_id": "Az8or2yhqkZfEZ-_4Qn_Bam"}}

    def report(self) -> Json:
        """Return the error as a status has it."""
        data = {"error_data": {"details": self.details}} if self.details else {}
        return {"code": self.code, "title": str(self), "message": str(self), **data}


@dataclass
class WhatsAppFault(CallFault):
    """What goes wrong with calls of this name: messages, typing, upload, media, file, number, token.

    `how`: "drop" (the connection is closed), "hang", "500", "502" (a page), "429", or "error" (with `code`).
    """

    HOWS = get_args(FaultKind)
    code: int = 131000
    status: int = 400


@dataclass
class WhatsAppPerson:
    """A person. `heard_at`: when they wrote last, in seconds since the epoch. `hides_number`: their user id shows."""

    wa_id: str
    name: str
    heard_at: float = 0.0
    hides_number: bool = False

    @property
    def user_id(self) -> str:
        return f"US.{self.wa_id}"

    @property
    def address(self) -> str:
        return self.user_id if self.hides_number else self.wa_id

    def describe(self) -> Json:
        """Return the contact as webhooks describe it."""
        number = {} if self.hides_number else {"wa_id": self.wa_id}
        return {"profile": {"name": self.name}, "user_id": self.user_id, **number}


@dataclass
class StoredMedia:
    """An uploaded or received file. `url_until`: when its address ends, in seconds since the epoch."""

    id: str
    name: str
    mime: str
    content: bytes = field(repr=False)
    url_until: float = 0.0


def invalid(message: str, details: str = "") -> GraphError:
    """Return the error for an argument that is wrong."""
    return GraphError(100, f"Invalid parameter: {message}", details=details)


def bad_value(details: str) -> GraphError:
    return GraphError(131009, "Parameter value is not valid", details=details)


def text_of(value: Any, name: str, most: int, least: int = 1) -> str:
    """Return a text of a message. Raises GraphError if it is missing or too long (in UTF-16 units)."""
    if not isinstance(value, str):
        raise GraphError(131008, "Required parameter is missing", details=f"{name} is required")
    if not least <= len(value.encode("utf-16-le", "surrogatepass")) // 2 <= most:
        raise bad_value(f"{name} length invalid. Min length: {least}, Max length: {most}")
    return value
