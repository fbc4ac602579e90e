"""Render Markdown for Mattermost, which shows Markdown itself
(https://docs.mattermost.com/end-user-guide/collaborate/format-messages.html): the text goes as the agent wrote it.

Whole channels are not called by accident: `@all`, `@channel` and `@here` are shown. People are mentioned as `@name`.
"""

from __future__ import annotations

import re

from semel.text.visible import visible, visible_within
from semel.text.wellformed import scrub

MAX_TEXT_CHARS = 16_383
"""Maximum length of a post's message."""
_CALLS = re.compile(r"@(?=(?:all|channel|here)\b)", re.I)
_WORD_JOINER = "\u2060"


def render(text: str) -> str:
    """Return a post's message: the Markdown as written, with stand-ins for characters that nobody sees."""
    plain = scrub(text.strip())
    shown = visible_within(plain, len(visible(plain)) <= MAX_TEXT_CHARS)
    quiet = _CALLS.sub("@" + _WORD_JOINER, shown)
    return quiet if len(quiet) <= MAX_TEXT_CHARS else shown
