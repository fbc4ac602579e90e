"""`semel session`: rename, archive or delete a session, begin a new chapter, set its busy mode."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated, Any

import typer

from semel.faces.busy_texts import MODE_DESCRIPTIONS
from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask_gateway
from semel.faces.cli.printing import print_error, print_json, print_remark
from semel.faces.cli.talk import check_busy_mode
from semel.faces.client import AsyncClient, session_path
from semel.law.wake import MODES

UNSET_MODE = "configured"

session = typer.Typer(
    help="Rename, archive or delete a session, begin a new chapter, set its busy mode.", no_args_is_help=True
)
app.add_typer(session, name="session")


@session.command()
def new(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Begin a new chapter, as /new does: the agent forgets what was said so far, the transcript stays."""
    body = {"id": uuid.uuid4().hex}
    ask_gateway(config, data_dir, lambda client: client.post(f"{session_path(key)}/chapter", body))
    print_remark(f"a new chapter of {key} begins")


@session.command()
def rename(
    key: Session,
    title: Annotated[str, typer.Argument(metavar="TITLE", help='The title; "" lets the agent choose it again.')],
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Give a session a title, which the agent does not change any more."""
    session_state = ask_gateway(
        config, data_dir, lambda client: client.patch(session_path(key), {"title": title or None})
    )
    print_remark(
        f"{key} is called {session_state['title']}"
        if session_state.get("title")
        else f"{key} has no title from you any more"
    )


@session.command()
def archive(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Archive a session: it is not listed any more. A new message or event brings it back."""
    ask_gateway(config, data_dir, lambda client: client.patch(session_path(key), {"archived": True}))
    print_remark(f"{key} is archived")


@session.command()
def unarchive(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Bring an archived session back into the list."""
    ask_gateway(config, data_dir, lambda client: client.patch(session_path(key), {"archived": False}))
    print_remark(f"{key} is listed again")


@session.command()
def delete(
    key: Session,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Delete a session's content for good, after asking.

    Its running turn is stopped, its agent ended, its schedules removed. The keys of its messages are kept, so that a
    repeat is still recognised. Without a terminal, nothing is deleted unless --yes is given (exit code 2).
    """
    session_state = ask_gateway(config, data_dir, lambda client: client.get(session_path(key)))
    if not yes:
        if not sys.stdin.isatty():
            print_error(f"nothing was deleted: use --yes to delete {key} without being asked")
            raise typer.Exit(2)
        typer.confirm(f"Delete {key} with {session_state['seq']} entries, for good?", abort=True)

    ask_gateway(config, data_dir, lambda client: client.delete(session_path(key)))
    print_remark(f"{key} is deleted")


@session.command()
def busy(
    key: Session,
    mode: Annotated[
        str | None,
        typer.Argument(metavar="[MODE]", help=f"{', '.join(MODES)}; or {UNSET_MODE}: what the configuration says."),
    ] = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Show or set what becomes of messages that arrive while a session is busy."""
    new_mode = check_busy_mode(mode, UNSET_MODE)

    async def go(client: AsyncClient) -> dict[str, Any]:
        if new_mode is not None:
            await client.put(f"{session_path(key)}/busy", {"mode": None if new_mode == UNSET_MODE else new_mode})
        return await client.get(session_path(key))

    current = ask_gateway(config, data_dir, go).get("busy")
    if json:
        print_json({"session": key, "busy": current})
    elif current is None:
        print(UNSET_MODE)
    else:
        print(current)
        print_remark(MODE_DESCRIPTIONS[current])
