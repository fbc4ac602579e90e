"""Wait for the answer to one message, for `semel say --wait` and for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from semel.faces.client import Client, NoGateway
from semel.faces.view import SessionView
from semel.text.json_types import Json

RECONNECT_TIMEOUT_S = 30.0


@dataclass
class TurnAnswer:
    """The agent's entries and the notices that answer a message, in order. `failure`: why the turn failed."""

    entries: list[Json] = field(default_factory=list)
    failure: str | None = None
    by_gateway: bool = False  # the message was a command, answered by a notice

    @property
    def texts(self) -> list[str]:
        answers = [entry for entry in self.entries if entry["role"] == "agent" or entry.get("kind") == "command"]
        return [entry["text"] for entry in answers if not entry.get("superseded")]


async def wait_for_answer(client: Client, session: str, event: int, on_news: Callable[[str], None]) -> TurnAnswer:
    """Wait until the session is idle after this event. Returns what was said by the turns that took the event.

    `on_news` is called with what a person should know meanwhile: retries, questions and permission requests.
    Raises NoGateway after RECONNECT_TIMEOUT_S without a gateway.
    """
    view, reported = SessionView(), set[int]()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RECONNECT_TIMEOUT_S
    while True:
        try:
            async for frame in client.stream(session, view.rev):
                deadline = loop.time() + RECONNECT_TIMEOUT_S
                view.apply(frame)
                _report_questions(view, session, reported, on_news)
                _report_retries(view, event, reported, on_news)
                if (answer := find_answer(view, event)) is not None:
                    if answer.by_gateway:
                        return answer
                    return _keep_own_entries(answer, (await client.get(f"/v1/why/e{event}"))["turns"])
        except NoGateway:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(0.3)


def find_answer(view: SessionView, event: int) -> TurnAnswer | None:
    """Return the agent's entries and the notices after the event's entry; for a command, the gateway's answer to it.

    Returns `None` while there is no answer: the session is busy, or the event is not in the view yet.
    """
    rows = view.ordered()
    start = next((index for index, row in enumerate(rows) if row.get("event") == event and "seq" in row), None)
    if start is None:
        return None
    if rows[start].get("kind") == "command" and rows[start]["role"] == "user":  # the gateway answers by notice
        seq = rows[start]["seq"]
        answers = [row for row in rows[start + 1 :] if row.get("kind") == "command" and row.get("of") == seq]
        return TurnAnswer(answers, by_gateway=True) if answers else None
    if view.is_busy:
        return None
    later_entries = [row for row in rows[start + 1 :] if "seq" in row and row["role"] in ("agent", "notice")]
    return TurnAnswer(later_entries, _find_failure(later_entries))


def _keep_own_entries(answer: TurnAnswer, turns: Collection[int]) -> TurnAnswer:
    """Keep only what answers the message: the entries of `turns`, the turns that took it.

    An entry without a turn, such as a notice, is kept if it comes before the first entry of another turn and is not
    the answer to a command.
    """
    own_entries: list[Json] = []
    other_turn_seen = False
    for row in answer.entries:
        turn = row.get("turn")
        other_turn_seen = other_turn_seen or not (turn is None or turn in turns)
        if turn in turns or (turn is None and not other_turn_seen and row.get("kind") != "command"):
            own_entries.append(row)
    return TurnAnswer(own_entries, _find_failure(own_entries))


def _find_failure(rows: Iterable[Json]) -> str | None:
    return next((str(row["text"]) for row in rows if row.get("kind") == "turn.failed"), None)


def _report_retries(view: SessionView, event: int, reported: set[int], on_news: Callable[[str], None]) -> None:
    """Report each retry of a turn when it happens, because it prolongs the wait."""
    message_seq = next((entry["seq"] for entry in view.entries.values() if entry.get("event") == event), None)
    for seq, entry in view.entries.items():
        if (
            message_seq is not None
            and seq > message_seq
            and entry.get("kind") in ("retry", "turn.retry")
            and -seq not in reported
        ):
            reported.add(-seq)  # negative, to differ from the ids of questions
            on_news(entry["text"])


def _report_questions(view: SessionView, session: str, reported: set[int], on_news: Callable[[str], None]) -> None:
    for question in view.open_questions():
        if question["id"] not in reported:
            reported.add(question["id"])
            text = question.get("title") or question["text"]
            on_news(f"the agent asks: {text} (answer it with: semel chat {session})")
