"""Cut off the earlier mail that is quoted below the new text of an answer.

Only a quotation that reaches to the end is cut. Answers between quoted lines are kept, and the caller learns how many
lines were cut, to say so.
"""

from __future__ import annotations

import re

_WROTE = re.compile(
    r"(?:On\b.{4,300}\bwrote|Am\b.{4,300}\bschrieb\b.{0,200}|Le\b.{4,300}\ba écrit|El\b.{4,300}\bescribió"
    r"|Il\b.{4,300}\bha scritto|Op\b.{4,300}\bschreef.{0,200}|Em\b.{4,300}\bescreveu|W dniu\b.{4,300}\bnapisał.{0,200}"
    r"|Den\b.{4,300}\bskrev.{0,200}|.{1,200}<[^<>\s]+@[^<>\s]+>\s*(?:wrote|writes|schrieb|a écrit)?)\s*:",
    re.IGNORECASE,
)
_OUTLOOK = re.compile(
    r"-{2,}\s*(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original)\s*-{2,}", re.I
)
_FIELD = re.compile(
    r"\*?(From|Von|De|Da|Van|Sent|Gesendet|Envoyé|Date|Datum|To|An|À|Para|Subject|Betreff|Objet)\s?:\*?\s", re.I
)
_RULE = re.compile(r"_{10,}")


def new_words(text: str) -> tuple[str, int]:
    """(the new text, the number of quoted lines that were cut). A text that is all quotation is left as it is."""
    lines = text.split("\n")
    begin = _begin(lines)
    kept = "\n".join(lines[:begin]).rstrip()
    cut = sum(1 for line in lines[begin:] if line.strip())
    if not kept.strip() or not cut:  # all quotation: keep it, it is what was sent
        return text, 0
    return kept, cut


def _begin(lines: list[str]) -> int:
    """The index of the first line of the trailing quotation; `len(lines)` if there is none."""
    for at, line in enumerate(lines):
        if _OUTLOOK.fullmatch(line.strip()) or _is_block(lines, at):
            return at - 1 if at and _RULE.fullmatch(lines[at - 1].strip()) else at
    return _quoted_tail(lines)


def _is_block(lines: list[str], at: int) -> bool:
    """Whether an Outlook header block begins here: From and two or more other fields, after a rule or a blank line."""
    if at and lines[at - 1].strip() and not _RULE.fullmatch(lines[at - 1].strip()):
        return False
    first = _FIELD.match(lines[at].strip())
    if not first or first[1].lower() not in ("from", "von", "de", "da", "van"):
        return False
    return sum(1 for line in lines[at : at + 6] if _FIELD.match(line.strip())) >= 3


def _quoted_tail(lines: list[str]) -> int:
    """The index where a trailing block of ">" lines begins, including the attribution line above it."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and (not lines[begin - 1].strip() or lines[begin - 1].lstrip().startswith(">")):
        begin -= 1
    if begin == end or not any(line.strip() for line in lines[begin:end]):
        return len(lines)
    for above in (1, 2, 3):  # "On ..., Ada wrote:" may be broken into lines
        told = " ".join(line.strip() for line in lines[begin - above : begin]) if above <= begin else ""
        if len(told) < 700 and _WROTE.fullmatch(told):
            return begin - above
    return begin
