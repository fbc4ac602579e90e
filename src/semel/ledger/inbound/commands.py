"""Commands to the gateway: accepted once like every event, bound to no turn, answered by a notice (Laws 1, 4).

The transaction that accepts a command also changes the ledger as the command demands. So commands take effect in order:
a message after `/new` belongs to the new chapter. The gateway does everything else later, from the command's row,
exactly once even across restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semel.law.access import APPROVALS
from semel.law.permission_questions import ChosenOption
from semel.law.permissions import GONE, AnswerOrigin
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg, is_local
from semel.ledger.delivery.parts import Undelivered, count_undelivered
from semel.ledger.storage.rows import CommandRow, EntryRow, OpenCommand, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.views import ClaimDelivery
from semel.ledger.turns import permission_requests, questions, sessions, turns
from semel.ledger.turns.agent_notices import AgentNotice, find_current_notice, is_silent
from semel.ledger.turns.finish_turn import find_empty_turn_notice
from semel.text.json_types import Json

KIND = "command"
"""The kind of command events, of their entries and of the notices that answer them."""
DEFAULT_HISTORY_LINES, MAX_HISTORY_LINES = 10, 50


@dataclass(frozen=True)
class CommandEffect:
    """The immediate effect of a command on the ledger.

    `result`: a text that is stored with the command. `wake`: a turn is due. `root`: the root of the running turn, if
    that turn must be stopped. `seq`: the command's entry.
    """

    result: str = ""
    wake: bool = False
    root: int | None = None
    seq: int | None = None


@dataclass(frozen=True)
class Choice:
    """The option that an approval or denial chose.

    `item`: the request; None if nothing was chosen, and `text` says why. `face`: where the command was written. `seen`:
    the rev up to which this face had shown the session.
    """

    item: int | None
    option: str | None
    text: str
    face: str
    seen: int | None


def record_command(
    tx: Tx,
    row: SessionRow,
    event: int,
    name: str,
    argument: str,
    text: str,
    more: Json,
    origin: AnswerOrigin,
    is_reply: bool,
) -> CommandEffect:
    """Record a command that was just accepted in session `row`, apply its immediate effect, and return that effect.

    `origin`: where the command was written. `is_reply`: the command replies to a message; `more["of"]` is the seq of
    that message's entry, if the entry was found.
    """
    if name in APPROVALS:
        number = int(argument) if argument else None
        choice_or_problem = permission_requests.name_request(
            tx, row, origin, name == "approve", number, more.get("of"), is_reply
        )
        effect = CommandEffect(_encode_choice(choice_or_problem, origin))
    else:
        effect = (
            _begin_chapter(tx, row)
            if name == "new"
            else _requeue_last_turn(tx, row)
            if name == "retry"
            else CommandEffect()
        )
    seq = entries.add_entry(tx, row.id, role="user", text=text, event=event, more={**more, "kind": KIND})
    tx.run(
        "command_add", event=event, session=row.id, seq=seq, name=name, argument=argument, result=effect.result
    )  # fmt: skip
    entries.touch_session(tx, row.id)
    return replace(effect, seq=seq)


def _encode_choice(choice_or_problem: ChosenOption | str, origin: AnswerOrigin) -> str:
    face = origin.dest or permission_requests.API
    if isinstance(choice_or_problem, str):
        return entries.dump({"said": choice_or_problem, "face": face})
    fields: Json = {
        "item": choice_or_problem.item,
        "option": choice_or_problem.option,
        "said": choice_or_problem.confirmation,
        "face": face,
    }
    return entries.dump(fields if origin.shown_rev is None else {**fields, "seen": origin.shown_rev})


def decode_choice(result: str) -> Choice:
    """Return the choice that the stored `result` of an approval or denial describes."""
    fields = entries.load(result)
    return Choice(
        fields.get("item"), fields.get("option"), str(fields.get("said") or GONE),
        fields.get("face") or permission_requests.API, fields.get("seen"),
    )  # fmt: skip


def _begin_chapter(tx: Tx, row: SessionRow) -> CommandEffect:
    """Begin a chapter with the next entry.

    If a turn runs, the effect names its root, because that turn must be stopped.
    """
    running = tx.one(TurnRow, "turn_get", id=row.turn) if row.turn is not None else None
    sessions.begin_chapter(tx, row)
    waiting = tx.number("session_line_count", id=row.id)
    if running is None:
        return CommandEffect(str(waiting))
    return CommandEffect(f"{waiting} stopped", root=running.root)


def _requeue_last_turn(tx: Tx, row: SessionRow) -> CommandEffect:
    """Let the events of the last turn wait for a new turn with a new root.

    Only if the last turn failed, was stopped, or ended without a word, which is often an error of the model's API.
    """
    if row.turn is not None:
        return CommandEffect("running")
    last = tx.one(TurnRow, "turn_last", session=row.id)
    if last is None or last.chapter != row.chapter:
        return CommandEffect("none")
    if last.state not in ("failed", "cancelled") and find_empty_turn_notice(tx, last) is None:
        return CommandEffect("done")
    if not tx.number("hearings_of_turn", turn=last.id):
        return CommandEffect("none")
    tx.run("hearing_unbind", turn=last.id)
    if tx.exists("hearing_waits", session=row.id):
        tx.run("session_wake", id=row.id, due=tx.now, since=tx.now)
    return CommandEffect(f"t{last.id}", wake=True)


def list_sessions_with_open(tx: Tx) -> list[int]:
    """Return the ids of the sessions with unanswered commands."""
    return tx.values(int, "commands_left")


def read_seat(tx: Tx, session: int) -> str | None:
    """Return the gateway that serves the session; None if it has no seat."""
    return tx.get(SessionRow, "session_by_id", id=session).seat


def list_open(tx: Tx, session: int) -> list[OpenCommand]:
    """Return a session's unanswered commands, in order of acceptance."""
    return tx.all(OpenCommand, "commands_open", session=session)


