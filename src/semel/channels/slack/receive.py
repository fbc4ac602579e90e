"""Receive events: first those that were missed, then each as it comes. Acknowledge an event after its commit (Law 1).

With `app_token`, events come over Socket Mode. The connection is opened before the history is read, so that nothing
falls between the two. What comes over it waits until the history is read, except presses of buttons. With
`signing_secret`, Slack posts them to the gateway's HTTP server, which calls `take_request`; `run` then reads the
history, and watches whether Slack can be reached.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from semel.channels.slack.account import SlackDirectory, SlackIdentity
from semel.channels.slack.address import SlackCursor
from semel.channels.slack.backfill import SlackBackfill
from semel.channels.slack.downloads import SlackFetcher
from semel.channels.slack.events_http import RequestRefused, challenge_answer, read_request
from semel.channels.slack.parse import SlackDraft, SlackParser
from semel.channels.slack.settings import SlackSettings
from semel.channels.slack.sockets import (
    MAX_WAITING_ENVELOPES,
    SlackEnvelope,
    SlackSocket,
    classify_disconnect,
    open_socket,
)
from semel.channels.slack.transport import SlackApi
from semel.gateway.ports import Denied, Inbox, Incoming, Offline
from semel.text.json_types import Json

WATCH_INTERVAL_S = 60.0
"""With the Events API: seconds between two calls that find out whether Slack can be reached."""
MAX_EVENTS_PER_PUT = 200

_log = logging.getLogger("semel.slack")


class SlackReceiver:
    """The receiving half of one app. `clock`: seconds since the epoch."""

    def __init__(
        self, name: str, settings: SlackSettings, api: SlackApi, directory: SlackDirectory,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._name = name
        self._settings = settings
        self._api = api
        self._directory = directory
        self._fetcher = SlackFetcher(api, settings.fetch, settings.file_limit)
        self._backfill = SlackBackfill(api, directory)
        self._clock = clock
        self._cursor: SlackCursor | None = None  # set while `run` is running
        self._parser: SlackParser | None = None
        self._putting = asyncio.Lock()
        self._is_catching_up = False
        self._has_lost = asyncio.Event()  # set if an event that was posted could not be kept
        self._is_doubted = asyncio.Event()  # set if the bot's token was refused
        self.another_bot: str | None = None
        """Why the channel is blocked: its cursor is another bot's. `None` if it is not blocked."""
        self.is_known_bot = False
        """Whether the token was found to be that of the cursor's bot."""

    def __repr__(self) -> str:
        return f"<SlackReceiver of {self._name} at {self._api.host}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        us = await self._directory.identify()
        self._is_doubted.clear()
        receive = self._run_http if self._settings.app_token is None else self._run_socket
        tasks = [asyncio.create_task(receive(us, inbox)), asyncio.create_task(self._check_doubted_token())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._cursor = self._parser = None

    def doubt_token(self) -> None:
        """Ask Slack about the bot's token. A connection of Socket Mode may stay open with a token that was revoked."""
        self._is_doubted.set()

    async def _check_doubted_token(self) -> None:
        """Ask who the bot is whenever its token was refused.

        Raises Denied if Slack refuses the token again, Offline if it does not answer.
        """
        while True:
            await self._is_doubted.wait()
            self._is_doubted.clear()
            await self._directory.identify()

    # ------------------------------------------------------------ Socket Mode

    async def _run_socket(self, us: SlackIdentity, inbox: Inbox) -> None:
        connection = AsyncExitStack()
        try:
            socket = await connection.enter_async_context(open_socket(self._directory, self._settings.timeout))
            await self._begin(us, inbox)
            await self._catch_up_beside_presses(socket, us, inbox)
            inbox.online()
            while True:
                await self._listen(socket, inbox)
                following = AsyncExitStack()
                socket = await following.enter_async_context(open_socket(self._directory, self._settings.timeout))
                previous, connection = connection, following
                await previous.aclose()  # what was not acknowledged there comes over the new one
        finally:
            await connection.aclose()

    async def _listen(self, socket: SlackSocket, inbox: Inbox) -> None:
        """Put what comes over a connection until Slack wants another one. Raises Offline or Denied."""
        while True:
            envelope = await socket.next()
            if envelope.kind == "disconnect":
                if (error := classify_disconnect(envelope)) is not None:
                    raise error
                _log.debug("channel %s: Slack renews the connection (%s)", self._name, envelope.reason)
                return
            await self._put(self._parse_envelope(envelope), inbox)
            await socket.acknowledge(envelope)

    async def _catch_up_beside_presses(self, socket: SlackSocket, us: SlackIdentity, inbox: Inbox) -> None:
        """Put what was missed, and meanwhile the presses of buttons, for whose effect somebody waits.

        A press answers one request, wherever it stands among the messages. Everything else waits, in its order, until
        what is older was put.
        """
        waiting: deque[SlackEnvelope] = deque()
        presses = asyncio.create_task(self._put_presses(socket, inbox, waiting))
        try:
            await self._catch_up(us, inbox)
        finally:
            presses.cancel()
            await asyncio.gather(presses, return_exceptions=True)
            socket.put_back(waiting)  # also a press that was cut off: the inbox knows it if it was put

    async def _put_presses(self, socket: SlackSocket, inbox: Inbox, waiting: deque[SlackEnvelope]) -> None:
        """Put and acknowledge presses as they come, and add everything else to `waiting`.

        Ends if the connection does, or if too much waits: `_listen` then meets the same.
        """
        while len(waiting) < MAX_WAITING_ENVELOPES:
            envelope = await socket.next()
            waiting.append(envelope)
            if envelope.kind == "disconnect":
                return
            if envelope.kind == "interactive":
                await self._put(self._parse_envelope(envelope), inbox)
                waiting.pop()
                await socket.acknowledge(envelope)

    def _parse_envelope(self, envelope: SlackEnvelope) -> list[SlackDraft]:
        assert self._parser is not None
        match envelope.kind:
            case "events_api":
                return self._parser.parse_event(envelope.payload)
            case "interactive":
                return self._parser.parse_interaction(envelope.payload)
            case "slash_commands":
                return self._parser.parse_command(envelope.payload)
        return []

    # ------------------------------------------------------------ Events API

    async def _run_http(self, us: SlackIdentity, inbox: Inbox) -> None:
        self._has_lost.clear()
        await self._begin(us, inbox)
        await self._catch_up(us, inbox)
        inbox.online()
        while not self._has_lost.is_set():
            try:
                async with asyncio.timeout(WATCH_INTERVAL_S):
                    await self._has_lost.wait()
            except TimeoutError:
                await self._directory.identify()
        raise Offline("an event could not be kept: what Slack does not send again is read from its history")

    async def take_request(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle one request of Slack. Return (HTTP status, response body), after the commit.

        While `run` is not running the answer is 503, and Slack sends the request again.
        """
        try:
            return 200, await self._take(inbox, headers, body)
        except RequestRefused as refusal:
            return refusal.status, refusal.answer
        except Offline as error:  # a file could not be fetched, or the channel was stopped
            return 503, RequestRefused(503, "unavailable", str(error)).answer

    async def _take(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> Json:
        """Put what a request holds. Return the body of the answer. Raises RequestRefused or Offline."""
        if self._settings.signing_secret is None:
            detail = f"the channel {self._name} gets its events over Socket Mode: it has no signing_secret"
            raise RequestRefused(403, "channel-scope", detail)
        request = read_request(self._settings.signing_secret, headers, body, self._clock())
        if request.kind == "challenge":
            return challenge_answer(request.payload)
        if (parser := self._parser) is None:
            raise RequestRefused(503, "unavailable", "the channel is not connected to Slack: try again")
        match request.kind:
            case "event":
                drafts = parser.parse_event(request.payload)
            case "interaction":
                drafts = parser.parse_interaction(request.payload)
            case "command":
                drafts = parser.parse_command(request.payload)
            case _:
                drafts = []
        try:
            await self._put(drafts, inbox)
        except Offline:  # a file: it is tried three times, and Slack sends the event four times
            raise
        except Exception:
            self._has_lost.set()  # Slack gives up after some minutes; `run` begins anew, and reads the history
            raise
        return {}

    # ------------------------------------------------------------ what both share

    async def _begin(self, us: SlackIdentity, inbox: Inbox) -> None:
        """Load the cursor; on the first run, begin at the present. Raises Denied if it belongs to another bot."""
        text = await inbox.cursor()
        now = self._clock()
        if text is None:
            cursor = SlackCursor(us.team, us.user, now, now)
            await inbox.put((), cursor.dump())
        else:
            cursor = SlackCursor.load(text)
            self._check_bot(cursor, us)
        self.is_known_bot = True
        self._cursor = cursor
        self._parser = SlackParser(us, cursor, self._settings.threads)

    def _check_bot(self, cursor: SlackCursor, us: SlackIdentity) -> None:
        """Check that the cursor belongs to this bot. Raises Denied."""
        is_other = (cursor.team, cursor.bot) != (us.team, us.user)
        self.another_bot = None
        if is_other:
            self.another_bot = (
                f"this token belongs to another bot ({us.user} of {us.team}) than before ({cursor.bot} of "
                f"{cursor.team}): give it a section of its own, [channels.{self._name}-2], or put the first one back"
            )
            raise Denied(self.another_bot)

    async def _catch_up(self, us: SlackIdentity, inbox: Inbox) -> None:
        """Put what was missed, and note that everything up to now was put. Raises Offline or Denied."""
        assert self._cursor is not None and self._parser is not None
        began = self._clock()
        self._is_catching_up = True  # the cursor stays: an older message of another conversation may still be missing
        try:
            channels = await self._directory.list_conversations(us.scopes)
            async for channel, messages in self._backfill.read(
                replace(self._cursor, threads=dict(self._cursor.threads)), channels
            ):
                drafts = [draft for message in messages for draft in self._parser.parse_history(channel, message)]
                for start in range(0, len(drafts), MAX_EVENTS_PER_PUT):
                    await self._put(drafts[start : start + MAX_EVENTS_PER_PUT], inbox)
        finally:
            self._is_catching_up = False
        self._cursor.advance(began)
        await inbox.put((), self._cursor.dump())

    async def _put(self, drafts: Sequence[SlackDraft], inbox: Inbox) -> None:
        """Complete the drafts, and put them with the cursor after them."""
        if not drafts:
            return
        events = await self._fetcher.complete([await self._add_names(draft) for draft in drafts], inbox)
        async with self._putting:
            if (cursor := self._cursor) is None:
                raise Offline("the channel was stopped")
            after = replace(cursor)
            if not (self._is_catching_up or self._has_lost.is_set()):
                after.advance(min(max(event.at for event in events), self._clock()))
            await inbox.put(events, after.dump())
            cursor.advance(after.at)

    async def _add_names(self, draft: SlackDraft) -> SlackDraft:
        """Return the draft with the names of its person and its conversation, as far as Slack tells them."""
        incoming: Incoming = draft.incoming
        sender = incoming.sender
        if sender is None:
            return draft
        if not sender.name and not sender.bot:
            sender = await self._directory.name_person(sender.id)
        title = incoming.title
        if not title and incoming.group:
            title = await self._directory.name_conversation(_channel_of(incoming))
        return replace(draft, incoming=replace(incoming, sender=sender, title=title))


def _channel_of(incoming: Incoming) -> str:
    return incoming.address.partition(":")[0]
