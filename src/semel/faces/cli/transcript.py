"""`semel sessions` and `semel show`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from semel.faces.busy_texts import number_waiting
from semel.faces.cli.app import Config, DataDir, Json, Session, app, ask_gateway
from semel.faces.cli.offline import OfflineLedger, Reader, ask_or_read
from semel.faces.cli.printing import (
    escape_text,
    format_time,
    name_command,
    print_error,
    print_json,
    print_remark,
    print_table,
    stdout_console,
)
from semel.faces.cli.talk import read_view
from semel.faces.client import quote_segment
from semel.faces.client.wait_for_answer import describe_answers
from semel.faces.transcript import format_body, format_entry, is_summary, list_remarks, speaker
from semel.law.permission_questions import describe_request, name_option
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line

ROLE_STYLES = {"user": "bold cyan", "agent": "bold green", "event": "bold blue", "notice": "bold yellow"}


@app.command()
def sessions(
    word: Annotated[str | None, typer.Argument(metavar="[list]", help="May be left out.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List the archived sessions instead.")] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """List the sessions that are not archived, those with the newest entry first. Works without a gateway, too."""
    if word not in (None, "list"):
        key = shlex.quote(str(word))
        print_error(
            f"semel sessions only lists them. To read one: semel show {key}; to change one: semel session --help"
        )
        raise typer.Exit(2)
    listed = ask_or_read(config, data_dir, lambda reader: reader.list_sessions(archived))
    session_list = sorted(listed, key=lambda session: int(session["at"]), reverse=True)
    if json:
        print_json(session_list)
        return
    print_table(
        ("SESSION", "STATE", "AGENT", "ENTRIES", "AT", "TITLE", "LAST"),
        (
            (
                s["key"],
                s["state"],
                s["agent"],
                s["seq"],
                format_time(s["at"]),
                s.get("title"),
                shorten_to_line(s["last"], 60),
            )
            for s in session_list
        ),
        "no session is archived" if archived else "there are no sessions yet; start one with: semel chat",
        wrapped_columns=("SESSION",),
    )


@app.command()
def show(
    session: Session,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=0, metavar="N", help="Only the newest N entries. Default: all.")
    ] = None,
    diff_agent: Annotated[
        bool,
        typer.Option(
            "--diff-agent",
            help="Instead, compare the agent's own memory with the transcript. No turn may run meanwhile.",
        ),
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Print a session's transcript: number, time, speaker, marks such as "partial", and text.

    At the end stands what the agent asks now, and how to answer it. If no gateway runs, the ledger itself is read.
    """
    if diff_agent:
        _print_memory_difference(ask_gateway(config, data_dir, lambda client: client.compare_memory(session)), json)
        return
    all_entries, missing, questions = ask_or_read(config, data_dir, partial(_read_transcript, session))
    entries = all_entries if last is None else all_entries[len(all_entries) - min(last, len(all_entries)) :]
    places = number_waiting(all_entries)
    if json:
        print_json(entries)
        return
    if missing:
        print_remark(missing)
    for entry in entries:
        if sys.stdout.isatty():
            _print_entry(entry, places.get(entry["seq"]))
        else:
            print(format_entry(entry, places.get(entry["seq"])))
    for question in questions:
        print(escape_text(_format_question(question, session)))


async def _read_transcript(session: str, reader: Reader) -> tuple[list[dict[str, Any]], str, list[dict[str, Any]]]:
    """Return a session's entries, what to say of missing ones, and its open questions and permission requests.

    Without a gateway, none is open.
    """
    entries = await reader.list_entries(session)
    missing = await _describe_missing(session, reader, entries)
    if isinstance(reader, OfflineLedger):
        return entries, missing, []
    return entries, missing, (await read_view(reader, session)).open_questions()


def _format_question(question: dict[str, Any], session: str) -> str:
    """Format an open question or permission request: its words, its numbered options, and the commands that answer."""
    from semel.faces.terminal.lines import label_options

    lines = ["The agent waits for an answer to its question above."]
    if question["kind"] == "permission":
        lines = [describe_request(str(question["title"]), question.get("input")), ""]
        lines += [f"{label}. {name_option(option)}" for label, option in label_options(question)]
    return "\n".join(["", *lines, "", f"Answer with: {name_command(describe_answers(question, session))}"])


async def _describe_missing(session: str, reader: Reader, entries: list[dict[str, Any]]) -> str:
    """Say why the first entry is not among a session's entries; "" if it is."""
    if entries and entries[0]["seq"] == 1:
        return ""
    if isinstance(reader, OfflineLedger):
        removed = await reader.read_removed(session)
    else:
        removed = (await reader.get(f"/v1/sessions/{quote_segment(session)}/entries", limit=1)).get("removed")
    if removed is None:
        return "" if entries else "nothing was said here yet"
    moment = f" at {format_time(removed['at'])}" if removed.get("at") else ""
    what = f"entries 1 to {removed['upto']}" if removed["upto"] > 1 else "entry 1"
    return f"the content of {what} was removed{moment}, as `retain` says: semel docs retention"


def _print_memory_difference(comparison: dict[str, Any], json: bool) -> None:
    """Print the differences between the agent's memory and the transcript, one per line."""
    if json:
        print_json(comparison)
        return
    if not comparison["compared"]:
        print(f"Not compared: {visible(comparison['why'])}.")
    elif not comparison["lacks"] and not comparison["extra"]:
        print("The agent's memory matches the transcript.")
    for entry in comparison["lacks"]:
        author = "the person wrote" if entry["role"] == "user" else "people were shown"
        print(f"- #{entry['seq']} {author}, and the agent does not remember: {visible(entry['text'])!r}")
    for text in comparison["extra"]:
        print(f"+ the agent remembers having said, and nobody was told: {visible(text)!r}")


def _print_entry(entry: dict[str, Any], place: int | None) -> None:
    head = Text(f"{entry['seq']:>4} ", "dim")
    dim = is_summary(entry)
    head.append(visible(speaker(entry)), "dim" if dim else ROLE_STYLES.get(entry["role"], ""))
    head.append(f"  {format_time(entry['at'])}  {visible(', '.join(list_remarks(entry, place)))}", "dim")
    out = stdout_console()
    out.print(head)
    out.print(Padding(Text(visible(format_body(entry)), "dim" if dim else ""), (0, 0, 1, 5)), soft_wrap=False)
