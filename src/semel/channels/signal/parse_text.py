"""The text of a message as Markdown: mentions by name, styles, and words for what is not text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from semel.channels.entity_spans import convert_entities, to_markdown
from semel.channels.signal.address import OwnAccount
from semel.text.json_types import Json, object_at, objects_in, text_at
from semel.text.wellformed import scrub

OBJECT = "\ufffc"
"""The character that stands for a mention in a text."""
_KINDS = {"MONOSPACE": "code", "STRIKETHROUGH": "strikethrough"}


def read_text(message: Json, own: OwnAccount) -> tuple[str, bool]:
    """Return (the text as Markdown, whether it mentions us). A mention of us at the beginning is removed.

    A mention names the number of an account or, if it is hidden, its id: these come with the message in every delivery.
    """
    text = scrub(text_at(message, "message") or "")
    mentions = {
        mention["start"]: mention
        for mention in objects_in(message.get("mentions"))
        if isinstance(mention.get("start"), int)
    }
    names = [
        "" if own.is_self(mention.get("uuid"), mention.get("number")) else _name_account(mention)
        for _, mention in sorted(mentions.items())
    ]
    markdown = to_markdown(text, convert_entities(text, list(_list_entities(message, text))), 0)
    return _put_names(markdown, names), "" in names


def _list_entities(message: Json, text: str) -> Iterator[Json]:
    """Yield the styles that plain text would lose, as entities (`semel.channels.entity_spans`)."""
    for style in objects_in(message.get("textStyles")):
        start, length = style.get("start"), style.get("length")
        kind = _KINDS.get(str(style.get("style")))
        if kind is None or not isinstance(start, int) or not isinstance(length, int):
            continue
        covered = text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * (start + length)]
        if kind == "code" and "\n".encode("utf-16-le") in covered:
            kind = "pre"
        yield {"offset": start, "length": length, "type": kind}


def _put_names(markdown: str, names: list[str]) -> str:
    """Put the names of mentions in the places of their characters, in order. "" stands for us."""
    pieces = markdown.split(OBJECT)
    text = pieces[0]
    for n, piece in enumerate(pieces[1:]):
        name = names[n] if n < len(names) else OBJECT
        is_leading_us = name == "" and not text.strip() and piece.strip(" ,:\n")
        text = re.sub(r"\A[\s,:]+", "", piece) if is_leading_us else f"{text}{name or '@you'}{piece}"
    return text


def _name_account(mention: Json) -> str:
    return f"@{scrub(str(mention.get('number') or mention.get('uuid') or mention.get('name') or 'somebody'))}"


def describe_content(message: Json) -> str:
    """Return words for what a message holds besides its text and files; "" if there is nothing else."""
    return "\n".join(_describe(message))


def _describe(message: Json) -> Iterator[str]:
    if object_at(message, "sticker"):
        yield "[sticker]"
    for contact in objects_in(message.get("contacts")):
        name = object_at(contact, "name")
        words = [text_at(name, "display") or text_at(name, "nickname") or text_at(name, "given") or "without a name"]
        words += [str(phone.get("value")) for phone in objects_in(contact.get("phone")) if phone.get("value")]
        yield scrub(f"[contact: {', '.join(words)}]")
    if (poll := object_at(message, "pollCreate")) and (question := text_at(poll, "question")):
        options = poll.get("options")
        listed = [str(option) for option in options] if isinstance(options, list) else []
        yield scrub("\n".join([f"[poll: {question}]", *(f"- {option}" for option in listed)]))
    if object_at(message, "payment"):
        yield "[payment]"
