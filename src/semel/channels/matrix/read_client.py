"""What `run` reads with: a connection that stays, and an account that logs in again when its token has ended."""

from __future__ import annotations

from semel.channels.matrix.account import Account, Me
from semel.channels.matrix.transport import Json, Link, Reply, offline, room_path
from semel.gateway.ports import Denied, Offline


class Reader:
    """One run's reading. `me` is who we are, after `begin`."""

    def __init__(self, link: Link, account: Account) -> None:
        self.link = link
        self.account = account
        self.me: Me

    async def begin(self) -> Me:
        """Raises Offline or Denied."""
        self.me = await self.account.me(again=True)
        return self.me

    async def get(self, path: str, wait: float = 0.0) -> Reply:
        """A good answer, or a no that is about what was asked for. Raises Offline or Denied.

        `wait`: seconds that the homeserver may hold the request.
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
        """The content of a state event with an empty key; None: there is none, or it is not for us."""
        return await self.about(room_path(room, "state", type))

    async def about(self, path: str) -> Json | None:
        """What is there; None where the answer is no. Raises Offline or Denied."""
        reply = await self.get(path)
        if 200 <= reply.status < 300:
            return reply.data
        if reply.status in (400, 403, 404):
            return None
        raise Offline(str(reply.refusal()))
