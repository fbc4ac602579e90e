"""Check that a request is Microsoft's: its bearer token, signed by a key that Microsoft publishes.

https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication, "Authenticate
requests from the Bot Connector service to your bot". The token does not sign the body; it names the URL to which an
answer may go, and whoever could name another would get the bot's access token: so each of the page's seven requirements
is checked, and none can be switched off.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt

from semel.channels.http import USER_AGENT, request
from semel.channels.problems import is_loopback, parse_url
from semel.channels.teams.settings import DEFAULT_OPENID, TeamsSettings
from semel.channels.webhook_in import WebhookRefused
from semel.gateway.ports import NotSent, Offline, Unknown
from semel.text.json_types import Json, list_at, objects_in, text_at

ISSUER = "https://api.botframework.com"
ALGORITHM = "RS256"
CHANNEL_ID = "msteams"
CLOCK_TOLERANCE_S = 300.0
KEYS_LIFE_S = 24 * 3600.0
"""Seconds after which the keys are read again."""
MAX_KEYS_AGE_S = 5 * 24 * 3600.0
"""Seconds for which the keys are used while they cannot be read again. Microsoft's own library keeps them as long."""
MIN_KEYS_AGE_S = 300.0
"""Seconds before the keys are read again for the sake of a token with an unknown key."""
MAX_KEYS_BYTES = 1024 * 1024


class TeamsAuthenticator:
    """Checks requests for one bot. `clock`: seconds since the epoch."""

    def __init__(self, settings: TeamsSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: dict[str, Json] = {}
        self._read_at = 0.0
        self._refresh_at = 0.0
        self._missed_at = 0.0  # when they could not be read
        self._reading = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<TeamsAuthenticator with {len(self._keys)} keys>"

    async def check(self, headers: Mapping[str, str], activity: Json) -> str:
        """Return the URL to which answers to an activity go. Raises WebhookRefused; Offline if keys cannot be read."""
        scheme, _, token = _find_header(headers, "authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise WebhookRefused(401, "it needs Microsoft's token, as 'Authorization: Bearer ...'", "no-token")
        token = token.strip()
        key = await self._find_key(token)
        claims = self._decode(token, key)
        if activity.get("channelId") != CHANNEL_ID or CHANNEL_ID not in list_at(key, "endorsements"):
            raise WebhookRefused(401, "the token is not one for Microsoft Teams", "bad-signature")
        url = text_at(activity, "serviceUrl") or ""
        named = text_at(claims, "serviceurl") or text_at(claims, "serviceUrl")
        if not url or named is None or named.rstrip("/") != url.rstrip("/") or not self._is_trusted(url):
            raise WebhookRefused(401, "the token does not name the activity's serviceUrl", "bad-signature")
        return url.rstrip("/")

    async def read_keys(self) -> None:
        """Read the keys, unless they are fresh. Raises Offline if there are none that may still be used."""
        async with self._reading:
            if self._clock() < self._refresh_at:
                return
            try:
                await self._read_keys()
            except Offline:
                if not self._keys or self._clock() - self._read_at > MAX_KEYS_AGE_S:
                    raise
                self._refresh_at = self._clock() + MIN_KEYS_AGE_S

    def _decode(self, token: str, key: Json) -> Json:
        try:
            claims: Json = jwt.decode(
                token, jwt.PyJWK(key, ALGORITHM).key, algorithms=[ALGORITHM], audience=self._settings.app_id,
                issuer=ISSUER,
                options={
                    "require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
                },
            )  # fmt: skip
        except jwt.InvalidAudienceError:
            raise WebhookRefused(401, "the token is for another bot: check app_id", "bad-signature") from None
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise WebhookRefused(401, f"the token is not valid ({type(error).__name__})", "bad-signature") from None
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Json) -> None:
        end, start, now = claims.get("exp"), claims.get("nbf", 0), self._clock()
        if not isinstance(end, int | float) or not isinstance(start, int | float):
            raise WebhookRefused(401, "the token names no time at which it ends", "bad-signature")
        if not start - CLOCK_TOLERANCE_S <= now <= end + CLOCK_TOLERANCE_S:
            raise WebhookRefused(401, "the token is not valid now: is this machine's clock right?", "bad-signature")

    async def _find_key(self, token: str) -> Json:
        try:
            id = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError):
            raise WebhookRefused(401, "the token is none", "bad-signature") from None
        await self.read_keys()
        if id not in self._keys:
            async with self._reading:
                if id not in self._keys and self._clock() - self._read_at >= MIN_KEYS_AGE_S:
                    await self._read_newer_keys()
        if not isinstance(id, str) or id not in self._keys:
            raise WebhookRefused(401, "the token is signed with a key that Microsoft does not publish", "bad-signature")
        return self._keys[id]

    async def _read_newer_keys(self) -> None:
        """Read the keys, but not again soon after that failed: whoever has its turn next waits meanwhile."""
        if self._clock() - self._missed_at < MIN_KEYS_AGE_S:
            raise Offline("Microsoft's keys could not be read a moment ago")
        try:
            await self._read_keys()
        except Offline:
            self._missed_at = self._clock()
            raise

    async def _read_keys(self) -> None:
        metadata = await self._get(self._settings.openid)
        if ALGORITHM not in list_at(metadata, "id_token_signing_alg_values_supported"):
            raise Offline(f"Microsoft's OpenID metadata no longer names {ALGORITHM}: check the setting `openid`")
        address = text_at(metadata, "jwks_uri") or ""
        if self._settings.openid == DEFAULT_OPENID and not address.startswith("https://"):
            raise Offline("Microsoft's OpenID metadata names no address of keys")
        keys = {str(key["kid"]): key for key in objects_in((await self._get(address)).get("keys")) if "kid" in key}
        if not keys:
            raise Offline("Microsoft names no keys: check the setting `openid`")
        self._keys, self._read_at = keys, self._clock()
        self._refresh_at = self._read_at + KEYS_LIFE_S

    async def _get(self, address: str) -> Json:
        try:
            answer = await request(
                "GET", address, None, {"user-agent": USER_AGENT, "accept-encoding": "identity"},
                timeout=self._settings.timeout, allow_private=self._settings.openid != DEFAULT_OPENID,
                most=MAX_KEYS_BYTES,
            )  # fmt: skip
            document: Any = json.loads(answer.body) if answer.status == 200 else None
        except (NotSent, Unknown, ValueError, RecursionError) as error:
            raise Offline(f"Microsoft's keys cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise Offline(f"Microsoft's keys cannot be read: HTTP {answer.status}")
        return document

    def _is_trusted(self, url: str) -> bool:
        """Whether the access token may go to a URL: over TLS, or to the host that the settings name."""
        try:
            target, own = parse_url("serviceUrl", url), parse_url("service_url", self._settings.service_url)
        except ValueError:
            return False
        if own.scheme == "http" and is_loopback(own.host):  # a double
            return is_loopback(target.host)
        return target.scheme == "https" and bool(target.host) and not target.username


def _find_header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name), "")
