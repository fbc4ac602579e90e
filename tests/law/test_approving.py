"""An answer counts for the one request it was given for, and only if that had reached who answers (Law 13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from semel.law import permission_questions
from semel.law.permissions import (
    CLOCK_SKEW_MS,
    AnswerOrigin,
    NoticePart,
    PosedRequest,
    Reply,
    describe_absence,
    has_reached,
    name_request,
)

Json = dict[str, Any]
CHAT = AnswerOrigin("chat:dm")
LEFT_AT = 1_000_000_000


def option(id: str, kind: str) -> Json:
    return {"optionId": id, "name": id.upper(), "kind": kind}


def sent(**more: Any) -> NoticePart:
    return replace(NoticePart("chat:dm", "sent", sent_at=LEFT_AT), **more)


A = permission_questions.PermissionRequest(
    7, "a", 1, (option("y", "allow_once"), option("ya", "allow_always"), option("n", "reject_once")), notice_seq=11
)
B = permission_questions.PermissionRequest(8, "b", 4, (option("ya", "allow_always"),), notice_seq=12)
C = permission_questions.PermissionRequest(9, "c", 5, (), notice_seq=13)
D = permission_questions.PermissionRequest(
    10, "d", 6, (option("ya", "allow_always"), option("yb", "allow_always"), option("n", "reject_once")), notice_seq=14
)
SHOWN = {one.item: PosedRequest(one, parts=(sent(),), first_rev=one.item) for one in (A, B, C, D)}


def answered(
    *shown: permission_questions.PermissionRequest, allow: bool = True, number: int | None = None, reply: Reply = None
) -> Any:
    """(item, option) that an answer in the chat chooses, where these were asked; None: nothing."""
    return chosen(name_request([SHOWN[one.item] for one in shown], CHAT, allow, number, reply))


def chosen(found: permission_questions.ChosenOption | str) -> tuple[int, str | None] | None:
    if isinstance(found, str):
        assert found
        return None
    return found.item, found.option


CHOICES = [
    ((A,), True, None, (7, "y")),
    ((A,), True, 2, (7, "ya")),
    ((A,), True, 3, (7, "n")),
    ((A,), False, None, (7, "n")),
    ((A,), False, 1, (7, "n")),
    ((B,), True, None, (8, "ya")),
    ((B,), False, None, (8, None)),
    ((B,), False, 4, (8, None)),
    ((C,), False, None, (9, None)),
    ((C,), False, 5, (9, None)),
    ((A, B), True, 4, (8, "ya")),
    ((A, B), False, 2, (7, "n")),
    ((A, B), True, None, None),
    ((A, B), True, 5, None),
    ((A,), True, 0, None),
    ((C,), True, None, None),
    ((C,), True, 5, None),
    ((D,), True, None, None),
    ((D,), True, 7, (10, "yb")),
    ((D,), False, None, (10, "n")),
    ((), True, None, None),
]


@pytest.mark.parametrize(("asked", "allow", "number", "wanted"), CHOICES)
def test_what_an_answer_in_words_means(
    asked: tuple[permission_questions.PermissionRequest, ...],
    allow: bool,
    number: int | None,
    wanted: tuple[int, str | None] | None,
) -> None:
    assert answered(*asked, allow=allow, number=number) == wanted


def test_an_answer_that_could_mean_several_is_told_what_each_is() -> None:
    """Of one request, the options; of several requests, also what each does where the title does not say it."""
    options = "\n/approve 6: YA\n/approve 7: YB\n/approve 8: N"
    assert (
        str(name_request([SHOWN[10]], CHAT, True))
        == f"The agent offers more than one way to allow that; choose one:{options}"
    )
    assert str(name_request([SHOWN[9]], CHAT, True)) == "The agent offers no way to allow that; /deny 5 cancels it."
    named = replace(D, title="bash", tool_input={"timeout": 9, "command": ["rm", "-r", "x"]})
    posed = [replace(SHOWN[10], request=named), SHOWN[8]]
    assert str(name_request(posed, CHAT, False)).endswith("like /deny 6:\n6: bash: rm -r x\n4: b")
    assert f"\n6: bash: rm -r x{options}\n4: b" in str(name_request(posed, CHAT, True))


BESIDE = "Your message goes to the agent; it does not answer the request that is still open: b. "
NO_ANSWER = "Your message goes to the agent; it allows and denies nothing. The open request (b) "
ELSEWHERE = "The owner answers it on the page or in the terminal"
HINTS = [
    (sent(), f"{BESIDE}The owner can allow it with /approve 4, and deny it with /deny 4."),
    (
        sent(state="queued"),
        f"{BESIDE}Once it is here, the owner can allow it with /approve 4, and deny it with /deny 4.",
    ),
    (
        sent(state="held", id=3),
        f"{NO_ANSWER}may not have reached this chat. {ELSEWHERE}, or decides about the message: "
        "`semel outbox arrived p3` if it is here, so that it can be answered here; `semel outbox resend p3` if it is "
        "not.",
    ),
    (
        sent(state="rejected", error="too long", id=3),
        f"{NO_ANSWER}could not be shown in this chat: too long. {ELSEWHERE}, or sends it again: "
        "`semel outbox resend p3`.",
    ),
    (
        sent(failed_later=True, error="it bounced."),
        f"{NO_ANSWER}could not be shown in this chat: it bounced. {ELSEWHERE}.",
    ),
]


@pytest.mark.parametrize(("part", "words"), HINTS)
def test_a_message_beside_a_request_is_told_to_answer_only_where_the_request_is(part: NoticePart, words: str) -> None:
    parts = (sent(), part)
    is_on_its_way = part.state == "queued"
    hint = permission_questions.format_hint(
        B, "the owner", absence=describe_absence(B, parts), is_on_its_way=is_on_its_way
    )
    assert hint == words
    assert ("/approve" in hint) == (part.state in ("sent", "queued") and not part.failed_later)


REPLIES = [
    ((A, B), True, None, 11, (7, "y")),
    ((A, B), True, None, 12, (8, "ya")),
    ((A, B), True, 4, 11, None),
    ((A, B), True, None, 10, None),
    ((B,), True, None, 11, None),
    ((A,), False, 2, 11, (7, "n")),
    ((A,), True, None, "unknown", None),
    ((A,), True, 1, "unknown", (7, "y")),
    ((A,), True, 1, "elsewhere", None),
]


@pytest.mark.parametrize(("asked", "allow", "number", "reply", "wanted"), REPLIES)
def test_what_an_answer_that_is_a_reply_means(
    asked: tuple[permission_questions.PermissionRequest, ...],
    allow: bool,
    number: int | None,
    reply: Reply,
    wanted: tuple[int, str] | None,
) -> None:
    assert answered(*asked, allow=allow, number=number, reply=reply) == wanted


UNREAD = [
    (),
    (sent(state="queued"),),
    (sent(state="sending"),),
    (sent(state="unknown"),),
    (sent(state="held"),),
    (sent(state="rejected"),),
    (sent(state="dropped"),),
    (sent(failed_later=True),),
    (sent(dest="chat:another"),),
    (sent(), sent(state="queued")),
    (sent(state="held"), sent()),
]


@pytest.mark.parametrize("parts", UNREAD)
@pytest.mark.parametrize(("number", "reply"), [(None, None), (4, None), (None, 12), (4, 12)])
def test_what_had_not_reached_the_chat_whole_is_not_answered_from_there(
    parts: tuple[NoticePart, ...], number: int | None, reply: Reply
) -> None:
    """Whichever way it is named, and however few requests there are."""
    unread = replace(SHOWN[8], parts=parts)
    said = name_request([unread], CHAT, True, number, reply)
    assert isinstance(said, str) and said.startswith("Nothing was allowed or denied")


def test_a_second_answer_to_one_question_allows_nothing_else() -> None:
    over = replace(SHOWN[7], state="answered", ending="Y, by Ada: a")
    unread = replace(SHOWN[8], parts=(sent(state="queued"),))
    for number, reply in ((None, None), (1, None), (None, 11)):
        said = name_request([over, unread], CHAT, True, number, reply)
        assert isinstance(said, str) and said.startswith("That request is gone: Y, by Ada: a. Another request is open")


@pytest.mark.parametrize(("number", "reply"), [(None, None), (1, None), (None, 11)])
def test_an_answer_to_a_closed_request_is_not_told_to_read_one_that_may_be_missing(
    number: int | None, reply: Reply
) -> None:
    over = replace(SHOWN[7], state="answered", ending="Y, by Ada: a")
    in_doubt = replace(SHOWN[8], parts=(sent(state="held"),))
    unsure = describe_absence(B, in_doubt.parts)
    said = name_request([over, in_doubt], CHAT, True, number, reply)
    if number is None and reply is None:  # meant for the one that is open: how the other ended is not told
        assert said == f"Nothing was allowed or denied. {unsure}"
    else:
        assert said == f"That request is gone: Y, by Ada: a. {unsure}"
    said = name_request([over, in_doubt, replace(SHOWN[9], parts=(sent(state="queued"),))], CHAT, True, number, reply)
    assert isinstance(said, str) and said.endswith("read it, then answer it with its own number.")


def test_over_the_api_an_answer_is_told_to_read_what_its_chat_may_miss() -> None:
    in_doubt = replace(SHOWN[8], parts=(sent(state="held"),))
    said = name_request([in_doubt], AnswerOrigin(None, shown_rev=7), True)
    assert isinstance(said, str) and said.endswith("Read it, then answer it.")


def test_an_answer_means_the_one_that_was_read_whatever_else_is_open() -> None:
    unread = replace(SHOWN[8], parts=(sent(state="sending"),))
    assert chosen(name_request([SHOWN[7], unread], CHAT, True)) == (7, "y")


def test_over_the_api_only_what_its_view_had_shown_is_answered_without_a_number() -> None:
    posed = list(SHOWN.values())[:2]
    assert chosen(name_request(posed, AnswerOrigin(None, shown_rev=7), True)) == (7, "y")
    assert chosen(name_request(posed, AnswerOrigin(None, shown_rev=6), True)) is None
    assert chosen(name_request(posed, AnswerOrigin(None, shown_rev=7), True, 4)) is None
    assert chosen(name_request(posed[:1], AnswerOrigin(None), True)) is None
    assert chosen(name_request(posed, AnswerOrigin(None), True, 4)) == (8, "ya")


def test_a_platform_that_numbers_its_messages_tells_what_was_written_first() -> None:
    notice = PosedRequest(A, parts=(sent(receipt="dm/41"), sent(receipt="dm/42")))
    for id, reached in (("dm/43", True), ("dm/41", False), ("dm/9", False), ("other/9", True), ("x", True)):
        writing = replace(CHAT, message_id=id, has_growing_numbers=True)
        assert has_reached(notice, writing) is reached
        assert has_reached(notice, replace(writing, has_growing_numbers=False))
        assert has_reached(notice, writing, replies_to_notice=True)


def test_what_was_written_long_before_the_question_left_is_no_answer_to_it() -> None:
    posed = SHOWN[7]
    early = replace(CHAT, written_at=LEFT_AT - CLOCK_SKEW_MS - 1)
    assert not has_reached(posed, early)
    assert has_reached(posed, early, replies_to_notice=True)
    assert has_reached(posed, replace(CHAT, written_at=LEFT_AT - CLOCK_SKEW_MS))


def test_of_two_agents_in_one_chat_each_is_answered_by_name() -> None:
    other = replace(SHOWN[8], is_elsewhere=True)
    assert chosen(name_request([SHOWN[7], other], CHAT, True)) is None
    assert chosen(name_request([SHOWN[7], other], CHAT, True, 1)) == (7, "y")
    assert chosen(name_request([SHOWN[7], other], CHAT, True, 4)) is None
    assert chosen(name_request([SHOWN[7], replace(other, request=replace(B, first_number=1))], CHAT, True, 1)) is None
    assert chosen(name_request([other], CHAT, True)) is None
    assert chosen(name_request([SHOWN[7], other], CHAT, True, reply=11)) == (7, "y")


@pytest.mark.parametrize(("number", "reply"), [(None, None), (4, None), (None, "elsewhere")])
def test_an_answer_to_another_conversations_request_is_told_whose_it_is_and_where_it_is_answered(
    number: int | None, reply: Reply
) -> None:
    notified = replace(SHOWN[8], is_elsewhere=True, is_owner_notified=True, whose="bob", session="demo:chat:bob")
    said = name_request([notified], CHAT, True, number, reply, replied_item=8)
    assert said == (
        "Nothing was allowed or denied here. A request is open in the conversation with bob: answer it on the page, or "
        "in the terminal with `semel chat demo:chat:bob`."
    )
