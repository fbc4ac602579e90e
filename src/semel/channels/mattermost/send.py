"""Send a part: calls that nobody sees first, then exactly one that shows it. And find a part whose answer was lost.

Each post carries the part's key in two places. `pending_post_id`: a server that has seen it within about 30 s answers
with the post that exists and makes no new one. It is not in the API reference, and each server of a cluster remembers
its own: so it is a second lock, and no promise rests on it. `props`: by it, `find` recognises the post in the history,
which it reads from before the first attempt to the last page. Absence is believed only when LOOKS looks, with pauses,
have not found it. The server fetches previews of a post's links before it saves the post (its source, app/post.go,
CreatePost): while it may be doing that, absence is not believed either.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from semel.channels.emoji_names import to_name
from semel.channels.mattermost.address import MattermostPlace, is_id, parse_address
from semel.channels.mattermost.history import NotAPage, list_posts
from semel.channels.mattermost.parse import KEY_PROP, part_key
from semel.channels.mattermost.receipts import check_answer, receipt_of
from semel.channels.mattermost.render import MAX_TEXT_CHARS, render
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.mattermost.transport import MattermostApi, MattermostReply
from semel.channels.recent_map import RecentMap
from semel.channels.uploads import name_file, read_file
from semel.gateway.ports import CLOCK_MARGIN_S, REPEAT_PREFIX, NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, objects_in, text_at, value_at

LOOKS = 3
"""How many times the history is read without finding a post before it counts as not sent."""
CLOCK_TOLERANCE_S = 3.0
"""Seconds by which a post may seem older than it is, once the server's clock is compared with ours."""
UNKNOWN_SKEW_S = 600.0
"""Seconds by which our clock may be ahead of the server's if it could not be compared."""
LINK_PREVIEW_TIMEOUT_S = 6.0
"""Seconds that the server may take for the preview of a link: its setting LinkMetadataTimeoutMilliseconds is 5 s."""
_LINK = re.compile(r"https?://", re.I)
_MAX_REMEMBERED = 500


