"""Log what happens to turns, requests and parts. The lines go to the log file alone (`semel.faces.log`)."""

from __future__ import annotations

import logging

ACTIVITY_LOGGER = "semel.activity"

_log = logging.getLogger(ACTIVITY_LOGGER)


def log_activity(event: str, **fields: str | int | None) -> None:
    """Log an event, such as "turn began". A field that is None is left out; no field may hold a text of a message."""
    _log.info(event, extra={name: value for name, value in fields.items() if value is not None})
