"""Wait for the answer to one message, for `semel say --wait` and for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from semel.faces.client import Client, NoGateway
from semel.faces.view import View

Json = dict[str, Any]


@dataclass
class TurnAnswer:
    """The agent's entries and the notices that answer a message, in order. `failed`: why the turn failed, or `None`."""

    entries: list[Json] = field(default_factory=list)
    failed: str | None = None
    by_gateway: bool = False  # the message was a command, answered by a notice

    @property
    def texts(self) -> list[str]:
        said = [e for e in self.entries if e["role"] == "agent" or e.get("kind") == "command"]
        return [e["text"] for e in said if not e.get("superseded")]


async def wait_for_answer(
    client: Client, session: str, event: int, tell: Callable[[str], None], patience: float = 30.0
) -> TurnAnswer:
    """Wait until the session is idle after this event. Raises NoGateway after `patience` seconds without a gateway.

    The answer holds what the turns of this event said, not what other messages were answered.

    `tell` is called with what a person should know meanwhile: retries, and questions or permission requests.
    """
    view, told = View(), set[int]()
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while True:
        try:
            async for frame in client.stream(session, view.rev):
                until = loop.time() + patience
                view.apply(frame)
                _ask_aloud(view, session, told, tell)
                _tell_retries(view, event, told, tell)
                if (answer := _answer(view, event)) is not None:
                    if answer.by_gateway:
                        return answer
                    return _own(answer, (await client.why(f"e{event}"))["turns"])
        except NoGateway:
            if loop.time() > until:
                raise
        await asyncio.sleep(0.3)


def _answer(view: View, event: int) -> TurnAnswer | None:
    """The entries after the event's own, or `None` while a turn runs or waits or the entry is not in the view."""
    rows = view.ordered()
    start = next((n for n, row in enumerate(rows) if row.get("event") == event and "seq" in row), None)
    if start is None:
        return None
    if rows[start].get("kind") == "command" and rows[start]["role"] == "user":  # the gateway answers by notice
        seq = rows[start]["seq"]
        answers = [row for row in rows[start + 1 :] if row.get("kind") == "command" and row.get("of") == seq]
        return TurnAnswer(answers, by_gateway=True) if answers else None
    if view.busy:
        return None
    after = [row for row in rows[start + 1 :] if "seq" in row and row["role"] in ("agent", "notice")]
    return TurnAnswer(after, _failure(after))


def _own(answer: TurnAnswer, turns: Collection[int]) -> TurnAnswer:
    """Keep the entries of these turns, and notices without a turn up to the first entry of another turn."""
    own: list[Json] = []
    others = False
    for row in answer.entries:
        turn = row.get("turn")
        others = others or not (turn is None or turn in turns)
        if turn in turns or (turn is None and not others and row.get("kind") != "command"):
            own.append(row)
    return TurnAnswer(own, _failure(own))


def _failure(rows: Iterable[Json]) -> str | None:
    return next((str(row["text"]) for row in rows if row.get("kind") == "turn.failed"), None)


def _tell_retries(view: View, event: int, told: set[int], tell: Callable[[str], None]) -> None:
    """Report each retry of a turn when it happens, because it prolongs the wait."""
    heard = next((entry["seq"] for entry in view.entries.values() if entry.get("event") == event), None)
    for seq, entry in view.entries.items():
        if heard is not None and seq > heard and entry.get("kind") in ("retry", "turn.retry") and -seq not in told:
            told.add(-seq)  # negative, to differ from the ids of questions
            tell(entry["text"])


def _ask_aloud(view: View, session: str, told: set[int], tell: Callable[[str], None]) -> None:
    for question in view.questions():
        if question["id"] not in told:
            told.add(question["id"])
            asked = question.get("title") or question["text"]
            tell(f"the agent asks: {asked} (answer it with: semel chat {session})")
