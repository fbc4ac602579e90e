"""The double itself, in memory: the workspace, its people, and what they do."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from semel.channels.slack.events_http import sign
from semel.testing.slack.methods import METHODS
from semel.testing.slack.model import (
    FaultKind,
    PendingEnvelope,
    SlackConversation,
    SlackError,
    SlackFault,
    StoredSlackFile,
)
from semel.text.json_types import Json

BOT_TOKEN = "xoxb-100000000001-200000000002-AbCdEfGhIjKlMnOpQrStUvWx"
APP_TOKEN = "xapp-1-A0000000001-300000000003-0123456789abcdef"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5".replace("y", "0").replace("z", "1")
SCOPES = (
    "chat:write im:history im:read im:write users:read channels:history channels:read groups:history groups:read "
    "mpim:history mpim:read files:read files:write reactions:read reactions:write commands"
)
MAX_SENDS = 4
"""An event is sent once and repeated three times."""
TIERS = {
    "users.conversations": 50, "conversations.history": 50, "conversations.replies": 50, "conversations.info": 50,
    "conversations.open": 50, "chat.update": 50, "chat.delete": 50, "reactions.add": 50, "users.info": 100,
    "files.info": 100, "files.getUploadURLExternal": 100, "files.completeUploadExternal": 100,
    "apps.connections.open": 1, "auth.test": 200, "assistant.threads.setStatus": 600,
}  # fmt: skip
"""Calls a minute that Slack allows at least: https://docs.slack.dev/apis/web-api/rate-limits and the methods' pages."""


