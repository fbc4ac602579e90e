"""Make untrusted text safe to display: control characters are shown as visible stand-ins.

A control character could move a terminal's cursor, forge a line or vanish in a browser; a bidirectional override could
reorder the text next to it. Each is replaced by a stand-in for display, never dropped (Law 8); stored text does not
change. Direction marks (U+200E, U+200F, U+061C) stay, because Hebrew and Arabic need them.
"""

from __future__ import annotations

import re

from semel.text.invisible import is_unseen

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_REPLACEMENT = "\ufffd"


def visible(text: str) -> str:
    """Replace control characters by control pictures, and bidirectional overrides by their code points. Line breaks and
    tabs stay; CR LF becomes LF."""
    return text if text.isprintable() else _CONTROL.sub(_picture, text.replace("\r\n", "\n"))


def visible_within(text: str, fits: bool) -> str:
    """Like `visible`, but if `fits` is false, one U+FFFD replaces each such character, so the text does not grow."""
    return visible(text) if fits else _CONTROL.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def is_blank(text: str) -> bool:
    """Whether nothing of a text is seen: white space, and characters that have neither a shape nor a stand-in."""
    rest = text.strip()
    return not rest or (all(sign.isspace() or is_unseen(sign) for sign in rest) and visible(rest) == rest)


def escaped(json: str) -> str:
    """The same JSON, all of it visible: `json.dumps` leaves C1 controls (U+009B begins a sequence, as ESC [ does) and
    bidirectional overrides as they are. In JSON both occur only inside strings, where an escape means the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the Unicode block "Control Pictures"
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
