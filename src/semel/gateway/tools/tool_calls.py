"""Handle tool calls of agents: each call over the socket becomes one claim, and the answer reports its outcome.

A call is bound to a turn (Law 10): the turn whose stream announced it, else the running turn of the session. Tools that
say nothing (schedules, background jobs) are registered in `ToolCalls.acts` and make no claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from semel.gateway import files
from semel.gateway.files import MAX_FILE_BYTES, Copies
from semel.gateway.outbound.destinations import HOME, Place, Places
from semel.gateway.settings import AgentSettings
from semel.gateway.tools.rpc import RpcError
from semel.gateway.transactions import Record
from semel.gateway.turns.agent_pool import token_digest
from semel.law import echo
from semel.ledger.delivery.claims import Made, Say
from semel.ledger.transcript import lookup
from semel.ledger.turns import tool_calls
from semel.text.visible import is_blank

Json = dict[str, Any]


class RunningTurn(Protocol):
    """The running turn as tool calls use it (implemented by `Run`)."""

    @property
    def cancelled_by(self) -> str | None:
        """Who stopped the turn."""

    async def announced(self, tool: str | None, name: str, arguments: Json) -> tuple[str | None, int | None]:
        """Match a call to the stream: (tool call id, turn), waiting briefly for its announcement; turn may be None.

        When this returns, all that the agent streamed before is committed.
        """

    @property
    def gone(self) -> bool:
        """Whether the agent's process died, so that the caller is an orphan of it (Law 10)."""

    def sends(self, text: str) -> None:
        """Note a text that a tool sends to the home: a block that may repeat it is not previewed (Law 5)."""


@dataclass(frozen=True)
class Asked:
    """One validated tool call."""

    who: tool_calls.Spawned
    name: str
    call: tool_calls.Call
    arguments: Json
    agent: AgentSettings


