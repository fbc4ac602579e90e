"""Texts as the Bot API counts and checks them: UTF-16 code units, and entities that lie inside the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semel.testing.telegram.errors import bad_request

Json = dict[str, Any]

MESSAGE = 4096
"""UTF-16 code units of a message's text, after entities parsing."""
CAPTION = 1024
"""UTF-16 code units of a caption, after entities parsing."""
ENTITIES = 100
"""Entities of one message; Telegram drops those beyond, without a word."""

_STYLES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
_QUOTES = frozenset({"blockquote", "expandable_blockquote"})
_FOUND = frozenset({"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"})
_RUNS = frozenset({"code", "pre", "text_link", "text_mention", "custom_emoji"}) | _FOUND


def utf16(text: str) -> int:
    """Its length as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, offset: int, length: int) -> str:
    """The part of a text that an entity covers."""
    return text.encode("utf-16-le")[offset * 2 : (offset + length) * 2].decode("utf-16-le", "replace")


def checked(text: str, entities: Sequence[Json], most: int, what: str) -> tuple[str, list[Json]]:
    """The text as it is kept, trimmed, and its entities. Raises ApiError, as Telegram answers.

    Where Telegram would mend entities silently (an unknown type, a partial overlap, a style over code), this
    refuses, so that a renderer's mistake shows.
    """
    size = utf16(text)
    for each in entities:
        _inside(each, text, size)
    _nested(entities)
    kept = text.strip()
    before = utf16(text) - utf16(text.lstrip())
    if not kept and what == "message text":
        raise bad_request("message text is empty")
    if utf16(kept) > most:
        raise bad_request("message is too long" if what == "message text" else "message caption is too long")
    moved = [_moved(each, before, utf16(kept)) for each in entities]
    return kept, [each for each in moved if each is not None][:ENTITIES]


def _inside(entity: Json, text: str, size: int) -> None:
    kind, offset, length = entity.get("type"), entity.get("offset"), entity.get("length")
    if not isinstance(offset, int) or not isinstance(length, int) or offset < 0 or length <= 0:
        raise bad_request(f"can't parse entities: the entity {kind} has a wrong offset or length")
    if kind not in _STYLES | _QUOTES | _RUNS:
        raise bad_request(f"can't parse entities: unsupported entity type {kind!r}")
    if kind == "text_link" and not str(entity.get("url", "")):
        raise bad_request("can't parse entities: a text_link has no url")
    if offset + length > size:
        end = f"ends after the end of the text at UTF-16 offset {offset + length}"
        raise bad_request(f"entity beginning at UTF-16 offset {offset} {end}")
    raw = text.encode("utf-16-le")
    for at in (offset, offset + length):
        if at < size and 0xDC <= raw[at * 2 + 1] <= 0xDF:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at byte offset {at}")
    if not cut(text, offset, length).strip():
        raise bad_request(f"can't parse entities: the entity {kind} at {offset} covers white space only")


def _nested(entities: Sequence[Json]) -> None:
    """https://core.telegram.org/bots/api#formatting-options: disjoint, or one inside the other, and not all in all."""
    for n, one in enumerate(entities):
        for other in entities[n + 1 :]:
            a, b = sorted((one, other), key=lambda each: (each["offset"], -each["length"]))
            if b["offset"] >= a["offset"] + a["length"]:
                continue
            pair = f"{a['type']} at {a['offset']} and {b['type']} at {b['offset']}"
            if b["offset"] + b["length"] > a["offset"] + a["length"]:
                raise bad_request(f"can't parse entities: {pair} overlap in part")
            if not _may_nest(str(a["type"]), str(b["type"])):
                raise bad_request(f"can't parse entities: {pair} cannot be nested")


def _may_nest(one: str, other: str) -> bool:
    kinds = {one, other}
    if kinds & {"code", "pre"}:
        return bool(kinds & _QUOTES)
    if kinds <= _QUOTES or kinds <= _RUNS:
        return False
    return one != other


def _moved(entity: Json, before: int, size: int) -> Json | None:
    lo = max(0, int(entity["offset"]) - before)
    hi = min(size, int(entity["offset"]) + int(entity["length"]) - before)
    return {**entity, "offset": lo, "length": hi - lo} if hi > lo else None
