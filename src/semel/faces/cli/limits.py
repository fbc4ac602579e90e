"""`semel limits`: what was used today, the limits, and the sessions that wait for the next day."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import print_json, print_remark, print_table
from semel.faces.transcript import format_zoned

PAGE = 1000


@app.command()
def limits(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List what people and sessions used today, with their limits, and the sessions that wait for the next day.

    If no gateway runs, the ledger itself is read.
    """
    today = ask_or_read(config, data_dir, partial(_read_all, config))
    if json:
        print_json(today)
        return
    print_table(
        ("LIMIT", "OF", "TURNS", "TOKENS", "COST"),
        (
            (line["scope"], line["subject"], *(_format_used(line, measure) for measure in ("turns", "tokens", "cost")))
            for line in today["limits"]
        ),
        "nothing was used today",
        ("OF",),
    )
    for waiting in today["waiting"]:
        until = format_zoned(waiting["until"], today["tz"])
        print_remark(
            f"{waiting['session']} waits until {until}: the limit of {waiting['measure']} is used up "
            f"({' '.join(filter(None, (waiting['scope'], waiting['subject'])))})"
        )


async def _read_all(config: Path | None, reader: Reader) -> dict[str, Any]:
    if isinstance(reader, OfflineLedger):
        from semel.faces.config.load import load_limits

        return await reader.limits(load_limits(config).policy)
    today: dict[str, Any] = await reader.get("/v1/limits", limit=PAGE)
    while after := today.pop("next", None):
        page = await reader.get("/v1/limits", limit=PAGE, after=after)
        today = {**page, "limits": today["limits"] + page["limits"]}
    return today


def _format_used(line: dict[str, Any], measure: str) -> str:
    """Format what was used, and of what: "12 of 50"."""
    used, most = line["used"][measure], line["most"][measure]
    form = ".2f" if measure == "cost" else ","
    return f"{used:{form}}" if most is None else f"{used:{form}} of {most:{form}}"
