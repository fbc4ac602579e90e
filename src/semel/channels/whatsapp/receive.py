"""Receive: Meta posts to the gateway's HTTP server, and is answered after the commit (Law 1).

Meta repeats what was not answered with 200, for days and in any order; the inbox knows repeats by their ids. Nothing
can be asked for afterwards. So requests are taken as long as the gateway runs, also while Meta cannot be reached; `run`
only checks the account, and watches it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from semel.channels.recent_map import RecentMap
from semel.channels.webhook_in import WebhookRefused, make_problem
from semel.channels.whatsapp.account import check_number, check_token
from semel.channels.whatsapp.downloads import WhatsAppFetcher
from semel.channels.whatsapp.parse import WhatsAppBatch, WhatsAppDraft, make_unreadable, parse_payload
from semel.channels.whatsapp.receipts import WINDOW_CLOSED
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.channels.whatsapp.statuses import StatusReport, StatusReports
from semel.channels.whatsapp.transport import GraphApi
from semel.channels.whatsapp.webhook import UnreadableBody, read_request
from semel.channels.whatsapp.windows import ServiceWindows
from semel.gateway.ports import Inbox, Offline
from semel.text.json_types import Json

WATCH_INTERVAL_S = 60.0
"""Seconds between two calls that find out whether Meta can be reached and accepts the token. After an attempt to send
that makes one doubt it, the call is made at once."""
MAX_REMEMBERED_CHATS = 5_000
OTHER_NUMBER_LOG_INTERVAL_S = 3600.0
"""Seconds between two lines of the log about messages of the same other number."""
MAX_REMEMBERED_NUMBERS = 100
_log = logging.getLogger("semel.whatsapp")


class WhatsAppReceiver:
    """The receiving half of one number. `clock`: seconds since the epoch."""

    def __init__(
        self, name: str, settings: WhatsAppSettings, api: GraphApi, reports: StatusReports,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._name = name
        self._settings = settings
        self._api = api
        self._reports = reports
        self._fetcher = WhatsAppFetcher(api, settings.fetch, settings.file_limit)
        self._clock = clock
        self._putting = asyncio.Lock()
        self._is_doubted = asyncio.Event()
        self._inbox: Inbox | None = None  # None before the first request and the first run
        self._last_heard = RecentMap[str, str](MAX_REMEMBERED_CHATS)  # the newest message, by address
        self._others_logged = RecentMap[str, float](MAX_REMEMBERED_NUMBERS)  # when, by the id of another number

    def __repr__(self) -> str:
        return f"<WhatsAppReceiver of {self._name} at {self._api.host}>"

    async def is_window_closed(self, address: str) -> bool:
        """Return whether Meta certainly takes only templates there."""
        if self._inbox is None:
            return False
        return (await self._load_windows(self._inbox)).is_closed(address, self._clock())

    async def close_window(self, address: str) -> None:
        """Note that Meta takes only templates there."""
        if self._inbox is not None:
            async with self._putting:
                windows = await self._load_windows(self._inbox)
                windows.close(address)
                await self._inbox.put((), windows.dump(self._clock()))

    def find_last_message(self, address: str) -> str | None:
        """Return the id of the newest message there; None if none came since the start."""
        return self._last_heard.get(address)

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        number = await check_number(self._api)
        await check_token(self._api, self._name)
        self._inbox = inbox
        async with self._putting:
            windows = await self._load_windows(inbox)
            await inbox.put((), windows.dump(self._clock()))
        _log.info("channel %s: it is %s", self._name, number)
        inbox.online()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL_S):
                    await self._is_doubted.wait()
            self._is_doubted.clear()
            await check_number(self._api)

    def doubt_account(self) -> None:
        """Find out now whether Meta can be reached and accepts the token, and not only after WATCH_INTERVAL_S."""
        self._is_doubted.set()

    async def take_request(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle one request of Meta. Return (HTTP status, response body), after the commit."""
        self._inbox = inbox
        try:
            payload = read_request(self._settings.app_secret, headers, body)
        except WebhookRefused as refusal:
            return refusal.status, make_problem(refusal.status, refusal.code, str(refusal))
        except UnreadableBody as error:
            batch = WhatsAppBatch([make_unreadable(body, str(error))])
        else:
            batch = parse_payload(payload, self._settings.phone_number_id)
        self._log_others(batch.others)
        try:
            await self._put_reports(self._reports.drop_refusals(batch.reports), inbox)
            await self._put_messages(batch.drafts, inbox)
        except Offline as error:  # a file could not be fetched: Meta sends the request again
            return 503, make_problem(503, "unavailable", str(error))
        return 200, {}

    def _log_others(self, others: Iterable[str]) -> None:
        """Log that Meta posts what is of other numbers, once an hour for each."""
        for number in sorted(others):
            logged_at = self._others_logged.get(number)
            if logged_at is None or self._clock() - logged_at >= OTHER_NUMBER_LOG_INTERVAL_S:
                self._others_logged[number] = self._clock()
                _log.warning(
                    "channel %s: Meta posts messages of another number, phone_number_id %s, which are left out: it "
                    "has %s (semel docs whatsapp)",
                    self._name, number, self._settings.phone_number_id,
                )  # fmt: skip

    async def _put_reports(self, reports: Sequence[StatusReport], inbox: Inbox) -> None:
        events = self._reports.make_events(reports)
        if events:
            async with self._putting:
                windows = await self._load_windows(inbox)
                closed = [report.address for report in reports if report.code == WINDOW_CLOSED]
                for address in closed:
                    windows.close(address)
                await inbox.put(events, windows.dump(self._clock()) if closed else None)
        self._reports.confirm(reports)

    async def _put_messages(self, drafts: Sequence[WhatsAppDraft], inbox: Inbox) -> None:
        if not drafts:
            return
        events = await self._fetcher.complete(drafts, inbox)
        async with self._putting:
            windows = await self._load_windows(inbox)
            newest = [
                event for event in events if event.kind == "message" and windows.note_message(event.address, event.at)
            ]
            await inbox.put(events, windows.dump(self._clock()) if newest else None)
        self._last_heard.update((event.address, event.key) for event in newest)

    async def _load_windows(self, inbox: Inbox) -> ServiceWindows:
        """Return what the cursor says: another gateway of a cluster may have taken messages, too."""
        return ServiceWindows.load(await inbox.cursor(), self._clock())
