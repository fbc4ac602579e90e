"""To whom a business may write freely, and until when: the customer service windows.

Meta takes free-form messages only for 24 hours after a person wrote last; later, only templates
(https://developers.facebook.com/documentation/business-messaging/whatsapp/messages/send-messages, "Customer service
windows"). It often says so not in its answer, but by a status report minutes later. So the channel remembers who wrote
when, in its cursor: it has no other use for one, since Meta repeats what was not acknowledged.
"""

from __future__ import annotations

import json

from semel.channels.recent_map import RecentMap
from semel.text.json_types import object_at

WINDOW_S = 24 * 3600.0
MAX_WINDOWS = 300
"""Number of addresses that are remembered: those that wrote last."""


class ServiceWindows:
    """Who wrote when. Times are seconds since the epoch. `since`: who wrote before that is not known."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._heard = RecentMap[str, float](MAX_WINDOWS)

    def __repr__(self) -> str:
        return f"<ServiceWindows of {len(self._heard)} addresses>"

    def note_message(self, address: str, at: float) -> bool:
        """Note that somebody wrote. Return whether that changes anything; requests come in any order."""
        if at <= self._heard.get(address, 0.0):
            return False
        self._heard[address] = at
        return True

    def close(self, address: str) -> None:
        """Note that Meta takes templates only, though somebody may have written."""
        self._heard[address] = 0.0

    def is_closed(self, address: str, now: float) -> bool:
        """Return whether Meta certainly takes only templates there."""
        heard = self._heard.get(address)
        if heard is not None:
            return now >= heard + WINDOW_S
        return now >= self._since + WINDOW_S and len(self._heard) < MAX_WINDOWS

    def dump(self, now: float) -> str:
        """Return the cursor as text, without windows that closed long ago."""
        kept = {address: at for address, at in self._heard.items() if not 0 < at < now - WINDOW_S}
        return json.dumps({"since": self._since, "heard": kept}, separators=(",", ":"))

    @classmethod
    def load(cls, text: str | None, now: float) -> ServiceWindows:
        """Return what `dump` wrote; on the first run, or if it cannot be read, nothing is known."""
        try:
            saved = json.loads(text or "")
            windows = cls(min(float(saved["since"]), now))
            for address, at in object_at(saved, "heard").items():
                windows._heard[address] = float(at)
        except (ValueError, TypeError, KeyError, OverflowError):
            return cls(now)
        return windows
