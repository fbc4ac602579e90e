"""Receive: Teams posts to the gateway's HTTP server, and is answered after the commit (Law 1).

Nothing can be asked for afterwards: what Teams posted while nobody answered comes again only if Teams repeats it, which
it does not promise. So requests are taken as long as the gateway runs; `run` only checks the account, and watches it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from weakref import WeakValueDictionary

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import make_message_id, parse_message_id
from semel.channels.teams.authentication import TeamsAuthenticator
from semel.channels.teams.consents import ConsentHandler, is_consent, read_consent
from semel.channels.teams.downloads import TeamsFetcher
from semel.channels.teams.parse import TeamsBatch, make_unreadable, make_unreadable_activity, parse_activity
from semel.channels.teams.places import TeamsPlaces
from semel.channels.teams.settings import TeamsSettings
from semel.channels.teams.transport import TeamsApi, TokenRefused
from semel.channels.webhook_in import WebhookRefused, make_problem
from semel.gateway.ports import Denied, Inbox, NotSent, Offline, Unknown
from semel.text.json_types import Json
from semel.text.wellformed import scrub

WATCH_INTERVAL_S = 60.0
"""Seconds between two calls that find out whether Microsoft can be reached and accepts the bot. After an attempt to
send that makes one doubt it, the call is made at once."""
MAX_REMEMBERED = 5_000
_log = logging.getLogger("semel.teams")


class TeamsReceiver:
    """The receiving half of one bot. `clock`: seconds since the epoch."""

    def __init__(
        self, name: str, settings: TeamsSettings, api: TeamsApi, clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._api = api
        self._authenticator = TeamsAuthenticator(settings, clock)
        self._fetcher = TeamsFetcher(api, settings.fetch, settings.file_limit)
        self._consents = ConsentHandler(name, api)
        self._place_locks = WeakValueDictionary[str, asyncio.Lock]()  # by address: while something is put from there
        self._cursor_lock = asyncio.Lock()
        self._is_doubted = asyncio.Event()
        self._threads = RecentMap[str, str](MAX_REMEMBERED)  # see `parse_activity`
        self._inbox: Inbox | None = None  # None before the first request and the first run

    def __repr__(self) -> str:
        return f"<TeamsReceiver of {self._name} at {self._api.host}>"

    async def load_places(self) -> TeamsPlaces:
        """Return what is known of conversations: another gateway of a cluster may have heard more."""
        return TeamsPlaces.load(None if self._inbox is None else await self._inbox.cursor())

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self.check_account()
        await inbox.cursor()
        self._inbox = inbox
        inbox.online()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL_S):
                    await self._is_doubted.wait()
            self._is_doubted.clear()
            await self.check_account()

    def note_message(self, id: str) -> None:
        """Note where one of our messages is."""
        place, number = parse_message_id(id)
        if place.thread:
            self._threads[make_message_id(place.chat, number)] = str(place)

    def doubt_account(self) -> None:
        """Find out now whether Microsoft can be reached and accepts the bot, and not only after WATCH_INTERVAL_S."""
        self._is_doubted.set()

    async def check_account(self) -> None:
        """Check the credentials, the keys of requests, and that the Bot Connector answers. Raises Denied or Offline."""
        try:
            await self._api.fetch_token()
            await self._authenticator.read_keys()
            status = await self._api.read_status()
        except TokenRefused as error:
            raise Denied(str(error), error.settings) from None
        except (NotSent, Unknown) as error:
            raise Offline(str(error)) from None
        if status in (502, 503, 504):
            raise Offline(f"the Bot Connector answers HTTP {status}")

    async def take_request(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle one request of Teams. Return (HTTP status, response body), after the commit."""
        self._inbox = inbox
        activity = _read_object(body)
        try:
            url = await self._authenticator.check(headers, activity or {})
        except WebhookRefused as refusal:
            return refusal.status, make_problem(refusal.status, refusal.code, str(refusal))
        except Offline as error:
            return 503, make_problem(503, "unavailable", str(error))
        if activity is None:
            await inbox.put((make_unreadable(body, "the body is no JSON object"),), None)
            return 200, {}
        if is_consent(activity):
            return await self._take_consent(activity, url, inbox)
        await self._put(parse_activity(activity, self._threads), url, inbox)
        return 200, {}

    async def _take_consent(self, activity: Json, url: str, inbox: Inbox) -> tuple[int, Json]:
        """Handle a person's answer to the offer of a file. Anything but 200 makes Teams tell them that it failed."""
        try:
            consent = read_consent(activity)
        except (KeyError, TypeError, ValueError) as error:
            await inbox.put((make_unreadable_activity(activity, error),), None)
            return 200, {}
        try:
            await self._consents.handle(consent, url, inbox)
        except (NotSent, Unknown, OSError) as error:
            _log.warning("channel %s: a file that a person agreed to did not arrive: %s", self._name, error)
            return 503, make_problem(503, "unavailable", str(error))
        return 200, {}

    async def _put(self, batch: TeamsBatch, url: str, inbox: Inbox) -> None:
        """Download the files of a message, and put it. What comes later from the same place waits for that.

        If that is longer than Teams waits for an answer, it is put all the same, and a repeat of it is known.
        """
        async with self._place_locks.setdefault(str(batch.place or ""), asyncio.Lock()):
            events = await self._fetcher.complete(batch.drafts, inbox)
            async with self._cursor_lock:
                places = TeamsPlaces.load(await inbox.cursor())
                is_new = batch.place is not None and places.note(batch.place, batch.conversation, url)
                if events or is_new:
                    await inbox.put(events, places.dump() if is_new else None)


def _read_object(body: bytes) -> Json | None:
    """Return the JSON object that a body is; None if it is none."""
    try:
        activity = scrub(json.loads(body))
    except (ValueError, RecursionError):
        return None
    return activity if isinstance(activity, dict) else None
