"""What the Bot API answers instead of a result."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer with `ok: false`. `parameters` may hold `retry_after` (seconds) or `migrate_to_chat_id`."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return {**answer, "parameters": self.parameters} if self.parameters else answer


def bad_request(what: str, **parameters: Any) -> ApiError:
    return ApiError(400, f"Bad Request: {what}", **parameters)


def forbidden(what: str) -> ApiError:
    return ApiError(403, f"Forbidden: {what}")
