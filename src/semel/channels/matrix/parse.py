"""Parse a room event into the message, edit, deletion or reaction that it is. Pure: look-ups are left to the caller.

These events are ignored: state events; calls, verifications, votes and live locations (frequent, and not messages);
messages deleted before we saw them; and messages of our own account that we did not send as a part. An event of an
unknown type is reported by its fallback text, or as unreadable if it has none.

A message mentions us if one of these holds, checked in this order:

- `m.mentions` (spec, "User and room mentions") names our id;
- the message has no `m.mentions` and links to us (`https://matrix.to/#/@us:server`), or holds our id;
- it begins with our name, id or local part, with "@" before it or a colon or comma after it;
- a command is addressed to us: `/new@us`.

`@room` is not a mention of us, because it addresses everybody.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from semel.channels.matrix.account import MatrixIdentity
from semel.channels.matrix.address import RoomPlace
from semel.channels.matrix.rooms import Room
from semel.gateway.ports import Incoming, Person
from semel.text.json_types import Json, list_at, object_at, objects_in, text_at

PART_KEY_FIELD = "dev.semel.key"
"""Field in the content of our events that holds `Op.key`; unlike the transaction id, it is kept by the homeserver."""
ENCRYPTED_REASON = "the room is encrypted, and this channel reads no encrypted messages"
_IGNORED_TYPES = (
    "m.call.", "org.matrix.call.", "m.rtc.", "org.matrix.msc4075.", "org.matrix.msc3401.", "m.key.verification.",
    "m.poll.response", "org.matrix.msc3381.poll.response", "m.poll.end", "org.matrix.msc3381.poll.end",
    "m.beacon", "org.matrix.msc3672.beacon", "m.room.encryption", "m.dummy",
)  # fmt: skip
_MEDIA = frozenset({"m.image", "m.audio", "m.video", "m.file"})
_VOICE_MARKS = ("org.matrix.msc3245.voice", "org.matrix.msc3245.voice.v2", "m.voice")


@dataclass(frozen=True)
class Media:
    """A file in a message. `size` is in bytes, as its sender claims; `encrypted` means that the file is encrypted.

    `is_voice`: it is a voice message (MSC3245).
    """

    mxc: str
    name: str
    mime: str
    size: int | None = None
    encrypted: bool = False
    is_voice: bool = False


@dataclass(frozen=True)
class MatrixDraft:
    """A parsed event, before look-ups. `media` is a file to download, `references` are event ids to look up.

    A group message that does not mention us refers to the message it replies to and to the first of its thread: it is
    addressed to us if one of them is ours. An edit, deletion or reaction refers to its original, whose address it gets.
    """

    incoming: Incoming
    media: Media | None = None
    references: tuple[str, ...] = ()


def parse_event(event: Any, room: Room, me: MatrixIdentity) -> MatrixDraft | None:
    """Parse one event; None if it is ignored."""
    if not _is_event(event):
        return MatrixDraft(make_unreadable(event, room, "it is not an event: id, type, sender or content is missing"))
    if "state_key" in event:
        return None
    if event["sender"] == me.id:
        return parse_own_event(event, room)
    type, content = event["type"], event["content"]
    if type == "m.room.redaction":
        return _parse_deletion(event, room)
    if "redacted_because" in object_at(event, "unsigned") or type.startswith(_IGNORED_TYPES):
        return None
    if type == "m.room.encrypted":
        return MatrixDraft(make_unreadable(event, room, ENCRYPTED_REASON))
    if type == "m.reaction":
        return _parse_reaction(event, room)
    if type == "m.room.message" and str(content.get("msgtype")).startswith(_IGNORED_TYPES):
        return None
    related = object_at(content, "m.relates_to")
    if related.get("rel_type") == "m.replace" and (target := text_at(related, "event_id")) is not None:
        return _parse_edit(event, room, me, target)
    return _parse_message(event, room, me, related)


def parse_own_event(event: Json, room: Room) -> MatrixDraft | None:
    """Return an "echo" if this event of our account is a part that we sent, else None.

    Our parts are recognized by their transaction id or by the key in their content.
    """
    key = object_at(event, "unsigned").get("transaction_id") or event["content"].get(PART_KEY_FIELD)
    if not isinstance(key, str) or not key:
        return None
    return MatrixDraft(Incoming("echo", key, room.id, of=event["event_id"], at=_parse_time(event)))


def find_place(event: Json, room: str) -> RoomPlace:
    """Return the room, or the thread in it, that an event belongs to."""
    related = object_at(event, "content", "m.relates_to")
    return RoomPlace(room, text_at(related, "event_id") if related.get("rel_type") == "m.thread" else None)


def parse_annotation(event: Json) -> tuple[str, str] | None:
    """Return (event id of the message, emoji) of a reaction; None if one of them is missing."""
    related = object_at(event, "content", "m.relates_to")
    target, emoji = text_at(related, "event_id"), text_at(related, "key")
    return (target, emoji) if target and emoji and related.get("rel_type") == "m.annotation" else None


def parse_redaction(event: Json) -> str | None:
    """Return the id of the event that was deleted; None if the redaction does not name it.

    The id is in the content since room version 11, at the top level before that.
    """
    return text_at(event, "content", "redacts") or text_at(event, "redacts") or None


# ---------------------------------------------------------------- by kind


def _parse_message(event: Json, room: Room, me: MatrixIdentity, related: Json) -> MatrixDraft:
    content = event["content"]
    msgtype = str(content.get("msgtype") or "")
    body = _parse_text(content)
    reply = text_at(related, "m.in_reply_to", "event_id")
    place = find_place(event, room.id)
    target = None if place.thread and related.get("is_falling_back") else reply
    media = _parse_media(content, event["type"])
    if body is None and media is None:
        return MatrixDraft(make_unreadable(event, room, f"{event['type']} has no text that is known here"))
    if media is not None:
        body = _parse_caption(content) if event["type"] == "m.room.message" else body
    addressed = parse_addressed_text(
        remove_fallback(body or "") if reply else body or "", content, me.id, _our_display_names(room, me)
    )
    text = f"* {addressed.text}" if msgtype == "m.emote" else _append_location(addressed.text, content, msgtype)
    incoming = replace(
        _make_incoming("message", event, room, place, bot=msgtype in ("m.notice", "m.server_notice")),
        text=text,
        of=target,
        mentioned=addressed.mentioned,
        title=room.title,
        data={"room": room.id, "group": room.is_group} | ({"thread": place.thread} if place.thread else {}),
    )
    unsure = room.is_group and not addressed.mentioned
    return MatrixDraft(incoming, media, tuple(filter(None, (target, place.thread))) if unsure else ())


def _parse_edit(event: Json, room: Room, me: MatrixIdentity, target: str) -> MatrixDraft | None:
    new_content = object_at(event["content"], "m.new_content") or event["content"]
    body = _parse_text(new_content)
    if body is None:
        return MatrixDraft(make_unreadable(event, room, f"the edit of {target} has no text"))
    text = parse_addressed_text(body, new_content, me.id, _our_display_names(room, me)).text
    text = f"* {text}" if new_content.get("msgtype") == "m.emote" else text
    bot = new_content.get("msgtype") == "m.notice"
    return MatrixDraft(
        replace(_make_incoming("edit", event, room, RoomPlace(room.id), bot=bot), text=text, of=target),
        references=(target,),
    )


def _parse_deletion(event: Json, room: Room) -> MatrixDraft | None:
    target = parse_redaction(event)
    if target is None:
        return MatrixDraft(make_unreadable(event, room, "the deletion names no message"))
    return MatrixDraft(
        replace(_make_incoming("delete", event, room, RoomPlace(room.id)), of=target), references=(target,)
    )


def _parse_reaction(event: Json, room: Room) -> MatrixDraft | None:
    annotation = parse_annotation(event)
    if annotation is None:
        return MatrixDraft(make_unreadable(event, room, "the reaction names no message or no emoji"))
    target, emoji = annotation
    return MatrixDraft(
        replace(_make_incoming("reaction", event, room, RoomPlace(room.id)), text=emoji, of=target),
        references=(target,),
    )


# ---------------------------------------------------------------- pieces


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and all(isinstance(event.get(name), str) and event[name] for name in ("event_id", "type", "sender"))
        and isinstance(event.get("content"), dict)
    )


def _make_incoming(kind: Any, event: Json, room: Room, place: RoomPlace, bot: bool = False) -> Incoming:
    return Incoming(
        kind,
        event["event_id"],
        place.address,
        _parse_sender(event, room, bot),
        at=_parse_time(event),
        group=room.is_group,
    )


def _parse_sender(event: Json, room: Room, bot: bool = False) -> Person:
    return Person(event["sender"], room.names.get(event["sender"], ""), bot)


def make_unreadable(event: Any, room: Room, reason: str) -> Incoming:
    """Return an unreadable event with its raw JSON. Its key is the event id, or a hash of the JSON if there is none."""
    raw = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
    key = text_at(event, "event_id") or "odd-" + hashlib.blake2b(raw, digest_size=16).hexdigest()
    sender = _parse_sender(event, room) if _is_event(event) else None
    at = _parse_time(object_at(event))
    return Incoming("unreadable", key, room.id, sender, at=at, group=room.is_group, raw=raw, why=reason)


def _parse_time(event: Json) -> float:
    timestamp = event.get("origin_server_ts")
    return (
        timestamp / 1000
        if isinstance(timestamp, int) and not isinstance(timestamp, bool) and 0 <= timestamp < 1 << 53
        else 0.0
    )


def _our_display_names(room: Room, me: MatrixIdentity) -> tuple[str, ...]:
    return tuple(filter(None, (room.names.get(me.id),)))


def _parse_text(content: Json) -> str | None:
    """Return the text of a message, or the plain text of an extensible event (MSC1767); None if there is none."""
    for name in ("body", "org.matrix.msc1767.text"):
        if (text := text_at(content, name)) is not None:
            return text
    for form in objects_in(content.get("m.text")):
        if form.get("mimetype", "text/plain") == "text/plain" and isinstance(form.get("body"), str):
            return str(form["body"])
    return None


def _parse_media(content: Json, type: str) -> Media | None:
    if type != "m.sticker" and str(content.get("msgtype")) not in _MEDIA:
        return None
    info, encrypted = object_at(content, "info"), object_at(content, "file")
    name = content.get("filename") or content.get("body")
    name = name if isinstance(name, str) and name.strip() else "file"
    mime = text_at(info, "mimetype")
    if not mime:
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if type == "m.sticker":
        name = f"sticker{mimetypes.guess_extension(mime) or ''}"
    size = info.get("size")
    size = size if isinstance(size, int) and not isinstance(size, bool) else None
    is_encrypted = bool(encrypted) and not content.get("url")
    is_voice = any(mark in content for mark in _VOICE_MARKS)
    return Media(str(content.get("url") or ""), name, mime, size, is_encrypted, is_voice)


def _parse_caption(content: Json) -> str:
    """Return a file's caption: the body, if a file name is given that differs from it ("Media captions"), else ""."""
    name, body = text_at(content, "filename"), text_at(content, "body")
    return body if name is not None and body is not None and name != body else ""


