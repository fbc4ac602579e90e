"""Accept an event with its entries, its wakes and its source's cursor, in one transaction (Laws 1, 2).

A new (source, key) is stored once; a repeat is a duplicate or, with other content, a conflict. In each addressed
session the event becomes an entry and a *hearing*: the row that later binds it to a turn. The session's busy mode
decides whether it wakes the session, is steered into the running turn, interrupts it or waits. Commands get a row of
their own and wait for the gateway's answer.

If the event wakes an idle session at once, and the gateway offers to (`IdleStart`), its turn begins in the same
transaction. The event is then bound to the turn from the beginning, and no wake is ever pending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec import structs

from semel.law import wake
from semel.law.identity import judge_repeat
from semel.law.permissions import AnswerOrigin
from semel.ledger.inbound import commands, references
from semel.ledger.storage.rows import AddedEvent, AddedTurn, BoundEvent, EntryRole, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import jobs, limits, permission_requests, questions, seats, turn_events, turns
from semel.ledger.turns.session_agent import ANY_AGENT, ConfiguredAgents
from semel.text.content_blocks import name_mentions
from semel.text.preview import remove_markup
from semel.text.wellformed import shorten_to_line

DEFAULT_TITLE_CHARS = 60
NO_STEERING = "no message can join the turn that runs now"


class KnownEvent(Row):
    """The stored event that has the source and key of a new one."""

    id: int
    digest: bytes
    repeats: int


class SessionMissing(Exception):
    """The event is addressed to a session that does not exist and that the event must not create.

    Nothing was accepted.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no session {key!r}")
        self.key = key


@dataclass(frozen=True)
class Addressee:
    """A session that an event is addressed to. `agent` and `home` are used only if the session is new.

    The other fields come from the configuration: `busy`, the session's busy mode; `pause`, how long to wait for more
    messages; `allows_automatic`, whether programs may wake the session; `reads_steered`, whether the agent of its
    running turn is here, and known to read a second prompt; `creates_session`, whether to create a missing session
    instead of raising SessionMissing.
    """

    key: str
    agent: str
    home: str | None
    busy: wake.Busy = "queue"
    pause: wake.WakeDelay = wake.NO_PAUSE
    allows_automatic: bool = False
    reads_steered: bool = False
    creates_session: bool = True


@dataclass(frozen=True)
class IdleStart:
    """How a gateway begins a turn in the transaction that hears its event, if the session is idle.

    `lease`, `policy`, `agents`, `seat_rule`: as for `turns.begin`. `is_idle`: whether nothing of the gateway works on
    the session. `find_spawn`: the session's idle process. Both are called with the session's id in the thread that
    writes.
    `take_over`: called with the turn that began, after the commit, as for `Tx.after_commit`. It is called even if the
    caller of the transaction was cancelled, so no turn that began is left without its run.
    """

    lease: str
    is_idle: Callable[[int], bool]
    find_spawn: Callable[[int], int | None]
    take_over: Callable[[turns.BegunTurn], object]
    policy: limits.LimitPolicy | None = None
    agents: ConfiguredAgents = ANY_AGENT
    seat_rule: seats.SeatRule | None = None


@dataclass(frozen=True)
class Event:
    """An event as its source reports it. `digest` covers the fields that the source declares stable.

    `wakes`: whether the event wakes the session; None decides by its kind and by `automatic` (a program sent it).
    `busy`: how to handle the event while a turn runs; None uses the session's busy mode. `command`: name and argument
    of a command to the gateway; the agent does not see the command. `reference`: the message that the event is about,
    by platform id. An event with a reference counts as a person's act. `shown_rev`: the rev up to which the sending
    face had shown the session; None if unknown. `title`: the name of the room or chat in which the event was written,
    if it has a name. `has_growing_ids`: the platform's message ids end with a number that grows with each message in a
    chat, including Semel's messages. `blocks`: the content blocks as which a message came, for the agent.
    """

    source: str
    key: str | None
    kind: str
    text: str
    digest: bytes
    sender: str | None = None
    more: entries.Body | None = None
    wakes: bool | None = True
    busy: wake.Busy | None = None
    automatic: bool = False
    command: tuple[str, str] | None = None
    reference: references.Reference | None = None
    shown_rev: int | None = None
    has_growing_ids: bool = False
    title: str = ""
    blocks: Sequence[Mapping[str, Any]] = ()

    @property
    def is_by_person(self) -> bool:
        """Whether a person caused the event, by writing or by another act."""
        return self.kind in wake.PERSON_KINDS or self.reference is not None


