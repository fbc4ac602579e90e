"""Count what turns use, and hold back turns whose limit is used up (docs/limits.md).

Counts are rows, added in the transaction that begins or ends a turn. So a crash loses no count and counts nothing
twice. A message above a limit is never lost: its session's wake is put off to the end of the day, and a notice says so
(Law 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property
from typing import Any

from semel.law import limits as law
from semel.ledger.delivery import claims, owner_notice
from semel.ledger.storage.rows import Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.timing.walltime import find_day, wall_at


class Asker(Row):
    """A sender of events that wait for a turn, or that asked for one. `newest`: the newest of these events."""

    source: str
    kind: str
    person: str | None
    account: str | None
    role: str | None
    newest: int

    @classmethod
    def of_event(cls, source: str, kind: str, data: Mapping[str, Any], event: int) -> Asker:
        """Return the sender of an event. `data`: its fields besides the text; a channel names the sender there."""
        sender = entries.read_object(entries.read_object(dict(data), "data"), "from")
        return cls(source, kind, sender.get("person"), sender.get("id"), sender.get("role"), event)

    @property
    def name(self) -> str | None:
        return law.identify_person(self.source, self.kind, self.person, self.account, self.role)


class SpentRow(Row):
    """The turns, tokens and cost (in millionths) that were used on one day."""

    turns: int
    tokens: int
    cost: int

    @property
    def amounts(self) -> law.Amounts:
        return law.Amounts(self.turns, self.tokens, self.cost)


class ListedSpent(SpentRow):
    """The amounts that were used on one day, with the scope and the subject of the limit that they count for."""

    scope: law.Scope
    subject: str
    unreported: int


class TotalSpent(ListedSpent):
    """The amounts that were used on one day in all sessions together. `sessions`: in how many."""

    sessions: int


class LimitedRow(Row):
    """A session that waits because a limit is used up. `until` and `at` are in ms.

    `event`: the newest waiting event for which people have been told.
    """

    session: int
    scope: law.Scope
    subject: str
    measure: law.Measure
    until: int
    event: int
    at: int


class ListedLimited(Row):
    """A session that waits because a limit is used up, with its key."""

    session: int
    key: str
    scope: law.Scope
    subject: str
    measure: law.Measure
    until: int
    at: int


@dataclass(frozen=True)
class LimitPolicy:
    """The configured limits. `zone`: the time zone in which days are counted. `zone_name`: its name for people."""

    person: law.Limits = law.UNLIMITED
    session: law.Limits = law.UNLIMITED
    all: law.Limits = law.UNLIMITED
    zone: tzinfo = UTC
    zone_name: str = "UTC"
    _known_day: list[tuple[int, str, int]] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def is_limited(self) -> bool:
        """Whether any limit is configured."""
        return any(limits != law.UNLIMITED for limits in (self.person, self.session, self.all))

    def of(self, scope: law.Scope) -> law.Limits:
        return {"person": self.person, "session": self.session, "all": self.all}[scope]

    def find_day(self, now: int) -> tuple[str, int]:
        """Return the day that contains the time `now` (ms), and the time at which it ends (ms).

        The last result is cached.
        """
        for since, name, end in self._known_day:
            if since <= now < end:
                return name, end
        name, end_s = find_day(self.zone, now // 1000)
        self._known_day[:] = [(now, name, end_s * 1000)]
        return name, end_s * 1000

    def describe_end(self, until: int) -> str:
        return f"{wall_at(self.zone, until // 1000):%Y-%m-%d %H:%M} {self.zone_name}"


@dataclass(frozen=True)
class UsageReport:
    """The usage that an agent reported for an attempt. `tokens`: None if it reported none.

    `cost`: that of the whole conversation so far, in millionths of a unit of currency; None if it reported none.
    """

    tokens: int | None = None
    cost: int | None = None
    policy: LimitPolicy = field(default_factory=LimitPolicy)


@dataclass(frozen=True)
class AttemptUsage:
    """What one attempt used. `tokens`, `cost` (in millionths): None if its agent did not report it."""

    tokens: int | None
    cost: int | None


# ---------------------------------------------------------------- holding turns back


@dataclass(frozen=True)
class Hold:
    """A wake of the session `key` that is put off for `wait_ms` milliseconds, until the day of the used up limit ends.

    `limit`: in words, as "today's limit of 50 turns for bob".
    """

    key: str
    wait_ms: int
    limit: str


def hold_back(tx: Tx, row: SessionRow, policy: LimitPolicy) -> Hold | None:
    """Put off the session's wake if a limit of its next turn is used up. Return None if the turn may begin.

    People are told once for each day and limit, however many messages wait.
    """
    if not policy.is_limited:
        return None
    askers = tx.all(Asker, "askers_waiting", session=row.id)
    used_up = find_used_up(tx, row, askers, policy)
    if used_up is None:
        tx.run("limited_drop", session=row.id)
        return None
    scope, subject, measure = used_up
    _, until = policy.find_day(tx.now)
    limit = _describe_limit(row.key, scope, subject, measure, getattr(policy.of(scope), measure))
    before = tx.one(LimitedRow, "limited_get", session=row.id)
    if before is not None and (before.scope, before.subject, before.measure, before.until) == (*used_up, until):
        event = before.event  # people were told then
    else:
        event = max((asker.newest for asker in askers), default=0)
        text = (
            f"The message waits, and so do further ones: {limit} is used up. They are answered after "
            f"{policy.describe_end(until)}, or when the owner raises the limit."
        )
        claims.add_home_notice(tx, row, text, turn=None, kind="limit.waits", tell=False)
    tx.run(
        "limited_put", session=row.id, scope=scope, subject=subject, measure=measure, until=until, event=event,
        at=tx.now,
    )  # fmt: skip
    tx.run("session_wake", id=row.id, due=until, since=row.wake_since)
    return Hold(row.key, until - tx.now, limit)


def may_begin(tx: Tx, row: SessionRow, newcomer: Asker, policy: LimitPolicy) -> bool:
    """Return whether the limits allow the session's next turn to begin. `newcomer` asks for that turn, too.

    If the turn may begin, the session no longer counts as waiting for a limit. Otherwise nothing is changed:
    `hold_back` puts the turn off.
    """
    askers = [*tx.all(Asker, "askers_waiting", session=row.id), newcomer]
    if find_used_up(tx, row, askers, policy) is not None:
        return False
    tx.run("limited_drop", session=row.id)
    return True


def find_used_up(
    tx: Tx, row: SessionRow, askers: list[Asker], policy: LimitPolicy
) -> tuple[law.Scope, str, law.Measure] | None:
    """Return (scope, subject, measure) of a limit that keeps the next turn from beginning; None if the turn may begin.

    In a conversation of several people, a turn may begin if at least one of those who ask for it is below their limit.
    """
    day, _ = policy.find_day(tx.now)
    shared: list[tuple[law.Scope, str]] = [("all", ""), ("session", row.key)]
    for scope, subject in shared:
        if policy.of(scope) == law.UNLIMITED:
            continue
        if measure := law.find_used_up(_read_spent(tx, day, scope, subject), policy.of(scope)):
            return scope, subject, measure
    if policy.person == law.UNLIMITED:
        return None
    first: tuple[law.Scope, str, law.Measure] | None = None
    for name in dict.fromkeys(asker.name for asker in askers):
        measure = law.find_used_up(_read_spent(tx, day, "person", name), policy.person) if name is not None else None
        if name is None or measure is None:
            return None
        first = first or ("person", name, measure)
    return first


def _read_spent(tx: Tx, day: str, scope: law.Scope, subject: str) -> law.Amounts:
    if scope == "all":
        return tx.get(TotalSpent, "spent_in_all", day=day).amounts
    row = tx.one(SpentRow, "spent_get", day=day, scope=scope, subject=subject)
    return row.amounts if row is not None else law.Amounts()


def find_hold_end(tx: Tx, session: int) -> int | None:
    """Return until when the session's next turn is put off by a limit (ms); None if no limit puts it off."""
    row, limited = tx.get(SessionRow, "session_by_id", id=session), tx.one(LimitedRow, "limited_get", session=session)
    is_put_off = limited is not None and row.wake_at is not None and row.wake_at > tx.now
    return limited.until if limited is not None and is_put_off else None


