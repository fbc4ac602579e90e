"""Spans: how long each step took on the way of an event, from its acceptance to the receipts of the answers.

When a step is over, its span is passed to the function that the gateway was given (`RecordSpan`). By default there is
no such function, and nothing is measured. A span holds ids and names, never a text. It names its parent by the ledger's
row (`e5` for an event, `t7` for a turn), so that steps before and after a restart belong to one trace.

    event                    from acceptance to the end of its turn
      turn                   one attempt
        agent start          the process, or the handshake with one that runs
        agent prompt         from the prompt to the recorded end
        tool call            a call of one of Semel's tools
        part                 one attempt to send a part, with the receipt

A turn that took several events belongs to the trace of the first event, and is linked to the others.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turns import BegunTurn

Attributes = dict[str, str | int]


@dataclass(frozen=True)
class Span:
    """The span of one step. Times are in ns since the Unix epoch.

    `event`: the event to whose trace it belongs. `row`: the ledger's row of the step; "" if it has none. `parent`: the
    row of its parent; "" for the root. `links`: other events of the same turn.
    """

    name: str
    event: int
    started: int
    ended: int
    row: str = ""
    parent: str = ""
    attributes: Attributes = field(default_factory=dict)
    has_failed: bool = False
    links: tuple[int, ...] = ()


RecordSpan = Callable[[Span], None]


class TurnTrace:
    """The spans of one attempt of a turn. It does nothing without `record`, or for a turn without events."""

    def __init__(self, record: RecordSpan | None, begun: BegunTurn) -> None:
        self._record = record if begun.events else None
        self._begun = begun
        self._started = time.time_ns() if self._record else 0
        self.joined: Sequence[TurnEvent] = ()  # events that joined it while it ran
        self.outcome: str | None = None  # how the turn ended; None: this attempt was lost or put off

    @contextlib.contextmanager
    def span(self, name: str, **attributes: str | int) -> Iterator[Attributes]:
        """Record the `with` block as a step of this turn. The block may add attributes to the dict that it gets."""
        if self._record is None:
            yield {}
            return
        started, has_failed = time.time_ns(), True
        try:
            yield attributes
            has_failed = False
        finally:
            self._record(self._make_span(name, started, attributes=attributes, has_failed=has_failed))

    def end(self) -> None:
        """Record the span of the attempt and, if the turn has ended, the spans of its events."""
        if self._record is None:
            return
        begun, events = self._begun, (*self._begun.events, *self.joined)
        outcome = self.outcome or "put off"
        attributes: Attributes = {"semel.attempt": begun.attempt, "semel.agent": begun.agent, "semel.outcome": outcome}
        links = tuple(sorted({event.event for event in events} - {self._root_event}))
        has_failed = outcome in ("failed", "put off")
        turn = self._make_span("turn", self._started, attributes=attributes, has_failed=has_failed, links=links)
        self._record(turn)
        for event in events if self.outcome is not None else ():
            self._record(self._make_event(event, turn.ended))

    @property
    def _root_event(self) -> int:
        return min(event.event for event in self._begun.events)

    def _make_span(
        self, name: str, started: int, *, attributes: Attributes, has_failed: bool, links: tuple[int, ...] = ()
    ) -> Span:
        row = f"t{self._begun.turn}"
        is_turn = name == "turn"
        ids: Attributes = {"semel.session": self._begun.key, "semel.turn": self._begun.turn}
        return Span(
            name, self._root_event, started, time.time_ns(), row if is_turn else "",
            f"e{self._root_event}" if is_turn else row, ids | attributes, has_failed, links,
        )  # fmt: skip

    def _make_event(self, event: TurnEvent, ended: int) -> Span:
        attributes: Attributes = {
            "semel.session": self._begun.key, "semel.turn": self._begun.turn, "semel.event": event.event,
            "semel.source": event.source, "semel.kind": event.kind,
        }  # fmt: skip
        started = event.at * 1_000_000
        return Span("event", event.event, started, max(started, ended), f"e{event.event}", "", attributes)
