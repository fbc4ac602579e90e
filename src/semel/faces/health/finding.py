"""A finding: the result of one check of the installation, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "broken"]

LOGGED_OUT = "is not logged in"
"""Part of the text about an agent that demands a login."""


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    - `subject`: what was checked, such as "disk" or "agent claude".
    - `level`: "broken" if something cannot work; "warning" if it works, but a person should know; else "ok".
    - `text`: what was found.
    - `remedy`: what to do; "" if there is nothing to do, or if `text` says it. With the level "ok" it can wait.
    """

    subject: str
    level: Level
    text: str
    remedy: str = ""


def is_sound(findings: Iterable[Finding]) -> bool:
    """Whether nothing is broken. Warnings are allowed."""
    return all(finding.level != "broken" for finding in findings)
