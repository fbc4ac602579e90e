"""The agent tools for schedules: schedule, list_schedules, cancel_schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from semel.gateway.tools.rpc import RpcError
from semel.gateway.tools.schedules import FORMS, Schedules
from semel.gateway.tools.tool_calls import Asked
from semel.gateway.zones import local
from semel.ledger.delivery.claims import Made
from semel.ledger.inbound import schedules as rows
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import tool_calls
from semel.timing.walltime import BadSchedule

Json = dict[str, Any]


def tools(schedules: Schedules) -> dict[str, Callable[[Asked], Awaitable[Json]]]:
    """The handlers by tool name, for `ToolCalls.acts`."""
    mine = _ScheduleTools(schedules)
    return {"schedule": mine.schedule, "list_schedules": mine.list, "cancel_schedule": mine.cancel}


class _ScheduleTools:
    """The handlers. An agent sees and changes only the schedules of its own session."""

    def __init__(self, schedules: Schedules) -> None:
        self.schedules = schedules

    async def schedule(self, asked: Asked) -> Json:
        spec, text = _text(asked, "cron"), _text(asked, "text")
        tz = str(asked.arguments.get("tz") or "UTC")
        try:
            told = self.schedules.of_agent(asked.who.key, spec, text, tz)
            name = await self._act(asked, f"schedule {spec}", lambda tx, who: rows.add_by_agent(tx, told))
        except (BadSchedule, rows.ScheduleRefused) as no:
            return _refused(f"{no}. Nothing was scheduled.")
        if isinstance(name, Made):
            return _refused(f"{name.reason}. Nothing was scheduled.")
        self.schedules.changed()
        found = await self.schedules.show(name)
        return {"ok": True, "text": f"scheduled as {name}; it fires next {_when(found)}.", "data": found}

    async def list(self, asked: Asked) -> Json:
        found = await self.schedules.list(asked.who.key)
        text = "\n".join(_line(one) for one in found) or "no schedules in this session"
        return {"ok": True, "text": text, "data": {"schedules": found}}

    async def cancel(self, asked: Asked) -> Json:
        name = _text(asked, "name")
        try:
            done = await self._act(asked, f"cancel schedule {name}", lambda tx, who: _cancel(tx, who.key, name))
        except rows.ScheduleRefused as no:
            return _refused(f"{no}. Nothing was cancelled.")
        if isinstance(done, Made):
            return _refused(f"{done.reason}. Nothing was cancelled.")
        self.schedules.changed()
        text = f"cancelled: {name} does not fire any more" if done else f"there is no schedule {name!r} in this session"
        return {"ok": done, "text": text + ".", "data": {"name": name}}

    async def _act(self, asked: Asked, what: str, deed: Callable[[Tx, tool_calls.Spawned], Any]) -> Any:
        return await self.schedules.record.write(tool_calls.act, asked.call, what, deed)


def _cancel(tx: Tx, session: str, name: str) -> bool:
    row = tx.one("schedule_get", name=name)
    return row is not None and row.session == session and rows.remove(tx, name)


def _line(found: Json) -> str:
    form = next(one for one in FORMS if one in found)
    last = found["last"]
    fired = f", last fired {local(last['due'] // 1000, found['tz'])} (turn {last['turn']})" if last else ""
    state = f"next {_when(found)}" if found["enabled"] else "paused"
    return f"- {found['name']}: {form} {found[form]!r}, {state}{fired}: {found['text']!r}"


def _when(found: Json) -> str:
    return local(found["next"] // 1000, found["tz"]) if found["next"] is not None else "never again"


def _text(asked: Asked, name: str) -> str:
    value = asked.arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RpcError("bad-call", f"{name!r} must be a text that is not empty")
    return value


def _refused(why: str) -> Json:
    return {"ok": False, "text": f"refused: {why}", "data": {"outcome": "refused", "reason": why}}
