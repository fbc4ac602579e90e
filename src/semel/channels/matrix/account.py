"""Our account on the homeserver: login, access token, and the device that the token belongs to.

A homeserver recognizes a repeated transaction id only from the device that used it first. Therefore each login names
the same device (`device`, by default SEMEL): the new token of a known device repeats transactions of the old one safely
(spec, "Transaction identifiers", since version 1.7; measured on Synapse 1.163). So a login's token need not survive a
restart: it is kept in memory only, and a restart logs in again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from semel.channels.matrix.settings import MatrixSettings
from semel.channels.matrix.transport import CLIENT, LATER, Json, Reply, once
from semel.gateway.ports import Denied, NotSent, Offline, Unknown

_log = logging.getLogger("semel.channels.matrix")
LOGIN_RETRY_DELAY_S = 300.0
"""Seconds before a refused login is repeated: homeservers lock accounts after repeated failures."""
_NO = frozenset({"M_FORBIDDEN", "M_USER_DEACTIVATED", "M_INVALID_USERNAME", "M_INVALID_PARAM", "M_UNKNOWN"})


@dataclass(frozen=True)
class Me:
    """Our user id, device and access token."""

    id: str  # @bot:example.org
    device: str
    token: str

    def __repr__(self) -> str:
        return f"<Me {self.id} on {self.device}>"

    @property
    def local(self) -> str:
        """The name before the colon."""
        return self.id[1:].partition(":")[0]

    @property
    def server(self) -> str:
        return self.id.partition(":")[2]


class Account:
    """Logs in, or asks the homeserver whose the configured token is, on first use."""

    def __init__(self, name: str, settings: MatrixSettings, now: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.settings = settings
        self._now = now
        self._me: Me | None = None
        self._lock = asyncio.Lock()
        self._denied: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"<Account {self._me or 'not logged in'}>"

    async def me(self, again: bool = False) -> Me:
        """Our identity; logs in if necessary. Raises Denied or Offline.

        A recent refusal is raised again without a request, unless `again` is set.
        """
        async with self._lock:
            if self._me is not None:
                return self._me
            if self._denied is not None and not again and self._now() < self._denied[1]:
                raise Denied(self._denied[0])
            try:
                self._me = await (self._login() if self.settings.password is not None else self._whoami())
            except (NotSent, Unknown) as lost:
                raise Offline(str(lost)) from None
            except Denied as no:
                self._denied = (str(no), self._now() + LOGIN_RETRY_DELAY_S)
                raise
            self._denied = None
            return self._me

    def stale(self, me: Me) -> None:
        """Forget an identity whose token was refused. The next `me()` logs in again."""
        if self._me is me:
            self._me = None

    async def _login(self) -> Me:
        body: Json = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.settings.user},
            "password": self.settings.password,
            "device_id": self.settings.pinned,
            "initial_device_display_name": f"Semel ({self.name})",
        }
        reply = await once("POST", f"{self.settings.base}{CLIENT}/login", body, timeout=self.settings.timeout)
        self._check(reply, f"the homeserver does not log {self.settings.user} in; check user and password")
        me = _me(reply.data)
        if me.device != self.settings.pinned:
            _log.warning("%s: the homeserver gave the device %s, not the one asked for", self.name, me.device)
        return me

    async def _whoami(self) -> Me:
        token = self.settings.token or ""
        url = f"{self.settings.base}{CLIENT}/account/whoami"
        reply = await once("GET", url, token=token, timeout=self.settings.timeout)
        self._check(reply, "the homeserver does not take the token; make a new one, or set user and password")
        me = _me({**reply.data, "access_token": token})
        if self.settings.user and me.id != self.settings.user:
            raise Denied(f"the token belongs to {me.id}, and user is {self.settings.user}")
        if self.settings.device and me.device != self.settings.device:
            raise Denied(
                f"the token belongs to the device {me.device}, and device is {self.settings.device}: a new device does "
                "not fold what another one sent. Once nothing waits in the outbox, set device to the new one"
            )
        return me

    def _check(self, reply: Reply, denied: str) -> None:
        """Raises Denied or Offline unless the login or token check succeeded. `denied` is the text for a refusal."""
        if 200 <= reply.status < 300:
            if isinstance(reply.data.get("user_id"), str):
                return
            raise Denied(f"{self.settings.homeserver} is no Matrix homeserver: it does not answer as one")
        no = reply.refusal()
        if reply.status == 429 or no.code in ("M_LIMIT_EXCEEDED", "M_RESOURCE_LIMIT_EXCEEDED"):
            raise Offline(str(no), no.retry_after or LATER)
        if reply.status in (401, 403) or no.code in _NO:
            raise Denied(f"{denied} ({no})")
        if reply.status == 408 or reply.status >= 500:
            raise Offline(str(no), no.retry_after)
        if reply.status < 400:
            raise Denied(f"{self.settings.homeserver} redirects; set homeserver to where it leads")
        raise Denied(f"{self.settings.homeserver} does not answer as a Matrix homeserver ({no}); check homeserver")


def _me(data: Json) -> Me:
    return Me(str(data["user_id"]), str(data.get("device_id") or ""), str(data.get("access_token") or ""))
