"""Law 1: what is the same session, the same event, the same content."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.law.identity import (
    BadFields,
    BadKey,
    Grant,
    Route,
    check_event_key,
    check_session_key,
    derive_route,
    digest_fields,
    escape_address,
    judge_repeat,
    unescape_address,
)

AGENTS, CHANNELS = ("main", "coder"), ("telegram", "irc", "matrix")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("key", ["main:telegram:-1003774691294:topic-1", "a", "x" * 200, "a.b_c:@!+=~-9"])
def test_a_session_key_of_the_grammar_is_taken_as_it_is(key: str) -> None:
    assert check_session_key(key) == key


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("", "is empty; give it"),
        ("x" * 201, "shorten it to at most 200"),
        ("a b/c", "holds ' ', '/'; use letters"),
        ("key\n", r"holds '\\n'; use letters"),
        ("é", r"'\\xe9'"),
        ("٣", "use letters, digits"),
    ],
)
def test_any_other_session_key_is_refused_with_what_to_do(key: str, advice: str) -> None:
    with pytest.raises(BadKey, match=advice):
        check_session_key(key)


@given(st.text(max_size=20))
def test_an_address_fits_into_a_key_and_comes_back_whole(address: str) -> None:
    escaped = escape_address(address)
    assert unescape_address(escaped) == address
    assert escaped == "" or check_session_key(escaped[:200])


@given(st.lists(st.text(max_size=6), min_size=2, max_size=2, unique=True))
def test_two_addresses_never_share_an_escaped_form(pair: list[str]) -> None:
    assert escape_address(pair[0]) != escape_address(pair[1])


def test_escaping_leaves_the_usual_platform_addresses_readable() -> None:
    assert escape_address("-1003774691294") == "-1003774691294"
    assert escape_address("!room:example.org") == "!room:example.org"
    assert escape_address("#général") == "~23g~C3~A9n~C3~A9ral"
    assert escape_address("a~b \ud800") == "a~7Eb~20~ED~A0~80"


@pytest.mark.parametrize("text", ["~", "~2", "~zz", "~c3~a9", "~41", "~FF", "a b", "é"])
def test_what_was_never_escaped_is_not_unescaped(text: str) -> None:
    with pytest.raises(BadKey, match="is not an escaped address"):
        unescape_address(text)


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("main:telegram:-100:topic-1", Route("main", "telegram:-100:topic-1")),
        ("coder:irc:~23semel", Route("coder", "irc:#semel")),
        ("coder:irc:~oops", Route("coder", "irc:~oops")),
        ("nobody:telegram:-100", Route("main", "telegram:-100")),
        ("main:telegram", Route("main", "web:main:telegram")),
        ("main:telegram:", Route("main", "web:main:telegram:")),
        ("coder:notes", Route("coder", "web:coder:notes")),
        ("telegram:-100", Route("main", "web:telegram:-100")),
        ("hello", Route("main", "web:hello")),
        ("coder", Route("coder", "web:coder")),
    ],
)
def test_a_session_key_names_its_agent_and_its_home(key: str, want: Route) -> None:
    assert derive_route(key, AGENTS, CHANNELS, "main") == want


@pytest.mark.parametrize(
    ("key", "patterns", "own", "home"),
    [
        ("ci:telegram:-100", ["ci:*"], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", ["*"], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", ["*:*:*"], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", ["ci:tele*:*"], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", ["ci:telegram*"], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", [], "", "web:ci:telegram:-100"),
        ("ci:telegram:-100", ["ci:telegram:*"], "", "telegram:-100"),
        ("ci:telegram:-100", ["ci:telegram:-100"], "", "telegram:-100"),
        ("ci:telegram:-100", ["c?:telegram:-1*"], "", "telegram:-100"),
        ("ci:telegram:-100", ["ci:*", "*:telegram:-100"], "", "telegram:-100"),
        ("ci:telegram:-100", ["ci:*"], "telegram", "telegram:-100"),
        ("ci:irc:x", ["ci:*", "ci:telegram:*"], "telegram", "web:ci:irc:x"),
        ("ci:irc:x:telegram:-100", ["*:telegram:-100"], "", "web:ci:irc:x:telegram:-100"),
        ("ci:telegram:x:telegram:-100", ["*:telegram:-100"], "", "web:ci:telegram:x:telegram:-100"),
        ("t:telegram:evil", ["[a:telegram:t]*"], "", "web:t:telegram:evil"),
        ("ci:telegram", ["ci:telegram"], "", "web:ci:telegram"),
        ("ci:build", ["ci:*"], "", "web:ci:build"),
    ],
)
def test_who_is_not_the_owner_makes_a_home_only_where_a_pattern_names_the_channel(
    key: str, patterns: list[str], own: str, home: str
) -> None:
    assert derive_route(key, AGENTS, CHANNELS, "main", Grant(patterns, own)) == Route("main", home)


@pytest.mark.parametrize("key", ["m1", "x" * 512, "ключ", "a\u2028b", " "])
def test_an_event_key_is_any_text_of_512_characters(key: str) -> None:
    assert check_event_key(key) == key


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("", "leave it out"),
        ("x" * 513, "shorten it"),
        ("a\x00", "at position 1"),
        ("\x7f", "control"),
        ("\x85", "control"),
        ("a\ud800", "position 1"),
    ],
)
def test_an_event_key_that_cannot_be_kept_is_refused_with_what_to_do(key: str, advice: str) -> None:
    with pytest.raises(BadKey, match=advice):
        check_event_key(key)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_digest_does_not_depend_on_the_order_of_the_fields(fields: dict[str, object]) -> None:
    assert digest_fields(dict(reversed(fields.items()))) == digest_fields(fields)
    assert len(digest_fields(fields)) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"text": "é"}, {"text": "e\u0301"}),  # no Unicode folding: other bytes are other content
        ({"text": "a"}, {"text": "A"}),
        ({"text": "a "}, {"text": "a"}),
        ({"n": 1}, {"n": "1"}),
        ({"n": 1}, {"n": 1.0}),
        ({"n": 1}, {"n": True}),
        ({"n": None}, {}),
        ({"a": ["b", "c"]}, {"a": ["bc"]}),
        ({"a": {"b": 1}}, {"a": {}, "b": 1}),
        ({"a": "\ud800"}, {"a": "\udc00"}),
    ],
)
def test_other_content_has_another_digest(one: dict[str, object], other: dict[str, object]) -> None:
    assert judge_repeat(digest_fields(one), digest_fields(other)) == "conflict"


def test_equal_content_is_a_duplicate_and_its_digest_is_fixed_for_ever() -> None:
    first = digest_fields({"text": "hi", "sender": None})
    assert judge_repeat(first, digest_fields({"sender": None, "text": "hi"})) == "duplicate"
    assert first.hex() == "7c3412dffef62d808bd306e9f5397269"
    assert digest_fields({"a": (1, 2)}) == digest_fields({"a": [1, 2]})


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (math.nan, "JSON has no such number"),
        (-math.inf, "JSON has no such number"),
        (b"x", "hold a bytes; send a JSON value"),
        ({1, 2}, "hold a set"),
        ({1: 2}, "names must be strings"),
        pytest.param(10**5000, "send a string", id="huge"),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_the_place_and_what_to_do(value: object, advice: str) -> None:
    with pytest.raises(BadFields, match=advice):
        digest_fields({"data": [value]})


def test_nesting_without_end_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadFields, match="nested too deeply"):
        digest_fields({"data": deep})
