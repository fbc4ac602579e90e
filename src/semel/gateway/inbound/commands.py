"""Parse, authorize and execute slash commands, in the same way for every channel (docs/commands.md).

A command is an event. It is accepted once by its key, recorded, and never given to the agent. Its effect on the ledger
is part of the transaction that accepts it. All other work is done later, from the command's row, in the order of
acceptance; then a notice at the session's home answers it. After a crash, the next gateway executes the commands that
are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import structlog

from semel.acp_stream.choices import explain_no_choice, find_choice, read_choices
from semel.gateway.errors import GatewayError
from semel.gateway.inbound.admission import AccountDirectory
from semel.gateway.inbound.command_replies import format_choices, format_history, format_status
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import AgentError
from semel.gateway.record import LedgerAccess
from semel.gateway.seats import Seats
from semel.gateway.turns.scheduler import TurnScheduler
from semel.gateway.turns.session_controls import SessionControls
from semel.law import access
from semel.law import commands as law
from semel.law.access import Role
from semel.law.permissions import NOTHING_ASKED
from semel.law.wake import Busy
from semel.ledger.admin import needs
from semel.ledger.inbound import commands as rows
from semel.ledger.inbound.answers import AnswerContext
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import OpenCommand
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import limits, permission_requests, questions, sessions
from semel.ledger.turns.turns import StopRequest
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

log = structlog.get_logger("semel.commands")

MAX_NAMED_SESSIONS = 3  # sessions with an open request that are named to somebody whose answer chose nothing
RETRY_S = 2.0  # delay after a ledger error
ASKS_NOBODY = "In this mode the agent decides by itself: nobody is asked for a permission any more."
REFUSED, MISTYPED, PAIR, GREET = "refused", "mistyped", "pair", "greet"
"""Names of commands that only send a reply: a command was refused or mistyped, a sender was paired, or says hello."""
WITHOUT_APPROVALS = "without approvals"
"""Follows the role in the argument of a recorded /help whose sender may not answer permission requests there."""


@dataclass(eq=False, repr=False)
class Commands:
    """Parse and execute commands. Call `read` before an event is recorded, and `wake` after its commit."""

    record: LedgerAccess
    places: Destinations
    people: AccountDirectory
    turns: TurnScheduler
    controls: SessionControls
    _: KW_ONLY
    lease: str  # names this run of the gateway
    kick: Callable[[], None]  # wakes the outbox
    seats: Seats | None = None  # in a cluster

    def __post_init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()
        self._stopping = False

    def __repr__(self) -> str:
        return f"<Commands {len(self._tasks)} sessions served>"

    async def read(
        self,
        text: str,
        sender: str | None,
        source: str,
        keys: Sequence[str],
        *,
        role: Role | None = None,
        person: str = "",
        direct: bool = True,
    ) -> law.AgentMessage | tuple[str, str]:
        """Parse and authorize a person's text.

        Return an AgentMessage (with a busy mode, if the text sets one) if the text is for the agent. Otherwise return
        the (name, argument) as which the command is recorded. `keys`: the keys of the sessions to which the text is
        addressed. `role`: the sender's role; None takes the role of the source. `person`: the sender's known name, or
        "". `direct`: nobody else can write in this conversation.
        """
        parsed = law.read_command(text)
        if parsed != law.AgentMessage(text) and isinstance(law.read_command("/" + text.lstrip("/")), law.Mistyped):
            parsed = law.read_command(text, await self.record.read(rows.list_agent_commands, keys))
        if isinstance(parsed, law.Mistyped):
            return MISTYPED, f"{parsed.word} {parsed.nearest}"
        if isinstance(parsed, law.AgentMessage):
            if parsed.mode is None:
                return parsed
            name, argument = parsed.mode, parsed.text  # a message sent with a command needs permission for that command
        else:
            name, argument = parsed.name, parsed.argument
        sender_role, is_approval = role or self.people.role_of(source), name in access.APPROVALS
        approvals = await self.people.approvals(keys) if is_approval else frozenset[str]()
        refusal = find_refusal(name, sender_role, person, direct, approvals)
        if refusal is not None:
            self.people.count_refusal(source, "approval" if is_approval else "command")
            return REFUSED, refusal
        if isinstance(parsed, law.AgentMessage):
            return parsed
        if name == "help":
            may_approve = access.may_approve(sender_role, person, direct, await self.people.approvals(keys))
            return name, sender_role if may_approve else f"{sender_role} {WITHOUT_APPROVALS}"
        return name, argument

    # ------------------------------------------------------------ execution

    async def start(self) -> None:
        """Execute the commands that an earlier gateway accepted but did not finish.

        Call this before any turn begins.
        """
        for session in await self.record.read(rows.list_sessions_with_open):
            await self._serve(session)

    def wake(self, session: int) -> None:
        """Start a task that executes this session's recorded commands, unless the gateway is stopping."""
        if self._stopping:
            return
        if session in self._tasks:
            self._again.add(session)
            return
        task = asyncio.get_running_loop().create_task(self._serve(session), name=f"commands {session}")
        self._tasks[session] = task

    async def stop(self) -> None:
        """Stop executing commands. The next gateway executes those that are left."""
        self._stopping = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, session: int) -> None:
        try:
            while True:
                self._again.discard(session)
                try:
                    if self.seats is not None and not self.seats.is_served_here(
                        session, await self.record.read(rows.read_seat, session)
                    ):
                        return
                    for command in await self.record.read(rows.list_open, session):
                        await self._execute(command)
                except LedgerError as error:
                    log.warning("a command is put off", session_id=session, why=str(error))
                    await asyncio.sleep(RETRY_S)
                    continue
                if session not in self._again:
                    return
        finally:
            self._tasks.pop(session, None)

    async def _execute(self, command: OpenCommand) -> None:
        try:
            text = await _HANDLERS[command.name](self, command)
        except (GatewayError, AgentError) as error:
            text = f"/{command.name}: {error}"
        except LedgerError:
            raise
        except Exception:
            log.exception("a command failed inside the gateway", command=command.name, session=command.key)
            text = f"/{command.name} failed inside the gateway. See its log."
        row = (await self.record.read(rows.read_status, command.session)).row
        legs = self.places.cut_legs(row.home, command.key, text) if row.home else ()
        if await self.record.write(rows.answer, command.event, command.session, text, legs or None):
            self.kick()

    # ------------------------------------------------------------ one method for each command

    async def _new(self, command: OpenCommand) -> str:
        reason = f"Stopped by {_sender_name(command)}: a new chapter began."
        await self.record.write(sessions.cancel_orphaned_turn, command.session, self.lease, reason, command.seq, True)
        waiting, _, stopped = command.result.partition(" ")
        stopped_turn = " The running turn was stopped." if stopped else ""
        reply = "A new chapter begins here: the agent knows nothing of what was said before."
        return reply + stopped_turn + _describe_waiting(int(waiting))

    async def _stop(self, command: OpenCommand) -> str:
        """Stop the turn that ran, or was about to begin, when the command was accepted; never a later one.

        Return the reply.
        """
        by = StopRequest(_sender_name(command), command.seq)
        if await self.record.write(
            sessions.cancel_orphaned_turn, command.session, self.lease, by.notice_text, command.seq
        ):
            self.turns.wake(command.session)
            return "The running turn was stopped."
        root, waiting = await self.record.read(rows.find_turn_to_stop, command.session, command.seq)
        if root is not None and await self.turns.cancel(command.session, by, root):
            return "The running turn is being stopped." + _describe_waiting(waiting)
        if root is None and await self.controls.stop_next_turn(command.session, by, command.seq):
            return "The turn that was about to begin is stopped; /retry runs it."
        return "Nothing runs here." + await self._describe_hold(command.session)

    async def _describe_hold(self, session: int) -> str:
        """Say until when a session's messages wait for a limit; "" if they do not."""
        until = await self.record.read(limits.find_hold_end, session)
        if until is None:
            return ""
        end = self.turns.limits.describe_end(until)
        return f" What waits is answered after {end}, or when the owner raises the limit."

    async def _status(self, command: OpenCommand) -> str:
        standing = await self.record.read(rows.read_status, command.session)
        missing = self.controls.explain_missing_agent(standing.row)
        return format_status(standing, self.controls.fixed_model(standing.row.agent), missing)

    async def _history(self, command: OpenCommand) -> str:
        count = min(int(command.argument or rows.DEFAULT_HISTORY_LINES), rows.MAX_HISTORY_LINES)
        return format_history(await self.record.read(rows.list_last_messages, command.session, count) if count else [])

    async def _help(self, command: OpenCommand) -> str:
        """List the commands that the sender may give here. Return the reply."""
        role, _, restriction = command.argument.partition(" ")
        may = access.ROLES[role if role in access.ROLES else "owner"].commands
        if restriction == WITHOUT_APPROVALS:
            may -= access.APPROVALS
        lines = [f"{c.usage}  {c.description}" for c in law.COMMANDS.values() if c.name in may]
        return "\n".join([*lines, "Any other text goes to the agent; //stop sends it /stop."])

    async def _retry(self, command: OpenCommand) -> str:
        if command.result.startswith("t"):
            self.turns.wake(command.session)
        return {
            "running": "A turn is running; /stop it first.",
            "done": "The last turn ended well: there is nothing to run again.",
            "none": "There is no turn here that could be run again.",
        }.get(command.result, f"The last turn ({command.result}) {law.RUNS_AGAIN}")

    async def _busy(self, command: OpenCommand) -> str:
        mode: Busy = "steer" if command.name == "steer" else "queue"
        await self.controls.set_busy(command.key, mode)
        if mode == "queue":
            return "From now on, messages during a turn wait for its end."
        return "From now on, messages during a turn join it, if the agent can read them."

    async def _choose(self, command: OpenCommand) -> str:
        kind = command.name
        standing = await self.record.read(rows.read_status, command.session)
        if (problem := self.controls.explain_missing_agent(standing.row)) is not None:
            return problem[0].upper() + problem[1:]
        model = self.controls.fixed_model(standing.row.agent)
        if model is not None:
            return _describe_fixed_model(standing.row.agent, kind, model)
        about = standing.about
        if not read_choices(about, kind)[1] and await self.controls.learn_choices(command.key):
            about = (await self.record.read(rows.read_status, command.session)).about
        current, offered = read_choices(about, kind)
        if not offered:
            return f"The agent has reported no {kind}s."
        if not command.argument:
            return format_choices(kind, current, offered, _unattended_choices(kind, about))
        chosen_id = find_choice(command.argument, offered)
        if chosen_id is None:
            problem = explain_no_choice(kind, command.argument, offered)
            return problem[0].upper() + problem[1:]
        await (self.controls.set_mode if kind == "mode" else self.controls.set_model)(command.key, chosen_id)
        about = (await self.record.read(rows.read_status, command.session)).about
        remark = f" {ASKS_NOBODY}" if chosen_id in _unattended_choices(kind, about) else ""
        return f"The {kind} is {chosen_id} now.{remark}"

    async def _decide(self, command: OpenCommand) -> str:
        """Answer the permission request that the command named when it was accepted (Law 13). Return the reply.

        The sender has been authorized already.
        """
        choice = rows.decode_choice(command.result)
        if choice.item is None:
            return choice.text + await self.record.read(_list_what_else_is_open, command, choice)
        context = AnswerContext(choice.face, command.event, choice.seen)
        status = await self.controls.answer(
            command.key, choice.item, choice.option, _sender_name(command), is_announced=True, context=context
        )
        if status == "answered":
            return await self.record.read(permission_requests.describe_answer, choice.item) or choice.text
        return (
            "That request is gone: somebody answered it already, or it was withdrawn. The answer of "
            f"{_sender_name(command)} came too late and changed nothing."
        )

    async def _repeat_argument(self, command: OpenCommand) -> str:
        return str(command.argument)

    async def _correct_name(self, command: OpenCommand) -> str:
        word, nearest = command.argument.split()
        return (
            f"There is no command /{word}; did you mean /{nearest}? Nothing was sent to the agent. "
            f"To send it to the agent, write //{word}."
        )


