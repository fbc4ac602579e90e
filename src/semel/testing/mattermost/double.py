"""The double itself, in memory: one server, one bot, and the people who write to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from semel.testing.mattermost.model import MattermostError, MattermostFault, MattermostFaultKind, MattermostRoom
from semel.text.json_types import Json

BOT = "semelbot000000000000000000"
TOKEN = "tokenofthebot0000000000000"
MAX_POSTS_PER_MS = 4
PENDING_LIFE_S = 30.0
"""How long a `pending_post_id` is remembered (the server's source; the API reference does not have it)."""


class MattermostDouble:
    """One server. The package's docstring lists what is modelled.

    `rate`: (how many requests, within how many seconds) the server takes; None: any number. `now`: returns seconds
    since 1970; `advance` adds to it. `lacks`: permissions that the bot does not have, such as "create_post".
    """

    def __init__(
        self, token: str = TOKEN, *, rate: tuple[int, float] | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.token = token
        self.rate = rate
        self.ahead = 0.0
        self.now: Callable[[], float] = lambda: now() + self.ahead
        self.people: dict[str, Json] = {BOT: _describe_person(BOT, "semel", is_bot=True)}
        self.teams: list[Json] = [{"id": self.new_id("team"), "display_name": "Garden"}]
        self.rooms: dict[str, MattermostRoom] = {}
        self.files: dict[str, Json] = {}
        self.pending: dict[str, tuple[float, str]] = {}  # pending_post_id -> (when, post id; "" while it is saved)
        self.lacks: set[str] = set()
        self.shows_archived = True  # the posts of archived channels (ExperimentalViewArchivedChannels)
        self.typed: list[Json] = []
        self.faults: list[MattermostFault] = []
        self.requests: list[Json] = []
        self.links: list[MattermostLink] = []
        self._count = 0
        self._window = (0.0, 0)
        self._moment = (0, 0)  # (the millisecond of the last post, how many posts it has)

    def new_id(self, kind: str) -> str:
        """Return a new id, of 26 characters, which says of what it is."""
        self._count = getattr(self, "_count", 0) + 1
        return f"{kind}{self._count:0{26 - len(kind)}d}"

    # ------------------------------------------------------------ what the tester sees and does

    def person(self, username: str, is_bot: bool = False) -> str:
        """Add a person. Returns the id."""
        id = self.new_id("user")
        self.people[id] = _describe_person(id, username, is_bot=is_bot)
        return id

    def direct(self, user: str) -> str:
        """Return the direct message between a person and the bot, opened if there is none."""
        for room in self.rooms.values():
            if room.kind == "D" and room.members == {user, BOT}:
                return room.id
        id = self.new_id("direct")
        self.rooms[id] = MattermostRoom(id, f"{user}__{BOT}", "D", {user, BOT})
        return id

    def channel(self, name: str, *members: str, invited: bool = True) -> str:
        """Add a channel. `invited`: whether the bot is in it. Returns the id."""
        id = self.new_id("channel")
        self.rooms[id] = MattermostRoom(id, name, "O", {*members, *([BOT] if invited else [])})
        return id

    def archive(self, channel: str) -> None:
        """Archive a channel."""
        self.rooms[channel].delete_at = self.now_ms()

    def write(
        self, channel: str, user: str, text: str, *, root: str = "", file_ids: list[str] | None = None, **more: Any
    ) -> str:
        """Write a post as a person. `more`: other fields of the post. Returns its id."""
        post = {"message": text, "root_id": root, "file_ids": file_ids or [], **more}
        return str(self.add_post(channel, user, post)["id"])

    def give_file(self, user: str, channel: str, name: str, content: str, mime: str = "text/plain") -> str:
        """Upload a file as a person. Returns its id."""
        return str(self.add_file(user, channel, name, mime, content.encode())["id"])

    def edit(self, post: str, text: str) -> None:
        """Edit a post as its author."""
        self.change_post(post, text)

    def remove(self, post: str) -> None:
        """Delete a post as its author."""
        self.delete_post(post)

    def react(self, post: str, user: str, emoji: str, removed: bool = False) -> None:
        """React to a post as a person."""
        room, _ = self.find_post(post)
        reaction = {"user_id": user, "post_id": post, "emoji_name": emoji, "create_at": self.now_ms()}
        self.tell("reaction_removed" if removed else "reaction_added", room, {"reaction": json.dumps(reaction)})

    def texts(self, channel: str) -> list[str]:
        """Return the texts of the bot's posts in a channel, the oldest first, without deleted ones."""
        return [post["message"] for post in self.shown(channel) if post["user_id"] == BOT]

    def shown(self, channel: str) -> list[Json]:
        """Return the posts that people see in a channel, the oldest first."""
        room = self.rooms.get(channel)
        return [] if room is None else [post for post in room.posts.values() if not post["delete_at"]]

    def asked(self, pattern: str = "") -> list[Json]:
        """Return the requests whose "METHOD PATH" contains `pattern`: {request, body, status}, in order."""
        return [row for row in self.requests if pattern in row["request"]]

    def fail(self, pattern: str, how: MattermostFaultKind, **more: Any) -> None:
        """Add a `MattermostFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(MattermostFault(pattern, how, **more))

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward."""
        self.ahead += seconds

    def disconnect(self) -> None:
        """Close the WebSockets."""
        for link in self.links:
            link.queue.put_nowait(None)

    def lose_event(self) -> None:
        """Lose the next event of each WebSocket: its number is missing."""
        for link in self.links:
            link.seq += 1

    def forget_logins(self) -> None:
        """Forget that the WebSockets were logged in: they stay open, and hear nothing more."""
        for link in self.links:
            link.is_logged_in = False

    # ------------------------------------------------------------ what the routes call

    def now_ms(self) -> int:
        return int(self.now() * 1000)

    def fault(self, request: str) -> MattermostFault | None:
        """Return the fault that strikes this request, or None."""
        return next((fault for fault in self.faults if fault.fits(request)), None)

    def count_request(self) -> tuple[dict[str, str], bool]:
        """Count a request against `rate`. Returns (the headers about it, whether it is refused)."""
        if self.rate is None:
            return {}, False
        most, seconds = self.rate
        ends, used = self._window
        if ends <= self.now():
            ends, used = self.now() + seconds, 0
        self._window = (ends, used + 1)
        reset = str(max(1, round(ends - self.now())))
        left = str(max(0, most - used - 1))
        headers = {"x-ratelimit-limit": str(most), "x-ratelimit-remaining": left, "x-ratelimit-reset": reset}
        return (headers | {"retry-after": reset}, True) if used >= most else (headers, False)

    def find_room(self, id: str) -> MattermostRoom:
        """Return a channel that the bot is in. Raises MattermostError."""
        if id not in self.rooms or BOT not in self.rooms[id].members:
            raise MattermostError(403, "api.context.permissions.app_error", "You do not have the permission.")
        return self.rooms[id]

    def find_post(self, id: str) -> tuple[MattermostRoom, Json]:
        """Return (the channel of a post, the post). Raises MattermostError if there is none."""
        for room in self.rooms.values():
            if id in room.posts and not room.posts[id]["delete_at"]:
                return room, room.posts[id]
        raise MattermostError(404, "app.post.get.app_error", "Unable to get the post.")

    def is_shown(self, post: str) -> bool:
        """Return whether there is a post, and it is not deleted."""
        return any(post in room.posts and not room.posts[post]["delete_at"] for room in self.rooms.values())

    def check_permission(self, name: str) -> None:
        if name in self.lacks:
            raise MattermostError(403, "api.context.permissions.app_error", "You do not have the permission.")

    def add_post(self, channel: str, user: str, fields: Json) -> Json:
        """Write a post, and tell the bot of it. `fields`: message, root_id, file_ids, props, type."""
        room = self.rooms[channel]
        now, id = self._take_time(), self.new_id("post")
        files = [
            self.files[file] for file in fields.get("file_ids") or [] if self._attach_file(file, id, user, channel)
        ]
        infos = [{name: value for name, value in file.items() if name != "content"} for file in files]
        post = {
            "id": id, "create_at": now, "update_at": now, "edit_at": 0, "delete_at": 0, "user_id": user,
            "channel_id": channel, "root_id": "", "original_id": "", "message": "", "type": "", "props": {},
            "metadata": {"files": infos} if infos else {}, **fields, "file_ids": [file["id"] for file in files],
        }  # fmt: skip
        pending = post.pop("pending_post_id", "")
        room.posts[id] = post
        sender = self.people.get(user, {}).get("username", "")
        told = {"channel_type": room.kind, "channel_display_name": room.name, "sender_name": f"@{sender}"}
        self.tell("posted", room, {**told, "post": json.dumps({**post, "pending_post_id": pending})})
        if post["root_id"] and (first := room.posts.get(post["root_id"])) is not None:
            first["update_at"] = now  # a reply changes the post that its thread began with
        return post

    def _attach_file(self, file: str, post: str, user: str, channel: str) -> bool:
        """Attach a file to a post. Returns False if it is another's or has a post: the server then leaves it out."""
        info = self.files.get(file)
        if info is None or (info["user_id"], info["channel_id"], info["post_id"]) != (user, channel, ""):
            return False
        info["post_id"] = post
        return True

    def _take_time(self) -> int:
        """Return the time of a new post: several share a millisecond, but no more than a server saves in one."""
        at, count = self._moment
        now = max(self.now_ms(), at + (count >= MAX_POSTS_PER_MS))
        self._moment = (now, count + 1 if now == at else 1)
        return now

    def change_post(self, id: str, text: str) -> Json:
        room, post = self.find_post(id)
        now, old = self.now_ms(), self.new_id("old")
        room.posts[old] = {**post, "id": old, "original_id": id, "delete_at": now, "update_at": now}  # as it was
        post |= {"message": text, "edit_at": post["edit_at"] if text == post["message"] else now, "update_at": now}
        self.tell("post_edited", room, {"post": json.dumps(post)})
        return post

    def delete_post(self, id: str) -> None:
        room, post = self.find_post(id)
        before = json.dumps(post)
        post |= {"delete_at": self.now_ms(), "update_at": self.now_ms()}
        self.tell("post_deleted", room, {"delete_by": post["user_id"], "post": before})

    def add_file(self, user: str, channel: str, name: str, mime: str, content: bytes) -> Json:
        id = self.new_id("file")
        self.files[id] = {
            "id": id, "user_id": user, "channel_id": channel, "name": name, "mime_type": mime, "size": len(content),
            "content": content, "post_id": "",
        }  # fmt: skip
        return self.files[id]

    def tell(self, event: str, room: MattermostRoom, data: Json) -> None:
        """Tell the WebSockets of the bot an event of a channel, if it is in it."""
        if BOT in room.members:
            for link in self.links:
                link.is_logged_in = link.is_logged_in and link.token in ("", self.token)
                link.tell({"event": event, "data": data, "broadcast": {"channel_id": room.id}})


class MattermostLink:
    """One open WebSocket. `token`: that of its login. `queue`: what is to be sent; None closes it."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.queue: asyncio.Queue[Json | None] = asyncio.Queue()
        self.seq = 0
        self.is_logged_in = True

    def tell(self, event: Json) -> None:
        """Number an event and send it, if the connection is logged in."""
        if not self.is_logged_in:
            return
        self.queue.put_nowait({**event, "seq": self.seq})
        self.seq += 1


def _describe_person(id: str, username: str, *, is_bot: bool) -> Json:
    return {"id": id, "username": username, "delete_at": 0} | ({"is_bot": True} if is_bot else {})
