"""Parse what signal-cli hands over (JsonMessageEnvelope.java and the records that it names) into inbox events.

| envelope | event | key |
|---|---|---|
| dataMessage with a text, a file or other content | message | `AUTHOR/TIME` |
| editMessage | edit | `AUTHOR/TIME#eEDITED` |
| dataMessage.reaction | reaction | `AUTHOR/TIME#r`, with the reaction's own time |
| dataMessage.remoteDelete, .adminDelete | delete | `AUTHOR/TIME#d`, with the deletion's own time |
| syncMessage: what our account wrote into its "Note to Self" on another device | as above | |
| other sync messages, receipts, typing, calls, stories, polls' votes, changes of groups and timers | none | |
| exception: a message that signal-cli could not decrypt | unreadable | `AUTHOR/TIME#x` |
| what cannot be parsed | unreadable | a digest of it |
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.signal.address import SELF, EditedMessages, MessageId, OwnAccount
from semel.channels.signal.parse_text import describe_content, read_text
from semel.gateway.ports import Incoming, Person
from semel.text.json_types import Json, object_at, objects_in, text_at, value_at
from semel.text.media_types import is_sound
from semel.text.wellformed import scrub

MAX_QUOTED_CHARS = 1000
"""Characters of the quoted message that are kept with a reply."""
MAX_EXCERPT_CHARS = 100
"""Characters of a message in a group that are kept for a reply that quotes it."""
_IGNORED_FAULTS = ("Duplicate", "SelfSend")
"""Parts of the names of exceptions that mean that nothing is missing."""


@dataclass(frozen=True)
class SignalFile:
    """A file of a message. `id`: its name in signal-cli's directory. `size`: in bytes, 0 if unknown.

    `is_voice`: it is a voice note. signal-cli does not pass on Signal's mark of one; but the file of a recording has no
    name, and one that somebody chose has.
    """

    id: str
    name: str
    mime: str
    size: int = 0
    is_voice: bool = False


@dataclass(frozen=True)
class SignalDraft:
    """An inbox event whose files are still to be stored."""

    incoming: Incoming
    files: tuple[SignalFile, ...] = ()


@dataclass(frozen=True)
class _Author:
    """Who sent a message, and where an answer to a direct message of theirs goes."""

    person: Person
    name: str  # as in message ids


def parse_received(params: Json, own: OwnAccount, edits: EditedMessages) -> list[SignalDraft]:
    """Parse the parameters of a `receive` notification. What cannot be parsed gives one unreadable draft.

    `edits` learns the edits that come.
    """
    try:
        received = object_at(params, "result") or params  # wrapped if it was subscribed to
        return _parse_received(received, own, edits)
    except Exception as error:  # one odd message must not block all later ones (Law 1)
        return [make_unreadable(json.dumps(params).encode(), f"it cannot be read ({type(error).__name__}: {error})")]


def make_unreadable(raw: bytes, why: str, key: str = "") -> SignalDraft:
    """Return an "unreadable" event. `key`: its key; by default a digest of its content."""
    key = key or f"unreadable/{hashlib.blake2b(raw, digest_size=16).hexdigest()}"
    return SignalDraft(Incoming("unreadable", key, raw=raw, why=why[:300]))


def read_received_time(params: Json) -> int:
    """Return when Signal's server got a message, in ms since the epoch; 0 if it is not known."""
    received = object_at(params, "result") or params
    time = value_at(received, "envelope", "serverReceivedTimestamp")
    return time if isinstance(time, int) else 0


def _parse_received(received: Json, own: OwnAccount, edits: EditedMessages) -> list[SignalDraft]:
    envelope = object_at(received, "envelope")
    sender = _parse_author(envelope, own)
    if (fault := object_at(received, "exception")) and not _has_content(envelope):
        kind = str(fault.get("type") or "")
        if any(word in kind for word in _IGNORED_FAULTS):
            return []
        key = f"{sender.name}/{envelope.get('timestamp')}#x" if sender.name and envelope.get("timestamp") else ""
        reason = f"signal-cli could not read a message of {sender.person.name or sender.name or 'somebody'}"
        return [make_unreadable(json.dumps(received).encode(), f"{reason}: {fault.get('message')} ({kind})", key)]
    if sent := object_at(envelope, "syncMessage", "sentMessage"):
        return _parse_note_to_self(sent, sender, own, edits)
    if not sender.name or sender.name == SELF:
        return []
    if edit := object_at(envelope, "editMessage"):
        return _parse_edit(edit, sender, own, edits)
    if message := object_at(envelope, "dataMessage"):
        return _parse_message(message, sender, own, edits)
    return []


def _has_content(envelope: Json) -> bool:
    return any(object_at(envelope, kind) for kind in ("dataMessage", "editMessage", "syncMessage"))


def _parse_author(envelope: Json, own: OwnAccount) -> _Author:
    id, number = envelope.get("sourceUuid"), envelope.get("sourceNumber")
    account = str(id or number or "")
    shown = scrub(str(envelope.get("sourceName") or number or account))
    return _Author(Person(account, shown), own.name_author(id, number))


def _parse_note_to_self(sent: Json, sender: _Author, own: OwnAccount, edits: EditedMessages) -> list[SignalDraft]:
    """Parse what our account wrote on another device. In its "Note to Self", that is its owner's word to us.

    Elsewhere it is nothing to answer: it was written to somebody else.
    """
    edit = object_at(sent, "editMessage")
    message = object_at(edit, "dataMessage") if edit else sent
    if not own.is_self(sent.get("destinationUuid"), sent.get("destinationNumber")) or object_at(message, "groupInfo"):
        return []
    writer = replace(sender, name=SELF)
    return _parse_edit(edit, writer, own, edits) if edit else _parse_message(message, writer, own, edits)


