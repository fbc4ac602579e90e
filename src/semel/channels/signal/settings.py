"""What `[channels.NAME]` may hold with `kind = "signal"`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from semel.channels.problems import find_file_limit_problems, find_seconds_problems, raise_problems

ACCOUNT_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""The id of an account on Signal (ACI), which stays the same if its number changes."""
EXAMPLE_ID = "6f0ea3b2-8c6d-4a44-9d0e-5a1b2c3d4e5f"
PHONE_NUMBER = r"\+[1-9][0-9]{3,18}"
_ACCOUNT = re.compile(f"{PHONE_NUMBER}|{ACCOUNT_ID}")


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value)


@dataclass(frozen=True)
class SignalSettings:
    """One Signal account, over signal-cli. Times are seconds."""

    account: str = ""
    """The account's phone number, like +4915112345678, as signal-cli knows it. Required."""
    command: list[str] = field(default_factory=lambda: ["signal-cli"])
    """The program signal-cli, with further arguments if it needs some."""
    config: str | None = None
    """The directory in which signal-cli keeps its accounts. Default: signal-cli's own, `~/.local/share/signal-cli`."""
    journal: str | None = None
    """The directory in which what signal-cli hands over is kept until it is in the ledger. Default: `semel/ACCOUNT` in
    signal-cli's directory."""
    timeout: float = 60.0
    """How long to wait for an answer of signal-cli. Files get a second more for each 100 kB."""
    pace: float = 1.0
    """The minimum time between two messages to one conversation."""
    fetch: bool = True
    """Whether files that people send are kept."""
    file_limit: int = 100_000_000
    """The most bytes of a file that people send."""

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _ACCOUNT.fullmatch(self.account):
            yield 'account should be the phone number of the account, like account = "+4915112345678"'
        if not isinstance(self.command, list) or not self.command or not all(map(_is_word, self.command)):
            yield 'command should be a list of words, like command = ["/opt/signal-cli/bin/signal-cli"]'
        yield from find_seconds_problems(self, "timeout", "pace")
        yield from find_file_limit_problems(self.file_limit)

    @property
    def config_folder(self) -> Path:
        """The directory of signal-cli's accounts, as signal-cli itself would choose it."""
        if self.config is not None:
            return Path(self.config).expanduser().absolute()
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
        return Path(data) / "signal-cli"

    @property
    def journal_folder(self) -> Path:
        """The directory of the journal."""
        if self.journal is not None:
            return Path(self.journal).expanduser().absolute()
        return self.config_folder / "semel" / self.account
