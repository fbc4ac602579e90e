"""`semel sessions` and `semel show`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from semel.faces.busy import line as in_line
from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask
from semel.faces.cli.out import as_json, console, rows, when
from semel.faces.transcript import body, is_summary, line, marks, speaker
from semel.text.shorten import shorten_to_line
from semel.text.visible import visible

COLOURS = {"user": "bold cyan", "agent": "bold green", "event": "bold blue", "notice": "bold yellow"}


@app.command()
def sessions(
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away, instead.")] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the sessions in use, newest first."""
    found = ask(config, data_dir, lambda client: client.sessions(archived))
    if json:
        as_json(found)
        return
    rows(
        ("SESSION", "STATE", "AGENT", "ENTRIES", "AT", "TITLE", "LAST"),
        (
            (s["key"], s["state"], s["agent"], s["seq"], when(s["at"]), s.get("title"), shorten_to_line(s["last"], 60))
            for s in found
        ),
        "no session is archived" if archived else "there are no sessions yet; start one with: semel chat",
        whole=("SESSION",),
    )


@app.command()
def show(
    session: Session,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Only the newest so many; 0: all.")] = 0,
    diff_agent: Annotated[
        bool, typer.Option("--diff-agent", help="Instead: where the agent's own memory differs from it.")
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Show a session's transcript."""
    if diff_agent:
        _difference(ask(config, data_dir, lambda client: client.diff_agent(session)), json)
        return
    found = ask(config, data_dir, lambda client: client.entries(session))
    entries, places = found[-last:], in_line(found)
    if json:
        as_json(entries)
        return
    for entry in entries:
        if sys.stdout.isatty():
            _pretty(entry, places.get(entry["seq"]))
        else:
            print(line(entry, places.get(entry["seq"])))


def _difference(found: dict[str, Any], raw: bool) -> None:
    """Print the differences between the agent's memory and the transcript, one per line."""
    if raw:
        as_json(found)
        return
    if not found["compared"]:
        print(f"Not compared: {visible(found['why'])}.")
    elif not found["lacks"] and not found["extra"]:
        print("The agent remembers what the record holds.")
    for one in found["lacks"]:
        who = "the person wrote" if one["role"] == "user" else "people were shown"
        print(f"- #{one['seq']} {who}, and the agent does not remember: {visible(one['text'])!r}")
    for text in found["extra"]:
        print(f"+ the agent remembers having said, and nobody was told: {visible(text)!r}")


def _pretty(entry: dict[str, Any], place: int | None) -> None:
    head = Text(f"{entry['seq']:>4} ", "dim")
    dim = is_summary(entry)
    head.append(visible(speaker(entry)), "dim" if dim else COLOURS.get(entry["role"], ""))
    head.append(f"  {when(entry['at'])}  {visible(', '.join(marks(entry, place)))}", "dim")
    out = console()
    out.print(head)
    out.print(Padding(Text(visible(body(entry)), "dim" if dim else ""), (0, 0, 1, 5)), soft_wrap=False)