@dataclass(frozen=True)
class Addressed:
    """The effect of an event on one session that it was addressed to.

    `act`: what the gateway must do now; None for nothing. `root`: the root of the turn to interrupt. `waiting`: the
    busy mode by which the event waits, if people are shown that it waits. `position`: its place in the queue, from 1.
    `reason`: why it was not handled in the requested busy mode. `seq`: its entry, if the event is a command or was
    written at the session's home. `begun`: the turn that began with it in the same transaction; its run is under way
    without an `act`. `is_hinted`: a notice at the session's home says how to answer an open request.
    """

    session: int
    act: wake.BusyAction | None
    root: int | None = None
    waiting: wake.Busy | None = None
    position: int | None = None
    reason: str | None = None
    command: bool = False  # a command that waits for the gateway's answer
    seq: int | None = None
    begun: turns.BegunTurn | None = None
    is_hinted: bool = False


@dataclass(frozen=True)
class HeardOutcome:
    """The result of `hear`. `status`: "accepted", "duplicate" or "conflict". `event`: the id of the stored event.

    `stored_digest`: the digest of the content that is stored under this (source, key).
    """

    event: int
    status: str
    stored_digest: bytes
    addressed: tuple[Addressed, ...] = ()

    @property
    def woken_sessions(self) -> tuple[int, ...]:
        """The ids of the sessions in which the gateway must now act on the event."""
        return tuple(addressed.session for addressed in self.addressed if addressed.act is not None)


@dataclass(frozen=True)
class _EventEntry:
    """An event's entry as it was added."""

    seq: int
    role: EntryRole
    more: entries.Body


class SessionDiffers(Exception):
    """A session of this key exists and has another folder or another agent."""

    def __init__(self, key: str, field: str, value: str | None) -> None:
        super().__init__(f"the session {key!r} exists, and its {field} is {value or 'the own folder of its agent'}")


def make_session(
    tx: Tx,
    addressee: Addressee,
    agent: str | None,
    folder: str | None,
    seat_rule: seats.SeatRule | None = None,
) -> tuple[int, bool]:
    """Make a session before its first event. Return its id, and whether it is new. Asking again changes nothing.

    `agent`: its agent; None takes the addressee's, or that of an existing session. `folder`: the folder in which its
    agent works; None takes the agent's own, or that of an existing session. The folder is on this machine, so
    `seat_rule` gives a session with a folder to this gateway. Raises SessionDiffers.
    """
    row = tx.one(SessionRow, "session_by_key", key=addressee.key)
    if row is not None and agent not in (None, row.agent):
        raise SessionDiffers(addressee.key, "agent", row.agent)
    if row is not None and row.deleted is None:
        if folder not in (None, row.folder):
            raise SessionDiffers(addressee.key, "folder", row.folder)
        return row.id, False
    addressee = replace(addressee, agent=agent or addressee.agent)
    row = _create_or_revive(tx, addressee, row)
    tx.run("session_set_folder", id=row.id, folder=folder)
    if folder is not None:
        seats.take_seat(tx, tx.get(SessionRow, "session_by_id", id=row.id), seat_rule, is_wanted_here=True)
    entries.touch_session(tx, row.id)
    return row.id, True


def open_session(tx: Tx, addressee: Addressee) -> SessionRow:
    """Return the addressee's session. Create it if it is new; bring it back if it was archived or deleted.

    Raises SessionMissing if the session is missing and the addressee does not let it be created.
    """
    return _create_or_revive(tx, addressee, tx.one(SessionRow, "session_by_key", key=addressee.key))


def _create_or_revive(tx: Tx, addressee: Addressee, row: SessionRow | None) -> SessionRow:
    if row is None:
        if not addressee.creates_session:
            raise SessionMissing(addressee.key)
        session = tx.number("session_add", key=addressee.key, agent=addressee.agent, home=addressee.home, at=tx.now)
        entries.touch_session(tx, session)
        row = tx.get(SessionRow, "session_by_id", id=session)
    elif row.archived is not None or row.deleted is not None:
        row = _bring_back(tx, row)
    return row


