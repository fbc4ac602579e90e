"""Find a part whose answer was lost, once its nonce is too old to be sent again.

Discord does not store a nonce. But it tells the nonce of each of our messages once, over the gateway, and after a
resumed session again; the cursor keeps the newest (`DiscordCursor.own`). So most messages have a known key. A message
whose nonce was missed is recognised by author, content and time: if its text is long enough to be no chance, and
only one message has it. Otherwise a person decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from semel.channels.discord import missed
from semel.channels.discord.address import message_id, snowflake_at
from semel.channels.discord.places import DIRECT_TYPE
from semel.channels.discord.receipts import UNKNOWN_CHANNEL, check_answer
from semel.channels.discord.send import make_nonce, render_content
from semel.channels.discord.transport import DiscordApi
from semel.gateway.ports import Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, objects_in, value_at

CLOCK_TOLERANCE_S = 5.0
"""Seconds by which a message may seem older than it is, once Discord's clock is compared with ours."""
UNKNOWN_SKEW_S = 600.0
"""Seconds by which our clock may be ahead of Discord's if it could not be compared."""
MIN_EVIDENCE_CHARS = 40
"""Length from which an equal text counts as the same message."""


async def find_part(
    api: DiscordApi, op: Op, channel: str, me: str, nonces: Mapping[str, str], since: float
) -> Receipt | None:
    """Find a part in a channel; None if it is certainly not there. `nonces`: message id -> nonce, of known messages.

    `me`: the bot's user id. `since`: seconds since the epoch. Raises Unknown if Discord does not show the history to
    its end, Rejected if it shows messages that may or may not be the part.
    """
    nonce, alike, shown_count = make_nonce(op.key), [], 0
    skew_s = -UNKNOWN_SKEW_S if api.skew_s is None else api.skew_s - CLOCK_TOLERANCE_S
    async for message in _list_messages(api, channel, snowflake_at(max(since, op.at) + skew_s)):
        shown_count += 1
        if value_at(message, "author", "id") != me or message.get("webhook_id"):
            continue
        id = str(message["id"])
        known = nonces.get(id)
        if known == nonce:
            return Receipt(message_id(channel, id))
        if known is None and _is_alike(op, message):
            alike.append(id)
    if not shown_count:
        await _check_history(api, channel)
    if not alike:
        return None
    if len(alike) == 1 and (op.kind == "file" or len(op.text) >= MIN_EVIDENCE_CHARS):
        return Receipt(message_id(channel, alike[0]))
    raise Rejected("messages with the same text stand there, and Discord does not say which attempt they are from")


async def _list_messages(api: DiscordApi, channel: str, after: int) -> AsyncIterator[Json]:
    """Yield the messages in a channel after a snowflake, to the last page. Raises NotSent or Unknown."""
    while True:
        path = f"/channels/{channel}/messages?after={after}&limit={missed.MESSAGES_PER_PAGE}"
        page = missed.sort_page(await _read_or_default(api, path, []))
        if page is None:
            raise Unknown("Discord's answer is no page of messages")
        for message in page:
            yield message
        if len(page) < missed.MESSAGES_PER_PAGE:
            return
        after = int(page[-1]["id"])


async def _check_history(api: DiscordApi, channel: str) -> None:
    """Raise Unknown if the bot may lack Read Message History: Discord then answers with no messages, not with an error.

    A message of any age proves that it has it; and nobody needs it in a direct conversation, or in a channel that never
    had a message.
    """
    if await _read_or_default(api, f"/channels/{channel}/messages?limit=1", []):
        return
    info = await _read_or_default(api, f"/channels/{channel}", {})
    if value_at(info, "type") != DIRECT_TYPE and value_at(info, "last_message_id") is not None:
        raise Unknown(f"Discord shows no message there although it names one: {missed.EMPTY_HISTORY_CAUSES}")


async def _read_or_default(api: DiscordApi, path: str, default: Json | list[Json]) -> object:
    """Return the JSON that Discord answers a GET with, or `default` if there is no such channel.

    Raises NotSent or Unknown.
    """
    reply = await api.call("GET", path)
    if reply.status == 404 and reply.code == UNKNOWN_CHANNEL:  # a thread that was not opened, or a deleted channel
        return default
    try:
        return check_answer(reply).data
    except Rejected as error:  # whether the part is there, nobody can say who may not look
        raise Unknown(str(error)) from None


def _is_alike(op: Op, message: Json) -> bool:
    """Whether a message has the part's text and file."""
    files = objects_in(message.get("attachments"))
    if str(message.get("content") or "").strip() != render_content(op).strip():
        return False
    if op.kind != "file":
        return not files
    return len(files) == 1 and files[0].get("size") == _size_of(op.file)


def _size_of(file: Path | None) -> int:
    try:
        return file.stat().st_size if file is not None else -1
    except OSError:
        return -1
