"""Text of agents and strangers on somebody's terminal: it is shown, and cannot command the terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Control characters as pictures: an escape sequence could move the cursor, set the title, forge lines.

    Line breaks and tabs stay; CR LF is one line break. Bidirectional overrides are shown, not obeyed.
    """
    return _CONTROL.sub(_picture, text.replace("\r\n", "\n"))


def escaped(json: str) -> str:
    """The same JSON, all of it visible: `json.dumps` leaves C1 controls (U+009B begins a sequence, as ESC [ does) and
    bidirectional overrides as they are. They stand in strings alone, where an escape means the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the Unicode block "Control Pictures"
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
