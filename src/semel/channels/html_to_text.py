"""Convert HTML to plain text: the visible text in order, with link addresses; hidden elements are dropped.

The time of a conversion is linear in the length of the input, whatever the input is. HTML5 parsers repair malformed
input, and a hostile message can make the repair take minutes. The tokenizer here repairs nothing. That is safe, because
its output is shown as plain text and never becomes HTML again.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_HTML_CHARS = 1_000_000
"""Characters of HTML that are read; the rest is ignored."""


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BLOCKS = _names(
    "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr html li main nav ol p pre section summary table tbody tfoot thead tr ul"
)
_PARAGRAPH_ELEMENTS = _names("blockquote dl h1 h2 h3 h4 h5 h6 ol p pre table ul")
"""Block elements that are separated by an empty line from the text around them."""
_VOID = _names("area base br col embed hr img input link meta source track wbr")
_OPTIONAL_END_TAGS = _names("p li td th tr dd dt")
"""Elements whose end tag is often omitted: the start of another one ends them."""
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|mso-hide\s*:\s*all")
_LINKS = ("http://", "https://", "mailto:", "tel:")
_MAX_QUOTE_DEPTH = 20


def convert_html(html: str) -> str:
    """Return the visible text. Quoted mail is prefixed with "> "; a link's address follows its text in parentheses."""
    reader = _HtmlReader()
    for token in tokenize_html(html[:MAX_HTML_CHARS].replace("\0", "")):
        if isinstance(token, str):
            reader.read_text(token)
        elif token.end:
            reader.read_end_tag(token.name)
        else:
            reader.read_start_tag(token)
    return reader.result()


