"""`semel channels`: the state of each channel, and its quarantined input."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import format_time, print_json, print_remark, print_table, stdout_console
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line

MAX_ERROR_CHARS = 1000


@app.command()
def channels(
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="List input that could not be used, as it came, with the reason.")
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the channels: state, since when, counts since the start, and the current error."""
    if quarantined:
        _print_quarantined(
            ask_gateway(config, data_dir, lambda client: client.get("/v1/quarantined"))["quarantined"], json
        )
        return
    channel_list = ask_gateway(config, data_dir, lambda client: client.get("/v1/channels"))["channels"]
    if json:
        print_json(channel_list)
        return
    headings = (
        "CHANNEL",
        "KIND",
        "STATE",
        "SINCE",
        "ACCEPTED",
        "REPEATS",
        "CONFLICTS",
        "REFUSED",
        "QUARANTINED",
        "ERROR",
    )
    on_terminal = sys.stdout.isatty()  # on a terminal, errors are printed below the table, where long lines fit
    print_table(
        headings[: -1 if on_terminal else None],
        (_format_row(c)[: -1 if on_terminal else None] for c in channel_list),
        "no channels are configured; semel docs channels lists the kinds",
        wrapped_columns=("CHANNEL",),
    )
    for channel in channel_list if on_terminal else ():
        if _is_disconnected(channel):
            retry = f"; it is tried again at {format_time(channel['retry_at'])}" if channel.get("retry_at") else ""
            Console(highlight=False).print(
                Text(f"{channel['name']}: {visible(_format_error(channel))}{retry}", "yellow")
            )
    if on_terminal and any(c["counts"]["quarantined"] for c in channel_list):
        print_remark("to see what is quarantined and why: semel channels --quarantined")


def _format_row(channel: dict[str, Any]) -> tuple[object, ...]:
    counts = channel["counts"]
    return (
        channel["name"], channel.get("kind"), channel["state"], format_time(channel["since"]), counts["accepted"],
        counts["duplicate"], counts["conflict"], sum(channel["refused"].values()), counts["quarantined"],
        _format_error(channel),
    )  # fmt: skip


def _is_disconnected(channel: dict[str, Any]) -> bool:
    return channel["state"] in ("offline", "denied")


def _format_error(channel: dict[str, Any]) -> str:
    """Return the current error of a channel as one line; "" if it has none. Past errors are only in the JSON."""
    return shorten_to_line(str(channel.get("error") or ""), MAX_ERROR_CHARS) if _is_disconnected(channel) else ""


def _print_quarantined(inputs: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(inputs)
        return
    out = stdout_console()
    for event in inputs:
        head = f"e{event['event']}  {format_time(event['at'])}  {event['channel']}  {event['kind']}"
        out.print(Text(f"{head}  {visible(str(event['key']))}", "bold"))
        out.print(Text(f"    {visible(event['why'])}"))
        out.print(Text(f"    {visible(shorten_to_line(event['raw'], 200))}", "dim"))
    if not inputs:
        out.print("nothing is quarantined")
