"""A Discord bot as a channel: its capabilities, and the methods of the channel port.

Each attempt to send makes one request that can take effect. A repeated nonce is folded by Discord for some minutes, so
the safety class is idempotent; after that the part is looked up (`semel.channels.discord.lookups`).
"""

from __future__ import annotations

from semel.channels.discord.address import DiscordPlace, is_snowflake, parse_address, parse_message_id
from semel.channels.discord.lookups import find_part
from semel.channels.discord.receipts import (
    THREAD_EXISTS,
    TOKEN_REFUSED,
    TOKEN_RETRY_DELAY_S,
    UNKNOWN_CHANNEL,
    check_answer,
    receipt_of,
)
from semel.channels.discord.receive import DiscordReceiver
from semel.channels.discord.send import (
    MAX_FILE_BYTES,
    MAX_PART_UNITS,
    DiscordRequest,
    make_nonce,
    make_request,
    make_upload,
)
from semel.channels.discord.settings import DiscordSettings
from semel.channels.discord.transport import DiscordApi, DiscordReply
from semel.channels.discord.unopened_threads import MISSING_ACCESS, MISSING_PERMISSIONS, UnopenedThreads
from semel.channels.http import CONNECT_TIMEOUT_S
from semel.channels.recent_map import RecentMap
from semel.channels.uploads import limit_upload_time, read_file
from semel.gateway.ports import (
    REPEAT_PREFIX,
    Caps,
    Inbox,
    NotSent,
    Op,
    Receipt,
    Rejected,
    Safety,
    Unknown,
)
from semel.text.json_types import text_at, value_at
from semel.text.wellformed import one_line

MAX_THREAD_NAME_CHARS = 100
_MAX_REMEMBERED = 2_000