class _HtmlReader:
    def __init__(self) -> None:
        self._lines: list[list[str]] = [[]]
        self._open: list[tuple[str, bool]] = []  # (name of the tag, whether it hides its content)
        self._count: Counter[str] = Counter()  # open tags by name
        self._hidden = 0
        self._quotes = 0
        self._pre = 0
        self._lists: list[int | None] = []
        self._link: tuple[str, int] | None = None  # the open link: its address, and the index of its first piece
        self._mark = ""  # a list item's bullet or number, until its first word is written

    def result(self) -> str:
        text = "\n".join("".join(line).rstrip() for line in self._lines)
        return re.sub(r"\n{3,}", "\n\n", text).strip("\n")

    def read_start_tag(self, tag: HtmlTag) -> None:
        name, attributes = tag.name, tag.attributes
        hidden = "hidden" in attributes or bool(_HIDDEN.search(attributes.get("style", "").lower()))
        if name in _OPTIONAL_END_TAGS and self._open and self._open[-1][0] == name:
            self.read_end_tag(name)
        if name not in _VOID:
            self._open.append((name, hidden))
            self._count[name] += 1
            self._hidden += hidden
        if not self._hidden and not hidden:
            self._begin(name, attributes)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _BLOCKS:
            self._break(apart=tag in _PARAGRAPH_ELEMENTS)
        match tag:
            case "br":
                self._new_line()
            case "hr":
                self._write("---")
                self._break()
            case "blockquote":
                self._quotes += 1
                self._lines[-1] = [self._prefix()]
            case "pre":
                self._pre += 1
            case "ul" | "ol":
                self._lists.append(1 if tag == "ol" else None)
            case "li":
                self._mark = self._next_mark()
            case "td" | "th" if not self._is_blank():
                self._write("\t")
            case "img" if attributes.get("alt", "").strip():
                self._write(f"[image: {' '.join(attributes['alt'].split())[:200]}]")
            case "a" if attributes.get("href", "").lower().startswith(_LINKS):
                self._link = (attributes["href"], len(self._lines[-1]))

    def read_end_tag(self, name: str) -> None:
        while self._count[name]:
            closed, hidden = self._open.pop()
            self._count[closed] -= 1
            visible = not self._hidden
            self._hidden -= hidden
            if visible:
                self._end(closed)
            if closed == name:
                return

    def _end(self, tag: str) -> None:
        if tag == "a" and self._link:
            self._end_link(*self._link)
            self._link = None
        if tag == "pre":
            self._pre -= 1
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        if tag == "blockquote":
            self._quotes -= 1
        if tag in _BLOCKS:
            self._break(apart=tag in _PARAGRAPH_ELEMENTS)

    def _end_link(self, href: str, begin: int) -> None:
        words = "".join(self._lines[-1][begin:]).strip()
        bare = href[:2000].removeprefix("mailto:").removeprefix("tel:").rstrip("/")
        if words and bare not in (words.rstrip("/"), f"https://{words}", f"http://{words}"):
            self._write(f" ({bare})")
        elif not words and bare.startswith("http") and self._is_blank():
            self._write(bare)

    def read_text(self, text: str) -> None:
        if self._hidden:
            return
        if self._pre > 0:
            first_word, *more_words = text.split("\n")
            self._write(first_word)
            for line in more_words:
                self._new_line()
                self._write(line)
            return
        words = re.sub(r"[ \t\r\n\f\xa0\u200b\u200c\u200d\u034f\u00ad\ufeff]+", " ", text)
        if self._is_blank() or self._lines[-1][-1].endswith((" ", "\t")):
            words = words.lstrip(" ")
        self._write(words)

    def _write(self, words: str) -> None:
        if words:
            self._lines[-1].append(self._mark + words)
            self._mark = ""

    def _is_blank(self) -> bool:
        """Whether the current line is empty but for its quotation prefix, which is the line's first piece."""
        return len(self._lines[-1]) <= 1 and not "".join(self._lines[-1]).strip("> ")

    def _new_line(self) -> None:
        self._lines.append([prefix] if (prefix := self._prefix()) else [])

    def _break(self, *, apart: bool = False) -> None:
        if self._is_blank():
            self._lines.pop()
        self._new_line()
        if apart and len(self._lines) > 1 and "".join(self._lines[-2]).strip("> "):
            self._new_line()

    def _prefix(self) -> str:
        return "> " * min(self._quotes, _MAX_QUOTE_DEPTH)

    def _next_mark(self) -> str:
        depth = "  " * min(max(0, len(self._lists) - 1), 10)
        if not self._lists or (number := self._lists[-1]) is None:
            return f"{depth}- "
        self._lists[-1] = number + 1
        return f"{depth}{number}. "


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,40})((?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)>")
_ATTRIBUTE = re.compile(r"([^\s=/>\"']{1,60})(?:\s{0,9}=\s{0,9}(\"[^\"]*+\"|'[^']*+'|[^\s>\"']++))?")
_SKIPPED_ELEMENTS = (
    "script",
    "style",
    "title",
    "textarea",
    "xmp",
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "svg",
    "math",
)
"""Elements whose content is skipped, because it is not visible text."""


@dataclass(frozen=True)
class HtmlTag:
    """A start tag, or an end tag if `end`. Names are in lower case."""

    name: str
    end: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


def tokenize_html(source: str) -> Iterator[HtmlTag | str]:
    """Yield the tags and texts in order, with entities decoded. What follows an unclosed tag or an unclosed skipped
    element is dropped."""
    lower, position = source.lower(), 0
    while (begin := source.find("<", position)) >= 0:
        if begin > position:
            yield html.unescape(source[position:begin])
        end = _end_of_skipped(source, begin)
        if end is not None:
            position = end
            continue
        match = _TAG.match(source, begin)
        if match is None:
            if not re.match(r"</?[a-zA-Z]", source[begin : begin + 3]):
                yield "<"
                position = begin + 1
                continue
            return
        tag = HtmlTag(match[2].lower(), bool(match[1]), {} if match[1] else _parse_attributes(match[3]))
        position = match.end()
        if tag.name in _SKIPPED_ELEMENTS:
            position = position if tag.end else lower.find(f"</{tag.name}", position)
            if position < 0:
                return
            continue
        yield tag
    if position < len(source):
        yield html.unescape(source[position:])


def _end_of_skipped(source: str, begin: int) -> int | None:
    """Return the index after the comment or declaration that begins at `begin`; None if none begins there."""
    if source.startswith("<!--", begin):
        end = source.find("-->", begin + 4)
        return len(source) if end < 0 else end + 3
    if source.startswith(("<!", "<?"), begin):
        end = source.find(">", begin)
        return len(source) if end < 0 else end + 1
    return None


def _parse_attributes(text: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(text):
        if len(attributes) == 40:
            break
        bare = value[1:-1] if value[:1] in ('"', "'") else value
        attributes.setdefault(name.lower(), html.unescape(bare[:4000]))
    return attributes
