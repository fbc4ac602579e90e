"""The agent tools for schedules: schedule, list_schedules, cancel_schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semel.gateway.clock import format_local
from semel.gateway.tools.schedules import FORMS, ScheduleManager
from semel.gateway.tools.tool_calls import SilentTool, ToolRequest, make_refusal
from semel.ledger.delivery.claims import ClaimResult
from semel.ledger.inbound import schedules as rows
from semel.ledger.storage.rows import ScheduleRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import tool_calls
from semel.text.json_types import Json
from semel.timing.walltime import BadSchedule


def make_schedule_tools(schedules: ScheduleManager) -> dict[str, SilentTool]:
    """Return the handlers of the schedule tools, by tool name, for `ToolCallHandler`."""
    handlers = _ScheduleTools(schedules)
    return {"schedule": handlers.schedule, "list_schedules": handlers.list, "cancel_schedule": handlers.cancel}


class _ScheduleTools:
    """The handlers of the schedule tools. An agent sees and changes only the schedules of its own session."""

    def __init__(self, schedules: ScheduleManager) -> None:
        self.schedules = schedules

    async def schedule(self, call: ToolRequest) -> Json:
        spec, text = call.text("cron"), call.text("text")
        tz = str(call.arguments.get("tz") or "UTC")
        try:
            definition = self.schedules.define_for_agent(call.caller.key, spec, text, tz)
            name = await self._perform(call, f"schedule {spec}", lambda tx, who: rows.add_by_agent(tx, definition))
        except (BadSchedule, rows.ScheduleRefused) as error:
            return make_refusal(f"{error}. Nothing was scheduled.")
        if isinstance(name, ClaimResult):
            return make_refusal(f"{name.reason}. Nothing was scheduled.")
        self.schedules.wake_timer()
        schedule = await self.schedules.show(name)
        moments = f"it fires next {_format_next(schedule)}; it is {self.schedules.format_now(tz)} now"
        return {"ok": True, "text": f"scheduled as {name}; {moments}.", "data": schedule}

    async def list(self, call: ToolRequest) -> Json:
        schedules = await self.schedules.list(call.caller.key)
        text = "\n".join(_format_schedule(schedule) for schedule in schedules) or "no schedules in this session"
        return {"ok": True, "text": text, "data": {"schedules": schedules}}

    async def cancel(self, call: ToolRequest) -> Json:
        name = call.text("name")
        try:
            outcome = await self._perform(
                call, f"cancel schedule {name}", lambda tx, who: _cancel_schedule(tx, who.key, name)
            )
        except rows.ScheduleRefused as error:
            return make_refusal(f"{error}. Nothing was cancelled.")
        if isinstance(outcome, ClaimResult):
            return make_refusal(f"{outcome.reason}. Nothing was cancelled.")
        self.schedules.wake_timer()
        text = (
            f"cancelled: {name} does not fire any more" if outcome else f"there is no schedule {name!r} in this session"
        )
        return {"ok": outcome, "text": text + ".", "data": {"name": name}}

    async def _perform(
        self, call: ToolRequest, description: str, body: Callable[[Tx, tool_calls.CallingSpawn], Any]
    ) -> Any:
        return await self.schedules.record.write(tool_calls.perform, call.row, description, body)


def _cancel_schedule(tx: Tx, session: str, name: str) -> bool:
    row = tx.one(ScheduleRow, "schedule_get", name=name)
    return row is not None and row.session == session and rows.remove(tx, name)


def _format_schedule(schedule: Json) -> str:
    form = next(name for name in FORMS if name in schedule)
    last = schedule["last"]
    fired = f", last fired {format_local(last['due'] // 1000, schedule['tz'])} (turn {last['turn']})" if last else ""
    state = f"next {_format_next(schedule)}" if schedule["enabled"] else "paused"
    if schedule.get("unconfigured"):
        state = "not in the configuration any more: it does not fire"
    return f"- {schedule['name']}: {form} {schedule[form]!r}, {state}{fired}: {schedule['text']!r}"


def _format_next(schedule: Json) -> str:
    return format_local(schedule["next"] // 1000, schedule["tz"]) if schedule["next"] is not None else "never again"
