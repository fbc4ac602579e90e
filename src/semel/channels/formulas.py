"""Find formulas in Markdown, which stay as they were written: other rules would take backslashes and _ out of them.

A formula is between $$ and $$, \\[ and \\], or \\( and \\), and within a line between two $ if it can be nothing else:
$ is money and begins names of variables, too. Within a line \\[x\\] is a bracket that begins no link; there a formula
has blanks around it. The rules are those of the page, which draws formulas (web/src/math_rules.ts).
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MATH_BLOCK = "math_block"
"""The type of a block token whose `content` is a formula with lines of its own, as it was written."""
MAX_FORMULA_CHARS = 4000  # of a formula; what is longer is text

_UNENDED = "unended formulas"  # of the parser's environment: where the next search for an end begins
_ENDS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_IN_DOLLARS = re.compile(r"\$(?=[^\s$])((?:[^\\$\n]|\\[^\n]){1,300})(?<=\S)\$(?![\w$])", re.ASCII)
_TEX_WORDS = re.compile(r"\\(?:text\w*|mathrm|operatorname)\s*\{[^{}]*\}|\\(?:[A-Za-z]+|[,;:!|{}])")
_SIGNS = re.compile(r"[_^=<>+]|\s[-*/]\s|^[A-Za-z]'*$|^[A-Za-z]\([^()]*\)$")
_PRICE = re.compile(r"\d[\d.,]*(?![\d.,A-Za-z])[^_^]*")


def add_formulas(parser: MarkdownIt) -> None:
    """Have a parser keep formulas: those in a line as text, those with lines of their own as tokens MATH_BLOCK."""
    parser.inline.ruler.before("escape", "math", _read_inline)
    parser.block.ruler.before("fence", MATH_BLOCK, _read_block, {"alt": ["paragraph", "blockquote", "list"]})


def _is_formula(text: str) -> bool:
    """Whether what stands between two $ can only be a formula: it has signs of one, and no words but those of TeX."""
    rest = _TEX_WORDS.sub(" ", text)
    if re.search(r"[A-Za-z]{3}", rest):
        return False
    return rest != text or (not _PRICE.fullmatch(text) and _SIGNS.search(text) is not None)


def _find_end(text: str, closing: str, start: int, limit: int, after: int = 0) -> int:
    """Return where `closing` begins at or after `start`, without a backslash that belongs to it; -1 if nowhere near.

    `after`: before there, it is known not to be.
    """
    limit = min(limit, start + MAX_FORMULA_CHARS + len(closing))
    at = text.find(closing, max(start, after), limit)
    while at >= 0:
        before = text[start:at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return at
        at = text.find(closing, at + 1, limit)
    return -1


def _read_inline(state: StateInline, silent: bool) -> bool:
    end = _find_inline_end(state)
    if end < 0:
        return False
    if not silent:
        for number, line in enumerate(state.src[state.pos : end].split("\n")):
            if number:
                state.push("softbreak", "br", 0)
            state.push("text", "", 0).content = line
    state.pos = end
    return True


def _find_inline_end(state: StateInline) -> int:
    """Return where the formula ends that begins here; -1 if none does."""
    opening, start = state.src[state.pos : state.pos + 2], state.pos + 2
    closing = _ENDS.get(opening)
    if closing is None:
        return _find_dollar_end(state) if opening[:1] == "$" else -1
    unended = state.env.setdefault(_UNENDED, {})
    end = _find_end(state.src, closing, start, state.posMax, unended.get((closing, state.src), 0))
    if end < 0:
        unended[closing, state.src] = min(state.posMax, start + MAX_FORMULA_CHARS)
        return -1
    formula = state.src[start:end]
    is_padded = formula[:1].isspace() and formula[-1:].isspace()
    is_text = (
        not formula.strip() or (opening == "$$" and formula != formula.strip()) or (opening == "\\[" and not is_padded)
    )
    return -1 if is_text else end + 2


def _find_dollar_end(state: StateInline) -> int:
    before = state.src[state.pos - 1 : state.pos] if state.pos else ""
    if before == "$" or before.isalnum():
        return -1
    found = _IN_DOLLARS.match(state.src, state.pos, state.posMax)
    return found.end() if found and _is_formula(found[1]) else -1


def _read_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Read a formula with lines of its own. Without an end, and before a blank line, it is text that may become one."""
    begin = state.bMarks[first] + state.tShift[first]
    opening = state.src[begin : begin + 2]
    closing = None if opening == "\\(" else _ENDS.get(opening)
    if closing is None or state.is_code_block(first):
        return False
    line, start = first, begin + 2
    while line < last and start - begin <= MAX_FORMULA_CHARS:
        if line > first and (state.isEmpty(line) or state.sCount[line] < state.blkIndent):
            return False
        end = _find_end(state.src, closing, start, state.eMarks[line])
        if end >= 0:
            if state.src[end + 2 : state.eMarks[line]].strip() or not state.src[begin + 2 : end].strip():
                return False
            break
        line += 1
        start = state.bMarks[line] if line < last else start
    else:
        if line < last:
            return False  # too long
        line = last - 1
    if not silent:
        token = state.push(MATH_BLOCK, "", 0)
        token.map = [first, line + 1]
        token.content = state.getLines(first, line + 1, state.blkIndent, False).strip()
        state.line = line + 1
    return True
