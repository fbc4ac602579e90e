"""Handle the tool calls of agents. Each call over the socket becomes one claim, and the answer reports its outcome.

A call belongs to a turn (Law 10): the turn whose stream announced it, or else the running turn of the session. Tools
that say nothing to people (schedules, background jobs) are handled by `silent_tools` and make no claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import structlog

from semel.gateway import files
from semel.gateway.errors import BadRequest, UnknownSpawn
from semel.gateway.file_store import FileStore
from semel.gateway.files import MAX_FILE_BYTES
from semel.gateway.outbound.destinations import HOME, Destinations, ResolvedDestination
from semel.gateway.ports import MAX_ANSWER_BYTES, MAX_BUTTONS
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import AgentSettings
from semel.gateway.tracing import Attributes, TurnTrace
from semel.gateway.turns.agent_pool import AgentPool, token_digest
from semel.gateway.turns.run import Run
from semel.law import echo
from semel.law.answer_emoji import choose_for_question
from semel.ledger.delivery.claims import ClaimRequest, ClaimResult
from semel.ledger.inbound import channel_batch
from semel.ledger.storage.errors import LedgerError
from semel.ledger.transcript import lookup
from semel.ledger.turns import tool_calls
from semel.text.json_types import Json
from semel.text.sentences import join_sentences
from semel.text.visible import is_blank, squeeze_to_line

log = structlog.get_logger("semel.files")


@dataclass(frozen=True)
class ToolRequest:
    """A validated tool call.

    `caller`: the agent process and its session. `row`: the facts that the ledger records about it.
    """

    caller: tool_calls.CallingSpawn
    name: str
    row: tool_calls.ToolCallRequest
    arguments: Json
    agent: AgentSettings

    @property
    def workspace(self) -> Path:
        """The folder in which the agent works."""
        return self.agent.cwd if self.caller.folder is None else Path(self.caller.folder)

    def text(self, name: str) -> str:
        """Return the argument `name`. Raises BadRequest if it is missing, not a text, or only white space."""
        value = self.arguments.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadRequest(f"{name!r} must be a text that is not empty")
        return value

    def visible_text(self, name: str) -> str:
        """Return the argument `name`, which people will see.

        Raises BadRequest if it is missing or has no visible character.
        """
        text = self.text(name)
        if is_blank(text):
            raise BadRequest(f"{name!r} must be a text that is not empty")
        return text


REPLY_IN_GROUP = "In the group, reply to this message to answer"


def make_refusal(reason: str) -> Json:
    """Return the answer to a call that was refused without a claim."""
    return {"ok": False, "text": f"refused: {reason}", "data": {"outcome": "refused", "reason": reason}}


SilentTool = Callable[[ToolRequest], Awaitable[Json]]
"""The handler of a tool that says nothing to people and makes no claim."""


@dataclass(eq=False, repr=False)
class ToolCallHandler:
    """The handler of requests from agents' MCP processes: "hello", "call" and "answered"."""

    record: LedgerAccess
    places: Destinations
    agents: Mapping[str, AgentSettings]
    store: FileStore
    find_run: Callable[[int], Run | None]  # the running turn of a session
    kick: Callable[[], None]  # wakes the outbox
    spawns: AgentPool
    silent_tools: Mapping[str, SilentTool]  # by tool name
    find_trace: Callable[[int], TurnTrace | None]  # the spans of a session's running turn

    def __post_init__(self) -> None:
        self.unknown_tokens = 0
        self._order: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, method: str, params: Json) -> Json:
        """Handle one request, and return its result.

        Raises UnknownSpawn for an unknown token, BadRequest for an invalid call.
        """
        match method:
            case "hello":
                return await self._hello(params)
            case "call":
                return await self._call(params)
            case "answered":
                await self._find_caller(params)
                await self.record.write(tool_calls.mark_answered, _read_token(params), str(params.get("call")))
                return {}
            case _:
                raise BadRequest(f"there is no method {method!r}")

    async def _find_caller(self, params: Json) -> tool_calls.CallingSpawn:
        try:
            return await self.record.read(tool_calls.identify_spawn, _read_token(params))
        except tool_calls.UnknownToken:
            self.unknown_tokens += 1
            raise UnknownSpawn from None

    async def _hello(self, params: Json) -> Json:
        caller = await self._find_caller(params)
        self.spawns.note_tools_reached(caller.spawn)
        names = list(self.places.names(caller.key))
        agent = self.agents.get(caller.agent)
        return {
            "session": caller.key,
            "home": caller.home is not None,
            "names": names,
            "workspace": caller.folder or (str(agent.cwd) if agent else ""),
            "instructions": _format_instructions(caller.home is not None, names),
        }

    async def _call(self, params: Json) -> Json:
        """Handle a tool call, and return the answer.

        Calls of one agent process are recorded in the order of arrival. If a tool server dies, its successor repeats
        the call. Out of order, the repeat could be recorded first, and the original would count as another call (Law
        5).
        """
        turn_taking = self._order.setdefault(_read_token(params), asyncio.Lock())
        async with turn_taking:
            call = await self._check_call(params)
            if call.name not in self.silent_tools:
                with self._span(call) as attributes:
                    outcome = await self._execute(call)
                    attributes |= {"semel.claim": outcome.claim_id, "semel.outcome": outcome.outcome}
                self.kick()
                return _make_answer(outcome)
        with self._span(call):
            return await self.silent_tools[call.name](call)

    def _span(self, call: ToolRequest) -> contextlib.AbstractContextManager[Attributes]:
        trace = self.find_trace(call.caller.session)
        return contextlib.nullcontext({}) if trace is None else trace.span("tool call", **{"semel.tool": call.name})

    async def _check_call(self, params: Json) -> ToolRequest:
        """Validate a call and find its agent process and turn. Raises UnknownSpawn, BadRequest."""
        caller = await self._find_caller(params)
        name, arguments = str(params.get("name", "")), params.get("arguments")
        if not isinstance(arguments, dict) or name not in _TOOLS.keys() | self.silent_tools.keys():
            raise BadRequest(f"there is no tool {name!r} with such arguments")
        running = self.find_run(caller.session)
        tool_id, turn = echo.tool_call_id(params.get("meta")), None
        if running is not None:
            tool_id, turn = await running.match_call(tool_id, name, params.get("given", arguments))
        elif tool_id is not None:
            turn = self.spawns.find_announcing_turn(caller.spawn, tool_id)
        dead = not self.spawns.holds(caller.spawn) or (running is not None and running.agent_died)
        return ToolRequest(
            caller,
            name,
            tool_calls.ToolCallRequest(
                token=_read_token(params), conn=str(params.get("conn", "")), call=str(params.get("call", "")),
                args=_digest_call(name, arguments), tool=tool_id, turn=turn, dead=dead,
                stopped=running is not None and running.cancelled_by is not None,
            ),
            arguments,
            self.agents[caller.agent],
        )  # fmt: skip

    async def _execute(self, call: ToolRequest) -> ClaimResult:
        running = self.find_run(call.caller.session)
        try:
            with self.store if call.name == "send_file" else contextlib.nullcontext():
                say, blob = await _TOOLS[call.name](self, call)
                if running is not None and say.is_home and say.kind in ("text", "file", "edit"):
                    running.hold_back_text(say.text)  # before the commit, because the same text may stream meanwhile
                outcome = await self.record.write(tool_calls.record_call, call.row, say, blob)
                if blob is not None and outcome.outcome != "said":
                    await self._release_copy(blob)
        except tool_calls.CallIdReused as error:
            raise BadRequest(str(error)) from None
        return outcome

    async def _release_copy(self, blob: Json) -> None:
        """Let the copy of a file be removed, unless an entry refers to it: the claim was not said."""
        try:
            await self.record.write(channel_batch.release_copied_file, **blob)
            self.store.unused.set()
        except LedgerError as error:  # the outcome is recorded: the call has not failed
            log.warning("a file that was not sent stays in the store", file=blob["id"], why=str(error))

    # ------------------------------------------------------------ the tools

    async def _request_message(self, call: ToolRequest) -> tuple[ClaimRequest, Json | None]:
        text = call.visible_text("text")
        return self._say(call, text, self._place(call, call.arguments.get("to")), {}), None

    def _place(self, call: ToolRequest, to: Any) -> ResolvedDestination:
        return self.places.resolve(call.caller.key, call.caller.home, to if isinstance(to, str) else None)

    def _say(
        self, call: ToolRequest, text: str, place: ResolvedDestination, op: Json | None = None, **fields: Any
    ) -> ClaimRequest:
        """Return the claim by which this call says `text` at `place`.

        `op`: fields for the `Op` of the first part; None if no part is to be sent. `fields`: other fields of the claim.
        """
        legs = self.places.cut_legs(place.dest, call.caller.key, text, op) if place.dest and op is not None else ()
        return ClaimRequest("tool", text, place.dest, is_home=place.home, legs=legs, problem=place.problem, **fields)

    async def _request_file(self, call: ToolRequest) -> tuple[ClaimRequest, Json | None]:
        path, caption = call.visible_text("path"), str(call.arguments.get("text") or "")
        place = self._place(call, call.arguments.get("to"))
        named = {"files": [{"name": path}]}
        if problem := self.places.find_problem(place.dest, "file"):
            return ClaimRequest("tool", caption, None, kind="file", problem=problem, more=named), None
        limit = min(MAX_FILE_BYTES, self.places.file_limit(place.dest) or MAX_FILE_BYTES)
        try:
            copy, empty = files.copy_from_workspace, self.places.find_empty_file_problem(place.dest)
            blob = await asyncio.to_thread(copy, call.workspace, path, self.store.content, limit, empty)
        except (files.FileRefused, files.StoreFailed) as error:
            return ClaimRequest("tool", caption, None, kind="file", problem=str(error), more=named), None
        row = {"id": blob.id, "size": blob.size, "name": blob.name, "mime": blob.mime}
        op = {"kind": "file", "file": blob.id, "name": blob.name, "mime": blob.mime}
        more = {"kind": "file", "files": [row | blob.image_size]}
        return self._say(call, caption, place, op, kind="file", more=more), row

    async def _request_reaction(self, call: ToolRequest) -> tuple[ClaimRequest, Json | None]:
        emoji = call.visible_text("emoji")
        message, place = await self._message_of(call), self._place(call, None)
        if message is None:
            return ClaimRequest("tool", emoji, None, kind="reaction", problem=_describe_missing_message(call)), None
        if message.op and (problem := self.places.find_problem(place.dest, "react")):
            return ClaimRequest("tool", emoji, None, kind="reaction", problem=problem), None
        op = {"kind": "react", **message.op} if message.op else None
        more = {"kind": "reaction", "emoji": emoji, "of": message.seq}
        return self._say(call, emoji, place, op, kind="reaction", more=more), None

    async def _edit(self, call: ToolRequest) -> tuple[ClaimRequest, Json | None]:
        text = call.visible_text("text")
        message = await self._message_of(call)
        if message is None or not message.own:
            return ClaimRequest("tool", text, None, kind="edit", problem=_describe_missing_message(call)), None
        place = self.places.place_of(message.dest, call.caller.home)
        problem = self.places.find_problem(place.dest, "edit") if message.op else ""
        legs = (
            self.places.cut_edit(place.dest, call.caller.key, text, message.parts) if place.dest and not problem else ()
        )
        if legs is None:
            problem = "the new text has another number of parts there than the message; send it as a new one"
        if problem:
            return ClaimRequest("tool", text, None, kind="edit", problem=problem), None
        more = {"kind": "edit", "of": message.seq}
        return ClaimRequest(
            "tool", text, place.dest, is_home=place.home, legs=legs or (), problem=place.problem, kind="edit",
            more=more,
            edits=message.claim,
        ), None  # fmt: skip

    async def _message_of(self, call: ToolRequest) -> lookup.ReferencedMessage | None:
        argument = call.arguments.get("message")
        ref = str(argument).strip() if argument is not None else ""
        return await self.record.read(lookup.find_message, call.caller.session, call.caller.spawn, ref)

    async def _ask(self, call: ToolRequest) -> tuple[ClaimRequest, Json | None]:
        question = call.visible_text("question")
        options = [str(o) for o in call.arguments.get("options") or []]
        text = question if not options else question + "\n" + "\n".join(f"{n}. {o}" for n, o in enumerate(options, 1))
        more = {"kind": "ask", "options": options}
        place = self._place(call, None)
        buttons = _list_buttons(options)
        are_reactions = self.places.is_answered_by_reactions(place.dest, call.caller.key)
        emoji = choose_for_question(buttons) if are_reactions else ()
        running = self.find_run(call.caller.session)
        if how := _say_how_to_answer(emoji, running is not None and running.begun.is_home_group):
            text = f"{text}\n\n{how}"
        legs = self.places.cut_with_buttons(place.dest, call.caller.key, text, buttons, emoji)
        return replace(self._say(call, text, place, kind="ask", more=more), legs=legs), None


