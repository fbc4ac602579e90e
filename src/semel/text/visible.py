"""Find and remove invisible characters in untrusted text, and show control characters as visible stand-ins.

Invisible characters can hide the meaning of a text, the end of a name, or an imitated mark. A control character could
move a terminal's cursor, forge a line or vanish in a browser; a bidirectional override could reorder the text next to
it. For display, stand-ins replace control characters and overrides; none is dropped (Law 8), and stored text does not
change.
Direction marks (U+200E, U+200F, U+061C) stay, because Hebrew and Arabic need them.
"""

from __future__ import annotations

import re
from unicodedata import category

_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a symbol without a glyph: the Hangul fillers and the empty Braille pattern."""
_MARKS = "\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Combining marks without a glyph: the grapheme joiner, two Khmer vowels, variation selectors."""
_RESERVED = "\u2065\ufff0-\ufff8\U000e0000-\U000e0fff"
"""Unassigned code points that renderers ignore (Unicode property Default_Ignorable_Code_Point)."""
_IGNORED = re.compile(f"[{_FILLERS}{_MARKS}{_RESERVED}]")
JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: harmless, and needed in Persian words and emoji."""
_KINDS = frozenset(("Cc", "Cf", "Zl", "Zp"))
_RUNS = re.compile(r"\s+")


def is_unseen(char: str) -> bool:
    """Whether a character has no glyph of its own: a control, format or filler character. A blank does not count."""
    return category(char) in _KINDS or _IGNORED.match(char) is not None


def remove_unseen(text: str, keep: str = "") -> str:
    """Remove invisible characters, except those in `keep`. Blanks stay; line ends are control characters and go."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([char for char in text if char in keep or not is_unseen(char)])


def squeeze_to_line(text: str) -> str:
    """Put the text on one line: each run of white space becomes one blank, and invisible characters are removed."""
    return " ".join(remove_unseen(_RUNS.sub(" ", text)).split())


# ---------------------------------------------------------------- stand-ins

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_REPLACEMENT = "\ufffd"


def visible(text: str) -> str:
    """Replace control characters by control pictures, and bidirectional overrides by their code points (<U+202E>).

    Line breaks and tabs stay; CR LF becomes LF.
    """
    return text if text.isprintable() else _CONTROL.sub(_replace_match, text.replace("\r\n", "\n"))


def visible_within(text: str, fits: bool) -> str:
    """Like `visible`; but if `fits` is false, replace each such character by U+FFFD, so that the text does not grow."""
    return visible(text) if fits else _CONTROL.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def is_blank(text: str) -> bool:
    """Whether a reader sees nothing of the text: each character is white space, or has neither glyph nor stand-in."""
    stripped = text.strip()
    return not stripped or (
        all(char.isspace() or is_unseen(char) for char in stripped) and visible(stripped) == stripped
    )


def escape_json(text: str) -> str:
    """Escape the control characters and bidirectional overrides in a JSON text, so that it can be shown.

    `json.dumps` may leave C1 controls (U+009B begins a terminal sequence, as ESC [ does) and overrides unescaped. In
    JSON both occur only inside strings, where an escape means the same.
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _replace_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the Unicode block "Control Pictures"
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
