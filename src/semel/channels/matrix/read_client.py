"""Authenticated reads for `run`, over one kept connection. An expired access token is renewed by a new login."""

from __future__ import annotations

from semel.channels.matrix.account import Account, Me
from semel.channels.matrix.transport import Json, Link, Reply, offline, room_path
from semel.gateway.ports import Denied, Offline


class Reader:
    """Reads for one run of the channel. `me` is our identity, set by `begin`."""

    def __init__(self, link: Link, account: Account) -> None:
        self.link = link
        self.account = account
        self.me: Me

    async def begin(self) -> Me:
        """Raises Offline or Denied."""
        self.me = await self.account.me(again=True)
        return self.me

    async def get(self, path: str, wait: float = 0.0) -> Reply:
        """The answer to a GET: a success, or a refusal that concerns only this request. Raises Offline or Denied.

        `wait`: seconds for which the homeserver may hold the request.
        """
        reply = await self.link.get(path, self.me.token, wait)
        if reply.token_refused:
            self.account.stale(self.me)
            self.me = await self.account.me()
            reply = await self.link.get(path, self.me.token, wait)
        if reply.token_refused:
            raise Denied(f"the homeserver does not take the access token ({reply.refusal()}); make a new one")
        if reply.status == 403 and reply.refusal().code in ("M_USER_DEACTIVATED", "M_USER_SUSPENDED"):
            raise Denied(f"the homeserver has closed this account ({reply.refusal()})")
        if isinstance(trouble := offline(reply), Offline) and reply.status >= 300:
            raise trouble
        return reply

    async def state(self, room: str, type: str) -> Json | None:
        """The content of a state event with an empty state key; None if it is missing or hidden from us."""
        return await self.about(room_path(room, "state", type))

    async def about(self, path: str) -> Json | None:
        """The JSON at that path; None if the answer is 400, 403 or 404. Raises Offline or Denied."""
        reply = await self.get(path)
        if 200 <= reply.status < 300:
            return reply.data
        if reply.status in (400, 403, 404):
            return None
        raise Offline(str(reply.refusal()))