_HANDLERS: dict[str, Callable[[Commands, OpenCommand], Awaitable[str]]] = {
    "new": Commands._new,
    "stop": Commands._stop,
    "status": Commands._status,
    "queue": Commands._busy,
    "steer": Commands._busy,
    "retry": Commands._retry,
    "model": Commands._choose,
    "mode": Commands._choose,
    "approve": Commands._decide,
    "deny": Commands._decide,
    "history": Commands._history,
    "help": Commands._help,
    REFUSED: Commands._repeat_argument,
    PAIR: Commands._repeat_argument,
    GREET: Commands._repeat_argument,
    MISTYPED: Commands._correct_name,
}


def find_refusal(
    command: str, role: Role, person: str = "", direct: bool = True, approvals: frozenset[str] = frozenset()
) -> str | None:
    """Return why the sender may not give this command, in words for the person; None if they may (`semel.law.access`).

    `person`: the sender's known name, or "". `direct`: nobody else can write in this conversation. `approvals`: the
    roles and names that may answer permission requests in the sessions of the command.
    """
    if command not in access.APPROVALS:
        may = command in access.ROLES[role].commands
        return None if may else f"/{command} is not for guests; /help lists what you can do here."
    if access.may_approve(role, person, direct, approvals):
        return None
    return f"/{command}: {access.explain_denied_approval(role, approvals)}"


