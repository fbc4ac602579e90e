"""Who the bot is, and the names of people and channels."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from semel.channels.mattermost.address import is_id
from semel.channels.mattermost.receipts import TOKEN_REFUSED, TOKEN_RETRY_DELAY_S
from semel.channels.mattermost.transport import MattermostApi, MattermostReply
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Denied, NotSent, Offline, Person, Unknown
from semel.text.json_types import Json, object_at, objects_in, text_at

_MAX_REMEMBERED = 5_000
NO_SUCH_PATH = "api.context.404.app_error"
"""The error of a server that does not know what it is asked for."""
ARCHIVED_ERROR_ID = "api.user.view_archived_channels.get_posts_for_channel.app_error"
"""The error of a server that shows nobody the posts of an archived channel (`ExperimentalViewArchivedChannels`)."""
LOOKUP_DELAYS_S = (0.2, 1.0, 3.0, 8.0, 15.0)
"""Seconds between look-ups of the same thing, if the server does not ask for more. Meanwhile, later events wait."""
MAX_LOOKUP_WAIT_S = 30.0
"""The longest wait that a server may ask for between two of them."""
DIRECT = "D"
"""The type of a channel that is a direct message between two."""


class ArchivedUnreadable(Offline):
    """The posts of an archived channel cannot be read."""


@dataclass(frozen=True)
class MattermostIdentity:
    """The bot's account. `username`: by which people mention it."""

    user: str
    username: str


class MattermostDirectory:
    """Looks up the account, people and channels, and remembers the latter two."""

    def __init__(self, api: MattermostApi) -> None:
        self._api = api
        self._people = RecentMap[str, Person](_MAX_REMEMBERED)
        self._channels = RecentMap[str, Json](_MAX_REMEMBERED)

    async def identify(self) -> MattermostIdentity:
        """Return who the bot is. Raises Denied if the token is refused or reaches nobody, and Offline."""
        reply = await self._get("/users/me")
        if reply.status == 404:
            raise Offline("there is no Mattermost at this address: check the setting `url`")
        self._check(reply)
        user, username = text_at(reply.data, "id"), text_at(reply.data, "username")
        if not is_id(user) or not username:
            raise Offline("what answers is not Mattermost: check the setting `url`")
        return MattermostIdentity(str(user), username)

    async def check_membership(self) -> None:
        """Raise Denied if the bot is in no team and in no conversation, so that nobody can talk with it."""
        if objects_in((await self.read("/users/me/teams")).data) or await self.list_channels():
            return
        raise Denied(
            "the bot is in no team and in no conversation: a team's administrator adds it under Invite People (its "
            "account needs the permission view_team, which members of a team have)"
        )

    async def list_channels(self, since_ms: int | None = None) -> list[str]:
        """Return the ids of the channels that the bot is in, of all teams, with direct messages. Raises as `read`.

        `since_ms`: those that were archived since then are listed, too.
        """
        archived = "" if since_ms is None else f"?include_deleted=true&last_delete_at={since_ms}"
        reply = await self._get(f"/users/me/channels{archived}")
        if reply.error_id == NO_SUCH_PATH:
            raise Offline("this server is too old: Semel needs Mattermost 6.1 or newer")
        if reply.status == 404 and reply.is_error:  # it is in none
            return []
        channels = objects_in(self._check(reply).data)
        for channel in channels:
            self._channels[str(channel.get("id"))] = channel
        ids = [str(channel["id"]) for channel in channels if is_id(channel.get("id"))]
        return [id for id in ids if since_ms is not None or not self._channels[id].get("delete_at")]

    async def find_channel(self, id: str) -> Json:
        """Return a channel as the API describes it; {} if the bot may not see it. Raises Offline or Denied."""
        if id not in self._channels:
            reply = await self._look_up(f"/channels/{id}")
            if reply.status in (403, 404) and reply.is_error:
                return {}
            self._channels[id] = self._check(reply).data
        return self._channels[id]

    async def find_post(self, id: str) -> Json:
        """Return a post as the API describes it; {} if the bot may not see it. Raises Offline or Denied."""
        reply = await self._look_up(f"/posts/{id}")
        if reply.status in (403, 404) and reply.is_error:
            return {}
        return object_at(self._check(reply).data)

    async def find_person(self, id: str) -> Person:
        """Return a person with their name, "" if it cannot be looked up now."""
        if id not in self._people:
            try:
                reply = await self._look_up(f"/users/{id}")
            except Offline:
                return Person(id)
            if not reply.ok:
                return Person(id)
            is_bot = isinstance(reply.data, dict) and reply.data.get("is_bot") is True
            self._people[id] = Person(id, text_at(reply.data, "username") or "", is_bot)
        return self._people[id]

    async def read(self, path: str) -> MattermostReply:
        """Make a GET. Returns a successful answer. Raises Denied if the token is refused, else Offline."""
        return self._check(await self._get(path))

    async def _look_up(self, path: str) -> MattermostReply:
        """Make a GET, again if it fails for now: a reaction comes once, and what it is to must be known."""
        for delay in LOOKUP_DELAYS_S:
            try:
                reply = await self._get(path)
                if reply.ok or (reply.is_error and reply.status != 429 and reply.status < 500):
                    return reply
                wait = reply.retry_after
            except Offline as error:
                wait = error.retry_after
            await asyncio.sleep(max(delay, min(wait or 0.0, MAX_LOOKUP_WAIT_S)))
        return await self._get(path)

    async def _get(self, path: str) -> MattermostReply:
        try:
            return await self._api.call("GET", path)
        except NotSent as error:
            raise Offline(str(error), error.retry_after) from None
        except Unknown as error:
            raise Offline(str(error)) from None

    @staticmethod
    def _check(reply: MattermostReply) -> MattermostReply:
        if reply.ok:
            return reply
        if reply.status == 401 and reply.is_error:
            raise Denied(TOKEN_REFUSED, ["token"], TOKEN_RETRY_DELAY_S)
        if reply.error_id == ARCHIVED_ERROR_ID:
            raise ArchivedUnreadable("Mattermost shows nobody what is in an archived channel")
        if not reply.is_error and 300 <= reply.status < 500 and reply.status != 429:
            raise Offline(f"what answers is not Mattermost (HTTP {reply.status}): check the setting `url`")
        raise Offline(f"Mattermost: {reply.describe()}", reply.retry_after)
