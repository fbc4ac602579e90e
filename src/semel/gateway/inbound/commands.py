"""Slash commands: parse, authorize and execute them, the same for every channel (docs/commands.md).

A command is an event: accepted once by its key, recorded, and never given to the agent. Its effect in the ledger is
part of the transaction that accepts it. Everything else is done later from its row, in the order of acceptance, and
answered with a notice at the session's home. After a crash, the next gateway executes the commands that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from semel.gateway.errors import GatewayError
from semel.gateway.inbound.admission import People
from semel.gateway.inbound.model_choices import choices, named
from semel.gateway.inbound.status_text import history, status
from semel.gateway.outbound.destinations import Places
from semel.gateway.ports import AgentError
from semel.gateway.transactions import Record
from semel.gateway.turns.scheduler import Turns
from semel.law import access
from semel.law import commands as law
from semel.law.access import Role
from semel.law.busy import Busy
from semel.ledger.inbound import commands as rows
from semel.ledger.inbound.answers import OVER_THE_API, AnswerContext
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Row
from semel.ledger.turns import sessions
from semel.ledger.turns.turns import Stop

log = structlog.get_logger("semel.commands")

RETRY_S = 2.0  # delay after a ledger error
DEFAULT_HISTORY_LINES, MAX_HISTORY_LINES = 10, 50
REFUSED, MISTYPED, PAIR = "refused", "mistyped", "pair"
"""Names of rows that only carry a reply: a command was refused, a command was mistyped, a sender was paired."""

Json = dict[str, Any]


@dataclass(frozen=True)
class CommandRequest:
    """A command with what is needed to authorize it.

    `person`: the sender's known name, "" if they have none. `direct`: nobody else can write in this conversation.
    `approvals`: the roles and names that may answer permission requests in these sessions.
    """

    name: str
    argument: str
    sender: str | None
    source: str
    sessions: tuple[str, ...]
    role: Role = "owner"
    person: str = ""
    direct: bool = True
    approvals: frozenset[str] = frozenset()


class CommandActions(Protocol):
    """The operations of the gateway that commands use (implemented by `Gateway`)."""

    name: str  # of this run of the gateway: its lease
    people: People

    async def set_busy(self, session: str, mode: Busy | None) -> None: ...

    async def set_mode(self, session: str, mode: str) -> None: ...

    async def set_model(self, session: str, model: str) -> None: ...

    def fixed_model(self, agent: str) -> str | None:
        """The configured model of an agent of kind "model"; None for other agents, which report their models."""

    async def answer(
        self,
        session: str,
        item: int,
        option: str | None,
        by: str,
        *,
        told: bool = False,
        given: AnswerContext = OVER_THE_API,
    ) -> str: ...


class Commands:
    """Parses and executes commands. Call `read` before an event is recorded and `heed` after its commit."""

    def __init__(
        self, record: Record, places: Places, deeds: CommandActions, turns: Turns, said: Callable[[], None]
    ) -> None:
        self.record = record
        self.places = places
        self.deeds = deeds
        self.turns = turns
        self.said = said
        self.may: Callable[[CommandRequest], str | None] = authorize_by_role
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()

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
    ) -> law.Message | tuple[str, str]:
        """Parse a person's text: a message (perhaps with a busy mode), or the (name, argument) of a command's row.

        `role` and `person` identify the sender; without a role, the source's role counts. `direct`: nobody else can
        write there.
        """
        found = law.read(text)
        if found != law.Message(text) and isinstance(law.read("/" + text.lstrip("/")), law.Mistyped):
            found = law.read(text, await self.record.read(rows.own, keys))
        if isinstance(found, law.Mistyped):
            return MISTYPED, f"{found.word} {found.nearest}"
        if isinstance(found, law.Message):
            if found.mode is None:
                return found
            name, argument = found.mode, found.text  # a message sent with a command needs permission for that command
        else:
            name, argument = found.name, found.argument
        mine, asked = role or await self.deeds.people.role_of(source), name in access.APPROVALS
        named = await self.deeds.people.approvals(keys) if asked else frozenset[str]()
        refusal = self.may(CommandRequest(name, argument, sender, source, tuple(keys), mine, person, direct, named))
        if refusal is not None:
            self.deeds.people.not_allowed(source, "approval" if asked else "command")
            return REFUSED, refusal
        if isinstance(found, law.Message):
            return found
        return name, mine if name == "help" else argument

    # ------------------------------------------------------------ doing

    async def start(self) -> None:
        """Execute the commands that an earlier gateway accepted and did not finish. Call it before any turn begins."""
        for session in await self.record.read(rows.left):
            await self._serve(session)

    def heed(self, session: int) -> None:
        """Execute the recorded commands of this session soon."""
        if session in self._tasks:
            self._again.add(session)
            return
        task = asyncio.get_running_loop().create_task(self._serve(session), name=f"commands {session}")
        self._tasks[session] = task

    async def stop(self) -> None:
        """Stop executing. The next gateway executes the commands that are left."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, session: int) -> None:
        try:
            while True:
                self._again.discard(session)
                try:
                    for one in await self.record.read(rows.open_in, session):
                        await self._one(one)
                except LedgerError as fault:
                    log.warning("a command is put off", session=session, why=str(fault))
                    await asyncio.sleep(RETRY_S)
                    continue
                if session not in self._again:
                    return
        finally:
            self._tasks.pop(session, None)

    async def _one(self, one: Row) -> None:
        try:
            text = await _DO[one.name](self, one)
        except (GatewayError, AgentError) as no:
            text = f"/{one.name}: {no}"
        except LedgerError:
            raise
        except Exception:
            log.exception("a command failed inside the gateway", command=one.name, session=one.key)
            text = f"/{one.name} could not be done: the gateway failed. Its log tells why."
        row = (await self.record.read(rows.standing, one.session)).row
        legs = self.places.legs(row.home, one.key, text) if row.home else ()
        if await self.record.write(rows.answer, one.event, one.session, text, legs or None):
            self.said()

    # ------------------------------------------------------------ each of them

    async def _new(self, one: Row) -> str:
        by = f"Stopped by {_who(one)}: a new chapter began."
        await self.record.write(sessions.stop_left, one.session, self.deeds.name, by, one.seq, True)
        waiting, _, stopped = one.result.partition(" ")
        ran = " The turn that ran is stopped." if stopped else ""
        told = "A new chapter begins here: the agent knows nothing of what was said before."
        return told + ran + _describe_waiting(int(waiting))

    async def _stop(self, one: Row) -> str:
        """Stop the turn that ran, or was about to run, when the command was accepted; never a later one."""
        by = Stop(_who(one), one.seq)
        if await self.record.write(sessions.stop_left, one.session, self.deeds.name, by.words, one.seq):
            self.turns.wake(one.session)
            return "The turn that ran is stopped."
        turn, waiting = await self.record.read(rows.find_turn_to_stop, one.session, one.event)
        if turn is None or not await self.turns.cancel(one.session, by, turn or None):
            return "Nothing runs here."
        return "The turn that runs is being stopped." + _describe_waiting(waiting)

    async def _status(self, one: Row) -> str:
        now = await self.record.read(rows.standing, one.session)
        return status(now, self.deeds.fixed_model(now.row.agent))

    async def _history(self, one: Row) -> str:
        most = min(int(one.argument or DEFAULT_HISTORY_LINES), MAX_HISTORY_LINES)
        return history(await self.record.read(rows.lines, one.session, most) if most else [])

    async def _help(self, one: Row) -> str:
        may = access.ROLES[one.argument if one.argument in access.ROLES else "owner"].commands
        lines = [f"{c.usage}  {c.what}" for c in law.COMMANDS.values() if c.name in may]
        return "\n".join([*lines, "Any other text goes to the agent; //stop says /stop to it."])

    async def _retry(self, one: Row) -> str:
        if one.result.startswith("t"):
            self.turns.wake(one.session)
        return {
            "running": "A turn is running; /stop it first.",
            "done": "The last turn ended well: there is nothing to run again.",
            "none": "There is no turn here that could be run again.",
        }.get(one.result, f"The last turn ({one.result}) runs again.")

    async def _busy(self, one: Row) -> str:
        mode: Busy = "steer" if one.name == "steer" else "queue"
        await self.deeds.set_busy(one.key, mode)
        if mode == "queue":
            return "From now on, what is said here during a turn waits for its end."
        return "From now on, what is said here during a turn joins it, where the agent can read it meanwhile."

    async def _choose(self, one: Row) -> str:
        kind = one.name
        now = await self.record.read(rows.standing, one.session)
        model = self.deeds.fixed_model(now.row.agent)
        if model is not None:
            return _fixed(now.row.agent, kind, model)
        current, offered = choices(now.about, kind)
        if not offered:
            return f"The agent has reported no {kind}s" + (" yet: say something first." if now.last is None else ".")
        if not one.argument:
            return "\n".join([f"{kind.capitalize()}s:", *(f"{'*' if id == current else '-'} {id}" for id in offered)])
        wanted = named(one.argument, offered)
        if wanted is None:
            return f"There is no {kind} {one.argument!r}. There are: {', '.join(offered)}"
        await (self.deeds.set_mode if kind == "mode" else self.deeds.set_model)(one.key, wanted)
        return f"The {kind} is {wanted} now."

    async def _decide(self, one: Row) -> str:
        """Answer the request that the command meant when it was accepted (Law 13). The sender is authorized already."""
        choice = rows.choice(one.result)
        if choice.item is None:
            return choice.said
        given = AnswerContext(choice.face, one.event, choice.seen)
        status = await self.deeds.answer(one.key, choice.item, choice.option, _who(one), told=True, given=given)
        if status == "answered":
            return choice.said
        return "That request is gone: somebody answered it already, or it was withdrawn. Your answer changed nothing."

    async def _told(self, one: Row) -> str:
        return str(one.argument)

    async def _mistyped(self, one: Row) -> str:
        word, nearest = one.argument.split()
        return (
            f"There is no command /{word}; did you mean /{nearest}? Nothing was sent to the agent. "
            f"To say it to the agent, write //{word}."
        )


