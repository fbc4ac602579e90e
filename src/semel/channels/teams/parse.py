"""Parse an activity that Teams posts into inbox events.

https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/conversation-messages and
https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/subscribe-to-conversation-events.

| activity | event | key |
|---|---|---|
| `message` | message | its id |
| `message` with the `value` of a button of ours | echo of our message, then message | by `press_key` |
| `messageUpdate` (an edit, or a deletion taken back) | edit | the id and `#eTIME` |
| `messageDelete` | delete | the id and `#dTIME` |
| `messageReaction` | reaction, one for each | the id of the activity and its number |
| `installationUpdate`, `add`, in a personal chat | message that opens the conversation | its id |
| `invoke` of the answer to the offer of a file | see `semel.channels.teams.consents` | |
| others | none | |
| what cannot be parsed | unreadable | its id, or the digest of its content |
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from semel.channels.html_to_text import MAX_HTML_CHARS, convert_html
from semel.channels.teams.address import TeamsPlace, make_message_id, parse_address
from semel.channels.teams.cards import read_press
from semel.channels.teams.files import DOWNLOAD_TYPE, TeamsFile
from semel.gateway.ports import Incoming, Person, press_key
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.media_types import BINARY
from semel.text.wellformed import scrub

EMPTY = "[a message without text]"
NOT_GIVEN_REASON = "Teams does not give such attachments to a bot"
REACTIONS = {"like": "👍", "heart": "❤️", "laugh": "😆", "surprised": "😮", "sad": "😢", "angry": "😠"}
_MENTION = re.compile(r"<at[^<>]*>(.*?)</at>", re.S)
_CODED_EMOJI = re.compile(r"([0-9a-f]{4,6}(?:-[0-9a-f]{4,6})*)_.*")
_OWN_TYPES = ("text/html", "text/plain")  # the text once more


@dataclass(frozen=True)
class TeamsBatch:
    """What one activity holds. `place`, `conversation`: where it is from; None and "" if nothing is to be noted.

    `files`: of the message, which is then the only event.
    """

    events: list[Incoming]
    place: TeamsPlace | None = None
    conversation: str = ""
    files: tuple[TeamsFile, ...] = ()

    @property
    def drafts(self) -> list[TeamsDraft]:
        return [TeamsDraft(event, self.files) for event in self.events]


@dataclass(frozen=True)
class TeamsDraft:
    """An inbox event whose files are still to be downloaded."""

    incoming: Incoming
    files: tuple[TeamsFile, ...] = ()


def parse_activity(activity: Json, threads: Mapping[str, str]) -> TeamsBatch:
    """Parse an activity. Raises nothing.

    `threads`: the addresses of threads, by the ids of messages as if they were in the channel itself: Teams does not
    name the thread of a message to which somebody reacts.
    """
    try:
        return _parse_activity(activity, threads)
    except Exception as error:  # it is kept, and not posted for ever (Law 1)
        return TeamsBatch([make_unreadable_activity(activity, error)])


def make_unreadable(raw: bytes, why: str) -> Incoming:
    """Return the event for something that cannot be read."""
    return Incoming("unreadable", f"unreadable/{hashlib.sha256(raw).hexdigest()}", raw=raw, why=scrub(why)[:300])


def make_unreadable_activity(activity: Json, error: Exception) -> Incoming:
    """Return the event for an activity that cannot be read because of `error`."""
    raw = json.dumps(activity, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return make_unreadable(raw, f"it cannot be read ({type(error).__name__}: {error})")


def read_place(activity: Json) -> TeamsPlace:
    """Return where an activity is from. Raises ValueError."""
    return _read_place(object_at(activity, "conversation"), _read_person(object_at(activity, "from")))


def _parse_activity(activity: Json, threads: Mapping[str, str]) -> TeamsBatch:
    kind = activity.get("type")
    if kind not in ("message", "messageUpdate", "messageDelete", "messageReaction", "installationUpdate"):
        return TeamsBatch([])
    conversation = str(activity["conversation"]["id"])
    sender = _read_person(object_at(activity, "from"))
    place = _read_place(object_at(activity, "conversation"), sender)
    id, stamp = str(activity["id"]), str(activity.get("timestamp") or "")
    incoming = Incoming(
        "message", make_message_id(place, id), str(place), sender, at=_read_time(stamp), group=not place.person,
        title=scrub(_read_title(activity)),
    )  # fmt: skip
    batch = TeamsBatch([], place, conversation)
    if sender.bot:
        return TeamsBatch([])
    match kind:
        case "messageReaction":
            address = threads.get(make_message_id(place, str(activity["replyToId"])), str(place))
            of = make_message_id(address, str(activity["replyToId"]))
            return replace(batch, events=list(_read_reactions(activity, replace(incoming, address=address, of=of))))
        case "installationUpdate":
            opens = activity.get("action") == "add" and bool(place.person)
            return replace(batch, events=[replace(incoming, text="/start", opens=True)] if opens else [])
        case "messageDelete":
            deletion = replace(incoming, kind="delete", key=f"{incoming.key}#d{stamp}", of=incoming.key)
            return replace(batch, events=[deletion])
    if kind == "message" and (press := read_press(activity)) is not None:
        return replace(batch, events=_make_press(incoming, str(activity["replyToId"]), *press))
    text, is_mentioned = _read_text(activity)
    files = tuple(_list_files(activity))
    event = replace(
        incoming, text=text or ("" if files else EMPTY), mentioned=is_mentioned and incoming.group,
        of=_read_answered(activity, place),
    )  # fmt: skip
    if kind == "messageUpdate":
        event = replace(event, kind="edit", key=f"{event.key}#e{stamp}", of=event.key, text=text or EMPTY)
        return replace(batch, events=[event])
    return replace(batch, events=[event], files=files)


def _make_press(incoming: Incoming, asked: str, key: str, answer: str) -> list[Incoming]:
    """Return the report that our message arrived, and the answer. `asked`: Teams' id of our message."""
    of = make_message_id(incoming.address, asked)
    answering = replace(
        incoming, key=press_key(answer, of, incoming.key), text=scrub(answer), of=of, mentioned=incoming.group
    )
    return [Incoming("echo", scrub(key), of=of), answering]