def ask_again(tx: Tx, policy: LimitPolicy) -> None:
    """Make every session that waits for a limit try again now: the limits may have been raised or removed."""
    for session in tx.values(int, "limited_sessions", after=0):
        tx.run("limited_again", id=session, now=tx.now)
        if not policy.is_limited:
            tx.run("limited_drop", session=session)


# ---------------------------------------------------------------- listing


def list_spent(tx: Tx, day: str, after: tuple[str, str], limit: int) -> list[ListedSpent]:
    """Return a page of the amounts used on a day, ordered by scope and subject: first those of all together.

    `after`: the last (scope, subject) of the previous page.
    """
    rows = tx.all(ListedSpent, "spent_on", day=day, scope=after[0], subject=after[1], limit=limit)
    if after >= ("all", ""):
        return rows
    total = tx.get(TotalSpent, "spent_in_all", day=day)
    return [total, *rows][:limit] if total.sessions else rows


def list_limited(tx: Tx, limit: int) -> list[ListedLimited]:
    """Return at most `limit` sessions that wait because a limit is used up."""
    return tx.all(ListedLimited, "limited_all", after=0, limit=limit)


# ---------------------------------------------------------------- counting


def count_turn(tx: Tx, row: SessionRow, day: str, people: Iterable[str | None], policy: LimitPolicy) -> None:
    """Count a turn when its first attempt begins.

    Tell people about limits that are now nearly or completely used up. `people`: the senders of the events that asked
    for the turn (`law.identify_person`); the turn counts toward the limit of each.
    """
    _count(tx, row, day, people, law.Amounts(turns=1), 0, policy)


