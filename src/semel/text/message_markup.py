"""Streaming parser for the markup with which an agent addresses its text to destinations.

If a session may reach only its home, nothing is markup. If it may reach more destinations:

- `<message to="name">body</message>`, an addressed block, goes to that destination. Letter case in tags does not
  matter; the name may be in double, single or no quotes, with XML entities; other attributes are ignored.
- `<internal>...</internal>` is shown to nobody, also within a body.
- Everything else goes home, including a `<message>` without attributes and a stray closing tag. The home text before,
  between and after addressed blocks are separate *stretches*: each is judged on its own as an echo or not (Law 5).
- Nothing inside a code fence or a code span is markup. Within a body, a complete `<message to=...>...</message>` is an
  example and part of the body; within `<internal>`, everything is internal.
- A body without visible text is never sent. A text with an unknown name, an unclosed block or an unreadable tag is
  *held back*: the parser returns it as a `MarkupProblem`. `match_name` decides which destination a name means.
- The content of an open tag is a *region*. A file that arrives within a region belongs to it. In a body, the file goes
  to the body's destination, after the text; in `<internal>`, it stays internal; in a text that is held back, it is held
  back, too. A file that arrives in the middle of a tag counts as after the tag.

Law 8: only markup is removed. No character of a body is changed or decoded. White space that pads a body inside its
tags belongs to the markup: everything before its first and after its last visible character, except for the indentation
of its first line. The same holds for home text, at an end where markup was removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from semel.text.graphemes import nfc
from semel.text.tag_lexer import Lexer, Tag
from semel.text.visible import is_blank
from semel.text.wellformed import shorten

HOME = "home"
"""The name by which an agent addresses its session's home."""
QUOTED_CHARS = 80
"""The maximum number of characters of a faulty tag or name in an error message."""


@dataclass(frozen=True)
class Said:
    """Text for a destination.

    Text for home (`dest` None) comes piece by piece as it streams in; text for a named destination comes as a whole
    (`final` is true). An empty `final` text for home ends a stretch of home text.
    """

    dest: str | None
    text: str
    final: bool = False


@dataclass(frozen=True)
class Internal:
    """Internal text, which is never shown."""

    text: str


@dataclass(frozen=True)
class AddressedFile:
    """A file, or other content that is not text, for a destination (None: home)."""

    dest: str | None
    file: Any


@dataclass(frozen=True)
class MarkupProblem:
    """Text that was held back because its markup is faulty.

    `kind`: the destination is unknown, the block was never closed, or the tag is unreadable. `reason`: the same in
    words, for people and the agent. `names`: the valid destinations. `to`: the destination of the whole text; None if
    it is unknown or a part may be meant for another one. `files`: the files within the text.
    """

    kind: Literal["unknown", "unclosed", "unreadable"]
    reason: str
    text: str
    names: tuple[str, ...] = ()
    to: str | None = None
    files: tuple[Any, ...] = ()


Piece = Said | Internal | AddressedFile | MarkupProblem


