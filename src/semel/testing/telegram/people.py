"""What people do there: write, edit, react, send files, come and go. Each tells the bot, where Telegram would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from semel.testing.telegram.entities import found_in
from semel.testing.telegram.model import Chat, Human, Json, Kept, Status, Stored
from semel.testing.telegram.updates import Queue


class People:
    """The people's side of the double. Ids are Telegram's: people positive, groups negative."""

    me: Human
    now: Callable[[], float]
    queue: Queue
    chats: dict[int, Chat]
    humans: dict[int, Human]
    files: dict[str, Stored]
    privacy: bool
    shared: int  # the last message id of private chats and basic groups
    before: int  # the first message of a chat that counts by itself has the id behind it

    # ------------------------------------------------------------ who there is

    def person(self, id: int, name: str = "", username: str = "", bot: bool = False) -> Json:
        """Make an account, or name an existing one anew."""
        self.humans[id] = human = Human(id, name or f"Person {id}", username, bot)
        if id in self.chats:
            self.chats[id].human = human
        return human.json()

    def group(
        self,
        id: int,
        title: str = "Group",
        *,
        forum: bool = False,
        status: Status = "member",
        type: Literal["group", "supergroup", "channel"] | None = None,
    ) -> Json:
        """Make a group, or a channel, that the bot is in. Ids below -1000000000000 are supergroups."""
        kind = type or ("supergroup" if id < -1_000_000_000_000 else "group")
        last = self.before + 1  # its creation, or "General"
        self.chats[id] = Chat(id, kind, title, forum=forum, status=status, last=last)
        return self.chats[id].json()

    def topic(self, chat: int, name: str) -> int:
        """Open a topic in a forum (or in a private chat); its message_thread_id."""
        there = self._chat(chat)
        id = self._next(there)
        there.topics[id] = name
        self._tell(there, {"message_id": id, "forum_topic_created": {"name": name, "icon_color": 0}, **self._in(id)}, 1)
        return id

    # ------------------------------------------------------------ what they write

    def write(
        self,
        chat: int,
        text: str,
        *,
        sender: int | None = None,
        reply_to: int | None = None,
        topic: int | None = None,
        entities: list[Json] | None = None,
        extra: Json | None = None,
    ) -> int:
        """A person writes a text; its message id. `sender`: by default the one of a private chat.

        `entities`: by default what Telegram finds by itself. `extra`: more fields of the Message.
        """
        marked = found_in(text) if entities is None else entities
        body: Json = {"text": text, **({"entities": marked} if marked else {}), **(extra or {})}
        return self.post(chat, body, sender=sender, reply_to=reply_to, topic=topic)

    def post(
        self,
        chat: int,
        body: Json,
        *,
        sender: int | None = None,
        reply_to: int | None = None,
        topic: int | None = None,
    ) -> int:
        """A person sends any content: the fields of a Message, such as {"location": {...}}. Its message id."""
        there = self._chat(chat)
        id = self._next(there)
        message: Json = {"message_id": id, **self._in(topic), **body}
        if reply_to is not None and reply_to in there.messages:
            shown = there.messages[reply_to].body
            message["reply_to_message"] = {k: v for k, v in shown.items() if k != "reply_to_message"}
        elif topic is not None and topic in there.messages:  # as Telegram does in forums
            message["reply_to_message"] = there.messages[topic].body
        self._tell(there, message, chat if sender is None else sender)
        return id

    def send_file(
        self,
        chat: int,
        content: bytes | None = None,
        *,
        kind: str = "document",
        name: str = "file.bin",
        mime: str = "application/octet-stream",
        size: int | None = None,
        caption: str = "",
        sender: int | None = None,
        topic: int | None = None,
        extra: Json | None = None,
    ) -> int:
        """A person sends a file; its message id. `kind`: document, photo, audio, video, voice, video_note, animation.

        `size`, bytes, stands for a content that is not given (for files that are too big).
        """
        stored = self.keep_file(kind, name, mime, content, size)
        body: Json = {kind: self.file_json(stored), **(extra or {})}
        if caption:
            body["caption"] = caption
            if marked := found_in(caption):
                body["caption_entities"] = marked
        id = self.post(chat, body, sender=sender, topic=topic)
        self._chat(chat).messages[id].file = stored
        return id

    def edit(self, chat: int, message: int, text: str) -> None:
        """A person edits their text (or caption). Raises ValueError for a message of the bot."""
        kept = self._chat(chat).messages[message]
        if kept.ours:
            raise ValueError(f"message {message} is the bot's own")
        field = "text" if "text" in kept.body else "caption"
        marks = "entities" if field == "text" else "caption_entities"
        kept.body = {k: v for k, v in kept.body.items() if k != marks}
        kept.body |= {field: text, "edit_date": int(self.now())}
        if marked := found_in(text):
            kept.body[marks] = marked
        there = self._chat(chat)
        if self._sees(there, kept.body):
            self.queue.push("edited_channel_post" if there.type == "channel" else "edited_message", kept.body)

    def react(self, chat: int, message: int, emoji: str | None, *, sender: int | None = None) -> None:
        """A person sets their reaction, or takes it back (None). Told in groups only to a bot that is an admin; in
        channels, where reactions are anonymous, as how many there are of each."""
        there = self._chat(chat)
        kept, who = there.messages[message], chat if sender is None else sender
        old = kept.reactions.pop(who, [])
        new = [] if emoji is None else [emoji]
        if new:
            kept.reactions[who] = new
        if there.type == "channel":
            self._count(there, message, kept)
        elif there.type == "private" or there.status == "administrator":
            update = {
                "chat": there.json(),
                "message_id": message,
                "user": self._human(who).json(),
                "date": int(self.now()),
                "old_reaction": [{"type": "emoji", "emoji": each} for each in old],
                "new_reaction": [{"type": "emoji", "emoji": each} for each in new],
            }
            self.queue.push("message_reaction", update)

    def _count(self, chat: Chat, message: int, kept: Kept) -> None:
        """https://core.telegram.org/bots/api#messagereactioncountupdated"""
        counts = Counter(emoji for each in kept.reactions.values() for emoji in each)
        reactions = [{"type": {"type": "emoji", "emoji": emoji}, "total_count": n} for emoji, n in counts.items()]
        update = {"chat": chat.json(), "message_id": message, "date": int(self.now()), "reactions": reactions}
        self.queue.push("message_reaction_count", update)

    def remove(self, chat: int, message: int) -> None:
        """A person deletes a message. Bots are not told."""
        self._chat(chat).messages[message].gone = True

    # ------------------------------------------------------------ coming and going

    def block(self, chat: int, blocked: bool = True) -> None:
        """The person of a private chat blocks the bot, or lets it speak again."""
        there = self._chat(chat)
        before = there.member(self.me.json())
        there.blocked = blocked
        self._member(there, before, chat)

    def member(self, chat: int, status: Status, *, sender: int = 1) -> None:
        """Somebody makes the bot a member, an administrator, or throws it out."""
        there = self._chat(chat)
        before = there.member(self.me.json())
        there.status = status
        self._member(there, before, sender)

    def join(self, chat: int, who: int) -> int:
        """A person joins a group: a service message. Its id."""
        return self.post(chat, {"new_chat_members": [self._human(who).json()]}, sender=who)

    def migrate(self, chat: int) -> int:
        """A group becomes a supergroup, with a new id, which is returned. The old one only refers to it."""
        old = self._chat(chat)
        new = -1_000_000_000_000 - abs(chat)
        self.chats[new] = Chat(new, "supergroup", old.title, status=old.status, last=self.before)
        self.post(chat, {"migrate_to_chat_id": new}, sender=1)
        old.moved_to = new
        self.post(new, {"migrate_from_chat_id": chat}, sender=1)
        return new

    # ------------------------------------------------------------ inside

    def keep_file(self, kind: str, name: str, mime: str, content: bytes | None, size: int | None = None) -> Stored:
        """Store a file as Telegram does. `size` in bytes, where there is no content."""
        number = len(self.files) + 1
        told = len(content) if content is not None else size or 0
        stored = Stored(f"file-{number}", kind, name, mime, told, content, f"{kind}s/file_{number}")
        if "." in name:
            stored.path += "." + name.rpartition(".")[2]
        self.files[stored.id] = stored
        return stored

    def file_json(self, stored: Stored) -> Json | list[Json]:
        """Document, Audio, ... or the PhotoSizes of a photo, the largest last."""
        plain = stored.json()
        if stored.kind == "photo":
            small = {**plain, "file_id": f"{stored.id}-small", "file_size": min(stored.size, 1000)}
            return [{**small, "width": 90, "height": 60}, {**plain, "width": 900, "height": 600}]
        more: Json = {"mime_type": stored.mime}
        if stored.kind in ("document", "audio", "video", "animation"):
            more["file_name"] = stored.name
        if stored.kind in ("audio", "video", "voice", "video_note", "animation"):
            more["duration"] = 3
        return {**plain, **more}

    def _tell(self, chat: Chat, message: Json, sender: int) -> None:
        message |= {"date": int(self.now()), "chat": chat.json()}
        if chat.type == "channel":
            message.setdefault("sender_chat", chat.json())
        else:
            message.setdefault("from", self._human(sender).json())
        chat.messages[message["message_id"]] = Kept(message)
        if self._sees(chat, message):
            self.queue.push("channel_post" if chat.type == "channel" else "message", message)

    def _sees(self, chat: Chat, message: Json) -> bool:
        """What a bot in privacy mode gets: https://core.telegram.org/bots/features#privacy-mode."""
        if chat.status in ("left", "kicked") or chat.blocked:
            return False
        if message.get("from", {}).get("is_bot") and "sender_chat" not in message:
            return False  # "bots will not be able to see messages from other bots"
        if chat.type in ("private", "channel") or chat.status == "administrator" or not self.privacy:
            return True
        if "text" not in message and "caption" not in message and not self._has_file(message):
            return True  # service messages
        words = f"{message.get('text', '')} {message.get('caption', '')}".lower()
        commands = [e for e in message.get("entities", []) if e["type"] == "bot_command"]
        meant = bool(commands) and ("@" not in words.split()[0] or f"@{self.me.username.lower()}" in words)
        ours = message.get("reply_to_message", {}).get("from", {}).get("id") == self.me.id
        named = any(e.get("user", {}).get("id") == self.me.id for e in message.get("entities", []))
        return meant or ours or named or f"@{self.me.username.lower()}" in words

    @staticmethod
    def _has_file(message: Json) -> bool:
        return bool(message.keys() & {"photo", "document", "audio", "video", "voice", "sticker", "animation"})

    def _member(self, chat: Chat, before: Json, sender: int) -> None:
        update = {
            "chat": chat.json(),
            "from": self._human(sender).json(),
            "date": int(self.now()),
            "old_chat_member": before,
            "new_chat_member": chat.member(self.me.json()),
        }
        self.queue.push("my_chat_member", update)

    def _in(self, topic: int | None) -> Json:
        return {} if topic is None else {"message_thread_id": topic, "is_topic_message": True}

    def _human(self, id: int) -> Human:
        if id not in self.humans:
            self.humans[id] = Human(id, f"Person {id}")
        return self.humans[id]

    def _chat(self, id: int) -> Chat:
        """The chat; a person who writes opens a private one."""
        if id not in self.chats:
            if id < 0:
                raise KeyError(f"there is no group {id}: make it with `group`")
            self.chats[id] = Chat(id, "private", human=self._human(id))
        return self.chats[id]

    def _next(self, chat: Chat) -> int:
        if chat.counts_alone:
            chat.last += 1
            return chat.last
        self.shared += 1
        return self.shared
