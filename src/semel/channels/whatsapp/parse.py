"""Parse what Meta posts into inbox events and status reports.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages. One request holds
any number of messages and statuses, of any number of business phone numbers; those of other numbers are left out.

| in the request | event | key |
|---|---|---|
| a message | message | its id |
| `interactive` of a button or row under our message | echo of our message, then message | by `press_key` |
| `reaction` | reaction; taken back without an emoji | the id of the reaction |
| `edit`, `revoke` (numbers that are also in the WhatsApp Business app) | edit, delete | the id of the report |
| `request_welcome` (a person opens the chat for the first time) | message that opens the conversation | its id |
| `system` (a person has another number) | none; it is logged | |
| a status of a message of ours | a `StatusReport` | |
| a status of any other message, other fields | none | |
| what cannot be parsed | unreadable | its id, or the digest of its content |
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from semel.channels.whatsapp.address import WhatsAppPlace, parse_address
from semel.channels.whatsapp.message_content import WhatsAppFile, read_file_of, read_text
from semel.channels.whatsapp.receipts import describe
from semel.channels.whatsapp.statuses import StatusReport
from semel.channels.whatsapp.transport import describe_error, read_code
from semel.gateway.ports import Incoming, Person, press_key
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.wellformed import scrub

BUTTON_MARK = "|"
"""Stands between a part's key and the answer in the id of a button (`make_button_id`)."""
EMPTY = "[a message without text]"
SOMEBODY = "somebody else"
"""Stands for the author of a forwarded message, whom WhatsApp does not name."""
MAX_ID_CHARS = 40
"""Characters that are logged of the id of another number."""
_HAS_ARRIVED = frozenset({"delivered", "read", "played"})
_log = logging.getLogger("semel.whatsapp")


@dataclass(frozen=True)
class WhatsAppDraft:
    """An inbox event whose file is still to be downloaded."""

    incoming: Incoming
    files: tuple[WhatsAppFile, ...] = ()


@dataclass(frozen=True)
class WhatsAppBatch:
    """What one request holds. `others`: the ids of other numbers, of which something in it was left out."""

    drafts: list[WhatsAppDraft] = field(default_factory=list)
    reports: list[StatusReport] = field(default_factory=list)
    others: set[str] = field(default_factory=set)


def make_button_id(key: str, answer: str) -> str:
    """Return the id of a button, which a press brings back: the key of its part, and the answer."""
    return f"{key}{BUTTON_MARK}{answer}"


def parse_payload(payload: Json, number: str) -> WhatsAppBatch:
    """Parse the payload of a request. Raises nothing. `number`: the setting `phone_number_id`."""
    batch = WhatsAppBatch()
    for value in _list_values(payload, batch.drafts):
        if (id := text_at(value, "metadata", "phone_number_id")) != number:
            if id:
                batch.others.add(scrub(id)[:MAX_ID_CHARS])
            else:
                batch.drafts.append(_keep_odd(value, "its metadata names no phone_number_id"))
            continue
        names = {id: name for contact in objects_in(value.get("contacts")) for id, name in _read_names(contact)}
        us = "".join(filter(str.isdecimal, text_at(value, "metadata", "display_phone_number") or ""))
        for message in _list_objects(value, "messages", batch.drafts):
            batch.drafts.extend(_parse_or_keep(message, names, us))
        for status in _list_objects(value, "statuses", batch.drafts):
            if (report := _parse_status(status)) is not None:
                batch.reports.append(report)
        for error in _list_objects(value, "errors", batch.drafts):
            _log.warning("Meta reports an error: %s", describe(read_code(error), describe_error(error)))
    return batch


def make_unreadable(raw: bytes, why: str, key: str = "") -> WhatsAppDraft:
    """Return the event for something that cannot be read. `key`: its id, if it has one."""
    key = key or f"unreadable/{hashlib.sha256(raw).hexdigest()}"
    return WhatsAppDraft(Incoming("unreadable", scrub(key)[:500], raw=raw, why=why[:300]))


def _list_values(payload: Json, odd: list[WhatsAppDraft]) -> Iterator[Json]:
    """Yield the changes that concern messages, of any number. What is none, though it should be one, goes to `odd`."""
    for entry in _list_objects(payload, "entry", odd, is_needed=True):
        for change in _list_objects(entry, "changes", odd, is_needed=True):
            field, value = change.get("field"), change.get("value")
            if field == "messages" and isinstance(value, dict):
                yield value
            elif field == "messages" or not isinstance(field, str):
                odd.append(_keep_odd(change, "its field or its value is not as documented"))


def _list_objects(parent: Json, key: str, odd: list[WhatsAppDraft], is_needed: bool = False) -> list[Json]:
    """Return the objects of a list. One that is no list, or is needed and missing, goes to `odd`, as each item does
    that is no object."""
    items = parent.get(key)
    if items is None and not is_needed:
        return []
    if not isinstance(items, list):
        odd.append(_keep_odd(parent, f"its {key} is no list"))
        return []
    odd.extend(_keep_odd({key: item}, f"an item of its {key} is no object") for item in items if type(item) is not dict)
    return objects_in(items)