class ToolCalls:
    """The handler of the RPC server (`hello`, `call`, `answered`)."""

    def __init__(
        self,
        record: Record,
        places: Places,
        agents: Mapping[str, AgentSettings],
        blobs: Path,
        running: Callable[[int], RunningTurn | None],
        kick: Callable[[], None],
        holds: Callable[[int], bool],
        find_announcing_turn: Callable[[int, str], int | None],
    ) -> None:
        self.record = record
        self.places = places
        self.agents = agents
        self.blobs = blobs
        self.running = running
        self.kick = kick
        self.holds = holds  # whether a spawn is a live process of this gateway
        self.find_announcing_turn = find_announcing_turn  # by spawn and tool call id, used while no turn runs
        self.acts: dict[str, Callable[[Asked], Awaitable[Json]]] = {}  # tools that make no claim, by name
        self.strangers = 0
        self.copies = Copies()
        self._order: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, method: str, params: Json) -> Json:
        """Handle one request. Raises RpcError for an unknown method, an unknown token or an invalid call."""
        match method:
            case "hello":
                return await self._hello(params)
            case "call":
                return await self._call(params)
            case "answered":
                await self._who(params)
                await self.record.write(tool_calls.answered, _token(params), str(params.get("call")))
                return {}
            case _:
                raise RpcError("no-such-method", f"there is no method {method!r}")

    async def _who(self, params: Json) -> tool_calls.Spawned:
        try:
            return await self.record.read(tool_calls.spawned, _token(params))
        except tool_calls.UnknownToken:
            self.strangers += 1
            raise RpcError("stranger", "this token belongs to no agent process of this gateway") from None

    async def _hello(self, params: Json) -> Json:
        who = await self._who(params)
        names = list(self.places.names(who.key))
        agent = self.agents.get(who.agent)
        return {
            "session": who.key,
            "home": who.home is not None,
            "names": names,
            "workspace": str(agent.cwd) if agent else "",
            "instructions": _instructions(who.home is not None, names),
        }

    async def _call(self, params: Json) -> Json:
        """Handle a tool call.

        Calls of one agent process are recorded in the order of arrival. Otherwise a call whose tool server died could
        be recorded after its own repeat, and count as a separate call (Law 5).
        """
        turn_taking = self._order.setdefault(_token(params), asyncio.Lock())
        async with turn_taking:
            asked = await self._asked(params)
            if asked.name not in self.acts:
                made = await self._do(asked)
                self.kick()
                return _answer(made, list(self.places.names(asked.who.key)), asked.who.home is not None)
        return await self.acts[asked.name](asked)

    async def _asked(self, params: Json) -> Asked:
        """Validate a call and find its agent process and turn. Raises RpcError."""
        who = await self._who(params)
        name, arguments = str(params.get("name", "")), params.get("arguments")
        if not isinstance(arguments, dict) or name not in _TOOLS.keys() | self.acts.keys():
            raise RpcError("bad-call", f"there is no tool {name!r} with such arguments")
        running = self.running(who.session)
        tool, turn = echo.tool_call_id(params.get("meta")), None
        if running is not None:
            tool, turn = await running.announced(tool, name, params.get("given", arguments))
        elif tool is not None:
            turn = self.find_announcing_turn(who.spawn, tool)
        dead = not self.holds(who.spawn) or (running is not None and running.gone)
        return Asked(
            who,
            name,
            tool_calls.Call(
                token=_token(params), conn=str(params.get("conn", "")), call=str(params.get("call", "")),
                args=_digest(name, arguments), tool=tool, turn=turn, dead=dead,
                stopped=running is not None and running.cancelled_by is not None,
            ),
            arguments,
            self.agents[who.agent],
        )  # fmt: skip

    async def _do(self, asked: Asked) -> Made:
        running = self.running(asked.who.session)
        try:
            with self.copies if asked.name == "send_file" else contextlib.nullcontext():
                what, blob = await _TOOLS[asked.name](self, asked)
                if running is not None and what.home and what.kind in ("text", "file", "edit"):
                    running.sends(what.text)  # before the commit, because the same text may stream meanwhile
                made = await self.record.write(tool_calls.call, asked.call, what, blob)
        except tool_calls.SameIdOtherCall as bad:
            raise RpcError("bad-call", str(bad)) from None
        return made

    # ------------------------------------------------------------ the tools

    async def _message(self, asked: Asked) -> tuple[Say, Json | None]:
        text = _text(asked.arguments, "text")
        return self._say(asked, text, self._place(asked, asked.arguments.get("to")), {}), None

    def _place(self, asked: Asked, to: Any) -> Place:
        return self.places.resolve(asked.who.key, asked.who.home, to if isinstance(to, str) else None)

    def _say(self, asked: Asked, text: str, place: Place, op: Json | None = None, **rest: Any) -> Say:
        """Build the claim of this call. `op`: fields of the first part; None if nothing has to be sent."""
        legs = self.places.legs(place.dest, asked.who.key, text, op) if place.dest and op is not None else ()
        return Say("tool", text, place.dest, home=place.home, legs=legs, problem=place.problem, **rest)

    async def _file(self, asked: Asked) -> tuple[Say, Json | None]:
        path, caption = _text(asked.arguments, "path"), str(asked.arguments.get("text") or "")
        place = self._place(asked, asked.arguments.get("to"))
        if why := self.places.refuses(place.dest, "file"):
            return Say("tool", caption, None, kind="file", problem=why), None
        limit = min(MAX_FILE_BYTES, self.places.file_limit(place.dest) or MAX_FILE_BYTES)
        try:
            blob = await asyncio.to_thread(files.copy_promised, asked.agent.cwd, path, self.blobs, limit)
        except (files.FileRefused, files.StoreFailed) as no:
            return Say("tool", caption, None, kind="file", problem=str(no)), None
        row = {"id": blob.id, "size": blob.size, "name": blob.name, "mime": blob.mime}
        op = {"kind": "file", "file": blob.id, "name": blob.name, "mime": blob.mime}
        more = {"kind": "file", "files": [row]}
        return self._say(asked, caption, place, op, kind="file", more=more), row

    async def _reaction(self, asked: Asked) -> tuple[Say, Json | None]:
        emoji = _text(asked.arguments, "emoji")
        found, place = await self._message_of(asked), self._place(asked, None)
        if found is None:
            return Say("tool", emoji, None, kind="reaction", problem=_no_message(asked)), None
        if found.op and (why := self.places.refuses(place.dest, "react")):
            return Say("tool", emoji, None, kind="reaction", problem=why), None
        op = {"kind": "react", **found.op} if found.op else None
        more = {"kind": "reaction", "emoji": emoji, "of": found.seq}
        return self._say(asked, emoji, place, op, kind="reaction", more=more), None

    async def _edit(self, asked: Asked) -> tuple[Say, Json | None]:
        text = _text(asked.arguments, "text")
        found = await self._message_of(asked)
        if found is None or not found.own:
            return Say("tool", text, None, kind="edit", problem=_no_message(asked)), None
        place = self.places.at(found.dest, asked.who.home)
        why = self.places.refuses(place.dest, "edit") if found.op else ""
        legs = self.places.changed(place.dest, asked.who.key, text, found.parts) if place.dest and not why else ()
        if legs is None:
            why = "the new text has another number of parts there than the message; send it as a new one"
        if why:
            return Say("tool", text, None, kind="edit", problem=why), None
        more = {"kind": "edit", "of": found.seq}
        return Say(
            "tool", text, place.dest, home=place.home, legs=legs or (), problem=place.problem, kind="edit", more=more,
            edits=found.claim,
        ), None  # fmt: skip

    async def _message_of(self, asked: Asked) -> lookup.Message | None:
        wanted = asked.arguments.get("message")
        ref = str(wanted).strip() if wanted is not None else ""
        return await self.record.read(lookup.message, asked.who.session, asked.who.spawn, ref)

    async def _ask(self, asked: Asked) -> tuple[Say, Json | None]:
        question = _text(asked.arguments, "question")
        options = [str(o) for o in asked.arguments.get("options") or []]
        text = question if not options else question + "\n" + "\n".join(f"{n}. {o}" for n, o in enumerate(options, 1))
        more = {"kind": "ask", "options": options}
        return self._say(asked, text, self._place(asked, None), {}, kind="ask", more=more), None


