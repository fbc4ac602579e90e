"""A text with buttons as an Adaptive Card, the only thing in Teams that has buttons
(https://learn.microsoft.com/microsoftteams/platform/task-modules-and-cards/cards/cards-reference#adaptive-card).

The text stands in the card, and not beside it: Teams splits a message with both into two, and names the id of neither
(https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/conversation-messages). Each line is a
RichTextBlock, in which no character is mark-up. A press comes back as a message whose `value` is the button's data.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.channels.formatted_markdown import write_markdown
from semel.channels.formatted_text import FormattedText
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.gateway.ports import Button
from semel.text.json_types import Json, object_at, text_at
from semel.text.visible import visible
from semel.text.wellformed import scrub, shorten

CARD_TYPE = "application/vnd.microsoft.card.adaptive"
DATA_FIELD = "semel"
"""The field of a button's data by which a press of ours is known."""
MAX_ROW_BUTTONS = 6
"""Buttons of one row: Teams shows no more."""
MAX_LABEL_CHARS = 100
MAX_SUMMARY_CHARS = 200
_STYLES = {"allow": "positive", "deny": "destructive"}


def make_card_message(text: str, key: str, buttons: Sequence[Button]) -> Json:
    """Return the message with a text and buttons. `key`: of the part; a press brings it back."""
    shown = _write_text(text)
    rows = [buttons[start : start + MAX_ROW_BUTTONS] for start in range(0, len(buttons), MAX_ROW_BUTTONS)]
    body = [
        *_make_lines(shown),
        *({"type": "ActionSet", "actions": [_make_button(key, each) for each in row]} for row in rows),
    ]
    card = {
        "type": "AdaptiveCard", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "version": "1.4",
        "body": body,
    }  # fmt: skip
    return {
        "type": "message",
        "summary": shorten(" ".join(shown.split()), MAX_SUMMARY_CHARS),
        "attachments": [{"contentType": CARD_TYPE, "content": card}],
    }


def read_press(activity: Json) -> tuple[str, str] | None:
    """Return (the key of our part, the answer) of a press; None if an activity is not the press of a button of ours."""
    data = object_at(activity, "value", DATA_FIELD)
    key, answer = text_at(data, "key"), text_at(data, "answer")
    return (key, answer) if key and answer else None


def _write_text(text: str) -> str:
    """Return a Markdown text without its marks; if it is too long or nests too deep, as it was written."""
    plain = visible(scrub(text.strip()))
    if len(text) > MAX_FORMATTED_CHARS:
        return plain
    runs = FormattedText(True)
    try:
        write_markdown(runs, text)
    except RecursionError:
        return plain
    return runs.result()[0] or plain


def _make_lines(text: str) -> list[Json]:
    blocks: list[Json] = []
    spacing = "default"
    for line in text.split("\n"):
        if line.strip():
            run = {"type": "TextRun", "text": line}
            blocks.append({"type": "RichTextBlock", "spacing": spacing, "inlines": [run]})
        spacing = "none" if line.strip() else "default"
    return blocks


def _make_button(key: str, button: Button) -> Json:
    style = {"style": _STYLES[button.style]} if button.style in _STYLES else {}
    data = {DATA_FIELD: {"key": key, "answer": button.answer}}
    return {"type": "Action.Submit", "title": shorten(button.label, MAX_LABEL_CHARS), "data": data, **style}
