"""`semel session busy`: show or set what becomes of messages that come while a session is busy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from semel.faces.busy import MODE_DESCRIPTIONS
from semel.faces.cli.app import Config, DataDir, Json, Session, ask
from semel.faces.cli.out import as_json, remark
from semel.faces.cli.session import session
from semel.faces.cli.talk import check_busy_mode
from semel.faces.client import Client
from semel.law.busy import MODES

UNSET = "configured"


@session.command()
def busy(
    key: Session,
    mode: Annotated[
        str | None,
        typer.Argument(metavar="[MODE]", help=f"{', '.join(MODES)}; {UNSET}: as the configuration says."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Say what becomes of messages that come while a session is busy, or show it."""
    wanted = check_busy_mode(mode, UNSET)

    async def go(client: Client) -> dict[str, Any]:
        if wanted is not None:
            await client.set_busy(key, None if wanted == UNSET else wanted)
        return await client.session(key)

    found = ask(config, data_dir, go).get("busy")
    if json:
        as_json({"session": key, "busy": found})
    elif found is None:
        print(UNSET)
    else:
        print(found)
        remark(MODE_DESCRIPTIONS[found])
