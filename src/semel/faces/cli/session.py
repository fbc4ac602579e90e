"""`semel session`: start a new chapter; rename, archive or delete a session."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated

import typer

from semel.faces.cli.app import Config, DataDir, Session, app, ask
from semel.faces.cli.out import complain, remark
from semel.faces.cli.talk import get_login_name
from semel.faces.client import Client

session = typer.Typer(help="One session: rename it, put it away, begin a new chapter, delete it.", no_args_is_help=True)
app.add_typer(session, name="session")


@session.command()
def new(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Begin a new chapter, as /new does: the agent forgets what was said so far; the transcript stays."""
    ask(config, data_dir, lambda client: client.new_chapter(key, get_login_name(), uuid.uuid4().hex))
    remark(f"a new chapter of {key} begins")


@session.command()
def rename(
    key: Session,
    title: Annotated[str, typer.Argument(metavar="TITLE", help='Its title; "" gives it back to the agent.')],
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Give a session a title."""
    now = ask(config, data_dir, lambda client: client.change_session(key, {"title": title or None}))
    remark(f"{key} is called {now['title']}" if now.get("title") else f"{key} has no title of yours any more")


@session.command()
def archive(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Put a session away: it is not listed any more. Whatever is heard there brings it back."""
    ask(config, data_dir, lambda client: client.change_session(key, {"archived": True}))
    remark(f"{key} is archived")


@session.command()
def unarchive(key: Session, config: Config = None, data_dir: DataDir = None) -> None:
    """Bring an archived session back into the list."""
    ask(config, data_dir, lambda client: client.change_session(key, {"archived": False}))
    remark(f"{key} is listed again")


@session.command()
def delete(
    key: Session,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Delete what was said in a session, for good. Asks first.

    Its running turn is stopped, its agent ended, its schedules removed. What was heard is still known by its key,
    so that a repeat stays a repeat.
    """
    found = ask(config, data_dir, lambda client: client.session(key))
    if not yes:
        if not sys.stdin.isatty():
            complain(f"nothing was deleted: say --yes to delete {key} without being asked")
            raise typer.Exit(2)
        typer.confirm(f"Delete {key} with {found['seq']} entries, for good?", abort=True)

    async def go(client: Client) -> None:
        await client.delete_session(key)

    ask(config, data_dir, go)
    remark(f"{key} is deleted")
