"""The double itself, in memory: the Bot API for one bot, and the people who write to it."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable
from typing import Any

from semel.testing.telegram.limits import FloodLimits
from semel.testing.telegram.methods import METHODS
from semel.testing.telegram.model import ApiError, ApiFault, Chat, FaultKind, StoredFile, TelegramAccount
from semel.testing.telegram.people import TelegramPeople
from semel.testing.telegram.updates import UpdateQueue
from semel.text.json_types import Json

TOKEN = "8000000001:AAtest-token_0123456789-abcdefghijk"
"""The default token of the double's bot."""


class TelegramDouble(TelegramPeople):
    """One bot, its chats and the people in them. The package's docstring lists what is modelled.

    `username`: the bot's name, without the @. `privacy`: whether privacy mode is on, as it is by default at Telegram.
    `now`: returns seconds since the epoch; `advance` adds to it. `seed`: of the faults that strike by chance.
    `first_update`, `first_message`: the first id of updates, and of messages in each count. `limits`: whether messages
    are limited in number.
    """

    def __init__(
        self,
        token: str = TOKEN,
        username: str = "test_semel_bot",
        *,
        privacy: bool = True,
        now: Callable[[], float] = time.time,
        seed: int = 0,
        first_update: int = 700_000_001,
        first_message: int = 1,
        limits: bool = False,
    ) -> None:
        self.token = token
        self.me = TelegramAccount(int(token.partition(":")[0]), "Semel", username, bot=True)
        self.privacy = privacy
        self.ahead = 0.0  # seconds
        self.now: Callable[[], float] = lambda: now() + self.ahead
        self.queue = UpdateQueue(self.now, first_update)
        self.chats: dict[int, Chat] = {}
        self.humans: dict[int, TelegramAccount] = {}
        self.presses: dict[str, bool] = {}
        self.files: dict[str, StoredFile] = {}
        self.before = self.shared = first_message - 1
        self.faults: list[ApiFault] = []
        self.requests: list[Json] = []
        self.actions: list[Json] = []
        self.limits = FloodLimits() if limits else None
        self._dice = random.Random(seed)

    def __repr__(self) -> str:
        return f"<TelegramDouble @{self.me.username} {len(self.chats)} chats, {len(self.requests)} requests>"

    # ------------------------------------------------------------ what the tester sees

    def shown(self, chat: int) -> list[Json]:
        """Return the messages that a person sees in a chat, from the oldest to the newest.

        Each has the keys id, from (a user id) and text, and, where they apply, entities, file {kind, name, size},
        reply_to (a message id), topic, reactions {user id: [emoji]}, buttons (rows of labels) and edited.
        """
        place = self.chats.get(chat)
        return (
            []
            if place is None
            else [_describe_message(message) for message in place.messages.values() if not message.is_deleted]
        )

    def texts(self, chat: int) -> list[str]:
        """Return the texts and captions that the bot sent to a chat, in order, without deleted messages."""
        place = self.chats.get(chat)
        messages = [] if place is None else place.messages.values()
        return [
            _describe_message(message)["text"] for message in messages if message.from_bot and not message.is_deleted
        ]

    def pending(self) -> list[Json]:
        """Return the updates that the bot has not confirmed yet."""
        return self.queue.pending()

    def asked(self, method: str = "*") -> list[Json]:
        """Return the calls of a method ("*": all) in order: {method, params, status}. The status of a call that got no
        answer is None."""
        return [row for row in self.requests if method == "*" or row["method"].lower() == method.lower()]

    def typing(self) -> list[Json]:
        """Return the chat actions that were shown, such as typing: {chat, topic, action}."""
        return list(self.actions)

    # ------------------------------------------------------------ what the tester does

    def fail(
        self, method: str, how: FaultKind, after: bool = False, times: int | None = 1, chance: float = 1.0,
        retry_after: int = 1, seconds: float = 0.5, description: str = "",
    ) -> None:  # fmt: skip
        """Add an `ApiFault`, which has the same fields, for calls of a method. Earlier faults strike first."""
        self.faults.append(ApiFault(method, how, after, times, chance, retry_after, seconds, description))

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.faults.clear()

    def advance(self, seconds: float) -> None:
        """Move Telegram's clock forward."""
        self.ahead += seconds
        self.queue.wake()

    def renumber(self, next: int) -> None:
        """Give the next update the id `next`. (After a week without updates, Telegram continues at a random id.)"""
        self.queue.next = next

    def update(self, kind: str, content: Json) -> int | None:
        """Queue an update of any kind for the bot. Returns its id, or None if the bot did not ask for that kind."""
        return self.queue.push(kind, content)

    def webhook(self, url: str) -> None:
        """Set the bot's webhook, as another program with its token could; "" removes it."""
        self.queue.webhook = url

    def retoken(self, token: str) -> None:
        """Revoke the bot's token; `token` is its new one."""
        self.token = token

    # ------------------------------------------------------------ what the server calls

    def fault(self, method: str) -> ApiFault | None:
        """Return the fault that strikes a call of this method, or None. The call counts against the fault's `times`."""
        return next((fault for fault in self.faults if fault.fits(method, self._dice.random)), None)

    async def call(self, method: str, params: Json) -> tuple[int, Json]:
        """Call a Bot API method. Returns the HTTP status and the JSON of the answer."""
        function = METHODS.get(method.lower())
        try:
            if function is None:
                raise ApiError(404, "Not Found: method not found")
            result = function(self, params)
            if inspect.isawaitable(result):
                result = await result
        except ApiError as error:
            return error.code, error.body()
        return 200, {"ok": True, "result": result}


def _describe_message(message: Any) -> Json:
    body = message.body
    shown: Json = {
        "id": body["message_id"],
        "from": body.get("from", body.get("sender_chat", {})).get("id"),
        "text": body.get("text", body.get("caption", "")),
    }
    for name, value in (
        ("entities", body.get("entities", body.get("caption_entities"))),
        ("reply_to", body.get("reply_to_message", {}).get("message_id")),
        ("topic", body.get("message_thread_id")),
        ("reactions", {user_id: emoji for user_id, emoji in message.reactions.items() if emoji}),
        ("buttons", [[key["text"] for key in row] for row in body.get("reply_markup", {}).get("inline_keyboard", ())]),
        ("edited", "edit_date" in body),
    ):
        if value:
            shown[name] = value
    if message.file is not None:
        shown["file"] = {"kind": message.file.kind, "name": message.file.name, "size": message.file.size}
    return shown
