"""Logging with structlog: to stderr, and to a file in the data directory that `semel logs` reads.

On stderr, lines are readable on a terminal and JSON elsewhere. The file has one JSON object per line. It is rotated, so
that it stays below MAX_LOG_BYTES * (KEPT_LOGS + 1), and only its owner can read it. It has the lines of level info and
above, and those of ACTIVITY_LOGGER, which would be too many for a terminal: when each turn began and ended, what was
asked and decided, which turn waits for a limit, and how each attempt to send ended. It never has what agents write to
stderr (docs/decisions/log-file.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Literal

import structlog

from semel.gateway.activity import ACTIVITY_LOGGER
from semel.text.visible import visible

LOG_FOLDER, LOG_NAME = "logs", "gateway.jsonl"
MAX_LOG_BYTES = 10_000_000
KEPT_LOGS = 4
"""How many full files are kept, as gateway.jsonl.1 (the newest) to gateway.jsonl.4."""

_log = logging.getLogger("semel.log")


def configure_logging(format: Literal["auto", "human", "json"] | str, verbose: bool = False) -> None:
    """Send all logs, libraries' included, to stderr in one format. `verbose` adds debug lines and agents' stderr."""
    human = format == "human" or (format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.typing.Processor] = (
        [
            structlog.processors.format_exc_info,
            escape_event_values,
            _shorten_timestamp,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
        ]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_make_formatter(*last))
    if not verbose:
        handler.addFilter(lambda record: record.name != ACTIVITY_LOGGER)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)  # warnings of libraries, for instance about a model's settings, are log lines too
    logging.getLogger("semel").setLevel(logging.DEBUG if verbose else logging.INFO)


_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


_EXTRA_FIELDS = ("session", "turn", "agent", "attempt", "part", "channel", "outcome", "by", "why")
"""The fields that the gateway passes as `extra`: those of lines of ACTIVITY_LOGGER, and of the outbox."""


def _make_formatter(*last: structlog.typing.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder(allow=_EXTRA_FIELDS)],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _shorten_timestamp(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Show the time of day in local time (a structlog processor, for people who watch)."""
    event["timestamp"] = datetime.fromisoformat(event["timestamp"]).astimezone().strftime("%H:%M:%S")
    return event


@contextlib.contextmanager
def keep_log_file(data_dir: Path) -> Iterator[None]:
    """Also write all logs to the file in the data directory, until the block ends. Only one process may do so.

    If the file cannot be written, a warning says so, and the logs go to stderr alone.
    """
    try:
        handler = _PrivateRotatingFile(data_dir / LOG_FOLDER)
    except OSError as error:
        _log.warning("no log file is kept: %s", error)
        yield
        return
    handler.setFormatter(_make_formatter(structlog.processors.format_exc_info, structlog.processors.JSONRenderer()))
    handler.setLevel(logging.INFO)  # even if stderr is verbose: debug lines may hold what agents print
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        with contextlib.suppress(OSError):  # a full disk
            handler.close()


class _PrivateRotatingFile(RotatingFileHandler):
    """The log file. New files are made for their owner only. Raises OSError if the file cannot be made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / LOG_NAME
        _make_private(path)
        super().__init__(path, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8")

    def rotate(self, source: str, dest: str) -> None:
        super().rotate(source, dest)
        _make_private(Path(self.baseFilename))

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose the line, for example if the disk is full: stderr has it, and the next one may succeed."""


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))


def escape_event_values(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make control characters visible and indent continuation lines in every string (a structlog processor).

    Names, reasons and an agent's stderr are untrusted text: they must not control the terminal or forge a log line.
    JSON output does not need this processor, because its renderer escapes control characters.
    """
    return {
        name: visible(value).replace("\n", "\n    ") if isinstance(value, str) else value
        for name, value in event.items()
    }
