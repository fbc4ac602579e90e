"""`semel retention`: what the next run of retention will remove."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import print_json, print_table
from semel.faces.config import locate
from semel.timing.durations import format_duration


@app.command()
def retention(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List the old content that the gateway will remove within the hour, by session. Removes nothing.

    If no gateway runs, the ledger itself is read.
    """
    sessions = ask_or_read(config, data_dir, partial(_read_plan, config, data_dir))
    if json:
        print_json(sessions)
        return
    print_table(
        ("SESSION", "KEPT FOR", "ENTRIES", "UP TO", "TEXT", "FILES", "STOPPED BY"),
        (
            (
                line["session"],
                format_duration(line["retain"]),
                line["entries"],
                f"#{line['upto']}",
                f"{line['bytes']:,} B",
                f"{line['file_bytes']:,} B",
                line.get("stopped_by"),
            )
            for line in sessions
        ),
        "nothing is old enough to be removed",
        ("SESSION",),
    )


async def _read_plan(config: Path | None, data_dir: Path | None, reader: Reader) -> list[dict[str, Any]]:
    if isinstance(reader, OfflineLedger):
        from semel.faces.config.load import load_retention
        from semel.gateway.settings import AgentSettings, GatewaySettings

        file, (data, ledger) = load_retention(config), locate(config, data_dir)
        agents = {"demo": AgentSettings(name="demo", kind="demo")}  # the settings need one; it is not started
        settings = GatewaySettings(
            data_dir=data, ledger=ledger, agents=agents, channels=file.channels, sessions=file.sessions
        )
        return await reader.plan_retention(settings)
    sessions: list[dict[str, Any]] = (await reader.get("/v1/retention"))["sessions"]
    return sessions