@dataclass
class _Region:
    """An open tag and its content so far.

    `depth`: how many blocks are open in it, itself included. `nests`: whether another block has begun in it. `parts`:
    its text, in pieces.
    """

    tag: Tag
    depth: int = 1
    nests: bool = False
    parts: list[str] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class MarkupReader:
    """Parses one block of an agent's text: call `feed` for each chunk and `hand` for each file, then `end`.

    `addressed`: whether the session may reach more than its home; if not, nothing is markup. `names`: the destinations
    it may reach. How the text is cut into chunks makes no difference: the joined home text, all other pieces and their
    order stay the same. The time is linear. Home text is passed on at once, except for a bounded tail.
    """

    def __init__(self, addressed: bool, names: Collection[str] = ()):
        self._addressed = addressed
        self._names = tuple(names)
        self._lexer = Lexer()
        self._regions: list[_Region] = []
        self._home = _Home()
        self._spoken: list[str] = []  # home text since the last other piece
        self._pieces: list[Piece] = []
        self._fed = 0  # characters
        self._passed = 0  # characters that the lexer has passed on
        self._handed: deque[tuple[int, Any]] = deque()  # files not placed yet: (offset in characters, file)

    @property
    def waiting(self) -> int:
        """How many characters outside of open regions are withheld until it is clear whether they are markup."""
        return self._lexer.waiting

    def feed(self, text: str) -> list[Piece]:
        """Add a chunk of text. Returns the pieces that are complete now."""
        if not self._addressed:
            return [Said(None, text)] if text else []
        self._fed += len(text)
        self._lexer.push(text)
        return self._read()

    def add_file(self, file: Any) -> list[Piece]:
        """Add a file after the text fed so far. Returns the pieces that are complete now."""
        if not self._addressed:
            return [AddressedFile(None, file)]
        self._handed.append((self._fed, file))
        return self._read()

    def end(self) -> list[Piece]:
        """End the block. Returns the remaining pieces."""
        if not self._addressed:
            return []
        self._lexer.push("", final=True)
        pieces = self._read()
        while self._regions:
            self._end_unclosed(self._regions.pop())
        self._spoken.append(self._home.end())
        return pieces + self._take()

    # ------------------------------------------------------------ tokens

    def _read(self) -> list[Piece]:
        for token in self._lexer.tokens():
            if isinstance(token, str):
                self._pass_text(token)
                continue
            self._place(0)
            self._handle_tag(token)
            self._passed += len(token.raw)
        self._place(0)
        return self._take()

    def _pass_text(self, text: str) -> None:
        """Pass on a token of text, and place the files that arrived within it."""
        done = 0
        while self._handed and (offset := self._handed[0][0] - self._passed) < len(text):
            if offset > done:
                self._add_text(text[done:offset])
                done = offset
            self._place(done)
        self._add_text(text[done:])
        self._passed += len(text)

    def _place(self, ahead: int) -> None:
        """Add the waiting files up to the present position to the open region, or send them home if none is open.

        `ahead`: how many characters the present position is after `_passed`.
        """
        while self._handed and self._handed[0][0] <= self._passed + ahead:
            _, file = self._handed.popleft()
            if self._regions:
                self._regions[-1].files.append(file)
            else:
                self._add(AddressedFile(None, file))

    def _handle_tag(self, tag: Tag) -> None:
        if not self._regions:
            self._tag_at_home(tag)
        elif self._regions[-1].tag.name == "internal":
            self._handle_nested(tag, "internal")
        elif tag.name == "internal" and self._regions[-1].tag.kind == "open":
            self._internal_in_body(tag)
        else:
            self._handle_nested(tag, "message")

    def _take(self) -> list[Piece]:
        self._flush()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _flush(self) -> None:
        if text := "".join(self._spoken):
            self._pieces.append(Said(None, text))
        self._spoken.clear()

    def _add(self, piece: Piece) -> None:
        self._flush()
        self._pieces.append(piece)

    def _add_text(self, text: str) -> None:
        if self._regions:
            self._regions[-1].parts.append(text)
        else:
            self._spoken.append(self._home.pass_on(text))

    def _tag_at_home(self, tag: Tag) -> None:
        if tag.kind == "close":
            self._add_text(tag.raw)
            return
        if tag.name == "message" and tag.kind != "empty":
            self._end_stretch()
        else:
            self._home.note_removal()
        if tag.kind != "empty":
            self._open(tag)

    def _end_stretch(self) -> None:
        """End the stretch of home text, because an addressed block begins."""
        if self._home.begun:
            self._add(Said(None, "", final=True))
        self._home = _Home(cut=True)

    def _internal_in_body(self, tag: Tag) -> None:
        if tag.kind == "open":
            self._open(tag)
        elif tag.kind != "empty":
            self._add_text(tag.raw)

    def _open(self, tag: Tag) -> None:
        self._regions.append(_Region(tag, parts=[tag.raw] if tag.kind == "broken" else []))
        self._lexer.enter()

    def _handle_nested(self, tag: Tag, name: str) -> None:
        """Handle a tag inside a region: it closes the region, or it is text of the region.

        `name`: the name of the region's own tag.
        """
        region = self._regions[-1]
        if tag.name == name:
            region.depth += {"open": 1, "close": -1}.get(tag.kind, 0)
            region.nests = region.nests or tag.kind != "close"
        if region.depth or region.tag.kind == "broken":
            region.parts.append(tag.raw)
        if not region.depth:
            self._lexer.leave()
            self._end_region(self._regions.pop())

    # ------------------------------------------------------------ regions

    def _end_region(self, region: _Region) -> None:
        tag, text = region.tag, region.text
        if tag.kind == "broken":
            self._add_problem(
                "unreadable", f'{tag.problem}; write <message to="name">text</message>', text, region.files
            )
        elif tag.name == "internal":
            self._add(Internal(text))
        elif not (body := _read_body(text)) and not region.files:
            return
        elif (name := match_name(tag.to, self._names)) is None:
            self._add_problem("unknown", self._explain_unknown(tag.to), body, region.files)
        else:
            if body:
                self._add(Said(name, body, final=True))
            for file in region.files:
                self._add(AddressedFile(name, file))

    def _end_unclosed(self, region: _Region) -> None:
        tag = region.tag
        if tag.kind == "broken":
            self._end_region(region)
        elif tag.name == "internal" and self._regions:
            self._add(Internal(region.text))
        elif (text := _read_body(region.text)) or region.files:
            name = match_name(tag.to, self._names) if tag.name == "message" and not region.nests else None
            reason = f"{shorten(tag.raw, QUOTED_CHARS)} was never closed with </{tag.name}>"
            self._add_problem("unclosed", reason, text, region.files, name)

    def _add_problem(
        self,
        kind: Literal["unknown", "unclosed", "unreadable"],
        reason: str,
        text: str,
        files: Sequence[Any],
        to: str | None = None,
    ) -> None:
        if files:
            reason += "; a file stood in it" if len(files) == 1 else f"; {len(files)} files stood in it"
        self._add(MarkupProblem(kind, reason, text, self._names, to, tuple(files)))

    def _explain_unknown(self, to: str) -> str:
        near = [repr(name) for name in self._names if _fold_name(name) == _fold_name(to)]
        hint = f" (more than one is: {', '.join(near)})" if near else ""
        return f"no destination is called {shorten(to, QUOTED_CHARS)!r}{hint}"


