"""What the answer to a call means (Law 7).

| answer | meaning |
|---|---|
| 2xx with the message's id; of an edit or a deletion, also without | sent |
| 429 | `NotSent`, for Retry-After |
| 401 | `NotSent`: the next attempt fetches a new token; a person corrects the credentials |
| 3xx | `NotSent`; redirects are not followed |
| delete: 404 in the Bot Connector's words | sent: the message is gone |
| 412, 5xx, 408 | `Unknown`: Microsoft says "retry", and folds no repeats |
| other 4xx in the Bot Connector's words | `Rejected` |
| 4xx in other words, 2xx with something else | `Unknown` |

Source: https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/conversation-messages, "Status
code responses", and https://learn.microsoft.com/microsoftteams/platform/bots/how-to/rate-limit.
"""

from __future__ import annotations

from semel.channels.teams.address import TeamsPlace, make_message_id
from semel.channels.teams.transport import TOKEN_RETRY_DELAY_S, TeamsReply, TokenRefused
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import text_at

RATE_RETRY_DELAY_S = 2.0
"""Seconds to wait after a 429 that names none."""
_UNCLEAR = frozenset({408, 412})
HINTS = {
    "BotDisabledByAdmin": "the administrator of the organisation has blocked the bot",
    "BotNotInConversationRoster": "the bot is not there (any more): add the app to the chat or the team",
    "ConversationBlockedByUser": "the person has blocked the bot",
    "ConversationNotFound": "there is no such chat, or the bot is not in it",
    "ForbiddenOperationException": "the app is not installed for this person",
    "InvalidBotApiHost": "the conversation is in a government cloud, which Semel does not support",
    "MessageWritesBlocked": "the person has blocked the bot, or removed the app",
    "MessageSizeTooBig": "the message is larger than Teams takes",
    "NotEnoughPermissions": "the app lacks a permission for it",
}
"""Errors -> what they mean to a person."""


def check_reply(reply: TeamsReply) -> TeamsReply:
    """Return an answer of success. Raises NotSent, Rejected or Unknown by the table at the top of this module."""
    if reply.ok:
        return reply
    if reply.status == 429:
        raise NotSent("Teams says: too many messages", reply.retry_after or RATE_RETRY_DELAY_S)
    if reply.status == 401:
        raise TokenRefused(reply.describe())
    if 300 <= reply.status < 400:
        raise NotSent(f"HTTP {reply.status}, a redirect: check the setting `service_url`", TOKEN_RETRY_DELAY_S)
    if not reply.is_error or reply.status >= 500 or reply.status < 400 or reply.status in _UNCLEAR:
        raise Unknown(f"Teams: {reply.describe()}")
    hint = HINTS.get(reply.code)
    raise Rejected(f"Teams: {reply.describe()}{f'; {hint}' if hint else ''}")


def receipt_of(op: Op, place: TeamsPlace, reply: TeamsReply) -> Receipt:
    """Return the receipt for the answer to a part. Raises NotSent, Rejected or Unknown."""
    if op.kind == "delete" and reply.status == 404 and reply.code:
        return Receipt(op.target or op.key)
    check_reply(reply)
    if op.kind in ("edit", "delete"):
        return Receipt(op.target or op.key)
    id = text_at(reply.data, "id") or ""
    if place.begins_threads:  # the answer names the thread, and the message with which it begins
        thread, id = id, text_at(reply.data, "activityId") or id.rpartition("=")[2]
        place = TeamsPlace(chat=place.chat, thread=thread.rpartition(";messageid=")[2])
    try:
        return Receipt(make_message_id(place, id))
    except ValueError:
        raise Unknown("Teams' answer names no message") from None
