"""`semel channels`: the state of each channel, and its quarantined input."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, remark, rows, when
from semel.text.shorten import shorten_to_line
from semel.text.visible import visible


@app.command()
def channels(
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="List what came and nobody could use, with the reason.")
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the channels: whether each hears, since when, and what it heard since the start."""
    if quarantined:
        _quarantined(ask(config, data_dir, lambda client: client.quarantined()), json)
        return
    found = ask(config, data_dir, lambda client: client.channels())
    if json:
        as_json(found)
        return
    headings = ("CHANNEL", "KIND", "STATE", "SINCE", "HEARD", "REPEATS", "REFUSED", "QUARANTINED", "ERROR")
    here = sys.stdout.isatty()  # on a terminal, errors are printed below the table, where long lines fit
    rows(
        headings[: -1 if here else None],
        (_format_row(c)[: -1 if here else None] for c in found),
        "no channels are configured; docs/channels.md tells which there are",
        whole=("CHANNEL",),
    )
    for channel in found if here else ():
        if _is_disconnected(channel):
            again = f"; it is tried again at {when(channel['retry_at'])}" if channel.get("retry_at") else ""
            Console(highlight=False).print(Text(f"{channel['name']}: {visible(_error(channel, 400))}{again}", "yellow"))
    if here and any(c["counts"]["quarantined"] for c in found):
        remark("what is quarantined, and why: semel channels --quarantined")


def _format_row(c: dict[str, Any]) -> tuple[object, ...]:
    counts = c["counts"]
    return (
        c["name"], c.get("kind"), c["state"], when(c["since"]), counts["accepted"],
        counts["duplicate"] + counts["conflict"], sum(c["refused"].values()), counts["quarantined"], _error(c),
    )  # fmt: skip


def _is_disconnected(channel: dict[str, Any]) -> bool:
    return channel["state"] in ("offline", "denied")


def _error(channel: dict[str, Any], most: int = 80) -> str:
    """The current error of a channel, shortened. Past errors are only in the JSON."""
    return shorten_to_line(str(channel.get("error") or ""), most) if _is_disconnected(channel) else ""


def _quarantined(found: list[dict[str, Any]], json: bool) -> None:
    if json:
        as_json(found)
        return
    out = console()
    for one in found:
        head = f"e{one['event']}  {when(one['at'])}  {one['channel']}  {one['kind']}  {visible(str(one['key']))}"
        out.print(Text(head, "bold"))
        out.print(Text(f"    {visible(one['why'])}"))
        out.print(Text(f"    {visible(shorten_to_line(one['raw'], 200))}", "dim"))
    if not found:
        out.print("nothing is quarantined: everything that came could be used")