class MattermostSender:
    """The sending half of one account. `sleep` waits between two looks."""

    def __init__(
        self, api: MattermostApi, settings: MattermostSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._api = api
        self._settings = settings
        self._sleep = sleep
        self._uploads = RecentMap[str, str](_MAX_REMEMBERED)  # uploaded files, by the key of their part
        self._direct = RecentMap[str, str](_MAX_REMEMBERED)  # direct messages, by person
        self._me = ""

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown."""
        match op.kind:
            case "post" | "file":
                return await self._post(op)
            case "edit":
                body: Json = {"message": _write_text(op)}
                return receipt_of(op, await self._api.call("PUT", f"/posts/{_check_target(op)}/patch", body))
            case "react":
                return await self._react(op)
            case "delete":
                return await self._delete(op)

    async def _post(self, op: Op) -> Receipt:
        post = await self._make_post(op)
        try:
            return receipt_of(op, await self._api.call("POST", "/posts", post))
        except Unknown:
            self._uploads.pop(op.key, None)  # a post may have the upload, and a second post would not get it
            raise

    async def _delete(self, op: Op) -> Receipt:
        path = f"/posts/{_check_target(op)}"
        reply = await self._api.call("DELETE", path)
        if reply.status == 403 and reply.is_error:  # older servers say so, too, if the post is gone
            look_up = await self._api.call("GET", path)
            reply = look_up if look_up.status == 404 else reply
        return receipt_of(op, reply)

    async def _react(self, op: Op) -> Receipt:
        name = to_name(op.text)
        if name is None:
            raise Rejected(f"Mattermost takes no {op.text.strip()[:20]} as a reaction; give its name, like :eyes:")
        body: Json = {"user_id": await self._find_me(), "post_id": _check_target(op), "emoji_name": name}
        return receipt_of(op, await self._api.call("POST", "/reactions", body))

    async def _make_post(self, op: Op) -> Json:
        place = await self._open(op)
        post: Json = {
            "channel_id": place.channel, "message": _write_text(op), "root_id": self._find_root(op, place),
            "pending_post_id": op.key, "props": {KEY_PROP: op.key},
        }  # fmt: skip
        if op.kind == "file":
            post["file_ids"] = [await self._upload(op, place.channel)]
        return post

    async def _upload(self, op: Op, channel: str) -> str:
        """Upload the file of a part, once, and return its id. Raises NotSent or Rejected."""
        if op.key not in self._uploads:
            content = await read_file(op)
            if len(content) > self._settings.file_limit:
                raise Rejected(f"the file is larger than {self._settings.file_limit:,} bytes")
            try:
                reply = check_answer(await self._api.upload(channel, *name_file(op), content), op)
            except Unknown as error:  # nobody sees an upload
                raise NotSent(f"the file did not arrive: {error}") from None
            files = objects_in(value_at(reply.data, "file_infos"))
            if not files or not is_id(files[0].get("id")):
                raise NotSent("Mattermost's answer names no file")
            self._uploads[op.key] = str(files[0]["id"])
        return self._uploads[op.key]

    # ------------------------------------------------------------ where

    async def _open(self, op: Op) -> MattermostPlace:
        """Return the channel of a part; the direct message with a person is opened. Raises NotSent or Rejected."""
        try:
            place = parse_address(op.address)
        except ValueError as error:
            raise Rejected(str(error)) from None
        if not place.user:
            return place
        if place.user not in self._direct:
            try:
                me = await self._find_me()
                reply = check_answer(await self._api.call("POST", "/channels/direct", [me, place.user]), op)
            except Unknown as error:
                raise NotSent(f"the direct message was not opened: {error}") from None
            channel = text_at(reply.data, "id")
            if not is_id(channel):
                raise NotSent("Mattermost's answer names no direct message")
            self._direct[place.user] = str(channel)
        return MattermostPlace(self._direct[place.user])

    async def _find_me(self) -> str:
        """Return the bot's user id. Raises NotSent or Rejected."""
        if not self._me:
            try:
                reply = check_answer(await self._api.call("GET", "/users/me"))
            except Unknown as error:
                raise NotSent(str(error)) from None
            if not is_id(value_at(reply.data, "id")):
                raise NotSent("what answers is not Mattermost: check the setting `url`")
            self._me = str(reply.data["id"])
        return self._me

    def _find_root(self, op: Op, place: MattermostPlace) -> str:
        """Return the thread of a part: that of its address, else, with `threads = "room"`, of the answered message."""
        if place.thread or op.answers is None or self._settings.threads != "room":
            return place.thread
        thread = op.answers.data.get("thread")
        return str(thread) if is_id(thread) and op.answers.data.get("channel") == place.channel else ""

    # ------------------------------------------------------------ look-up, typing

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if no look found it. Raises NotSent, Rejected or Unknown.

        `since`: in seconds since the epoch. The key alone tells the post, whoever asks: nobody else knows it before.
        """
        if op.kind in ("edit", "react", "delete"):  # they can be repeated
            return None
        place = await self._open(op)
        for look in range(LOOKS):
            if look:
                await self._sleep(self._settings.settle / 2)
            if (receipt := await self._look(op, place.channel, since)) is not None:
                return receipt
        links = len(_LINK.findall(op.text))
        if links and time.time() < since + CLOCK_MARGIN_S + LINK_PREVIEW_TIMEOUT_S * links:
            raise Unknown("Mattermost may still be fetching the previews of its links, and save it afterwards")
        return None

    async def _look(self, op: Op, channel: str, since: float) -> Receipt | None:
        """Read the history once. Raises Unknown or NotSent unless Mattermost answers in full."""
        skew_s = -UNKNOWN_SKEW_S if self._api.skew_s is None else self._api.skew_s - CLOCK_TOLERANCE_S
        try:
            async for post in list_posts(self._read_page, channel, max(0.0, since + skew_s) * 1000):
                if part_key(post) == op.key:
                    return Receipt(str(post["id"]))
        except NotAPage as error:
            raise Unknown(str(error)) from None
        return None

    async def _read_page(self, path: str) -> MattermostReply:
        try:
            return check_answer(await self._api.call("GET", path))
        except Rejected as error:  # whether the part is there, nobody can say who may not look
            raise Unknown(str(error)) from None

    async def show_typing(self, address: str) -> None:
        """Show in a channel or thread that an answer is on its way."""
        place = parse_address(address)
        if place.channel:
            body: Json = {"channel_id": place.channel, "parent_id": place.thread}
            await self._api.call("POST", f"/users/{await self._find_me()}/typing", body)


def _write_text(op: Op) -> str:
    """Return the message of a part. Raises Rejected if there is nothing in it, or too much."""
    if not op.text.strip() and op.kind != "file":
        raise Rejected("there is nothing to see in this message: Mattermost takes no empty one")
    text = render((REPEAT_PREFIX if op.marked else "") + op.text)
    if len(text) > MAX_TEXT_CHARS:
        raise Rejected(f"the text is longer than the {MAX_TEXT_CHARS:,} characters that Mattermost takes")
    return text


def _check_target(op: Op) -> str:
    if not is_id(op.target):
        raise Rejected(f"{op.target!r} is not the id of a message of Mattermost")
    return str(op.target)
