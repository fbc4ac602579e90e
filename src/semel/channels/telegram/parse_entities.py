"""Convert a message's text and entities to Markdown, and detect whether the message mentions us."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.channels.entity_spans import EntitySpan, convert_entities, to_markdown

_COMMAND = re.compile(r"/(\w+)@(\w+)")


@dataclass(frozen=True)
class BotIdentity:
    """Our bot's id and user name, from getMe."""

    id: int
    username: str  # without the @


def mentions_us(span: EntitySpan, text: str, us: BotIdentity) -> bool:
    """Whether this entity mentions us: our name, or a command with our name. A bare command may be for another bot."""
    covered = text[span.lo : span.hi].lower()
    if span.kind == "mention":
        return covered == f"@{us.username.lower()}"
    if span.kind == "text_mention":
        return (span.entity.get("user") or {}).get("id") == us.id
    if span.kind == "bot_command":
        return covered.partition("@")[2] == us.username.lower()
    return False


def read_text(text: str, entities: Sequence[Any], us: BotIdentity) -> tuple[str, bool]:
    """Return (the text as Markdown, whether it mentions us).

    Code, text links and struck text become Markdown, because plain text would change their meaning. A mention of us at
    the beginning is removed unless nothing else is left, and so is our name after a command.
    """
    entity_spans = convert_entities(text, entities)
    mentioned = any(mentions_us(span, text, us) for span in entity_spans)
    start = _skip_mention(text, entity_spans, us)
    markdown = to_markdown(text, entity_spans, start)
    command = _COMMAND.match(markdown)
    if command is not None and command[2].lower() == us.username.lower():
        markdown = f"/{command[1]}{markdown[command.end() :]}"
    return markdown, mentioned


def _skip_mention(text: str, entity_spans: Sequence[EntitySpan], us: BotIdentity) -> int:
    """Return the index where the text starts after a leading mention of us; 0 without one."""
    if (
        not entity_spans
        or text[: entity_spans[0].lo].strip()
        or entity_spans[0].kind not in ("mention", "text_mention")
    ):
        return 0
    if not mentions_us(entity_spans[0], text, us):
        return 0
    separator = re.compile(r"[\s,:]*").match(text, entity_spans[0].hi)
    start = separator.end() if separator is not None else entity_spans[0].hi
    return start if text[start:].strip() else 0
