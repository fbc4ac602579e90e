"""The platform that the pigeons fly for: what it took, in its order, and letters of people. It has no faults itself.

What it took comes among the letters, too, with its key, as on most platforms.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from semel.testing.http_requests import HttpRequest

PAGE = 20


class Dovecote:
    """`folds`: a repeated key is answered with the first flight."""

    def __init__(self, folds: bool) -> None:
        self.folds = folds
        self.flights: list[dict[str, Any]] = []
        self.letters: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def write(self, sender: str, loft: str, text: str) -> None:
        self._deliver({"id": f"letter-{len(self.letters) + 1}", "from": sender, "loft": loft, "text": text})

    def _deliver(self, letter: dict[str, Any]) -> None:
        self.letters.append({**letter, "n": len(self.letters) + 1})
        self._more.set()
        self._more = asyncio.Event()

    def shown(self, loft: str) -> list[str]:
        return [flight["text"] for flight in self.flights if flight["loft"] == loft]

    async def answer(self, request: HttpRequest) -> tuple[int, Mapping[str, Any]]:
        url = urlsplit(request.target)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        match request.method, url.path.split("/")[1:]:
            case "GET", ["letters"]:
                return 200, await self._letters(asked)
            case "POST", ["flights"]:
                return 200, self._fly(json.loads(request.body))
            case "GET", ["flights"]:
                there = [f for f in self.flights if f["loft"] == asked["loft"] and f["n"] > int(asked["after"])]
                return 200, {"flights": there[:PAGE], "more": len(there) > PAGE}
            case "PUT", ["flights", id]:
                flight = next(f for f in self.flights if f["id"] == id)
                flight["text"] = json.loads(request.body)["text"]
                return 200, {"id": id}
        return 404, {}

    def _fly(self, told: dict[str, Any]) -> dict[str, Any]:
        known = next((f for f in self.flights if self.folds and f["key"] == told["key"]), None)
        if known is None:
            n = len(self.flights) + 1
            known = {"n": n, "id": f"flight-{n}", **told}
            self.flights.append(known)
            self._deliver({**known, "from": "semel"})
        return {"id": known["id"]}

    async def _letters(self, asked: Mapping[str, str]) -> dict[str, Any]:
        if "newest" in asked:
            return {"n": len(self.letters)}
        after, wait = int(asked["after"]), float(asked["wait"])
        if len(self.letters) <= after and wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._more.wait()
        return {"letters": self.letters[after : after + PAGE]}