def _bring_back(tx: Tx, row: SessionRow) -> SessionRow:
    """Bring back a session that gets an event.

    An archived one is unchanged; a deleted one becomes a new conversation.
    """
    tx.run("session_archive", id=row.id, archived=None)
    if row.deleted is not None:
        if row.seq > row.erased:  # a late notice was written while the session was deleted
            tx.run("session_erase_on", id=row.id)
            tx.run("erasure_put", session=row.id)
        tx.run("session_revive", id=row.id, at=tx.now)
    entries.touch_session(tx, row.id)
    return tx.get(SessionRow, "session_by_id", id=row.id)


def hear(
    tx: Tx,
    event: Event,
    targets: Sequence[Addressee],
    cursor: str | None = None,
    start: IdleStart | None = None,
) -> HeardOutcome:
    """Accept an event for its `targets` at most once. Set the cursor of its source, if `cursor` is given.

    `start`: begins the turn in each session that the event finds idle; None leaves that to `turns.begin`.

    The outcome of a repeat names the first event. A repeat with other content is recorded as a conflict. Raises
    SessionMissing.
    """
    if cursor is not None:
        tx.run("cursor_set", source=event.source, value=cursor, at=tx.now)
    automatic_field = {"automatic": True} if event.automatic else {}
    blocks_field = {"blocks": list(event.blocks)} if event.blocks else {}
    payload = entries.dump({"text": event.text, **(event.more or {}), **automatic_field, **blocks_field})
    added = tx.one(
        AddedEvent, "event_add", source=event.source, key=event.key, kind=event.kind, sender=event.sender,
        digest=event.digest, payload=payload, at=tx.now, session=targets[0].key if len(targets) == 1 else None,
    )  # fmt: skip
    if added is None:
        return _record_repeat(tx, event, payload)
    if len(targets) > 1:
        added = structs.replace(added, has_live_items=1)  # some session may have one
    addressed = tuple(_hear_in_session(tx, added, event, payload, addressee, start) for addressee in targets)
    jobs.apply_report(tx, event.source, event.kind, event.key, added.id, (event.more or {}).get("data") or {})
    return HeardOutcome(added.id, "accepted", event.digest, addressed)


def _record_repeat(tx: Tx, event: Event, payload: str) -> HeardOutcome:
    first_event = tx.get(KnownEvent, "event_known", source=event.source, key=event.key)
    if judge_repeat(first_event.digest, event.digest) == "duplicate":
        tx.run("event_repeat", id=first_event.id)
        return HeardOutcome(first_event.id, "duplicate", event.digest)
    tx.run("conflict_add", event=first_event.id, digest=event.digest, payload=payload, at=tx.now)
    return HeardOutcome(first_event.id, "conflict", first_event.digest)


def list_addressed_keys(tx: Tx, event: int) -> list[str]:
    """Return the keys of the sessions that an event was addressed to, sorted; none for a command."""
    return sorted(tx.values(str, "sessions_of_event", event=event))


def _set_default_title(tx: Tx, row: SessionRow, event: Event) -> None:
    """Give a session without a title the name of its room, its person and channel, or the first words said there."""
    if row.title is not None:
        return
    title = event.title or _name_chat(event)
    if not title and event.kind == "message" and not event.automatic:
        words = name_mentions(event.text, (event.more or {}).get("mentions"))
        title = shorten_to_line(remove_markup(words), DEFAULT_TITLE_CHARS)
    if title:
        tx.run("session_set_title", id=row.id, title=title)
        entries.touch_session(tx, row.id)


def _name_chat(event: Event) -> str:
    """Return the person and the channel of a message that somebody wrote in a chat of their own; else ""."""
    _, of_channel, channel = event.source.partition("channel:")
    is_message = event.kind == "message" and not event.automatic
    if not (of_channel and is_message and event.sender) or (event.more or {}).get("data", {}).get("group"):
        return ""
    return f"{shorten_to_line(event.sender, DEFAULT_TITLE_CHARS)} · {channel}"


