"""Wait for the answer to one message."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from semel.faces.api_types import Entry
from semel.faces.busy_texts import SILENCE_S, describe_silence
from semel.faces.client.connection import Connection, session_path
from semel.faces.transcript import format_zoned
from semel.faces.view import SessionView
from semel.law.commands import RUNS_AGAIN, CommandCall, read_command
from semel.law.permission_questions import find_allowing_number
from semel.text.json_types import Json
from semel.tools.address import NoGateway

RECONNECT_TIMEOUT_S = 30.0
AWAY_S = 0.5
"""After how many seconds without a connection a person is told so. A gateway that is only restarted takes longer."""
CHECK_INTERVAL_S = 1.0
HISTORY_PAGE_SIZE = 1000
FAILURE_KINDS = ("turn.failed", "turn.empty")
"""Kinds of notices that say that a turn gave no answer: it failed, or ended without a word, as after some errors of a
model's API."""
HINT_KIND = "permission.hint"
"""The kind of the notice that tells the sender of a message how to answer a request that is open."""
NEWS_KINDS = ("retry", "turn.retry", "limit.waits", "gateway.away", HINT_KIND)
"""Kinds of notices that are told during the wait: retries, a limit that is used up, a gateway that is gone and that the
session waits for, and how to answer a request."""
LIMIT_ADVICE = "still waiting for the answer; Ctrl-C is safe: the message is kept, and answered all the same"


@dataclass(frozen=True)
class Answer:
    """The agent's entries and the notices that answer a message, in order.

    `failure`: why the turn failed, or that it ended without a word; None if it did neither.
    """

    entries: list[Entry]
    failure: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts of the answer, without notices: one for each message of the agent."""
        answers = [entry for entry in self.entries if entry.role == "agent" or entry.kind == "command"]
        return [entry.text for entry in answers if not entry.superseded]

    @property
    def text(self) -> str:
        """The texts of the answer, joined by blank lines."""
        return "\n\n".join(self.texts)

    @property
    def notices(self) -> list[str]:
        """Semel's notices about the turn, except those of its failure and those that are told during the wait."""
        notices = [entry for entry in self.entries if entry.role == "notice"]
        return [entry.text for entry in notices if entry.kind not in ("command", *FAILURE_KINDS, *NEWS_KINDS)]

    @property
    def hints(self) -> list[str]:
        """The notices that say how to answer a request that was open when the message came."""
        return [entry.text for entry in self.entries if entry.kind == HINT_KIND]


@dataclass
class TurnRows:
    """The rows of a view that may answer a message. `by_gateway`: it was a command, answered by a notice."""

    entries: list[Json] = field(default_factory=list)
    by_gateway: bool = False


async def wait_for_answer(
    client: Connection, session: str, event: int, on_news: Callable[[str], None], *, stops_at_limit: bool = False,
    follows_turn: bool = False,
) -> Answer:  # fmt: skip
    """Wait until the turn that took this event has ended. Returns what was said by the turns that took the event.

    `on_news` is called with what a person should know meanwhile: retries, questions and permission requests, that the
    gateway does not answer, and that the agent has been silent for long. `stops_at_limit`: if the event waits because a
    limit is used up, which can take until the next day, return at once; the answer's `failure` says so. `follows_turn`:
    if the event is an /approve or /deny that answered a request, wait for the end of the turn that asked, and return
    what it then says. Raises NoGateway after RECONNECT_TIMEOUT_S without a gateway, or after STREAM_TIMEOUT_S if one
    takes connections and does not answer, and ValueError if the session has no such event.
    """
    view = SessionView()
    contact = GatewayContact(on_news)
    silence = asyncio.create_task(_report_silence(view, contact, on_news))
    try:
        return await _follow_until_answered(
            client, session, event, view, contact, on_news, stops_at_limit, follows_turn
        )
    finally:
        silence.cancel()
        contact.stop_reporting()


