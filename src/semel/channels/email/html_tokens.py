"""Split HTML into tags and texts in one pass, in time linear in its length for any input.

HTML5 parsers repair malformed input, and a hostile mail can make the repair take minutes. This tokenizer repairs
nothing; it can afford that because its output is shown as plain text and never becomes HTML again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,40})((?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)>")
_ATTRIBUTE = re.compile(r"([^\s=/>\"']{1,60})(?:\s{0,9}=\s{0,9}(\"[^\"]*+\"|'[^']*+'|[^\s>\"']++))?")
_RAW = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes", "noscript", "svg", "math")
"""Elements whose content is skipped, because it is not visible text."""


@dataclass(frozen=True)
class Tag:
    """A start tag, or an end tag if `end`. Names are in lower case."""

    name: str
    end: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


def tokens(source: str) -> Iterator[Tag | str]:
    """Tags and texts in order, entities decoded. Input after an unclosed tag or skipped element is dropped."""
    lower, at = source.lower(), 0
    while (begin := source.find("<", at)) >= 0:
        if begin > at:
            yield html.unescape(source[at:begin])
        end = _skipped(source, begin)
        if end is not None:
            at = end
            continue
        found = _TAG.match(source, begin)
        if found is None:
            if not re.match(r"</?[a-zA-Z]", source[begin : begin + 3]):
                yield "<"
                at = begin + 1
                continue
            return
        tag = Tag(found[2].lower(), bool(found[1]), {} if found[1] else _attributes(found[3]))
        at = found.end()
        if tag.name in _RAW:
            at = at if tag.end else lower.find(f"</{tag.name}", at)
            if at < 0:
                return
            continue
        yield tag
    if at < len(source):
        yield html.unescape(source[at:])


def _skipped(source: str, begin: int) -> int | None:
    """The end of the comment or declaration that begins here, or None if none does."""
    if source.startswith("<!--", begin):
        end = source.find("-->", begin + 4)
        return len(source) if end < 0 else end + 3
    if source.startswith(("<!", "<?"), begin):
        end = source.find(">", begin)
        return len(source) if end < 0 else end + 1
    return None


def _attributes(told: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(told):
        if len(found) == 40:
            break
        bare = value[1:-1] if value[:1] in ('"', "'") else value
        found.setdefault(name.lower(), html.unescape(bare[:4000]))
    return found
