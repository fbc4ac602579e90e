"""The text of a message as people read it: mentions by name, forwarded text, and words for what is not text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from semel.channels.discord.places import Places
from semel.text.json_types import Json, list_at, object_at, objects_in, text_at

MAX_QUOTED_CHARS = 1000
"""Characters of the replied-to message that are kept with a reply."""
_MARKUP = re.compile(
    r"<(?:@!?(?P<user>[0-9]{1,20})|a?:(?P<emoji>\w{1,40}):[0-9]{1,20}|/(?P<command>[^:<>]{1,100}):[0-9]{1,20})>"
)
"""https://docs.discord.com/developers/reference#message-formatting-formats."""


def read_text(message: Json, me: str, places: Places) -> tuple[str, bool]:
    """Return (the text, whether it mentions us). `me`: our user id.

    A leading mention of us is removed. A mention of a person becomes their display name: it comes with the message
    in every delivery (Law 1), while their name in the server does not stand in histories, nor the names of channels and
    roles.
    """
    content = str(message.get("content") or "")
    roles = [role for role in list_at(message, "mention_roles") if role in places.own_roles]
    mentioned = any(user.get("id") == me for user in objects_in(message.get("mentions"))) or bool(roles)
    own = "|".join([f"@!?{re.escape(me)}", *(f"@&{re.escape(str(role))}" for role in roles)])
    content = re.sub(rf"\A\s*(?:<(?:{own})>[\s,:]*)+", "", content)
    names = {
        str(user.get("id")): str(user.get("global_name") or user.get("username") or "")
        for user in objects_in(message.get("mentions"))
    }

    def name(match: re.Match[str]) -> str:
        if user := match["user"]:
            return f"@{names[user]}" if user in names else match[0]
        return f":{match['emoji']}:" if match["emoji"] else f"/{match['command']}"

    return _MARKUP.sub(name, content).strip(), mentioned


def describe_content(message: Json) -> str:
    """Return words for what a message holds besides its text and files; "" if there is nothing else."""
    return "\n".join(_describe(message))


def _describe(message: Json) -> Iterator[str]:
    for snapshot in objects_in(message.get("message_snapshots")):
        forwarded = object_at(snapshot, "message")
        yield str(forwarded.get("content") or "") or "\n".join(_describe(forwarded)) or "[a forwarded message]"
    for sticker in objects_in(message.get("sticker_items")):
        yield f"[sticker: {sticker.get('name') or 'without a name'}]"
    if (poll := object_at(message, "poll")) and (question := text_at(poll, "question", "text")):
        answers = [text_at(answer, "poll_media", "text") or "" for answer in objects_in(poll.get("answers"))]
        yield f"[poll: {question} ({' / '.join(answers)})]"
    if not message.get("content") and not message.get("attachments"):  # an embed of a link repeats what is there
        for embed in objects_in(message.get("embeds")):
            words = [str(embed[name]) for name in ("title", "description") if embed.get(name)]
            fields = [f"{one.get('name')}: {one.get('value')}" for one in objects_in(embed.get("fields"))]
            yield "\n".join([*words, *fields])


def name_of(user: Json, member: Any = None) -> str:
    """Return the name that people see of a user: their name in the server, their display name, or their user name."""
    nick = object_at({"member": member}, "member").get("nick")
    return str(nick or user.get("global_name") or user.get("username") or "")


def quote_replied(message: Json) -> Json | None:
    """Return {"from", "text"} of the message that this one replies to; None if it replies to none."""
    replied = message.get("referenced_message")
    if not isinstance(replied, dict):
        return None
    text = str(replied.get("content") or "") or describe_content(replied)
    return {"from": name_of(object_at(replied, "author")), "text": text[:MAX_QUOTED_CHARS]}