class DiscordChannel:
    """One bot. `run` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: DiscordSettings) -> None:
        self.name = name
        self.settings = settings
        spare = len(REPEAT_PREFIX)
        self.caps = Caps(
            safety=Safety.IDEMPOTENT,
            max_len=MAX_PART_UNITS - spare,
            unit="utf16",
            key_life=settings.key_life,
            settle=5.0,
            finds=True,
            pace=settings.pace,
            timeout=3 * (CONNECT_TIMEOUT_S + settings.timeout) + limit_upload_time(MAX_FILE_BYTES) + 5,
            edits=True,
            button_edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            threads=True,
            files=True,
            file_limit=MAX_FILE_BYTES,
            empty_files=False,
            dialect="discord",
            numbered=True,
            account_refusals=(TOKEN_REFUSED,),
        )
        self._api = DiscordApi(settings)
        self._unopened = UnopenedThreads()
        self._receiver = DiscordReceiver(name, settings, self._api, self._unopened)
        self._direct: dict[str, str] = {}  # user id -> the channel of the direct conversation
        self._thread_keys = RecentMap[str, None](_MAX_REMEMBERED)  # keys of parts for which a thread was opened
        self._sent = RecentMap[str, str](_MAX_REMEMBERED)  # message id -> nonce, of messages with a receipt

    def __repr__(self) -> str:
        return f"<DiscordChannel {self.name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def send(self, op: Op) -> Receipt:
        """See `semel.gateway.ports.Channel.send`."""
        if self._receiver.another_bot is not None:
            raise NotSent(self._receiver.another_bot, TOKEN_RETRY_DELAY_S)
        place = _parse(op.address)
        channel = await self._find_channel(place, op) if op.kind in ("post", "file") else ""

        async def post_in(channel: str) -> DiscordReply:
            return await self._make_call(op, make_request(op, channel, previews=self.settings.previews))

        reply = await post_in(channel)
        if reply.status == 404 and reply.code == UNKNOWN_CHANNEL and self._can_open(place, op):
            if self._unopened.may_open(place.channel) and await self._open_thread(place, op):
                self._thread_keys[op.key] = None
                raise NotSent("a thread was opened for it; the next attempt goes there", 0)
            channel = place.channel
            self._unopened.note_leaving(make_nonce(op.key), place)
            reply = await post_in(channel)
        receipt = receipt_of(op, reply)
        if op.kind in ("post", "file"):
            self._note_place(receipt, place)
            self._sent[receipt.id.partition("/")[2]] = make_nonce(op.key)
        return receipt

    def _note_place(self, receipt: Receipt, place: DiscordPlace) -> None:
        """Note the conversation of a message that was sent to a channel in place of its thread."""
        channel, message = parse_message_id(receipt.id)
        if place.thread and channel == place.channel:
            self._unopened.note_message(message, place)

    async def _make_call(self, op: Op, request: DiscordRequest) -> DiscordReply:
        if not request.has_file:
            return await self._api.call(request.method, request.path, request.body)
        content = await read_file(op)
        patience = limit_upload_time(len(content))
        upload = make_upload(op, content)
        return await self._api.call(request.method, request.path, request.body, upload=upload, patience=patience)

    # ------------------------------------------------------------ destination

    async def _find_channel(self, place: DiscordPlace, op: Op) -> str:
        """Return the id of the channel or thread where a new message goes. Raises NotSent or Rejected."""
        if place.user:
            return await self._open_direct(place.user)
        thread = value_at(dict(op.answers.data), "thread") if op.answers is not None else None
        if not place.thread and self.settings.threads == "room" and is_snowflake(thread):
            return str(thread)
        return place.target

    async def _open_direct(self, user: str) -> str:
        """Return the channel of the direct conversation with a person. Opening it twice has no further effect."""
        if user not in self._direct:
            try:
                reply = check_answer(await self._api.call("POST", "/users/@me/channels", {"recipient_id": user}))
            except Unknown as error:
                raise NotSent(f"the conversation could not be opened: {error}") from None
            channel = text_at(reply.data, "id")
            if not is_snowflake(channel):
                raise NotSent("Discord did not name the conversation with this person")
            self._direct[user] = str(channel)
        return self._direct[user]

    def _can_open(self, place: DiscordPlace, op: Op) -> bool:
        """Whether a thread may be opened for a part: once, since one that was deleted is never opened again."""
        is_new = op.kind in ("post", "file") and op.key not in self._thread_keys
        return self.settings.threads == "open" and bool(place.thread) and is_new

    async def _open_thread(self, place: DiscordPlace, op: Op) -> bool:
        """Open a thread at the message whose id it has. Return False if the bot may not. Raises NotSent or Rejected."""
        title = value_at(dict(op.answers.data), "title") if op.answers is not None else None
        name = one_line(str(title or ""), MAX_THREAD_NAME_CHARS) or "Semel"
        path = f"/channels/{place.channel}/messages/{place.thread}/threads"
        reply = await self._api.call("POST", path, {"name": name})
        if reply.status == 403 and reply.code in (MISSING_PERMISSIONS, MISSING_ACCESS):
            self._unopened.note_refusal(place.channel)
            return False
        if reply.code != THREAD_EXISTS:
            try:
                check_answer(reply)
            except Unknown as error:  # a message has one thread at most
                raise NotSent(f"the thread could not be opened: {error}") from None
        return True

    # ------------------------------------------------------------ look-up, typing

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if it was certainly not sent after `since`.

        `since`: in seconds since the epoch. Raises NotSent, Rejected or Unknown.
        """
        cursor, known_nonces = self._receiver.cursor, dict(self._sent)
        if cursor is None and not (self._receiver.bot and make_nonce(op.key) in known_nonces.values()):
            # it may be another bot's token, to whom the messages of ours are a stranger's
            raise Unknown(self._receiver.another_bot or "the channel has not been connected yet")
        if cursor is not None:
            known_nonces |= cursor.own
        place = _parse(op.address)
        channels = [await self._find_channel(place, op)]
        if place.thread and self.settings.threads == "open":  # where the bot may not open a thread, it went there
            channels.append(place.channel)
        for channel in channels:
            receipt = await find_part(self._api, op, channel, self._receiver.bot, known_nonces, since)
            if receipt is not None:
                self._note_place(receipt, place)
                return receipt
        return None

    async def typing(self, address: str) -> None:
        """Show the typing indicator for ten seconds. May raise; the indicator is best effort."""
        place = parse_address(address)
        if place.target:
            check_answer(await self._api.call("POST", f"/channels/{place.target}/typing"))


def _parse(address: str) -> DiscordPlace:
    try:
        return parse_address(address)
    except ValueError as error:
        raise Rejected(str(error)) from None
