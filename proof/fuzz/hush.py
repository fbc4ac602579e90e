"""What is logged while a fuzzer works is not for people: it is left out, but for faults of ours."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import structlog

faults: list[str] = []
"""Of the gateway's log: what it told with an exception, the newest last."""
MOST = 10


def hush() -> None:
    """For this process, from now on."""
    logging.disable(logging.CRITICAL)
    structlog.configure(
        processors=[_noted], logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False
    )


def _noted(logger: Any, name: str, event: Any) -> str:
    if event.get("exc_info"):
        faults.append(traceback.format_exc())
        del faults[:-MOST]
    return str(event)
