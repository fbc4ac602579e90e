"""A chat is told what may not have arrived there, and what to do: once, and by a message of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_world import script, until
from people_world import ADA, BOB, Chat

from semel.gateway.errors import Conflict
from semel.gateway.outbound import held_chats
from semel.gateway.outbound.held_chats import HeldChats
from semel.gateway.ports import Person, Rejected
from semel.testing import channels
from semel.testing.channels import Fault

TOLD = "may not have arrived here"
PERMISSION = {"permission": "rm -r build", "input": {}, "allowed": ["tidy"], "denied": ["left it"]}
QUESTION = {"call": "ask", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}


async def hold_an_answer(w: Chat, number: int) -> None:
    """Ask something. The platform does not take the answer, and does not say so."""
    w.chat.platform.fail_next(Fault.LOSE)
    await w.tell(f"question {number}")

    async def is_held() -> bool:
        return len(await w.gateway.parts("held")) == number

    await until(is_held)


async def get_an_answer(w: Chat, words: str) -> None:
    await w.tell(words)
    await w.until_shown(words)
    await w.idle("demo:chat:dm")
    await w.gateway.outbox.wait_until_idle()


def count_told(w: Chat) -> int:
    return sum(TOLD in text for text in w.shown())


async def test_the_chat_is_told_once_when_something_arrives_again_and_anew_after_a_decision(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await hold_an_answer(w, 1)
        await w.gateway.outbox.wait_until_idle()
        assert count_told(w) == 0, "not while nothing arrives"
        await get_an_answer(w, "hello again")
        told = await w.until_shown(TOLD)
        assert told.startswith("An answer of ") and "UTC" in told
        assert told.endswith("decide about sending it again with `semel outbox`, or on the page.")
        assert "question 1" not in told, "it sends no answer a second time"
        await hold_an_answer(w, 2)
        await get_an_answer(w, "and again")
        await get_an_answer(w, "once more")
        assert count_told(w) == 1, "one until it is settled"
        for part in await w.gateway.parts("held"):
            await w.gateway.decide_part(part["id"], "arrived")
        await hold_an_answer(w, 1)
        await get_an_answer(w, "the last")
        await until(lambda: _is_told(w, 2))
        notices = [entry for entry in await w.entries("demo:chat:dm") if entry.get("kind") == "delivery.unsure"]
        assert len(notices) == 2


async def _is_told(w: Chat, times: int) -> bool:
    return count_told(w) == times


async def test_a_chat_where_nothing_else_arrives_is_told_after_a_while_also_by_the_next_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chat(tmp_path) as w:
        await hold_an_answer(w, 1)
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        await w.until_shown(TOLD)
    async with Chat(tmp_path) as w:
        await get_an_answer(w, "hello again")
        assert count_told(w) == 0


async def test_a_notice_that_is_held_itself_is_followed_by_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.LOSE, Fault.LOSE)
        await w.tell("question")

        async def are_held() -> bool:
            return len(await w.gateway.parts("held")) == 2

        await until(are_held)
        await get_an_answer(w, "hello again")
        assert count_told(w) == 0
        notices = [entry for entry in await w.entries("demo:chat:dm") if entry.get("kind") == "delivery.unsure"]
        assert len(notices) == 1


@pytest.mark.parametrize("is_killed", [False, True], ids=["same gateway", "next gateway"])
async def test_a_notice_that_waits_does_not_leave_once_a_person_has_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.LOSE, Fault.LIMIT)
        await w.tell("question")

        async def waits() -> bool:
            return any(part["attempts"] == 1 for part in await w.gateway.parts("queued"))

        await until(waits)
        [held] = await w.gateway.parts("held")
        await w.gateway.decide_part(held["id"], "arrived")
        if not is_killed:
            await get_an_answer(w, "hello again")
            assert count_told(w) == 0
    async with Chat(tmp_path) as w:
        await get_an_answer(w, "once more")
        assert count_told(w) == 0
        [notice] = [entry for entry in await w.entries("demo:chat:dm") if entry.get("kind") == "delivery.unsure"]
        assert [part["state"] for part in await w.gateway.parts("dropped")] == ["dropped"], notice


async def hold(w: Chat, step: dict[str, object], who: Person, room: str) -> None:
    """Have the agent ask something. The platform does not take the question, and does not say so."""
    w.chat.platform.fail_next(Fault.LOSE)
    await w.tell(script(step), who, room)

    async def is_held() -> bool:
        return len(await w.gateway.parts("held")) == 1

    await until(is_held)


async def test_an_owner_learns_where_a_permission_request_that_may_be_missing_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        await hold(w, PERMISSION, ADA, "dm")
        told = await w.until_shown(TOLD)
        assert told.startswith("The agent waits for a permission, but its request of ") and "rm -r" not in told
        assert "Answer it on the page, or in the terminal with `semel chat demo:chat:dm`" in told
        assert "`semel outbox`" in told
        await w.tell("/status")
        status = await w.until_shown("Session demo:chat:dm")
        assert "asks for a permission: rm -r build" in status
        assert status.endswith(
            "Delivery here: 1 permission request may not have arrived. The owner can read it on the page"
        )
        await w.tell("/approve 1")
        await w.until_shown(
            "Nothing was allowed or denied. The open request (rm -r build) may not have reached this chat. "
        )
        await w.tell("/approve 99")
        await until(lambda: _is_shown_twice(w, "Nothing was allowed or denied. The open request (rm -r build) may not"))
        [part] = await w.gateway.parts("held")
        await w.gateway.decide_part(part["id"], "resend")
        await w.until_shown("The agent asks for permission: rm -r build")
        await w.tell("/approve 1")
        await w.until_shown("tidy")
        await w.idle("demo:chat:dm")
        assert count_told(w) == 1


async def test_a_message_beside_a_request_that_may_be_missing_is_not_told_to_allow_it_there(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await hold(w, PERMISSION, ADA, "dm")
        await w.tell("yes")
        hint = await w.until_shown("The open request (rm -r build) may not have reached this chat. ")
        [part] = await w.gateway.parts("held")
        assert hint.endswith(
            "The owner answers it on the page or in the terminal, or decides about the message: "
            f"`semel outbox arrived p{part['id']}` if it is here, so that it can be answered here; "
            f"`semel outbox resend p{part['id']}` if it is not."
        )
        assert "/approve" not in hint
        await w.gateway.decide_part(part["id"], "arrived")
        await w.tell("/approve 1")
        await w.until_shown("tidy")


async def test_a_request_that_the_platform_refused_is_told_once_with_the_reason(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.REJECT)
        await w.tell(script(PERMISSION))
        await until(lambda: _is_rejected(w))
        await w.tell("yes")
        hint = await w.until_shown("The open request (rm -r build) could not be shown in this chat: ")
        assert hint.startswith("Your message goes to the agent; ") and "/approve" not in hint
        told = await w.until_shown("The agent waits for a permission")
        [part] = await w.gateway.parts("rejected")
        assert f"could not be shown here: {part['error']}" in told and "rm -r" not in told
        assert told.endswith(f"to answer it here, first send it again with `semel outbox resend p{part['id']}`.")
        await w.tell("/approve 1")
        answer = await w.until_shown("Nothing was allowed or denied. The open request (rm -r build) could not be shown")
        assert answer.endswith(f"or sends it again: `semel outbox resend p{part['id']}`.")
        await w.gateway.decide_part(part["id"], "resend")
        await w.until_shown("The agent asks for permission: rm -r build")
        await w.tell("/approve 1")
        await w.until_shown("tidy")
        await w.idle("demo:chat:dm")
        assert sum("The agent waits for a permission" in text for text in w.shown()) == 1


async def _is_shown_twice(w: Chat, words: str) -> bool:
    return sum(words in text for text in w.shown()) == 2


async def _is_rejected(w: Chat) -> bool:
    return len(await w.gateway.parts("rejected")) == 1


REFUSED = "could not be delivered here"


async def have_answers_refused(w: Chat, number: int) -> None:
    """Ask something `number` times. The platform refuses each answer."""
    for _ in range(number):
        before = len(await w.gateway.parts("rejected"))
        w.chat.platform.fail_next(Fault.REJECT)
        await w.tell("question")

        async def is_refused(count: int = before + 1) -> bool:
            return len(await w.gateway.parts("rejected")) == count

        await until(is_refused)
        await w.idle("demo:chat:dm")


async def test_answers_that_the_platform_refused_are_told_once_together_also_by_the_next_gateway(
    tmp_path: Path,
) -> None:
    async with Chat(tmp_path) as w:
        await have_answers_refused(w, 1)
        await w.sent()
        assert w.shown() == [], "not while nothing arrives"
        await get_an_answer(w, "hello again")
        told = await w.until_shown(REFUSED)
        [part] = await w.gateway.parts("rejected")
        assert told.startswith("An answer of ") and "question" not in told
        assert told.endswith(f" UTC {REFUSED}: {part['error']}. /history shows it whole.")
        await get_an_answer(w, "and again")
        await have_answers_refused(w, 2)
    async with Chat(tmp_path) as w:
        await get_an_answer(w, "hello, too")
        assert (await w.until_shown(REFUSED)).startswith("2 answers since ")
        await get_an_answer(w, "the last")
        assert sum(REFUSED in text for text in w.shown()) == 1


async def test_a_part_of_an_answer_that_was_refused_is_told_as_such_and_of_several_reasons_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = " ".join(f"word{n}" for n in range(60))
    async with Chat(tmp_path, facts={"max_len": 300}) as w:
        w.chat.platform.fail_next(None, Fault.REJECT)
        await w.tell(long)
        await until(lambda: _has_rejected(w, 1))
        await get_an_answer(w, "hello again")
        assert (await w.until_shown(REFUSED)).startswith("A part of an answer of ")
        w.chat.platform.fail_next(None, Fault.REJECT)
        await w.tell(long)
        await until(lambda: _has_rejected(w, 2))
        monkeypatch.setattr(channels, "Rejected", lambda reason: Rejected("400 Bad Request"))
        await have_answers_refused(w, 1)
        await w.tell("/status")
        told = await w.until_shown("2 answers since ")
        assert f", or parts of them, {REFUSED}: the last time: 400 Bad Request. " in told


async def test_a_chat_that_refuses_everything_gets_one_notice_until_something_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_always(Fault.REJECT)
        await w.tell("question")

        async def are_refused() -> bool:
            return len(await w.gateway.parts("rejected")) == 2

        await until(are_refused)
        await w.sent()
        await w.tell("question")
        await until(lambda: _has_rejected(w, 3))
        await w.sent()
    async with Chat(tmp_path) as w:
        await w.sent()
        assert len(await w.gateway.parts("rejected")) == 3, "nor does the next gateway try it again"
        await get_an_answer(w, "hello again")
        assert (await w.until_shown(REFUSED)).startswith("2 answers since ")
        await get_an_answer(w, "the last")
        assert sum(REFUSED in text for text in w.shown()) == 1


async def _has_rejected(w: Chat, number: int) -> bool:
    return len(await w.gateway.parts("rejected")) == number


async def test_the_next_gateway_tells_of_no_refused_request_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.REJECT)
        await w.tell(script(PERMISSION))
        await until(lambda: _is_rejected(w))
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        await w.until_shown("The agent asks for permission: rm -r build")  # its turn is run again, and asks anew
        await w.tell("/approve 4")
        await w.until_shown("tidy")
        assert not any("The agent waits for a permission" in text for text in w.shown())


async def test_a_member_learns_that_the_owner_answers_what_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        await hold(w, PERMISSION, BOB, "bobs")
        told = await w.until_shown(TOLD, "bobs")
        assert told.endswith("/status shows what it asks for; the owner answers it on the page or in the terminal.")


async def test_a_request_that_is_over_before_its_chat_can_be_told_needs_no_notice(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await hold(w, PERMISSION, ADA, "dm")
        before = await read_rev(w, "demo:chat:dm")
        await w.tell("/stop")
        await w.until_shown("Withdrawn: rm -r build")
        await get_an_answer(w, "hello again")
        assert count_told(w) == 0
        await cannot_be_resent(w, "this permission request is over", before)
        assert not any("The agent asks for permission" in text for text in w.shown())


async def test_status_names_each_kind_of_what_is_missing(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await hold_an_answer(w, 1)
        w.chat.platform.fail_next(Fault.REJECT, Fault.LOSE)
        await w.tell(script("before", PERMISSION))

        async def are_held() -> bool:
            return len(await w.gateway.parts("held")) == 2

        await until(are_held)
        await w.tell("/status")
        assert (await w.until_shown("Session demo:chat:dm")).endswith(
            "Delivery here: 1 message of the last day did not arrive, 1 message and 1 permission request may not have "
            "arrived. /history shows the messages whole, the page all"
        )


async def read_rev(w: Chat, session: str) -> int:
    rev: int = (await anext(w.gateway.watch(session)))["rev"]
    return rev


async def cannot_be_resent(w: Chat, words: str, since: int = 0) -> None:
    """Check that what is held is not sent again, which watchers learned after the rev `since`, and give it up."""
    [part] = await w.gateway.parts("held")
    assert part["over"]
    assert [need["part"]["over"] for need in await w.gateway.needs() if need["why"] == "held"] == [True]
    shown = [entry for entry in await w.entries(part["session"]) if entry.get("claim") == part["claim"]]
    assert [entry["delivery"][0]["over"] for entry in shown] == [True]
    assert shown[0]["rev"] > since
    with pytest.raises(Conflict, match=words):
        await w.gateway.decide_part(part["id"], "resend")
    assert (await w.gateway.decide_part(part["id"], "drop"))["state"] == "dropped"


async def test_a_question_that_may_be_missing_is_told_once_also_by_the_next_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chat(tmp_path) as w:
        await hold(w, QUESTION, BOB, "bobs")
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        told = await w.until_shown(TOLD, "bobs")
        assert told.startswith("A question of ") and "Which one?" not in told
        assert "/history shows it, and a message to the agent answers it; an owner decides" in told
        await w.tell("red", BOB, "bobs")
        await w.until_shown("red", "bobs")
        await w.gateway.outbox.wait_until_idle()
        assert sum(TOLD in text for text in w.shown("bobs")) == 1
        await cannot_be_resent(w, "this question is over")


async def test_a_question_that_the_platform_refused_is_told_once_with_the_reason(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.REJECT)
        await w.tell(script(QUESTION))
        await until(lambda: _is_rejected(w))
        [part] = await w.gateway.parts("rejected")
        await w.tell("/status")
        told = await w.until_shown("A question of ")
        assert f"could not be shown here: {part['error']}" in told and "Which one?" not in told
        assert told.endswith(
            "/history shows it, and a message to the agent answers it; "
            f"send it again with `semel outbox resend p{part['id']}`."
        )
        await w.tell("/status")
        await w.idle("demo:chat:dm")
        await w.sent()
        assert sum("A question of " in text for text in w.shown()) == 1


async def test_a_question_that_is_over_before_its_chat_can_be_told_needs_no_notice(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await hold(w, QUESTION, BOB, "bobs")
        assert "over" not in (await w.gateway.parts("held"))[0]
        assert not any("over" in entry.get("delivery", [{}])[0] for entry in await w.entries("demo:chat:bobs"))
        before = await read_rev(w, "demo:chat:bobs")
        await w.tell("red", BOB, "bobs")
        await w.until_shown("red", "bobs")
        await w.gateway.outbox.wait_until_idle()
        assert not any(TOLD in text for text in w.shown("bobs"))
        await cannot_be_resent(w, "this question is over", before)


def test_the_chats_of_a_channel_that_is_away_wait() -> None:
    away = {"away"}
    chats = HeldChats(lambda channel: channel not in away)
    chats.add(["away:1", "here:1"], 0)
    assert chats.take_due(held_chats.NOTIFY_AFTER_MS - 1) == {}
    assert chats.take_due(held_chats.NOTIFY_AFTER_MS) == {"here:1": False}
    away.clear()
    assert chats.take_due(2 * held_chats.NOTIFY_AFTER_MS) == {"away:1": False}
    assert chats.next_due is None
    chats.add(["here:1"], 0)
    chats.note_arrival("here:1", 5)
    assert chats.take_due(5) == {"here:1": True}
    chats.wait_for_arrival("here:1")
    assert chats.next_due is None
    chats.note_arrival("here:1", 7)
    assert chats.take_due(7) == {"here:1": True}
