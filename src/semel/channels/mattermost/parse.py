"""Parse what Mattermost sends into inbox events.

| from Mattermost | event | key |
|---|---|---|
| `posted`, a post of the history | message | the post's id |
| `post_edited`, a changed post of the history | edit | `ID#eTIME` |
| `post_deleted`, a deleted post of the history | delete | `ID#deleted` |
| `reaction_added`, `reaction_removed` | reaction | `ID#rCONNECTION.NUMBER` |
| our own post | echo of the part, if it names one | the part's key |
| a post of Mattermost itself (somebody joined), other events | none | |
| what cannot be parsed | unreadable | `event/CONNECTION.NUMBER` |

Reactions come over the WebSocket alone, so the event's number is their key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.emoji_names import to_character
from semel.channels.mattermost.address import MattermostCursor, MattermostPlace, check_id, is_id
from semel.channels.mattermost.directory import DIRECT, MattermostDirectory, MattermostIdentity
from semel.channels.mattermost.settings import MattermostThreads
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Denied, Incoming, Offline, Person
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.media_types import is_sound
from semel.text.wellformed import scrub

KEY_PROP = "semel_key"
"""The entry of a post's `props` by which a part is recognised."""
EMPTY = "[a message without text]"
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class MattermostFile:
    """A file of a post. `size`: in bytes. `is_voice`: it is a sound without a word beside it."""

    id: str
    name: str
    mime: str
    size: int
    is_voice: bool = False


@dataclass(frozen=True)
class MattermostDraft:
    """An inbox event whose files are still to be downloaded."""

    incoming: Incoming
    files: tuple[MattermostFile, ...] = ()


