"""What agents were asked and told, by their own account: the judge holds the ledger against it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]


@dataclass
class Told:
    """One text that the agent meant for somebody. `whole`: it was told to its end."""

    text: str
    how: Literal["block", "aside", "send", "after", "insist"]
    to: str | None = None
    whole: bool = False
    broken: bool = False  # its stream broke off, and it was to be told again
    answer: Json | None = None  # of a send: what the gateway said to it


@dataclass
class Prompted:
    """One prompt that a process was given, and what it told for it."""

    n: int  # of all prompts, in order
    spawn: int
    session: str
    marks: list[str]
    resumes: bool
    steered: bool
    told: list[Told] = field(default_factory=list)
    end: str | None = None  # the stop reason it answered with
    alive: bool = True  # its process had not died before it answered


@dataclass
class Permit:
    """One permission request, and what it was answered: option ids, or None for cancelled."""

    id: str
    session: str
    answers: list[str | None] = field(default_factory=list)
    forgotten: bool = False  # its turn was cancelled, and agents.PATIENCE later it had no answer
    news: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


@dataclass
class Disk:
    """What agents keep: their memory by its id, and (for the judge) every prompt."""

    memory: dict[str, list[Json]] = field(default_factory=dict)
    prompts: list[Prompted] = field(default_factory=list)
    scripts: dict[tuple[str, int], list[Json]] = field(default_factory=dict)  # (session, n-th prompt there)
    counts: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    permits: list[Permit] = field(default_factory=list)
    orphans: list[Json] = field(default_factory=list)  # what those were answered that outlived their agent
