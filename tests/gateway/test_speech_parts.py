"""A block in whatever chunks: the same claims, and nothing seen early that is not said (Laws 5, 6, 8)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fewer_cases import count_examples
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.settings import DestinationSettings
from semel.gateway.turns.block_claims import BlockClaims
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.turns import turn_ops
from semel.text.verbatim import verbatim_form

WORDS = ("Done.", "Do", "It is 42. ", "\n", " ", "x")
TAGS = (
    '<message to="home">', '<message to="work">', "<message to=nobody>", '<MESSAGE TO="ME">', "</message>",
    "<internal>", "</internal>", "`", "```\n", '<message to="work"></message>',
)  # fmt: skip
TEXT = st.lists(st.sampled_from([*WORDS, *WORDS, *TAGS]), max_size=14).map("".join)
EDGES = st.lists(st.integers(0, 200), max_size=10)


def speech() -> BlockClaims:
    named = {"work": ("web", "work"), "me": ("web", "s")}
    places = Destinations(
        {n: DestinationSettings(name=n, channel=c, address=a, allow=("*",)) for n, (c, a) in named.items()}, {}, {}
    )
    out = BlockClaims("s", "web:s", places, ("work", "me"))
    out.hold_back(["Done."])
    return out


def chunks(text: str, edges: list[int]) -> list[str]:
    where = sorted({0, len(text), *(at % (len(text) + 1) for at in edges)})
    return [text[lo:hi] for lo, hi in pairwise(where)]


def speak(out: BlockClaims, pieces: list[str]) -> list[turn_ops.Op]:
    ops = out.begin_block(1)
    for piece in pieces:
        ops += out.grow_block(1, piece)
    return ops + out.end_block(1)


def says(ops: list[turn_ops.Op]) -> list[ClaimRequest]:
    return [say for op in ops if isinstance(op, turn_ops.Block) for say in op.requests]


def seen(ops: list[turn_ops.Op]) -> dict[int, str]:
    """What was previewed, by slot."""
    texts: dict[int, str] = {}
    for op in ops:
        if isinstance(op, turn_ops.Preview):
            texts[op.slot] = texts.get(op.slot, "") + op.text
        elif isinstance(op, turn_ops.Replace):
            texts[op.slot] = op.text
    return texts


@given(TEXT, EDGES)
@settings(max_examples=count_examples(400), deadline=None)
def test_the_claims_of_a_block_do_not_depend_on_its_chunks(text: str, edges: list[int]) -> None:
    assert says(speak(speech(), chunks(text, edges))) == says(speak(speech(), [text]))


@given(TEXT, EDGES)
@settings(max_examples=count_examples(400), deadline=None)
def test_what_is_seen_early_is_the_beginning_of_what_is_said_and_never_an_echo(text: str, edges: list[int]) -> None:
    ops = speak(speech(), chunks(text, edges))
    said = {op.slot: op.requests for op in ops if isinstance(op, turn_ops.Block)}
    for slot, shown in seen(ops).items():
        [say] = said[slot]
        assert say.is_home and not say.problem
        assert say.text.startswith(shown)
        assert verbatim_form(say.text) != "Done."


@given(TEXT, EDGES)
@settings(max_examples=count_examples(400), deadline=None)
def test_each_letter_outside_the_tags_is_said_once_or_held_back(text: str, edges: list[int]) -> None:
    told = "".join(say.text for say in says(speak(speech(), chunks(text, edges))))
    assert told.count("42") + text.count("<internal>") * 20 >= text.count("42")
    assert told.count("42") <= text.count("42")


@given(TEXT, TEXT, EDGES)
@settings(max_examples=count_examples(400), deadline=None)
def test_a_prompt_that_joins_cuts_a_block_without_losing_or_doubling_a_part(a: str, b: str, edges: list[int]) -> None:
    """The parts before and after are those of the whole block; bare text may be parted where the prompt joined."""
    out = speech()
    ops = out.begin_block(1)
    for piece in chunks(a, edges):
        ops += out.grow_block(1, piece)
    ops += out.before_join()
    for piece in chunks(b, edges):
        ops += out.grow_block(1, piece)
    ops += out.end_block(1)
    assert _bare(says(ops)) == _bare(says(speak(speech(), [a + b])))


def _bare(told: list[Any]) -> str:
    return "".join("".join(say.text.split()) for say in told)


def test_a_text_that_is_taken_back_whole_leaves_nothing_to_preview() -> None:
    out = speech()
    out.begin_block(1, "It is 41.")
    assert seen(out.replace_block(1, "")) == {1: ""}
    text = out.previewed_text()
    assert text is not None and text() == ""
    assert [*seen(out.grow_block(1, "It is 42.")).values()] == ["It is 42."]
    text = out.previewed_text()
    assert text is not None and text() == "It is 42."


def test_a_possible_echo_is_withheld_until_the_prompt_has_joined() -> None:
    """A block that ends before the join is still an echo, so it must not have been shown."""
    out = speech()
    out.begin_block(1, "Don", one_message=True)
    assert seen(out.before_join()) == {}
    assert seen(out.grow_block(1, "e")) == {}
    assert seen(out.after_join()) == {1: "Done"}