class MattermostParser:
    """Parses events of one bot. `cursor`: names the threads that are for the bot.

    Its methods raise Offline or Denied if a name cannot be looked up, and nothing else.
    """

    def __init__(
        self, us: MattermostIdentity, cursor: MattermostCursor, directory: MattermostDirectory,
        policy: MattermostThreads,
    ) -> None:  # fmt: skip
        self._us = us
        self._cursor = cursor
        self._directory = directory
        self._policy = policy
        self._mention = re.compile(rf"(?<![\w@.-])@{re.escape(us.username)}(?![\w-]|\.\w)", re.I)
        self._addresses = RecentMap[str, str](_MAX_REMEMBERED)  # of posts: reactions do not name a thread

    async def parse_event(self, event: Json, number: str) -> list[MattermostDraft]:
        """Parse an event of the WebSocket. `number`: of the connection and the event."""
        try:
            return await self._parse_event(event, number)
        except (Offline, Denied):
            raise
        except Exception as error:  # one odd event must not block all later ones (Law 1)
            return [_make_unreadable(f"event/{number}", event, error)]

    async def parse_post(self, post: Json, since_ms: int) -> list[MattermostDraft]:
        """Parse a post of the history. Of one that was put before, an edit; of one before `since_ms`, only changes."""
        try:
            return await self._parse_old(post, since_ms)
        except (Offline, Denied):
            raise
        except Exception as error:
            return [_make_unreadable(f"history/{post.get('id')}", post, error)]

    # ------------------------------------------------------------ events

    async def _parse_event(self, event: Json, number: str) -> list[MattermostDraft]:
        data = object_at(event, "data")
        match event.get("event"):
            case "posted":
                return await self._parse_message(_load(data, "post"))
            case "post_edited":
                return await self._parse_edit(_load(data, "post"))
            case "post_deleted":
                return await self._parse_deletion(_load(data, "post"))
            case "reaction_added" | "reaction_removed" as kind:
                return await self._parse_reaction(
                    _load(data, "reaction"), event, number, is_removed=kind == "reaction_removed"
                )
        return []

    async def _parse_message(self, post: Json) -> list[MattermostDraft]:
        if not _is_spoken(post):
            return []
        if post.get("user_id") == self._us.user:
            return self._parse_own(post)
        files = _list_files(post)
        return [MattermostDraft(await self._make_incoming("message", post), files)]

    def _parse_own(self, post: Json) -> list[MattermostDraft]:
        """Return the report that one of our parts arrived; [] if the post names none."""
        id, key = check_id(post.get("id")), part_key(post)
        self._addresses[id] = str(self._place(post, False))
        if not post.get("root_id"):
            self._cursor.join_thread(id)
        return [MattermostDraft(Incoming("echo", key, of=id))] if key is not None else []

    async def _parse_edit(self, post: Json) -> list[MattermostDraft]:
        """Return the edit; [] for a change that no person made: a preview, or a reply to it."""
        edited = post.get("edit_at")
        if not isinstance(edited, int) or edited <= 0 or not _is_spoken(post) or post.get("user_id") == self._us.user:
            return []
        incoming = await self._make_incoming("edit", post)
        id = incoming.key
        return [MattermostDraft(replace(incoming, key=f"{id}#e{edited}", of=id, at=edited / 1000))]

    async def _parse_deletion(self, post: Json) -> list[MattermostDraft]:
        if not _is_spoken(post) or post.get("user_id") == self._us.user:
            return []
        id = check_id(post.get("id"))
        incoming = await self._make_incoming("delete", post)
        at = post.get("delete_at") or post.get("update_at") or post["create_at"]
        deletion = replace(incoming, key=f"{id}#deleted", text="", of=id, at=float(at) / 1000, mentioned=False)
        return [MattermostDraft(deletion)]

    async def _parse_reaction(
        self, reaction: Json, event: Json, number: str, *, is_removed: bool
    ) -> list[MattermostDraft]:
        user, post = check_id(reaction.get("user_id")), check_id(reaction.get("post_id"))
        if user == self._us.user:
            return []
        channel = check_id(text_at(event, "broadcast", "channel_id") or reaction.get("channel_id"))
        info = await self._directory.find_channel(channel)
        at = reaction.get("create_at")
        incoming = Incoming(
            "reaction", f"{post}#r{number}", await self._find_address(post, channel),
            await self._directory.find_person(user), to_character(str(reaction["emoji_name"])),
            at=at / 1000 if isinstance(at, int) else 0.0, of=post, group=info.get("type") != DIRECT,
            removed=is_removed, title=_title(info),
        )  # fmt: skip
        return [MattermostDraft(incoming)]

    async def _find_address(self, id: str, channel: str) -> str:
        """Return the conversation of a post: a reaction does not name its thread. Raises Denied.

        Raises ValueError if it cannot be looked up: heard in another conversation, an answer would be lost quietly.
        """
        if id not in self._addresses:
            try:
                post = await self._directory.find_post(id)
            except Offline as error:
                raise ValueError(f"its post cannot be looked up: {error}") from None
            if post.get("id") != id or post.get("channel_id") != channel:
                return channel
            is_ours = post.get("user_id") == self._us.user
            is_addressed = not is_ours and (self._take_mention(_read_text(post))[1] or id in self._cursor.threads)
            self._addresses[id] = str(self._place(post, is_addressed))
        return self._addresses[id]

    async def _parse_old(self, post: Json, since_ms: int) -> list[MattermostDraft]:
        if post.get("delete_at"):
            return await self._parse_deletion(post)
        edited, was_put = post.get("edit_at"), post["create_at"] <= self._cursor.at
        if isinstance(edited, int) and edited > 0 and was_put:  # a reply changes a post, too, and is no edit
            return await self._parse_edit(post) if edited > since_ms else []
        return await self._parse_message(post) if post["create_at"] > since_ms else []

    # ------------------------------------------------------------ fields

    async def _make_incoming(self, kind: Any, post: Json) -> Incoming:
        id, channel = check_id(post.get("id")), check_id(post.get("channel_id"))
        info = await self._directory.find_channel(channel)
        is_direct = info.get("type") == DIRECT
        root = _read_root(post)
        written = _read_text(post)
        text, mentions = self._take_mention(written)
        is_addressed = not is_direct and (mentions or (root or id) in self._cursor.threads)
        if kind == "message" and not is_direct and mentions and not root:
            self._cursor.join_thread(id)
        address = (self._addresses.get(id) if kind != "message" else None) or str(
            self._place(post, not is_direct and (mentions or id in self._cursor.threads))
        )
        self._addresses[id] = address
        return Incoming(
            kind, id, address, await self._find_sender(post), text, at=post["create_at"] / 1000,
            group=not is_direct, mentioned=is_addressed, title=_title(info),
            data={"channel": channel, "thread": root or None},
        )  # fmt: skip

    async def _find_sender(self, post: Json) -> Person:
        """Return who wrote a post. A webhook's post has the id of who made the webhook: it is not their word."""
        user = check_id(post.get("user_id"))
        props = object_at(post, "props")
        if props.get("from_webhook") in ("true", True):
            return Person(f"webhook-{user}", scrub(text_at(props, "override_username") or "webhook"), True)
        person = await self._directory.find_person(user)
        is_bot = any(props.get(name) in ("true", True) for name in ("from_bot", "from_plugin"))
        return replace(person, bot=person.bot or is_bot)

    def _take_mention(self, text: str) -> tuple[str, bool]:
        """Return (a text without a mention of the bot at its beginning, whether it mentions the bot)."""
        first = self._mention.match(text)
        if first is not None:
            return text[first.end() :].lstrip(" \t\n,:"), True
        return text, self._mention.search(text) is not None

    def _place(self, post: Json, is_addressed: bool) -> MattermostPlace:
        """Return the conversation that a post belongs to, by the setting `threads`."""
        channel, root = check_id(post.get("channel_id")), _read_root(post)
        if self._policy == "room":
            return MattermostPlace(channel)
        if root:
            return MattermostPlace(channel, root)
        return MattermostPlace(channel, str(post["id"]) if self._policy == "start" and is_addressed else "")


