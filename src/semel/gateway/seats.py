"""Share the sessions among the gateways of a cluster, and tell the others about commits (docs/decisions/cluster.md).

Each gateway runs the turns of the sessions that have their seat there. The active one has the duties: what only one may
do, such as channels and the outbox. It also decides who serves a session that has no seat yet, or whose gateway is
gone. Hints make the others look at once. A lost one costs `LOOK_INTERVAL_S`, because each gateway also looks at the
rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import structlog

from semel.gateway.record import LedgerAccess
from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.cluster import ClusterGateway, ClusterHints, Hint
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import SessionRow
from semel.ledger.turns import seats as rows

log = structlog.get_logger("semel.seats")

LOOK_INTERVAL_S = 2.0
STARTING_S = 6.0  # seconds after which a session that was given to a gateway is among the agents that it counts
AWAY_NOTICE_AFTER_S = 60.0  # seconds for which a session waits for a gateway that is gone, before people are told


class Served(Protocol):
    """What a gateway does with the sessions that it serves."""

    def look_at(self, session: int) -> None:
        """Do what is to be done in a session: another gateway may have recorded something there."""
        ...

    def is_attended(self, session: int) -> bool:
        """Return whether the session is being served, or has a timer."""
        ...

    def look_at_duties(self) -> None:
        """Look at what the active gateway does: another one may have recorded a part, a schedule or a deletion."""
        ...


class Lives:
    """Says when another gateway is given up. It is used on the event loop only."""

    def __init__(self) -> None:
        self._given_up: dict[tuple[str, int], asyncio.Event] = {}  # name and start of a gateway -> whether it was

    def watch(self, gateway: ClusterGateway) -> asyncio.Event:
        """Return an event that is set once this gateway does not live any more, also if it starts again."""
        return self._given_up.setdefault((gateway.name, gateway.joined), asyncio.Event())

    def note_living(self, gateways: Sequence[ClusterGateway]) -> None:
        """Take note of the gateways that live."""
        living = {(gateway.name, gateway.joined) for gateway in gateways}
        for life in self._given_up.keys() - living:
            self._given_up.pop(life).set()


class Seats:
    """Which sessions this gateway serves.

    `name`: this gateway's name. `moving`: the agents whose sessions may go on at another gateway. `room`: how many
    agent processes may run here. `has_duties`: whether this is the active gateway.
    """

    def __init__(self, name: str, hints: ClusterHints, moving: Collection[str], room: int) -> None:
        self.name = name
        self.hints = hints
        self.has_duties = False
        self.rule = rows.SeatRule(name, self._choose_seat, self._note_given)
        self.count_agents: Callable[[], int] = lambda: 0
        self.lives = Lives()
        self.gateways: Mapping[str, ClusterGateway] = {}  # those that live and serve, by name
        self.moving = frozenset(moving)
        self._room = room
        self._given: dict[str, list[float]] = {}  # gateway -> when it was given sessions (time.monotonic)
        self._away_since: dict[int, float] = {}  # session -> when it was first seen to wait for a gateway that is gone
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Seats of {self.name}, {'active' if self.has_duties else 'not active'}, with {sorted(self.gateways)}>"

    # ------------------------------------------------------------ who serves a session

    def _choose_seat(self, row: SessionRow, is_wanted_here: bool) -> str | None:
        """See `SeatRule.choose`."""
        seat = row.seat
        if seat is not None and (seat == self.name or seat in self.gateways or not rows.may_move(row, self.moving)):
            return seat
        if is_wanted_here and (seat is None or self.has_duties):
            return self.name
        return self._choose_gateway(row) if self.has_duties else seat

    def _note_given(self, name: str) -> None:
        """See `SeatRule.note_given`."""
        self._given[name] = [*self._list_given(name), time.monotonic()]

    def _list_given(self, name: str) -> list[float]:
        """Return when a gateway was given sessions just now, whose agents it may not count yet."""
        oldest = time.monotonic() - STARTING_S
        return [at for at in self._given.get(name, ()) if at > oldest]

    def lets_move(self, agent: str) -> bool:
        """Return whether this agent's sessions may go on at another gateway."""
        return agent in self.moving

    def _choose_gateway(self, row: SessionRow) -> str:
        """Choose who serves a session: for a chat this gateway, which has the channels; else the emptiest one."""
        own = self.count_agents() + len(self._list_given(self.name))
        if own < self._room and row.home is not None and not is_local(row.home):
            return self.name
        shares = {
            name: (gateway.agents + len(self._list_given(name))) / gateway.room
            for name, gateway in self.gateways.items()
            if name != self.name
        }
        shares[self.name] = own / self._room
        return min(shares, key=lambda name: (shares[name], name != self.name))

    def note_gateways(self, gateways: Sequence[ClusterGateway]) -> None:
        """Take note of the gateways that live. Any thread may call this."""
        self.gateways = {gateway.name: gateway for gateway in gateways if gateway.serves}

    def find_other_gateway(self, seat: str | None) -> ClusterGateway | None:
        """Return the living gateway that has this seat, if it is another one."""
        return None if seat is None or seat == self.name else self.gateways.get(seat)

    @property
    def active(self) -> ClusterGateway | None:
        """The gateway that has the duties, if it is another one."""
        return next(
            (gateway for gateway in self.gateways.values() if gateway.is_active and gateway.name != self.name), None
        )

    def pass_on(self, elsewhere: rows.SeatedElsewhere) -> None:
        """Let the gateway that serves a session, or decides who does, look at it."""
        self.hints.wake_session(elsewhere.seat, elsewhere.session)

    def is_served_here(self, session: int, seat: str | None) -> bool:
        """Return whether this gateway executes the commands of a session; if not, let the other one look at it.

        The active one does so for a session that no living gateway serves.
        """
        if seat == self.name or (self.has_duties and seat not in self.gateways):
            return True
        self.pass_on(rows.SeatedElsewhere(session, seat if seat in self.gateways else None))
        return False

    def tell_duties(self) -> None:
        """Let the active gateway look at its duties, if it is another one."""
        if not self.has_duties:
            self.hints.tell_duties()

    # ------------------------------------------------------------ looking at the rows

    def look_soon(self) -> None:
        """Look at the rows now, because a gateway has come or gone."""
        self._news.set()

    async def run(self, record: LedgerAccess, served: Served, lease: str) -> None:
        """Look at the rows again and again, until cancelled. `lease`: the lease of this gateway's turns."""
        loop = asyncio.get_running_loop()
        self.hints.start(lambda hint: loop.call_soon_threadsafe(self._take_hint, hint, record, served))
        while True:
            self._news.clear()
            try:
                await self._look_at_rows(record, served, lease)
            except LedgerError as error:
                log.warning("other gateways' work is looked at later", why=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await self._news.wait()

    async def _look_at_rows(self, record: LedgerAccess, served: Served, lease: str) -> None:
        own, others = await record.read(rows.list_work, lease, self.rule)
        for row in own:
            if not served.is_attended(row.id):
                served.look_at(row.id)
        if self.has_duties:
            served.look_at_duties()
            await self._notify_of_absence(record, [row for row in others if row.seat not in self.gateways])

    async def _notify_of_absence(self, record: LedgerAccess, waiting: Sequence[SessionRow]) -> None:
        """Tell people of sessions that wait for a gateway which has been gone for a while."""
        now = time.monotonic()
        self._away_since = {row.id: self._away_since.get(row.id, now) for row in waiting}
        for row in waiting:
            if row.away is None and row.seat is not None and now - self._away_since[row.id] > AWAY_NOTICE_AFTER_S:
                await record.write(rows.notify_away, row.id, row.seat)
                served_by = {"session": row.key, "gateway": row.seat}
                log.warning("a session waits for its gateway, which is gone", **served_by)

    def _take_hint(self, hint: Hint, record: LedgerAccess, served: Served) -> None:
        if hint.is_gap:
            record.hub.lag_all()
            self._news.set()
        if hint.changed:
            record.hub.publish([], hint.changed)
        for session in hint.woken:
            served.look_at(session)
        if self.has_duties and (hint.duties or hint.is_gap):
            served.look_at_duties()
