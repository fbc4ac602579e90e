"""Tell the gateway up to where the person has seen a session, so that it is not unread on other faces."""

from __future__ import annotations

from semel.faces.client import NoGateway, RequestRefused
from semel.faces.terminal.link import SessionLink

UNREAD_ROLES = ("agent", "notice")
"""The roles of the entries that the gateway counts as unread."""


class SeenReport:
    """Reports each rev once, and only if something that counts as unread has come since the last one."""

    def __init__(self, link: SessionLink):
        self._link = link
        self._reported_rev = 0
        self._is_sending = False

    @property
    def is_due(self) -> bool:
        """Whether the view has something that the gateway may still count as unread."""
        view = self._link.view
        if self._is_sending or self._link.state != "connected" or view.rev in (None, self._reported_rev):
            return False
        known_rev = min(self._reported_rev, view.rev or 0)  # the ledger may have been replaced by an older one
        return any(
            int(entry["born"]) > known_rev for entry in view.entries.values() if entry.get("role") in UNREAD_ROLES
        )

    async def send(self) -> None:
        """Report the view as it is. If the gateway does not take the report, it stays due."""
        rev = self._link.view.rev or 0
        self._is_sending = True
        try:
            await self._link.mark_seen(rev)
            self._reported_rev = rev
        except (NoGateway, RequestRefused):
            pass
        finally:
            self._is_sending = False