def answer(tx: Tx, event: int, session: int, text: str, legs: Sequence[Leg] | None = None) -> bool:
    """Answer a command with a notice at its session's home.

    An approval or denial that chose nothing and was not written in a chat is answered in the transcript only: people at
    a chat would read an answer to what they never wrote.

    Return False if the command needs no answer: it has one already, or its session was deleted.
    """
    command = tx.one(CommandRow, "command_get", event=event, session=session)
    row = tx.one(SessionRow, "session_by_id", id=session)
    if command is None or row is None or command.state != "open":
        return False
    if _concerns_only_its_face(command):
        more: Json = {"kind": KIND, "of": command.seq}
        seq = entries.add_entry(tx, session, role="notice", text=text, more=more)
    else:
        seq = claims.add_home_notice(tx, row, text, turn=None, kind=KIND, tell=False, about_seq=command.seq, legs=legs)
    tx.run("command_done", event=event, session=session, answer=seq)
    return True


def _concerns_only_its_face(command: CommandRow) -> bool:
    if command.name not in APPROVALS:
        return False
    fields = entries.load(command.result)
    return fields.get("item") is None and fields.get("face") == permission_requests.API


def list_agent_commands(tx: Tx, keys: Sequence[str]) -> set[str]:
    """Return the names, without the slash, of all commands that the agents of these sessions offer."""
    names: set[str] = set()
    for key in keys:
        row = tx.one(SessionRow, "session_by_key", key=key)
        commands = entries.load(row.about).get("commands") if row is not None else None
        for command in commands if isinstance(commands, list) else []:
            if isinstance(command, dict) and isinstance(name := command.get("name"), str):
                names.add(name.lstrip("/"))
    return names


@dataclass(frozen=True)
class MissedMessages:
    """The messages that /history shows and that did not, or may not have, reached the session's chat.

    `count`: how many they are. `lines`: the N with which `/history N` shows all of them.
    """

    count: int = 0
    lines: int = 0


@dataclass(frozen=True)
class SessionStatus:
    """The facts about a session that `/status` shows.

    `waiting`: how many events wait. `last`: the last turn. `ended_without_a_word`: whether that turn did. `asked`: what
    the running turn asks a permission for. `retry_in_ms`: how long it is until the turn, which has failed, is tried
    again; None if it does not wait for that. `question`: the agent's question that waits for an answer; None if there
    is none. `undelivered`: what has not reached the session's home; None if that is no chat. `missed`: what /history
    shows of that. `agent_notice`: what the agent of the running turn says of itself; None if it went on since.
    `is_silent`: whether it has shown nothing for long. `now`: in ms since the epoch.
    """

    row: SessionRow
    about: Json
    waiting: int
    last: TurnRow | None
    ended_without_a_word: bool
    asked: tuple[str, ...]
    now: int
    retry_in_ms: int | None = None
    question: str | None = None
    undelivered: Undelivered | None = None
    agent_notice: AgentNotice | None = None
    missed: MissedMessages = MissedMessages()
    is_silent: bool = False


