"""The text that people see for a prompt of ACP content blocks (agentclientprotocol.com/protocol/content).

Text blocks are in it as they are. A resource or a link is a *mention*: it stands between the text blocks, as a
Markdown link. Images and sound are files of the message, and have no place in its text. Mentions are listed with their
place, because an agent's own history has only what was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from semel.text.json_types import Json, object_at
from semel.text.wellformed import one_line

MAX_MENTION_CHARS = 2_000  # characters of a name or an address in the text


def describe_blocks(blocks: Iterable[Json]) -> tuple[str, list[Json]]:
    """Return the text of content blocks, and its mentions as {"start", "end", "name", "uri"}: text[start:end].

    Blank space that sets a mention apart from the words around it belongs to the mention.
    """
    text = ""
    mentions: list[Json] = []
    for block in blocks:
        follows_mention = bool(mentions) and mentions[-1]["end"] == len(text)
        if block.get("type") == "text":
            typed = str(block["text"])
            if follows_mention and typed[:1].isalnum():
                text += " "
                mentions[-1]["end"] += 1
            elif not follows_mention and text and typed and not (text.endswith("\n") or typed.startswith("\n")):
                text += "\n"
            text += typed
        elif (mention := _read_mention(block)) is not None:
            start = len(text)
            text += f"{_space_before(text)}[{mention['name']}]({mention['uri']})"
            mentions.append({"start": start, "end": len(text), **mention})
    return text, mentions


def _space_before(text: str) -> str:
    return " " if text and not (text[-1].isspace() or text[-1] in "([{\"'") else ""


def _read_mention(block: Mapping[str, Any]) -> Json | None:
    """Return the name and the address of a resource or a link; None for other blocks."""
    kind = block.get("type")
    if kind not in ("resource", "resource_link"):
        return None
    holder = object_at(block, "resource") if kind == "resource" else block
    uri = one_line(str(holder.get("uri") or ""), MAX_MENTION_CHARS)
    name = holder.get("name") or holder.get("title") or uri.rstrip("/").rpartition("/")[2] or "resource"
    return {"name": one_line(str(name), MAX_MENTION_CHARS).replace("]", ")"), "uri": uri}


def remove_mentions(text: str, mentions: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the text without these mentions: only what was typed."""
    return _replace_mentions(text, mentions, lambda mention, link: "")


def name_mentions(text: str, mentions: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the text with the name of each mention in its place, without its address."""
    return _replace_mentions(text, mentions, lambda mention, link: link.replace(link.strip(), str(mention["name"])))


def _replace_mentions(
    text: str, mentions: Sequence[Mapping[str, Any]] | None, replacement: Callable[[Mapping[str, Any], str], str]
) -> str:
    for mention in sorted(mentions or (), key=lambda mention: int(mention["start"]), reverse=True):
        start, end = mention["start"], mention["end"]
        text = text[:start] + replacement(mention, text[start:end]) + text[end:]
    return text


def drop_beginning(blocks: Sequence[Json], count: int) -> list[Json]:
    """Return the blocks without the first `count` characters of their text, which were a command to Semel.

    Blocks that do not begin with so much typed text are returned unchanged.
    """
    first = blocks[0] if blocks else {}
    if first.get("type") != "text" or len(first["text"]) < count:
        return list(blocks)
    rest = first["text"][count:]
    return ([{**first, "text": rest}] if rest else []) + list(blocks[1:])
