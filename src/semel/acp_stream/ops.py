"""The output of a fold: items (the rows of the view) and operations (how the view changed).

Applying the operations in order to an empty view gives the items. An `id` is a small integer, unique in its fold; ids
grow in the order in which a person sees the items.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Began:
    """A new item. For a message or thought, `fields["text"]` is empty: the text follows in `Grew` operations."""

    id: int
    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grew:
    """Text that was appended to a message, a thought or a tool call's output, exactly as the agent wrote it."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """Fields of an item that changed.

    `fields`: the new values. None clears a field; "text" replaces the text or output.
    """

    id: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """An item is complete. A `Changed` may still follow, for example if it is superseded later.

    `fields`: the fields that were set at the end.
    """

    id: int
    fields: dict[str, Any]


Op = Began | Grew | Changed | Ended


@dataclass(frozen=True)
class Limits:
    """How much of a tool call's output a `ViewItem` keeps in memory, in characters.

    `head`: how many from the beginning; None for all. `tail`: how many from the end. The part between them is the gap.
    The operations always carry every character, so that the ledger can store the whole output (Laws 8, 11).
    """

    head: int | None = 32_768
    tail: int = 32_768
    window: int = 262_144  # an output up to this length is kept whole, to compare it with the next snapshot


WHOLE = Limits(head=None, tail=0)


@dataclass(frozen=True)
class ViewItem:
    """One row of the view.

    `kind` is message, thought, tool, plan, notice, usage, mode, options, commands, title, or turn (the end of a turn).
    Each kind has its own `fields`. Those of the following kinds are (optional ones in brackets):

    - message: role, text [message_id, content (attachments), partial, superseded, superseded_by (the id of the message
      that replaced it), history, broken (the agent announced a retry while the message was open)]
    - thought: text [message_id, superseded, superseded_by, history]
    - tool: call, title, status (pending, running, done, failed, cancelled, no result), output [name, tool_kind, input,
      exit, diffs, locations, files, truncated, late, history; if the middle of the output was dropped: head, gap (the
      number of dropped characters), tail]
    - turn: stop [error]
    """

    id: int
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The item's text or, for a tool call, its output."""
        return str(self.fields.get("output" if self.kind == "tool" else "text", ""))


class GrowingItem:
    """An item while it grows. `pieces`: its text so far, in pieces."""

    __slots__ = ("ended", "fields", "id", "kind", "pieces")

    def __init__(self, kind: str, fields: dict[str, Any]) -> None:
        self.id = 0  # until the item is added to `ViewItems`
        self.kind = kind
        self.fields = fields
        self.pieces: list[str] = []
        self.ended = False

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}{' ended' if self.ended else ''} {sum(map(len, self.pieces))} chars>"

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]  # a new list: a TextCursor may still compare with the old one
        return self.pieces[0] if self.pieces else ""

    def end(self, **fields: Any) -> Ended:
        """Mark the item as complete, and set these fields. Return the operation for this."""
        self.ended = True
        self.fields.update(fields)
        return Ended(self.id, fields)

    def item(self) -> ViewItem:
        fields = dict(self.fields)
        if self.kind in ("message", "thought"):
            fields["text"] = self.text()
        return ViewItem(self.id, self.kind, fields)


class ViewItems:
    """The items of a view, in the order in which a person sees them."""

    __slots__ = ("last_id", "nodes")

    def __init__(self) -> None:
        self.nodes: list[GrowingItem] = []
        self.last_id = 0  # the newest item's id

    def __repr__(self) -> str:
        return f"<ViewItems {len(self.nodes)} of {self.last_id} items>"

    def add(self, node: GrowingItem) -> Began:
        """Give the item `node` the next id, and append it to the view. Return the operation that announces it."""
        self.last_id += 1
        node.id = self.last_id
        self.nodes.append(node)
        fields = {**node.fields, "text": ""} if node.kind in ("message", "thought") else dict(node.fields)
        return Began(node.id, node.kind, fields)

    def keep_only(self, keep: Container[int]) -> None:
        """Forget every item whose id is not in `keep`."""
        self.nodes = [node for node in self.nodes if node.id in keep]

    def items(self) -> Iterator[ViewItem]:
        return (node.item() for node in self.nodes)
