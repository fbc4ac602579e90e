"""Build the request that sends a part.

`nonce` and `enforce_nonce` make it idempotent: if a message of ours with that nonce exists, Discord returns it and
makes no new one (https://docs.discord.com/developers/resources/message#create-message). The nonce is `Op.key`, which
has 24 characters; Discord takes 25.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote

from semel.channels.discord.address import parse_message_id
from semel.channels.discord.render import render
from semel.channels.discord.transport import Upload
from semel.channels.uploads import name_file
from semel.gateway.ports import REPEAT_PREFIX, Button, Op, Rejected
from semel.text.json_types import Json
from semel.text.split import measure
from semel.text.wellformed import shorten

MAX_TEXT_UNITS = 2000
"""Maximum length of a message's content."""
MAX_PART_UNITS = 1900
"""Maximum length of a part: the rest is for marks and backslashes that rendering adds."""
MAX_FILE_BYTES = 10 * 1024 * 1024
"""Maximum size of a file, where the server has no boosts
(https://docs.discord.com/developers/reference#uploading-files)."""
MAX_NONCE_CHARS = 25
MAX_LABEL_CHARS = 80
BUTTONS_PER_ROW = 5
SUPPRESS_EMBEDS = 1 << 2
_ACTION_ROW, _BUTTON = 1, 2
_BUTTON_STYLES = {"allow": 3, "deny": 4, "": 2}
_CUSTOM_EMOJI = re.compile(r"<a?:(\w{1,40}:[0-9]{1,20})>")
_NOBODY: Json = {"parse": [], "replied_user": False}
"""`allowed_mentions` by which a message pings nobody, whatever it says."""


@dataclass(frozen=True)
class DiscordRequest:
    """A request of the REST API. `has_file`: whether the op's file goes with it."""

    method: str
    path: str
    body: Json | None = None
    has_file: bool = False


def make_request(op: Op, channel: str, *, previews: bool) -> DiscordRequest:
    """Build the request for a part. `channel`: the id of the channel or thread for a new message. Raises Rejected."""
    if op.kind in ("post", "file"):
        return DiscordRequest(
            "POST", f"/channels/{channel}/messages", _make_message(op, channel, previews), op.kind == "file"
        )
    try:
        target_channel, message = parse_message_id(op.target or "")
    except ValueError as error:
        raise Rejected(str(error)) from None
    path = f"/channels/{target_channel}/messages/{message}"
    if op.kind == "edit":
        return DiscordRequest("PATCH", path, _make_edit(op, previews))
    if op.kind == "delete":
        return DiscordRequest("DELETE", path)
    return DiscordRequest("PUT", f"{path}/reactions/{_quote_emoji(op.text)}/@me")


def make_nonce(key: str) -> str:
    """Return the nonce for a part: its key, or a digest of a key that is too long."""
    return key if len(key) <= MAX_NONCE_CHARS else hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


def render_content(op: Op) -> str:
    """Return the content of a message for a part. Raises Rejected if it is too long.

    The prefix of a repeat is put before the rendered text.
    """
    ahead = REPEAT_PREFIX if op.marked else ""
    text = render(op.text, MAX_TEXT_UNITS - len(ahead))
    content = ahead + text if text else ""
    if measure(content, "utf16") > MAX_TEXT_UNITS:
        raise Rejected(f"the text is longer than the {MAX_TEXT_UNITS} characters that Discord takes in one message")
    return content


def _make_message(op: Op, channel: str, previews: bool) -> Json:
    content = render_content(op)
    if not content and op.kind == "post":
        raise Rejected("there is nothing to see in this message: Discord takes no empty one")
    body: Json = {
        "content": content, "nonce": make_nonce(op.key), "enforce_nonce": True, "allowed_mentions": _NOBODY,
        "flags": 0 if previews else SUPPRESS_EMBEDS,
    }  # fmt: skip
    if op.buttons:
        body["components"] = _make_rows(op.buttons)
    if (answered := _find_answered(op, channel)) is not None:
        body["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
    return body


def _make_edit(op: Op, previews: bool) -> Json:
    content = render_content(op)
    if not content:
        raise Rejected("there is nothing to see in this text: Discord takes no empty one; delete the message instead")
    return {
        "content": content, "allowed_mentions": _NOBODY, "flags": 0 if previews else SUPPRESS_EMBEDS,
        "components": _make_rows(op.buttons),
    }  # fmt: skip


def _find_answered(op: Op, channel: str) -> str | None:
    """Return the message that the first part of an answer replies to, in a server; None if it replies to none."""
    answers = op.answers
    if answers is None or op.n or not answers.data.get("group") or answers.data.get("interaction"):
        return None
    try:
        answered_channel, message = parse_message_id(answers.id)
    except ValueError:
        return None
    return message if answered_channel == channel else None


def _make_rows(buttons: tuple[Button, ...]) -> list[Json]:
    """Return rows of buttons (https://docs.discord.com/developers/components/reference#button)."""
    made: list[Json] = [
        {
            "type": _BUTTON,
            "style": _BUTTON_STYLES[button.style],
            "label": shorten(button.label, MAX_LABEL_CHARS),
            "custom_id": button.answer,
        }
        for button in buttons
    ]
    return [
        {"type": _ACTION_ROW, "components": made[start : start + BUTTONS_PER_ROW]}
        for start in range(0, len(made), BUTTONS_PER_ROW)
    ]


def _quote_emoji(text: str) -> str:
    emoji = text.strip()
    if not emoji:
        raise Rejected("name the emoji of the reaction")
    custom = _CUSTOM_EMOJI.fullmatch(emoji)
    return quote(custom[1] if custom else emoji, safe="")


def make_upload(op: Op, content: bytes) -> Upload:
    """Return the file of an op. `content`: the file's bytes."""
    return Upload(*name_file(op), content)