def _keep_odd(content: Json, why: str) -> WhatsAppDraft:
    """Return the event for a piece of a request that is not as documented."""
    return make_unreadable(json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace"), why)


def _read_names(contact: Json) -> Iterator[tuple[str, str]]:
    name = text_at(contact, "profile", "name") or text_at(contact, "profile", "username") or ""
    for id in (text_at(contact, "wa_id"), text_at(contact, "user_id")):
        if id:
            yield id, scrub(name)


def _parse_or_keep(message: Json, names: dict[str, str], us: str) -> list[WhatsAppDraft]:
    try:
        return _parse_message(message, names, us)
    except Exception as error:  # one odd message must not block the others of its request (Law 1)
        raw = json.dumps(message, ensure_ascii=False, default=repr).encode("utf-8", "backslashreplace")
        why = f"it cannot be read ({type(error).__name__}: {error})"
        return [make_unreadable(raw, why, f"message/{id}" if (id := text_at(message, "id")) else "")]


def _parse_message(message: Json, names: dict[str, str], us: str) -> list[WhatsAppDraft]:
    kind = text_at(message, "type")
    if kind == "system":
        _log.info("WhatsApp reports: %s", scrub(text_at(message, "system", "body") or "a change of an account"))
        return []
    account = text_at(message, "from") or text_at(message, "from_user_id") or ""
    group = text_at(message, "group_id")
    place = WhatsAppPlace(group, is_group=True) if group else WhatsAppPlace(account)
    context = object_at(message, "context")
    incoming = Incoming(
        "message", str(message["id"]), str(parse_address(str(place))), Person(account, names.get(account, "")),
        at=float(message["timestamp"]), of=text_at(context, "id"), group=place.is_group,
        mentioned=place.is_group and bool(us) and text_at(context, "from") == us,
        data={"forwarded": SOMEBODY} if context.get("forwarded") or context.get("frequently_forwarded") else {},
    )  # fmt: skip
    match kind:
        case "reaction":
            emoji = text_at(message, "reaction", "emoji") or ""
            of = str(message["reaction"]["message_id"])
            return [WhatsAppDraft(replace(incoming, kind="reaction", text=scrub(emoji), of=of, removed=not emoji))]
        case "revoke":
            return [WhatsAppDraft(replace(incoming, kind="delete", of=str(message["revoke"]["original_message_id"])))]
        case "edit":
            edited, of = object_at(message, "edit", "message"), str(message["edit"]["original_message_id"])
            return [WhatsAppDraft(replace(incoming, kind="edit", text=read_text(edited) or EMPTY, of=of))]
        case "request_welcome":
            return [WhatsAppDraft(replace(incoming, text="/start", opens=True))]
        case "interactive" if (press := _read_press(message)) is not None:
            return _make_press(incoming, *press)
    file = read_file_of(message)
    text = read_text(message) or ("" if file is not None else EMPTY)
    return [WhatsAppDraft(replace(incoming, text=text), () if file is None else (file,))]


def _read_press(message: Json) -> tuple[str, str] | None:
    """Return (the key of our part, the answer) of a press; None if it is not of a button of ours."""
    reply = object_at(message, "interactive")
    id = text_at(reply, text_at(reply, "type") or "", "id")
    key, mark, answer = (id or "").partition(BUTTON_MARK)
    return (key, answer) if key and mark and answer and text_at(message, "context", "id") else None


def _make_press(incoming: Incoming, key: str, answer: str) -> list[WhatsAppDraft]:
    """Return the report that our message arrived, and the answer."""
    asked = incoming.of or ""
    answering = replace(
        incoming, key=press_key(answer, asked, incoming.key), text=scrub(answer), mentioned=True, data={}
    )
    return [WhatsAppDraft(Incoming("echo", key, of=asked)), WhatsAppDraft(answering)]


def _parse_status(status: Json) -> StatusReport | None:
    """Parse a status; None if it is not of a message of ours, or cannot be read: nothing depends on a single one."""
    id, key = text_at(status, "id"), text_at(status, "biz_opaque_callback_data")
    if not id or not key:
        return None
    kind = text_at(status, "status") or ""
    recipient = text_at(status, "recipient_id") or text_at(status, "recipient_user_id") or ""
    address = str(WhatsAppPlace(recipient, is_group=status.get("recipient_type") == "group"))
    error = next(iter(objects_in(status.get("errors"))), {})
    code = read_code(error)
    failure = describe(code, describe_error(error) or "it failed") if kind == "failed" else ""
    stamp = text_at(status, "timestamp") or ""
    at = float(stamp) if stamp.isascii() and stamp.isdigit() and len(stamp) <= 12 else 0.0
    return StatusReport(id, scrub(key), address, kind in _HAS_ARRIVED, failure, code, at)
