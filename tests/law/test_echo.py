"""Law 5: said once. D and L numbers name the field failures that each promise closes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer_cases import count_examples
from semel.law.echo import (
    QUIET_WORD,
    Attempt,
    ClaimBoundaries,
    ClaimWay,
    PriorClaim,
    find_original,
    find_original_of_cut_block,
    is_quiet,
)
from semel.text.verbatim import may_become, verbatim_form


@dataclass
class Root:
    """The claims of one root, as a ledger keeps them: each is judged and joins the earlier ones."""

    claims: list[tuple[str, str, PriorClaim]] = field(default_factory=list)
    turn: int = 1
    attempt: Attempt = "start"
    boundaries: ClaimBoundaries = field(default_factory=ClaimBoundaries)

    def lost(self, attempt: Attempt) -> None:
        """The attempt is lost; another begins."""
        self.turn, self.attempt = self.turn + 1, attempt
        self.boundaries = ClaimBoundaries(joined_root=self.boundaries.joined_root)

    def joins(self) -> None:
        """Another prompt joins the turn."""
        self.boundaries = replace(self.boundaries, joined=len(self.claims) - 1, joined_root=len(self.claims) - 1)

    def corrected(self) -> None:
        """Its agent is asked to correct what was held back."""
        self.boundaries = replace(self.boundaries, corrected=len(self.claims) - 1)

    def say(
        self, how: ClaimWay, text: str, dest: str = "home", more: bytes | None = None, last: bool = False
    ) -> int | None:
        same = [claim for at, form, claim in self.claims if at == dest and form == verbatim_form(text)]
        of = find_original(
            how=how,
            turn=self.turn,
            attempt=self.attempt,
            earlier=same,
            file_digest=more,
            boundaries=self.boundaries,
            is_last_of_attempt=last,
        )
        claim = PriorClaim(
            len(self.claims), how, self.turn, "echo" if of is not None else "said", echo_of=of, file_digest=more
        )
        self.claims.append((dest, verbatim_form(text), claim))
        return of

    def breaks_off(self, text: str, dest: str = "home", last: bool = False) -> int | None:
        """A block broke off: the claim that it was repeating."""
        longer = [
            claim
            for at, form, claim in self.claims
            if at == dest and form != verbatim_form(text) and may_become(text, form)
        ]
        return find_original_of_cut_block(
            turn=self.turn, attempt=self.attempt, earlier=longer, boundaries=self.boundaries, is_last_of_attempt=last
        )

    def falls(self, id: int) -> None:
        """A part of that claim was rejected or dropped."""
        dest, form, claim = self.claims[id]
        self.claims[id] = dest, form, replace(claim, stands=False)


def test_a_block_that_repeats_what_a_tool_sent_is_an_echo_d1() -> None:
    root = Root()
    assert root.say("tool", "Report is ready.") is None
    assert root.say("block", "Report is ready.\n") == 0


def test_every_block_that_repeats_it_is_an_echo_also_after_a_correction_d2() -> None:
    root = Root()
    root.say("tool", "Report is ready.")
    assert [root.say("block", "Report is ready."), root.say("block", "Report is ready.")] == [0, 0]


def test_an_answer_that_differs_from_the_interim_message_is_said() -> None:
    root = Root()
    root.say("tool", "on it - looking at your calendar")
    assert root.say("block", "Tomorrow at 2pm you're free") is None
    assert root.say("block", "I've sent: on it - looking at your calendar") is None


def test_a_block_may_echo_any_of_several_messages_sent_mid_turn() -> None:
    root = Root()
    for text in ("one", "two", "three"):
        root.say("tool", text)
    assert [root.say("block", text) for text in ("two", "four", "one")] == [1, None, 0]


def test_the_same_text_to_another_destination_is_said_l5() -> None:
    root = Root()
    root.say("tool", "Dinner at 8", dest="family")
    assert root.say("block", "Dinner at 8", dest="work") is None
    assert root.say("block", "Dinner at 8", dest="family") == 0


def test_a_second_tool_call_with_equal_text_is_said() -> None:
    root = Root()
    assert [root.say("tool", "ha"), root.say("tool", "ha")] == [None, None]
    assert root.say("block", "ha") == 0


def test_a_block_that_repeats_a_block_is_said_l6() -> None:
    root = Root()
    assert [root.say("block", "Done."), root.say("block", "Done.")] == [None, None]


def test_a_tool_call_after_an_equal_block_is_said() -> None:
    root = Root()
    root.say("block", "Done.")
    assert root.say("tool", "Done.") is None


def test_the_same_text_in_another_turn_is_said() -> None:
    Root().say("tool", "Done.")
    assert Root().say("block", "Done.") is None


def test_a_restart_repeats_what_the_lost_attempt_sent_without_sending_it_again_d6() -> None:
    root = Root()
    root.say("tool", "Invoice sent.")
    root.lost("restart")
    assert root.say("tool", "Invoice sent.") == 0
    assert root.say("block", "Invoice sent.") == 0
    assert root.say("tool", "Invoice sent.") is None


def test_a_restart_consumes_copy_by_copy_through_either_door() -> None:
    root = Root()
    root.say("block", "ha")
    root.say("tool", "ha")
    root.say("tool", "ha")
    root.lost("restart")
    assert [root.say("block", "ha"), root.say("tool", "ha"), root.say("tool", "ha")] == [0, 1, 2]
    assert root.say("tool", "ha") is None


def test_a_block_that_repeats_a_tool_call_of_its_own_attempt_uses_up_no_copy() -> None:
    root = Root()
    assert [root.say("tool", "ha"), root.say("block", "ha"), root.say("tool", "ha")] == [None, 0, None]
    root.lost("restart")
    assert [root.say("tool", "ha"), root.say("block", "ha"), root.say("tool", "ha")] == [0, 0, 2]
    assert root.say("tool", "ha") is None


def test_a_block_repeated_on_purpose_by_a_restart_is_said_once_the_copies_are_used_up() -> None:
    root = Root()
    root.say("block", "Done.")
    root.lost("restart")
    assert [root.say("block", "Done."), root.say("block", "Done.")] == [0, None]


def test_a_third_attempt_consumes_what_both_lost_ones_said() -> None:
    root = Root()
    root.say("block", "a")
    root.lost("restart")
    assert [root.say("block", "a"), root.say("block", "a")] == [0, None]
    root.lost("restart")
    assert [root.say("block", "a") for _ in range(3)] == [0, 2, None]


def test_an_attempt_that_resumes_consumes_nothing() -> None:
    root = Root()
    root.say("tool", "step 1")
    root.say("block", "Now the rest.")
    root.lost("resume")
    assert root.say("tool", "step 1") is None
    assert root.say("block", "Now the rest.") is None
    assert root.say("block", "step 1") == 2


def test_a_block_of_a_resumed_attempt_may_echo_what_the_lost_one_sent_by_tool() -> None:
    root = Root()
    root.say("tool", "step 1")
    root.lost("resume")
    assert root.say("block", "step 1") == 0


def test_an_answer_recalled_from_the_agents_history_consumes_like_a_restart() -> None:
    root = Root()
    root.say("block", "On it.")
    root.lost("recall")
    assert [root.say("block", "On it."), root.say("block", "Done.")] == [0, None]


def test_an_original_that_was_rejected_or_dropped_has_no_echoes() -> None:
    root = Root()
    root.say("tool", "Hi")
    root.falls(0)
    assert root.say("block", "Hi") is None
    root.lost("restart")
    assert root.say("tool", "Hi") == 1


def test_an_echo_of_something_that_fell_later_is_no_original_either() -> None:
    root = Root()
    root.say("tool", "Hi")
    root.lost("restart")
    assert root.say("tool", "Hi") == 0
    root.falls(0)
    assert root.say("block", "Hi") is None


@pytest.mark.parametrize("outcome", ["refused", "quiet"])
def test_what_was_never_said_has_no_echoes(outcome: str) -> None:
    earlier = [PriorClaim(1, "tool", 1, outcome)]  # type: ignore[arg-type]
    for attempt in ("start", "restart", "resume", "recall"):
        assert find_original(how="block", turn=2, attempt=attempt, earlier=earlier) is None


def test_a_notice_of_ours_is_no_original() -> None:
    earlier = [PriorClaim(1, "notice", 1, "said")]
    assert find_original(how="block", turn=2, attempt="restart", earlier=earlier) is None


def test_a_file_is_a_copy_only_of_the_same_file() -> None:
    root = Root()
    root.say("tool", "Here you are", more=b"report")
    root.lost("restart")
    assert root.say("tool", "Here you are", more=b"chart") is None
    assert root.say("tool", "Here you are", more=b"report") == 0
    assert root.say("block", "Here you are") is not None


STEPS = st.lists(st.tuples(st.sampled_from(["tool", "block"]), st.sampled_from("ab")), max_size=8)


@given(STEPS, st.integers(0, 8))
@settings(max_examples=count_examples(500))
def test_a_restart_that_does_the_same_again_shows_everything_exactly_once(
    steps: list[tuple[ClaimWay, str]], reached: int
) -> None:
    whole, root = Root(), Root()
    for how, text in steps:
        whole.say(how, text)
    for how, text in steps[:reached]:
        root.say(how, text)
    root.lost("restart")
    for how, text in steps:
        root.say(how, text)
    shown = [sorted(form for _, form, claim in r.claims if claim.outcome == "said") for r in (whole, root)]
    assert shown[0] == shown[1]


@given(STEPS)
def test_in_one_attempt_only_blocks_are_echoes_and_only_of_tools(steps: list[tuple[ClaimWay, str]]) -> None:
    root = Root()
    for how, text in steps:
        of = root.say(how, text)
        sent = any(c.how == "tool" and form == text for _, form, c in root.claims[:-1])
        assert (of is not None) == (how == "block" and sent)


@pytest.mark.parametrize("text", ["", " \n\t", QUIET_WORD, f"\n{QUIET_WORD}  "])
def test_white_space_and_the_quiet_word_alone_are_quiet(text: str) -> None:
    assert is_quiet(text)


@pytest.mark.parametrize(
    "text", ["no_reply", f"{QUIET_WORD}.", f"I answer {QUIET_WORD}", f"```\n{QUIET_WORD}\n```", "."]
)
def test_anything_else_is_not_quiet(text: str) -> None:
    assert not is_quiet(text)


def test_the_quiet_words_can_be_chosen() -> None:
    assert is_quiet("stay silent", ["stay  silent"])
    assert not is_quiet(QUIET_WORD, [])


def test_a_block_that_ends_after_another_prompt_joined_is_no_echo_of_what_was_said_before() -> None:
    root = Root()
    root.say("tool", "Done.")
    root.joins()
    assert root.say("block", "Done.") is None
    root.say("tool", "Done.")
    assert root.say("block", "Done.") == 2


@pytest.mark.parametrize("attempt", ["resume", "restart", "recall"])
def test_what_joined_a_lost_attempt_is_answered_by_the_end_of_the_next_one(attempt: Attempt) -> None:
    root = Root()
    root.say("tool", "Done.")
    root.joins()
    root.lost(attempt)
    assert root.say("block", "Done.", last=True) is None


def test_a_restart_consumes_what_was_said_before_a_prompt_joined_but_with_its_last_block() -> None:
    root = Root()
    root.say("block", "Yes.")
    root.joins()
    root.say("block", "Yes.")
    root.lost("restart")
    assert [root.say("block", "Yes."), root.say("block", "Yes.", last=True)] == [0, 1]


def test_a_prompt_that_joins_a_restart_leaves_nothing_said_before_it_to_consume() -> None:
    root = Root()
    root.say("block", "Yes.")
    root.lost("restart")
    root.joins()
    assert root.say("block", "Yes.") is None


def test_after_a_correction_each_block_said_before_is_repeated_once_for_nothing() -> None:
    root = Root()
    root.say("block", "Hello.")
    root.say("block", "ha")
    root.say("block", "ha")
    root.corrected()
    assert [root.say("block", "Hello."), root.say("tool", "Hello.")] == [0, None]
    assert [root.say("tool", "ha"), root.say("block", "ha"), root.say("tool", "ha")] == [1, 1, 2]


def test_after_a_correction_a_tool_that_repeats_a_tool_is_said() -> None:
    root = Root()
    root.say("tool", "Hello.")
    root.corrected()
    assert [root.say("block", "Hello."), root.say("tool", "Hello.")] == [0, None]


WORDS = st.sampled_from("ab")
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["tool", "block"]), WORDS),
        st.sampled_from([("joins", ""), ("falls", ""), ("corrected", "")]),
        st.tuples(st.just("lost"), st.sampled_from(["restart", "resume", "recall"])),
    ),
    max_size=14,
)


@given(DEEDS)
@settings(max_examples=count_examples(600), deadline=None)
def test_nobody_waits_for_words_and_nobody_reads_them_twice_for_nothing(deeds: list[tuple[str, str]]) -> None:
    """Judged from the law: what an echo may be, and what must be said, whatever happened in which order."""
    root = Root()
    said: list[tuple[int, str, str, int]] = []  # id, how, text, prompts that had joined: what stands
    prompts = own = 0
    for what, text in deeds:
        if what == "joins":
            prompts, own = prompts + 1, own + 1
            root.joins()
        elif what == "corrected":
            root.corrected()
        elif what == "lost":
            own = 0
            root.lost(text)  # type: ignore[arg-type]
        elif what == "falls" and said:
            root.falls(said.pop()[0])
        elif what in ("tool", "block"):
            of = root.say(what, text)  # type: ignore[arg-type]
            equal = [one for one in said if one[2] == text]
            if of is not None:
                assert of in [one[0] for one in equal], "an echo of what stands, in the same words"
            if what == "block" and own:
                fresh = [one[0] for one in equal if one[3] == prompts]
                assert of is None or of in fresh, "an answer to the newest prompt was swallowed"
            told = [one for one in equal if one[1] == "tool" and one[3] == prompts]
            if what == "block" and told:
                assert of is not None, "what a tool just said was said again"
            if of is None:
                said.append((len(root.claims) - 1, what, text, prompts))


@pytest.mark.parametrize("attempt", ["start", "restart", "resume", "recall"])
def test_a_block_that_breaks_off_in_what_a_tool_sent_is_an_echo_of_it(attempt: Attempt) -> None:
    root = Root()
    root.say("tool", "Your report is ready.")
    if attempt != "start":
        root.lost(attempt)
    assert root.breaks_off("Your report  is re") == 0
    assert root.breaks_off("your report is re") is None
    assert root.breaks_off("Your report is re", dest="elsewhere") is None


@pytest.mark.parametrize("attempt", ["restart", "resume", "recall"])
def test_a_block_that_breaks_off_in_what_a_lost_attempt_said_is_an_echo_of_it(attempt: Attempt) -> None:
    root = Root()
    root.say("block", "It is 42, all told.")
    assert root.breaks_off("It is 42,") is None, "people saw it grow: it may be a repeat that is meant"
    root.lost(attempt)
    assert root.breaks_off("It is 42,") == 0


def test_what_fell_has_no_echo_that_broke_off() -> None:
    root = Root()
    root.say("tool", "Your report is ready.")
    root.falls(0)
    assert root.breaks_off("Your report is re") is None


def test_what_breaks_off_behind_a_prompt_that_joined_answers_that_one() -> None:
    root = Root()
    root.say("tool", "Your report is ready.")
    root.joins()
    assert root.breaks_off("Your report is re", last=True) is None
    root.lost("restart")
    assert root.breaks_off("Your report is re", last=True) is None
    assert root.breaks_off("Your report is re") == 0


def test_what_breaks_off_after_a_correction_may_be_an_echo_of_what_was_said_before_it() -> None:
    root = Root()
    root.say("block", "It is 42, all told.")
    root.corrected()
    root.say("block", "Other words, all told.")
    assert root.breaks_off("It is 42,") == 0
    assert root.breaks_off("Other words,") is None


def test_a_text_begins_like_another_in_its_verbatim_form() -> None:
    assert may_become("Hello  big\nwor", "Hello big world")
    assert may_become("Hello big world", "Hello big world")
    assert not may_become("Hello big world, and", "Hello big world")
    assert may_become("```\nls\n", "```\nls\n```")
    assert not may_become("```\nls  x", "```\nls -l\n```")
