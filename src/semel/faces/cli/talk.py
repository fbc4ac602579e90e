"""`semel chat` and `semel say`."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer

from semel.faces.api_types import Accepted
from semel.faces.busy_texts import describe_waiting
from semel.faces.cli.app import DEFAULT_SESSION, Config, DataDir, Json, Session, app, ask_gateway
from semel.faces.cli.printing import escape_text, name_command, print_error, print_json, print_remark
from semel.faces.client import Answer, AsyncClient, NoGateway, RequestRefused
from semel.faces.client.wait_for_answer import read_replies, wait_for_answer
from semel.faces.config import locate_running
from semel.faces.view import SessionView
from semel.law.access import APPROVALS
from semel.law.commands import CommandCall, read_command
from semel.law.permission_questions import describe_request, name_option
from semel.law.wake import MODES, Busy
from semel.text.json_types import Json as JsonObject

STREAM_RETRY_S = 0.2
LATE_ANSWER_S = 10.0
"""After how many seconds without the gateway's answer to a message a person is told so."""
Sender = Annotated[str | None, typer.Option(help="The sender's name. Default: none, and the owner is the sender.")]


def check_busy_mode(mode: str | None, *others: str) -> str | None:
    """Return `mode` if it is a busy mode, one of `others` or `None`. Else print the valid names and exit with 2."""
    if mode is not None and mode not in (*MODES, *others):
        print_error(f"{mode!r} is not one of {', '.join((*MODES, *others))}")
        raise typer.Exit(2)
    return mode


@app.command()
def chat(
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="The session's key.")] = DEFAULT_SESSION,
    plain: Annotated[
        bool, typer.Option("--plain", help="Read and print lines instead of using the full screen.")
    ] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal, to select text with it.")
    ] = False,
    sender: Sender = None,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Talk to an agent in this terminal.

    The last line shows the keys that work: Enter sends, Esc closes what is open, else stops the running turn,
    ctrl+t chooses what becomes of a message while the agent is busy, ctrl+k lists the sessions, those that need you
    first, and opens another one or a new one; ctrl+page down and ctrl+page up go through those that are open.
    Ctrl+o opens tool output, ctrl+d leaves while nothing is written, ctrl+c twice at any time. Ctrl+j starts a new
    line, up and down go through your messages, page up and page down scroll. When the agent asks for a permission, Tab
    goes to the question and a to i answer it.

    "/" at the beginning lists the commands of Semel and of the agent, "@" the files of the agent's workspace; Tab or
    Enter completes. /attach PATH sends a file of this machine with the next message. What you write while no gateway
    answers is kept and sent once when it is back, also if you leave meanwhile; drafts, and the place where you read,
    are kept as well, in ~/.local/state/semel/terminal.

    With --plain, or if input or output is a pipe, each line of input is a message and answers are printed when they
    are final; /7, /8 ... answer a permission request by the printed number. If the agent asks something after the
    input has ended, the command says how to answer it and ends with exit code 1.
    """
    data = locate_running(config, data_dir)
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from semel.faces.terminal.lines import run_lines

        raise typer.Exit(run_lines(data, session, sender, name_command))
    from semel.faces.terminal.app import run_chat

    raise typer.Exit(run_chat(data, session, sender, mouse=not no_mouse))


@app.command()
def say(
    session: Session,
    text: Annotated[
        str,
        typer.Argument(metavar="[TEXT]", help='The message; "-" reads it from stdin. It may be left out with --file.'),
    ] = "",
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="PATH", help="A file that comes with the message; may be repeated."),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", "-w", help="Wait until the session is idle, then print the answer; notices go to stderr."
        ),
    ] = False,
    sender: Sender = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id", help="A key for the message. A repeat with the same key, text and files is accepted once."
        ),
    ] = None,
    busy: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help=f"What becomes of it if the session is busy: {', '.join(MODES)}. Default: the session's mode.",
        ),
    ] = None,
    automatic: Annotated[
        bool,
        typer.Option(
            "--automatic", help="Mark it as sent by a program: it waits for the next turn and does not start one."
        ),
    ] = False,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Send a message to a session; a new key creates the session.

    The command returns when the message is in the ledger, and prints what became of it. If the answer is lost, it
    repeats the message with the same key. With --wait it prints the text of the turn that took the message first; the
    exit code is 1 if the turn failed or ended without a word, and at once if the message waits for a limit. The answer
    to a slash command, such as /status, is printed in any case; what follows from the turn which /retry runs again, or
    which /approve or /deny lets go on, only with --wait.

    On a terminal, /approve and /deny without a number show the request that is open and its options, and ask before
    they answer it; a number then chooses that option.
    """
    message = sys.stdin.read() if text == "-" else text
    files = file or []
    if not message.strip() and not files:
        print_error("the message is empty")
        raise typer.Exit(2)
    check_files(files)

    mode = cast(Busy | None, check_busy_mode(busy))
    seen = None
    if text != "-" and (answer_name := read_bare_answer(text)) and sys.stdin.isatty() and sys.stdout.isatty():
        seen, number = ask_gateway(config, data_dir, lambda client: show_open_request(client, session, answer_name))
        message += number and f" {number}"

    async def go(client: AsyncClient) -> tuple[Accepted, Answer | None]:
        """Send the message. Return what the gateway says to it, and the answer; None if it is not waited for."""
        with report_late_answer():
            accepted = await client.say(
                session,
                message,
                files=files,
                sender=sender,
                id=id,
                busy=mode,
                automatic=automatic,
                seen=seen,
            )
        with explain_lost_gateway(session, accepted.event):
            return accepted, await await_reply(client, accepted)

    async def await_reply(client: AsyncClient, accepted: Accepted) -> Answer | None:
        if accepted.note:
            print_remark(accepted.note)
        if wait and (waiting := describe_waiting(accepted)):
            print_remark(waiting)
        if wait or (not automatic and is_answered_at_once(message)):
            return await await_answer(client, session, accepted.event, follows_turn=wait)
        if accepted.waiting is None and not message.startswith("/"):
            return None
        replies = Answer(await read_replies(client, session, accepted.event))
        for hint in replies.hints:
            print_remark(hint)
        return replies if replies.texts else None

    accepted, answer = ask_gateway(config, data_dir, go)
    if json:
        told = {"entries": msgspec.to_builtins(answer.entries), "failed": answer.failure} if answer else {}
        print_json({**msgspec.to_builtins(accepted), **told})
    elif answer is None:
        waiting = describe_waiting(accepted)
        print_remark(f"{accepted.status}: e{accepted.event}" + (f" ({waiting})" if waiting else ""))
    else:
        if answer.texts:
            print(escape_text(answer.text))
        for notice in answer.notices:
            print_remark(notice)
        if not answer.texts and not answer.notices and answer.failure is None:
            print_remark("The agent ended its turn without a word.")
    if answer is not None and answer.failure:
        print_error(answer.failure)
        raise typer.Exit(1)


