"""Streaming lexer for the markup tags in an agent's text. Tags inside of code are text.

A tag is `<message ...>`, `</message>`, `<internal>` or `</internal>`, in any letter case. Nothing inside a code fence
(`fences.py`) or a code span is a tag. A code span ends on the line on which it begins, and at most MAX_CODE_SPAN_CHARS
after a tag that it covers. The lexer passes all text on at once, except for text that may still become a tag (at most
MAX_TAG_CHARS), and for a tag after an open backtick: the rest of the line decides whether that tag is code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from semel.text.fences import FenceLine

MAX_TAG_CHARS = 512
"""The maximum length of a tag, in characters."""

MAX_CODE_SPAN_CHARS = 1000
"""The maximum distance from a tag to the end of a code span that covers it, in characters."""

_NAME = r"[A-Za-z_:][-\w:.]*+"
_BARE = r"[^\s\"'<>=`/]++(?:/++[^\s\"'<>=`/]++)*+"
_VALUE = rf"\"[^\"<]*+\"|'[^'<]*+'|{_BARE}"
_FLAGS = re.ASCII | re.IGNORECASE

_WORD = re.compile(r"</?(?:message|internal)(?=[\s/>])", _FLAGS)
_OPEN = re.compile(rf"<(message|internal)((?:\s++{_NAME}(?:\s*+=\s*+(?:{_VALUE}))?+)*+)\s*+(/?)>", _FLAGS)
_CLOSE = re.compile(r"</(message|internal)\s*+>", _FLAGS)
_ATTRIBUTE = re.compile(rf"({_NAME})(\s*+=\s*+({_VALUE}))?", _FLAGS)
_ATTEMPT = re.compile(rf"<(message|internal)\s++{_NAME}\s*+=", _FLAGS)
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_WORDS = ("<message", "<internal", "</message", "</internal")

_ATOM = re.compile(r"[^\r\n`~<\\ \t][^\r\n`~<\\]*+|[ \t]+|`+|~+|\r|\n|<|\\")
_LINE_END = re.compile(r"[\r\n]")


@dataclass(frozen=True)
class Tag:
    """A tag. `raw`: its source text. `to`: the destination's name. A `broken` tag has attributes but cannot be used;
    `problem` is the reason."""

    raw: str
    name: Literal["message", "internal"]
    kind: Literal["open", "close", "empty", "broken"]
    to: str = ""
    problem: str = ""


class _More:
    """The type of `_MORE`, a result which means that more characters are needed to decide."""


_MORE = _More()


def read_tag(text: str, start: int, final: bool) -> Tag | _More | None:
    """Return the tag that begins at `start`; None if there is none; `_MORE` if more text is needed to decide.

    `final`: no more text comes.
    """
    if start + 1 < len(text) and text[start + 1] not in "/mMiI":
        return None
    window = text[start : start + MAX_TAG_CHARS]
    waits = not final and len(window) < MAX_TAG_CHARS
    if not _WORD.match(window):
        return _MORE if waits and any(word.startswith(window.lower()) for word in _WORDS) else None
    if match := _OPEN.match(window):
        return _read_opening(match)
    if match := _CLOSE.match(window):
        return Tag(match[0], _read_name(match[1]), "close")
    if waits and _is_unfinished(window):
        return _MORE
    if match := _ATTEMPT.match(window):
        return Tag(match[0], _read_name(match[1]), "broken", problem="the tag cannot be read")
    return None


def _is_unfinished(window: str) -> bool:
    """Whether more characters could complete the tag that `window` begins: it has no unquoted `>` and no second `<`.

    This is no regular expression, because one with possessive groups fails to match on CPython 3.11.0 to 3.11.4.
    """
    quote = ""
    for char in window[1:]:
        if char == "<" or (char == ">" and not quote):
            return False
        if char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
    return True


def _read_opening(match: re.Match[str]) -> Tag | None:
    name = _read_name(match[1])
    kind: Literal["open", "empty"] = "empty" if match[3] else "open"
    if name == "internal":
        return Tag(match[0], name, kind)
    attributes = [m for m in _ATTRIBUTE.finditer(match[2]) if m[2]]
    if not attributes:
        return None  # `<message>` in prose has no address
    names = [m[3] for m in attributes if m[1].lower() == "to"]
    if len(names) != 1:
        problem = "the tag has more than one `to`" if names else "the tag has no `to`"
        return Tag(match[0], name, "broken", problem=problem)
    to = names[0][1:-1] if names[0][0] in "\"'" else names[0]
    return Tag(match[0], name, kind, to=_ENTITY.sub(_decode, to).strip())


def _decode(match: re.Match[str]) -> str:
    if match[3]:
        return _ENTITIES[match[3]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def _read_name(word: str) -> Literal["message", "internal"]:
    return "message" if word.lower() == "message" else "internal"


@dataclass
class _Line:
    """The lexer's state within the current line."""

    fence_line: FenceLine = field(default_factory=FenceLine)
    run: int | None = None  # length of the latest run of backticks, while it may still grow
    spans: list[int] = field(default_factory=list)  # lengths of the backtick runs that may have opened a code span


