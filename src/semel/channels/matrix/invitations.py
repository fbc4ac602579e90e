"""Accept or decline invitations to rooms.

Invitations of people who may speak here are accepted; while a pairing code waits, everybody's are. Others stay
unanswered, so that strangers cannot find out whether the account is in use; they are counted, and accepted once their
sender becomes known. An invitation to an encrypted room is declined with a reason that its members can see, because we
could not read anything there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from semel.channels.matrix.account import MatrixAccount
from semel.channels.matrix.transport import MANUAL_RETRY_DELAY_S, request_once, room_path
from semel.gateway.ports import Inbox, NotSent, Offline, Person, Unknown
from semel.text.json_types import Json, objects_in, text_at, value_at

_log = logging.getLogger("semel.channels.matrix")
DECLINE_REASON = "I cannot read encrypted rooms. Please invite me to a room without encryption."
MAX_WAITING_INVITATIONS = 50
"""Maximum number of unanswered invitations; above it, the oldest are forgotten."""


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Invite:
    """An invitation: the inviting user, and whether the room is encrypted."""

    sender: str
    encrypted: bool = False


class Invitations:
    """The unanswered invitations.

    `waiting`: the invitations by room id. `unanswered_strangers`: the number of invitations since `run` began that
    the setting `join` does not allow us to answer.
    """

    def __init__(
        self,
        account: MatrixAccount,
        inbox: Inbox,
        join: Literal["known", "all", "never"],
        waiting: Mapping[str, Invite],
        clock: Callable[[], float] = _now,
    ) -> None:
        self.waiting = dict(waiting)
        self.unanswered_strangers = 0
        self._account = account
        self._inbox = inbox
        self._policy = join
        self._clock = clock
        self._due: dict[str, float] = {}  # room -> earliest time of the next attempt

    def __repr__(self) -> str:
        return f"<Invitations {len(self.waiting)} waiting, {self.unanswered_strangers} of strangers>"

    async def add(self, invited: Mapping[str, Any], me: str) -> None:
        """Add the invitations of a /sync (its `invite` section) to the waiting ones. `me`: our user id."""
        for room, section in invited.items():
            if (invite := _parse_invite(section, me)) is None:
                continue
            self.waiting[room] = invite
            self._due.pop(room, None)
            if not await self._may_answer(invite):
                self.unanswered_strangers += 1
                _log.info("an invitation by %s has no answer: they may not speak here", invite.sender)
        for room in list(self.waiting)[:-MAX_WAITING_INVITATIONS]:
            self.forget(room)

    async def answer(self) -> None:
        """Answer the waiting invitations that may be answered. Raises Offline or Denied; the rest keeps waiting.

        Call it after the cursor with these invitations was saved, so that a gateway that is killed in between answers
        them after its restart.
        """
        for room, invite in list(self.waiting.items()):
            if self._clock() >= self._due.get(room, 0.0) and await self._may_answer(invite):
                await self._answer(room, invite)

    def forget(self, room: str) -> None:
        """Forget an invitation that needs no answer any more."""
        self.waiting.pop(room, None)
        self._due.pop(room, None)

    async def _may_answer(self, invite: Invite) -> bool:
        if self._policy == "never":
            return False
        return self._policy == "all" or await self._inbox.may_invite(Person(invite.sender))

    async def _answer(self, room: str, invite: Invite) -> None:
        """Accept the invitation, or decline it if the room is encrypted.

        Raises Offline if the homeserver cannot be reached, and Denied if it refuses our login. No other failure raises:
        if the homeserver does not answer in time, or answers with a transient error, the invitation is answered later.
        So a room whose own server is down does not block the other invitations. A definite refusal ends the invitation.
        """
        action, body = ("leave", {"reason": DECLINE_REASON}) if invite.encrypted else ("join", {})
        wait = await self._post(room, action, body)
        if wait is None:
            self.forget(room)
        else:
            self._due[room] = self._clock() + wait

    async def _post(self, room: str, action: str, body: Json) -> float | None:
        """Post the answer. Returns the seconds until a retry, or None if no retry is needed or possible.

        Raises Offline or Denied.
        """
        settings = self._account.settings
        me = await self._account.identify()
        try:
            url = settings.base + room_path(room, action)
            reply = await request_once("POST", url, body, token=me.token, timeout=settings.timeout)
        except NotSent as error:
            raise Offline(str(error)) from None
        except Unknown:
            return MANUAL_RETRY_DELAY_S  # a join over federation is slow, and goes on after our timeout
        if reply.token_refused:
            self._account.forget_identity(me)
            return 0.0
        if reply.status < 300:
            _log.info("%s: the room that %s asked us into", action, self.waiting[room].sender)
            return None
        refusal = reply.refusal()
        _log.warning("the invitation by %s cannot be answered (%s): %s", self.waiting[room].sender, action, refusal)
        return (
            (refusal.retry_after or MANUAL_RETRY_DELAY_S) if reply.status in (408, 429) or reply.status >= 500 else None
        )


def _parse_invite(section: Any, me: str) -> Invite | None:
    """Parse the stripped state of an invitation; None if it does not name the inviting user."""
    events = objects_in(value_at(section, "invite_state", "events"))
    encrypted = any(event.get("type") == "m.room.encryption" for event in events)
    our_memberships = (
        event for event in events if event.get("type") == "m.room.member" and event.get("state_key") == me
    )
    sender = next((text_at(event, "sender") for event in our_memberships), None)
    return Invite(sender, encrypted) if sender is not None else None
