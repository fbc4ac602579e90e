"""Our account on the homeserver: its login and device, and the authenticated requests of `run` and of `send`.

A homeserver recognizes a repeated transaction id only from the device that used it first. Therefore each login names
the same device (`device`, by default SEMEL). Transaction ids then stay valid when the access token changes (spec,
"Transaction identifiers", since version 1.7; measured on Synapse 1.163). So the token of a login need not survive a
restart: it is kept in memory only, and a restart logs in again.

`MatrixReader` reads for `run` over one kept connection. `MatrixWriter` makes the requests of one attempt to send: first
look-ups, then the write. If a look-up fails, nothing of the part has left, so each of its failures is NotSent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from semel.channels.matrix.settings import MatrixSettings
from semel.channels.matrix.transport import (
    CLIENT,
    MANUAL_RETRY_DELAY_S,
    MatrixReadConnection,
    MatrixReply,
    classify_read_error,
    request_once,
    room_path,
)
from semel.gateway.ports import Denied, NotSent, Offline, Unknown
from semel.text.json_types import Json

_log = logging.getLogger("semel.channels.matrix")
LOGIN_RETRY_DELAY_S = 300.0
"""Seconds before a refused login is repeated: homeservers lock accounts after repeated failures."""
_LOGIN_REFUSED_CODES = frozenset(
    {"M_FORBIDDEN", "M_USER_DEACTIVATED", "M_INVALID_USERNAME", "M_INVALID_PARAM", "M_UNKNOWN"}
)


@dataclass(frozen=True)
class MatrixIdentity:
    """Our user id, device and access token."""

    id: str  # @bot:example.org
    device: str
    token: str

    def __repr__(self) -> str:
        return f"<MatrixIdentity {self.id} on {self.device}>"

    @property
    def local(self) -> str:
        """The name before the colon."""
        return self.id[1:].partition(":")[0]

    @property
    def server(self) -> str:
        return self.id.partition(":")[2]


class MatrixAccount:
    """Our identity on the homeserver, found on first use: by a login, or by asking who owns the configured token."""

    def __init__(self, name: str, settings: MatrixSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.settings = settings
        self._clock = clock
        self._me: MatrixIdentity | None = None
        self._lock = asyncio.Lock()
        self._refusal: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"<MatrixAccount {self._me or 'not logged in'}>"

    async def identify(self, retry_refused: bool = False) -> MatrixIdentity:
        """Return our identity. Logs in if necessary. Raises Denied or Offline.

        A recent refusal is raised again without a request, unless `retry_refused` is set.
        """
        async with self._lock:
            if self._me is not None:
                return self._me
            if self._refusal is not None and not retry_refused and self._clock() < self._refusal[1]:
                raise Denied(self._refusal[0])
            try:
                self._me = await (self._login() if self.settings.password is not None else self._whoami())
            except (NotSent, Unknown) as error:
                raise Offline(str(error)) from None
            except Denied as denied:
                self._refusal = (str(denied), self._clock() + LOGIN_RETRY_DELAY_S)
                raise
            self._refusal = None
            return self._me

    def forget_identity(self, me: MatrixIdentity) -> None:
        """Forget an identity whose token was refused. The next `identify` logs in again, or checks the token again."""
        if self._me is me:
            self._me = None

    async def _login(self) -> MatrixIdentity:
        body: Json = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.settings.user},
            "password": self.settings.password,
            "device_id": self.settings.pinned,
            "initial_device_display_name": f"Semel ({self.name})",
        }
        reply = await request_once("POST", f"{self.settings.base}{CLIENT}/login", body, timeout=self.settings.timeout)
        self._check(reply, f"the homeserver does not log {self.settings.user} in; check user and password")
        me = _parse_identity(reply.data)
        if me.device != self.settings.pinned:
            _log.warning("%s: the homeserver gave the device %s, not the one asked for", self.name, me.device)
        return me

    async def _whoami(self) -> MatrixIdentity:
        token = self.settings.token or ""
        url = f"{self.settings.base}{CLIENT}/account/whoami"
        reply = await request_once("GET", url, token=token, timeout=self.settings.timeout)
        self._check(reply, "the homeserver does not take the token; make a new one, or set user and password")
        me = _parse_identity({**reply.data, "access_token": token})
        if self.settings.user and me.id != self.settings.user:
            raise Denied(f"the token belongs to {me.id}, and user is {self.settings.user}")
        if self.settings.device and me.device != self.settings.device:
            raise Denied(
                f"the token belongs to the device {me.device}, and device is {self.settings.device}: the homeserver "
                "recognises a repeated message only from the same device. Once nothing waits in the outbox, set device "
                "to that of the token"
            )
        return me

    def _check(self, reply: MatrixReply, denied_text: str) -> None:
        """Raise Offline or Denied unless the login or token check succeeded. `denied_text`: why it was refused."""
        if 200 <= reply.status < 300:
            if isinstance(reply.data.get("user_id"), str):
                return
            text = f"{self.settings.homeserver} does not answer as a Matrix homeserver; check homeserver"
            raise Denied(text, ["homeserver"])
        refusal = reply.refusal()
        if reply.status == 429 or refusal.code in ("M_LIMIT_EXCEEDED", "M_RESOURCE_LIMIT_EXCEEDED"):
            raise Offline(str(refusal), refusal.retry_after or MANUAL_RETRY_DELAY_S)
        if reply.status in (401, 403) or refusal.code in _LOGIN_REFUSED_CODES:
            settings = ["token"] if self.settings.password is None else ["user", "password"]
            raise Denied(f"{denied_text} ({refusal})", settings)
        if reply.status == 408 or reply.status >= 500:
            raise Offline(str(refusal), refusal.retry_after)
        if reply.status < 400:
            text = f"{self.settings.homeserver} redirects; set homeserver to where it leads"
            raise Denied(text, ["homeserver"])
        text = f"{self.settings.homeserver} does not answer as a Matrix homeserver ({refusal}); check homeserver"
        raise Denied(text, ["homeserver"])


def _parse_identity(data: Json) -> MatrixIdentity:
    return MatrixIdentity(str(data["user_id"]), str(data.get("device_id") or ""), str(data.get("access_token") or ""))


class MatrixReader:
    """The authenticated GET requests of one run of the channel. `me` is our identity, set by `begin`."""

    def __init__(self, link: MatrixReadConnection, account: MatrixAccount) -> None:
        self.link = link
        self.account = account
        self.me: MatrixIdentity

    async def begin(self) -> MatrixIdentity:
        """Set `me` and return it; logs in if necessary. Raises Offline or Denied."""
        self.me = await self.account.identify(retry_refused=True)
        return self.me

    async def get(self, path: str, wait: float = 0.0) -> MatrixReply:
        """Make a GET request. Returns a success, or a refusal that concerns only this request.

        `wait`: seconds for which the homeserver may hold the request. Raises Offline or Denied.
        """
        reply = await self.link.get(path, self.me.token, wait)
        if reply.token_refused:
            self.account.forget_identity(self.me)
            self.me = await self.account.identify()
            reply = await self.link.get(path, self.me.token, wait)
        if reply.token_refused:
            raise Denied(f"the homeserver does not take the access token ({reply.refusal()}); make a new one")
        if reply.status == 403 and reply.refusal().code in ("M_USER_DEACTIVATED", "M_USER_SUSPENDED"):
            raise Denied(f"the homeserver has closed this account ({reply.refusal()})")
        if isinstance(trouble := classify_read_error(reply), Offline) and reply.status >= 300:
            raise trouble
        return reply

    async def get_state(self, room: str, type: str) -> Json | None:
        """Return the content of a state event with an empty state key; None if it is missing or hidden from us."""
        return await self.get_json(room_path(room, "state", type))

    async def get_json(self, path: str) -> Json | None:
        """Return the JSON at this path; None if the answer is 400, 403 or 404. Raises Offline or Denied."""
        reply = await self.get(path)
        if 200 <= reply.status < 300:
            return reply.data
        if reply.status in (400, 403, 404):
            return None
        raise Offline(str(reply.refusal()))


class MatrixWriter:
    """The authenticated requests of `send`, `find` and `typing`, which do not need a running `run`."""

    def __init__(self, account: MatrixAccount) -> None:
        self.account = account
        self.settings = account.settings

    async def identify(self) -> MatrixIdentity:
        """Return our identity. Logs in if necessary. Raises NotSent."""
        try:
            return await self.account.identify()
        except Denied as denied:
            raise NotSent(str(denied), MANUAL_RETRY_DELAY_S) from None
        except Offline as error:
            raise NotSent(str(error), error.retry_after) from None

    async def write(
        self,
        method: str,
        path: str,
        body: Json | bytes,
        *,
        mime: str = "application/json",
        timeout: float | None = None,
    ) -> MatrixReply:
        """Make one request and return its answer, also an error answer. Raises NotSent or Unknown."""
        me = await self.identify()
        limit = self.settings.timeout if timeout is None else timeout
        reply = await request_once(method, self.settings.base + path, body, token=me.token, mime=mime, timeout=limit)
        if reply.token_refused:
            self.account.forget_identity(me)
            raise NotSent(f"the access token has ended: {reply.refusal()}")
        return reply

    async def read(self, path: str) -> MatrixReply:
        """Make a GET request. Returns a success, or a refusal that concerns only this request. Raises NotSent."""
        me = await self.identify()
        try:
            reply = await request_once("GET", self.settings.base + path, token=me.token, timeout=self.settings.timeout)
        except Unknown as error:
            raise NotSent(str(error)) from None
        refusal = reply.refusal()
        if reply.token_refused:
            self.account.forget_identity(me)
            raise NotSent(f"the access token has ended: {refusal}")
        if reply.status in (408, 429) or reply.status >= 500 or (reply.status >= 300 and not refusal.code):
            raise NotSent(str(refusal), refusal.retry_after)
        return reply

    async def get_json(self, path: str) -> Json | None:
        """Return the JSON at this path; None if the answer is 403 or 404. Raises NotSent."""
        reply = await self.read(path)
        if reply.status < 300:
            return reply.data
        if reply.status in (403, 404):
            return None
        raise NotSent(str(reply.refusal()), MANUAL_RETRY_DELAY_S)