class Lexer:
    """Splits a stream into text and tags. The caller calls `enter` where a tag's content begins, `leave` where it
    ends."""

    def __init__(self) -> None:
        self._text = ""
        self._final = False
        self._line = _Line()
        self._outer: list[_Line] = []
        self._fence: tuple[str, int] | None = None  # character and size of the open fence's marker
        self._escaped = False

    @property
    def waiting(self) -> int:
        """How many characters are withheld until more text decides about them."""
        return len(self._text)

    def push(self, text: str, final: bool = False) -> None:
        """Add text. `final`: no more text follows."""
        self._text += text
        self._final = final

    def enter(self) -> None:
        """Begin a tag's content: lex it as a separate text, from the beginning of a line."""
        self._outer.append(self._line)
        self._line = _Line()

    def leave(self) -> None:
        """End a tag's content: continue the line of its opening tag."""
        self._line = self._outer.pop()

    def tokens(self) -> Iterator[str | Tag]:
        """Yield, once each, the text and tags that no further character can change."""
        text, offset, done = self._text, 0, 0
        while offset < len(text):
            if text[offset] == "<":
                self._end_run()
                self._line.fence_line.end_run()
                tag, after = self._read_tag(text, offset)
                if tag is _MORE:
                    break
                if isinstance(tag, Tag):
                    if done < offset:
                        yield text[done:offset]
                    self._escaped = False
                    depth = len(self._outer)
                    yield tag
                    if depth == len(self._outer):  # the caller treats the tag as text
                        self._line.fence_line.feed(tag.raw)
                    offset = done = after
                    continue
                if after > offset + 1:  # a code span: it was read as a whole
                    self._line.fence_line.feed(text[offset:after])
                    offset = after
                    continue
            atom = _ATOM.match(text, offset)
            assert atom is not None  # the atoms cover every character
            self._read_atom(atom[0])
            offset = atom.end()
        if done < offset:
            yield text[done:offset]
        self._text = text[offset:]

    def _read_tag(self, text: str, start: int) -> tuple[Tag | _More | None, int]:
        """Read the `<` at `start`. Returns (the tag, its end) if it begins a tag that is not code.

        Returns (`_MORE`, _) if more text is needed, (None, start + 1) if the `<` is text, and (None, end) if the text
        up to `end` is a code span.
        """
        line = self._line.fence_line
        if self._fence:
            if not (self._outer and line.closes(*self._fence)):
                return None, start + 1
            tag = read_tag(text, start, self._final)
            if isinstance(tag, Tag) and tag.kind == "close":  # a closing tag right after the line that closes the fence
                self._fence = None
                return tag, start + len(tag.raw)
            return (tag if tag is _MORE else None), start + 1
        if line.opens and line.mark == "~":
            return None, start + 1
        tag = read_tag(text, start, self._final)
        if not isinstance(tag, Tag):
            return tag, start + 1
        if not self._line.spans:
            return tag, start + len(tag.raw)
        ahead = self._rest_of_line(text, start)
        if ahead is None:
            return _MORE, start
        if code := self._count_code_chars(ahead):
            return None, start + code
        self._line.spans = []
        return tag, start + len(tag.raw)

    def _rest_of_line(self, text: str, start: int) -> str | None:
        """Return the rest of the line from `start`, as far as a code span may reach; None if more text is needed."""
        window = text[start : start + MAX_CODE_SPAN_CHARS]
        if end := _LINE_END.search(window):
            return window[: end.start()]
        return window if self._final or len(window) == MAX_CODE_SPAN_CHARS else None

    def _count_code_chars(self, ahead: str) -> int:
        """Return how many characters at the beginning of `ahead` (the rest of the line) are code.

        They belong to a code span, or to the opening line of a fence, that began before `ahead`.
        """
        line = self._line
        later = [(len(m[0]), m.end()) for m in re.finditer("`+", ahead)]
        if line.fence_line.opens:
            if not later:
                return len(ahead)
            line.fence_line.feed(ahead)
        spans, index = line.spans, 0
        while index < len(spans):  # CommonMark: a run opens a span if a later one of equal length closes it
            inside = next((i for i in range(index + 1, len(spans)) if spans[i] == spans[index]), None)
            if inside is not None:
                index = inside + 1
                continue
            if end := next((end for size, end in later if size == spans[index]), None):
                line.spans = []
                return end
            index += 1
        return 0

    # ------------------------------------------------------------ lines, fences and spans

    def _read_atom(self, atom: str) -> None:
        line = self._line
        if atom[0] == "`" and not self._fence:
            if line.run is None:  # an escaped backtick opens nothing
                line.run = -1 if self._escaped and not line.spans else 0
            line.run += len(atom)
        else:
            self._end_run()
        if atom in "\r\n":
            self._end_line()
        else:
            line.fence_line.feed(atom)
        self._escaped = atom == "\\" and not self._escaped

    def _end_run(self) -> None:
        line = self._line
        if line.run and line.spans and line.spans[0] == line.run:
            line.spans = []
        elif line.run:
            line.spans.append(line.run)
        line.run = None

    def _end_line(self) -> None:
        line = self._line.fence_line
        if self._fence:
            if line.closes(*self._fence):
                self._fence = None
        elif line.opens:
            self._fence = (line.mark, line.run)
        self._line = _Line()
