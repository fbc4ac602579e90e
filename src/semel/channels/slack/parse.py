"""Parse what Slack sends into inbox events.

| from Slack | event | key |
|---|---|---|
| `message`, `app_mention`, a message of the history | message | `CHANNEL/NUMBER` |
| `message_changed`; an edited message of the history that was put before | edit | `CHANNEL/NUMBER#eNUMBER` |
| `message_deleted`, a tombstone | delete | `CHANNEL/NUMBER#deleted` |
| `reaction_added`, `reaction_removed` | reaction | `CHANNEL/NUMBER#rNUMBER.USER.NAME` |
| `block_actions` (a press of a button) | echo of our message, then message | `semel.gateway.ports.press_key` |
| a slash command | message | `slash:TRIGGER` |
| our own message | echo of the part, if it names one | the part's key |
| a message of Slack itself (somebody joined), other events | none | |
| what cannot be parsed | unreadable | `event/EVENT` |

A message has the same key from the Events API, from Socket Mode and from the history, and as its own `app_mention`. The
`client_msg_id` is looked at, too: Slack has been seen to deliver one message of a person twice, under two time stamps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.emoji_names import to_character
from semel.channels.recent_map import RecentMap
from semel.channels.slack.account import SlackIdentity
from semel.channels.slack.address import (
    SlackCursor,
    SlackPlace,
    check_channel,
    is_direct,
    message_id,
    to_number,
)
from semel.channels.slack.parse_text import read_text
from semel.channels.slack.settings import ThreadPolicy
from semel.gateway.ports import Incoming, Person, press_key
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.wellformed import scrub

METADATA_TYPE = "semel_part"
"""The `event_type` of the metadata by which a part is recognised."""
EMPTY = "[a message without text]"
MAX_REMEMBERED_MESSAGES = 10_000
_SPOKEN = frozenset({None, "bot_message", "file_share", "me_message", "thread_broadcast", "file_comment"})
"""The subtypes of messages that somebody wrote; others are Slack's own, such as channel_join."""


@dataclass(frozen=True)
class SlackFile:
    """A file of a message. `url`: where to fetch it; None if Slack has to be asked. `why`: why there is none, or "".

    `is_voice`: it is an audio clip that somebody recorded in Slack.
    """

    id: str
    name: str
    mime: str
    size: int
    url: str | None = None
    why: str = ""
    is_voice: bool = False


@dataclass(frozen=True)
class SlackDraft:
    """An inbox event whose files are still to be downloaded, and whose names are still to be looked up."""

    incoming: Incoming
    files: tuple[SlackFile, ...] = ()


