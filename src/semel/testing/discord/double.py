"""The double itself, in memory: Discord for one bot, and the people who write to it."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable
from typing import Any

from semel.testing.discord.model import (
    ApiAnswer,
    ApiError,
    ApiFault,
    DiscordAccount,
    DiscordChannelModel,
    FaultKind,
    Guild,
    InteractionModel,
)
from semel.testing.discord.people import DiscordPeople
from semel.testing.discord.routes import NOT_FOUND, ROUTES, Call
from semel.testing.discord.sessions import Sessions
from semel.text.json_types import Json

BOT = "1100000000000000001"
TOKEN = f"{base64.urlsafe_b64encode(BOT.encode()).decode().rstrip('=')}.Gtest0.test-token_0123456789-abcdefghij"
"""The default token of the double's bot."""
NONCE_LIFE_S = 120.0
"""How long a nonce is recognised. Discord says "the past few minutes"."""


class DiscordDouble(DiscordPeople):
    """One bot, its servers and the people there. The package's docstring lists what is modelled.

    `content_switch`: whether the Message Content Intent is switched on in the Developer Portal. `rate`: (how many
    messages, within how many seconds) a channel takes from the bot; None: any number. `now`: returns seconds since the
    epoch; `advance` adds to it. `seed`: of the faults that strike by chance. `identify_s`: seconds within which the
    gateway takes one Identify; Discord's are 5.
    """

    def __init__(
        self,
        token: str = TOKEN,
        *,
        content_switch: bool = True,
        rate: tuple[int, float] | None = None,
        heartbeat_s: float = 41.25,
        now: Callable[[], float] = time.time,
        seed: int = 0,
        identify_s: float = 0.0,
    ) -> None:
        self.token = token
        self.me = DiscordAccount(BOT, "Semel", bot=True)
        self.content_switch = content_switch
        self.rate = rate
        self.heartbeat_s = heartbeat_s
        self.answers_heartbeats = True
        self.answers_identify = True
        self.identify_s = identify_s
        self.identified_at = 0.0
        self.starts_left = 1000
        self.ahead = 0.0  # seconds
        self.now: Callable[[], float] = lambda: now() + self.ahead
        self.sessions = Sessions(self.now)
        self.accounts = {BOT: self.me}
        self.guilds: dict[str, Guild] = {}
        self.channels: dict[str, DiscordChannelModel] = {}
        self.files: dict[str, bytes] = {}
        self.interactions: dict[str, InteractionModel] = {}
        self.commands: list[Json] = []
        self.closed_to_us: set[str] = set()  # ids of people who take no direct messages
        self.pinged: list[str] = []  # whom messages of the bot notified
        self.typed: list[str] = []
        self.faults: list[ApiFault] = []
        self.requests: list[Json] = []
        self.gateway_url = self.file_base = ""  # set by `serve`
        self._nonces: dict[str, tuple[float, Json]] = {}
        self._counts: dict[str, tuple[float, int]] = {}  # channel -> (when its limit ends, requests)
        self._last = 0
        self._dice = random.Random(seed)

    def __repr__(self) -> str:
        return f"<DiscordDouble {len(self.channels)} channels, {len(self.requests)} requests, {self.sessions!r}>"

    # ------------------------------------------------------------ what the tester sees and does

    def texts(self, channel: str) -> list[str]:
        """Return the texts of the bot's messages in a channel, the oldest first, without deleted ones."""
        return [body["content"] for body in self.shown(channel) if body["author"]["id"] == self.me.id]

    def shown(self, channel: str) -> list[Json]:
        """Return the message objects that people see in a channel, the oldest first."""
        place = self.channels.get(channel)
        return [] if place is None else [one.body for one in place.messages.values() if not one.is_deleted]

    def asked(self, pattern: str = "") -> list[Json]:
        """Return the requests whose "METHOD PATH" contains `pattern`: {request, body, status}, in order."""
        return [row for row in self.requests if pattern in row["request"]]

    def fail(self, pattern: str, how: FaultKind, **more: Any) -> None:
        """Add an `ApiFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(ApiFault(pattern, how, **more))

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.faults.clear()

    def advance(self, seconds: float) -> None:
        """Move Discord's clock forward."""
        self.ahead += seconds

    def disconnect(self, code: int = 4000) -> None:
        """Close the connections to the gateway. The sessions can be resumed, unless the code is 1000 or 1001."""
        self.sessions.push(code)

    def ask_for_reconnect(self) -> None:
        """Ask the bot to connect again (opcode 7)."""
        self.sessions.push({"op": 7, "d": None})

    def invalidate_sessions(self) -> None:
        """End all sessions, so that none can be resumed."""
        self.sessions.invalidate()

    # ------------------------------------------------------------ what the servers call

    def fault(self, request: str) -> ApiFault | None:
        """Return the fault that strikes this request, or None. The request counts against the fault's `times`."""
        return next((fault for fault in self.faults if fault.fits(request, self._dice.random)), None)

    def call(self, method: str, path: str, query: Json, body: Any, files: list[tuple[str, str, bytes]]) -> ApiAnswer:
        """Call the API. Returns the answer, also an error."""
        try:
            for route_method, pattern, function in ROUTES:
                if route_method == method and (match := pattern.fullmatch(path)) is not None:
                    answer = self._limit(method, path) or function(self, Call(match.groups(), query, body, files))
                    answer = answer if isinstance(answer, ApiAnswer) else ApiAnswer(200, answer)
                    answer.headers |= self._limit_headers(method, path)
                    return answer
            raise NOT_FOUND
        except ApiError as error:
            return ApiAnswer(error.status, error.body(), self._limit_headers(method, path))

    def find_nonce(self, nonce: str) -> Json | None:
        """Return the message with this nonce, if it is remembered; also if it was deleted."""
        at, body = self._nonces.get(nonce, (0.0, None))
        return body if body is not None and self.now() - at < NONCE_LIFE_S else None

    def note_nonce(self, nonce: str, body: Json) -> None:
        self._nonces[nonce] = (self.now(), body)

    def _limit(self, method: str, path: str) -> ApiAnswer | None:
        """Count a message. Returns 429 if the channel's limit is reached."""
        if self.rate is None or method != "POST" or not path.endswith("/messages"):
            return None
        count, seconds = self.rate
        ends, used = self._counts.get(path, (0.0, 0))
        if ends <= self.now():
            ends, used = self.now() + seconds, 0
        if used >= count:
            return limited(ends - self.now())
        self._counts[path] = (ends, used + 1)
        return None

    def _limit_headers(self, method: str, path: str) -> dict[str, str]:
        if self.rate is None or path not in self._counts or method != "POST":
            return {}
        ends, used = self._counts[path]
        return {
            "x-ratelimit-limit": str(self.rate[0]), "x-ratelimit-remaining": str(max(0, self.rate[0] - used)),
            "x-ratelimit-reset": f"{ends:.3f}", "x-ratelimit-reset-after": f"{max(0.0, ends - self.now()):.3f}",
            "x-ratelimit-bucket": "messages",
        }  # fmt: skip


def limited(seconds: float, scope: str = "user") -> ApiAnswer:
    """Return a 429 (https://docs.discord.com/developers/topics/rate-limits#exceeding-a-rate-limit)."""
    is_global = scope == "global"
    headers = {"retry-after": str(int(seconds + 0.999)), "x-ratelimit-scope": scope}
    headers |= {"x-ratelimit-global": "true"} if is_global else {}
    message = "You are being rate limited." if scope != "shared" else "The resource is being rate limited."
    return ApiAnswer(429, {"message": message, "retry_after": round(seconds, 3), "global": is_global}, headers)