async def read_replies(client: Connection, session: str, event: int) -> list[Entry]:
    """Return what Semel itself says to a message at once, without waiting for a turn.

    That is the answer to a command, or to a text that was taken for a misspelt one, and else the hint how to answer a
    request that is open; [] if the gateway stops first. Raises NoGateway, and ValueError if the session has no such
    event.
    """
    view = SessionView()
    async with aclosing(client.stream(session)) as frames:
        async for frame in frames:
            view.apply(frame)
            if frame["type"] == "snapshot":
                await _add_history_since(client, session, event, view, frame)
            heard = next(entry for entry in view.entries.values() if entry.get("event") == event)
            replies = [row for row in view.ordered() if row.get("of") == heard["seq"] and row.get("role") == "notice"]
            if replies or heard.get("kind") != "command":
                return msgspec.convert(replies, list[Entry])
    return []


class GatewayContact:
    """Reports that the gateway has not answered for AWAY_S, and that it answers again."""

    def __init__(self, on_news: Callable[[str], None]):
        self.is_away = False
        self._on_news = on_news
        self._report: asyncio.TimerHandle | None = None

    def note_break(self) -> None:
        """Note that the connection has ended, or could not be made."""
        if self._report is None:
            self._report = asyncio.get_running_loop().call_later(AWAY_S, self._report_away)

    def note_frame(self) -> None:
        """Note that a frame came, as it does at the beginning of every connection."""
        self.stop_reporting()
        if self.is_away:
            self.is_away = False
            self._on_news("the gateway answers again")

    def stop_reporting(self) -> None:
        if self._report is not None:
            self._report.cancel()
            self._report = None

    def _report_away(self) -> None:
        self.is_away = True
        self._on_news("the gateway is away; trying again")


async def _report_silence(view: SessionView, contact: GatewayContact, on_news: Callable[[str], None]) -> None:
    """Report after SILENCE_S, and then each time when twice as long has passed, that nothing new is shown.

    A turn that waits for a person, or for its retry, was reported already. Without a gateway, nothing is known of it.
    """
    loop = asyncio.get_running_loop()
    rev, since, due = view.rev, loop.time(), SILENCE_S
    while True:
        await asyncio.sleep(min(SILENCE_S, CHECK_INTERVAL_S))
        seconds = loop.time() - since
        is_known = view.open_questions() or "retry_at" in view.session or contact.is_away
        if view.rev != rev or not view.is_busy or is_known:
            rev, since, due = view.rev, loop.time(), SILENCE_S
        elif seconds >= due:
            runs = view.session.get("state") == "running"
            standing = "the turn still runs (see `semel status`)" if runs else "the message waits for the next turn"
            on_news(f"no answer yet: {describe_silence(seconds)} from the agent; {standing}")
            due *= 2


async def _follow_until_answered(
    client: Connection, session: str, event: int, view: SessionView, contact: GatewayContact,
    on_news: Callable[[str], None], stops_at_limit: bool, follows_turn: bool,
) -> Answer:  # fmt: skip
    reported = set[int]()
    has_met_limit = False
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RECONNECT_TIMEOUT_S
    while True:
        try:
            async with aclosing(client.stream(session, view.rev)) as frames:
                async for frame in frames:
                    deadline = loop.time() + RECONNECT_TIMEOUT_S
                    contact.note_frame()
                    view.apply(frame)
                    if frame["type"] == "snapshot":
                        await _add_history_since(client, session, event, view, frame)
                    if not _is_answered_at_once(view, event) or (follows_turn and _has_answered_request(view, event)):
                        _report_questions(view, session, reported, on_news)
                    if not has_met_limit and _waits_for_turn(view, event):
                        limits = await _list_limits(client, session, event)
                        has_met_limit = bool(limits)
                        if limits and stops_at_limit:
                            return Answer([], f"{_describe_limit(limits[0])}; it is kept, and answered after that")
                        _report_limits(limits, on_news)
                    _report_news(view, event, reported, on_news)
                    _report_agent_notices(view, event, reported, on_news)
                    if (rows := find_answer(view, event, follows_turn=follows_turn)) is not None:
                        if rows.by_gateway:
                            return _make_answer(rows.entries)
                        turns = (await client.get(f"/v1/why/e{event}"))["turns"]
                        return _make_answer(_keep_own_entries(rows.entries, turns))
            deadline = loop.time() + RECONNECT_TIMEOUT_S  # it answered until now, even if it had nothing to tell
        except NoGateway:
            if loop.time() > deadline:
                raise
        contact.note_break()
        await asyncio.sleep(0.3)


