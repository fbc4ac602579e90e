"""Law 9: what an agent's history proves about a turn that was interrupted, and what it adds to what was shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer_cases import count_examples
from semel.acp_stream import Fold
from semel.acp_stream.redelivery import without_white_space
from semel.law import interrupted_turn, memory_diff
from semel.law.interrupted_turn import MessageRemainder, RecordedCall, RecordedText

ASKED = "Shall I go on? Say yes or no."
GOES_ON = "[semel: your turn goes on; nobody typed this]\n- already said: 'Half.'\n- it was asked: {!r}\n[/semel]"


def history(*told: tuple[str, str] | dict[str, Any]) -> Fold:
    """A restored agent's history: prompts and answers by role, tool calls as they are."""
    fold = Fold()
    for n, one in enumerate(told):
        if isinstance(one, dict):
            fold.update({"sessionUpdate": "tool_call", **one}, replay=True)
            continue
        kind = "user_message_chunk" if one[0] == "user" else "agent_message_chunk"
        content = {"type": "text", "text": one[1]}
        fold.update({"sessionUpdate": kind, "content": content, "messageId": f"h{n}"}, replay=True)
    fold.settle()
    return fold


def tool(id: str = "c1", status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"toolCallId": id, "title": "bash", "status": status, **more}


def find(
    fold: Fold, *asked: str, before: tuple[tuple[str, str], ...] = (), ended: bool = True
) -> interrupted_turn.Remembered | None:
    return interrupted_turn.find_turn(list(fold.items()), asked, before, ended=ended)


def texts(found: interrupted_turn.Remembered | None) -> list[str] | None:
    return None if found is None else [one.text for one in found.messages]


# ---------------------------------------------------------------- where the turn stands


def test_an_answer_behind_its_own_prompt_is_found() -> None:
    fold = history(("user", "hello"), ("agent", "Hi."), ("user", "yes"), ("agent", "Gone on."))
    assert texts(find(fold, "yes", before=(("user", "hello"), ("agent", "Hi.")))) == ["Gone on."]


def test_a_text_that_shows_nothing_is_none() -> None:
    assert find(history(("user", ASKED), ("agent", "\u200b"))) is None
    found = find(history(("user", ASKED), ("agent", "Here."), ("agent", "\u2060 \u200b")), ASKED)
    assert texts(found) == ["Here."]


def test_it_is_known_where_the_agent_was_asked_again() -> None:
    goes_on = f"{interrupted_turn.RESUME_PROMPT_START}: {ASKED!r}"
    fold = history(("user", ASKED), ("agent", "One."), ("agent", "Two."), ("user", goes_on), ("agent", "Three."))
    found = find(fold, ASKED)
    assert texts(found) == ["One.", "Two.", "Three."] and found is not None and found.asked_again == {2}


def test_a_short_message_is_not_answered_by_a_longer_one_that_holds_it() -> None:
    fold = history(("user", ASKED), ("agent", "I say yes."))
    assert find(fold, "yes", before=(("user", ASKED), ("agent", "I say yes."))) is None


def test_the_same_message_again_is_not_answered_by_what_was_said_to_the_first() -> None:
    before = (("user", "yes"), ("agent", "Gone on."))
    assert find(history(*before), "yes", before=before) is None
    again = history(*before, ("user", "yes"), ("agent", "Further still."))
    assert texts(find(again, "yes", before=before)) == ["Further still."]


def test_notes_in_a_prompt_that_quote_an_earlier_message_do_not_make_it_an_earlier_prompt() -> None:
    noted = "[semel: notes for you; nobody typed this]\n- hello there, friend\n[/semel]\nyes"
    fold = history(("user", noted), ("agent", "Gone on."))
    assert texts(find(fold, "yes", before=(("user", "hello there, friend"),))) == ["Gone on."]


def test_a_prompt_with_nothing_behind_it_holds_nothing_of_the_turn() -> None:
    assert find(history(("user", "yes")), "yes") is None


def test_what_stands_before_and_behind_a_prompt_to_go_on_is_one_turn() -> None:
    goes_on = GOES_ON.format('it\'s "so"\nand so')
    fold = history(("user", 'it\'s "so"\nand so'), ("agent", "One."), tool(), ("user", goes_on), ("agent", "Two."))
    assert texts(find(fold, 'it\'s "so"\nand so')) == ["One.", "Two."]


