"""The collaborators of a run (`RunDependencies`), the markers in its signal queue, and its exception."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.gateway.outbound.destinations import Places
from semel.gateway.outbound.previews import Previews
from semel.gateway.outbound.typing import Typing
from semel.gateway.settings import AgentSettings
from semel.gateway.transactions import Record
from semel.law.echo import QUIET_WORD
from semel.ledger.transcript.entries import part
from semel.ledger.turns.turns import Bound


@dataclass
class FlushBarrier:
    """A barrier in the queue of signals: `done` is resolved once everything before it is committed."""

    done: asyncio.Future[None]


def resolve(marks: Sequence[FlushBarrier]) -> None:
    """Resolve these barriers: everything before them is committed."""
    for mark in marks:
        if not mark.done.done():
            mark.done.set_result(None)


class SteerCancelled:
    """Signal: a queued prompt was withdrawn before it was written to the agent, so no answer to it comes."""


class AgentLost(Exception):
    """The agent's process died during the turn, or does not answer."""


@dataclass(frozen=True)
class RunDependencies:
    """The shared collaborators of all runs."""

    record: Record
    places: Places
    agents: dict[str, AgentSettings]
    permission_deadline: float
    quiet: tuple[str, ...] = (QUIET_WORD,)  # words that say nothing
    previews: Previews | None = None  # where an answer is shown at a chat home while it is written
    kick: Callable[[], None] = lambda: None  # something may have to leave
    typing: Typing | None = None  # tells people at a chat home that an answer is on its way
    blobs: Path | None = None  # where received files are


MayWait = Callable[[Any], bool]
"""Whether a run may hold its agent while it waits for a permission."""


def always_may_wait(run: Any) -> bool:
    return True


def guests_of(events: Sequence[Bound]) -> frozenset[str]:
    """The guests whose turn this is, by account; none, if anybody else asked for it, too."""
    writers = [part(part(event.data, "data"), "from") for event in events]
    if not writers or any(writer.get("role") != "guest" for writer in writers):
        return frozenset()
    return frozenset(f"{event.source} {writer.get('id')}" for event, writer in zip(events, writers, strict=True))
