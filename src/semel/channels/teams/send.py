"""Send a part: calls that nobody sees first, then exactly one that shows it.

| part | call, below `URL/v3/conversations` |
|---|---|
| post in a chat or a thread | `POST /ID/activities` |
| post in a channel | `POST` of a conversation with its first message: it begins a thread |
| file | as a post: a picture, or the offer of a file, which an edit makes the file (`semel.channels.teams.consents`) |
| edit | `PUT /ID/activities/MESSAGE` |
| delete | `DELETE /ID/activities/MESSAGE` |
| typing | `POST /ID/activities` with `type: "typing"` |
| before the first message to who never wrote, or deleted the chat | `POST` of a conversation, which nobody sees |

Source: https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference, "Conversation
operations", and
https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/send-proactive-messages.
"""

from __future__ import annotations

import json
from urllib.parse import quote

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import TeamsPlace, parse_address, parse_message_id
from semel.channels.teams.cards import make_card_message
from semel.channels.teams.files import make_file_message
from semel.channels.teams.receipts import check_reply, receipt_of
from semel.channels.teams.receive import TeamsReceiver
from semel.channels.teams.render import render
from semel.channels.teams.settings import TeamsSettings
from semel.channels.teams.transport import TeamsApi, TeamsReply, TokenRefused
from semel.channels.uploads import read_file
from semel.gateway.ports import REPEAT_PREFIX, NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, text_at

MAX_TEXT_UNITS = 8_000
"""Length of one message in UTF-16 units: with its mark-up, it stays below the 100 KB that Teams takes."""
MAX_MESSAGE_BYTES = 100_000
"""Bytes of a message in UTF-16, without its pictures."""
_MAX_REMEMBERED = 500
_DELETED = "ConversationNotFound"


class TeamsSender:
    """The sending half of one bot."""

    def __init__(self, api: TeamsApi, settings: TeamsSettings, receiver: TeamsReceiver) -> None:
        self._api = api
        self._settings = settings
        self._receiver = receiver
        self._opened = RecentMap[str, str](_MAX_REMEMBERED)  # ids of personal chats that were opened by a call
        self._deleted = RecentMap[str, str](_MAX_REMEMBERED)  # persons, by ids of chats that they deleted

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown."""
        try:
            receipt = await self._attempt(op)
        except (NotSent, Unknown) as error:
            if isinstance(error, TokenRefused | Unknown) or error.retry_after is None:
                self._receiver.doubt_account()
            raise
        if op.kind in ("post", "file"):
            self._receiver.note_message(receipt.id)
        return receipt

    async def _attempt(self, op: Op) -> Receipt:
        try:
            place, id = (
                parse_message_id(op.target or "") if op.kind in ("edit", "delete") else (parse_address(op.address), "")
            )
        except ValueError as error:
            raise Rejected(str(error)) from None
        message = await self._make_message(op, place)
        if op.kind in ("post", "file") and place.begins_threads:
            reply = await self._begin_thread(place, message or {})
        else:
            path = f"/{quote(id, safe='')}" if id else ""
            method = {"post": "POST", "file": "POST", "edit": "PUT", "delete": "DELETE"}[op.kind]
            reply = await self._call(method, place, path, message)
        return receipt_of(op, place, reply)

    async def _make_message(self, op: Op, place: TeamsPlace) -> Json | None:
        """Return the message of a part; None of a deletion. Raises Rejected."""
        if op.kind == "delete":
            return None
        if op.kind != "file":
            return make_message(op)
        content = await read_file(op)
        if len(content) > self._settings.file_limit:
            raise Rejected(f"the file is larger than {self._settings.file_limit:,} bytes")
        return make_file_message(op, place, content)

    async def show_typing(self, address: str) -> None:
        """Show that an answer is on its way."""
        place = parse_address(address)
        if not place.begins_threads:
            await self._call("POST", place, "", {"type": "typing"})

    async def _call(self, method: str, place: TeamsPlace, path: str, body: Json | None) -> TeamsReply:
        places = await self._receiver.load_places()
        known = places.find_conversation(place)
        if known in self._deleted:
            known = self._opened.get(place.person)
        reply = await self._call_in(known or await self._open(place), method, place, path, body)
        if known and place.person and reply.status == 404 and reply.code == _DELETED:
            self._deleted[known] = place.person
            self._opened.pop(place.person, None)
            reply = await self._call_in(await self._open(place), method, place, path, body)
        return reply

    async def _call_in(
        self, conversation: str, method: str, place: TeamsPlace, path: str, body: Json | None
    ) -> TeamsReply:
        places = await self._receiver.load_places()
        target = f"/{quote(conversation, safe='')}/activities{path}"
        return await self._api.call_conversations(method, places.find_url(place), target, body)

    async def _begin_thread(self, place: TeamsPlace, message: Json) -> TeamsReply:
        places = await self._receiver.load_places()
        body = self._describe_conversation() | {
            "isGroup": True,
            "channelData": {"channel": {"id": place.chat}},
            "activity": message,
        }
        return await self._api.call_conversations("POST", places.find_url(place), "", body)

    async def _open(self, place: TeamsPlace) -> str:
        """Return Teams' id of the personal chat with a person, which nobody sees yet. Raises NotSent or Rejected."""
        if place.person not in self._opened:
            places = await self._receiver.load_places()
            body = self._describe_conversation() | {"isGroup": False, "members": [{"id": place.person}]}
            try:
                reply = check_reply(await self._api.call_conversations("POST", places.find_url(place), "", body))
            except Unknown as error:
                raise NotSent(f"the chat could not be opened: {error}") from None
            id = text_at(reply.data, "id")
            if not id:
                raise NotSent("the chat could not be opened: Teams' answer names none")
            self._opened[place.person] = id
        return self._opened[place.person]

    def _describe_conversation(self) -> Json:
        return {"bot": {"id": f"28:{self._settings.app_id}"}, "tenantId": self._settings.tenant}


def make_message(op: Op) -> Json:
    """Return the message with the text and the buttons of a part. Raises Rejected.

    A card that is too large is left out: the text says how to answer without buttons.
    """
    text = (REPEAT_PREFIX if op.marked else "") + op.text
    if not op.text.strip():
        raise Rejected("there is nothing to see in this message: Teams takes no empty one")
    if op.buttons:
        card = make_card_message(text, op.key, op.buttons)
        if measure_message(card) <= MAX_MESSAGE_BYTES:
            return card
    return {"type": "message", **render(text)}


def measure_message(message: Json) -> int:
    """Return the size of a message in bytes, in UTF-16."""
    return len(json.dumps(message, ensure_ascii=False).encode("utf-16-le", "surrogatepass"))
