"""No honest character is lost (law 8): ordinary token streams are plain concatenation, whatever the agent."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream_help import call, folded, messages, result, run, say, think, thoughts
from stream_honest import PHRASES, lost_texts

from fewer_cases import count_examples
from semel.acp_stream import PROFILES, Fold, Grew, Profile

profiles = st.sampled_from(sorted(PROFILES.values(), key=lambda p: p.name))


@st.composite
def chunked(draw: st.DrawFn, alphabet: st.SearchStrategy[str] | None = None) -> list[str]:
    """Any text, cut anywhere."""
    text = draw(st.text(alphabet, max_size=200) if alphabet is not None else st.text(max_size=200))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=30)) | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(cuts) if text[a:b]]


small = st.sampled_from("ab \n")
phrases = st.lists(st.sampled_from(PHRASES), min_size=1, max_size=4).map("".join)
verses = st.builds(lambda phrase, times, rest: phrase * times + rest, phrases, st.integers(1, 6), phrases)
tokens = st.lists(
    st.sampled_from(["ha", "1", "0", "\n", " ", "the", " the", "|---", "- ", "```", "é", "na", "word word "]),
    max_size=60,
)


def live(chunks: list[str], profile: Profile, kind: str = "message", mid: str | None = None) -> str:
    """The text of one block as a person sees it, from the items and from the operations."""
    send = say if kind == "message" else think
    a_fold, board = run([send(chunk, mid) for chunk in chunks], profile)
    texts = [item.text for item in a_fold.items()]
    assert len(texts) <= 1, "one block stays one item"
    assert [item["text"] for item in board.items.values()] == texts
    return "".join(texts)


@given(chunked(), profiles)
@settings(max_examples=count_examples(300), deadline=None)
def test_any_text_in_any_chunks_by_any_agent_is_that_text(chunks: list[str], profile: Profile) -> None:
    assert live(chunks, profile, mid="msg_1") == "".join(chunks)


@given(chunked(), profiles)
@settings(max_examples=count_examples(300), deadline=None)
def test_any_thought_in_any_chunks_by_any_agent_is_that_thought(chunks: list[str], profile: Profile) -> None:
    assert live(chunks, profile, "thought", mid="msg_1") == "".join(chunks)


@given(chunked(small), profiles)
@settings(max_examples=count_examples(300), deadline=None)
def test_texts_of_few_letters_repeat_themselves_honestly(chunks: list[str], profile: Profile) -> None:
    assert live(chunks, profile, mid="msg_1") == "".join(chunks)


@given(tokens, profiles)
@settings(max_examples=count_examples(300), deadline=None)
@example(["1", "0", "0", "0"], PROFILES["codex-zed"])
@example(["ha", "ha"], PROFILES["careful"])
@example(["\n", "\n"], PROFILES["opencode"])
@example(["word word "] * 4, PROFILES["qwen"])
def test_tokens_that_come_again_are_said_again(chunks: list[str], profile: Profile) -> None:
    assert live(chunks, profile, mid="msg_1") == "".join(chunks)
    assert live(chunks, profile, "thought", mid="msg_1") == "".join(chunks)


@given(verses, st.integers(1, 60), st.integers(0, 60), profiles)
@settings(max_examples=count_examples(300), deadline=None)
@example(PHRASES[0] * 2 + "Good night.", 1, 0, PROFILES["codex-zed"])
def test_a_text_that_begins_with_the_same_words_twice_keeps_both(
    text: str, size: int, first: int, profile: Profile
) -> None:
    chunks = [text[:first], *(text[at : at + size] for at in range(first, len(text), size))]
    for kind in ("message", "thought"):
        assert live([chunk for chunk in chunks if chunk], profile, kind, mid="msg_1") == text


def test_no_character_of_thousands_of_honest_texts_is_lost_in_any_chunking_by_any_agent() -> None:
    assert [*lost_texts(4_000, seed=15)] == []


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("phrase", ["I love you. ", "a line of a list\n", "Amen, I say to you, "])
def test_an_answer_that_begins_with_its_phrase_twice_keeps_both_word_by_word(name: str, phrase: str) -> None:
    words = [word + " " for word in phrase.split(" ")[:-1]] + [phrase.split(" ")[-1]] * (not phrase.endswith(" "))
    for text, chunks in ((phrase * 2 + "And so on.", [*words, *words, "And so on."]), (phrase * 3, words * 3)):
        assert live(chunks, PROFILES[name], mid="msg_1") == text
        if not PROFILES[name].unidentified_is_notice:
            assert live(chunks, PROFILES[name]) == text


@pytest.mark.parametrize("name", PROFILES)
def test_lines_that_repeat_are_no_failed_starts(name: str) -> None:
    line = "I must not talk in class while the teacher speaks.\n"
    chunks = ["I must not", " talk in class", " while the", " teacher speaks", ".\n"] * 10
    assert live(chunks, PROFILES[name], mid="msg_1") == line * 10


@pytest.mark.parametrize("name", PROFILES)
def test_the_same_chunk_a_thousand_times_is_said_a_thousand_times(name: str) -> None:
    chunk = "the quick brown fox jumps over the lazy dog and on "
    for send in (say, think):
        a_fold, _ = run([send(chunk, "msg_1") for _ in range(1000)], PROFILES[name])
        assert "".join(item.text for item in a_fold.items()) == chunk * 1000


@pytest.mark.parametrize("name", PROFILES)
def test_text_after_a_tool_call_is_another_block(name: str) -> None:
    view = folded([say("One. ", "msg_1"), call(), result(status="completed"), say("Two.", "msg_1")], PROFILES[name])
    assert messages(view) == ["One. ", "Two."]


def test_a_new_message_id_is_a_new_message() -> None:
    assert messages(folded([say("One.", "A"), say("Two.", "B")])) == ["One.", "Two."]


def test_text_goes_on_where_a_thought_came_between() -> None:
    view = folded([say("Half a sen"), think("hm"), say("tence.")])
    assert messages(view) == ["Half a sentence."]
    assert thoughts(view) == ["hm"]


def test_every_chunk_of_plain_text_is_one_operation() -> None:
    a_fold = Fold()
    a_fold.update(say("x"))
    assert a_fold.update(say("word")) == [Grew(1, "word")]


def test_an_empty_chunk_makes_a_paragraph_but_no_third_newline() -> None:
    assert messages(folded([say("a\n"), say(""), say("b")])) == ["a\n\nb"]
    assert messages(folded([say("a\n\n"), say(""), say("b")])) == ["a\n\nb"]
    assert messages(folded([say(""), say("a"), say(""), say("")])) == ["a"]


@pytest.mark.parametrize("name", ["qwen", "fast-agent"])
def test_an_empty_chunk_that_only_carries_usage_says_nothing(name: str) -> None:
    assert messages(folded([say("a"), say(""), say("b")], PROFILES[name])) == ["ab"]


def test_an_empty_chunk_with_meta_says_nothing() -> None:
    assert messages(folded([say("a"), say("", _meta={"usage": {}}), say("b")])) == ["ab"]


def test_an_image_is_named_and_not_shown_as_text() -> None:
    image = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "QQ==", "mimeType": "image/png"},
    }
    view = folded([say("See: "), image])
    assert messages(view) == ["See: "]
    assert view.items[0].fields["content"] == [{"type": "image", "mimeType": "image/png", "size": 1}]