def part_key(post: Json) -> str | None:
    """Return the key of the part that a post of ours is, by its `props`; None if it names none."""
    return text_at(post, "props", KEY_PROP)


def _load(data: Json, name: str) -> Json:
    """Return an object that an event holds as JSON in a text."""
    loaded = json.loads(str(data[name]))
    if not isinstance(loaded, dict):
        raise ValueError(f"{name} is no object")
    return dict(scrub(loaded))


def _read_root(post: Json) -> str:
    """Return the post that the thread of a post began with; "" if it is in none. Raises ValueError."""
    return check_id(post["root_id"]) if post.get("root_id") else ""


def _is_spoken(post: Json) -> bool:
    """Whether somebody wrote a post; others are Mattermost's own, such as system_join_channel."""
    return not str(post.get("type") or "").startswith("system_")


def _read_text(post: Json) -> str:
    """Return a post's text; of one without, that of its attachments."""
    text = scrub(str(post.get("message") or ""))
    if text.strip():
        return text
    attachments = objects_in(object_at(post, "props").get("attachments"))
    words = [text_at(each, "fallback") or text_at(each, "text") or text_at(each, "title") for each in attachments]
    return "\n".join(scrub(each) for each in words if each) or ("" if _list_files(post) else EMPTY)


def _list_files(post: Json) -> tuple[MattermostFile, ...]:
    """Return the files of a post. One whose details are missing has an id only."""
    known = {str(info.get("id")): info for info in objects_in(object_at(post, "metadata").get("files"))}
    ids = [id for id in post.get("file_ids") or known if is_id(id)]
    is_alone = len(ids) == 1 and not str(post.get("message") or "").strip()
    files = []
    for id in ids:
        info = known.get(id, {})
        mime, size = text_at(info, "mime_type") or "application/octet-stream", info.get("size")
        files.append(
            MattermostFile(
                id, scrub(text_at(info, "name") or "file"), mime, size if isinstance(size, int) and size > 0 else 0,
                is_voice=is_alone and is_sound(mime),
            )
        )  # fmt: skip
    return tuple(files)


def _title(channel: Json) -> str:
    return "" if channel.get("type") == DIRECT else scrub(text_at(channel, "display_name") or "")


def _make_unreadable(key: str, payload: Json, error: Exception) -> MattermostDraft:
    raw = json.dumps(payload, ensure_ascii=False, default=repr).encode("utf-8", "backslashreplace")
    why = f"it cannot be read ({type(error).__name__}: {error})"[:300]
    return MattermostDraft(Incoming("unreadable", scrub(key)[:500], raw=raw, why=why))