class SlackDouble:
    """One workspace with one app. The package's docstring lists what is modelled.

    `now`: returns seconds since the epoch. `limits`: whether calls are limited in number. `mentions`: whether a mention
    of the bot in a channel comes as an `app_mention`, too. `repeat_s`: after how many seconds an envelope that was not
    acknowledged comes again over an open connection.
    """

    team = "T0TEST"
    bot_user = "U0BOT"
    bot_id = "B0BOT"

    def __init__(
        self, *, now: Callable[[], float] = time.time, limits: bool = False, mentions: bool = False,
        repeat_s: float = 3.0,
    ) -> None:  # fmt: skip
        self.now = now
        self.limits = limits
        self.mentions = mentions
        self.repeat_s = repeat_s
        self.bot_token: str = BOT_TOKEN
        self.app_token: str = APP_TOKEN
        self.scopes = set(SCOPES.split())
        self.socket_mode = True
        self.url = ""  # of the Web API, once it is served
        self.socket_url = ""  # of Socket Mode, once it is served; a test may put a proxy's address here
        self.people: dict[str, Json] = {self.bot_user: {"id": self.bot_user, "name": "semel", "is_bot": True}}
        self.conversations: dict[str, SlackConversation] = {}
        self.files: dict[str, StoredSlackFile] = {}
        self.faults: list[SlackFault] = []
        self.requests: list[Json] = []
        self.statuses: list[Json] = []
        self.tickets: set[str] = set()
        self.sent: list[Json] = []  # every envelope, in order
        self.pending: dict[str, PendingEnvelope] = {}
        self.links: list[asyncio.Queue[Json]] = []  # one for each open connection
        self.numbers = itertools.count(1)
        self._last_ts = 0
        self._calls: defaultdict[str, list[float]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"<SlackDouble {len(self.conversations)} conversations, {len(self.requests)} requests>"

    # ------------------------------------------------------------ people and places

    def person(self, user: str, name: str) -> str:
        """Add a person. Returns their id."""
        self.people[user] = {"id": user, "name": name.lower(), "profile": {"display_name": name, "real_name": name}}
        return user

    def direct(self, user: str) -> str:
        """Return the direct message between a person and the bot; it is opened if needed."""
        id = f"D{user.removeprefix('U')}"
        if id not in self.conversations:
            members = {user, self.bot_user}
            self.conversations[id] = SlackConversation(id, kind="im", members=members, user=user)
        return id

    def channel(self, id: str, name: str, *people: str, with_bot: bool = True, kind: Any = "public_channel") -> str:
        """Add a channel. Returns its id."""
        members = {*people, *([self.bot_user] if with_bot else [])}
        self.conversations[id] = SlackConversation(id, name, kind, members)
        return id

    # ------------------------------------------------------------ what people do

    def write(
        self, channel: str, user: str, text: str, *, thread: str | None = None, client_msg_id: str = "", **more: Any
    ) -> str:
        """Let a person write. Returns the message's `ts`. `client_msg_id`: by default a new one."""
        message: Json = {
            "type": "message", "user": user, "text": text, "team": self.team,
            "client_msg_id": client_msg_id or f"client-{next(self.numbers)}", **more,
        }  # fmt: skip
        return self.add_message(channel, message, thread)

    def send_file(self, channel: str, user: str, name: str, content: bytes, text: str = "", mime: str = "") -> str:
        """Let a person share a file. Returns the message's `ts`."""
        file = StoredSlackFile(
            f"F{next(self.numbers):06}", name, mime or "text/plain", len(content), user, content, True, [channel]
        )
        self.files[file.id] = file
        return self.write(channel, user, text, subtype="file_share", files=[self.describe_file(file)])

    def edit(self, channel: str, ts: str, text: str, user: str | None = None) -> None:
        """Change a message, as its author or `user` does."""
        message = self.conversations[channel].messages[ts]
        previous = dict(message)
        message["text"] = text
        message["edited"] = {"user": user or message["user"], "ts": self.new_ts()}
        self.tell_change(channel, message, previous)

    def preview(self, channel: str, ts: str) -> None:
        """Let Slack add the preview of a link: it comes as a change, too."""
        message = self.conversations[channel].messages[ts]
        previous = dict(message)
        message["attachments"] = [{"title": "A page", "fallback": "A page"}]
        self.tell_change(channel, message, previous)

    def remove(self, channel: str, ts: str) -> None:
        """Delete a message. One with replies leaves a tombstone."""
        messages = self.conversations[channel].messages
        previous = dict(messages[ts])
        if any(reply.get("thread_ts") == ts != reply["ts"] for reply in messages.values()):
            tombstone = {**previous, "subtype": "tombstone", "text": "This message was deleted.", "user": "USLACKBOT"}
            messages[ts] = tombstone
            self.tell_change(channel, tombstone, previous)
            return
        del messages[ts]
        self.tell_event(
            {
                "type": "message", "subtype": "message_deleted", "hidden": True, "channel": channel, "deleted_ts": ts,
                "previous_message": previous,
            }
        )  # fmt: skip

    def react(self, channel: str, ts: str, user: str, name: str, removed: bool = False) -> None:
        """Let somebody react to a message, or take the reaction back."""
        kind = "reaction_removed" if removed else "reaction_added"
        item = {"type": "message", "channel": channel, "ts": ts}
        self.tell_event({"type": kind, "user": user, "reaction": name, "item": item})

    def press(self, channel: str, ts: str, label: str, user: str, seen: Json | None = None) -> Json:
        """Let a person press the button with this label. Returns the payload of the interaction.

        `seen`: the message as that person's client still shows it, if it has changed since.
        """
        message = self.conversations[channel].messages[ts] if seen is None else seen
        elements = [
            (block["block_id"], element)
            for block in message.get("blocks", ())
            if block["type"] == "actions"
            for element in block["elements"]
        ]
        block_id, button = next(pair for pair in elements if pair[1]["text"]["text"] == label)
        action = {
            "type": "button", "action_id": button["action_id"], "block_id": block_id, "value": button["value"],
            "text": button["text"], "action_ts": self.new_ts(),
        }  # fmt: skip
        container = {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": False}
        payload = {
            "type": "block_actions", "team": {"id": self.team}, "user": {"id": user, "name": self.people[user]["name"]},
            "container": container, "channel": {"id": channel, "name": self.conversations[channel].name},
            "message": message, "actions": [action], "trigger_id": f"trigger-{next(self.numbers)}",
        }  # fmt: skip
        self.send_envelope("interactive", payload)
        return payload

    def command(self, channel: str, user: str, text: str) -> Json:
        """Let a person write the slash command /semel. Returns its payload."""
        payload = {
            "command": "/semel", "text": text, "user_id": user, "channel_id": channel,
            "channel_name": self.conversations[channel].name, "trigger_id": f"trigger-{next(self.numbers)}",
        }  # fmt: skip
        self.send_envelope("slash_commands", payload)
        return payload

    # ------------------------------------------------------------ what the tester sees and does

    def shown(self, channel: str) -> list[Json]:
        """Return all messages of a conversation in order, those in threads, too."""
        place = self.conversations.get(channel)
        return [] if place is None else list(place.messages.values())

    def texts(self, channel: str) -> list[str]:
        """Return what people read of the bot's messages in a conversation, in order."""
        return [read_message(message) for message in self.shown(channel) if message.get("user") == self.bot_user]

    def fail(
        self, method: str, how: FaultKind, *, after: bool = False, times: int | None = 1, retry_after: int = 1,
        code: str = "internal_error", skip: int = 0,
    ) -> None:  # fmt: skip
        """Add a `SlackFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(SlackFault(method, how, after, times, retry_after, code, skip))

    def post_again(self) -> None:
        """Send every event again, as after lost acknowledgements."""
        for envelope in list(self.sent):
            id = f"again-{next(self.numbers)}"
            repeat = {**envelope, "envelope_id": id}
            self.pending[id] = PendingEnvelope(repeat, 1)
            self._deliver(repeat)

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask every open connection to be renewed, or end it (`link_disabled`)."""
        for link in self.links:
            link.put_nowait({"type": "disconnect", "reason": reason, "debug_info": {"host": "double"}})

    def make_request(self, payload: Json, *, form: str = "") -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of the request by which the Events API delivers a payload.

        `form`: "interaction" or "command", which come as forms.
        """
        body = json.dumps(payload).encode()
        kind = "application/json"
        if form:
            body = urlencode({"payload": json.dumps(payload)} if form == "interaction" else payload).encode()
            kind = "application/x-www-form-urlencoded"
        stamp = str(int(self.now()))
        signature = sign(SIGNING_SECRET, stamp, body)
        return {
            "Content-Type": kind, "X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature,
        }, body  # fmt: skip

    # ------------------------------------------------------------ what the methods use

    def new_ts(self) -> str:
        """Return a new time stamp: seconds with six digits, higher than any before."""
        self._last_ts = max(self._last_ts + 1, int(self.now() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06}"

    def add_message(self, channel: str, message: Json, thread: str | None) -> str:
        """Add a message, tell the app of it, and return its `ts`."""
        place = self.conversations[channel]
        ts = self.new_ts()
        message["ts"] = ts
        if thread is not None:
            root = place.messages.get(thread)
            message["thread_ts"] = thread
            if root is not None:
                root.update({"thread_ts": thread, "latest_reply": ts, "reply_count": root.get("reply_count", 0) + 1})
                message["parent_user_id"] = root.get("user")
        place.messages[ts] = message
        self.tell_message(channel, message)
        return ts

    def tell_message(self, channel: str, message: Json) -> None:
        place = self.conversations[channel]
        if self.bot_user not in place.members:
            return
        kinds = {"im": "im", "mpim": "mpim", "private_channel": "group", "public_channel": "channel"}
        told = {name: value for name, value in message.items() if name != "metadata"}
        event = {**told, "channel": channel, "channel_type": kinds[place.kind], "event_ts": message["ts"]}
        self.tell_event(event)
        if self.mentions and place.kind != "im" and f"<@{self.bot_user}>" in message.get("text", ""):
            left_out = ("channel_type", "files", "client_msg_id")  # https://docs.slack.dev/reference/events/app_mention
            mention = {name: value for name, value in event.items() if name not in left_out}
            self.tell_event({**mention, "type": "app_mention"})

    def tell_change(self, channel: str, message: Json, previous: Json) -> None:
        self.tell_event(
            {
                "type": "message", "subtype": "message_changed", "hidden": True, "channel": channel,
                "ts": self.new_ts(), "message": dict(message), "previous_message": previous,
            }
        )  # fmt: skip

    def tell_event(self, event: Json) -> None:
        event.setdefault("event_ts", self.new_ts())
        payload = {
            "type": "event_callback", "team_id": self.team, "api_app_id": "A0TEST",
            "event_id": f"Ev{next(self.numbers):08}", "event_time": int(float(event["event_ts"])), "event": event,
        }  # fmt: skip
        self.send_envelope("events_api", payload)

    def send_envelope(self, kind: str, payload: Json) -> None:
        """Send an envelope over Socket Mode. If no connection is open, it is lost."""
        id = f"env-{next(self.numbers)}"
        envelope = {
            "type": kind, "envelope_id": id, "payload": payload,
            "accepts_response_payload": kind != "events_api", "retry_attempt": 0, "retry_reason": "",
        }  # fmt: skip
        self.sent.append(envelope)
        if self.links:
            self.pending[id] = PendingEnvelope(envelope)
            self._deliver(envelope)

    def acknowledge(self, envelope_id: str) -> None:
        self.pending.pop(envelope_id, None)

    def repeat_pending(self) -> None:
        """Send what was not acknowledged again; give up what was sent often enough."""
        for id, pending in list(self.pending.items()):
            if pending.sends >= MAX_SENDS:
                del self.pending[id]
            else:
                envelope = {**pending.envelope, "retry_attempt": pending.sends, "retry_reason": "timeout"}
                self._deliver(envelope)

    def _deliver(self, envelope: Json) -> None:
        if self.links:
            if (pending := self.pending.get(envelope["envelope_id"])) is not None:
                pending.sends += 1
            self.links[next(self.numbers) % len(self.links)].put_nowait(envelope)

    def describe_file(self, file: StoredSlackFile) -> Json:
        """Return a file as messages and files.info describe it."""
        base = self.url.removesuffix("/api")
        return {
            "id": file.id, "name": file.name, "title": file.name, "mimetype": file.mime, "size": file.size,
            "user": file.user, "mode": "hosted", "permalink": f"{base}/files/{file.user}/{file.id}/{file.name}",
            "url_private": f"{base}/files-pri/{file.id}/{file.name}",
            "url_private_download": f"{base}/files-pri/{file.id}/download/{file.name}", "channels": file.channels,
        }  # fmt: skip

    # ------------------------------------------------------------ what the server calls

    def fault(self, method: str) -> SlackFault | None:
        """Return the fault that strikes a call of this method, or None."""
        return next((fault for fault in self.faults if fault.fits(method)), None)

    def call(self, method: str, token: str, params: Json) -> tuple[int, Json, dict[str, str]]:
        """Call a method of the Web API. Returns (status, JSON, headers)."""
        if (wait := self._count_call(method, params)) is not None:
            return 429, {"ok": False, "error": "ratelimited"}, {"retry-after": str(wait)}
        scopes = {"x-oauth-scopes": ",".join(sorted(self.scopes))}
        try:
            known = METHODS.get(method)
            if known is None:
                raise SlackError("unknown_method", req_method=method)
            self._check_token(method, token, known.scopes)
            return 200, {"ok": True, **known.function(self, params)}, scopes
        except SlackError as error:
            return 200, {"ok": False, "error": error.code, **error.more}, scopes

    def _check_token(self, method: str, token: str, needed: tuple[str, ...]) -> None:
        wants_app = method == "apps.connections.open"
        if not token:
            raise SlackError("not_authed")
        if token not in (self.bot_token, self.app_token):
            raise SlackError("invalid_auth")
        if (token == self.app_token) != wants_app:
            raise SlackError("not_allowed_token_type")
        if needed and not wants_app and not self.scopes & set(needed):
            raise SlackError("missing_scope", needed=needed[0], provided=",".join(sorted(self.scopes)))

    def _count_call(self, method: str, params: Json) -> int | None:
        """Count a call; return the seconds to wait if there were too many, else None."""
        if not self.limits:
            return None
        name, most, span = method, TIERS.get(method, 20), 60.0
        if method == "chat.postMessage":  # a message a second in a channel, and short bursts
            name, most, span = f"{method} {params.get('channel')}", 3, 3.0
        now = self.now()
        calls = self._calls[name] = [at for at in self._calls[name] if at > now - span]
        if len(calls) >= most:
            return max(1, round(calls[0] + span - now))
        calls.append(now)
        return None


def read_message(message: Json) -> str:
    """Return what people read of a message: its blocks, else its text; and the names of its files."""
    texts = [block["text"] for block in message.get("blocks") or () if block["type"] == "markdown"]
    files = [file["name"] for file in message.get("files", ())]
    return "\n".join([*(texts or [message.get("text", "")]), *files])