def _append_location(text: str, content: Json, msgtype: str) -> str:
    place = text_at(content, "geo_uri")
    if msgtype != "m.location" or place is None or place in text:
        return text
    return f"{text}\n{place}".strip()


_FALLBACK = re.compile(r"> (?:\* )?<@[^\n>]*>[^\n]*(?:\n>[^\n]*)*(?:\n+|$)")
"""The quotation in a reply's body, as clients wrote it until version 1.13 ("Fallbacks for rich replies")."""
_COMMAND = re.compile(r"(/[A-Za-z][\w-]*)@(\S+)")


@dataclass(frozen=True)
class AddressedText:
    """A message's text, and whether it mentions us."""

    text: str
    mentioned: bool


def remove_fallback(body: str) -> str:
    """Return a reply's body without the quotation that older clients prepend."""
    return body[quotation.end() :] if (quotation := _FALLBACK.match(body)) else body


def parse_addressed_text(body: str, content: Json, id: str, names: Sequence[str]) -> AddressedText:
    """Remove our name at the beginning of a message or after its command, and tell whether the message mentions us.

    `id`: our user id. `names`: our other names in the room, the display name first.
    """
    local = id[1:].partition(":")[0]
    our_names = [name for name in dict.fromkeys((id, f"@{local}", *names, local)) if name.strip("@ ")]
    is_named = _is_mentioned(body, content, id)
    if (command := _COMMAND.match(body)) and command[2].rstrip(":,") in (id, id[1:], local):
        return AddressedText(command[1] + body[command.end() :], True)
    addressed = _remove_name(body, our_names, is_named)
    return AddressedText(addressed or body, is_named or addressed is not None)


def _is_mentioned(body: str, content: Json, id: str) -> bool:
    """Whether the message mentions us by `m.mentions` or, without that, by a link to our id or the id itself."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, dict):
        return id in list_at(mentions, "user_ids")
    is_linked = f"https://matrix.to/#/{id}" in unquote(text_at(content, "formatted_body") or "")
    return is_linked or re.search(rf"(?<![\w.@]){re.escape(id)}(?![\w.-]*\w)", body) is not None


def _remove_name(body: str, our_names: Sequence[str], is_named: bool) -> str | None:
    """Return the text after our name; None if the text does not begin with our name.

    A bare name counts only with a colon or comma after it, unless the message mentions us anyway (`is_named`): "Bot is
    slow" speaks about us and not to us.
    """
    start = body.lstrip()
    for name in our_names:
        prefix = name if name.startswith("@") else f"@?{re.escape(name)}"
        pattern = re.escape(name) if name.startswith("@") else prefix
        match = re.match(rf"(?P<name>{pattern})(?P<mark>\s*[:,])?(?=\s|$)\s*", start, re.IGNORECASE)
        if match and (is_named or match["mark"] or match["name"].startswith("@")):
            return start[match.end() :]
    return None
