"""Requests and errors of OpenAI's chat API."""

from __future__ import annotations

from typing import Any

import httpx2

CHAT = "/openai/v1/chat/completions"
Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def error(response: httpx2.Response) -> Json:
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    return dict(response.json()["error"])
