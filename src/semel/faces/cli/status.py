"""`semel status`: the gateway, its agents and channels, and who is waited for, on one screen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.printing import format_time, print_json, stdout_console, style_state
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line

MAX_SHOWN_SESSIONS = 10
REASONS = {"approval": "asks for a permission", "question": "asked something", "failed": "its last turn failed"}


@app.command()
def status(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show on one screen: gateway, agents, sessions that need someone, channels, outbox, disk, backup and books.

    Without a running gateway, the command shows what the ledger alone can tell.
    """
    from semel.faces.health.overview import look_over

    overview = asyncio.run(look_over(config, data_dir))
    if json:
        print_json(overview)
        return
    out = stdout_console()
    for label, text in _list_lines(overview):
        out.print(Text(f"{label:<10}", "dim"), text if isinstance(text, Text) else Text(visible(text)), sep="")


def _list_lines(overview: dict[str, Any]) -> Iterator[tuple[str, str | Text]]:
    if overview["running"]:
        up = format_duration(overview["uptime"])
        yield "gateway", f"Semel {overview['version']} at {overview['url']}, up {up}"
        yield from _label("agents", _list_agents(overview))
    else:
        yield "gateway", Text("not running; start it with: semel up", "yellow")
    moves: list[str | Text] = [Text(visible(f"{missing['text']}."), "yellow") for missing in overview["missing_agents"]]
    yield from _label("sessions", _list_attention(overview["attention"]) + moves)
    if overview["running"]:
        yield from _label("channels", _list_channels(overview["channels"]))
    yield "outbox", _describe_outbox(overview["parts"])
    yield from _list_storage(overview)


def _label(label: str, lines: list[str | Text]) -> Iterator[tuple[str, str | Text]]:
    """Put the label before the first line only."""
    for number, line in enumerate(lines):
        yield ("" if number else label), line


def _list_agents(overview: dict[str, Any]) -> list[str | Text]:
    lines: list[str | Text] = []
    for name in overview["configured"]:
        processes = [live for live in overview["agents"] if live["agent"] == name]
        check = overview.get("checks", {}).get(name, {"level": "ok"})
        if processes:
            lines.append(f"{name}: {len(processes)} live, {sum(live['busy'] for live in processes)} busy")
        elif check["level"] == "ok":
            lines.append(name)
        else:
            lines.append(Text(visible(f"{name}: {check['text']}"), "yellow"))
    return lines


def _list_attention(attention: list[dict[str, Any]]) -> list[str | Text]:
    if not attention:
        return ["none needs anyone"]
    lines: list[str | Text] = [f"{len(attention)} need{'s' if len(attention) == 1 else ''} someone"]
    for session in attention[:MAX_SHOWN_SESSIONS]:
        error = f": {shorten_to_line(session['error'], 120)}" if "error" in session else ""
        reason = f"{REASONS[session['why']]} ({session['turn']}, {format_time(session['at'])}){error}"
        lines.append(Text(visible(f"  {session['session']}  {reason}"), "yellow"))
    if len(attention) > MAX_SHOWN_SESSIONS:
        lines.append(f"  and {len(attention) - MAX_SHOWN_SESSIONS} more (semel status --json)")
    return lines


def _list_channels(channels: list[dict[str, Any]]) -> list[str | Text]:
    lines: list[str | Text] = []
    for channel in channels:
        error = channel.get("error") if channel["state"] in ("offline", "denied") else None
        reason = f": {shorten_to_line(error, 120)}" if error else ""
        since = visible(f" since {format_time(channel['since'])}{reason}")
        lines.append(Text.assemble(visible(f"{channel['name']} "), style_state(channel["state"]), since))
    return lines or ["none is configured"]


def _describe_outbox(parts: dict[str, int]) -> str:
    waiting = ", ".join(f"{number} {state}" for state, number in parts.items() if number)
    hint = "; decide: semel outbox list --state held" if parts.get("held") else ""
    return f"{waiting}{hint}" if waiting else "nothing waits"


def _list_storage(overview: dict[str, Any]) -> Iterator[tuple[str, str | Text]]:
    from semel.gateway.disk_use import format_bytes

    disk, backup, books = overview["disk"], overview["backup"], overview["books"]
    sizes = f"the ledger takes {format_bytes(disk['ledger'])}, stored files {format_bytes(disk['files'])}"
    yield "disk", f"{format_bytes(disk['free'])} free; {sizes}"
    yield "backup", f"{format_time(backup['at'])} in {backup['folder']}" if backup else "none is known"
    if books is None:
        yield "books", "not checked yet (semel doctor checks them now)"
    elif books["broken"]:
        text = f"broken laws ({len(books['broken'])} of {books['laws']}): {', '.join(books['broken'])}"
        yield "books", Text(f"{text} ({format_time(books['at'])}; semel doctor --laws)", "bold red")
    else:
        yield "books", f"{books['laws']} laws held over {books['entries']:,} entries ({format_time(books['at'])})"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as "3 h 12 min" or "2 d 0 h"."""
    minutes = int(seconds) // 60
    if minutes >= 1440:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {int(seconds) % 60} s" if minutes else f"{int(seconds)} s"
