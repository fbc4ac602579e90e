"""Status reports: Meta posts what became of each message, with the part's key (`biz_opaque_callback_data`).

A report settles a part whose answer was lost: it proves that Meta took the message. That no report came proves nothing,
since reports may be late for days. So a part without one is held (docs/decisions/whatsapp.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Incoming, Receipt

MAX_REMEMBERED = 5_000


@dataclass(frozen=True)
class StatusReport:
    """One report. `id`: of the message. `key`: of our part. `address`: whose message it is. `at`: in seconds.

    `has_arrived`: it is on the person's device. `failure`: why it failed, for people; "" if it did not. `code`: Meta's
    code of the failure.
    """

    id: str
    key: str
    address: str = ""
    has_arrived: bool = False
    failure: str = ""
    code: int = 0
    at: float = 0.0


class StatusReports:
    """Passes reports on: to the inbox, and to attempts whose answer was lost.

    Of a message, the first report and a failure go to the inbox. A failure that is reported of a message which arrived
    concerns another device of the person, and is left out.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Receipt]] = {}
        self._accepted = RecentMap[str, None](MAX_REMEMBERED)  # by message id
        self._arrived = RecentMap[str, None](MAX_REMEMBERED)
        self._refused = RecentMap[str, None](MAX_REMEMBERED)  # keys of parts whose last attempt was refused

    @contextmanager
    def expect(self, key: str) -> Iterator[asyncio.Future[Receipt]]:
        """Yield what becomes the receipt of a part once Meta reports on its message."""
        self._refused.pop(key, None)
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            if self._waiting.get(key) is future:
                del self._waiting[key]

    def note_refusal(self, key: str) -> None:
        """Note that the answer to the last attempt of a part was a refusal."""
        self._refused[key] = None

    def drop_refusals(self, reports: Sequence[StatusReport]) -> list[StatusReport]:
        """Return the reports without those of a refusal that the answer told already: Meta tells some both ways."""
        return [
            report
            for report in reports
            if not (report.failure and report.key in self._refused and report.id not in self._accepted)
        ]

    def make_events(self, reports: Sequence[StatusReport]) -> list[Incoming]:
        """Return what the reports mean to the inbox. After it was put, call `confirm` with the same reports."""
        events: dict[str, Incoming] = {}
        for report in reports:
            if report.failure and report.id not in self._arrived:
                key = f"{report.id}#failed"
                events[key] = Incoming("failed", key, text=report.failure, of=report.key, at=report.at)
            elif report.id not in self._accepted:
                events[report.id] = Incoming("echo", report.key, of=report.id)
        return list(events.values())

    def confirm(self, reports: Sequence[StatusReport]) -> None:
        """Note that what the reports mean was put, and settle the attempts that wait for them."""
        for report in reports:
            self._accepted[report.id] = None
            if report.has_arrived:
                self._arrived[report.id] = None
            future = self._waiting.get(report.key)
            if future is not None and not future.done():
                future.set_result(Receipt(report.id))