async def _add_history_since(client: Connection, session: str, event: int, view: SessionView, snapshot: Json) -> None:
    """Add the older rows up to the event's entry to the view, if the snapshot begins after it.

    Raises ValueError if the session has no entry of the event: its answer would never come.
    """
    before = snapshot["before"]
    while not _has_event(view, event):
        if not view.has_older:
            raise ValueError(f"event {event} is not in session {session}; give the event that say returned for it")
        page = await client.get(f"{session_path(session)}/history", after=before, limit=HISTORY_PAGE_SIZE)
        view.prepend(page)
        before = page["before"]


def _has_event(view: SessionView, event: int) -> bool:
    return any(entry.get("event") == event for entry in view.entries.values())


def _is_answered_at_once(view: SessionView, event: int) -> bool:
    """Whether the gateway answers the event, whatever the agent asks meanwhile: a command that lets no turn run."""
    entries = [entry for entry in view.entries.values() if entry.get("event") == event]
    return any(entry.get("kind") == "command" and not _is_retry(entry) for entry in entries)


def _make_answer(rows: list[Json]) -> Answer:
    failure = next((str(row["text"]) for row in rows if row.get("kind") in FAILURE_KINDS), None)
    return Answer(msgspec.convert(rows, list[Entry]), failure)


def find_answer(view: SessionView, event: int, *, follows_turn: bool = False) -> TurnRows | None:
    """Return the agent's entries and the notices after the event's entry; for a command, the gateway's answer to it.

    Returns `None` while there is no answer: the event's turn has not ended and the session is busy, or the event is not
    in the view yet. The answer to /retry includes that of the turn which it lets run again. `follows_turn`: as for
    `wait_for_answer`.
    """
    rows = view.ordered()
    start = next((index for index, row in enumerate(rows) if row.get("event") == event and "seq" in row), None)
    if start is None:
        return None
    if rows[start].get("kind") == "command" and rows[start]["role"] == "user":  # the gateway answers by notice
        seq = rows[start]["seq"]
        answers = [row for row in rows[start + 1 :] if row.get("kind") == "command" and row.get("of") == seq]
        if answers and str(answers[0]["text"]).endswith(RUNS_AGAIN):
            said = [row for row in _list_said(rows, start) if row.get("kind") != "command"]
            return None if view.is_busy else TurnRows([answers[0], *said], by_gateway=True)
        if answers and follows_turn and _has_answered_request(view, event):
            said = [row for row in _list_said(rows, start) if row.get("kind") != "command"]
            is_over = view.session.get("state") != "running"
            return TurnRows([answers[0], *said], by_gateway=True) if is_over else None
        return TurnRows(answers, by_gateway=True) if answers else None
    if view.is_busy and "ended" not in rows[start]:  # reports that ask for no turn may wait long after its end
        return None
    return TurnRows(_list_said(rows, start))


def _has_answered_request(view: SessionView, event: int) -> bool:
    """Whether the event is a command that answered a permission request."""
    return any(item.get("kind") == "permission" and item.get("event") == event for item in view.items.values())


def _list_said(rows: list[Json], start: int) -> list[Json]:
    """Return the agent's entries and the notices behind the row at `start`."""
    return [row for row in rows[start + 1 :] if "seq" in row and row["role"] in ("agent", "notice")]


def _is_retry(entry: Json) -> bool:
    command = read_command(entry["text"])
    return isinstance(command, CommandCall) and command.name == "retry"