_TOOLS: dict[str, Callable[[ToolCalls, Asked], Any]] = {
    "send_message": ToolCalls._message,
    "send_file": ToolCalls._file,
    "add_reaction": ToolCalls._reaction,
    "edit_message": ToolCalls._edit,
    "ask": ToolCalls._ask,
}


def _token(params: Json) -> bytes:
    return token_digest(str(params.get("token", "")))


def _digest(name: str, arguments: Json) -> bytes:
    canonical = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _text(arguments: Json, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or is_blank(value):
        raise RpcError("bad-call", f"{name!r} must be a text that is not empty")
    return value


def _no_message(asked: Asked) -> str:
    return f"there is no message {asked.arguments.get('message')!r} in this session that this can refer to"


def _instructions(home: bool, names: list[str]) -> str:
    where = ([HOME] if home else []) + names
    return (
        "Semel delivers what you say. The text you write in a turn reaches the person by itself, so these tools are "
        "for speaking while you work, for files, reactions and questions, and for speaking elsewhere.\n"
        "A text you sent with send_message needs no repetition in your closing text; if you repeat it word for word "
        f"it is shown once.\nDestinations: {', '.join(where) or 'none'}."
    )


def _answer(made: Made, names: list[str], home: bool) -> Json:
    data = {"outcome": made.outcome, "id": f"c{made.claim}", "to": made.dest}
    if made.outcome == "said":
        return {"ok": True, "text": f"sent (id c{made.claim})", "data": data}
    if made.outcome == "echo":
        text = "already said: this very text reached the person before. Nothing is missing; do not send it again."
        return {"ok": True, "text": text, "data": data}
    where = ([HOME] if home else []) + names
    text = f"refused: {made.reason}. Nothing was sent. Destinations that exist: {', '.join(where) or 'none'}."
    return {"ok": False, "text": text, "data": {**data, "reason": made.reason}}