def read_status(tx: Tx, session: int) -> SessionStatus:
    row = tx.get(SessionRow, "session_by_id", id=session)
    waiting = tx.number("session_waiting_count", id=session)
    requests = permission_requests.list_open(tx, row.turn) if row.turn is not None else []
    asked = tuple(str(entries.load(request.body).get("title") or "") for request in requests)
    last = tx.one(TurnRow, "turn_last", session=session)
    without_a_word = last is not None and find_empty_turn_notice(tx, last) is not None
    retry_at = last.retry_at if last is not None and last.ended is None else None
    retry_in_ms = None if retry_at is None else max(0, retry_at - tx.now)
    question = questions.find_newest_open(tx, session)
    undelivered = None if row.home is None or is_local(row.home) else count_undelivered(tx, row.home)
    running = last if last is not None and last.id == row.turn and retry_in_ms is None else None
    notice = None if running is None else find_current_notice(tx, running.id)
    silent = running is not None and notice is None and is_silent(tx, running.id, running.started)
    return SessionStatus(
        row, entries.load(row.about), waiting, last, without_a_word, asked, tx.now, retry_in_ms, question, undelivered,
        notice, _find_missed(tx, session) if undelivered is not None and undelivered.is_missing else MissedMessages(),
        silent,
    )  # fmt: skip


def _find_missed(tx: Tx, session: int) -> MissedMessages:
    newest_first = list_last_messages(tx, session, MAX_HISTORY_LINES)[::-1]
    places = [place for place, message in enumerate(newest_first, 1) if message.is_missed]
    return MissedMessages(len(places), max(places, default=0))


def find_turn_to_stop(tx: Tx, session: int, seq: int) -> tuple[int | None, int]:
    """Return the root of the turn that a `/stop` is meant for, and the number of events that wait for the next one.

    The root is None if no such turn runs; one may be about to begin (`interventions.stop_next`). `seq`: the entry of
    the `/stop` command. A turn counts only if an event that was accepted before the command asked for it.
    """
    turn = turns.find_running_turn(tx, session)
    if turn is None:
        return None, 0
    waiting = tx.number("session_line_count", id=session)
    return (turn.root if sessions.was_asked_for_before(tx, turn.id, seq) else None), waiting


@dataclass(frozen=True)
class LastMessage:
    """A message of a transcript.

    `fate`: "rejected" or "held" if it did not, or may not have, reached the chat; "dropped" if a person gave it up.
    """

    entry: EntryRow
    fate: str | None

    @property
    def is_missed(self) -> bool:
        """Whether it did not, or may not have, reached the chat, and nobody gave it up."""
        return self.fate in ("rejected", "held")


def list_last_messages(tx: Tx, session: int, max_messages: int) -> list[LastMessage]:
    """Return the last `max_messages` messages of a session's chapter, oldest first.

    Commands and notices do not count, nor what a later message has in full.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    messages: list[EntryRow] = []
    before_seq, entries_read = row.seq + 1, 0
    while len(messages) < max_messages and entries_read < 10 * max_messages + 100:
        page = tx.all(EntryRow, "entries_last_of_chapter", session=session, before=before_seq, limit=100)
        messages += [entry for entry in page if _counts_in_history(entry)]
        entries_read += len(page)
        if len(page) < 100:
            break
        before_seq = page[-1].seq
    return [LastMessage(message, _find_fate(tx, message, row.home)) for message in messages[:max_messages][::-1]]


def _counts_in_history(entry: EntryRow) -> bool:
    is_of_gateway = entry.role == "notice" or entries.load(entry.more).get("kind") == KIND
    return not (is_of_gateway or entry.live or entry.superseded)


def _find_fate(tx: Tx, message: EntryRow, home: str | None) -> str | None:
    if message.claim is None:
        return None
    parts = tx.all(ClaimDelivery, "delivery_of_claim", claim=message.claim)
    states = {part.state for part in parts if part.dest == home}
    return next((state for state in ("rejected", "held", "dropped") if state in states), None)
