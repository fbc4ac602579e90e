"""Accept or decline invitations to rooms.

Invitations of people who may speak here are accepted. Others stay unanswered, so that strangers cannot find out whether
the account is in use; they are counted, and accepted once their sender becomes known. An invitation to an encrypted
room is declined with a reason that its members can see, because we could not read anything there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal

from semel.channels.matrix.account import Account
from semel.channels.matrix.cursor import Invite
from semel.channels.matrix.transport import LATER, Json, once, room_path
from semel.gateway.ports import Inbox, NotSent, Offline, Person, Unknown

_log = logging.getLogger("semel.channels.matrix")
DECLINED = "I cannot read encrypted rooms. Please invite me to a room without encryption."
MAX_WAITING_INVITATIONS = 50
"""Maximum number of unanswered invitations; above it, the oldest are forgotten."""


def _now() -> float:
    return asyncio.get_running_loop().time()


class Invitations:
    """The unanswered invitations. `waiting` holds them by room; `left` counts those of strangers since `run` began."""

    def __init__(
        self,
        account: Account,
        inbox: Inbox,
        join: Literal["known", "all", "never"],
        waiting: Mapping[str, Invite],
        now: Callable[[], float] = _now,
    ) -> None:
        self.waiting = dict(waiting)
        self.left = 0
        self._account = account
        self._inbox = inbox
        self._join = join
        self._now = now
        self._due: dict[str, float] = {}  # room -> earliest time of the next attempt

    def __repr__(self) -> str:
        return f"<Invitations {len(self.waiting)} waiting, {self.left} of strangers>"

    async def note(self, invited: Mapping[str, Any], me: str) -> None:
        """Add the invitations of a /sync (its `invite` section) to those that wait."""
        for room, told in invited.items():
            if (asked := _asked(told, me)) is None:
                continue
            self.waiting[room] = asked
            self._due.pop(room, None)
            if not await self._may(asked):
                self.left += 1
                _log.info("an invitation by %s has no answer: they may not speak here", asked.sender)
        for room in list(self.waiting)[:-MAX_WAITING_INVITATIONS]:
            self.gone(room)

    async def answer(self) -> None:
        """Answer the waiting invitations that may be answered. Raises Offline or Denied; the rest keeps waiting.

        Call it after the cursor with these invitations was put: a gateway that dies in between then answers them again.
        """
        for room, asked in list(self.waiting.items()):
            if self._now() >= self._due.get(room, 0.0) and await self._may(asked):
                await self._answer(room, asked)

    def gone(self, room: str) -> None:
        """Forget an invitation that needs no answer any more."""
        self.waiting.pop(room, None)
        self._due.pop(room, None)

    async def _may(self, asked: Invite) -> bool:
        if self._join == "never":
            return False
        return self._join == "all" or await self._inbox.known(Person(asked.sender))

    async def _answer(self, room: str, asked: Invite) -> None:
        """Accept the invitation, or decline it if the room is encrypted. Raises Offline.

        A transient failure is retried later without blocking the rest: the room's server may be down.
        """
        what, body = ("leave", {"reason": DECLINED}) if asked.encrypted else ("join", {})
        wait = await self._post(room, what, body)
        if wait is None:
            self.gone(room)
        else:
            self._due[room] = self._now() + wait

    async def _post(self, room: str, what: str, body: Json) -> float | None:
        """Post the answer. Returns the seconds until a retry, or None if no retry is needed or possible.

        Raises Offline.
        """
        settings = self._account.settings
        me = await self._account.me()
        try:
            url = settings.base + room_path(room, what)
            reply = await once("POST", url, body, token=me.token, timeout=settings.timeout)
        except NotSent as lost:
            raise Offline(str(lost)) from None
        except Unknown:
            return LATER  # joining a room of another server is slow, and continues without us
        if reply.token_refused:
            self._account.stale(me)
            return 0.0
        if reply.status < 300:
            _log.info("%s: the room that %s asked us into", what, self.waiting[room].sender)
            return None
        no = reply.refusal()
        _log.warning("the invitation by %s cannot be answered (%s): %s", self.waiting[room].sender, what, no)
        return (no.retry_after or LATER) if reply.status in (408, 429) or reply.status >= 500 else None


def _asked(told: Any, me: str) -> Invite | None:
    """Parse the stripped state of an invitation; None if it does not name the inviting user."""
    state = told.get("invite_state") if isinstance(told, dict) else None
    state = state.get("events") if isinstance(state, dict) else None
    events = [event for event in state if isinstance(event, dict)] if isinstance(state, list) else []
    encrypted = any(event.get("type") == "m.room.encryption" for event in events)
    ours = (event for event in events if event.get("type") == "m.room.member" and event.get("state_key") == me)
    sender = next((event.get("sender") for event in ours), None)
    return Invite(sender, encrypted) if isinstance(sender, str) else None
