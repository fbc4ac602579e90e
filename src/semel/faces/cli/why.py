"""`semel why`: the story of one event, claim, part, turn, entry or platform message."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import print_json, print_labelled
from semel.faces.client import quote_segment
from semel.faces.transcript import format_timestamp
from semel.text.visible import visible

TIME_CELLS = 21  # of the time of a step, and the blanks behind it


@app.command()
def why(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="e7 (event), c3 (claim), p12 (part), t5 (turn), SESSION#4 (entry), an event's key, a platform's "
            "message id, a schedule's name (its last firing), or the id of a job or of a run of `semel exec`.",
        ),
    ],
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Print what became of one event, claim, part, turn, entry or platform message, step by step.

    If no gateway runs, the ledger itself is read.
    """
    story = ask_or_read(config, data_dir, lambda reader: _read_story(reader, id))
    print_json(story) if json else _print_story(story)


async def _read_story(reader: Reader, id: str) -> dict[str, Any]:
    if isinstance(reader, OfflineLedger):
        return await reader.why(id)
    return await reader.get(f"/v1/why/{quote_segment(id)}")


def _print_story(story: dict[str, Any]) -> None:
    """Print one line per step: its time and what happened."""
    for line in story["lines"]:
        print_labelled(format_timestamp(line["at"]) if line["at"] else "", visible(line["text"]), TIME_CELLS)
