"""Cut off the earlier mail that is quoted below the new text of an answer.

Only a quotation that reaches to the end is cut. Answers between quoted lines are kept. The caller learns how many lines
were cut, so that the message can say it.
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


def cut_quotation(text: str) -> tuple[str, int]:
    """Return (the new text, the number of quoted lines that were cut). A text that is all quotation is not cut."""
    lines = text.split("\n")
    begin = _find_quotation(lines)
    new_text = "\n".join(lines[:begin]).rstrip()
    cut = sum(1 for line in lines[begin:] if line.strip())
    if not new_text.strip() or not cut:  # all quotation: keep it, it is what was sent
        return text, 0
    return new_text, cut


def _find_quotation(lines: list[str]) -> int:
    """Return the index of the first line of the trailing quotation; `len(lines)` if there is none."""
    for index, line in enumerate(lines):
        if _OUTLOOK.fullmatch(line.strip()) or _is_outlook_block(lines, index):
            return index - 1 if index and _RULE.fullmatch(lines[index - 1].strip()) else index
    return _find_quoted_tail(lines)


def _is_outlook_block(lines: list[str], index: int) -> bool:
    """Whether an Outlook header block begins here: From and two or more other fields, after a rule or a blank line."""
    if index and lines[index - 1].strip() and not _RULE.fullmatch(lines[index - 1].strip()):
        return False
    field = _FIELD.match(lines[index].strip())
    if not field or field[1].lower() not in ("from", "von", "de", "da", "van"):
        return False
    return sum(1 for line in lines[index : index + 6] if _FIELD.match(line.strip())) >= 3


def _find_quoted_tail(lines: list[str]) -> int:
    """Return the index where a trailing block of ">" lines begins, including the attribution line above it;
    `len(lines)` if there is none."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and (not lines[begin - 1].strip() or lines[begin - 1].lstrip().startswith(">")):
        begin -= 1
    if begin == end or not any(line.strip() for line in lines[begin:end]):
        return len(lines)
    for count in (1, 2, 3):  # "On ..., Ada wrote:" may be broken into lines
        attribution = " ".join(line.strip() for line in lines[begin - count : begin]) if count <= begin else ""
        if len(attribution) < 700 and _WROTE.fullmatch(attribution):
            return begin - count
    return begin
