"""Broken model streams: the last start of a message is shown, a failed one stays in the record, marked."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from stream_help import call, folded, messages, result, run, say, terminal, think, thoughts, user

from each_case import for_each
from semel.acp_stream import CAREFUL, PROFILES, View

FIRST = ["Partial ", "text before ", "the drop. "]
WHOLE = ["Partial text ", "before the", " drop. And ", "the rest."]
A, B = "".join(FIRST), "".join(WHOLE)
OTHER = ["Quite ", "another wording."]
# Long enough for a retry without any mark: by its length alone, and by the word that it breaks off in.
SENTENCES = [f"Sentence {n} of the long answer tells of matter {n * 7}. " for n in range(120)]
LONG = (SENTENCES[:90], SENTENCES)
GLUED = ([*SENTENCES[:6], "And th"], [*SENTENCES[:6], "And that ", "is all."])
RETRIES_UNDER_ANOTHER_ID = sorted(name for name, profile in PROFILES.items() if profile.another_id == "retry")
UNMARKED = sorted(name for name, profile in PROFILES.items() if profile.retry == "whole")


def superseded(view: View) -> list[str]:
    return [item.text for item in view.items if item.kind == "message" and item.fields.get("superseded")]


def named(view: View) -> list[str]:
    """The text of the message that each superseded message names as the one that replaced it."""
    texts = {item.id: item.text for item in view.items}
    replaced = [item for item in view.items if item.kind == "message" and item.fields.get("superseded")]
    return [texts[item.fields["superseded_by"]] for item in replaced]


def codex_retry(again: bool = True) -> dict[str, Any]:
    error = {"message": "Reconnecting... 1/5", "willRetry": again}
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": error}}}


@pytest.mark.parametrize("name", RETRIES_UNDER_ANOTHER_ID)
def test_the_whole_answer_again_under_a_new_id(name: str) -> None:
    view = folded([say(c, "m1") for c in FIRST] + [say(c, "m2") for c in WHOLE], PROFILES[name])
    assert (messages(view), superseded(view)) == ([B], [A])
    assert named(view) == [B]


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - {"hermes", "semel-model"}))
def test_a_long_answer_again_under_a_new_id_by_any_agent(name: str) -> None:
    first, whole = LONG
    view = folded([say(c, "m1") for c in first] + [say(c, "m2") for c in whole], PROFILES[name])
    assert (messages(view), superseded(view)) == (["".join(whole)], ["".join(first)])
    assert named(view) == ["".join(whole)]


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - set(RETRIES_UNDER_ANOTHER_ID)))
def test_two_messages_that_begin_alike_are_two_where_ids_are_no_sign_of_a_retry(name: str) -> None:
    view = folded([say(c, "m1") for c in FIRST] + [say(c, "m2") for c in WHOLE], PROFILES[name])
    assert (messages(view), superseded(view)) == ([A, B], [])


@pytest.mark.parametrize("pieces", [FIRST, [A]])
@pytest.mark.parametrize("name", sorted(PROFILES.keys() - set(RETRIES_UNDER_ANOTHER_ID)))
def test_two_equal_messages_with_ids_of_their_own_are_two(name: str, pieces: list[str]) -> None:
    view = folded([say(c, "m1") for c in pieces] + [say(c, "m2") for c in pieces], PROFILES[name])
    assert (messages(view), superseded(view)) == ([A, A], [])


def test_codex_signals_its_retries_so_a_message_in_one_chunk_is_no_copy() -> None:
    updates = [*(say(c, "m1") for c in FIRST), say(A, "m2")]
    assert messages(folded(updates, PROFILES["codex"])) == [A, A]
    assert messages(folded(updates, CAREFUL)) == [A], "a consolidated copy of what came in several chunks"


@pytest.mark.parametrize(("first", "whole"), [LONG, GLUED], ids=["long", "glued"])
@pytest.mark.parametrize("mid", ["m1", None])
@pytest.mark.parametrize("name", UNMARKED)
def test_the_whole_answer_again_inside_the_same_block(
    name: str, mid: str | None, first: list[str], whole: list[str]
) -> None:
    a_fold, board = run([say(c, mid) for c in [*first, *whole]], PROFILES[name])
    shown = [(i.text, bool(i.fields.get("superseded"))) for i in a_fold.items()]
    assert shown == [("".join(first), True), ("".join(whole), False)]
    assert 1 in board.ended and 2 not in board.ended


@pytest.mark.parametrize(("first", "whole"), [LONG, GLUED], ids=["long", "glued"])
@pytest.mark.parametrize("name", UNMARKED)
def test_every_failed_start_of_many_is_kept(name: str, first: list[str], whole: list[str]) -> None:
    view = folded([say(c) for c in first * 4 + whole], PROFILES[name])
    assert (messages(view), superseded(view)) == (["".join(whole)], ["".join(first)] * 4)


@pytest.mark.parametrize("name", PROFILES)
def test_a_short_answer_that_comes_again_without_any_mark_is_shown_twice(name: str) -> None:
    view = folded([say(c, "m1") for c in FIRST + WHOLE], PROFILES[name])
    assert (messages(view), superseded(view)) == ([A + B], [])


@pytest.mark.parametrize("name", ["careful", "hermes", "codex", "openclaw"])
def test_an_agent_that_is_not_known_to_start_again_without_a_mark_has_said_it_twice(name: str) -> None:
    first, whole = LONG
    view = folded([say(c, "m1") for c in [*first, *whole]], PROFILES[name])
    assert (messages(view), superseded(view)) == (["".join([*first, *whole])], [])


@pytest.mark.parametrize("step", [4_999, 9_001])
@pytest.mark.parametrize("name", sorted(PROFILES.keys() - {"semel-model"}))
def test_chunks_that_each_hold_all_text_so_far_are_shown_once_if_the_first_is_long(name: str, step: int) -> None:
    text = "".join(f"Word {n} of it. " for n in range(4_000))[: 6 * step]
    view = folded([say(text[:end], "m1") for end in range(step, 6 * step + 1, step)], PROFILES[name])
    assert (messages(view), superseded(view)) == ([text], [])


@pytest.mark.parametrize("name", PROFILES)
def test_short_lines_that_each_begin_like_the_one_before_are_all_shown(name: str) -> None:
    """An honest triangle looks like chunks that hold all text so far."""
    lines = ["".join(f"{n} " for n in range(1, last)) + "\n" for last in range(2, 40)]
    assert messages(folded([say(line, "m1") for line in lines], PROFILES[name])) == ["".join(lines)]
    growing = ["".join(f"Word {n} of it. " for n in range(last)) for last in range(20, 200, 20)]
    assert messages(folded([say(chunk, "m1") for chunk in growing], PROFILES[name])) == ["".join(growing)]


def test_a_continuation_is_part_of_the_answer() -> None:
    view = folded([say(c) for c in [*FIRST, "And ", "the rest."]], PROFILES["hermes"])
    assert messages(view) == [A + "And the rest."]


def test_a_suffix_under_a_new_id_does_not_deny_what_came_before() -> None:
    view = folded([*(say(c, "msg_1") for c in FIRST), say("The rest.", "msg_2")], PROFILES["claude"])
    assert (messages(view), superseded(view)) == ([A, "The rest."], [])


def test_after_a_retry_signal_other_wording_takes_the_place_of_the_failed_start() -> None:
    updates = [*(say(c, "m1") for c in FIRST), codex_retry(), *(say(c, "m2") for c in OTHER)]
    view = folded(updates, PROFILES["codex"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]
    assert [item.text for item in view.items if item.kind == "notice"] == ["Reconnecting... 1/5"]


def test_a_retry_that_brings_nothing_leaves_what_was_shown() -> None:
    updates = [*(say(c, "m1") for c in FIRST), codex_retry(), {"_end_turn": True}]
    assert messages(folded(updates, PROFILES["codex"])) == [A]


def test_an_error_that_is_no_retry_supersedes_nothing() -> None:
    updates = [*(say(c, "m1") for c in FIRST), codex_retry(False), *(say(c, "m2") for c in OTHER)]
    assert messages(folded(updates, PROFILES["codex"])) == [A, "".join(OTHER)]


def test_a_thought_of_the_repeated_start_does_not_yet_deny_the_message() -> None:
    updates = [think("Hm. ", "r1"), *(say(c, "m1") for c in FIRST), codex_retry(), think("Well. ", "r2")]
    view = folded(updates, PROFILES["codex"])
    assert (messages(view), superseded(view)) == ([A], [])
    view = folded([*updates, *(say(c, "m2") for c in OTHER)], PROFILES["codex"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]


def test_vibe_says_that_it_retries_beside_the_updates() -> None:
    retrying = {"sessionUpdate": "_session/retrying", "category": "connection", "detail": "Connection lost."}
    view = folded([*(say(c, "m") for c in FIRST), retrying, *(say(c, "m") for c in OTHER)], PROFILES["vibe"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]


def test_a_retry_that_vibe_announces_many_times_in_a_row_is_one_notice() -> None:
    retrying = {"sessionUpdate": "_session/retrying", "category": "rate_limited", "detail": "HTTP 429"}
    usage = {"sessionUpdate": "usage_update", "used": 0, "size": 10}
    view = folded([usage, *[retrying, usage] * 5, say("The answer.", "m"), retrying], PROFILES["vibe"])
    told = "The agent's model request failed (HTTP 429). The agent is trying again."
    assert [item.text for item in view.items if item.kind == "notice"] == [told, told]


def test_pi_types_its_retries_into_the_answer() -> None:
    updates = [
        *(say(c) for c in FIRST),
        say("Retrying (attempt 1/3, waiting 2s)..."),
        *(say(c) for c in OTHER),
        say("Retry finished, resuming."),
    ]
    view = folded(updates, PROFILES["pi"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]
    notices = [item.text for item in view.items if item.kind == "notice"]
    assert notices == ["Retrying (attempt 1/3, waiting 2s)...", "Retry finished, resuming."]


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - {"pi"}))
def test_the_same_words_from_an_agent_that_does_not_type_retries_are_its_text(name: str) -> None:
    view = folded([say("Retrying (attempt 1/3, waiting 2s)...", "msg_1")], PROFILES[name])
    assert messages(view) == ["Retrying (attempt 1/3, waiting 2s)..."]


@pytest.mark.parametrize(
    "notice",
    [
        "Info: Response was interrupted due to a server error. Retrying...",
        "Info: Request failed due to a transient API error. Retrying...",
    ],
)
def test_copilot_types_its_retries_into_the_answer(notice: str) -> None:
    """copilot 1.0.102: in a chunk of its own, without an id."""
    view = folded([*(say(c) for c in FIRST), say(notice), *(say(c) for c in OTHER)], PROFILES["copilot"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]
    assert messages(folded([say(notice)], PROFILES["careful"])) == [notice]


def test_pi_may_talk_about_retrying() -> None:
    view = folded([say("Retrying"), say(" the build"), say(" (attempt 2)...")], PROFILES["pi"])
    assert messages(view) == ["Retrying the build (attempt 2)..."]


def test_claude_seals_a_message_with_its_usage_so_a_broken_one_was_a_failed_start() -> None:
    usage = {"sessionUpdate": "usage_update", "used": 125, "size": 1000}
    updates = [*(say(c, "msg_1") for c in FIRST), *(say(c, "msg_2") for c in OTHER), usage]
    view = folded(updates, PROFILES["claude"])
    assert (messages(view), superseded(view)) == (["".join(OTHER)], [A])
    assert named(view) == ["".join(OTHER)]
    sealed = folded([*updates[:3], {**usage, "used": 120}, *updates[3:]], PROFILES["claude"])
    assert (messages(sealed), superseded(sealed)) == ([A, "".join(OTHER)], [])
    costs = folded([*updates[:-1], {**usage, "cost": {"amount": 1, "currency": "USD"}}], PROFILES["claude"])
    assert superseded(costs) == []


@pytest.mark.parametrize("name", RETRIES_UNDER_ANOTHER_ID)
def test_a_failed_start_may_have_announced_a_call_that_never_ran(name: str) -> None:
    updates = [*(say(c, "msg_1") for c in FIRST), call("dead"), *(say(c, "msg_2") for c in WHOLE)]
    view = folded([*updates, call("t"), result("t", status="completed")], PROFILES[name])
    assert (messages(view), superseded(view)) == ([B], [A])
    assert named(view) == [B]


def test_what_was_said_before_a_call_that_ran_stands() -> None:
    ran = [call("t"), terminal("x"), result("t", status="completed")]
    view = folded([*(say(c, "m1") for c in FIRST), *ran, *(say(c, "m2") for c in WHOLE)], CAREFUL)
    assert (messages(view), superseded(view)) == ([A, B], [])


def test_turns_do_not_supersede_each_other() -> None:
    turn = [{"_prompt": "again"}, *(say(c, "m1") for c in FIRST), {"_end_turn": True}]
    view = folded([*turn, {"_prompt": "again"}, *(say(c, "m2") for c in WHOLE), {"_end_turn": True}])
    assert messages(view) == [A, B]


def test_a_short_message_that_another_begins_with_is_no_failed_start() -> None:
    assert messages(folded([say("I", "m1"), say("I'll", "m2"), say(" look.", "m2")])) == ["I", "I'll look."]
    assert messages(folded([say("One", "m1"), say("One more ", "m2"), say("thing", "m2")])) == ["One", "One more thing"]


def test_thoughts_are_told_once_however_often_they_were_thought() -> None:
    parts = ["Thinking ", "that is ", "cut off. "]
    updates = [think(c, "r1") for c in parts] + [think(c, "r2") for c in [*parts, "Done."]]
    assert thoughts(folded(updates, PROFILES["opencode"])) == ["Thinking that is cut off. Done."]
    for first, whole in (LONG, GLUED):
        updates = [think(c) for c in [*first, *whole]]
        assert thoughts(folded(updates, PROFILES["opencode"])) == ["".join(whole)]


THOUGHT = ["**Checking ", "beads** ", "I will look "]
CHECKING = "".join(THOUGHT)


COPIES = product(
    sorted(PROFILES.keys() - {"semel-model"}),
    ([], ["\n\n"], ["\n"]),
    (CHECKING, CHECKING.strip(), "\n\n" + CHECKING, CHECKING + "\n\n"),
    ([], [say("Done.")], [call()], [{"_end_turn": True}]),
)


@for_each("name, before, copy, after", list(COPIES))
def test_a_thought_in_tokens_and_then_whole_is_told_once(
    name: str, before: list[str], copy: str, after: list[dict[str, Any]]
) -> None:
    a_fold, _ = run([*(think(c) for c in [*before, *THOUGHT, copy]), *after], PROFILES[name])
    assert [item.text for item in a_fold.items() if item.kind == "thought"] == ["".join(before) + CHECKING]


@pytest.mark.parametrize("mark", ["**", "Checking beads", "(1)"])
def test_a_thought_in_many_tokens_and_then_whole_is_told_once(mark: str) -> None:
    parts = ["\n\n", mark, " and", " then", " the", " rest", mark, "\n\n", "I will", " look", " at it."]
    whole = "".join(parts)
    for copy in (whole, whole.strip(), "I will look at it."):
        assert thoughts(folded([think(c) for c in [*parts, copy]])) == [whole]
        assert thoughts(folded([think(c) for c in [*parts, copy, "\n\n", "Next."]])) == [whole + "\n\nNext."]


@pytest.mark.parametrize("name", PROFILES)
def test_a_thought_that_goes_on_behind_its_own_words_said_them_twice(name: str) -> None:
    a_fold, _ = run([think(c) for c in [*THOUGHT, CHECKING, "again."]], PROFILES[name])
    assert [item.text for item in a_fold.items()] == [CHECKING * 2 + "again."]


@pytest.mark.parametrize("name", PROFILES)
def test_a_thought_of_equal_pieces_is_no_copy(name: str) -> None:
    for chunks in (["Not yet, not yet. "] * 2, ["I see ", "that. ", "I see ", "that. "], [*THOUGHT, *THOUGHT]):
        a_fold, _ = run([think(c) for c in chunks], PROFILES[name])
        assert [item.text for item in a_fold.items()] == ["".join(chunks)]


def test_a_section_of_a_summary_that_is_sent_again_whole() -> None:
    updates = [think("**One** two three."), think("\n\n"), think("**Four** "), think("five six.")]
    view = folded([*updates, think("**Four** five six."), say("Answer.")], PROFILES["codex-zed"])
    assert thoughts(view) == ["**One** two three.\n\n**Four** five six."]


def test_gemini_frames_every_piece_of_a_thought() -> None:
    view = folded([think("****\nFirst I "), think("****\nconsider.")], PROFILES["gemini"])
    assert thoughts(view) == ["First I consider."]


def test_a_user_row_in_between_is_a_boundary() -> None:
    view = folded([*(say(c, "m1") for c in FIRST), user("and now?"), *(say(c, "m2") for c in WHOLE)])
    assert messages(view) == [A, B]


def test_our_own_loop_says_what_things_are_so_an_honest_repeat_is_never_taken_for_a_copy() -> None:
    profile = PROFILES["semel-model"]
    whole = "".join(WHOLE)
    view = folded([say(whole, "m1"), say(whole, "m2"), say("ha", "m3"), say("ha", "m3")], profile)
    assert messages(view) == [whole, whole, "haha"]
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "x", "status": "in_progress"}
    view = folded([*(say(c, "m1") for c in WHOLE), tool, say(whole, "m2")], profile)
    assert messages(view) == [whole, whole]