_TOOLS: dict[str, Callable[[ToolCallHandler, ToolRequest], Any]] = {
    "send_message": ToolCallHandler._request_message,
    "send_file": ToolCallHandler._request_file,
    "add_reaction": ToolCallHandler._request_reaction,
    "edit_message": ToolCallHandler._edit,
    "ask": ToolCallHandler._ask,
}


def _list_buttons(options: Sequence[str]) -> list[Json]:
    """Return a button for each option of a question, if all can be buttons; else none.

    An option that looks like a command cannot: whoever presses it would give that command without having written it.
    """
    fit = all(
        len(option.encode()) <= MAX_ANSWER_BYTES and not is_blank(option) and not option.strip().startswith("/")
        for option in options
    )
    if not fit or len(options) > MAX_BUTTONS:
        return []
    return [{"label": squeeze_to_line(option), "answer": option} for option in options]


def _say_how_to_answer(emoji: Sequence[str], is_group: bool) -> str:
    """Return a sentence on how people answer a question; "" if that needs none.

    `emoji`: the reactions that stand for its options. `is_group`: only what is addressed to the agent reaches it.
    """
    if not emoji:
        return f"{REPLY_IN_GROUP}." if is_group else ""
    reaction = f"react to it with an option's number ({' '.join(emoji)})"
    return f"{REPLY_IN_GROUP}, or {reaction}." if is_group else f"To answer, write, or {reaction}."