def test_the_prompt_to_go_on_of_an_earlier_turn_is_not_this_turns() -> None:
    fold = history(("user", "old"), tool(), ("user", GOES_ON.format("old")), ("agent", "Old answer."))
    assert find(fold, "new") is None


def test_messages_that_were_steered_in_belong_to_the_turn() -> None:
    fold = history(("user", "first"), ("agent", "One."), ("user", "second"), ("agent", "Two."))
    assert texts(find(fold, "first", "second")) == ["One.", "Two."]


# ---------------------------------------------------------------- what proves its end


@pytest.mark.parametrize(
    "told",
    [
        [("agent", "Let me look at your calendar.")],
        [("agent", "Let me look."), tool()],
        [("agent", "Let me look."), tool(), ("agent", "You are free.")],
        [("agent", "Comment"), ("agent", "ary, and then the answer.")],
    ],
    ids=["text", "text and a tool", "text, tool, text", "several messages"],
)
def test_text_alone_never_proves_that_a_turn_ended(told: list[Any]) -> None:
    found = find(history(("user", "go"), *told), "go", ended=False)
    assert found is not None
    assert not found.is_complete()


def test_a_marked_end_proves_it() -> None:
    found = find(history(("user", "go"), ("agent", "Look."), tool(), ("agent", "Free.")), "go")
    assert found is not None
    assert found.is_complete([RecordedCall("c1", "bash")], sent=[])


@pytest.mark.parametrize(
    "call", [RecordedCall("c9", "other"), RecordedCall(None, "bash", {"command": "x"}), RecordedCall("c2")]
)
def test_a_history_that_lacks_a_tool_call_of_the_record_is_never_complete(call: RecordedCall) -> None:
    found = find(history(("user", "go"), tool("c1", rawInput={"command": "ls"}), ("agent", "Free.")), "go")
    assert found is not None
    assert found.is_complete([RecordedCall("other id", "", {"command": "ls"})])
    assert not found.is_complete([RecordedCall("c1"), call])


def test_a_history_that_lacks_a_message_that_was_sent_by_tool_is_never_complete() -> None:
    found = find(history(("user", "go"), tool("c1", rawInput={"text": "Sent  it."}), ("agent", "Free.")), "go")
    assert found is not None
    assert found.is_complete(sent=["Sent it."])
    assert not found.is_complete(sent=["Sent it.", "And this."])


def test_an_open_tool_call_or_no_text_at_all_is_no_complete_answer() -> None:
    opened = find(history(("user", "go"), ("agent", "Look."), tool(status="in_progress")), "go")
    only_tools = find(history(("user", "go"), tool()), "go")
    assert opened is not None and only_tools is not None
    assert not opened.is_complete()
    assert not only_tools.is_complete()


# ---------------------------------------------------------------- what it adds


def beyond(told: list[str], *shown: RecordedText) -> list[MessageRemainder]:
    return list(interrupted_turn.compare_messages(dict(enumerate(told)), shown).values())


WHOLE = RecordedText(1, "The whole answer is forty-two.")
HALF = RecordedText(2, "The whole ans", is_cut=True)


def test_what_was_shown_adds_nothing_and_is_known_as_whole() -> None:
    assert beyond(["The whole answer  is\nforty-two. "], WHOLE) == [MessageRemainder(0, "", 1)]


def test_a_half_of_what_was_shown_adds_nothing_and_proves_nothing() -> None:
    assert beyond(["The whole answer is"], WHOLE) == [MessageRemainder(0)]
    assert beyond(["The whole", " answer is forty-two."], WHOLE) == [MessageRemainder(0), MessageRemainder(1)]


def test_what_goes_on_where_a_text_was_cut_off_is_said_from_its_beginning() -> None:
    assert beyond([WHOLE.text], HALF) == [MessageRemainder(0, WHOLE.text)]
    assert beyond(["First. The whole answer."], RecordedText(1, "First."), HALF) == [
        MessageRemainder(0, "The whole answer.")
    ]


