"""Authenticated requests for sending a part: our identity, look-ups, and the write itself.

Look-ups happen before the write. If one fails, nothing of the part has left, so every failure of them is NotSent.
"""

from __future__ import annotations

from semel.channels.matrix.account import Account, Me
from semel.channels.matrix.transport import LATER, Json, Reply, once
from semel.gateway.ports import Denied, NotSent, Offline, Unknown


class Writer:
    """The requests of one account outside of `run`."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.settings = account.settings

    async def me(self) -> Me:
        """Our identity; logs in if necessary. Raises NotSent."""
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
        """Make one request and return its answer, also an error answer. Raises NotSent or Unknown."""
        me = await self.me()
        limit = self.settings.timeout if timeout is None else timeout
        reply = await once(method, self.settings.base + path, body, token=me.token, mime=mime, timeout=limit)
        if reply.token_refused:
            self.account.stale(me)
            raise NotSent(f"the access token has ended: {reply.refusal()}")
        return reply

    async def read(self, path: str) -> Reply:
        """The answer to a GET: a success, or a refusal that concerns only this request. Raises NotSent."""
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
        """The JSON at that path; None if the answer is 403 or 404. Raises NotSent."""
        reply = await self.read(path)
        if reply.status < 300:
            return reply.data
        if reply.status in (403, 404):
            return None
        raise NotSent(str(reply.refusal()), LATER)