def _read_person(account: Json) -> Person:
    """Return who acted. Raises ValueError if nobody is named."""
    id = text_at(account, "aadObjectId") or text_at(account, "id")
    if not id:
        raise ValueError("it names no sender")
    is_bot = account.get("role") == "bot" or (text_at(account, "id") or "").startswith("28:")
    id = id.lower() if account.get("aadObjectId") else id
    return Person(id, scrub(text_at(account, "name") or ""), bot=is_bot)


def _read_place(conversation: Json, sender: Person) -> TeamsPlace:
    id, kind = text_at(conversation, "id") or "", conversation.get("conversationType")
    if kind == "personal" or (kind is None and id.startswith("a:")):
        return parse_address(f"@{sender.id}")
    place = parse_address(id)
    if place.person:
        raise ValueError("its conversation is none of Teams")
    return place


def _read_title(activity: Json) -> str:
    """Return the name of a chat or channel; "" if it is not told."""
    data = object_at(activity, "channelData")
    names = (text_at(data, "team", "name"), text_at(data, "channel", "name"))
    return " / ".join(name for name in names if name) or text_at(activity, "conversation", "name") or ""


def _read_time(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _read_text(activity: Json) -> tuple[str, bool]:
    """Return (the text without a mention of the bot at its beginning, whether it mentions the bot).

    Only the entities say who is mentioned: anybody can write the marks.
    """
    text = scrub(text_at(activity, "text") or "") or _read_html(activity)
    us = (text_at(activity, "recipient", "id") or "").lower()
    ours = [
        text_at(entity, "text") or ""
        for entity in objects_in(activity.get("entities"))
        if entity.get("type") == "mention" and us and (text_at(entity, "mentioned", "id") or "").lower() == us
    ]
    for mark in filter(None, map(scrub, ours)):
        if text.lstrip().startswith(mark):
            text = text.lstrip().removeprefix(mark).removeprefix("&nbsp;").lstrip(" \t\n\u00a0,:")
            break
    return _MENTION.sub(lambda mention: f"@{mention[1].removeprefix('@')}", text).strip(), bool(ours)


def _read_html(activity: Json) -> str:
    """Return the text of a message that comes as HTML only: of most messages it is the text once more."""
    contents = [
        text_at(attachment, "content") or ""
        for attachment in objects_in(activity.get("attachments"))
        if attachment.get("contentType") == "text/html"
    ]
    return convert_html("\n".join(contents)[:MAX_HTML_CHARS])


def _read_answered(activity: Json, place: TeamsPlace) -> str | None:
    """Return the message that a message replies to; None if it names none, or only the thread that it is in."""
    id = text_at(activity, "replyToId")
    if not id or id == place.thread:
        return None
    try:
        return make_message_id(place, id)
    except ValueError:
        return None


def _read_reactions(activity: Json, incoming: Incoming) -> Iterator[Incoming]:
    for name, is_removed in (("reactionsAdded", False), ("reactionsRemoved", True)):
        for number, reaction in enumerate(objects_in(activity.get(name))):
            key = f"{incoming.key}#{'-' if is_removed else '+'}{number}"
            emoji = read_emoji(reaction.get("type"))
            yield replace(incoming, kind="reaction", key=key, text=emoji, removed=is_removed)


def read_emoji(kind: Any) -> str:
    """Return the emoji of a reaction; its name if it is not known."""
    name = scrub(str(kind or "?"))[:60]
    if (coded := _CODED_EMOJI.fullmatch(name)) is not None:
        try:
            return "".join(chr(int(code, 16)) for code in coded[1].split("-"))
        except ValueError:
            return name
    return REACTIONS.get(name, name)


def _list_files(activity: Json) -> Iterator[TeamsFile]:
    for number, attachment in enumerate(objects_in(activity.get("attachments"))):
        kind = text_at(attachment, "contentType") or ""
        if kind in _OWN_TYPES:
            continue
        id, url = f"{activity['id']}/{number}", text_at(attachment, "contentUrl") or ""
        if kind == DOWNLOAD_TYPE:
            name = scrub(text_at(attachment, "name") or "file")[:200]
            url = text_at(attachment, "content", "downloadUrl") or ""
            yield TeamsFile(id, name, mimetypes.guess_type(name)[0] or BINARY, url)
        elif kind.startswith("image/"):
            name = scrub(text_at(attachment, "name") or "image")[:200]
            yield TeamsFile(id, name, kind, url, service_url=text_at(activity, "serviceUrl") or "")
        else:
            yield TeamsFile(
                id, scrub(text_at(attachment, "name") or kind or "file")[:200], BINARY, why=NOT_GIVEN_REASON
            )