# ---------------------------------------------------------------- messages


def _parse_message(message: Json, sender: _Author, own: OwnAccount, edits: EditedMessages) -> list[SignalDraft]:
    id = MessageId(sender.name, int(message["timestamp"]))
    if reaction := object_at(message, "reaction"):
        return [SignalDraft(_parse_reaction(message, reaction, id, sender, own, edits))]
    if (deleted := object_at(message, "remoteDelete") or object_at(message, "adminDelete")) != {}:
        return [SignalDraft(_parse_deletion(message, deleted, id, sender, own, edits))]
    files = _list_files(message)
    text, mentioned = read_text(message, own)
    words = describe_content(message)
    if not text and not words and not files:
        return []  # a change of the group, of its timer, a pin, a vote
    return [
        SignalDraft(_make_message("message", str(id), message, sender, own, edits, (text, words, mentioned)), files)
    ]


def _parse_edit(edit: Json, sender: _Author, own: OwnAccount, edits: EditedMessages) -> list[SignalDraft]:
    """Return the event of an edit. Its target is the message, or an earlier edit of it."""
    message = object_at(edit, "dataMessage")
    edited_at = int(message["timestamp"])
    original = edits.find_original(MessageId(sender.name, int(edit["targetSentTimestamp"])))
    edits.note_edit(original, edited_at)
    text, mentioned = read_text(message, own)
    content = (text, describe_content(message), mentioned)
    incoming = _make_message("edit", f"{original}#e{edited_at}", message, sender, own, edits, content)
    return [SignalDraft(replace(incoming, of=str(original)))]


def _make_message(
    kind: Any, key: str, message: Json, sender: _Author, own: OwnAccount, edits: EditedMessages,
    content: tuple[str, str, bool],
) -> Incoming:  # fmt: skip
    """`content`: (text, words for other content, whether the text mentions us)."""
    text, words, mentioned = content
    quote = object_at(message, "quote")
    quoted = _find_quoted(quote, own, edits)
    data: Json = {}
    if quoted is not None:
        name = "" if quoted.author == SELF else str(quote.get("authorNumber") or quoted.author)
        data["replied"] = {"from": name, "text": scrub(text_at(quote, "text") or "")[:MAX_QUOTED_CHARS]}
    incoming = _make_incoming(kind, key, message, sender)
    if incoming.group and text:
        data["excerpt"] = text[:MAX_EXCERPT_CHARS]
    return replace(
        incoming,
        text="\n".join(part for part in (text, words) if part),
        of=str(quoted) if quoted is not None else None,
        mentioned=mentioned or (quoted is not None and quoted.author == SELF),
        data=data,
    )


def _make_incoming(kind: Any, key: str, message: Json, sender: _Author) -> Incoming:
    group = object_at(message, "groupInfo")
    id = text_at(group, "groupId")
    return Incoming(
        kind,
        key,
        address=f"group:{id}" if id else sender.person.id,
        sender=sender.person,
        at=int(message["timestamp"]) / 1000,
        group=bool(id),
        title=scrub(text_at(group, "groupName") or ""),
    )


def _find_quoted(quote: Json, own: OwnAccount, edits: EditedMessages) -> MessageId | None:
    author = own.name_author(quote.get("authorUuid"), quote.get("authorNumber"))
    time = quote.get("id")
    return edits.find_original(MessageId(author, time)) if author and isinstance(time, int) and time > 0 else None


def _list_files(message: Json) -> tuple[SignalFile, ...]:
    files = []
    for attachment in objects_in(message.get("attachments")):
        mime = str(attachment.get("contentType") or "application/octet-stream")
        id = str(attachment.get("id") or "")
        size = attachment.get("size")
        name = scrub(str(attachment.get("filename") or id or "file"))
        if mime == "text/x-signal-plain":  # the whole of a long text, whose beginning is the message's text
            name, mime = "message.txt", "text/plain"
        is_voice = is_sound(mime) and not attachment.get("filename")
        files.append(SignalFile(id, name, mime, size if isinstance(size, int) else 0, is_voice))
    return tuple(files)


# ---------------------------------------------------------------- reactions and deletions


def _parse_reaction(
    message: Json, reaction: Json, id: MessageId, sender: _Author, own: OwnAccount, edits: EditedMessages
) -> Incoming:
    target = _find_target(reaction, own, edits)
    return replace(
        _make_incoming("reaction", f"{id}#r", message, sender),
        text=scrub(str(reaction["emoji"])),
        of=str(target),
        removed=reaction.get("isRemove") is True,
    )


def _parse_deletion(
    message: Json, deleted: Json, id: MessageId, sender: _Author, own: OwnAccount, edits: EditedMessages
) -> Incoming:
    """Return the event of a deletion by the author or, with `adminDelete`, by an administrator of the group."""
    if deleted.get("targetAuthorUuid") or deleted.get("targetAuthorNumber"):
        target = _find_target(deleted, own, edits)
    else:
        time = deleted.get("timestamp") or deleted["targetSentTimestamp"]
        target = edits.find_original(MessageId(sender.name, int(time)))
    return replace(_make_incoming("delete", f"{id}#d", message, sender), of=str(target))


def _find_target(target: Json, own: OwnAccount, edits: EditedMessages) -> MessageId:
    author = own.name_author(target.get("targetAuthorUuid"), target.get("targetAuthorNumber"))
    return edits.find_original(MessageId(author, int(target["targetSentTimestamp"])))
