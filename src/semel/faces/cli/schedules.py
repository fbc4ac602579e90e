"""`semel schedules`: list, add, remove, pause and resume schedules."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, remark, rows, shown, when

FORMS = ("cron", "at", "every")

schedules = typer.Typer(help="What fires by the clock: list it, add, remove, pause, resume.", no_args_is_help=True)
app.add_typer(schedules, name="schedules")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A schedule's name.")]


@schedules.command("list")
def list_(
    session: Annotated[str | None, typer.Option("--session", metavar="KEY", help="Only those of this session.")] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List schedules with their next and last firing, and the turn that took it."""
    found = ask(config, data_dir, lambda client: client.schedules(session))
    if json:
        as_json(found)
        return
    rows(
        ("NAME", "WHEN", "NEXT", "LAST", "TURN", "SESSION"),
        ((s["name"], _spec(s), _next(s), *_last(s), s["session"]) for s in found),
        "there are no schedules: `semel schedules add` makes one",
    )


@schedules.command()
def show(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show one schedule."""
    _print(ask(config, data_dir, lambda client: client.schedule(name)), json)


@schedules.command()
def add(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent is asked at each firing.")],
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help='Five fields, like "30 7 * * MON-FRI", or @daily.')
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help='Once, like "2030-03-29 07:30".')] = None,
    every: Annotated[str | None, typer.Option(metavar="INTERVAL", help='Like "90s", "10m", "2h", "1d".')] = None,
    tz: Annotated[str, typer.Option(metavar="ZONE", help='Time zone, like "Europe/Berlin".')] = "UTC",
    session: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Where it is heard. Default: a session of its own, schedule:NAME."),
    ] = None,
    downtime: Annotated[
        str, typer.Option(metavar="POLICY", help="What was missed: skip it, fire once for all, or fire all.")
    ] = "once",
    replace: Annotated[bool, typer.Option("--replace", help="Change the schedule of this name.")] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a schedule: give one of --cron, --at and --every."""
    told = {"name": name, "text": text, "tz": tz, "downtime": downtime, "replace": replace}
    given = {"cron": cron, "at": at, "every": every, "session": session}
    told.update({key: value for key, value in given.items() if value is not None})
    _print(ask(config, data_dir, lambda client: client.add_schedule(told)), json)


@schedules.command()
def remove(name: Name, config: Config = None, data_dir: DataDir = None) -> None:
    """Remove a schedule. What it fired stays; one of the configuration can only be paused."""
    ask(config, data_dir, lambda client: client.remove_schedule(name))
    remark(f"{name} is removed")


@schedules.command()
def pause(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Do not fire a schedule until it is resumed."""
    _print(ask(config, data_dir, lambda client: client.turn_schedule(name, "pause")), json)


@schedules.command()
def resume(name: Name, json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Fire a schedule again, from its next due time on."""
    _print(ask(config, data_dir, lambda client: client.turn_schedule(name, "resume")), json)


def _print(found: dict[str, Any], json: bool) -> None:
    if json:
        as_json(found)
        return
    last, turn = _last(found)
    told = {
        "name": found["name"], "when": f"{_spec(found)}  ({found['tz']})", "next": _next(found), "last": last,
        "turn": turn, "session": found["session"], "downtime": found["downtime"], "made by": found["source"],
        "error": found.get("error", ""),
    }  # fmt: skip
    out = console()
    for key, value in told.items():
        if value:
            out.print(Text(f"{key:>9}  {shown(str(value))}"))
    out.print()
    out.print(Text(shown(found["text"])))


def _spec(found: dict[str, Any]) -> str:
    return next(f"{form} {found[form]}" for form in FORMS if form in found)


def _next(found: dict[str, Any]) -> str:
    return "paused" if not found["enabled"] else (when(found["next"]) or "over")


def _last(found: dict[str, Any]) -> tuple[str, str]:
    last = found["last"]
    if last is None:
        return "", ""
    return when(last["due"]), f"t{last['turn']} {last['state']}" if last["turn"] is not None else "waiting"
