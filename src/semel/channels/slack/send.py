"""Send a part: calls that nobody sees first, then exactly one that shows it. And find a part whose answer was lost.

Each message carries the part's key as metadata (https://docs.slack.dev/messaging/message-metadata), by which `find`
recognises it in the history. A file is uploaded and stays private; the message that shows it links to it, and that
shares it: so a file, too, is one message with metadata, and its answer names it.

`find` reads the conversation, or the thread, from before the first attempt to the last page. Slack does not document
how soon a message is in its history, so absence is believed only when LOOKS looks, with pauses, have not found it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from semel.channels.emoji_names import to_name
from semel.channels.recent_map import RecentMap
from semel.channels.slack.address import SlackPlace, message_id, parse_address, parse_message_id
from semel.channels.slack.parse import METADATA_TYPE, part_key
from semel.channels.slack.receipts import PlainNeeded, check_reply, receipt_of
from semel.channels.slack.render import (
    MAX_EDIT_TEXT_BYTES,
    MAX_NOTIFICATION_CHARS,
    MAX_TEXT_CHARS,
    escape,
    render_markdown,
    render_mrkdwn,
)
from semel.channels.slack.settings import SlackSettings
from semel.channels.slack.transport import SlackApi, SlackReply
from semel.channels.uploads import name_file, read_file
from semel.gateway.ports import REPEAT_PREFIX, NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, objects_in, text_at
from semel.text.wellformed import shorten

LOOKS = 3
"""How many times the history is read without finding a message before it counts as not sent."""
PAGE_SIZE = 100
MAX_REMEMBERED = 500
MAX_BUTTON_CHARS = 75
MAX_FILE_NAME_CHARS = 200
_STYLES = {"allow": "primary", "deny": "danger"}


class SlackSender:
    """The sending half of one app. `sleep` waits between two looks."""

    def __init__(
        self, api: SlackApi, settings: SlackSettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api = api
        self._settings = settings
        self._sleep = sleep
        self._plain_keys = RecentMap[str, None](MAX_REMEMBERED)  # keys of parts to send without blocks
        self._uploads = RecentMap[str, Json](MAX_REMEMBERED)  # uploaded files, by the key of their part
        self._direct = RecentMap[str, str](MAX_REMEMBERED)  # direct messages, by person

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown."""
        try:
            return await self._attempt(op)
        except PlainNeeded as refusal:
            if op.key in self._plain_keys:
                raise Rejected(f"Slack: {refusal}") from None
            self._plain_keys[op.key] = None
            raise NotSent(f"Slack refuses its blocks ({refusal}); the next attempt goes without", 0) from None

    async def _attempt(self, op: Op) -> Receipt:
        match op.kind:
            case "post":
                arguments = self._content(op)
            case "file":
                arguments = {"text": await self._file_text(op)}
            case "edit":
                channel, ts = _parse_target(op)
                reply = await self._api.call("chat.update", channel=channel, ts=ts, **self._content(op))
                return receipt_of(op, reply)
            case "react":
                return await self._react(op)
            case "delete":
                channel, ts = _parse_target(op)
                return receipt_of(op, await self._api.call("chat.delete", channel=channel, ts=ts))
        place = await self._open(op)
        previews = None if op.kind == "file" else False  # the link to a file has to be followed: that shares it
        metadata = {"event_type": METADATA_TYPE, "event_payload": {"key": op.key}}
        reply = await self._api.call(
            "chat.postMessage", channel=place.channel, thread_ts=self._thread(op, place), unfurl_links=previews,
            unfurl_media=previews, metadata=metadata, **arguments,
        )  # fmt: skip
        return receipt_of(op, reply)

    async def _react(self, op: Op) -> Receipt:
        name = to_name(op.text)
        if name is None:
            raise Rejected(f"Slack takes no {op.text.strip()[:20]} as a reaction; give its name in Slack, like :eyes:")
        channel, ts = _parse_target(op)
        return receipt_of(op, await self._api.call("reactions.add", channel=channel, timestamp=ts, name=name))

    # ------------------------------------------------------------ where

    async def _open(self, op: Op) -> SlackPlace:
        """Return the conversation of a part; the direct message with a person is opened. Raises NotSent, Rejected."""
        place = _parse_place(op.address)
        if not place.is_person:
            return place
        if place.channel not in self._direct:
            try:
                reply = await self._api.call("conversations.open", users=place.channel)
                check_reply(reply)
            except Unknown as error:
                raise NotSent(f"the direct message was not opened: {error}") from None
            channel = text_at(reply.data, "channel", "id")
            if channel is None:
                raise NotSent("Slack's answer to conversations.open names no conversation")
            self._direct[place.channel] = channel
        return SlackPlace(self._direct[place.channel])

    def _thread(self, op: Op, place: SlackPlace) -> str | None:
        """Return the thread of a part: that of its address, else, with `threads = "room"`, of the answered message."""
        if place.thread is not None or op.answers is None or self._settings.threads != "room":
            return place.thread
        thread = op.answers.data.get("thread")
        return thread if isinstance(thread, str) and op.answers.data.get("channel") == place.channel else None

    # ------------------------------------------------------------ what

    def _content(self, op: Op) -> Json:
        """Return the arguments with the text: blocks with a text for notifications, or the text alone."""
        written = (REPEAT_PREFIX if op.marked else "") + op.text
        markdown, text = render_markdown(written), render_mrkdwn(written)
        if not op.text.strip():
            raise Rejected("there is nothing to see in this message: Slack takes no empty one")
        if op.key not in self._plain_keys:
            blocks: list[Json] = [{"type": "markdown", "text": markdown}, *_make_actions(op)]
            notification = shorten(text, MAX_NOTIFICATION_CHARS)
            if op.kind == "edit":
                notification = _cut_to_bytes(notification, MAX_EDIT_TEXT_BYTES)
            return {"text": notification, "blocks": blocks}
        text = text if len(text) <= MAX_TEXT_CHARS else escape(markdown)
        return {"text": text, "blocks": []} if op.kind == "edit" else {"text": text}

    async def _file_text(self, op: Op) -> str:
        """Upload the file of a part, and return the text of the message that shows it. Raises NotSent or Rejected."""
        if op.key not in self._uploads:
            try:
                self._uploads[op.key] = await self._upload(op)
            except Unknown as error:  # nobody sees an upload
                raise NotSent(f"the file did not arrive: {error}") from None
        file = self._uploads[op.key]
        ahead = REPEAT_PREFIX if op.marked else ""
        caption = render_mrkdwn(ahead + op.text) if op.text.strip() else ahead.strip()
        link = f"<{file['permalink']}|{escape(str(file['name'])).replace('|', '¦')}>"
        return f"{caption}\n{link}".strip()

    async def _upload(self, op: Op) -> Json:
        """Upload a file without sharing it. Return {"permalink", "name"}."""
        content = await self._read_file(op)
        name, mime = name_file(op)
        name = name[:MAX_FILE_NAME_CHARS]
        begun = await self._api.call("files.getUploadURLExternal", filename=name, length=len(content))
        check_reply(begun, op)
        url, id = text_at(begun.data, "upload_url"), text_at(begun.data, "file_id")
        if url is None or id is None:
            raise NotSent("Slack's answer to files.getUploadURLExternal names no address")
        await self._api.upload(url, content, mime)
        done = await self._api.call("files.completeUploadExternal", files=[{"id": id, "title": name}])
        check_reply(done, op)
        file = next(iter(objects_in(done.data.get("files"))), {})
        permalink = text_at(file, "permalink") or await self._find_permalink(op, id)
        return {"permalink": permalink, "name": name}

    async def _find_permalink(self, op: Op, id: str) -> str:
        reply = await self._api.call("files.info", file=id)
        check_reply(reply, op)
        permalink = text_at(reply.data, "file", "permalink")
        if permalink is None:
            raise NotSent("Slack does not say where the uploaded file is")
        return permalink

    async def _read_file(self, op: Op) -> bytes:
        content = await read_file(op)
        if len(content) > self._settings.file_limit:
            raise Rejected(f"the file is larger than {self._settings.file_limit:,} bytes")
        return content

    # ------------------------------------------------------------ look-up

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if no look found it. Raises NotSent, Rejected or Unknown.

        `since`: in seconds since the epoch.
        """
        if op.kind in ("edit", "react", "delete"):  # they can be repeated
            return None
        place = await self._open(op)
        thread = self._thread(op, place)
        for look in range(LOOKS):
            if look:
                await self._sleep(self._settings.settle / 2)
            receipt = await self._look(op, place.channel, thread, since)
            if receipt is not None:
                return receipt
        return None

    async def _look(self, op: Op, channel: str, thread: str | None, since: float) -> Receipt | None:
        """Read the history once, to its last page. Raises Unknown or NotSent unless Slack answers in full."""
        method = "conversations.history" if thread is None else "conversations.replies"
        cursor: str | None = None
        while True:
            reply = await self._api.call(
                method, channel=channel, oldest=f"{max(0.0, since):.6f}", limit=PAGE_SIZE, include_all_metadata=True,
                cursor=cursor, ts=thread,
            )  # fmt: skip
            for message in _read_page(reply):
                if part_key(message) == op.key and (ts := text_at(message, "ts")):
                    return Receipt(message_id(channel, ts))
            if not (cursor := reply.next_cursor):
                if reply.data.get("has_more") is True:
                    raise Unknown("Slack's history has more messages and names no next page")
                return None

    # ------------------------------------------------------------ typing

    async def show_status(self, address: str) -> None:
        """Show in a thread that an answer is on its way; Slack has no such sign elsewhere."""
        place = _parse_place(address)
        if place.thread is not None:
            await self._api.call(
                "assistant.threads.setStatus", channel_id=place.channel, thread_ts=place.thread, status="is working…"
            )


def _read_page(reply: SlackReply) -> list[Json]:
    """Return the messages of a page. Raises Unknown unless the answer is one: a refusal proves no absence."""
    if reply.status == 429:
        raise NotSent("Slack says: not now (rate limit)", reply.retry_after)
    if not reply.ok or not isinstance(reply.data.get("messages"), list):
        raise Unknown(f"Slack does not show the history: {reply.describe()}")
    return objects_in(reply.data["messages"])


def _make_actions(op: Op) -> list[Json]:
    """Return the block with the buttons of a part; its `block_id` is the key, which a press brings back."""
    if not op.buttons:
        return []
    elements = []
    for n, button in enumerate(op.buttons):
        element: Json = {
            "type": "button", "action_id": f"answer-{n}", "value": button.answer,
            "text": {"type": "plain_text", "text": shorten(button.label, MAX_BUTTON_CHARS), "emoji": False},
        }  # fmt: skip
        if button.style in _STYLES:
            element["style"] = _STYLES[button.style]
        elements.append(element)
    return [{"type": "actions", "block_id": op.key, "elements": elements}]


def _parse_place(address: str) -> SlackPlace:
    try:
        return parse_address(address)
    except ValueError as error:
        raise Rejected(str(error)) from None


def _parse_target(op: Op) -> tuple[str, str]:
    try:
        return parse_message_id(op.target or "")
    except ValueError as error:
        raise Rejected(str(error)) from None


def _cut_to_bytes(text: str, max_bytes: int) -> str:
    """Return the text; if it has more than `max_bytes` bytes, its beginning and "…", together at most so many."""
    content = text.encode()
    return text if len(content) <= max_bytes else content[: max_bytes - len("…".encode())].decode(errors="ignore") + "…"
