"""What agents were asked and told, by their own account: the judge holds the ledger against it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from semel.text.verbatim import verbatim_form

Json = dict[str, Any]


@dataclass
class Told:
    """One text that an agent told. `whole`: it was told to its end."""

    text: str  # as it has to be shown: with what came before it unmarked
    how: Literal["block", "aside", "send", "after", "insist"]
    to: str | None = None
    began: float = inf  # when its first piece was told, in virtual seconds
    whole: bool = False
    broken: bool = False  # its stream broke off, and it was to be told again in a block of its own
    unmarked: bool = False  # it came again without any mark: its agent remembers the last of it
    copied: bool = False  # it was handed over once more, by a sign that it is the same
    repeated: bool = False  # it was said before in the same answer, and is said once more
    kept: str = ""  # what its agent remembers of it, once it was told to its end
    undecided: str = ""  # an attempt and its retry in one block, as long as nothing tells them apart
    doubled: str = ""  # what its agent's history holds instead: an attempt and the whole
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
    given: float  # when the gateway handed it over, in virtual seconds
    texts: list[str] = field(default_factory=list, repr=False)  # of its blocks, as they came
    told: list[Told] = field(default_factory=list)
    end: str | None = None  # the stop reason it answered with
    alive: bool = True  # its process had not died before it answered


def count_copies(prompts: Iterable[Prompted], text: str) -> int:
    """How often a text stands in one place: as often as one answer says it there, also where that was begun anew."""
    wanted = verbatim_form(text)
    return 1 + max(
        (sum(told.repeated and verbatim_form(told.text) == wanted for told in one.told) for one in prompts), default=0
    )


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
    kept: list[str] = field(default_factory=list)  # other texts of their own: in a history alone, or before any prompt
    broken: list[str] = field(default_factory=list)  # promises that an agent saw broken
    orphans: list[Json] = field(default_factory=list)  # what those were answered that outlived their agent
    insisted: list[tuple[int, float, Json]] = field(default_factory=list)
    """(spawn, when it was asked for, answer) of deeds behind a turn that was cancelled."""


def cut_off(text: str, least: int, inside_a_word: bool) -> str:
    """Its beginning, `least` characters or more, up to between two letters or behind a blank."""
    ends = (n for n in range(least, len(text)) if inside_a_word or text[n - 1] == " ")
    return text[: next(n for n in ends if not inside_a_word or (text[n - 1].isalpha() and text[n].isalpha()))]


def pieces(text: str, n: int) -> list[str]:
    size = max(1, -(-len(text) // n))
    return [text[at : at + size] for at in range(0, len(text), size)]
