"""The double itself: both sides of one bot, in memory."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable
from typing import Any, Literal

from semel.testing.telegram.errors import ApiError
from semel.testing.telegram.methods import METHODS
from semel.testing.telegram.model import Chat, Fault, Human, Json, Stored
from semel.testing.telegram.people import People
from semel.testing.telegram.updates import Queue

TOKEN = "8000000001:AAtest-token_0123456789-abcdefghijk"
"""The token of the double's bot, where no other is given."""

How = Literal["drop", "cut", "hang", "slow", "500", "502", "429", "401"]


class TelegramDouble(People):
    """One bot, its chats and the people in them. See the package's docstring for what is modelled.

    `now` gives seconds since the epoch; `advance` moves it. `privacy`: privacy mode, on as BotFather sets it.
    `first_update`, `first_message`: where the ids of updates, and of every chat's messages, begin.
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
    ) -> None:
        self.token = token
        self.me = Human(int(token.partition(":")[0]), "Semel", username, bot=True)
        self.privacy = privacy
        self.ahead = 0.0  # seconds
        self.now: Callable[[], float] = lambda: now() + self.ahead
        self.queue = Queue(self.now, first_update)
        self.chats: dict[int, Chat] = {}
        self.humans: dict[int, Human] = {}
        self.files: dict[str, Stored] = {}
        self.before = self.shared = first_message - 1
        self.faults: list[Fault] = []
        self.requests: list[Json] = []
        self.actions: list[Json] = []
        self._dice = random.Random(seed)

    def __repr__(self) -> str:
        return f"<TelegramDouble @{self.me.username} {len(self.chats)} chats, {len(self.requests)} requests>"

    # ------------------------------------------------------------ what the tester sees

    def shown(self, chat: int) -> list[Json]:
        """What a person sees in a chat, from the oldest to the newest message.

        Of each: id, from (a user id), text, and where it has them: entities, file {kind, name, size}, reply_to,
        topic, reactions {user id: [emoji]}, edited.
        """
        there = self.chats.get(chat)
        return [] if there is None else [_seen(kept) for kept in there.messages.values() if not kept.gone]

    def texts(self, chat: int) -> list[str]:
        """What the bot said there (captions too), in order."""
        there = self.chats.get(chat)
        kept = [] if there is None else there.messages.values()
        return [_seen(each)["text"] for each in kept if each.ours and not each.gone]

    def pending(self) -> list[Json]:
        """The updates that wait to be confirmed."""
        return self.queue.pending()

    def asked(self, method: str = "*") -> list[Json]:
        """The calls of a method: {method, params, status}, in order. A status of None: no answer was given."""
        return [each for each in self.requests if method == "*" or each["method"].lower() == method.lower()]

    def typing(self) -> list[Json]:
        """The chat actions that were shown: {chat, topic, action}."""
        return list(self.actions)

    # ------------------------------------------------------------ what the tester does

    def fail(
        self,
        method: str,
        how: How,
        *,
        after: bool = False,
        times: int | None = 1,
        chance: float = 1.0,
        retry_after: int = 1,
        seconds: float = 0.5,
    ) -> None:
        """Let calls of a method go wrong: see `Fault`. Faults of one method strike in the order they were told."""
        self.faults.append(Fault(method, how, after, times, chance, retry_after, seconds))

    def clear_faults(self) -> None:
        """From now on nothing goes wrong."""
        self.faults.clear()

    def advance(self, seconds: float) -> None:
        """Move Telegram's clock."""
        self.ahead += seconds
        self.queue.wake()

    def renumber(self, next: int) -> None:
        """Let the next update have this id, as Telegram does at random after a week without one."""
        self.queue.next = next

    def update(self, kind: str, content: Json) -> int | None:
        """Tell the bot of anything; the update's id, or None where it did not ask for that kind."""
        return self.queue.push(kind, content)

    def webhook(self, url: str) -> None:
        """Set a webhook, as another program of this bot would; "" removes it."""
        self.queue.webhook = url

    def retoken(self, token: str) -> None:
        """Revoke the token: from now on this one counts."""
        self.token = token

    # ------------------------------------------------------------ what the server asks

    def fault(self, method: str) -> Fault | None:
        """What goes wrong with this call."""
        return next((each for each in self.faults if each.fits(method, self._dice.random)), None)

    async def call(self, method: str, params: Json) -> tuple[int, Json]:
        """One call: the status, and the JSON of its answer."""
        function = METHODS.get(method.lower())
        try:
            if function is None:
                raise ApiError(404, "Not Found: method not found")
            result = function(self, params)
            if inspect.isawaitable(result):
                result = await result
        except ApiError as no:
            return no.code, no.body()
        return 200, {"ok": True, "result": result}

    def next_id(self, chat: Chat) -> int:
        """The next message id of a chat."""
        return self._next(chat)


def _seen(kept: Any) -> Json:
    body = kept.body
    seen: Json = {
        "id": body["message_id"],
        "from": body.get("from", body.get("sender_chat", {})).get("id"),
        "text": body.get("text", body.get("caption", "")),
    }
    for name, value in (
        ("entities", body.get("entities", body.get("caption_entities"))),
        ("reply_to", body.get("reply_to_message", {}).get("message_id")),
        ("topic", body.get("message_thread_id")),
        ("reactions", {who: each for who, each in kept.reactions.items() if each}),
        ("edited", "edit_date" in body),
    ):
        if value:
            seen[name] = value
    if kept.file is not None:
        seen["file"] = {"kind": kept.file.kind, "name": kept.file.name, "size": kept.file.size}
    return seen
