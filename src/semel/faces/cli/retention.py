"""`semel retention`: what the next run of retention will remove."""

from __future__ import annotations

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import print_json, print_table
from semel.timing.durations import format_duration


@app.command()
def retention(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List the old content that the gateway will remove within the hour, by session. Removes nothing."""
    sessions = ask_gateway(config, data_dir, lambda client: client.get("/v1/retention"))["sessions"]
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