def test_a_text_that_broke_off_and_was_cut_off_once_more_when_it_was_begun_again_is_said_from_its_beginning() -> None:
    attempt, begun_again = RecordedText(1, "The whole answer is for"), RecordedText(2, "The whole", is_cut=True)
    assert beyond([WHOLE.text], attempt, begun_again) == [MessageRemainder(0, WHOLE.text)]
    assert beyond(["Look.", WHOLE.text], RecordedText(3, "Look."), attempt, begun_again)[1] == MessageRemainder(
        1, WHOLE.text
    )
    # The first of two texts is no attempt at the second because that begins in the same words.
    joined = "It is on, I think.It is off, I think."
    assert beyond([joined], RecordedText(1, "It is on, I think."), RecordedText(2, "It is", is_cut=True)) == [
        MessageRemainder(0, "It is off, I think.")
    ]


def test_a_text_that_ended_inside_a_word_and_was_never_seen_to_be_begun_again_is_said_from_its_beginning() -> None:
    assert beyond([WHOLE.text], RecordedText(1, "The whole answer is for")) == [MessageRemainder(0, WHOLE.text)]
    assert beyond(["Look closely here.And then there."], RecordedText(1, "Look closely here.")) == [
        MessageRemainder(0, "And then there.")
    ]


def test_what_follows_a_text_that_was_shown_whole_is_all_that_is_new() -> None:
    assert beyond(["Look. It is 42."], RecordedText(1, "Look.")) == [MessageRemainder(0, "It is 42.")]
    assert beyond(["Look.It is 42.Bye."], RecordedText(1, "Look."), RecordedText(2, "It is 42.")) == [
        MessageRemainder(0, "Bye.")
    ]


def test_nothing_is_taken_for_shown_because_it_begins_with_the_same_letters() -> None:
    assert beyond(["No"], RecordedText(1, "Now then.")) == [MessageRemainder(0, "No")]
    assert beyond(["Now then."], RecordedText(1, "No")) == [MessageRemainder(0, "Now then.")]


def test_equal_texts_are_told_apart_copy_by_copy() -> None:
    assert beyond(["ha", "ha"], RecordedText(1, "ha")) == [MessageRemainder(0, "", 1), MessageRemainder(1, "ha")]


def test_a_history_that_holds_a_broken_text_and_its_retry_adds_nothing_to_the_text_that_stands() -> None:
    """kimi stores what it streamed, attempts and all."""
    assert beyond(["The whole ansThe whole answer is forty-two."], WHOLE) == [MessageRemainder(0, "", 1)]
    assert beyond(["The wThe whole ansThe whole answer is forty-two."], WHOLE) == [MessageRemainder(0, "", 1)]


def test_a_message_that_ends_with_a_shown_one_and_begins_otherwise_is_said() -> None:
    other = "The other one. The whole answer is forty-two."
    assert beyond([other], WHOLE) == [MessageRemainder(0, other)]
    twice = "ha ha ha"
    assert beyond([twice], RecordedText(1, "ha")) == [MessageRemainder(0, "ha ha")]
    both = "The whole ansThe whole answer"
    assert beyond([both], RecordedText(2, "The whole answer", is_cut=True)) == [MessageRemainder(0, both)]


def test_a_history_that_joins_what_was_shown_apart_adds_nothing() -> None:
    assert beyond(["One.Two."], RecordedText(1, "One."), RecordedText(2, "Two.")) == [MessageRemainder(0)]


def test_an_unmarked_retry_that_was_shown_twice_is_not_shown_a_third_time_after_a_crash() -> None:
    """The stream broke off and came again without a mark, so people read both. The agent remembers only the last."""
    shown = RecordedText(1, "The whole The whole answer is forty-two.", is_cut=True)
    assert beyond([WHOLE.text], shown) == [MessageRemainder(0)]
    assert beyond(["Look.", WHOLE.text], RecordedText(2, "Look."), shown) == [
        MessageRemainder(0, "", 2),
        MessageRemainder(1),
    ]
    short = RecordedText(1, "Yes. Yes. Done.")
    assert beyond(["Done."], short) == [MessageRemainder(0, "Done.")], (
        "short words stand in many texts: shown is not lost"
    )


