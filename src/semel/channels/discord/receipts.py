"""Classify Discord's answer to a part: a receipt, `NotSent`, `Rejected` or `Unknown` (Law 7).

| answer | meaning |
|---|---|
| 2xx with the message, or 204 where none is expected | sent |
| 429 | `NotSent`, for `retry_after` seconds |
| 401 | `NotSent`: the token is refused; it may be corrected |
| 3xx | `NotSent`; redirects are not followed |
| delete: 404 with code 10008 (Unknown Message) | sent: it is gone |
| other 4xx with Discord's code and message | `Rejected` |
| 4xx in other words | `Unknown`: from a proxy, not from Discord |
| 5xx, 408, 2xx with something else | `Unknown` |
"""

from __future__ import annotations

from semel.channels.discord.address import is_snowflake, message_id
from semel.channels.discord.transport import DiscordReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import value_at

TOKEN_REFUSED = (
    "Discord does not accept this bot's token: correct it in the settings, or get a new one in the Developer Portal "
    "(your application, Bot, Reset Token)"
)
TOKEN_RETRY_DELAY_S = 60.0
"""Seconds after which a refused token is tried again."""
UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, THREAD_EXISTS = 10003, 10008, 160004
_HINTS = {
    10003: "this channel does not exist (any more), or the bot is not in its server",
    30010: "a message has at most 20 different reactions",
    40005: "the file is larger than Discord takes here, usually 10 MiB",
    50001: "the bot may not see this channel: give its role View Channel there",
    50007: "this person takes no direct messages from the bot",
    50013: "give the bot's role Send Messages, Attach Files, Add Reactions, Create Public Threads and Read Message "
    "History there",
    50083: "the thread is archived and locked",
    50278: "this person is in none of the bot's servers: add the bot to one that they are in",
    160005: "the thread is locked",
}


def check_answer(reply: DiscordReply) -> DiscordReply:
    """Return an answer of success. Raises NotSent, Rejected or Unknown by the table at the top of this module."""
    if reply.ok:
        return reply
    if reply.status == 429:
        raise NotSent("Discord says: too many requests", reply.retry_after)
    if reply.status == 401:
        raise NotSent(TOKEN_REFUSED, TOKEN_RETRY_DELAY_S)
    if 300 <= reply.status < 400:
        raise NotSent(f"HTTP {reply.status}, a redirect: check the setting `api`", TOKEN_RETRY_DELAY_S)
    if 400 <= reply.status < 500 and reply.status != 408 and reply.is_error:
        hint = _HINTS.get(reply.code)
        raise Rejected(f"Discord: {reply.error_text}" + (f" ({hint})" if hint else ""))
    raise Unknown(f"HTTP {reply.status}" if reply.is_error else f"HTTP {reply.status}, and not an answer of Discord")


def receipt_of(op: Op, reply: DiscordReply) -> Receipt:
    """Return the receipt for an answer to a part. Raises NotSent, Rejected or Unknown."""
    if op.kind == "delete" and reply.status == 404 and reply.code == UNKNOWN_MESSAGE:
        return Receipt(op.target or op.key)
    check_answer(reply)
    if op.kind in ("delete", "react"):
        if reply.status != 204:
            raise Unknown(f"HTTP {reply.status}, where Discord answers 204")
        return Receipt(op.target or op.key)
    id, channel = value_at(reply.data, "id"), value_at(reply.data, "channel_id")
    if not is_snowflake(id) or not is_snowflake(channel):
        raise Unknown("Discord's answer names no message")
    return Receipt(message_id(str(channel), str(id)))
