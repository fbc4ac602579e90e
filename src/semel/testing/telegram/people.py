"""The actions of people: write, edit, react, send files, join. Each queues the update that Telegram would send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from semel.testing.telegram.model import Chat, Status, StoredFile, StoredMessage, TelegramAccount
from semel.testing.telegram.text import detect_entities
from semel.testing.telegram.updates import UpdateQueue
from semel.text.json_types import Json


class TelegramPeople:
    """The part of the double that acts for people. As at Telegram, ids of people are positive, of groups negative."""

    me: TelegramAccount
    now: Callable[[], float]
    queue: UpdateQueue
    chats: dict[int, Chat]
    humans: dict[int, TelegramAccount]
    files: dict[str, StoredFile]
    presses: dict[str, bool]  # id of a press -> whether the bot answered it
    privacy: bool
    shared: int  # the last message id in the count that private chats and basic groups share
    before: int  # the id before the first message of a chat that counts its own ids

    # ------------------------------------------------------------ accounts and chats

    def person(self, id: int, name: str = "", username: str = "", bot: bool = False) -> Json:
        """Make an account, or replace the one with this id. Returns its User object."""
        self.humans[id] = human = TelegramAccount(id, name or f"Person {id}", username, bot)
        if id in self.chats:
            self.chats[id].human = human
        return human.json()

    def group(
        self,
        id: int,
        title: str = "Group",
        *,
        forum: bool = False,
        direct: bool = False,
        status: Status = "member",
        type: Literal["group", "supergroup", "channel"] | None = None,
    ) -> Json:
        """Make a group or a channel that the bot is in. Returns its Chat object.

        `direct`: whether it holds the direct messages of a channel; each person who writes there has a topic, with
        their id. `type`: by default a supergroup for ids below -1000000000000, else a basic group. `status`: the bot's.
        """
        kind = type or ("supergroup" if id < -1_000_000_000_000 else "group")
        last = self.before + 1  # the message about its creation, or the topic "General"
        self.chats[id] = Chat(id, kind, title, forum=forum, is_direct=direct, status=status, last_message_id=last)
        return self.chats[id].json()

    def topic(self, chat: int, name: str) -> int:
        """Open a topic in a forum (or in a private chat). Returns its message_thread_id."""
        place = self._chat(chat)
        id = self.next_id(place)
        place.topics[id] = name
        self._post_message(
            place,
            {"message_id": id, "forum_topic_created": {"name": name, "icon_color": 0}, **self._topic_fields(id)},
            1,
        )
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
        """Send a text as a person. Returns the message id.

        `sender`: a user id, by default the person of the private chat. `reply_to`: a message id. `entities`: by default
        those that Telegram detects. `extra`: more fields of the Message.
        """
        marked = detect_entities(text) if entities is None else entities
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
        """Send any content as a person. Returns the message id.

        `body`: the content, as fields of a Message, such as {"location": {...}}. For the others see `write`.
        """
        place = self._chat(chat)
        id = self.next_id(place)
        author = chat if sender is None else sender
        message: Json = {"message_id": id, **self._topic_fields(topic), **body}
        if place.is_direct:
            message["direct_messages_topic"] = {"topic_id": author, "user": self._human(author).json()}
        if reply_to is not None and reply_to in place.messages:
            quoted = place.messages[reply_to].body
            message["reply_to_message"] = {key: value for key, value in quoted.items() if key != "reply_to_message"}
        elif topic is not None and topic in place.messages:  # in forums, Telegram adds the topic's first message
            message["reply_to_message"] = place.messages[topic].body
        self._post_message(place, message, author)
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
        """Send a file as a person. Returns the message id.

        `kind`: document, photo, audio, video, voice, video_note or animation. `size`: the size in bytes of a file
        without `content`, for files that are too big. For the others see `write`.
        """
        stored = self.keep_file(kind, name, mime, content, size)
        body: Json = {kind: self.file_json(stored), **(extra or {})}
        if caption:
            body["caption"] = caption
            if marked := detect_entities(caption):
                body["caption_entities"] = marked
        id = self.post(chat, body, sender=sender, topic=topic)
        self._chat(chat).messages[id].file = stored
        return id

    def edit(self, chat: int, message: int, text: str) -> None:
        """Edit the text (or caption) of a person's message. Raises ValueError if it is the bot's."""
        stored = self._chat(chat).messages[message]
        if stored.from_bot:
            raise ValueError(f"message {message} is the bot's own")
        field = "text" if "text" in stored.body else "caption"
        marks = "entities" if field == "text" else "caption_entities"
        stored.body = {key: value for key, value in stored.body.items() if key != marks}
        stored.body |= {field: text, "edit_date": int(self.now())}
        if marked := detect_entities(text):
            stored.body[marks] = marked
        place = self._chat(chat)
        if self._is_visible_to_bot(place, stored.body):
            self.queue.push("edited_channel_post" if place.type == "channel" else "edited_message", stored.body)

    def react(self, chat: int, message: int, emoji: str | None, *, sender: int | None = None) -> None:
        """Set a person's reaction to a message, or remove it (`emoji` None).

        In groups only an administrator bot gets the update. In channels, where reactions are anonymous, the bot gets
        how many there are of each emoji. `sender`: a user id, by default the person of the private chat.
        """
        place = self._chat(chat)
        stored, user_id = place.messages[message], chat if sender is None else sender
        old = stored.reactions.pop(user_id, [])
        new = [] if emoji is None else [emoji]
        if new:
            stored.reactions[user_id] = new
        if place.type == "channel":
            self._announce_reaction_counts(place, message, stored)
        elif place.type == "private" or place.status == "administrator":
            update = {
                "chat": place.json(),
                "message_id": message,
                "user": self._human(user_id).json(),
                "date": int(self.now()),
                "old_reaction": [{"type": "emoji", "emoji": emoji_before} for emoji_before in old],
                "new_reaction": [{"type": "emoji", "emoji": emoji_before} for emoji_before in new],
            }
            self.queue.push("message_reaction", update)

    def _announce_reaction_counts(self, chat: Chat, message: int, stored: StoredMessage) -> None:
        """Queue the update of https://core.telegram.org/bots/api#messagereactioncountupdated."""
        counts = Counter(emoji for emojis in stored.reactions.values() for emoji in emojis)
        reactions = [{"type": {"type": "emoji", "emoji": emoji}, "total_count": n} for emoji, n in counts.items()]
        update = {"chat": chat.json(), "message_id": message, "date": int(self.now()), "reactions": reactions}
        self.queue.push("message_reaction_count", update)

    def press(self, chat: int, message: int, button: str, *, sender: int | None = None) -> str:
        """Press a button under a message of the bot. Returns the id of the press.

        `button`: its label or its data. `sender`: a user id, by default the person of the private chat. Raises
        ValueError if there is no such button.
        """
        stored = self._chat(chat).messages[message]
        keys = [key for row in stored.body.get("reply_markup", {}).get("inline_keyboard", ()) for key in row]
        data = next((key["callback_data"] for key in keys if button in (key["text"], key["callback_data"])), None)
        if data is None:
            raise ValueError(f"message {message} has the buttons {[key['text'] for key in keys]}, and not {button!r}")
        id = f"press-{len(self.presses) + 1}"
        self.presses[id] = False
        who = self._human(chat if sender is None else sender).json()
        self.queue.push("callback_query", {"id": id, "from": who, "message": stored.body, "data": data})
        return id

    def remove(self, chat: int, message: int) -> None:
        """Delete a message as a person. The bot gets no update."""
        self._chat(chat).messages[message].is_deleted = True

    # ------------------------------------------------------------ membership

    def block(self, chat: int, blocked: bool = True) -> None:
        """Block the bot as the person of a private chat, or unblock it (`blocked` False)."""
        place = self._chat(chat)
        before = place.member(self.me.json())
        place.blocked = blocked
        self._announce_member(place, before, chat)

    def member(self, chat: int, status: Status, *, sender: int = 1) -> None:
        """Change the bot's status in a chat. `sender`: the user id of the person who changes it."""
        place = self._chat(chat)
        before = place.member(self.me.json())
        place.status = status
        self._announce_member(place, before, sender)

    def join(self, chat: int, who: int) -> int:
        """Let the person `who` join a group. Returns the id of the service message."""
        return self.post(chat, {"new_chat_members": [self._human(who).json()]}, sender=who)

    def migrate(self, chat: int) -> int:
        """Turn a group into a supergroup. Returns the new id. Errors of calls for the old id name the new one."""
        old = self._chat(chat)
        new = -1_000_000_000_000 - abs(chat)
        self.chats[new] = Chat(new, "supergroup", old.title, status=old.status, last_message_id=self.before)
        self.post(chat, {"migrate_to_chat_id": new}, sender=1)
        old.moved_to = new
        self.post(new, {"migrate_from_chat_id": chat}, sender=1)
        return new

    # ------------------------------------------------------------ internal

    def keep_file(self, kind: str, name: str, mime: str, content: bytes | None, size: int | None = None) -> StoredFile:
        """Store a file as Telegram does. `size`: its size in bytes if `content` is None."""
        number = len(self.files) + 1
        bytes_count = len(content) if content is not None else size or 0
        stored = StoredFile(f"file-{number}", kind, name, mime, bytes_count, content, f"{kind}s/file_{number}")
        if "." in name:
            stored.path += "." + name.rpartition(".")[2]
        self.files[stored.id] = stored
        return stored

    def file_json(self, stored: StoredFile) -> Json | list[Json]:
        """Return the file's Bot API object (Document, Audio, ...), or the PhotoSizes of a photo, the largest last."""
        plain = stored.json()
        if stored.kind == "photo":
            small = {**plain, "file_id": f"{stored.id}-small", "file_size": min(stored.size, 1000)}
            return [{**small, "width": 90, "height": 60}, {**plain, "width": 900, "height": 600}]
        fields: Json = {"mime_type": stored.mime}
        if stored.kind in ("document", "audio", "video", "animation"):
            fields["file_name"] = stored.name
        if stored.kind in ("audio", "video", "voice", "video_note", "animation"):
            fields["duration"] = 3
        return {**plain, **fields}

    def _post_message(self, chat: Chat, message: Json, sender: int) -> None:
        message |= {"date": int(self.now()), "chat": chat.json()}
        if chat.type == "channel":
            message.setdefault("sender_chat", chat.json())
        else:
            message.setdefault("from", self._human(sender).json())
        chat.messages[message["message_id"]] = StoredMessage(message)
        if self._is_visible_to_bot(chat, message):
            self.queue.push("channel_post" if chat.type == "channel" else "message", message)

    def _is_visible_to_bot(self, chat: Chat, message: Json) -> bool:
        """Whether the bot gets this message. Privacy mode: https://core.telegram.org/bots/features#privacy-mode."""
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

    def _announce_member(self, chat: Chat, before: Json, sender: int) -> None:
        update = {
            "chat": chat.json(),
            "from": self._human(sender).json(),
            "date": int(self.now()),
            "old_chat_member": before,
            "new_chat_member": chat.member(self.me.json()),
        }
        self.queue.push("my_chat_member", update)

    def _topic_fields(self, topic: int | None) -> Json:
        return {} if topic is None else {"message_thread_id": topic, "is_topic_message": True}

    def _human(self, id: int) -> TelegramAccount:
        if id not in self.humans:
            self.humans[id] = TelegramAccount(id, f"Person {id}")
        return self.humans[id]

    def _chat(self, id: int) -> Chat:
        """Return the chat with this id. Opens a person's private chat if there is none; raises KeyError for a group."""
        if id not in self.chats:
            if id < 0:
                raise KeyError(f"there is no group {id}: make it with `group`")
            self.chats[id] = Chat(id, "private", human=self._human(id))
        return self.chats[id]

    def next_id(self, chat: Chat) -> int:
        if chat.has_own_message_ids:
            chat.last_message_id += 1
            return chat.last_message_id
        self.shared += 1
        return self.shared