def test_a_word_of_a_text_that_was_cut_off_is_that_text_however_short() -> None:
    assert beyond(["Ye"], RecordedText(1, "I look."), RecordedText(2, "Yes, on.", is_cut=True)) == [MessageRemainder(0)]
    assert beyond(["I look.Ye"], RecordedText(1, "I look."), RecordedText(2, "Yes, on.", is_cut=True)) == [
        MessageRemainder(0)
    ]
    assert beyond(["Yes, on."], RecordedText(1, "Ye", is_cut=True)) == [MessageRemainder(0, "Yes, on.")]
    assert beyond(["Ye", "s, on."], RecordedText(1, "Yes", is_cut=True)) == [
        MessageRemainder(0),
        MessageRemainder(1, "Yes, on."),
    ]


def test_texts_that_a_history_lacks_or_tells_in_another_order_hide_none_of_the_others() -> None:
    one, two, three = RecordedText(1, "One."), RecordedText(2, "Two."), RecordedText(3, "Three.")
    assert beyond(["One.Three. Four."], one, two, three) == [MessageRemainder(0, "Four.")]
    assert beyond(["Two.One.Four."], one, two) == [MessageRemainder(0, "Four.")]
    assert beyond(["Look.Now then."], RecordedText(1, "Look."), RecordedText(2, "No")) == [
        MessageRemainder(0, "Now then.")
    ]


def test_a_text_that_was_said_again_and_cut_off_is_not_taken_for_one_that_goes_on_with_the_next() -> None:
    lamp = "The lamp is on"
    said = [
        RecordedText(1, lamp),
        RecordedText(2, "First I look."),
        RecordedText(3, lamp),
        RecordedText(4, lamp, is_cut=True),
    ]
    assert beyond([lamp + "F"], *said) == [MessageRemainder(0)]
    assert beyond([lamp + "First I look.T"], *said) == [MessageRemainder(0)]


SAID = (
    "First I look.", "The lamp is on", "Yes", "ha", "ha", "No: it is off.", "Eine Antwort mit Umlauten: äöü", "😀 ok",
    "Two\n\nparagraphs here", "42",
)  # fmt: skip


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The history may tell it in several messages."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=2)))
    return [one for a, b in pairwise([0, *cuts, len(text)]) if (one := text[a:b]).strip()]


@st.composite
def lost_turns(draw: st.DrawFn) -> tuple[list[str], list[RecordedText], list[str]]:
    """(a history, what the record has, what only the history has). The last text of the record may be cut off."""
    said = draw(st.lists(st.sampled_from(SAID), min_size=1, max_size=6))
    new = draw(st.lists(st.sampled_from(("Something new.", "Further: this.", "Quite new")), max_size=2, unique=True))
    keeps = draw(st.integers(0, len(said))) if not new else len(said)
    cut = draw(st.booleans()) and not new
    written = [RecordedText(n, one, cut and n == len(said) - 1) for n, one in enumerate(said)]
    told = said[:keeps] + new
    if keeps < len(said) and (keeps or written[keeps].is_cut):  # it holds half of the next one
        told.append(said[keeps][: draw(st.integers(1, len(said[keeps])))])
    told = [one for one in told if one.strip()]
    match draw(st.sampled_from(("separate", "glued", "in pieces"))):
        case "glued":
            told = ["".join(told)]
        case "in pieces" if not new:
            told = [piece for one in told for piece in pieces(draw, one)]
    return told, written, new


@settings(max_examples=count_examples(600), deadline=None)
@given(lost_turns())
def test_no_text_is_said_twice_and_none_is_lost_however_a_history_tells_them(
    turn: tuple[list[str], list[RecordedText], list[str]],
) -> None:
    told, written, new = turn
    rest = "".join(one.rest for one in beyond(told, *written))
    assert without_white_space(rest) == without_white_space("".join(new))


# ---------------------------------------------------------------- what an agent that goes on is told of its memory


def test_half_of_a_recorded_text_in_a_memory_is_nothing_that_the_person_lacks() -> None:
    recorded = [
        memory_diff.RecordedMessage(1, "agent", "I look."),
        memory_diff.RecordedMessage(2, "agent", "Yes, it is on now.", needed=False),
    ]
    for told in (["I look.", "Ye"], ["I look.Yes, it is o"]):
        items = list(history(*(("agent", one) for one in told)).items())
        assert not memory_diff.find_difference(recorded, items), told