class _Home:
    """A stretch of home text. `pass_on` returns it, but keeps white space in `_gap` that may prove to be padding."""

    def __init__(self, cut: bool = False) -> None:
        self.begun = False  # some text other than white space was passed on
        self._cut = cut  # markup was removed after the text that was passed on last
        self._gap: list[str] = []

    def pass_on(self, text: str) -> str:
        if self.begun and not self._cut:
            return text
        if not text or text.isspace():
            self._gap.append(text)
            return ""
        text = "".join(self._gap) + text
        if self._cut and not self.begun:
            text = _strip_leading_padding(text)
        self.begun, self._cut, self._gap = True, False, []
        return text

    def note_removal(self) -> None:
        self._cut = True

    def end(self) -> str:
        return "" if self._cut else "".join(self._gap)


def match_name(name: str, names: Collection[str]) -> str | None:
    """Find the destination that a name means: an exact match, else the only match regardless of letter case.

    An empty name means home. Returns None if no destination matches, or more than one. Blocks and tool calls both use
    this function.
    """
    name = name.strip() or HOME
    if name in names:
        return name
    same = [known_name for known_name in names if _fold_name(known_name) == _fold_name(name)]
    return same[0] if len(same) == 1 else None


def _fold_name(name: str) -> str:
    return nfc(name.strip()).casefold()


def strip_padding(body: str) -> str:
    """Return a body without the white space that pads it; the indentation of its first line stays."""
    return _strip_leading_padding(body.rstrip())


def _read_body(text: str) -> str:
    """Return the text between two tags without its padding; "" if it has no visible text."""
    return "" if is_blank(body := strip_padding(text)) else body


def _strip_leading_padding(text: str) -> str:
    bare = text.lstrip()
    lead = text[: len(text) - len(bare)]
    indentation = lead[lead.rfind("\n") + 1 :] if "\n" in lead else ""
    return indentation + bare