def measure_usage(tx: Tx, row: SessionRow, report: UsageReport | None) -> AttemptUsage:
    """Return what an attempt used, and record the cost that the agent reported. `row`: the session's current row."""
    if report is None or report.cost is None:
        return AttemptUsage(None if report is None else report.tokens, None)
    tx.run("session_cost", id=row.id, cost=report.cost)
    return AttemptUsage(report.tokens, law.compute_cost(report.cost, row.cost))


def count_usage(
    tx: Tx, row: SessionRow, turn: TurnRow, askers: Iterable[Asker], usage: AttemptUsage, policy: LimitPolicy
) -> None:
    """Count the usage that an agent reported for an attempt, on the day on which its turn began.

    `row`, `turn`: the current rows. `askers`: who sent the events that asked for the turn.
    """
    day = turn.day if turn.root == turn.id else tx.value(str, "turn_root_day", root=turn.root)
    if day is None:
        return  # it began before usage was counted
    used = law.Amounts(tokens=usage.tokens or 0, cost=usage.cost or 0)
    _count(tx, row, day, (asker.name for asker in askers), used, int(usage.tokens is None), policy)


def _count(
    tx: Tx, row: SessionRow, day: str, people: Iterable[str | None], used: law.Amounts, unreported: int,
    policy: LimitPolicy,
) -> None:  # fmt: skip
    # Sorted: two turns of the same people, which end at once, would else wait for each other's rows.
    names = sorted({name for name in people if name is not None})
    for person, session in [(names[0] if names else None, row.key), *((name, None) for name in names[1:])]:
        tx.run(
            "spent_add", day=day, person=person, session=session, turns=used.turns, tokens=used.tokens, cost=used.cost,
            unreported=unreported,
        )  # fmt: skip
    if policy.is_limited and day == policy.find_day(tx.now)[0]:
        _tell_crossings(tx, row, day, names, used, policy)


def _tell_crossings(
    tx: Tx, row: SessionRow, day: str, people: list[str], used: law.Amounts, policy: LimitPolicy
) -> None:
    """Tell of each limit that came near or is used up since `used` was added to the day's amounts."""
    subjects: list[tuple[law.Scope, str]] = [*(("person", name) for name in people), ("session", row.key), ("all", "")]
    for scope, subject in subjects:
        if policy.of(scope) == law.UNLIMITED:
            continue
        if scope == "all":
            tx.lock("ledger_lock")  # turns that begin or end at once are summed up one after the other
        after = _read_spent(tx, day, scope, subject)
        for crossing in law.find_crossings(after - used, after, policy.of(scope)):
            _tell_crossing(tx, row, scope, subject, crossing, policy)


def _tell_crossing(
    tx: Tx, row: SessionRow, scope: law.Scope, subject: str, crossing: law.Crossing, policy: LimitPolicy
) -> None:
    """Tell the people of the session and the owners that a limit is nearly or completely used up."""
    limit = _describe_limit(row.key, scope, subject, crossing.measure, crossing.most)
    limit = limit[:1].upper() + limit[1:]
    if crossing.is_used_up:
        end = policy.describe_end(policy.find_day(tx.now)[1])
        text = f"{limit} is used up. Further messages wait until {end}, or until the owner raises it."
    else:
        text = f"{limit} is nearly used up: {law.format_amount(crossing.measure, crossing.used)} so far."
    kind = "limit.used" if crossing.is_used_up else "limit.near"
    claims.add_home_notice(tx, row, text, turn=None, kind=kind, tell=False)
    owner_notice.notify_owners(tx, text, kind, except_session=row.id)


def _describe_limit(key: str, scope: law.Scope, subject: str, measure: law.Measure, most: int) -> str:
    whose = {"person": f"for {subject}", "session": f"for the session {key}", "all": "for everybody together"}[scope]
    return f"today's limit of {law.format_amount(measure, most)} {whose}"
