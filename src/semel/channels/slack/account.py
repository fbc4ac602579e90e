"""Who the bot is, which scopes its token has, and the names of people and conversations."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from semel.channels.recent_map import RecentMap
from semel.channels.slack.receipts import RATE_ERRORS, TOKEN_ERRORS, TOKEN_REFUSED, describe_missing_scope
from semel.channels.slack.transport import SlackApi, SlackReply
from semel.gateway.ports import Denied, NotSent, Offline, Person, Unknown
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.wellformed import scrub

MAX_REMEMBERED_NAMES = 5_000
NEEDED_SCOPES = frozenset({"chat:write", "im:history", "im:read", "im:write", "users:read"})
"""The scopes of a bot token without which the channel cannot be used."""
WANTED_SCOPES = frozenset(
    {
        "channels:history", "channels:read", "groups:history", "groups:read", "mpim:history", "mpim:read",
        "files:read", "files:write", "reactions:read", "reactions:write", "commands",
    }
)  # fmt: skip
"""Scopes of which each serves one purpose: channels, private channels, group messages, files, reactions, commands."""
_KINDS = {"public_channel": "channels", "private_channel": "groups", "mpim": "mpim", "im": "im"}

_log = logging.getLogger("semel.slack")


@dataclass(frozen=True)
class SlackIdentity:
    """The bot. `user`: its user id. `bot`: its bot id, which its messages have, too. `team`: the workspace.

    `scopes`: those of its token; None if Slack did not say.
    """

    team: str
    user: str
    bot: str
    scopes: frozenset[str] | None = None

    def wrote(self, message: Json) -> bool:
        """Return whether a message is the bot's own."""
        return message.get("user") == self.user or (bool(self.bot) and message.get("bot_id") == self.bot)


class SlackDirectory:
    """Looks up the bot, people and conversations. Each name is asked for once."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._people = RecentMap[str, str](MAX_REMEMBERED_NAMES)
        self._titles = RecentMap[str, str](MAX_REMEMBERED_NAMES)

    async def identify(self) -> SlackIdentity:
        """Return who the bot is. Raises Denied if the token is refused or lacks a scope that is needed; Offline."""
        reply = await self.read("auth.test")
        user, team = text_at(reply.data, "user_id"), text_at(reply.data, "team_id")
        if user is None or team is None:
            raise Offline("Slack's answer to auth.test names no account: check the setting `api`")
        header = reply.headers.get("x-oauth-scopes")
        scopes = None if header is None else frozenset(scope.strip() for scope in header.split(",") if scope.strip())
        if scopes is not None:
            _check_scopes(scopes)
        return SlackIdentity(team, user, text_at(reply.data, "bot_id") or "", scopes)

    async def list_conversations(self, scopes: Collection[str] | None) -> list[str]:
        """Return the ids of the conversations that the bot is in, to the last page. Raises Denied or Offline."""
        kinds = [kind for kind, scope in _KINDS.items() if scopes is None or f"{scope}:read" in scopes]
        ids: list[str] = []
        cursor: str | None = None
        while True:
            reply = await self.read(
                "users.conversations", types=",".join(kinds), limit=200, exclude_archived=True, cursor=cursor
            )
            for conversation in objects_in(reply.data.get("channels")):
                if (id := text_at(conversation, "id")) is not None:
                    ids.append(id)
                    self._titles[id] = _title(conversation)
            if not (cursor := reply.next_cursor):
                return ids

    async def name_person(self, user: str) -> Person:
        """Return a person with their name for display, "" if it cannot be looked up now."""
        if user not in self._people:
            try:
                reply = await self._api.call("users.info", user=user)
            except (NotSent, Unknown):
                return Person(user)
            if not reply.ok:
                return Person(user)
            self._people[user] = _name(object_at(reply.data, "user"))
        return Person(user, self._people[user])

    async def name_conversation(self, channel: str) -> str:
        """Return the name of a channel for display, "" if it has none or it cannot be looked up now."""
        if channel not in self._titles:
            try:
                reply = await self._api.call("conversations.info", channel=channel)
            except (NotSent, Unknown):
                return ""
            if not reply.ok:
                return ""
            self._titles[channel] = _title(object_at(reply.data, "channel"))
        return self._titles[channel]

    async def read(self, method: str, *, as_app: bool = False, **arguments: Any) -> SlackReply:
        """Make a call that reads. Returns a successful answer. Raises Denied or Offline."""
        try:
            reply = await self._api.call(method, as_app=as_app, **arguments)
        except (NotSent, Unknown) as error:
            raise Offline(str(error)) from None
        if not reply.ok:
            raise classify_read_error(reply, as_app)
        return reply


def classify_read_error(reply: SlackReply, as_app: bool = False) -> Denied | Offline:
    """Return what an answer to a read means that is no success."""
    if reply.status == 429 or reply.error in RATE_ERRORS:
        return Offline("Slack says: not now (rate limit)", reply.retry_after)
    if reply.error in TOKEN_ERRORS:
        if as_app:
            text = f"Slack does not accept app_token ({reply.error}): make one under Basic Information"
            return Denied(text, ["app_token"])
        return Denied(f"{TOKEN_REFUSED} ({reply.error})", ["bot_token"])
    if reply.error == "missing_scope":
        if as_app:
            text = "app_token lacks the scope connections:write: make a new one under Basic Information"
            return Denied(text, ["app_token"])
        return Denied(describe_missing_scope(reply), ["bot_token"])
    if not reply.is_web_api and 300 <= reply.status < 500:
        return Offline(f"what answers is not Slack (HTTP {reply.status}): check the setting `api`")
    return Offline(f"Slack: {reply.describe()}", reply.retry_after)


def _check_scopes(scopes: frozenset[str]) -> None:
    """Raise Denied if a needed scope is missing; log those that are wanted."""
    if missing := sorted(NEEDED_SCOPES - scopes):
        raise Denied(
            f"the bot's token lacks {', '.join(missing)}: add them under OAuth & Permissions (or make the app "
            "from the manifest in `semel docs slack`), install the app again, and use its new token",
            ["bot_token"],
        )
    if missing := sorted(WANTED_SCOPES - scopes):
        _log.warning("the bot's token lacks %s: what needs them does not work", ", ".join(missing))


def _title(conversation: Json) -> str:
    return "" if conversation.get("is_im") else scrub(text_at(conversation, "name") or "")


def _name(user: Json) -> str:
    profile = object_at(user, "profile")
    names = (text_at(profile, "display_name"), text_at(profile, "real_name"), text_at(user, "real_name"))
    return scrub(next((name for name in (*names, text_at(user, "name")) if name), ""))
