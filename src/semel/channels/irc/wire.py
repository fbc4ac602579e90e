"""Messages of the protocol as bytes and as objects (https://modern.ircdocs.horse, IRCv3 message-tags), and names as
the server compares them."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

MAX_LINE_BYTES = 512
"""Longest line without tags, its end included. Servers cut what is longer, and say nothing."""
_NO_LINE_ENDS = bytes.maketrans(b"\x00\r\n", b"   ")
_UNESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_LOWER = dict(zip(string.ascii_uppercase, string.ascii_lowercase, strict=True))
_FOLDS = {
    "ascii": str.maketrans(_LOWER),
    "rfc1459": str.maketrans(_LOWER | {"[": "{", "]": "}", "\\": "|", "~": "^"}),
    "rfc1459-strict": str.maketrans(_LOWER | {"[": "{", "]": "}", "\\": "|"}),
    "strict-rfc1459": str.maketrans(_LOWER | {"[": "{", "]": "}", "\\": "|"}),
}
"""CASEMAPPING of RPL_ISUPPORT -> how names are compared."""


@dataclass(frozen=True)
class IrcMessage:
    """One message. `source`: `nick!user@host`, or a server's name. `command`: in capitals, or three digits."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    @property
    def time(self) -> float | None:
        """When the server took it (server-time), in seconds since the epoch; None if it does not say so."""
        try:
            return datetime.fromisoformat(self.tags.get("time", "").replace("Z", "+00:00")).astimezone(UTC).timestamp()
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def last(self) -> str:
        """The last parameter, which holds a reply's text; "" if there is none."""
        return self.params[-1] if self.params else ""

    def param(self, n: int) -> str:
        """Return the parameter with this index; "" if there are fewer."""
        return self.params[n] if n < len(self.params) else ""


def parse_line(line: bytes) -> IrcMessage | None:
    """Parse a line without its end; None for an empty one. What is not UTF-8 is read as Latin-1."""
    line = line.translate(_NO_LINE_ENDS)
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    tags: dict[str, str] = {}
    source = ""
    if text.startswith("@"):
        written, _, text = text[1:].partition(" ")
        tags = dict(map(_parse_tag, filter(None, written.split(";"))))
    text = text.lstrip(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, colon, last = (f" {text}").partition(" :")
    command, *params = head.split(" ") if not head.startswith(" ") else head[1:].split(" ")
    params = [param for param in params if param]
    return IrcMessage(command.upper(), (*params, *([last] if colon else [])), source, tags) if command else None


def _parse_tag(tag: str) -> tuple[str, str]:
    key, _, value = tag.partition("=")
    return key, _ESCAPE.sub(lambda found: _UNESCAPES.get(found[1], found[1]), value)


def format_line(command: str, *params: str, tags: Mapping[str, str] | None = None) -> bytes:
    """Return a line with its end. The last parameter may hold blanks. Raises ValueError if a parameter breaks it."""
    words = [*params[:-1], f":{params[-1]}"] if params else []
    if any(not param or " " in param or param.startswith(":") for param in params[:-1]):
        raise ValueError("only the last parameter may be empty, begin with a colon or hold blanks")
    written = ";".join(f"{key}={_escape(value)}" for key, value in (tags or {}).items())
    line = (f"@{written} " if written else "") + " ".join([command, *words])
    if re.search(r"[\x00\r\n]", line):
        raise ValueError("a line holds no line end")
    return line.encode("utf-8", "replace") + b"\r\n"


def _escape(value: str) -> str:
    for char, letter in (("\\", "\\"), (";", ":"), (" ", "s"), ("\r", "r"), ("\n", "n")):
        value = value.replace(char, f"\\{letter}")
    return value


def fold(name: str, casemapping: str = "ascii") -> str:
    """Return a nick's or channel's name as the server compares it."""
    return name.translate(_FOLDS.get(casemapping, _FOLDS["ascii"]))