_DO: dict[str, Callable[[Commands, Row], Awaitable[str]]] = {
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
    REFUSED: Commands._told,
    PAIR: Commands._told,
    MISTYPED: Commands._mistyped,
}


def authorize_by_role(wanted: CommandRequest) -> str | None:
    """Authorize a command by the sender's role (`semel.law.access`). Returns the refusal for the person, or None."""
    if wanted.name not in access.APPROVALS:
        may = wanted.name in access.ROLES[wanted.role].commands
        return None if may else f"/{wanted.name} is not for guests; /help lists what you can do here."
    if access.approves(wanted.role, wanted.person, wanted.direct, wanted.approvals):
        return None
    return f"/{wanted.name}: {access.explain_denied_approval(wanted.role, wanted.approvals)}"


def _fixed(agent: str, kind: str, model: str) -> str:
    """The reply to /model or /mode for an agent of kind "model", whose model is fixed by the configuration."""
    if kind == "mode":
        return f"The agent {agent} has no modes."
    remedy = f"change `model` in [agents.{agent}], and start the gateway again"
    return f"The model is {model}. It is set in semel.toml: {remedy}."


def _who(one: Row) -> str:
    return str(one.sender or "a person")


def _describe_waiting(many: int) -> str:
    if not many:
        return ""
    return f" {many} message{'s' if many > 1 else ''} that waited {'are' if many > 1 else 'is'} taken next."
