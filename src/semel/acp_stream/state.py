"""Track the state of a session: plan, usage, mode, options, commands, title. A newer value replaces the older one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.acp_stream.ops import Changed, GrowingItem, Op, ViewItems
from semel.text.json_types import objects_in


def percent(used: object, size: object) -> float | None:
    """Return how full the context is, in percent with one decimal; None if the numbers make no sense."""
    if not isinstance(used, (int, float)) or not isinstance(size, (int, float)) or size <= 0 or used > size:
        return None
    return round(100 * used / size, 1)


def _step(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step of a plan for the view. A status or priority that is not a string is left out."""
    return {k: v for k, v in entry.items() if k not in ("status", "priority") or isinstance(v, str)}


class SessionState:
    """The plan, usage, mode, commands and title of a session. Each has one item in the view.

    Methods return the operations by which the view changed.
    """

    def __init__(self, view_items: ViewItems) -> None:
        self.view_items = view_items
        self.nodes: dict[str, GrowingItem] = {}

    def __repr__(self) -> str:
        return f"<SessionState {sorted(self.nodes)}>"

    def begin_turn(self) -> None:
        """Begin a turn: forget the plan, which belonged to the previous turn."""
        self.nodes.pop("plan", None)

    def set_item(self, kind: str, fields: dict[str, Any]) -> list[Op]:
        node = self.nodes.get(kind)
        if node is None:
            node = self.nodes[kind] = GrowingItem(kind, fields)
            return [self.view_items.add(node)]
        change = {k: v for k, v in fields.items() if node.fields.get(k) != v or k not in node.fields}
        node.fields.update(change)
        return [Changed(node.id, change)] if change else []

    def fold_usage(self, data: Mapping[str, Any]) -> list[Op]:
        """Apply a `usage_update` (`{used, size, cost?}`) to the view. Missing fields keep their values."""
        current = self.nodes["usage"].fields if "usage" in self.nodes else {}
        fields = {k: data[k] for k in ("used", "size", "cost") if data.get(k) is not None}
        new_values = {**current, **fields}
        return self.set_item("usage", {**fields, "percent": percent(new_values.get("used"), new_values.get("size"))})

    def get_usage(self) -> dict[str, Any] | None:
        """Return what the last `usage_update` told: {"used", "size", "percent", "cost"}, each if it is known."""
        return dict(self.nodes["usage"].fields) if "usage" in self.nodes else None

    def fold_plan(self, data: Mapping[str, Any]) -> list[Op]:
        """Apply a `plan` (`{entries}`) to the view.

        Entries without text are left out; an empty list clears the plan.
        """
        entries = data.get("entries")
        steps = [_step(entry) for entry in objects_in(entries) if isinstance(entry.get("content"), str)]
        return self.set_item("plan", {"entries": steps}) if steps or entries == [] else []

    def fold_mode(self, data: Mapping[str, Any]) -> list[Op]:
        mode = data.get("currentModeId") or data.get("modeId")
        return self.set_item("mode", {"mode": mode}) if isinstance(mode, str) else []

    def fold_commands(self, data: Mapping[str, Any]) -> list[Op]:
        commands = data.get("availableCommands")
        return self.set_item("commands", {"commands": commands}) if isinstance(commands, list) else []

    def fold_options(self, data: Mapping[str, Any]) -> list[Op]:
        options = data.get("configOptions")
        return self.set_item("options", {"options": objects_in(options)}) if isinstance(options, list) else []

    def fold_title(self, data: Mapping[str, Any]) -> list[Op]:
        title = data.get("title")
        return self.set_item("title", {"title": title}) if isinstance(title, str) and title else []
