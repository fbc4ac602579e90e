"""One-time codes for the login link that `semel up` and `semel link` show, as text and as a QR code.

A link with the owner's token would be the token itself: whoever photographs the screen, or reads the terminal's
scrollback, is the owner for good. A code logs one browser in, once, within ten minutes. Codes are kept in memory only,
as digests; a restart makes them void.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

CODE_LIFETIME_S = 600
CODE_BYTES = 16
"""Random bytes of a code: too many to guess, so tries need no limit."""
MAX_OPEN_CODES = 20


@dataclass(frozen=True)
class LoginCode:
    """A new code. `expires`: in seconds since the epoch."""

    code: str
    expires: float


class LoginCodes:
    """The codes that were shown and not used yet. If there are too many, the oldest becomes void."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._expiries: dict[bytes, float] = {}  # by the code's digest, oldest first

    def __repr__(self) -> str:
        return f"<LoginCodes {len(self._expiries)} open>"

    def create(self) -> LoginCode:
        code, expires = secrets.token_urlsafe(CODE_BYTES), self._clock() + CODE_LIFETIME_S
        while len(self._expiries) >= MAX_OPEN_CODES:
            del self._expiries[next(iter(self._expiries))]
        self._expiries[_digest_code(code)] = expires
        return LoginCode(code, expires)

    def redeem(self, code: str) -> bool:
        """Use a code up. Returns whether it was valid."""
        expires = self._expiries.pop(_digest_code(code), None)
        return expires is not None and self._clock() < expires


def _digest_code(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
