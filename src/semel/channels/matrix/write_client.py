"""What a part needs on its way out: who we are, look-ups, and the one write that matters.

Look-ups come before the write: whatever goes wrong with them, nothing of the part has left, so it is NotSent.
"""

from __future__ import annotations

from semel.channels.matrix.account import Account, Me
from semel.channels.matrix.transport import LATER, Json, Reply, once
from semel.gateway.ports import Denied, NotSent, Offline, Unknown


class Writer:
    """One account's requests that are not `run`'s."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.settings = account.settings

    async def me(self) -> Me:
        """Raises NotSent."""
        try:
            return await self.account.me()
        except Denied as no:
            raise NotSent(str(no), LATER) from None
        except Offline as lost:
            raise NotSent(str(lost), lost.retry_after) from None

    async def write(
        self,
        method: str,
        path: str,
        body: Json | bytes,
        *,
        mime: str = "application/json",
        timeout: float | None = None,
    ) -> Reply:
        """One request, and its answer whatever it is. Raises NotSent or Unknown."""
        me = await self.me()
        limit = self.settings.timeout if timeout is None else timeout
        reply = await once(method, self.settings.base + path, body, token=me.token, mime=mime, timeout=limit)
        if reply.token_refused:
            self.account.stale(me)
            raise NotSent(f"the access token has ended: {reply.refusal()}")
        return reply

    async def read(self, path: str) -> Reply:
        """A good answer, or a no that is about what was asked for. Raises NotSent."""
        me = await self.me()
        try:
            reply = await once("GET", self.settings.base + path, token=me.token, timeout=self.settings.timeout)
        except Unknown as lost:
            raise NotSent(str(lost)) from None
        no = reply.refusal()
        if reply.token_refused:
            self.account.stale(me)
            raise NotSent(f"the access token has ended: {no}")
        if reply.status in (408, 429) or reply.status >= 500 or (reply.status >= 300 and not no.code):
            raise NotSent(str(no), no.retry_after)
        return reply

    async def about(self, path: str) -> Json | None:
        """What is there; None: nothing, or nothing for us. Raises NotSent."""
        reply = await self.read(path)
        if reply.status < 300:
            return reply.data
        if reply.status in (403, 404):
            return None
        raise NotSent(str(reply.refusal()), LATER)
