"""Whether a reader sees all of a text. The judge knows what Markdown's marks look like, and no renderer.

Every character of the text has to be shown, in order, but for these:

- white space: a run of it may be any other, as long as some parts the words that it parted;
- marks that formatting consumes, where they stand so that they can be marks (`**` around words, `#` before a heading):
  a lone `*`, a `<` that begins no address, a `_` inside a word are text;
- the language of a code block; the address of a link, which has to be followed or read somewhere;
- what has no shape or turns the direction of others: a stand-in is shown, and itself must not be.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import unquote

MUST_NOT_SHOW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_FENCE = re.compile(r"^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})([^\n]*)$")
_LEAD = re.compile(r"[ \t]*(?:(?:>|[-+*](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$))[ \t]*)*")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
_TRAIL = re.compile(r"(?<=[ \t])#+[ \t]*$")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*)+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+)[ \t]*$")
_ROW = re.compile(r"[ \t>]*[|:\-][|:\- \t]*$")
_ADDRESS = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[\w.+-]+@[\w.-]+>")
_LINK = re.compile(
    r"\]\([ \t]*\n?[ \t]*(<[^<>\n]*>|(?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)"
    r"""(?:[ \t\n]+("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?[ \t]*\n?[ \t]*\)"""
)
_FORBIDDEN = re.compile(r"<?(?:javascript|vbscript|file|data):", re.I)  # what looks so is text
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~")


def missing(said: str, shown: str, addresses: Iterable[str] = ()) -> str | None:
    """What of the text a reader does not see; None: nothing."""
    if found := MUST_NOT_SHOW.search(shown.replace("\r\n", "\n")):
        return f"U+{ord(found[0]):04X} is obeyed, not shown"
    said = said.replace("\r\n", "\n")
    marks = Marks(said)
    at = 0
    for piece, after_space in marks.pieces():
        places = list(re.compile("".join(map(_as_shown, piece))).finditer(shown, at))
        if not places:
            return f"{piece!r} of {said!r} in {shown[at:]!r}"
        if after_space and at:
            places = [found for found in places if re.search(r"\s", shown[at - 1 : found.start() + 1])]
        if not places:
            return f"{piece!r} grew together with what stood before it in {shown!r}"
        at = places[0].end()
    known = {_plain(address) for address in addresses}
    for address in marks.addresses:
        if _plain(address) not in known and _plain(address) not in _plain(shown):
            return f"the address {address!r} of {said!r}"
    return None


def _width(row: str) -> int:
    """How many cells a row has."""
    lead = _LEAD.match(row)
    bare = re.sub(r"\\\|", "", row[lead.end() if lead else 0 :]).strip()
    return len(bare.removeprefix("|").removesuffix("|").split("|"))


def _plain(address: str) -> str:
    return unquote(html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", address)))


def plain(said: str) -> str:
    """The whole text as a reader sees it where nothing of it is formatting."""
    return "".join(map(_picture, said.replace("\r\n", "\n")))


def _picture(sign: str) -> str:
    if not MUST_NOT_SHOW.fullmatch(sign):
        return sign
    code = ord(sign)
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _as_shown(sign: str) -> str:
    if not MUST_NOT_SHOW.fullmatch(sign):
        return re.escape(sign)
    return f"(?:{re.escape(_picture(sign))}|<U\\+{ord(sign):04X}>|\ufffd)"


class Marks:
    """Which characters of a text may be consumed by formatting. `addresses`: where its links lead."""

    def __init__(self, text: str) -> None:
        self.said = text
        self.text = MUST_NOT_SHOW.sub("\u25a1", text)  # as its stand-in stands among the others
        self.free = [False] * len(text)
        self.code = [False] * len(text)
        self.addresses: list[str] = []
        at = 0
        for block in self._fences():
            self._paragraphs(at, block[0])
            at = block[1]
        self._paragraphs(at, len(text))

    def pieces(self) -> Iterable[tuple[str, bool]]:
        """What must be shown, in pieces between what need not, and whether white space stood before each."""
        piece, space = "", False
        before = False
        for sign, shape, free, code in zip(self.said, self.text, self.free, self.code, strict=True):
            if not free and not shape.isspace():
                if not piece:
                    before, space = space, False
                piece += sign
                continue
            if piece:
                yield piece, before
                piece = ""
            space = space or (shape.isspace() and not (free and code))
        if piece:
            yield piece, before

    def _release(self, lo: int, hi: int) -> None:
        self.free[lo:hi] = [True] * (hi - lo)

    def _fences(self) -> Iterable[tuple[int, int]]:
        """(start, end) of each block of code; its first and last line are free, what is in it is not."""
        open_: tuple[str, int] | None = None
        at = 0
        for line in self.text.split("\n"):
            end = at + len(line)
            found = _FENCE.match(line)
            if open_ is None:
                if found and not (found[1][0] == "`" and "`" in found[2]):
                    open_ = found[1], at
                    lead = found.start(1)
                    self._lead(at, line[:lead])
                    self._release(at + lead, at + found.end(1))
                    language = re.match(r"[ \t]*[\w+#.-]{1,20}(?=[ \t]|$)", found[2])
                    if language:
                        self._release(at + found.end(1), at + found.end(1) + language.end())
            elif found and found[1].startswith(open_[0]) and not found[2].strip():
                self._release(at, end)
                yield open_[1], end
                open_ = None
            else:
                quoted = re.match(r"[ \t>]*", line)
                assert quoted is not None
                self._release(at, at + quoted.end())
            at = end + 1
        if open_ is not None:
            yield open_[1], len(self.text)

    def _lead(self, at: int, lead: str) -> None:
        for n, sign in enumerate(lead):
            self.free[at + n] = sign in ">-+*.)"

    def _paragraphs(self, lo: int, hi: int) -> None:
        for found in re.finditer(r"(?:[^\n]|\n(?![ \t]*(?:\n|$)))+", self.text[lo:hi]):
            self._paragraph(lo + found.start(), lo + found.end())

    def _paragraph(self, lo: int, hi: int) -> None:
        for start, end in self._lines(lo, hi):
            self._spans(start, end)
            self._links(start, end)
            for mark in "*_~":
                self._runs(start, end, mark)

    def _lines(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Marks that begin or make a line. Returns the stretches within which other marks belong together."""
        at, above, table = lo, "", False
        stretches: list[tuple[int, int]] = []
        begins, depth = True, 0
        for line in self.text[lo:hi].split("\n"):
            lead = _LEAD.match(line)
            assert lead is not None
            self._lead(at, lead[0])
            start, end = at + lead.end(), at + len(line)
            item, quoted = bool(re.search(r"[-+*.)]", lead[0])), lead[0].count(">")
            heading = _HEADING.match(line, lead.end())
            table = table and not item and not heading and quoted == depth
            depth = quoted
            if heading:
                self._release(start, at + heading.end())
                if trail := _TRAIL.search(line):
                    self._release(at + trail.start(), end)
            rule = _RULE.match(line[lead.end() :] or "x") or _RULE.match(line)
            if rule:
                self._release(at, end)
            if _ROW.match(line) and "-" in line and "|" in above and _width(line) == _width(above):
                table = True
                self._release(at, end)
                stretches[-1:] = [(stretches[-1][0], at - len(above) - 1), *self._cells(at - len(above) - 1, above)]
            elif table:
                stretches += self._cells(at, line)
            elif begins or item or heading or rule:
                stretches.append((start, end))
            else:
                stretches[-1] = (stretches[-1][0], end)
            begins = bool(heading or rule or table)
            above = line
            at += len(line) + 1
        return [(start, end) for start, end in stretches if start < end]

    def _cells(self, at: int, line: str) -> list[tuple[int, int]]:
        """The bars of a row, and what stands between them."""
        bars = [n for n, sign in enumerate(line) if sign == "|" and line[n - 1 : n] != "\\"]
        for n in bars:
            self.free[at + n] = True
        edges = [-1, *bars, len(line)]
        return [(at + left + 1, at + right) for left, right in pairwise(edges)]

    def _spans(self, lo: int, hi: int) -> None:
        """Escapes, and code inside a line."""
        at = lo
        while at < hi:
            if self.text[at : at + 2] == "\\\n":
                self.free[at] = True
            elif self.text[at] == "\\" and at + 1 < hi:
                follows = self.text[at + 1]
                if follows in _PUNCTUATION:
                    self.free[at] = True
                    self.code[at + 1] = True  # it stands for itself
                self.code[at] = True
                at += 2
                continue
            run = re.compile("`+").match(self.text, at, hi)
            if run is None:
                at += 1
                continue
            close = next((m for m in re.compile("`+").finditer(self.text, run.end(), hi) if m[0] == run[0]), None)
            if close is None:
                at = run.end()
                continue
            self._release(*run.span())
            self._release(*close.span())
            inside = self.text[run.end() : close.start()]
            if inside[:1].isspace() and inside[-1:].isspace() and inside.strip():
                self.free[run.end()] = self.free[close.start() - 1] = True
            self.code[run.start() : close.end()] = [True] * (close.end() - run.start())
            at = close.end()

    def _links(self, lo: int, hi: int) -> None:
        for found in _ADDRESS.finditer(self.text, lo, hi):
            if not self.code[found.start()]:
                self.free[found.start()] = self.free[found.end() - 1] = True
        links: list[int] = []
        for found in _LINK.finditer(self.text, lo, hi):
            start = self._opening(lo, found.start())
            if self.code[found.start()] or start is None or _FORBIDDEN.match(found[1]):
                continue
            image = start > lo and self.text[start - 1] == "!" and not self.code[start - 1]
            if not image and any(start < other for other in links):
                continue  # a link holds no link
            links += [] if image else [start]
            self.free[start] = self.free[found.start()] = self.free[found.start() + 1] = self.free[found.end() - 1] = (
                True
            )
            if start > lo and self.text[start - 1] == "!":
                self.free[start - 1] = True
            self._release(*found.span(1))
            self.addresses.append(found[1].strip("<>"))
            if found[2] is not None:
                self.free[found.start(2)] = self.free[found.end(2) - 1] = True

    def _opening(self, lo: int, at: int) -> int | None:
        depth = 0
        for n in range(at - 1, lo - 1, -1):
            if self.code[n]:
                continue
            depth += (self.text[n] == "]") - (self.text[n] == "[")
            if depth < 0:
                return n
        return None

    def _runs(self, lo: int, hi: int, mark: str) -> None:
        """Marks of emphasis: two of them, each beside a word."""
        found = []
        for run in re.compile(re.escape(mark) + "+").finditer(self.text, lo, hi):
            before = self.text[run.start() - 1] if run.start() > lo else " "
            after = self.text[run.end()] if run.end() < hi else " "
            beside = not (before.isspace() and after.isspace())
            inside = mark == "_" and before.isalnum() and after.isalnum()
            if not self.code[run.start()] and beside and not inside and (mark != "~" or len(run[0]) > 1):
                found.append(run)
        if len(found) > 1:
            for run in found:
                self._release(*run.span())
