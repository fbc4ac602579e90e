"""`semel schedules`: list, add, change, remove, pause, resume and run schedules."""

from __future__ import annotations

import re
import time
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import escape_text, format_time, print_json, print_remark, print_table, stdout_console
from semel.faces.client import quote_segment
from semel.timing.durations import format_duration
from semel.timing.late_reports import MAX_PUNCTUAL_MS

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient

TIMING_KEYS = ("cron", "at", "every")

schedules = typer.Typer(help="List, add, change, remove, pause, resume and run schedules.", no_args_is_help=True)
app.add_typer(schedules, name="schedules")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A schedule's name.")]
Cron = Annotated[str | None, typer.Option(metavar="CRON", help='Five fields, like "30 7 * * MON-FRI", or @daily.')]
At = Annotated[str | None, typer.Option(metavar="TIME", help='Once, like "2030-03-29 07:30", or at the next "18:00".')]
In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help='Once, after "20m" or "2h".')]
Every = Annotated[str | None, typer.Option(metavar="INTERVAL", help='An interval, like "90s", "10m", "2h" or "1d".')]
TZ_HELP = 'Time zone, like "Europe/Berlin".'
DOWNTIME_HELP = "What to do with firings missed while the gateway was down: skip, once (one for all) or all."


@schedules.command("list")
def list_(
    session: Annotated[
        str | None, typer.Option("--session", metavar="KEY", help="Only schedules of this session.")
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List schedules with their next firing, when the last one ran, and the turn that took it.

    If no gateway runs, the ledger itself is read.
    """
    schedule_list = ask_or_read(config, data_dir, partial(_read_schedules, session))
    if json:
        print_json(schedule_list)
        return
    print_table(
        ("NAME", "WHEN", "NEXT", "LAST RUN", "TURN", "SESSION"),
        (
            (
                schedule["name"],
                _format_timing(schedule),
                _format_next(schedule, is_short=True),
                _format_last_run(schedule, is_short=True),
                _format_turn(schedule),
                schedule["session"],
            )
            for schedule in schedule_list
        ),
        "there are no schedules; make one with: semel schedules add",
        wrapped_columns=("NAME", "NEXT", "LAST RUN"),
    )
    if names := [schedule["name"] for schedule in schedule_list if schedule.get("unconfigured")]:
        print_remark(
            f"The semel.toml that the gateway read last does not name {', '.join(names)}: no firing until it does. To "
            "remove one for good: semel schedules remove NAME"
        )


async def _read_schedules(session: str | None, reader: Reader) -> list[dict[str, Any]]:
    if isinstance(reader, OfflineLedger):
        return await reader.list_schedules(session)
    schedule_list: list[dict[str, Any]] = (await reader.get("/v1/schedules", session=session))["schedules"]
    return schedule_list


@schedules.command()
def show(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show one schedule.

    If no gateway runs, the ledger itself is read.
    """
    _print_schedule(ask_or_read(config, data_dir, partial(_read_schedule, name)), json)


async def _read_schedule(name: str, reader: Reader) -> dict[str, Any]:
    if isinstance(reader, OfflineLedger):
        return await reader.read_schedule(name)
    schedule: dict[str, Any] = await reader.get(_schedule_path(name))
    return schedule


@schedules.command()
def add(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent is asked at each firing.")],
    cron: Cron = None,
    at: At = None,
    in_: In = None,
    every: Every = None,
    tz: Annotated[str | None, typer.Option(metavar="ZONE", help=f"{TZ_HELP} Default: UTC.")] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The session that it asks. Default: a session of its own, schedule:NAME."),
    ] = None,
    downtime: Annotated[str, typer.Option(metavar="POLICY", help=DOWNTIME_HELP)] = "once",
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the existing schedule of this name; what is not given gets its default."
        ),
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a schedule; give one of --cron, --at, --in and --every. The same command again changes nothing.

    With --in, the time counts anew each time.
    """
    moment = _compute_moment(at, in_, tz or "UTC")
    body = {"name": name, "text": text, "downtime": downtime, "replace": replace}
    optional = {"cron": cron, "at": moment, "every": every, "tz": tz, "session": session}
    body.update({key: value for key, value in optional.items() if value is not None})
    schedule, channels = ask_gateway(config, data_dir, partial(_add_schedule, body))
    _print_made(schedule, channels, json)
    has_offset = at is not None and re.search(r"(Z|[+-]\d\d:?\d\d)\s*$", at, re.IGNORECASE)
    if tz is None and (cron or at) and not has_offset and (remark := _describe_zone(schedule)):
        print_remark(remark)


async def _add_schedule(body: dict[str, Any], client: AsyncClient) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return await client.post("/v1/schedules", body), (await client.get("/v1/channels"))["channels"]


def _describe_zone(schedule: dict[str, Any]) -> str:
    """Return a remark if the next firing, read in UTC, is at another time of day on this machine's clock; else ""."""
    if schedule["next"] is None or not time.localtime(schedule["next"] / 1000).tm_gmtoff:
        return ""
    return (
        f"Without --tz, times are in UTC: {_format_long_time(schedule, schedule['next'])} is "
        f"{format_time(schedule['next'])} here."
    )


def _print_made(schedule: dict[str, Any], channels: list[dict[str, Any]], json: bool) -> None:
    """Print a schedule that was made or changed, and what its maker may have mistyped."""
    _print_schedule(schedule, json)
    if remark := _describe_missing_chat(schedule, channels) or schedule.get("note"):
        print_remark(remark)


@schedules.command()
def change(
    name: Name,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What the agent is asked at each firing.")
    ] = None,
    cron: Cron = None,
    at: At = None,
    in_: In = None,
    every: Every = None,
    tz: Annotated[str | None, typer.Option(metavar="ZONE", help=TZ_HELP)] = None,
    session: Annotated[str | None, typer.Option(metavar="KEY", help="The session that it asks.")] = None,
    downtime: Annotated[str | None, typer.Option(metavar="POLICY", help=DOWNTIME_HELP)] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Change a schedule: what is given changes, the rest stays. One from the configuration is changed there.

    A new interval counts from the change. A paused schedule stays paused.
    """
    timing = {"cron": cron, "at": at, "in": in_, "every": every}
    rest = {"text": text, "tz": tz, "session": session, "downtime": downtime}
    changes = {key: value for key, value in (timing | rest).items() if value is not None}
    if not changes:
        raise typer.BadParameter("give what to change: TEXT, or at least one option")
    _print_made(*ask_gateway(config, data_dir, partial(_change_schedule, name, changes)), json)


async def _change_schedule(
    name: str, changes: dict[str, str], client: AsyncClient
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    old = await client.get(_schedule_path(name))
    tz = changes.get("tz") or old["tz"]
    at = _compute_moment(changes.pop("at", None), changes.pop("in", None), tz)
    changes |= {"at": at} if at is not None else {}
    kept = ["name", "text", "tz", "session", "downtime"]
    if not changes.keys() & set(TIMING_KEYS):
        kept += TIMING_KEYS
    body = {key: old[key] for key in kept if key in old} | changes | {"replace": True}
    changed, channels = await _add_schedule(body, client)
    if not old["enabled"]:
        changed |= await client.post(f"{_schedule_path(name)}/pause")
    return changed, channels


def _describe_missing_chat(schedule: dict[str, Any], channels: list[dict[str, Any]]) -> str:
    """Return a remark if the session is no chat, but looks as if somebody meant one; else ""."""
    import semel.channels
    from semel.faces.health.configuration import suggest_chat

    if not (schedule["home"] or "").startswith("web:"):
        return ""
    agents = {channel["name"]: channel["agent"] for channel in channels}
    if chat := suggest_chat(schedule["session"], agents):
        return f"The answers are shown on the page alone. Did you mean the chat, --session {chat}?"
    _, _, rest = schedule["session"].partition(":")
    channel, _, address = rest.partition(":")
    if address and channel in semel.channels.kinds() and channel not in agents:
        return f"The answers are shown on the page alone: there is no channel named {channel}."
    return ""


def _compute_moment(at: str | None, delay: str | None, tz: str) -> str | None:
    """Return the moment of a one-shot as the API takes it; None if it is none. Exits with 2 if it cannot be read.

    `at`: a date and time, which stays as it is, or a time of day, like "18:00", in the zone `tz`. `delay`: an interval.
    """
    from semel.gateway.clock import find_zone
    from semel.timing.schedule import read_every
    from semel.timing.walltime import BadSchedule, format_instant

    if at is not None and delay is not None:
        raise typer.BadParameter("give --at or --in, not both")
    now = int(time.time())
    try:
        if delay is not None:
            return format_instant(now + read_every(delay))
        return None if at is None else _complete_time(at, find_zone(tz), now)
    except BadSchedule as error:
        raise typer.BadParameter(str(error)) from None


def _complete_time(at: str, zone: tzinfo, now: int) -> str:
    """Return `at`, a date and time, as it is; a time of day with its next date after `now`. Raises BadSchedule."""
    from semel.timing.walltime import BadSchedule, find_time_of_day, read_moment, wall_at

    if (instant := find_time_of_day(at, zone, now)) is not None:
        return wall_at(zone, instant).isoformat(" ", "minutes")
    try:
        read_moment(at, zone)
    except BadSchedule as error:
        raise BadSchedule(f'{error}, or a time of day, like "18:00"') from None
    return at


@schedules.command()
def remove(name: Name, config: Config = None, data_dir: DataDir = None) -> None:
    """Remove a schedule. Its past firings stay. One that the configuration names can only be paused."""
    ask_gateway(config, data_dir, lambda client: client.delete(_schedule_path(name)))
    print_remark(f"{name} is removed")


@schedules.command()
def pause(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Pause a schedule until it is resumed."""
    _print_schedule(ask_gateway(config, data_dir, lambda client: client.post(f"{_schedule_path(name)}/pause")), json)


@schedules.command()
def resume(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Resume a schedule, from its next due time on."""
    _print_schedule(ask_gateway(config, data_dir, lambda client: client.post(f"{_schedule_path(name)}/resume")), json)


@schedules.command()
def run(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Fire a schedule now, once, even if it is paused or over. Its next due time stays."""
    _print_schedule(ask_gateway(config, data_dir, lambda client: client.post(f"{_schedule_path(name)}/run")), json)


def _schedule_path(name: str) -> str:
    return f"/v1/schedules/{quote_segment(name)}"


def _print_schedule(schedule: dict[str, Any], json: bool) -> None:
    if json:
        print_json(schedule)
        return
    facts = {
        "name": schedule["name"], "when": f"{_format_timing(schedule)}  ({schedule['tz']})",
        "next": _format_next(schedule), "last run": _format_last_run(schedule),
        "event": f"e{schedule['last']['event']}" if schedule["last"] else "", "turn": _format_turn(schedule),
        "session": schedule["session"],
        "home": _format_home(schedule),
        "downtime": schedule["downtime"], "made by": schedule["source"], "error": schedule.get("error", ""),
    }  # fmt: skip
    if schedule.get("unconfigured"):
        facts["next"] += ": semel.toml named it and does not any more, so it does not fire"
    out = stdout_console()
    for key, value in facts.items():
        if value:
            out.print(Text(f"{key:>9}  {escape_text(str(value))}"))
    out.print()
    out.print(Text(escape_text(schedule["text"])))


def _format_home(schedule: dict[str, Any]) -> str:
    """Format where the answers go: to a chat, or to the page and terminal alone; "" if only a gateway can tell."""
    if "home" not in schedule:  # read without a gateway, and the session does not exist yet
        return ""
    home: str | None = schedule["home"]
    if home is not None and not home.startswith("web:"):
        return home
    return f"{'none' if home is None else 'the page'} (read it with semel show {schedule['session']})"


def _format_timing(schedule: dict[str, Any]) -> str:
    return next(f"{key} {schedule[key]}" for key in TIMING_KEYS if key in schedule)


def _format_next(schedule: dict[str, Any], *, is_short: bool = False) -> str:
    if schedule.get("unconfigured"):
        return "not configured" if schedule["enabled"] else "not configured, paused"
    if not schedule["enabled"]:
        return "paused"
    if schedule["next"] is None:
        return "over" if schedule["last"] else "over, never fired"
    from semel.ledger.admin.overdue import OVERDUE_MS

    is_overdue = schedule["next"] <= time.time() * 1000 - OVERDUE_MS
    moment = (_format_short_time if is_short else _format_long_time)(schedule, schedule["next"])
    return moment + (", overdue" if is_overdue else "")


def _format_long_time(schedule: dict[str, Any], ms: int) -> str:
    """Format a time of a schedule in the schedule's own zone, which it names."""
    return f"{format_time(ms, schedule['tz'])} {schedule['tz']}"


def _format_short_time(schedule: dict[str, Any], ms: int) -> str:
    """Format a time as `_format_long_time`, but with the zone's abbreviation, and without seconds that tell nothing."""
    from semel.gateway.clock import find_zone

    text = format_time(ms, schedule["tz"])
    zone = datetime.fromtimestamp(ms / 1000, find_zone(schedule["tz"])).tzname()
    is_to_the_minute = "cron" in schedule or ("at" in schedule and text.endswith(":00"))
    return f"{text[: -len(':00')] if is_to_the_minute else text} {zone}"


def _format_turn(schedule: dict[str, Any]) -> str:
    """Format the turn that took the last firing; "" if there was none."""
    last = schedule["last"]
    if last is None:
        return ""
    return "waiting" if last["turn"] is None else f"t{last['turn']} {last['state']}"


def _format_last_run(schedule: dict[str, Any], *, is_short: bool = False) -> str:
    """Format when the last firing ran, and how late it was or who ran it; "" if there was none."""
    last = schedule["last"]
    if last is None:
        return ""
    ran = last.get("ran") or last["due"]  # an older gateway does not say when it ran
    remark = ""
    if last.get("by"):
        remark = ", by hand" if is_short else f", by {last['by']}"
    elif ran - last["due"] > MAX_PUNCTUAL_MS:
        remark = ", late" if is_short else f", {format_duration((ran - last['due']) // 1000)} late"
    return (_format_short_time if is_short else _format_long_time)(schedule, ran) + remark
