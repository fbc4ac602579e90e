"""The controls of a session for people: stop a turn, answer a request, set the mode, the model or the busy mode."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal
from weakref import WeakValueDictionary

from semel.acp_stream.choices import check_option, explain_no_choice, find_choice, read_choices, set_current
from semel.gateway.activity import log_activity
from semel.gateway.errors import BadRequest, Conflict, NotFound, SessionBusy
from semel.gateway.ports import AgentError
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import AgentSettings
from semel.gateway.turns.agent_pool import AgentPool
from semel.gateway.turns.live_agent import read_offers
from semel.gateway.turns.scheduler import TurnScheduler
from semel.law import identity
from semel.law.wake import MODES, Busy
from semel.ledger.inbound import answers
from semel.ledger.storage.rows import SessionRow
from semel.ledger.transcript import entries
from semel.ledger.turns import interventions, session_agent, withdrawals
from semel.ledger.turns.turns import StopRequest
from semel.text.json_types import Json
from semel.text.wellformed import MAX_NAME_CHARS, one_line

MAX_ROW_ID = (1 << 63) - 1
COMMANDS_TIMEOUT_S = 0.5  # how long a newly started agent is waited for to list its commands; later ones are shown then
NEVER_PROMPTED = "the agent was never asked in this chapter, so it remembers nothing of it"
NO_REPLAY = "this agent does not replay its history when its session is opened again"
WHAT_A_REQUEST_IS = "give the id of an item whose kind is permission or ask"
WHAT_A_TURN_IS = "give the `turn` of the session or of an entry, or none for the turn that runs"
MEMORY_IS_TRANSCRIPT = "its memory is the record: each prompt contains the entries"


@dataclass(eq=False, repr=False)
class SessionControls:
    """The controls that slash commands and the HTTP API use. Each method with a session key raises NoSuchSession."""

    record: LedgerAccess
    agents: Mapping[str, AgentSettings]
    turns: TurnScheduler
    spawns: AgentPool
    kick: Callable[[], None]  # wakes the outbox

    def __post_init__(self) -> None:
        self._answering: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()  # by the item that is answered

    async def stop_turn(self, session: str, by: str, turn: int | None = None, seen: int | None = None) -> bool:
        """Stop a turn for the person `by`, and return whether it ran. Raises BadRequest.

        `turn`: the turn, or a later attempt of it, but no other; None: the turn that runs, or is about to begin. A
        repeat that names its turn never stops what began after it. `seen`: the rev of the view in which the turn was
        seen; nothing is stopped if the ledger was restored from a backup since, which may give its id to another turn.
        """
        number, by = await self.record.find_session(session), one_line(by, MAX_NAME_CHARS)
        try:
            target = await self.record.read(interventions.find_stop_target, number, turn, seen)
        except interventions.NoSuchTurn:
            raise BadRequest(f"turn: this session never had a turn {turn}; {WHAT_A_TURN_IS}") from None
        if target.before is not None:
            return await self.stop_next_turn(number, StopRequest(by), target.before)
        return target.root is not None and await self.turns.cancel(number, StopRequest(by), target.root)

    async def stop_next_turn(self, session: int, by: StopRequest, before: int) -> bool:
        """Stop the turn that is about to begin for events that were accepted before the entry `before`.

        What waits for further events (`debounce`) is about to begin, too. Return whether there was such a turn.
        """
        stopped = await self.record.write(interventions.stop_next, session, by, before)
        if stopped is None:
            return False
        if isinstance(stopped, int):  # it has begun since
            return await self.turns.cancel(session, by, stopped)
        self.turns.counts.note_end(stopped.agent, "cancelled")
        log_activity("turn ended", session=stopped.key, turn=stopped.turn, agent=stopped.agent, outcome="cancelled")
        self.kick()
        self.turns.wake(session)  # later events may wait
        return True

    async def stop_message(self, session: str, by: str, message: str) -> Literal["withdrawn", "stopped"] | None:
        """Withdraw the message with this id, which was sent to the session by the API, or stop the turn that took it.

        A message that waits is taken by no turn; those that wait beside it are. Return what was done; None: the turn
        that took it had ended, or there is no such message. A repeat changes nothing.
        """
        number, by = await self.record.find_session(session), one_line(by, MAX_NAME_CHARS)
        found = await self.record.write(withdrawals.withdraw_message, number, f"api:{session}", message)
        if found.is_withdrawn:
            return "withdrawn"
        is_stopped = found.root is not None and await self.turns.cancel(number, StopRequest(by), found.root)
        return "stopped" if is_stopped else None

    async def set_busy(self, session: str, mode: Busy | None) -> None:
        """Set how to handle messages that come while a turn of this session runs. Raises BadRequest.

        None restores the configured mode.
        """
        if mode is not None and mode not in MODES:
            raise BadRequest(f"busy: {str(mode)[:80]!r} is not one of {', '.join(MODES)}")
        await self.record.write(entries.set_busy, await self.record.find_session(session), mode)

    async def set_mode(self, session: str, mode: str) -> None:
        """Switch the agent to a mode (ACP session modes), given by its id or name. Errors: see `_choose`."""
        await self._choose(session, "mode", mode)

    async def set_model(self, session: str, model: str) -> None:
        """Switch the agent to a model, given by its id or name. Errors: see `_choose`."""
        await self._choose(session, "model", model)

    async def _choose(self, session: str, kind: Literal["mode", "model"], choice: str) -> None:
        """Set the session's mode or model. An agent that does not run gets it at its next start.

        Raises BadRequest if the agent does not offer the choice, AgentError if the agent refuses it or does not start,
        and Conflict.
        """
        number = await self.record.find_session(session)
        live = self.spawns.live.get(number)
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=number))
        if (problem := self.explain_missing_agent(row)) is not None:
            raise Conflict(problem)
        if live is not None:
            offered = read_choices({f"{kind}s": getattr(live.conversation, f"{kind}s")}, kind)[1]
            chosen = find_choice(choice, offered) or choice
            await (live.conversation.set_mode if kind == "mode" else live.conversation.set_model)(chosen)
        else:
            offered = await self._offered_choices(session, number, kind)
            if (found := find_choice(choice, offered)) is None:
                raise BadRequest(f"{kind}: {explain_no_choice(kind, choice, offered)}")
            chosen = found
        options = live.conversation.options if live is not None else None
        await self.record.write(entries.set_about, number, {kind: chosen, "options": options})

    async def _offered_choices(self, session: str, number: int, kind: str) -> dict[str, str]:
        """Return the choices that the session's agent offers, as {id: name}.

        If they are not known yet, start the agent.
        """
        offered = read_choices(await self.record.read(entries.read_about, number), kind)[1]
        if not offered and await self.learn_choices(session):
            offered = read_choices(await self.record.read(entries.read_about, number), kind)[1]
        return offered

    async def set_option(self, session: str, option: str, value: str | bool) -> None:
        """Set a configuration option of the agent, by its id. An agent that does not run gets it at its next start.

        Raises BadRequest if the agent does not offer the option or the value; otherwise as `_choose`.
        """
        number = await self.record.find_session(session)
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=number))
        if (problem := self.explain_missing_agent(row)) is not None:
            raise Conflict(problem)
        about = await self.record.read(entries.read_about, number)
        if not about.get("options") and await self.learn_choices(session):
            about = await self.record.read(entries.read_about, number)
        live = self.spawns.live.get(number)
        options = (live.conversation.options if live is not None else None) or about.get("options") or []
        try:
            category = check_option(options, option, value).get("category") or option
        except ValueError as error:
            raise BadRequest(f"option: {error}") from None
        changes: Json = {"options": set_current(options, option, value)}
        if live is not None:
            await live.conversation.set_option(option, value)
            changes = read_offers(live.conversation)
        if category in ("mode", "model"):
            changes[category] = value
        else:
            changes["chosen"] = {**(about.get("chosen") or {}), option: value}
        await self.record.write(entries.set_about, number, changes)

    async def learn_choices(self, session: str) -> bool:
        """Start the session's agent to learn which modes, models and options it offers.

        Return False if it is running already. Raises Conflict while a turn runs or begins, and AgentError if the agent
        cannot be started.
        """
        number = await self.record.find_session(session)
        if number in self.spawns.live:
            return False
        await self.turns.run_alone(number, self._learn_choices)
        return True

    async def _learn_choices(self, session: int) -> None:
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=session))
        live = await self.spawns.take(session, row.key, row.agent, row.memory)
        await self.record.write(entries.set_about, session, read_offers(live.conversation))
        if row.memory is None:  # nothing was said yet: its first turn begins a conversation of its own
            await self.spawns.drop(live, "its modes and models were read")
        else:
            await self.spawns.give_back(live)

    async def start_agent(self, session: str, *, awaits_commands: bool = True) -> None:
        """Start the session's agent without a turn, and record what it offers: modes, models, options and commands.

        `awaits_commands`: wait up to COMMANDS_TIMEOUT_S for a new agent to list its commands.
        Its first turn finds it running. If it runs, or a turn is just starting it, nothing is done. Raises Conflict if
        it is not configured any more, and AgentError if it cannot be started.
        """
        number = await self.record.find_session(session)
        if number in self.spawns.live:
            return
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=number))
        if (problem := self.explain_missing_agent(row)) is not None:
            raise Conflict(problem)
        with contextlib.suppress(SessionBusy):
            await self.turns.run_alone(number, partial(self._start_agent, awaits_commands=awaits_commands))

    async def _start_agent(self, session: int, awaits_commands: bool) -> None:
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=session))
        live = await self.spawns.take(session, row.key, row.agent, row.memory)
        try:
            is_new = live.conversation.restored == "new"
            memory = live.conversation.memory if is_new else None  # else the session has it already
            offers = read_offers(live.conversation)
            await self.record.write(session_agent.record_offers, session, row.chapter, memory, offers)
            if is_new and awaits_commands:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(COMMANDS_TIMEOUT_S):
                        await live.has_announced_commands.wait()
        finally:
            await self.spawns.give_back(live)
        await self.spawns.record_offers(live)

    def explain_missing_agent(self, row: SessionRow) -> str | None:
        """Say what becomes of a session whose agent is not configured any more; None if it is configured."""
        return self.turns.configured.explain_missing(row.key, row.agent)

    def fixed_model(self, agent: str) -> str | None:
        """Return the configured model of an agent of kind "model"; None for other agents, which report their models."""
        settings = self.agents.get(agent)
        return settings.model if settings is not None and settings.kind == "model" else None

    async def answer(
        self, session: str, item: int, option: str | None, by: str, *, is_announced: bool = False,
        context: answers.AnswerContext = answers.OVER_THE_API,
    ) -> str:  # fmt: skip
        """Answer a permission request or a question. Return "answered", "already" or "closed".

        `item`: the request's item in the view. `option`: an option's id, or the text that answers a question. `by`: the
        name of the person. `is_announced`: the chat in which the person was asked learns the outcome in another way.
        `context`: where the answer came from. A permission request is "answered" only once the agent has the answer,
        too; if a stop was faster, it is "closed". Raises NotFound, BadRequest.
        """
        number, by = await self.record.find_session(session), one_line(by, MAX_NAME_CHARS)
        if item > MAX_ROW_ID:
            raise NotFound(f"there is no request {item} in this session; {WHAT_A_REQUEST_IS}")
        digest = identity.digest_fields({"answer": option})
        async with self._answering.setdefault(item, asyncio.Lock()):  # nobody passes on what another one recorded
            result = await self.record.write(
                answers.record_answer, number, item, option, by, digest, is_announced, context
            )
            is_for_agent = result.kind == "permission" and result.status in ("answered", "repeat", "already")
            status = await self._hand_to_agent(number, item, result) if is_for_agent else str(result.status)
        if result.status == "unknown":
            raise NotFound(f"there is no request {item} in this session; {WHAT_A_REQUEST_IS}")
        if result.status == "no such option":
            options = ", ".join(result.options) or "none"
            raise BadRequest(f"option: {option!r} is not one of the options of request {item}: {options}")
        if result.status == "unseen":
            raise BadRequest(f"seen: request {item} is newer than the rev that was seen; nothing was answered")
        if result.status == "no words":
            raise BadRequest(
                "option: a question is answered with words; give one of its options, or a text of your own"
            )
        if result.status == "answered":
            choice = option if result.kind == "permission" else None  # the answer to a question is a text
            log_activity(f"{result.kind} answered", session=session, by=by, outcome=choice)
        if result.outcome is not None:
            self.turns.wake(number)
        return "answered" if status == "repeat" else status

    async def _hand_to_agent(self, session: int, item: int, result: answers.AnswerResult) -> str:
        """Pass the recorded answer to the agent.

        Return the status for the person: "answered", "already" or "closed". An answer that an earlier call recorded is
        passed on, too, because that call may not have learned that its commit succeeded.
        """
        run = self.turns.runs.get(session)
        delivered = run is not None and run.pass_answer(item, result.option)
        if result.status == "answered" and not delivered:
            await self.record.write(answers.cancel_undelivered, item)
        self.kick()
        if result.status == "already":
            return "already"
        return "answered" if delivered or result.status == "repeat" else "closed"

    async def compare_memory(self, session: str) -> Json:
        """Restart the agent, let it replay its history, and compare that history with the transcript.

        Return {"compared", "why"?, "lacks": [{"seq", "role", "text"}], "extra": [text]}: whether the two were compared
        and, if not, why; the entries that the agent does not remember; and the texts that only the agent has. Raises
        Conflict while a turn runs, or if the agent cannot be started.
        """
        return await self.turns.run_alone(await self.record.find_session(session), self._compare_memory)

    async def _compare_memory(self, session: int) -> Json:
        row = await self.record.read(lambda tx: tx.get(SessionRow, "session_by_id", id=session))
        if (problem := self.explain_missing_agent(row)) is not None:
            return _not_compared(problem)
        if self.agents[row.agent].kind == "model":
            return _not_compared(MEMORY_IS_TRANSCRIPT)
        if row.memory is None:
            return _not_compared(NEVER_PROMPTED)
        await self.spawns.end(session, "its memory is compared with the record")
        try:
            live = await self.spawns.take(session, row.key, row.agent, row.memory)
        except AgentError as error:
            raise Conflict(f"the agent could not be started: {error}") from None
        try:
            if live.conversation.restored != "loaded":
                return _not_compared(NO_REPLAY)
            difference = await self.turns.planner.compare_memory(live)
        finally:
            await self.spawns.give_back(live)
        lacks = [{"seq": entry.seq, "role": entry.role, "text": entry.text} for entry in difference.lacks]
        return {"compared": True, "lacks": lacks, "extra": list(difference.extra)}


def _not_compared(reason: str) -> Json:
    return {"compared": False, "why": reason, "lacks": [], "extra": []}