def _hear_in_session(
    tx: Tx, added: AddedEvent, event: Event, payload: str, addressee: Addressee, start: IdleStart | None
) -> Addressed:
    event_id = added.id
    existing = tx.one(SessionRow, "session_by_key", key=addressee.key)
    if (
        existing is not None
        and existing.deleted is not None
        and jobs.is_report_of(tx, event.kind, event.key, existing.id)
    ):
        return _record_for_deleted_session(tx, existing, event_id, event)
    row = _create_or_revive(tx, addressee, existing)
    if event.command is not None:
        return _hear_command(tx, row, event_id, event, event.command)
    _set_default_title(tx, row, event)
    addressed, woken = _decide_wake(tx, row, event, addressee, start)
    entry = _add_entry(tx, row, event_id, event, addressed)
    seq = entry.seq
    is_shown_to_agent = event.kind == "message" and not event.automatic and addressed.act is not None
    may_answer = is_shown_to_agent and added.has_live_items == 1
    opened = None if woken is None or start is None else _open_turn_at_once(tx, row, event_id, event, woken, start)
    row, turn = opened or (row, None)
    if may_answer:
        questions.answer_by_message(tx, row.id, event_id, event.text, event.sender, event.shown_rev)
    if woken is not None and turn is None:
        tx.run("session_wake", id=row.id, due=woken.due, since=woken.since)
    tx.run(
        "hearing_add",
        event=event_id,
        session=row.id,
        seq=seq,
        wakes=int(addressed.act is not None),
        busy=addressed.waiting,
        turn=turn.id if turn is not None else None,
    )
    seq_at_home = seq if turns.is_from_home(event.source, row.home) else None
    if turn is None or start is None:
        if may_answer and addressed.act != "interrupt":
            is_hinted = permission_requests.add_hints(tx, row, seq, is_from_home=seq_at_home is not None)
            addressed = replace(addressed, is_hinted=is_hinted)
        entries.touch_session(tx, row.id)
        return addressed if seq_at_home is None else replace(addressed, seq=seq_at_home)
    bound = BoundEvent(
        event_id, event.source, event.key, event.kind, event.sender, payload, tx.now, seq, 1, entry.role,
        entries.dump(entry.more),
    )  # fmt: skip
    begun = turns.complete_begin(tx, row, turn, start.policy, turn_events.to_turn_event(bound))
    tx.after_commit(partial(start.take_over, begun))
    return Addressed(row.id, None, seq=seq_at_home, begun=begun)


def _add_entry(tx: Tx, row: SessionRow, event_id: int, event: Event, addressed: Addressed) -> _EventEntry:
    """Add the event's entry to a session, and mark the entry that it refers to."""
    more = dict(event.more or {})
    if event.kind != "message":
        more["kind"] = event.kind
    if event.sender:
        more["sender"] = event.sender
    if event.automatic:
        more["automatic"] = True
    if addressed.waiting is not None:
        more["waiting"] = addressed.waiting
    original = references.find_original(tx, row, event.source, event.reference)
    if original is not None:
        more.update(original.entry_fields())
    role: EntryRole = "user" if event.is_by_person else "event"
    seq = entries.add_entry(tx, row.id, role=role, text=event.text, event=event_id, more=more)
    if original is not None:
        references.mark_original(tx, row.id, original, event.kind, seq)
    return _EventEntry(seq, role, more)


def _open_turn_at_once(
    tx: Tx, row: SessionRow, event_id: int, event: Event, woken: wake.Wake, start: IdleStart
) -> tuple[SessionRow, AddedTurn] | None:
    """Add the turn that begins with this event, if the session is idle and the event's wake is due now.

    Return the session's row and the turn, or None. If a limit is used up, no turn begins: the event waits for
    `turns.begin`, which says so (Law 12).
    """
    if row.turn is not None or woken.due > tx.now or not start.is_idle(row.id):
        return None
    if start.policy is not None and start.policy.is_limited:
        newcomer = limits.Asker.of_event(event.source, event.kind, event.more or {}, event_id)
        if not limits.may_begin(tx, row, newcomer, start.policy):
            return None
    taken = seats.take_seat(tx, row, start.seat_rule)
    if isinstance(taken, seats.SeatedElsewhere):
        return None
    row = taken
    return turns.open_turn(tx, row, start.lease, start.find_spawn(row.id), start.agents, start.policy)