def _read_token(params: Json) -> bytes:
    return token_digest(str(params.get("token", "")))


def _digest_call(name: str, arguments: Json) -> bytes:
    canonical = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _describe_missing_message(call: ToolRequest) -> str:
    return f"there is no message {call.arguments.get('message')!r} in this session that this can refer to"


def _format_instructions(home: bool, names: list[str]) -> str:
    where = ([HOME] if home else []) + names
    return (
        "Semel delivers what you say. The text you write in a turn reaches the person by itself, so these tools are "
        "for speaking while you work, for files, reactions and questions, and for speaking elsewhere.\n"
        "A text you sent with send_message needs no repetition in your closing text; if you repeat it word for word "
        f"it is shown once.\nDestinations: {', '.join(where) or 'none'}."
    )


def _make_answer(outcome: ClaimResult) -> Json:
    data = {"outcome": outcome.outcome, "id": f"c{outcome.claim_id}", "to": outcome.dest}
    if outcome.outcome == "said":
        return {"ok": True, "text": f"sent (id c{outcome.claim_id})", "data": data}
    if outcome.outcome == "echo":
        text = "already said: this very text reached the person before. Nothing is missing; do not send it again."
        return {"ok": True, "text": text, "data": data}
    text = join_sentences(f"refused: {outcome.reason or ''}", "Nothing was sent.")
    return {"ok": False, "text": text, "data": {**data, "reason": outcome.reason}}