class SlackParser:
    """Parses events of one bot. `cursor`: names the threads that the bot takes part in."""

    def __init__(self, us: SlackIdentity, cursor: SlackCursor, policy: ThreadPolicy) -> None:
        self._us = us
        self._cursor = cursor
        self._policy = policy
        self._addresses = RecentMap[str, str](MAX_REMEMBERED_MESSAGES)  # by message id: reactions do not say a thread

    # ------------------------------------------------------------ entrances

    def parse_event(self, payload: Json) -> list[SlackDraft]:
        """Parse the payload of an event (https://docs.slack.dev/apis/events-api). Raises nothing."""
        event = object_at(payload, "event")
        id = text_at(payload, "event_id") or f"{event.get('channel')}.{event.get('event_ts')}"
        try:
            return self._parse_event(event)
        except Exception as error:  # one odd event must not block all later ones (Law 1)
            return [_make_unreadable(f"event/{id}", payload, error)]

    def parse_history(self, channel: str, message: Json) -> list[SlackDraft]:
        """Parse a message of conversations.history or conversations.replies. Raises nothing."""
        try:
            return self._parse_old(channel, message)
        except Exception as error:
            return [_make_unreadable(f"history/{channel}/{message.get('ts')}", message, error)]

    def parse_interaction(self, payload: Json) -> list[SlackDraft]:
        """Parse an interaction (https://docs.slack.dev/reference/interaction-payloads). Raises nothing."""
        try:
            return self._parse_press(payload) if payload.get("type") == "block_actions" else []
        except Exception as error:
            return [_make_unreadable(f"interaction/{payload.get('trigger_id')}", payload, error)]

    def parse_command(self, payload: Json) -> list[SlackDraft]:
        """Parse a slash command: `/semel stop` is the command /stop. Raises nothing."""
        try:
            channel, user = check_channel(str(payload["channel_id"])), str(payload["user_id"])
            text = str(payload.get("text") or "help").strip()
            name, direct = scrub(text_at(payload, "channel_name") or ""), is_direct(channel)
            return [
                SlackDraft(
                    Incoming(
                        "message", f"slash:{payload['trigger_id']}", channel, Person(user), f"/{text.lstrip('/')}",
                        group=not direct, mentioned=True, title="" if direct else name, data={"channel": channel},
                    )
                )
            ]  # fmt: skip
        except Exception as error:
            return [_make_unreadable(f"slash/{payload.get('trigger_id')}", payload, error)]

    # ------------------------------------------------------------ events

    def _parse_event(self, event: Json) -> list[SlackDraft]:
        kind = event.get("type")
        if kind in ("reaction_added", "reaction_removed"):
            return self._parse_reaction(event)
        if kind not in ("message", "app_mention"):
            return []
        channel = str(event["channel"])
        match event.get("subtype"):
            case "message_changed":
                return self._parse_change(channel, object_at(event, "message"), object_at(event, "previous_message"))
            case "message_deleted":
                return self._parse_deletion(channel, event, object_at(event, "previous_message"))
            case _:
                return self._parse_message(channel, event)

    def _parse_message(self, channel: str, message: Json) -> list[SlackDraft]:
        if message.get("subtype") not in _SPOKEN:
            return []
        if self._us.wrote(message):
            return self._parse_own(channel, message)
        incoming = self._make_incoming("message", channel, message, message)
        client_msg_id = text_at(message, "client_msg_id")
        if self._cursor.is_repeat(channel, _author_id(message), client_msg_id, str(message["ts"])):
            return []
        return [SlackDraft(incoming, _parse_files(message))]

    def _parse_own(self, channel: str, message: Json) -> list[SlackDraft]:
        """Return the report that one of our parts arrived; [] if the message names none."""
        id = message_id(channel, str(message["ts"]))
        self._addresses[id] = str(self._place(channel, message, False))
        key = part_key(message)
        return [SlackDraft(Incoming("echo", key, of=id))] if key is not None else []

    def _parse_change(self, channel: str, message: Json, previous: Json) -> list[SlackDraft]:
        """Return the edit; [] for a change that no person made, such as the preview of a link that Slack adds."""
        if message.get("subtype") == "tombstone":
            return self._parse_deletion(channel, {"deleted_ts": message["ts"]}, previous or message)
        edited = text_at(message, "edited", "ts")
        if edited is None or edited == text_at(previous, "edited", "ts"):
            return []
        if message.get("subtype") not in _SPOKEN or self._us.wrote(message):
            return []
        return [self._make_edit(channel, message, previous, edited)]

    def _make_edit(self, channel: str, message: Json, previous: Json, edited: str) -> SlackDraft:
        incoming = self._make_incoming("edit", channel, message, previous or message)
        id = incoming.key
        sender = replace(incoming.sender or Person(""), id=text_at(message, "edited", "user") or _author_id(message))
        return SlackDraft(
            replace(incoming, key=f"{id}#e{to_number(edited)}", of=id, at=float(edited), sender=sender), ()
        )

    def _parse_deletion(self, channel: str, event: Json, previous: Json) -> list[SlackDraft]:
        if not previous or self._us.wrote(previous) or previous.get("subtype") not in {*_SPOKEN, "tombstone"}:
            return []
        id = message_id(channel, str(event["deleted_ts"]))
        if not (author := _author_id(previous)):
            return []
        at = float(event.get("event_ts") or event["deleted_ts"])
        address = self._find_address(channel, str(event["deleted_ts"]), id, text_at(previous, "thread_ts"))
        return [
            SlackDraft(
                Incoming("delete", f"{id}#deleted", address, Person(author), at=at, of=id, group=not is_direct(channel))
            )
        ]

    def _parse_reaction(self, event: Json) -> list[SlackDraft]:
        item = object_at(event, "item")
        user = str(event["user"])
        if item.get("type") != "message" or user == self._us.user:
            return []
        channel, name = str(item["channel"]), str(event["reaction"])
        id = message_id(channel, str(item["ts"]))
        key = f"{id}#r{to_number(str(event['event_ts']))}.{user}.{name}"
        return [
            SlackDraft(
                Incoming(
                    "reaction", key, self._find_address(channel, str(item["ts"]), id), Person(user),
                    to_character(name), at=float(event["event_ts"]), of=id, group=not is_direct(channel),
                    removed=event["type"] == "reaction_removed",
                )
            )
        ]  # fmt: skip

    def _find_address(self, channel: str, ts: str, id: str, thread: str | None = None) -> str:
        """Return the address of a message that is only named, as far as it is known. `thread`: the thread it is in."""
        place = self._place(channel, {"ts": ts, "thread_ts": thread}, self._cursor.began_with_us(channel, ts))
        return self._addresses.get(id) or str(place)

    def _parse_old(self, channel: str, message: Json) -> list[SlackDraft]:
        """Parse a message of the history. One that was put before is an edit, if it was edited, and else a repeat."""
        edited = text_at(message, "edited", "ts")
        was_put = float(str(message["ts"])) <= self._cursor.at
        if edited is not None and was_put and not self._us.wrote(message) and message.get("subtype") in _SPOKEN:
            return [self._make_edit(channel, message, {}, edited)]
        return self._parse_message(channel, message)

    # ------------------------------------------------------------ presses

    def _parse_press(self, payload: Json) -> list[SlackDraft]:
        """Return an answer for each pressed button: its value, written by who pressed it, in a reply to our message."""
        message, container = object_at(payload, "message"), object_at(payload, "container")
        channel = text_at(payload, "channel", "id") or str(container["channel_id"])
        ts = text_at(message, "ts") or str(container["message_ts"])
        thread = text_at(message, "thread_ts") or text_at(container, "thread_ts")
        id, user = message_id(channel, ts), object_at(payload, "user")
        address = str(self._place(channel, {"ts": ts, "thread_ts": thread}, False))
        sender = Person(str(user["id"]), scrub(text_at(user, "name") or ""))
        drafts: list[SlackDraft] = []
        for action in objects_in(payload.get("actions")):
            answer, key, at = text_at(action, "value"), text_at(action, "block_id"), str(action["action_ts"])
            if action.get("type") != "button" or answer is None:
                continue
            if key:
                drafts.append(SlackDraft(Incoming("echo", key, of=id)))
            press = f"{channel}/{to_number(at)}.{sender.id}"
            answering = Incoming(
                "message", press_key(answer, id, press), address, sender, scrub(answer), at=float(at), of=id,
                group=not is_direct(channel), mentioned=True, data={"channel": channel, "thread": thread},
            )  # fmt: skip
            drafts.append(SlackDraft(answering))
        return drafts

    # ------------------------------------------------------------ fields

    def _make_incoming(self, kind: Any, channel: str, message: Json, original: Json) -> Incoming:
        """Return the event for a message. `original`: the message before it was edited: it decides the session."""
        ts = str(message["ts"])
        id = message_id(channel, ts)
        text, mentions = self._read_text(message)
        place = self._place(channel, {**original, "ts": ts}, self._read_text(original)[1])
        known = self._addresses.get(id) if kind == "edit" else None
        address = known or str(place)
        self._addresses[id] = address
        direct = is_direct(channel)
        thread = text_at(message, "thread_ts")
        thread = None if thread == ts else thread
        is_addressed = mentions or self._is_reply_to_us(channel, thread, message)
        if not direct and mentions and thread is None:
            self._cursor.join_thread(channel, ts, began_with_us=True)
        elif thread is not None and (direct or is_addressed or (channel, thread) in self._cursor.threads):
            self._cursor.join_thread(channel, thread)
        return Incoming(
            kind, id, address, _author(message), text, at=float(ts), group=not direct,
            mentioned=not direct and is_addressed, data={"channel": channel, "thread": place.thread or thread},
        )  # fmt: skip

    def _is_reply_to_us(self, channel: str, thread: str | None, message: Json) -> bool:
        """Return whether a message is in a thread that began with a message of the bot, or with a mention of it."""
        return message.get("parent_user_id") == self._us.user or self._cursor.began_with_us(channel, thread)

    def _read_text(self, message: Json) -> tuple[str, bool]:
        """Return (the text of a message, whether it mentions the bot)."""
        text, mentions = read_text(scrub(str(message.get("text") or "")), self._us.user)
        if text.strip():
            return text, mentions
        fallbacks = [
            text_at(each, "fallback") or text_at(each, "text") for each in objects_in(message.get("attachments"))
        ]
        words = "\n".join(read_text(scrub(each), self._us.user)[0] for each in fallbacks if each)
        return words or ("" if objects_in(message.get("files")) else EMPTY), mentions

    def _place(self, channel: str, message: Json, mentions: bool) -> SlackPlace:
        """Return the conversation that a message belongs to, by the setting `threads`."""
        ts, thread = str(message["ts"]), text_at(message, "thread_ts")
        if self._policy == "room":
            return SlackPlace(channel)
        if thread is not None and thread != ts:
            return SlackPlace(channel, thread)
        if self._policy == "start" and not is_direct(channel) and mentions:
            return SlackPlace(channel, ts)
        return SlackPlace(channel)


