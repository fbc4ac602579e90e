"""Parse JSON5 (https://spec.json5.org), in which people write OpenClaw's configuration, by rewriting it as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n\r]* | /\*.*?\*/ )
  | (?P<string> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
  | (?P<mark> [{}\[\],:] )
  | (?P<word> [^\s{}\[\],:"'/]+ )
    """,
    re.S | re.X,
)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|\r\n|.)|\"", re.S)
_NUMBER = re.compile(r"([+-]?)(0[xX][0-9A-Fa-f]+|Infinity|NaN|[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)")


def parse_json5(text: str) -> Any:
    """Return a JSON5 document's value. Raises ValueError."""
    if broken := _TOKEN.sub("", text).strip():
        raise ValueError(f"a string or comment that begins with {broken[0]} has no end")
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        piece = match[0]
        match match.lastgroup:
            case "comment":
                continue
            case "string":
                tokens.append(f'"{_ESCAPE.sub(_as_json_escape, piece[1:-1])}"')
            case "word":
                tokens.append(_as_json_word(piece))
            case _:
                if piece in "}]" and tokens and tokens[-1] == ",":
                    tokens.pop()
                if piece == ":" and tokens and not tokens[-1].startswith('"'):
                    tokens[-1] = json.dumps(tokens[-1])
                tokens.append(piece)
    return json.loads(" ".join(tokens), strict=False)


def _as_json_escape(match: re.Match[str]) -> str:
    """Return what stands in a JSON string for an escape, or for a quotation mark, of a JSON5 string."""
    escaped = match[1]
    if escaped is None:
        return '\\"'
    if escaped in ("\n", "\r", "\r\n", "\u2028", "\u2029"):
        return ""  # the string goes on in the next line
    if len(escaped) == 3:
        return f"\\u00{escaped[1:]}"
    if escaped == "0":
        return "\\u0000"
    if escaped == "v":
        return "\\u000b"
    return f"\\{escaped}" if escaped in '"\\/bfnrtu' else escaped


def _as_json_word(word: str) -> str:
    """Return a number as JSON writes it, and any other word as it is."""
    number = _NUMBER.fullmatch(word)
    if not number or not number[2].strip(".eE+-"):
        return word
    sign, digits = number[1].replace("+", ""), number[2]
    if digits[:2] in ("0x", "0X"):
        return f"{sign}{int(digits, 16)}"
    if digits in ("Infinity", "NaN"):
        return f"{sign}Infinity" if digits == "Infinity" else digits
    try:
        return repr(float(f"{sign}{digits}")) if "." in digits or "e" in digits.lower() else f"{sign}{digits}"
    except ValueError:
        return word