def _keep_own_entries(entries: list[Json], turns: Collection[int]) -> list[Json]:
    """Keep only what answers the message: the entries of `turns`, the turns that took it.

    An entry without a turn, such as a notice, is kept if it comes before the first entry of another turn and is not
    the answer to a command.
    """
    own_entries: list[Json] = []
    other_turn_seen = False
    for row in entries:
        turn = row.get("turn")
        other_turn_seen = other_turn_seen or not (turn is None or turn in turns)
        if turn in turns or (turn is None and not other_turn_seen and row.get("kind") != "command"):
            own_entries.append(row)
    return own_entries


def _report_news(view: SessionView, event: int, reported: set[int], on_news: Callable[[str], None]) -> None:
    """Report what happens of `NEWS_KINDS`, once each; of the hints, the one that this message got."""
    message_seq = next((entry["seq"] for entry in view.entries.values() if entry.get("event") == event), None)
    for seq, entry in view.entries.items():
        is_news = entry.get("kind") in NEWS_KINDS and (entry["kind"] != HINT_KIND or entry.get("of") == message_seq)
        if message_seq is not None and seq > message_seq and is_news and -seq not in reported:
            reported.add(-seq)  # negative, to differ from the ids of questions
            on_news(entry["text"])
            if entry["kind"] == "limit.waits":
                on_news(LIMIT_ADVICE)


def _waits_for_turn(view: SessionView, event: int) -> bool:
    """Whether the event waits although no turn runs: because a limit is used up, or until its turn begins."""
    return _has_event(view, event) and view.session.get("state") == "waiting"


async def _list_limits(client: Connection, session: str, event: int) -> list[Json]:
    """Return the used-up limits for which the event waits in the session."""
    story = await client.get(f"/v1/why/e{event}")
    return [limit for limit in story.get("limits", ()) if limit["session"] == session]


def _report_limits(limits: Collection[Json], on_news: Callable[[str], None]) -> None:
    """Report each of these limits, unless the session has a notice of it after the event.

    Messages that come after a session's notice get no further one. `_report_news` reports notices after the event.
    """
    for limit in limits:
        if not limit["noticed"]:
            on_news(_describe_limit(limit))
            on_news(LIMIT_ADVICE)


def _describe_limit(limit: Json) -> str:
    whose = " ".join(filter(None, (limit["scope"], limit["subject"])))
    until = format_zoned(limit["until"], limit.get("tz"))
    return f"The message waits until {until}: the limit of {limit['measure']} is used up ({whose})"


def _report_agent_notices(view: SessionView, event: int, reported: set[int], on_news: Callable[[str], None]) -> None:
    """Report what the agent says about its own state, such as that it reconnects to its model."""
    born = next((int(entry["born"]) for entry in view.entries.values() if entry.get("event") == event), None)
    for item in list(view.items.values()):
        is_new = born is not None and int(item["born"]) > born and item["id"] not in reported
        if item.get("kind") == "notice" and is_new and item.get("text"):
            reported.add(item["id"])
            on_news(f"the agent says: {item['text']}")


def _report_questions(view: SessionView, session: str, reported: set[int], on_news: Callable[[str], None]) -> None:
    for question in view.open_questions():
        if question["id"] not in reported:
            reported.add(question["id"])
            text = question.get("title") or question["text"].partition("\n")[0]  # the answer has all of it
            on_news(f"the agent asks: {text} (answer it with: {describe_answers(question, session)})")


def describe_answers(question: Json, session: str) -> str:
    """Name the commands that answer an open question or permission request of the session with this key.

    They give the request's number, because a program whose output is a pipe has not been shown the request: an answer
    without a number does not count there (Law 13).
    """
    key = shlex.quote(session)
    if question["kind"] != "permission":
        return f'semel say {key} "your answer", or semel chat {key}'
    allowing = find_allowing_number(question["first"], question.get("options", ())) if "first" in question else None
    if allowing is None:
        return f"semel chat {key}"
    return f'semel say {key} "/approve {allowing}" or "/deny {question["first"]}", or semel chat {key}'