def part_key(message: Json) -> str | None:
    """Return the key of the part that a message is, by its metadata; None if it has none of ours."""
    metadata = object_at(message, "metadata")
    if metadata.get("event_type") != METADATA_TYPE:
        return None
    return text_at(metadata, "event_payload", "key")


def _author_id(message: Json) -> str:
    return text_at(message, "user") or text_at(message, "bot_id") or ""


def _author(message: Json) -> Person:
    is_bot = bool(message.get("bot_id")) or message.get("subtype") == "bot_message"
    name = text_at(message, "username") or text_at(message, "bot_profile", "name") if is_bot else None
    return Person(_author_id(message), scrub(name or ""), is_bot)


def _parse_files(message: Json) -> tuple[SlackFile, ...]:
    return tuple(parse_file(file) for file in objects_in(message.get("files")) if text_at(file, "id"))


def parse_file(file: Json) -> SlackFile:
    """Return a file as messages and files.info describe it (https://docs.slack.dev/reference/objects/file-object)."""
    size = file.get("size")
    name = scrub(text_at(file, "name") or text_at(file, "title") or "file")
    mime = text_at(file, "mimetype") or "application/octet-stream"
    reasons = {
        "tombstone": "it was deleted",
        "hidden_by_limit": "the workspace's plan hides it",
        "external": f"it is a link: {text_at(file, 'url_private') or 'without an address'}",
    }
    return SlackFile(
        str(file["id"]), name, mime, size if isinstance(size, int) else 0,
        text_at(file, "url_private_download") or text_at(file, "url_private"),
        reasons.get(str(file.get("mode")), ""), is_voice=file.get("subtype") == "slack_audio",
    )  # fmt: skip


def _make_unreadable(key: str, payload: Json, error: Exception) -> SlackDraft:
    raw = json.dumps(payload, ensure_ascii=False, default=repr).encode("utf-8", "backslashreplace")
    why = f"it cannot be read ({type(error).__name__}: {error})"[:300]
    return SlackDraft(Incoming("unreadable", scrub(key)[:500], raw=raw, why=why))
