"""Count and check texts as the Bot API does: in UTF-16 code units, with entities inside the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from semel.testing.telegram.model import bad_request
from semel.text.json_types import Json

MAX_MESSAGE_UNITS = 4096
"""The maximum length of a message's text in UTF-16 code units, after entities parsing."""
MAX_CAPTION_UNITS = 1024
"""The maximum length of a caption in UTF-16 code units, after entities parsing."""
MAX_ENTITIES = 100
"""The maximum number of entities of one message; Telegram silently drops all others."""

_STYLES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
_QUOTES = frozenset({"blockquote", "expandable_blockquote"})
_DETECTED = frozenset({"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"})
_RUNS = frozenset({"code", "pre", "text_link", "text_mention", "custom_emoji"}) | _DETECTED
_DETECTORS = (
    ("bot_command", re.compile(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@\w{3,32})?")),
    ("url", re.compile(r"https?://\S+")),
    ("mention", re.compile(r"(?<![\w/@])@\w{3,32}")),
)


def count_utf16_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def covered_text(text: str, offset: int, length: int) -> str:
    """Return the part of a text that an entity covers. `offset`, `length`: in UTF-16 code units."""
    return text.encode("utf-16-le")[offset * 2 : (offset + length) * 2].decode("utf-16-le", "replace")


def check_text(text: str, entities: Sequence[Json], max_units: int, field_name: str) -> tuple[str, list[Json]]:
    """Check a text and its entities. Returns the trimmed text and the entities, as Telegram stores them.

    `max_units`: the maximum length of the trimmed text in UTF-16 code units. `field_name`: the text's name in errors;
    only a "message text" must not be empty. Raises ApiError with Telegram's error, also where Telegram would silently
    correct entities (an unknown type, a partial overlap, a style over code), so that tests find mistakes of a renderer.
    """
    size = count_utf16_units(text)
    for entity in entities:
        _check_offsets(entity, text, size)
    _check_nesting(entities)
    trimmed = text.strip()
    before = count_utf16_units(text) - count_utf16_units(text.lstrip())
    if not trimmed and field_name == "message text":
        raise bad_request("message text is empty")
    if count_utf16_units(trimmed) > max_units:
        raise bad_request(f"{field_name.removesuffix(' text')} is too long")
    moved = [_move_entity(entity, before, count_utf16_units(trimmed)) for entity in entities]
    return trimmed, [entity for entity in moved if entity is not None][:MAX_ENTITIES]


def _check_offsets(entity: Json, text: str, size: int) -> None:
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
    if not covered_text(text, offset, length).strip():
        raise bad_request(f"can't parse entities: the entity {kind} at {offset} covers white space only")


def _check_nesting(entities: Sequence[Json]) -> None:
    """Raise ApiError if two entities overlap in part, or are nested but of kinds that may not be nested.

    The rules: https://core.telegram.org/bots/api#formatting-options
    """
    for n, entity_a in enumerate(entities):
        for other in entities[n + 1 :]:
            a, b = sorted((entity_a, other), key=lambda each: (each["offset"], -each["length"]))
            if b["offset"] >= a["offset"] + a["length"]:
                continue
            pair = f"{a['type']} at {a['offset']} and {b['type']} at {b['offset']}"
            if b["offset"] + b["length"] > a["offset"] + a["length"]:
                raise bad_request(f"can't parse entities: {pair} overlap in part")
            if not _may_nest(str(a["type"]), str(b["type"])):
                raise bad_request(f"can't parse entities: {pair} cannot be nested")


def _may_nest(kind: str, other_kind: str) -> bool:
    kinds = {kind, other_kind}
    if kinds & {"code", "pre"}:
        return bool(kinds & _QUOTES)
    if kinds <= _QUOTES or kinds <= _RUNS:
        return False
    return kind != other_kind


def _move_entity(entity: Json, before: int, size: int) -> Json | None:
    lo = max(0, int(entity["offset"]) - before)
    hi = min(size, int(entity["offset"]) + int(entity["length"]) - before)
    return {**entity, "offset": lo, "length": hi - lo} if hi > lo else None


def detect_entities(text: str) -> list[Json]:
    """Return the entities that Telegram detects in a person's text, such as URLs; in order, without overlaps."""
    spans: list[tuple[int, int, str]] = []
    for kind, pattern in _DETECTORS:
        for match in pattern.finditer(text):
            lo, hi = match.span()
            if not any(a < hi and lo < b for a, b, _ in spans):
                spans.append((lo, hi, kind))
    return [
        {"type": kind, "offset": count_utf16_units(text[:lo]), "length": count_utf16_units(text[lo:hi])}
        for lo, hi, kind in sorted(spans)
    ]
