"""The real server of the tests that are marked `channels`."""

from __future__ import annotations

from real_servers import mail_server

__all__ = ["mail_server"]
