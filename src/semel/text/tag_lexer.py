"""Streaming lexer for the markup tags in an agent's text. Tags inside of code are text.

A tag is `<message ...>`, `</message>`, `<internal>` or `</internal>`, in any case of letters. Inside a code fence
(`fences.py`) and inside a code span (backticks that close on their own line, at most SPAN characters on) nothing
is a tag. Everything is passed on at once, except what may still become a tag (at most TAG characters), and, where
a tag follows an open backtick, the rest of that line: it decides whether the tag is code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

MAX_TAG_CHARS = 512
"""The longest tag, in characters."""

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
    """A tag, with its source text. A `broken` tag begins like an addressed message but is malformed, as `why` says."""

    raw: str
    name: Literal["message", "internal"]
    kind: Literal["open", "close", "empty", "broken"]
    to: str = ""
    why: str = ""


class _More:
    """The type of the marker that more characters are needed to decide."""


_MORE = _More()


def read_tag(text: str, at: int, final: bool) -> Tag | _More | None:
    """The tag that begins at `at`, None if there is none, or a marker that more text is needed. `final`: it is
    complete."""
    if at + 1 < len(text) and text[at + 1] not in "/mMiI":
        return None
    window = text[at : at + MAX_TAG_CHARS]
    waits = not final and len(window) < MAX_TAG_CHARS
    if not _WORD.match(window):
        return _MORE if waits and any(word.startswith(window.lower()) for word in _WORDS) else None
    if found := _OPEN.match(window):
        return _opening(found)
    if found := _CLOSE.match(window):
        return Tag(found[0], _name(found[1]), "close")
    if waits and _is_unfinished(window):
        return _MORE
    if found := _ATTEMPT.match(window):
        return Tag(found[0], _name(found[1]), "broken", why="the tag cannot be read")
    return None


def _is_unfinished(window: str) -> bool:
    """Whether further characters could complete the tag that begins here: it has no unquoted `>` and no second `<`.

    This is no regular expression because one with possessive groups fails to match on CPython 3.11.0 to 3.11.4.
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


def _opening(found: re.Match[str]) -> Tag | None:
    name = _name(found[1])
    kind: Literal["open", "empty"] = "empty" if found[3] else "open"
    if name == "internal":
        return Tag(found[0], name, kind)
    given = [m for m in _ATTRIBUTE.finditer(found[2]) if m[2]]
    if not given:
        return None  # `<message>` in prose: it addresses nobody
    names = [m[3] for m in given if m[1].lower() == "to"]
    if len(names) != 1:
        why = "the tag has more than one `to`" if names else "the tag has no `to`"
        return Tag(found[0], name, "broken", why=why)
    to = names[0][1:-1] if names[0][0] in "\"'" else names[0]
    return Tag(found[0], name, kind, to=_ENTITY.sub(_decode, to).strip())


def _decode(found: re.Match[str]) -> str:
    if found[3]:
        return _ENTITIES[found[3]]
    code = int(found[1]) if found[1] else int(found[2], 16)
    return chr(code) if code <= 0x10FFFF else found[0]


def _name(word: str) -> Literal["message", "internal"]:
    return "message" if word.lower() == "message" else "internal"


@dataclass
class _Line:
    """The lexer's state within the current line."""

    indent: int = 0  # blanks since it began; 4 or more: no fence can begin or end here
    mark: str = ""  # character of the latest run of backticks or tildes, while the run may still grow
    run: int = 0  # length of that run
    leads: bool = False  # the run began the line
    spans: list[int] = field(default_factory=list)  # backtick runs that may have opened a code span
    fence: bool = False  # spans[0] opens a fence, unless another backtick follows