def check_files(paths: Sequence[Path]) -> None:
    """Exit with 2 if one of these files cannot be sent."""
    for path in paths:
        problem = None
        if not path.exists():
            problem = "does not exist"
        elif path.is_dir():
            problem = "is a folder; send one file, such as an archive of it"
        elif not os.access(path, os.R_OK):
            problem = "may not be read by this user"
        if problem is not None:
            print_error(f"{path} {problem}. Nothing was sent.")
            raise typer.Exit(2)


@contextmanager
def report_late_answer() -> Iterator[None]:
    """Say once that the gateway has not answered yet, if that takes LATE_ANSWER_S. Needs a running event loop."""
    remark = "the gateway has not answered yet; still trying to send the message"
    report = asyncio.get_running_loop().call_later(LATE_ANSWER_S, print_remark, remark)
    try:
        yield
    finally:
        report.cancel()


@contextmanager
def explain_lost_gateway(session: str, event: int) -> Iterator[None]:
    """If the gateway stops and none comes back, say that the message is recorded, and exit with 1 (Law 1)."""
    try:
        yield
    except NoGateway as error:
        print_error(
            f"the message is recorded (e{event}): do not send it again. Its turn goes on when a gateway runs again",
            str(error),
            f"then see the answer with: semel show {shlex.quote(session)}",
        )
        raise typer.Exit(1) from None


async def await_answer(client: AsyncClient, session: str, event: int, *, follows_turn: bool) -> Answer:
    """Wait for the answer to a message, but not for the day on which a used-up limit ends.

    If the person stops waiting (Ctrl-C), say that the agent goes on.
    """
    try:
        return await wait_for_answer(
            client, session, event, print_remark, stops_at_limit=True, follows_turn=follows_turn
        )
    except asyncio.CancelledError:
        print_remark(f"the message was accepted, and its turn goes on; see it with: semel show {shlex.quote(session)}")
        raise


def is_answered_at_once(text: str) -> bool:
    """Whether this text is a command whose answer is the gateway's alone. That to /retry includes the turn's."""
    command = read_command(text)
    return isinstance(command, CommandCall) and command.name != "retry"


def read_bare_answer(text: str) -> str:
    """Return "approve" or "deny" if the text is the command /approve or /deny without a number; else ""."""
    command = read_command(text)
    return (
        command.name if isinstance(command, CommandCall) and command.name in APPROVALS and not command.argument else ""
    )


async def read_view(client: AsyncClient, session: str) -> SessionView:
    """Return the view of a session as it is now, with its open requests. Raises RequestRefused without such a one."""
    view = SessionView()
    while True:
        async with aclosing(client.stream(session)) as frames:
            async for frame in frames:
                view.apply(frame)
                return view
        await asyncio.sleep(STREAM_RETRY_S)  # the gateway stops just now; the next attempt raises if it is gone


async def show_open_request(client: AsyncClient, session: str, answer: str) -> tuple[int | None, str]:
    """Show the only open permission request of a session, and ask whether it is meant. Exits with 1 if it is not.

    Return the rev of the view that was shown, which lets the answer count for this request, and for none that comes
    meanwhile (Law 13), and the number of the option that the person chose, or "". Return None instead of the rev if
    there is no request or more than one: then the gateway says what to do.
    """
    try:
        view = await read_view(client, session)
    except RequestRefused:  # there is no such session
        return None, ""
    requests = [question for question in view.open_questions() if question["kind"] == "permission"]
    if len(requests) != 1:
        return None, ""
    [request] = requests
    print(escape_text(describe_request(str(request["title"]), request.get("input"))))
    reply = ask_for_option(request) if answer == "approve" else "y" if typer.confirm("Deny it?") else "n"
    if reply == "n":
        print_remark("nothing was answered")
        raise typer.Exit(1)
    return view.rev, reply if reply.isdigit() else ""


def ask_for_option(request: JsonObject) -> str:
    """Show the options of a permission request. Ask, and return "y" (allow it), "n" (answer nothing) or a number."""
    names = {str(n): name_option(option) for n, option in enumerate(request["options"], request.get("first", 1))}
    if len(names) < 2 or "first" not in request:
        return "y" if typer.confirm("Allow it?") else "n"
    print(escape_text("\n".join(f"{number}. {name}" for number, name in names.items())))

    def check(reply: str) -> str:
        word = reply.strip().lower()
        if word not in ("y", "n", *names):
            raise typer.BadParameter(f"{reply!r} is not one of y, n, {', '.join(names)}")
        return word

    return str(typer.prompt("Allow it? y, n or the number of an option", "n", value_proc=check))
