"""Folds the state of a session: plan, usage, mode, commands and title. A newer value replaces the older one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.acp_stream.ops import Began, Board, Changed, Node, Op


def percent(used: object, size: object) -> float | None:
    """How full the context is, in percent with one decimal; None where the numbers do not say (another model's)."""
    if not isinstance(used, (int, float)) or not isinstance(size, (int, float)) or size <= 0 or used > size:
        return None
    return round(100 * used / size, 1)


def _step(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a plan, without a status or priority that is no text."""
    return {k: v for k, v in entry.items() if k not in ("status", "priority") or isinstance(v, str)}


class State:
    """Folds plan, usage_update, current_mode_update, available_commands_update and session titles."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.nodes: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"<State {sorted(self.nodes)}>"

    def turn(self) -> None:
        """A plan belongs to its turn."""
        self.nodes.pop("plan", None)

    def put(self, kind: str, fields: dict[str, Any]) -> list[Op]:
        node = self.nodes.get(kind)
        if node is None:
            node = self.nodes[kind] = self.board.add(Node(self.board.fresh(), kind, fields))
            return [Began(node.id, kind, dict(fields))]
        change = {k: v for k, v in fields.items() if node.fields.get(k) != v or k not in node.fields}
        node.fields.update(change)
        return [Changed(node.id, change)] if change else []

    def usage(self, data: Mapping[str, Any]) -> list[Op]:
        """`usage_update {used, size, cost?}`: fields that are missing keep their values."""
        known = self.nodes["usage"].fields if "usage" in self.nodes else {}
        fields = {k: data[k] for k in ("used", "size", "cost") if data.get(k) is not None}
        merged = {**known, **fields}
        return self.put("usage", {**fields, "percent": percent(merged.get("used"), merged.get("size"))})

    def plan(self, data: Mapping[str, Any]) -> list[Op]:
        """`plan {entries}`: steps with a text. An update with none that can be read changes nothing; [] is no plan."""
        entries = data.get("entries")
        if not isinstance(entries, list):
            return []
        steps = [_step(one) for one in entries if isinstance(one, dict) and isinstance(one.get("content"), str)]
        return self.put("plan", {"entries": steps}) if steps or not entries else []

    def mode(self, data: Mapping[str, Any]) -> list[Op]:
        mode = data.get("currentModeId") or data.get("modeId")
        return self.put("mode", {"mode": mode}) if isinstance(mode, str) else []

    def commands(self, data: Mapping[str, Any]) -> list[Op]:
        commands = data.get("availableCommands")
        return self.put("commands", {"commands": commands}) if isinstance(commands, list) else []

    def title(self, data: Mapping[str, Any]) -> list[Op]:
        title = data.get("title")
        return self.put("title", {"title": title}) if isinstance(title, str) and title else []