class Lexer:
    """Splits a stream into text and tags. The caller reports by `enter` and `leave` where a tag's content begins and
    ends."""

    def __init__(self) -> None:
        self._text = ""
        self._final = False
        self._line = _Line()
        self._outer: list[_Line] = []
        self._fence: tuple[str, int] | None = None
        self._closing = False  # the line so far closes the fence
        self._cr = False
        self._escaped = False

    @property
    def waiting(self) -> int:
        """How many characters are withheld until more text comes."""
        return len(self._text)

    def push(self, text: str, final: bool = False) -> None:
        """Add text. `final`: no more text follows."""
        self._text += text
        self._final = final

    def enter(self) -> None:
        """A tag's content begins. It is lexed as a separate text, from the beginning of a line."""
        self._outer.append(self._line)
        self._line = _Line()

    def leave(self) -> None:
        """A tag's content has ended: continue with the line around it."""
        self._line = self._outer.pop()

    def tokens(self) -> Iterator[str | Tag]:
        """The text and tags that are certain so far."""
        text, at, done = self._text, 0, 0
        while at < len(text):
            if text[at] == "<":
                self._run_over()
                tag, after = self._tag(text, at)
                if tag is _MORE:
                    break
                if isinstance(tag, Tag):
                    if done < at:
                        yield text[done:at]
                    self._cr = self._escaped = False
                    depth = len(self._outer)
                    yield tag
                    if depth == len(self._outer):  # the caller treats the tag as text
                        self._line.indent = 4
                    at = done = after
                    continue
                if after > at + 1:  # a code span: it was read as a whole
                    self._line.indent, self._cr = 4, False
                    at = after
                    continue
            found = _ATOM.match(text, at)
            assert found is not None  # the atoms cover every character
            self._atom(found[0])
            at = found.end()
        if done < at:
            yield text[done:at]
        self._text = text[at:]

    def _tag(self, text: str, at: int) -> tuple[Tag | _More | None, int]:
        """Return (the tag at this `<`, where it ends). (None, at + 1): a plain `<`; None with a later end: code until
        there."""
        if self._fence:
            if not (self._closing and self._outer):
                return None, at + 1
            tag = read_tag(text, at, self._final)
            if isinstance(tag, Tag) and tag.kind == "close":  # the last fence line, and the tag right behind it
                self._fence, self._closing = None, False
                return tag, at + len(tag.raw)
            return (tag if tag is _MORE else None), at + 1
        tag = read_tag(text, at, self._final)
        if not isinstance(tag, Tag):
            return tag, at + 1
        if not self._line.spans:
            return tag, at + len(tag.raw)
        ahead = self._ahead(text, at)
        if ahead is None:
            return _MORE, at
        if code := self._covered(ahead):
            return None, at + code
        self._line.spans = []
        return tag, at + len(tag.raw)

    def _ahead(self, text: str, at: int) -> str | None:
        """The rest of the line, as far as a code span may reach; None if more text is needed."""
        window = text[at : at + MAX_CODE_SPAN_CHARS]
        if end := _LINE_END.search(window):
            return window[: end.start()]
        return window if self._final or len(window) == MAX_CODE_SPAN_CHARS else None

    def _covered(self, ahead: str) -> int:
        """How many characters of `ahead` are inside a code span, or an opening fence line, that began before it."""
        line = self._line
        later = [(len(m[0]), m.end()) for m in re.finditer("`+", ahead)]
        if line.fence and not later:
            return len(ahead)
        line.fence = False
        spans, at = line.spans, 0
        while at < len(spans):  # CommonMark: a run opens a span if a later one of equal length closes it
            inside = next((i for i in range(at + 1, len(spans)) if spans[i] == spans[at]), None)
            if inside is not None:
                at = inside + 1
                continue
            if end := next((end for size, end in later if size == spans[at]), None):
                line.spans = []
                return end
            at += 1
        return 0

    # ------------------------------------------------------------ lines, fences and spans

    def _atom(self, atom: str) -> None:
        char, line = atom[0], self._line
        if char in "`~":
            self._marks(char, len(atom))
            return
        self._run_over()
        if char in "\r\n":
            if char == "\r" or not self._cr:
                self._line_over()
            self._cr, self._escaped = char == "\r", False
            return
        self._cr = False
        if char in " \t":
            line.indent += len(atom) if "\t" not in atom else 4
        else:
            line.indent, self._closing = 4, False
        self._escaped = char == "\\" and not self._escaped

    def _marks(self, char: str, count: int) -> None:
        line = self._line
        if char != line.mark:
            self._run_over()
            line.mark, line.leads = char, line.indent < 4
            if self._escaped and char == "`" and not line.spans:
                count, line.leads = count - 1, False  # an escaped backtick opens nothing
        line.run += count
        self._cr = self._escaped = False

    def _run_over(self) -> None:
        line = self._line
        if not line.mark:
            return
        mark, run, leads = line.mark, line.run, line.leads
        line.mark, line.run, line.indent = "", 0, 4
        if self._fence:
            self._closing = leads and mark == self._fence[0] and run >= self._fence[1]
        elif leads and run >= 3 and mark == "~":
            self._fence = (mark, run)
        elif mark == "`" and run:
            line.fence = leads and run >= 3
            if line.spans and line.spans[0] == run:
                line.spans = []
            else:
                line.spans.append(run)

    def _line_over(self) -> None:
        line = self._line
        if self._fence:
            self._fence = None if self._closing else self._fence
        elif line.fence:
            self._fence = ("`", line.spans[0])
        self._closing = False
        self._line = _Line()
