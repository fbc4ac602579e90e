"""Logging with structlog to stderr: readable lines on a terminal, one JSON object per line elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

from semel.text.visible import visible


def configure_logging(format: Literal["auto", "human", "json"] | str, verbose: bool = False) -> None:
    """Send all logs, libraries' included, to stderr in one format. `verbose` adds debug lines and agents' stderr."""
    human = format == "human" or (format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if human else "iso", utc=not human),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.typing.Processor] = (
        [
            structlog.processors.format_exc_info,
            escape_event_values,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
        ]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)  # warnings of libraries, for instance about a model's settings, are log lines too
    logging.getLogger("semel").setLevel(logging.DEBUG if verbose else logging.INFO)


def escape_event_values(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make control characters visible and indent continuation lines in every string (a structlog processor).

    Names, reasons and an agent's stderr are untrusted text: they must not control the terminal or forge a log line.
    JSON output does not need this processor, because its renderer escapes control characters.
    """
    return {
        name: visible(value).replace("\n", "\n    ") if isinstance(value, str) else value
        for name, value in event.items()
    }
