"""What the double consists of, how its calls fail, and how it signs its requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from semel.testing.call_faults import CallFault
from semel.text.json_types import Json

APP_ID = "28b3e9f1-0c5e-4c5e-9a51-3f0d7b1f6a20"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT_SECRET = "a-secret~of.the-registration"
ISSUER = "https://api.botframework.com"
KEY_ID = "key-1"
MAX_MESSAGE_BYTES = 100 * 1024
"""Bytes of a message in UTF-16, without its pictures
(https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages)."""
PIECE_UNIT_BYTES = 320 * 1024
"""A piece of an uploaded file is a multiple of it, unless it is the last one
(https://learn.microsoft.com/graph/api/driveitem-createuploadsession)."""
FaultKind = Literal["drop", "hang", "cut", "500", "502", "503", "504", "412", "429", "html", "error", "empty"]
_ERRORS = {
    "500": (500, "ServiceError"), "503": (503, "ServiceUnavailable"), "504": (504, "GatewayTimeout"),
    "412": (412, "PreconditionFailed"), "429": (429, "Throttled"),
}  # fmt: skip


class ConnectorError(Exception):
    """A call was refused. `status`, `code`: as Teams' table of status codes names them."""

    def __init__(self, status: int, code: str, message: str = "", retry_after: int | None = None) -> None:
        super().__init__(message or code)
        self.status = status
        self.code = code
        self.retry_after = retry_after

    def body(self) -> Json:
        """Return the body of the answer: an "ErrorResponse object" of the Bot Connector's reference, or another."""
        if self.code == "MessageWritesBlocked":  # the page on proactive messages
            return {"errorCode": 209, "message": json.dumps({"subCode": self.code, "details": str(self)}, indent=2)}
        if self.code == "MethodNotAllowed":
            return {"message": str(self)}
        return {"error": {"code": self.code, "message": str(self)}}


def make_fault_error(how: str) -> ConnectorError:
    """Return the error of a fault that has one."""
    status, code = _ERRORS[how]
    return ConnectorError(status, code, retry_after=1 if how == "429" else None)


@dataclass
class TeamsFault(CallFault):
    """What goes wrong with calls of this name: token, openid, keys, post, create, edit, delete, typing, look,
    download, picture, upload.

    `how`: "drop" (the connection is closed), "hang", "cut" (the answer breaks off), "500" and its like, "html" (a page
    with status 200), "empty" (202 without a body), or "error" (with `status` and `code`).
    """

    HOWS = get_args(FaultKind)
    status: int = 400
    code: str = "BadArgument"


@dataclass
class TeamsPerson:
    """A person. `id`: their object id. `has_blocked`: the bot. `has_app`: the bot may open the chat with them."""

    id: str
    name: str
    has_blocked: bool = False
    has_app: bool = True

    @property
    def account(self) -> Json:
        return {"id": f"29:1{self.id.replace('-', '')}", "name": self.name, "aadObjectId": self.id}


@dataclass
class TeamsUpload:
    """A file in somebody's OneDrive, of which `content` has come so far. `size`: of the whole, in bytes."""

    name: str
    size: int
    content: bytes = b""

    @property
    def is_whole(self) -> bool:
        return len(self.content) == self.size


@dataclass
class TeamsConversation:
    """A conversation. `address`: as the channel has it. `base`: the chat or channel that a thread is in."""

    id: str
    kind: Literal["personal", "groupChat", "channel"]
    address: str
    base: str
    name: str = ""
    people: set[str] = field(default_factory=set)

    def describe(self) -> Json:
        named = {"name": self.name} if self.name and self.kind == "groupChat" else {}
        group = {} if self.kind == "personal" else {"isGroup": True}
        return {"id": self.id, "conversationType": self.kind, "tenantId": TENANT, **group, **named}


class SigningKey:
    """A key of the Bot Connector's."""

    def __init__(self, id: str = KEY_ID, endorsements: Sequence[str] = ("msteams",)) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa  # an extra: see `semel.testing.teams.__main__`

        self.id = id
        self.endorsements = list(endorsements)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def publish(self) -> Json:
        """Return the key as the document of keys has it."""
        import jwt

        public: Json = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return {**public, "kid": self.id, "x5t": self.id, "use": "sig", "endorsements": self.endorsements}

    def sign(self, service_url: str, now: float, **changed: Any) -> str:
        """Return the token of a request. `changed`: claims that differ from the right ones; None leaves one out."""
        import jwt

        claims = {
            "iss": ISSUER, "aud": APP_ID, "serviceurl": service_url, "nbf": int(now) - 300, "exp": int(now) + 3300,
            **changed,
        }  # fmt: skip
        known = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(known, self._key, "RS256", headers={"kid": self.id, "x5t": self.id})