def _record_for_deleted_session(tx: Tx, row: SessionRow, event_id: int, event: Event) -> Addressed:
    """Record the end of a job whose session was deleted, without bringing the session back.

    The event is bound to the session's last turn, and its content is erased.
    """
    last = tx.one(TurnRow, "turn_last", session=row.id)
    assert last is not None  # a job is always started in a turn
    seq = entries.add_entry(tx, row.id, role="event", text="", event=event_id)
    tx.run("hearing_add", event=event_id, session=row.id, seq=seq, wakes=0, busy=None, turn=last.id)
    tx.run("session_erase_on", id=row.id)
    tx.run("erasure_put", session=row.id)
    return Addressed(row.id, None)


def _hear_command(tx: Tx, row: SessionRow, event_id: int, event: Event, command: tuple[str, str]) -> Addressed:
    original = references.find_original(tx, row, event.source, event.reference)
    more = {**(event.more or {}), **({"sender": event.sender} if event.sender else {})}
    if original is not None:
        more.update(original.entry_fields())
    is_reply = event.reference is not None and event.reference.message_id is not None
    effect = commands.record_command(
        tx, row, event_id, *command, event.text, more, _answer_origin(row, event), is_reply
    )
    act: wake.BusyAction | None = "wake" if effect.wake else None if effect.root is None else "interrupt"
    return Addressed(row.id, act, effect.root, command=True, seq=effect.seq)


def _answer_origin(row: SessionRow, event: Event) -> AnswerOrigin:
    """Return where a command was written. If its channel does not name the chat, take the session's home."""
    kind, _, channel = event.source.partition(":")
    if kind != "channel":
        return AnswerOrigin(None, event.shown_rev)
    data = entries.read_object(dict(event.more or {}), "data")
    home = row.home if str(row.home).startswith(f"{channel}:") else f"{channel}:"
    dest = f"{channel}:{data['address']}" if data.get("address") else home
    return AnswerOrigin(
        dest, message_id=event.key or "", written_at=data.get("at"), has_growing_numbers=event.has_growing_ids
    )


def _decide_wake(
    tx: Tx, row: SessionRow, event: Event, addressee: Addressee, start: IdleStart | None
) -> tuple[Addressed, wake.Wake | None]:
    """Decide whether and when the event wakes its session.

    Return the event's effect on the session, and the session's pending wake (Law 2), which is to be recorded; None if
    the event does not wake it.
    """
    wakes = event.wakes
    if wakes is None:
        wakes = wake.wakes(event.kind, automatic=event.automatic, allowed=addressee.allows_automatic)
    if not wakes:
        return Addressed(row.id, None), None
    mode, reason = event.busy or row.busy or addressee.busy, None
    if not event.is_by_person:
        mode = wake.mode_for_event(mode)
    act = wake.decide_action(mode, running=row.turn is not None)
    if act == "steer" and not (addressee.reads_steered or _is_steered_elsewhere(row, start)):
        mode, act, reason = "queue", "wake", NO_STEERING
    woken = _next_wake(tx, row, mode, addressee.pause)
    if row.turn is None and woken.due <= tx.now:
        return Addressed(row.id, act), woken
    shown: wake.Busy = mode if row.turn is not None else "collect"
    position = tx.number("session_line_count", id=row.id) + 1
    running = tx.one(TurnRow, "turn_get", id=row.turn) if act == "interrupt" else None
    root = running.root if running is not None else None
    return Addressed(row.id, act, root, shown, position, reason), woken


def _is_steered_elsewhere(row: SessionRow, start: IdleStart | None) -> bool:
    """Whether another gateway runs the session's turn, with an agent that is known to read a second prompt.

    That gateway is told to look. If the turn ends first, the next one takes the message.
    """
    rule = None if start is None else start.seat_rule
    return rule is not None and row.seat not in (None, rule.name) and bool(entries.load(row.about).get("steers"))


def _next_wake(tx: Tx, row: SessionRow, mode: wake.Busy, pause: wake.WakeDelay) -> wake.Wake:
    """Return the session's single pending wake once a message with this busy mode is heard (Law 2)."""
    if mode == "collect" and not pause.debounce:
        pause = wake.COLLECT
    elif mode in ("steer", "interrupt"):
        pause = wake.NO_PAUSE
    return wake.next_wake(tx.now, turns.pending_wake(row), pause)