def _describe_fixed_model(agent: str, kind: str, model: str) -> str:
    """Return the reply to /model or /mode (given as `kind`) for an agent whose model the configuration sets."""
    if kind == "mode":
        return f"The agent {agent} has no modes."
    remedy = f"change `model` in [agents.{agent}], and start the gateway again"
    return f"The model is {model}. It is set in semel.toml: {remedy}."


def _unattended_choices(kind: str, about: Json) -> Sequence[str]:
    """Return the ids of the modes in which the agent decides by itself; none of its models (`kind`)."""
    return about.get("unattended_modes") or () if kind == "mode" else ()


def _list_what_else_is_open(tx: Tx, command: OpenCommand, choice: rows.Choice) -> str:
    """Return sentences about what is open if no permission request of the session is; "" if there is nothing to say.

    In a chat, nobody is told of other sessions: only the owner may know of them.
    """
    if not choice.text.endswith(NOTHING_ASKED):
        return ""
    remarks = []
    if (question := questions.find_newest_open(tx, command.session)) is not None:
        remarks.append(f"The agent asks a question; answer it with a message: {shorten_to_line(question, 100)}")
    elif choice.face == permission_requests.API:
        keys = needs.list_asking(tx)
        if keys:
            more = f" and {len(keys) - MAX_NAMED_SESSIONS} more" if len(keys) > MAX_NAMED_SESSIONS else ""
            remarks.append(f"One is open in {', '.join(keys[:MAX_NAMED_SESSIONS])}{more}: answer it there.")
        else:
            remarks.append("None is open in another session, either.")
    return "".join(f" {remark}" for remark in remarks)


def _sender_name(command: OpenCommand) -> str:
    return command.sender or "the owner"


def _describe_waiting(count: int) -> str:
    if not count:
        return ""
    return f" {count} message{'s' if count > 1 else ''} that waited {'are' if count > 1 else 'is'} taken next."
