"""The terminal's messages on their way: each is shown once, and stands for one entry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from semel.faces.api_types import Accepted
from semel.faces.client import NoGateway, RequestRefused
from semel.faces.terminal import outgoing
from semel.faces.terminal.kept_files import Bookmark, KeptFiles, list_unsent
from semel.faces.terminal.outgoing import OutgoingMessage, OutgoingQueue


class Gateway:
    """Answers, or fails, as each message's outcome says: an event, or an error."""

    def __init__(self, *outcomes: int | Exception):
        self.outcomes = list(outcomes)
        self.ids: list[str] = []
        self.answers: list[Accepted | None] = []
        self.kept: list[str] = []
        self.queue = OutgoingQueue(
            self.post,
            keep=lambda message: self.kept.append(message.id),
            drop=lambda message: self.kept.remove(message.id),
            on_change=lambda: None,
            on_answer=self.take_answer,
        )
        self.is_done = asyncio.Event()

    def take_answer(self, message: OutgoingMessage, accepted: Accepted | None) -> None:
        self.answers.append(accepted)
        if not self.outcomes:
            self.is_done.set()

    async def post(self, message: OutgoingMessage) -> Accepted:
        self.ids.append(message.id)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Accepted(event=outcome, status="accepted")

    async def answer_all(self) -> None:
        sending = asyncio.create_task(self.queue.run())
        async with asyncio.timeout(10):
            await self.is_done.wait()
        sending.cancel()


def message(text: str, seen: int = 5) -> OutgoingMessage:
    return OutgoingMessage(text=text, sender="ann", seen=seen)


def entry(event: int, text: str, born: int = 9) -> dict[str, Any]:
    return {"role": "user", "event": event, "text": text, "born": born}


async def test_every_attempt_has_the_same_id_and_later_messages_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "RETRY_DELAYS_S", (0.001,))
    gateway = Gateway(NoGateway(Path("/gone")), RequestRefused(503, "", "busy"), 1, 2)
    first, second = message("one"), message("two")
    gateway.queue.add(first, second)
    await gateway.answer_all()
    assert gateway.ids == [first.id, first.id, first.id, second.id]
    assert [accepted and accepted.event for accepted in gateway.answers] == [1, 2] and not gateway.kept


async def test_an_entry_that_comes_before_the_answer_stands_for_one_of_two_equal_messages() -> None:
    gateway = Gateway(1, 2)
    gateway.queue.add(message("ha"), message("ha"))
    gateway.queue.match([entry(8, "ha", born=4)])  # older than both
    assert len(gateway.queue.shown) == 2
    gateway.queue.match([entry(1, "ha")])
    gateway.queue.match([entry(1, "ha")])  # it has changed
    assert len(gateway.queue.shown) == 1
    await gateway.answer_all()
    gateway.queue.match([entry(1, "ha"), entry(2, "ha")])
    assert gateway.queue.messages == []


async def test_a_refused_message_is_kept_until_it_is_taken_back() -> None:
    gateway = Gateway(RequestRefused(400, "", "too long"))
    refused = message("one")
    gateway.queue.add(refused)
    await gateway.answer_all()
    assert refused.state_text == "not sent: too long" and gateway.kept == [refused.id]
    gateway.queue.match([entry(3, "one")])
    assert gateway.queue.shown == [refused]
    gateway.queue.remove(refused)
    assert not gateway.kept and not gateway.queue.messages


def test_kept_messages_come_back_in_order_and_foreign_files_do_no_harm(tmp_path: Path) -> None:
    files, other = KeptFiles(tmp_path, ".."), KeptFiles(tmp_path, "other")
    sent = [message("one"), message("zwei \u2028"), message("three")]
    for each in sent:
        files.keep_message(each)
    assert list_unsent(tmp_path) == [".."]
    (files.directory / "1.message").write_text("{")
    assert [(each.id, each.text, each.state) for each in files.load_messages()] == [
        (each.id, each.text, "waiting") for each in sent
    ]
    assert files.directory.stat().st_mode & 0o077 == 0
    files.drop_message(sent[0])
    assert [each.text for each in files.load_messages()] == ["zwei \u2028", "three"]
    assert other.load_messages() == []
    other.keep_bookmark(Bookmark("a draft", "entry-7", 3))
    assert other.load_bookmark() == Bookmark("a draft", "entry-7", 3) and list_unsent(tmp_path) == [".."]
    other.keep_bookmark(Bookmark())
    assert not other.directory.exists() and other.load_bookmark() == Bookmark()
    files.directory.rename(files.directory.with_name("moved"))
    files.directory.symlink_to(tmp_path)
    files.keep_message(sent[0])  # a link that somebody may have put there is not followed
    assert not list(tmp_path.glob("*.message"))
