"""What the answer to a call means (Law 7).

| answer | meaning |
|---|---|
| 200 with `ok: true` and the message's `ts` | sent |
| 429, or `ratelimited` inside a 200 | `NotSent`, for the header's Retry-After |
| `invalid_auth` and other errors of the token | `NotSent`: a person corrects the app |
| `missing_scope` | `NotSent`, too; of a file or a reaction `Rejected`, because texts do not need its scope |
| `invalid_blocks`, `msg_blocks_too_long` | `NotSent`: the next attempt goes without blocks |
| `fatal_error`, `internal_error`, `request_timeout`, `service_unavailable`, `duplicate_...` | `Unknown` |
| edit or deletion: already so | sent: the message is in the requested state |
| any other error with `ok: false` | `Rejected` |
| other statuses, an answer that is not Slack's | `Unknown` |

Source: https://docs.slack.dev/reference/methods/chat.postMessage, "Errors".
"""

from __future__ import annotations

from semel.channels.slack.address import message_id
from semel.channels.slack.transport import SlackReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import text_at

TOKEN_REFUSED = "Slack does not accept this bot's token: correct bot_token, or install the app again"
MANUAL_RETRY_DELAY_S = 60.0
"""Seconds before a retry if a person has to correct the app first."""
TOKEN_ERRORS = frozenset(
    {
        "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type",
        "org_login_required", "ekm_access_denied", "two_factor_setup_required",
    }
)  # fmt: skip
RATE_ERRORS = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
UNCLEAR_ERRORS = frozenset(
    {
        "fatal_error", "internal_error", "request_timeout", "service_unavailable", "team_added_to_org",
        "duplicate_channel_not_found", "duplicate_message_not_found", "accesslimited",
    }
)  # fmt: skip
"""Errors that leave open whether the call took effect. The `duplicate_...` ones belong to an undocumented argument."""
BLOCK_ERRORS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_KINDS_WITH_A_SCOPE = ("file", "react")
"""The kinds of parts that need a scope of their own, without which the others can leave."""
_DONE = {"react": ("already_reacted",), "delete": ("message_not_found",)}
_HINTS = {
    "not_in_channel": "invite the bot there: /invite @its-name",
    "no_permission": "invite the bot there: /invite @its-name",
    "channel_not_found": "there is no such channel, or the bot is not in it: /invite @its-name",
    "is_archived": "the channel is archived",
    "cant_update_message": "only its own messages can be changed",
    "cant_delete_message": "only its own messages can be deleted",
    "is_inactive": "the channel is archived",
    "msg_too_long": "an edit holds 4,000 characters if Slack does not take its formatting",
    "edit_window_closed": "the workspace allows no edits of messages that old",
    "invalid_name": "the workspace has no such emoji",
    "too_many_reactions": "the message has as many reactions as Slack allows",
    "messages_tab_disabled": "switch on the Messages Tab in the app's settings, under App Home",
    "user_not_found": "there is no such person in the workspace",
    "user_disabled": "that person's account is switched off",
    "cannot_dm_bot": "a bot cannot write to a bot",
    "restricted_action": "the workspace's settings forbid it",
}


class TokenRefused(NotSent):
    """Slack does not accept the bot's token; nothing was sent."""


class PlainNeeded(Exception):
    """Slack refused the blocks; nothing was sent. The text without blocks may be accepted."""


def check_reply(reply: SlackReply, op: Op | None = None) -> None:
    """Return if a call succeeded. Raises NotSent, Rejected, Unknown or PlainNeeded, by the table of this module.

    `op`: the part that the call sends; None if the call only prepares for it or looks for it.
    """
    if reply.ok:
        return
    error = reply.error
    if reply.status == 429 or error in RATE_ERRORS:
        raise NotSent("Slack says: not now (rate limit)", reply.retry_after)
    if not reply.is_web_api or reply.status != 200 or error in UNCLEAR_ERRORS or not error:
        raise Unknown(f"Slack: {reply.describe()}")
    if error in TOKEN_ERRORS:
        raise TokenRefused(f"{TOKEN_REFUSED} ({error})", MANUAL_RETRY_DELAY_S)
    if error == "missing_scope":
        if op is not None and op.kind in _KINDS_WITH_A_SCOPE:
            raise Rejected(describe_missing_scope(reply))
        raise NotSent(describe_missing_scope(reply), MANUAL_RETRY_DELAY_S)
    if error in BLOCK_ERRORS:
        raise PlainNeeded(reply.describe())
    if op is not None and error in _DONE.get(op.kind, ()):
        return
    hint = _HINTS.get(error, "")
    raise Rejected(f"Slack: {reply.describe()}{f' ({hint})' if hint else ''}")


def receipt_of(op: Op, reply: SlackReply) -> Receipt:
    """Return the receipt for the answer to a part. Raises NotSent, Rejected, Unknown or PlainNeeded."""
    check_reply(reply, op)
    if op.kind in ("edit", "react", "delete"):
        return Receipt(op.target or op.key)
    channel, ts = text_at(reply.data, "channel"), text_at(reply.data, "ts")
    try:
        if channel:
            return Receipt(message_id(channel, ts or ""))
    except ValueError:
        pass
    raise Unknown("Slack's answer names no message")


def describe_missing_scope(reply: SlackReply) -> str:
    """Return which scope is missing, and what to do."""
    needed = text_at(reply.data, "needed") or "a scope"
    return f"the bot's token lacks {needed}: add it under OAuth & Permissions, and install the app again"
