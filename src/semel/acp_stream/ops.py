"""The output of a fold: operations (what changed) and items (the present view).

Applied in order to an empty board, the operations give the items. An `id` is a small integer, unique in its fold; ids
grow in the order in which a person sees the items. The text of a `Grew` is appended to a message, a thought, or a tool
call's output.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Began:
    """A new item. `fields["text"]` is empty for messages and thoughts (their text follows as `Grew`)."""

    id: int
    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grew:
    """Text joined the end of the item, character for character as the agent wrote it."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The fields that changed, with their new values. `None` clears a field. `"text"` replaces the text or output."""

    id: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The item is complete. A later `Changed` may still mark it (superseded, late)."""

    id: int
    fields: dict[str, Any]


Op = Began | Grew | Changed | Ended


@dataclass(frozen=True)
class Limits:
    """How much of a tool call's output an `Item` keeps in memory, in characters. `head` None: all of it.

    The operations always carry every character, for the ledger to store (Laws 8, 11).
    """

    head: int | None = 32_768
    tail: int = 32_768
    window: int = 262_144  # the longest snapshot that is remembered whole, to compare the next one with


WHOLE = Limits(head=None, tail=0)


@dataclass(frozen=True)
class Item:
    """One row of the view.

    `kind` is message, thought, tool, plan, notice, usage, mode, commands, title, or turn (a turn's end:
    `stop`, `error`). A message has role, text, and if so message_id, partial, superseded, history, broken (the agent
    said that it tries again while this was open). A tool has call, title, status (pending, running, done, failed,
    cancelled, no result), output, and if so name, tool_kind, input, exit, truncated, late, history; where the middle of
    the output was let go, also head, gap (characters missing here) and tail.
    """

    id: int
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The item's text, or a tool call's output."""
        return str(self.fields.get("output" if self.kind == "tool" else "text", ""))


class Node:
    """An item while it grows."""

    __slots__ = ("ended", "fields", "id", "kind", "pieces")

    def __init__(self, id: int, kind: str, fields: dict[str, Any]) -> None:
        self.id = id
        self.kind = kind
        self.fields = fields
        self.pieces: list[str] = []
        self.ended = False

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}{' ended' if self.ended else ''} {sum(map(len, self.pieces))} chars>"

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]  # a new list: a Cursor may still follow the old one
        return self.pieces[0] if self.pieces else ""

    def item(self) -> Item:
        fields = dict(self.fields)
        if self.kind in ("message", "thought"):
            fields["text"] = self.text()
        return Item(self.id, self.kind, fields)


class Board:
    """The items in view order, and the next id."""

    __slots__ = ("last", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.last = 0  # the newest item's id

    def __repr__(self) -> str:
        return f"<Board {len(self.nodes)} of {self.last} items>"

    def add(self, node: Node) -> Node:
        self.last += 1
        self.nodes.append(node)
        return node

    def fresh(self) -> int:
        return self.last + 1

    def let_go(self, keep: Container[int]) -> None:
        """Forget every item but these."""
        self.nodes = [node for node in self.nodes if node.id in keep]

    def items(self) -> Iterator[Item]:
        return (node.item() for node in self.nodes)
