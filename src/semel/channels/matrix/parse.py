"""Parse a room event into the message, edit, deletion or reaction that it is. Pure: look-ups are left to the caller.

Ignored are: state events; calls, verifications, votes and live positions (frequent, and not messages); messages deleted
before we saw them; and messages of our own account that carry no key of a part. An event of an unknown type is reported
by its fallback text, or as unreadable if it has none.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.matrix.account import Me
from semel.channels.matrix.address import Place
from semel.channels.matrix.message_text import understand, without_fallback
from semel.channels.matrix.rooms import Room
from semel.channels.matrix.transport import Json
from semel.gateway.ports import Incoming, Person

KEY = "dev.semel.key"
"""Field in the content of our events that holds `Op.key`; unlike the transaction id, it is kept by the homeserver."""
ENCRYPTED = "the room is encrypted, and this channel reads no encrypted messages"
_SILENT = (
    "m.call.", "org.matrix.call.", "m.rtc.", "org.matrix.msc4075.", "org.matrix.msc3401.", "m.key.verification.",
    "m.poll.response", "org.matrix.msc3381.poll.response", "m.poll.end", "org.matrix.msc3381.poll.end",
    "m.beacon", "org.matrix.msc3672.beacon", "m.room.encryption", "m.dummy",
)  # fmt: skip
_MEDIA = frozenset({"m.image", "m.audio", "m.video", "m.file"})


@dataclass(frozen=True)
class Media:
    """A file in a message. `size` is in bytes, as its sender claims; `locked` means that the file is encrypted."""

    mxc: str
    name: str
    mime: str
    size: int | None = None
    locked: bool = False


@dataclass(frozen=True)
class Draft:
    """A parsed event, before look-ups. `media` is a file to download, `about` are event ids to look up.

    A group message has an `about` if it may be addressed to us, as a reply to that event or in a thread begun by it. An
    edit, deletion or reaction has one because its address is that of the referenced event.
    """

    what: Incoming
    media: Media | None = None
    about: tuple[str, ...] = ()


def read(event: Any, room: Room, me: Me) -> Draft | None:
    """Parse one event; None if it is ignored."""
    if not _is_event(event):
        return Draft(unreadable(event, room, "it is no event: id, type, sender or content is missing"))
    if "state_key" in event:
        return None
    if event["sender"] == me.id:
        return own(event, room)
    type, content = event["type"], event["content"]
    if type == "m.room.redaction":
        return _deletion(event, room)
    if "redacted_because" in _dict(event.get("unsigned")) or type.startswith(_SILENT):
        return None
    if type == "m.room.encrypted":
        return Draft(unreadable(event, room, ENCRYPTED))
    if type == "m.reaction":
        return _reaction(event, room)
    if type == "m.room.message" and str(content.get("msgtype")).startswith(_SILENT):
        return None
    related = _dict(content.get("m.relates_to"))
    if related.get("rel_type") == "m.replace" and isinstance(related.get("event_id"), str):
        return _edit(event, room, me, related["event_id"])
    return _message(event, room, me, related)


def own(event: Json, room: Room) -> Draft | None:
    """The echo of a part of ours, recognized by its transaction id or the key in its content; None for others."""
    key = _dict(event.get("unsigned")).get("transaction_id") or event["content"].get(KEY)
    if not isinstance(key, str) or not key:
        return None
    return Draft(Incoming("echo", key, room.id, of=event["event_id"], at=_at(event)))


def place_in(event: Json, room: str) -> Place:
    """The room, or the thread in it, that an event belongs to."""
    related = _dict(_dict(event.get("content")).get("m.relates_to"))
    root = related.get("event_id")
    threaded = related.get("rel_type") == "m.thread" and isinstance(root, str)
    return Place(room, root if threaded else None)


def annotated(event: Json) -> tuple[str, str] | None:
    """(event id of the message, emoji) of a reaction; None if one of them is missing."""
    related = _dict(_dict(event.get("content")).get("m.relates_to"))
    of, emoji = related.get("event_id"), related.get("key")
    if related.get("rel_type") != "m.annotation" or not isinstance(of, str) or not isinstance(emoji, str):
        return None
    return (of, emoji) if of and emoji else None


def redacted(event: Json) -> str | None:
    """The id of the deleted event; it is in the content since room version 11, before that at the top level."""
    of = event["content"].get("redacts") or event.get("redacts")
    return of if isinstance(of, str) and of else None


# ---------------------------------------------------------------- by kind


def _message(event: Json, room: Room, me: Me, related: Json) -> Draft:
    content = event["content"]
    msgtype = str(content.get("msgtype") or "")
    body = _body(content)
    reply = _dict(related.get("m.in_reply_to")).get("event_id")
    place = place_in(event, room.id)
    of = reply if isinstance(reply, str) and not (place.thread and related.get("is_falling_back")) else None
    media = _media(content, event["type"])
    if body is None and media is None:
        return Draft(unreadable(event, room, f"{event['type']} has no text that is known here"))
    if media is not None:
        body = _caption(content) if event["type"] == "m.room.message" else body
    said = understand(without_fallback(body or "") if reply else body or "", content, me.id, _names(room, me))
    text = f"* {said.text}" if msgtype == "m.emote" else _located(said.text, content, msgtype)
    what = replace(
        _base("message", event, room, place, bot=msgtype in ("m.notice", "m.server_notice")),
        text=text,
        of=of,
        mentioned=said.mentioned,
        title=room.title,
        data={"room": room.id, "group": room.group} | ({"thread": place.thread} if place.thread else {}),
    )
    unsure = room.group and not said.mentioned
    return Draft(what, media, tuple(filter(None, (of, place.thread))) if unsure else ())


def _edit(event: Json, room: Room, me: Me, of: str) -> Draft | None:
    new = _dict(event["content"].get("m.new_content")) or event["content"]
    body = _body(new)
    if body is None:
        why = f"the edit of {of} has no text"
        return Draft(unreadable(event, room, why))
    text = understand(body, new, me.id, _names(room, me)).text
    text = f"* {text}" if new.get("msgtype") == "m.emote" else text
    bot = new.get("msgtype") == "m.notice"
    return Draft(replace(_base("edit", event, room, Place(room.id), bot=bot), text=text, of=of), about=(of,))


def _deletion(event: Json, room: Room) -> Draft | None:
    of = redacted(event)
    if of is None:
        return Draft(unreadable(event, room, "the deletion does not say of what"))
    return Draft(replace(_base("delete", event, room, Place(room.id)), of=of), about=(of,))


def _reaction(event: Json, room: Room) -> Draft | None:
    found = annotated(event)
    if found is None:
        return Draft(unreadable(event, room, "the reaction does not say to what, or which"))
    of, emoji = found
    return Draft(replace(_base("reaction", event, room, Place(room.id)), text=emoji, of=of), about=(of,))


# ---------------------------------------------------------------- pieces


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and all(isinstance(event.get(name), str) and event[name] for name in ("event_id", "type", "sender"))
        and isinstance(event.get("content"), dict)
    )


def _base(kind: Any, event: Json, room: Room, place: Place, bot: bool = False) -> Incoming:
    return Incoming(kind, event["event_id"], place.address, _person(event, room, bot), at=_at(event), group=room.group)


def _person(event: Json, room: Room, bot: bool = False) -> Person:
    return Person(event["sender"], room.names.get(event["sender"], ""), bot)


def unreadable(event: Any, room: Room, why: str) -> Incoming:
    """An unreadable event with its raw JSON. Without an event id, its key is a hash of that."""
    raw = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
    key = _dict(event).get("event_id")
    if not isinstance(key, str) or not key:
        key = "odd-" + hashlib.blake2b(raw, digest_size=16).hexdigest()
    sender = _person(event, room) if _is_event(event) else None
    at = _at(event) if isinstance(event, dict) else 0.0
    return Incoming("unreadable", key, room.id, sender, at=at, group=room.group, raw=raw, why=why)


def _at(event: Json) -> float:
    at = event.get("origin_server_ts")
    return at / 1000 if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < 1 << 53 else 0.0


def _names(room: Room, me: Me) -> tuple[str, ...]:
    return tuple(filter(None, (room.names.get(me.id),)))


def _body(content: Json) -> str | None:
    """The text of a message, or the plain text of an extensible event (MSC1767); None if there is none."""
    for value in (content.get("body"), content.get("org.matrix.msc1767.text")):
        if isinstance(value, str):
            return value
    texts = content.get("m.text")
    for each in texts if isinstance(texts, list) else ():
        if _dict(each).get("mimetype", "text/plain") == "text/plain" and isinstance(_dict(each).get("body"), str):
            return str(each["body"])
    return None


def _media(content: Json, type: str) -> Media | None:
    if type != "m.sticker" and str(content.get("msgtype")) not in _MEDIA:
        return None
    info, locked = _dict(content.get("info")), _dict(content.get("file"))
    name = content.get("filename") or content.get("body")
    name = name if isinstance(name, str) and name.strip() else "file"
    mime = info.get("mimetype")
    if not isinstance(mime, str) or not mime:
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if type == "m.sticker":
        name = f"sticker{mimetypes.guess_extension(mime) or ''}"
    size = info.get("size")
    size = size if isinstance(size, int) and not isinstance(size, bool) else None
    return Media(str(content.get("url") or ""), name, mime, size, bool(locked) and not content.get("url"))


def _caption(content: Json) -> str:
    """The caption of a file: the body, if there is a different file name (spec, "Media captions"), else ""."""
    name, body = content.get("filename"), content.get("body")
    return body if isinstance(name, str) and isinstance(body, str) and name != body else ""


def _located(text: str, content: Json, msgtype: str) -> str:
    place = content.get("geo_uri")
    if msgtype != "m.location" or not isinstance(place, str) or place in text:
        return text
    return f"{text}\n{place}".strip()


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
