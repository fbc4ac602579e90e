"""The double itself, in memory: the bot, the people, what they do, and what the bot sends."""

from __future__ import annotations

import itertools
import json
import random
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from semel.channels.teams.files import CONSENT_NAME, DOWNLOAD_TYPE
from semel.testing.teams.messages import is_taken, read_text
from semel.testing.teams.model import (
    APP_ID,
    MAX_MESSAGE_BYTES,
    PIECE_UNIT_BYTES,
    TENANT,
    ConnectorError,
    FaultKind,
    SigningKey,
    TeamsConversation,
    TeamsFault,
    TeamsPerson,
    TeamsUpload,
)
from semel.testing.webhook_posts import Delivery
from semel.text.json_types import Json, list_at, object_at, objects_in, text_at

TOKEN_LIFE_S = 3600
MAX_ATTEMPTS = 4
RATES = ((1.0, 7), (2.0, 8), (30.0, 60), (3600.0, 1800))
"""(seconds, how many messages may go to one conversation in them)."""
BOT = {"id": f"28:{APP_ID}", "name": "Semel"}


class TeamsDouble:
    """One bot. The package's docstring lists what is modelled.

    `now`: returns seconds since the epoch. `limits`: whether messages are limited in number. `repeat_s`: after how many
    seconds a request that was not taken comes again. `shuffle`: whether requests come in any order. `callback`: the
    address of the webhook. `service_url`: where Teams says that it is served.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        limits: bool = False,
        repeat_s: float = 0.2,
        shuffle: bool = False,
    ) -> None:
        self.now = now
        self.limits = limits
        self.repeat_s = repeat_s
        self.shuffle = shuffle
        self.callback = ""
        self.service_url = ""
        self.is_disabled = False  # by the administrator
        self.keys = [SigningKey()]
        self.tokens: dict[str, float] = {}  # access token -> when it ends
        self.people: dict[str, TeamsPerson] = {}
        self.conversations: dict[str, TeamsConversation] = {}
        self.sent: dict[str, Json] = {}  # our messages, by their ids: {"id", "conversation", "message", "is_deleted"}
        self.requests: list[Json] = []  # calls: {"call", "path", "arguments", "status"}
        self.files: dict[str, bytes] = {}  # what people sent, by id
        self.drive: dict[str, TeamsUpload] = {}  # files in people's OneDrive, by the id of their upload
        self.faults: list[TeamsFault] = []
        self.deliveries: list[Delivery] = []
        self.delivered: list[Json] = []
        self._numbers = itertools.count(1_790_000_000_000)
        self._dice = random.Random(7)
        self._rates: defaultdict[str, deque[float]] = defaultdict(deque)

    def __repr__(self) -> str:
        return f"<TeamsDouble {len(self.people)} people, {len(self.sent)} messages, {len(self.deliveries)} to post>"

    # ------------------------------------------------------------ people and places

    def person(self, name: str, *, id: str = "", has_chat: bool = True) -> str:
        """Add a person. Returns their id. `has_chat`: whether they have the chat with the bot open."""
        id = id or str(uuid.UUID(int=self._dice.getrandbits(128), version=4))
        self.people[id] = TeamsPerson(id, name)
        if has_chat:
            self._open_chat(id)
        return id

    def group(self, name: str, *people: str) -> str:
        """Add a group chat with the bot. Returns its address."""
        return self._add(f"19:{self._dice.getrandbits(128):032x}@thread.v2", "groupChat", name, people).address

    def channel(self, name: str, *people: str) -> str:
        """Add a channel of a team with the bot. Returns its address."""
        return self._add(f"19:{self._dice.getrandbits(128):032x}@thread.tacv2", "channel", name, people).address

    def remove_bot(self, address: str) -> None:
        """Remove the bot from a group chat or a channel."""
        base = self._find(address).base
        for known in list(self.conversations.values()):
            if known.base == base:
                known.people.clear()

    def delete_chat(self, person: str) -> None:
        """Let a person delete the chat with the bot. The next one has another id."""
        del self.conversations[self._find(f"@{person}").id]

    # ------------------------------------------------------------ what people do

    def write(
        self, person: str, text: str, *, address: str = "", mention: bool = True, reply_to: str = "", id: str = ""
    ) -> str:
        """Let a person write. Returns Teams' id of the message. In a channel without a thread, it begins one.

        `address`: by default the chat with the bot. In groups the bot hears only what mentions it.
        """
        conversation = self._find(address or f"@{person}")
        id = id or self._new_id()
        if conversation.kind == "channel" and conversation.id == conversation.base:
            conversation = self._add_thread(conversation, id)
        is_group = conversation.kind != "personal"
        message: Json = {"textFormat": "plain", "text": text, "locale": "en-US"}
        if is_group and mention:
            mark = f"<at>{BOT['name']}</at>"
            message["text"] = f"{mark} {text}\n"
            message["entities"] = [{"type": "mention", "mentioned": BOT, "text": mark}]
        message["attachments"] = [{"contentType": "text/html", "content": f"<p>{text}</p>"}]
        if reply_to:
            message["replyToId"] = reply_to
        if mention or not is_group:
            self.tell(person, conversation.address, {"type": "message", "id": id, **message})
        return id

    def edit(self, person: str, id: str, text: str, *, address: str = "", event: str = "editMessage") -> None:
        """Let a person edit a message, or with `event="undeleteMessage"` take its deletion back."""
        self.tell(
            person, address or f"@{person}",
            {"type": "messageUpdate", "id": id, "text": text, "channelData": {"eventType": event}},
        )  # fmt: skip

    def delete(self, person: str, id: str, *, address: str = "") -> None:
        """Let a person delete a message of theirs."""
        data = {"channelData": {"eventType": "softDeleteMessage"}}
        self.tell(person, address or f"@{person}", {"type": "messageDelete", "id": id, **data})

    def react(self, person: str, id: str, kind: str, *, address: str = "", removed: bool = False) -> None:
        """Let a person react to a message of ours."""
        name = "reactionsRemoved" if removed else "reactionsAdded"
        activity = {"type": "messageReaction", "id": self._new_event(), "replyToId": id, name: [{"type": kind}]}
        self.tell(person, address or f"@{person}", activity)

    def press(self, person: str, id: str, label: str) -> None:
        """Let a person press a button under a message of ours."""
        sent = self.sent[id]
        button = next(each for each in self.buttons(id) if each["title"] == label)
        activity = {"type": "message", "id": self._new_event(), "replyToId": id, "value": button["data"]}
        self.tell(person, self.conversations[sent["conversation"]].address, activity)

    def send_file(self, person: str, name: str, content: str | bytes, *, text: str = "") -> str:
        """Let a person send a file in the chat with the bot. Returns Teams' id of the message."""
        file = self._keep_file(content)
        place = f"{self._origin}/drive/{file}/{name}"
        info = {"downloadUrl": f"{self._origin}/files/{file}", "uniqueId": file, "fileType": name.rpartition(".")[2]}
        attachment = {"contentType": DOWNLOAD_TYPE, "contentUrl": place, "name": name, "content": info}
        return self._tell_message(person, f"@{person}", text, attachment)

    def send_picture(self, person: str, content: bytes, *, text: str = "", address: str = "") -> str:
        """Let a person paste a picture into a message. Returns Teams' id of the message."""
        url = f"{self.service_url.rstrip('/')}/v3/attachments/{self._keep_file(content)}/views/original"
        return self._tell_message(person, address or f"@{person}", text, {"contentType": "image/*", "contentUrl": url})

    def answer_offer(self, person: str, id: str, *, accepts: bool = True, **changed: Any) -> None:
        """Let a person accept or decline the file that a message of ours offers. `changed`: of `uploadInfo`."""
        offer = objects_in(self.sent[id]["message"].get("attachments"))[0]
        value: Json = {"type": "fileUpload", "action": "accept" if accepts else "decline"}
        value["context"] = offer["content"]["acceptContext" if accepts else "declineContext"]
        if accepts:
            name, upload = offer["name"], str(uuid.UUID(int=self._dice.getrandbits(128), version=4))
            self.drive[upload] = TeamsUpload(name, offer["content"]["sizeInBytes"])
            value["uploadInfo"] = {
                "contentUrl": f"{self._origin}/drive/{upload}/{name}", "name": name, "uniqueId": upload,
                "uploadUrl": f"{self._origin}/uploads/{upload}", "fileType": name.rpartition(".")[2], **changed,
            }  # fmt: skip
        invoke = {"type": "invoke", "name": CONSENT_NAME, "id": self._new_event(), "replyToId": id, "value": value}
        self.tell(person, f"@{person}", invoke)

    def install(self, person: str) -> None:
        """Let a person add the app."""
        self._open_chat(person)
        self.tell(person, f"@{person}", {"type": "installationUpdate", "action": "add", "id": self._new_event()})

    def tell(self, person: str, address: str, activity: Json) -> None:
        """Let an activity of a person be posted."""
        conversation = self._find(address)
        who = self.people[person]
        data: Json = {"tenant": {"id": TENANT}, **object_at(activity, "channelData")}
        if conversation.kind == "channel":
            data |= {
                "channel": {"id": conversation.base, "name": conversation.name},
                "team": {"id": "19:team@thread.tacv2"},
            }
        stamp = (
            datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{next(self._numbers) % 10}Z"
        )
        described = conversation.describe()
        if activity["type"] == "messageReaction":  # which names no thread
            described["id"] = conversation.base
        whole = {
            "timestamp": stamp, "serviceUrl": self.service_url, "channelId": "msteams", "from": who.account,
            "conversation": described, "recipient": BOT, **activity, "channelData": data,
        }  # fmt: skip
        self.deliveries.append(Delivery(whole))

    # ------------------------------------------------------------ what the tester sees and does

    def shown(self, address: str) -> list[Json]:
        """Return our messages that people see there, in order: {"id", "conversation", "message", "is_deleted"}."""
        ids = {known.id for known in self.conversations.values() if known.address == address}
        return [sent for sent in self.sent.values() if sent["conversation"] in ids and not sent["is_deleted"]]

    def texts(self, address: str) -> list[str]:
        """Return what people read there of our messages, in order."""
        return [read_text(sent["message"]) for sent in self.shown(address)]

    def buttons(self, id: str) -> list[Json]:
        """Return the buttons under a message of ours."""
        cards = [each["content"] for each in objects_in(self.sent[id]["message"].get("attachments"))]
        return [action for card in cards for block in card["body"] for action in list_at(block, "actions")]

    def fail(
        self, call: str, how: FaultKind, *, after: bool = False, times: int | None = 1, status: int = 400,
        code: str = "BadArgument",
    ) -> None:  # fmt: skip
        """Add a `TeamsFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(TeamsFault(call, how, after, times, status, code))

    def post_again(self) -> None:
        """Post everything again, as after lost answers."""
        self.deliveries += [Delivery(activity) for activity in self.delivered]

    def take_requests(self) -> list[tuple[dict[str, str], bytes]]:
        """Return the requests that wait to be posted, as (headers, body)."""
        activities = [delivery.payload for delivery in self.deliveries]
        self.deliveries.clear()
        self.delivered += activities
        return [self.make_request(activity) for activity in activities]

    def make_request(self, payload: Json, **claims: Any) -> tuple[dict[str, str], bytes]:
        """Return (headers, body) of the request that delivers an activity. `claims`: see `SigningKey.sign`."""
        token = self.keys[0].sign(str(payload["serviceUrl"]), self.now(), **claims)
        return {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}, json.dumps(payload).encode()

    # ------------------------------------------------------------ what the server calls

    def fault(self, call: str) -> TeamsFault | None:
        """Return the fault that strikes a call of this name, or None."""
        return next((fault for fault in self.faults if fault.fits(call)), None)

    def give_token(self) -> Json:
        """Return the answer with a new access token."""
        token = f"token-{next(self._numbers)}"
        self.tokens[token] = self.now() + TOKEN_LIFE_S
        return {
            "token_type": "Bearer",
            "expires_in": TOKEN_LIFE_S,
            "ext_expires_in": TOKEN_LIFE_S,
            "access_token": token,
        }

    def check_access(self, token: str) -> None:
        """Check an access token. Raises ConnectorError."""
        if self.tokens.get(token, 0.0) < self.now():
            raise ConnectorError(401, "BotNotRegistered", "No registration found for this bot.")
        if self.is_disabled:
            raise ConnectorError(403, "BotDisabledByAdmin", "The tenant admin disabled this bot.")

    def take_activity(self, conversation: str, activity: Json) -> Json:
        """Take a new activity of the bot. Returns the answer. Raises ConnectorError."""
        known = self._check_place(conversation)
        if activity.get("type") == "typing":
            return {}
        if known.id == known.base and known.kind == "channel":
            raise ConnectorError(400, "BadSyntax", "A channel's message needs a conversation of its own.")
        self._check_message(activity, known)
        self._count(known.base)
        if activity.get("text") and activity.get("attachments"):  # Teams splits it, and names neither
            self._keep(known, {**activity, "attachments": []})
            self._keep(known, {**activity, "text": ""})
            return {}
        return {"id": self._keep(known, activity)}

    def create_conversation(self, parameters: Json) -> Json:
        """Create a conversation. Returns the answer. Raises ConnectorError."""
        if text_at(parameters, "bot", "id") != BOT["id"]:
            raise ConnectorError(400, "BadSyntax", "Incorrect bot id")
        channel = text_at(parameters, "channelData", "channel", "id")
        if channel:
            base = self._check_place(channel)
            message = object_at(parameters, "activity")
            self._check_message(message, base)
            self._count(base.base)
            thread = self._add_thread(base, self._new_id())
            id = self._keep(thread, message, thread.id.rpartition("=")[2])
            return {"id": thread.id, "activityId": id}
        members = objects_in(parameters.get("members"))
        person = next(
            (
                each
                for each in self.people.values()
                if members and members[0].get("id") in (each.id, each.account["id"])
            ),
            None,
        )
        if person is None or len(members) != 1 or parameters.get("tenantId") != TENANT:
            raise ConnectorError(400, "BadSyntax", "Bad format of conversation parameters")
        if not person.has_app:
            raise ConnectorError(
                403, "ForbiddenOperationException", "The bot is not installed in user's personal scope"
            )
        return {"id": self._open_chat(person.id).id}

    def change_message(self, conversation: str, id: str, activity: Json | None) -> Json | None:
        """Edit a message of the bot; delete it if there is no activity. Returns the answer. Raises ConnectorError."""
        known = self._check_place(conversation)
        sent = self.sent.get(id)
        if sent is None or sent["is_deleted"] or self.conversations[sent["conversation"]].base != known.base:
            raise ConnectorError(404, "ActivityNotFoundInConversation", "The activity was not found.")
        if activity is None:
            sent["is_deleted"] = True
            return None
        self._check_message(activity, known)
        sent["message"] = activity
        return {"id": id}

    def take_piece(self, upload: str, content_range: str, piece: bytes) -> int:
        """Take a piece of a file for somebody's OneDrive. Returns the status of the answer."""
        file = self.drive.get(upload)
        if file is None or file.is_whole:
            return 404
        start = len(file.content)
        if content_range != f"bytes {start}-{start + len(piece) - 1}/{file.size}":
            return 416
        if len(piece) % PIECE_UNIT_BYTES and start + len(piece) < file.size:
            return 400
        file.content += piece
        return 201 if file.is_whole else 202

    # ------------------------------------------------------------ what the poster calls

    def next_delivery(self, at: float) -> Delivery | None:
        """Return an activity to post now, if one is due. `at`: the loop's time."""
        due = [delivery for delivery in self.deliveries if delivery.due <= at]
        if not due:
            return None
        return self._dice.choice(due) if self.shuffle else due[0]

    def note_delivery(self, delivery: Delivery, status: int, at: float) -> None:
        """Note how a request was answered: one that was not taken comes again a few times."""
        was_taken = 200 <= status < 300
        delivery.attempts += 1
        delivery.due = at + self.repeat_s
        if was_taken:
            self.delivered.append(delivery.payload)
        if was_taken or delivery.attempts >= MAX_ATTEMPTS:
            self.deliveries.remove(delivery)

    # ------------------------------------------------------------ inside

    @property
    def _origin(self) -> str:
        return self.service_url.removesuffix("/").removesuffix("/teams")

    def _keep_file(self, content: str | bytes) -> str:
        id = f"0-file-{next(self._numbers)}"
        self.files[id] = content.encode() if isinstance(content, str) else content
        return id

    def _tell_message(self, person: str, address: str, text: str, attachment: Json) -> str:
        id = self._new_id()
        message: Json = {"textFormat": "plain", "text": text, "attachments": [attachment]}
        if not address.startswith("@"):
            mark = f"<at>{BOT['name']}</at>"
            message |= {"text": f"{mark} {text}", "entities": [{"type": "mention", "mentioned": BOT, "text": mark}]}
        self.tell(person, address, {"type": "message", "id": id, **message})
        return id

    def _new_id(self) -> str:
        return str(next(self._numbers))

    def _new_event(self) -> str:
        return f"f:{uuid.UUID(int=self._dice.getrandbits(128), version=4)}"

    def _find(self, address: str) -> TeamsConversation:
        return next(known for known in self.conversations.values() if known.address == address)

    def _add(self, id: str, kind: Any, name: str, people: Any) -> TeamsConversation:
        self.conversations[id] = TeamsConversation(id, kind, id, id, name, set(people))
        return self.conversations[id]

    def _add_thread(self, channel: TeamsConversation, message: str) -> TeamsConversation:
        id = f"{channel.base};messageid={message}"
        return self.conversations.setdefault(
            id, TeamsConversation(id, "channel", id, channel.base, channel.name, channel.people)
        )

    def _open_chat(self, person: str) -> TeamsConversation:
        address = f"@{person}"
        known = next((each for each in self.conversations.values() if each.address == address), None)
        id = f"a:1{next(self._numbers)}{person.replace('-', '') * 4}"[:131]
        return known or self.conversations.setdefault(
            id, TeamsConversation(id, "personal", address, id, people={person})
        )

    def _check_place(self, conversation: str) -> TeamsConversation:
        known = self.conversations.get(conversation)
        if known is None:
            raise ConnectorError(404, "ConversationNotFound", "Conversation not found.")
        if not known.people:
            raise ConnectorError(403, "BotNotInConversationRoster", "The bot is not part of the conversation roster.")
        if known.kind == "personal" and not all(self.people[id].has_app for id in known.people):
            raise ConnectorError(403, "MessageWritesBlocked", "Thread is blocked from message writes.")
        if known.kind == "personal" and any(self.people[id].has_blocked for id in known.people):
            raise ConnectorError(403, "ConversationBlockedByUser", "User blocked the conversation with the bot.")
        return known

    def _check_message(self, activity: Json, conversation: TeamsConversation) -> None:
        if activity.get("type") != "message" or activity.get("textFormat", "markdown") not in (
            "plain",
            "markdown",
            "xml",
        ):
            raise ConnectorError(400, "BadSyntax", "Bad format of activity")
        attachments = objects_in(activity.get("attachments"))
        if not str(activity.get("text") or "").strip() and not attachments:
            raise ConnectorError(400, "BadSyntax", "Activity has no content")
        without_pictures = {**activity, "attachments": [{**each, "contentUrl": ""} for each in attachments]}
        if len(json.dumps(without_pictures, ensure_ascii=False).encode("utf-16-le")) > MAX_MESSAGE_BYTES:
            raise ConnectorError(413, "MessageSizeTooBig", "Message size too large.")
        if not all(is_taken(attachment, conversation) for attachment in attachments):
            raise ConnectorError(400, "BadSyntax", "The attachment is not valid")

    def _count(self, base: str) -> None:
        """Count a message. Raises ConnectorError if there are too many."""
        sent, now = self._rates[base], self.now()
        for seconds, most in RATES if self.limits else ():
            if sum(at > now - seconds for at in sent) >= most:
                raise ConnectorError(429, "Throttled", "Too many requests.", retry_after=int(seconds))
        sent.append(now)
        while len(sent) > RATES[-1][1]:
            sent.popleft()

    def _keep(self, conversation: TeamsConversation, activity: Json, id: str = "") -> str:
        id = id or self._new_id()
        self.sent[id] = {"id": id, "conversation": conversation.id, "message": activity, "is_deleted": False}
        return id
