"""The double itself, in memory: the number, the people, what they do, and what the number sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Literal

from semel.testing.webhook_posts import Delivery
from semel.testing.whatsapp.messages import check_message, check_upload, fill_template
from semel.testing.whatsapp.model import (
    APP_SECRET,
    DISPLAY_NUMBER,
    NUMBER_ID,
    TOKEN,
    VERIFY_TOKEN,
    FaultKind,
    GraphError,
    StoredMedia,
    WhatsAppFault,
    WhatsAppPerson,
    invalid,
)
from semel.text.json_types import Json, list_at, object_at, objects_in, text_at

WINDOW_S = 24 * 3600.0
REACTABLE_S = 30 * 24 * 3600.0
URL_LIFE_S = 300.0
PAIR_BURST, PAIR_INTERVAL_S = 45, 6.0
MAX_MESSAGES_PER_S = 80
MAX_REPEAT_S = 2.0


class WhatsAppDouble:
    """One business phone number. The package's docstring lists what is modelled.

    `now`: returns seconds since the epoch. `limits`: whether messages are limited in number. `repeat_s`: after how many
    seconds a request that was not answered with 200 comes again; then after twice as many, and so on. `shuffle`:
    whether requests come in any order. `window_answer`: how a message after the 24 hours is refused. `statuses`:
    whether Meta reports on messages. `callback`: the address of the webhook.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.time, limits: bool = False, repeat_s: float = 0.2,
        shuffle: bool = False, window_answer: Literal["answer", "status"] = "answer", statuses: bool = True,
    ) -> None:  # fmt: skip
        self.now = now
        self.limits = limits
        self.repeat_s = repeat_s
        self.shuffle = shuffle
        self.window_answer = window_answer
        self.statuses = statuses
        self.callback = ""
        self.token, self.app_secret, self.verify_token = TOKEN, APP_SECRET, VERIFY_TOKEN
        self.scopes = ["whatsapp_business_management", "whatsapp_business_messaging"]
        self.expires_at = 0
        self.url = ""  # of the Graph API, once it is served
        self.people: dict[str, WhatsAppPerson] = {}
        self.groups: dict[str, set[str]] = {}
        self.media: dict[str, StoredMedia] = {}
        self.templates: dict[tuple[str, str], str] = {}  # (name, language) -> its body, with {{1}}
        self.sent: dict[str, Json] = {}  # our messages, by id: {"id", "address", "message", "at"}
        self.heard: dict[str, Json] = {}  # people's messages, by id
        self.requests: list[Json] = []  # calls: {"call", "arguments", "status"}
        self.faults: list[WhatsAppFault] = []
        self.deliveries: list[Delivery] = []
        self.delivered: list[Json] = []  # payloads, in the order in which they were answered with 200
        self._numbers = itertools.count(1)
        self._dice = random.Random(7)
        self._to: defaultdict[str, deque[float]] = defaultdict(deque)

    def __repr__(self) -> str:
        return f"<WhatsAppDouble {len(self.people)} people, {len(self.sent)} messages, {len(self.deliveries)} to post>"

    # ------------------------------------------------------------ people

    def person(self, wa_id: str, name: str, *, wrote: bool = True, hides_number: bool = False) -> str:
        """Add a person. Returns their address. `wrote`: whether they have written within the last 24 hours."""
        person = WhatsAppPerson(wa_id, name, self.now() if wrote else 0.0, hides_number)
        self.people[person.address] = person
        return person.address

    def group(self, id: str, *people: str) -> str:
        """Add a group. Returns its id."""
        self.groups[id] = set(people)
        return id

    # ------------------------------------------------------------ what people do

    def write(
        self, person: str, text: str, *, reply_to: str | None = None, forwarded: bool = False, group: str | None = None
    ) -> str:
        """Let a person write. Returns the message's id."""
        context: Json = {}
        if reply_to is not None:
            context = {"from": self._digits if reply_to in self.sent else person, "id": reply_to}
        if forwarded:
            context["forwarded"] = True
        more: Json = {"context": context} if context else {}
        return self.tell(person, {"type": "text", "text": {"body": text}, **more}, group=group)

    def send_file(
        self, person: str, name: str, content: bytes | str, mime: str = "text/plain", caption: str = ""
    ) -> str:
        """Let a person send a file. Returns the message's id."""
        content = content.encode() if isinstance(content, str) else content
        media = self.keep_media(name, mime, content)
        kind = mime.partition("/")[0] if mime.startswith(("image/", "audio/", "video/")) else "document"
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        about: Json = {"id": media.id, "mime_type": mime, "sha256": digest}
        about |= {"filename": name} if kind == "document" else {}
        about |= {"caption": caption} if caption else {}
        return self.tell(person, {"type": kind, kind: about})

    def react(self, person: str, message: str, emoji: str) -> str:
        """Let a person react to a message; "" takes the reaction back. Returns the id of the reaction."""
        about = {"message_id": message, **({"emoji": emoji} if emoji else {})}
        return self.tell(person, {"type": "reaction", "reaction": about})

    def press(self, person: str, message: str, label: str) -> str:
        """Let a person press a button, or choose a row. Returns the id of their message."""
        interactive = object_at(self.sent[message], "message", "interactive")
        action = object_at(interactive, "action")
        if interactive["type"] == "button":
            kind, options = "button_reply", [button["reply"] for button in action["buttons"]]
        else:
            kind, options = "list_reply", [row for section in action["sections"] for row in section["rows"]]
        option = next(option for option in options if label in (option["title"], option.get("description")))
        context = {"from": self._digits, "id": message}
        return self.tell(
            person, {"type": "interactive", "interactive": {"type": kind, kind: option}, "context": context}
        )

    def edit(self, person: str, message: str, text: str) -> str:
        edited = {"original_message_id": message, "message": {"type": "text", "text": {"body": text}}}
        return self.tell(person, {"type": "edit", "edit": edited})

    def revoke(self, person: str, message: str) -> str:
        return self.tell(person, {"type": "revoke", "revoke": {"original_message_id": message}})

    def tell(self, person: str, message: Json, *, id: str = "", group: str | None = None) -> str:
        """Let a message of a person be posted. Returns its id. `id`: by default a new one."""
        who = self.people[person]
        who.heard_at = self.now()
        origin: Json = {"from_user_id": who.user_id} | ({} if who.hides_number else {"from": who.wa_id})
        whole = {
            **origin, "id": id or self._new_id(), "timestamp": str(int(self.now())), **message,
            **({"group_id": group} if group else {}),
        }  # fmt: skip
        self.heard[whole["id"]] = whole
        self._post({"contacts": [who.describe()], "messages": [whole]})
        return str(whole["id"])

    def read(self, person: str) -> None:
        """Let a person read all messages to them."""
        for id, sent in self.sent.items():
            if sent["address"] == person:
                self._report(id, "read")

    # ------------------------------------------------------------ what the tester sees and does

    def shown(self, address: str) -> list[Json]:
        """Return our messages that people see there, in order: {"id", "address", "message", "at"}."""
        return [sent for sent in self.sent.values() if sent["address"] == address and not sent["failed"]]

    def texts(self, address: str) -> list[str]:
        """Return what people read there of our messages, in order."""
        messages = [sent["message"] for sent in self.shown(address)]
        return [self._read_text(message) for message in messages if message["type"] != "reaction"]

    def fail(
        self, call: str, how: FaultKind, *, after: bool = False, times: int | None = 1, code: int = 131000,
        status: int = 400,
    ) -> None:  # fmt: skip
        """Add a `WhatsAppFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(WhatsAppFault(call, how, after, times, code, status))

    def post_again(self) -> None:
        """Post everything again, as after lost answers."""
        self.deliveries += [Delivery(payload) for payload in self.delivered]

    def take_requests(self, *, together: bool = False) -> list[tuple[dict[str, str], bytes]]:
        """Return the requests that wait to be posted, as (headers, body). `together`: all changes in one request."""
        payloads = [delivery.payload for delivery in self.deliveries]
        self.deliveries.clear()
        self.delivered += payloads
        if together and payloads:
            payloads = [{**payloads[0], "entry": [entry for payload in payloads for entry in payload["entry"]]}]
        return [self.make_request(payload) for payload in payloads]

    def make_request(self, payload: Json) -> tuple[dict[str, str], bytes]:
        """Return (headers, body) of the request that delivers a payload."""
        body = json.dumps(payload).encode()
        signature = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
        return {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"}, body

    # ------------------------------------------------------------ what the server calls

    def fault(self, call: str) -> WhatsAppFault | None:
        """Return the fault that strikes a call of this name, or None."""
        return next((fault for fault in self.faults if fault.fits(call)), None)

    def check_access(self, token: str, proof: str | None) -> None:
        """Check the token and the proof of the app's secret. Raises GraphError."""
        if token != self.token:
            raise GraphError(190, "Invalid OAuth access token - Cannot parse access token", status=401)
        right = hmac.new(self.app_secret.encode(), self.token.encode(), hashlib.sha256).hexdigest()
        if proof is not None and proof != right:
            raise GraphError(100, "Invalid appsecret_proof provided in the API argument")

    def describe_number(self) -> Json:
        return {"id": NUMBER_ID, "display_phone_number": DISPLAY_NUMBER, "verified_name": "Semel"}

    def describe_token(self) -> Json:
        about = {"app_id": "1", "type": "SYSTEM_USER", "is_valid": True, "expires_at": self.expires_at}
        return {"data": {**about, "scopes": self.scopes}}

    def describe_media(self, id: str) -> Json:
        """Return where a file is. Raises GraphError."""
        media = self.media.get(id)
        if media is None:
            raise no_such_object(id)
        media.url_until = self.now() + URL_LIFE_S
        digest = hashlib.sha256(media.content).hexdigest()
        return {
            "messaging_product": "whatsapp", "url": f"{self.url}/files/{id}", "mime_type": media.mime,
            "sha256": digest, "file_size": len(media.content), "id": id,
        }  # fmt: skip

    def upload(self, fields: Json) -> Json:
        """Keep an uploaded file. Raises GraphError."""
        if fields.get("messaging_product") != "whatsapp":
            raise invalid("The parameter messaging_product is required.")
        file = fields.get("file")
        if not isinstance(file, dict):
            raise invalid("The parameter file is required.")
        media = StoredMedia("", file["name"], file["mime"], file["content"])
        check_upload(media.mime, media)
        return {"id": self.keep_media(media.name, media.mime, media.content).id}

    def take(self, message: Json) -> Json:
        """Take a message, or a mark that one was read. Raises GraphError."""
        if message.get("messaging_product") != "whatsapp":
            raise invalid("The parameter messaging_product is required.")
        if message.get("status") == "read":
            if message.get("message_id") not in self.heard:
                raise invalid("Param message_id is no message of a person")
            return {"success": True}
        to = message.get("to") or message.get("recipient")
        if not isinstance(to, str):
            raise invalid("The parameter to is required.")
        is_group = message.get("recipient_type") == "group"
        if is_group and to not in self.groups:
            raise bad_value_of_recipient()
        if to.lstrip("+") == self._digits:
            raise GraphError(131021, "Recipient cannot be sender")
        check_message(self, message)
        address = f"group-{to}" if is_group else to.lstrip("+")
        self._count(address)
        later = self._check_window(address, message)
        id = self._new_id()
        failed = later or self._find_late_failure(address, message)
        self.sent[id] = {
            "id": id, "address": address, "message": message, "at": self.now(), "failed": failed is not None,
        }  # fmt: skip
        if failed is not None:
            self._report(id, "failed", failed)
        else:
            for status in ("sent",) if message["type"] == "reaction" else ("sent", "delivered"):
                self._report(id, status)
        contact = {} if is_group else {"contacts": [{"input": to, "wa_id": address}]}
        return {"messaging_product": "whatsapp", **contact, "messages": [{"id": id}]}

    def keep_media(self, name: str, mime: str, content: bytes) -> StoredMedia:
        media = StoredMedia(str(10**15 + next(self._numbers)), name, mime, content)
        self.media[media.id] = media
        return media

    def next_delivery(self, at: float) -> Delivery | None:
        """Return a request to post now, if one is due. `at`: the loop's time."""
        due = [delivery for delivery in self.deliveries if delivery.due <= at]
        if not due:
            return None
        return self._dice.choice(due) if self.shuffle else due[0]

    def note_delivery(self, delivery: Delivery, status: int, at: float) -> None:
        """Note how a request was answered: one that was not taken comes again later."""
        if status == 200:
            self.deliveries.remove(delivery)
            self.delivered.append(delivery.payload)
            return
        delivery.due = at + min(MAX_REPEAT_S, self.repeat_s * 2**delivery.attempts)
        delivery.attempts += 1

    # ------------------------------------------------------------ inside

    @property
    def _digits(self) -> str:
        return "".join(filter(str.isdigit, DISPLAY_NUMBER))

    def _new_id(self) -> str:
        return f"wamid.{base64.b64encode(f'double {next(self._numbers):08}'.encode()).decode()}"

    def _count(self, address: str) -> None:
        """Count a message. Raises GraphError if there are too many."""
        if not self.limits:
            return
        now, to, all_sent = self.now(), self._to[address], self._to[""]
        while all_sent and all_sent[0] <= now - 1.0:
            all_sent.popleft()
        if len(all_sent) >= MAX_MESSAGES_PER_S:
            raise GraphError(130429, "Rate limit hit")
        while to and to[0] <= now - PAIR_BURST * PAIR_INTERVAL_S:
            to.popleft()
        if len(to) >= PAIR_BURST:
            raise GraphError(131056, "(Business Account, Consumer Account) pair rate limit hit")
        to.append(now)
        all_sent.append(now)

    def _check_window(self, address: str, message: Json) -> GraphError | None:
        """Return the error that is reported later, if only templates go out; None if all is well. Raises GraphError."""
        person = self.people.get(address)
        if message["type"] == "template" or person is None or person.heard_at > self.now() - WINDOW_S:
            return None
        error = GraphError(
            131047, "Re-engagement message",
            details="Message failed to send because more than 24 hours have passed since the customer last replied to "
            "this number.",
        )  # fmt: skip
        if self.window_answer == "answer":
            raise error
        return error

    def _find_late_failure(self, address: str, message: Json) -> GraphError | None:
        if not address.startswith("group-") and address not in self.people:
            return GraphError(131026, "Message undeliverable")
        if message["type"] == "reaction" and not self._takes_reactions(message["reaction"]["message_id"]):
            return GraphError(131009, "Parameter value is not valid")
        return None

    def _takes_reactions(self, id: str) -> bool:
        """Return whether there is such a message, at most 30 days old, that is no reaction itself."""
        if id in self.sent:
            sent = self.sent[id]
            return bool(sent["message"]["type"] != "reaction" and sent["at"] >= self.now() - REACTABLE_S)
        heard = self.heard.get(id)
        if heard is None or heard["type"] == "reaction":
            return False
        return int(heard["timestamp"]) >= self.now() - REACTABLE_S

    def _report(self, id: str, status: str, error: GraphError | None = None) -> None:
        if not self.statuses:
            return
        sent = self.sent[id]
        is_group = sent["address"].startswith("group-")
        report: Json = {
            "id": id, "status": status, "timestamp": str(int(self.now())),
            "recipient_id": sent["address"].removeprefix("group-"),
            "recipient_type": "group" if is_group else "individual",
        }  # fmt: skip
        if "biz_opaque_callback_data" in sent["message"]:
            report["biz_opaque_callback_data"] = sent["message"]["biz_opaque_callback_data"]
        if error is not None:
            report["errors"] = [error.report()]
        self._post({"statuses": [report]})

    def _post(self, value: Json) -> None:
        metadata = {"display_phone_number": self._digits, "phone_number_id": NUMBER_ID}
        change = {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        entry = {"id": "102290129340398", "changes": [change]}
        self.deliveries.append(Delivery({"object": "whatsapp_business_account", "entry": [entry]}))

    def _read_text(self, message: Json) -> str:
        kind = message["type"]
        content = object_at(message, kind)
        if kind == "template":
            texts = [
                parameter["text"]
                for component in list_at(content, "components")
                for parameter in objects_in(component.get("parameters"))
            ]
            return fill_template(self.templates[content["name"], content["language"]["code"]], texts)
        if kind in ("text", "interactive"):
            return str(content.get("body") if kind == "text" else text_at(content, "body", "text"))
        name = content.get("filename") or self.media[content["id"]].name
        return "\n".join(text for text in (content.get("caption"), name) if text)


def no_such_object(id: str) -> GraphError:
    """Return the error for an id that the token does not reach."""
    message = (
        f"Unsupported request. Object with ID '{id}' does not exist, cannot be loaded due to missing permissions, or "
        "does not support this operation."
    )
    return GraphError(100, message, subcode=33)


def bad_value_of_recipient() -> GraphError:
    return GraphError(131009, "Parameter value is not valid", details="Param to is no group of this number")


def decode_content(value: Any) -> bytes:
    """Return the content of a file that a tester sends: text, or {"base64": ...}."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
