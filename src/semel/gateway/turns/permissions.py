"""Permission requests of a running turn: policy, people, deadline; each answered once.

An answer, or an expired deadline, goes to the agent only after it is recorded; if both happen at once, the ledger
decides which was first. A stop is answered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from semel.gateway.ports import Asked, Conversation
from semel.law import permission_questions
from semel.law.access import in_words
from semel.ledger.delivery.cutting import Leg
from semel.ledger.turns import show

Json = dict[str, Any]
MCP_SERVER_NAME = "semel"  # the name our MCP server has in every agent
SELF_GUARDED_TOOLS = (
    "send_message", "send_file", "add_reaction", "edit_message", "ask", "schedule", "list_schedules",
    "cancel_schedule", "list_background", "cancel_background",
)  # fmt: skip
"""Our tools that guard themselves (Laws 5, 10). `run_in_background` is none: a person is asked about its command."""
DENIED_UNSEEN = "nobody could see it"  # denial: the session has neither a home nor watchers
DENIED_CROWDED = "too many requests of guests wait"  # denial: this turn may not keep its agent waiting
_SLOT = 1 << 40  # slots of permission items, away from those of the fold


@dataclass
class Open:
    """A permission request that waits for an answer."""

    asked: Asked
    slot: int
    item: int | None = None
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class Permissions:
    """The requests of one run. `expired` is called with what to show when a deadline passes.

    `seen` tells whether anyone can see a request now; if nobody can, it is denied at once. `legs` gives the parts in
    which a text leaves for the session's home; none where it is shown there by being recorded. `approvals`: who may
    answer there, beside the owner. `numbers`: the last number that people were shown in this session. `may_wait`:
    whether this turn may hold its agent until somebody answers; if not, its request is denied at once.
    """

    def __init__(
        self,
        conversation: Conversation,
        policy: str,
        deadline: float,
        expired: Callable[[show.Op], None],
        seen: Callable[[], bool] = lambda: True,
        legs: Callable[[str], tuple[Leg, ...]] = lambda text: (),
        approvals: Collection[str] = (),
        numbers: int = 0,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        self.conversation = conversation
        self.policy = policy
        self.deadline = deadline
        self.expired = expired
        self.seen = seen
        self.legs = legs
        self.who = in_words(approvals)
        self.may_wait = may_wait
        self.open: dict[int, Open] = {}
        self.stopped = False
        self._next = _SLOT
        self._number = numbers + 1  # of the next option, for an answer in words; never used again (Law 13)
        self._tasks: set[asyncio.Task[None]] = set()

    def asked(self, request: Asked, known: Json) -> list[show.Op]:
        """What to show for a new request. `known`: what the stream told of its tool call."""
        request = replace(request, options=permission_questions.offered(request.options))
        if is_ours(request.tool_call, known):
            self._answer(request, None if self.stopped else _option(request, "allow"))
            return []
        slot, self._next = self._next, self._next + 1
        body: Json = {
            "title": _title(request.tool_call) or _title(known) or "The agent asks for permission",
            "options": [dict(o) for o in request.options],
            "input": request.tool_call.get("rawInput") or known.get("input"),
            "call": request.tool_call.get("toolCallId"),
        }
        if self.stopped:  # the agent asked before it read of the stop, and waits for an answer
            return self._at_once(request, None, slot, {**body, "state": "cancelled"})
        if self.policy in ("allow", "deny"):
            option = _option(request, self.policy)
            return self._at_once(request, option, slot, {**body, "state": "answered", "answer": option, "by": "policy"})
        denied_by = (
            DENIED_UNSEEN if not self.seen() else DENIED_CROWDED if not self.open and not self.may_wait() else None
        )
        if denied_by is not None:
            option = _option(request, "deny")
            state = "cancelled" if option is None else "answered"
            return self._at_once(request, option, slot, {**body, "state": state, "answer": option, "by": denied_by})
        one = self.open[slot] = Open(request, slot)
        one.timer = asyncio.get_running_loop().call_later(
            self.deadline, self.expired, show.ItemSet(slot, {"state": "expired"}, live=False)
        )
        first = self._number
        self._number = permission_questions.numbers_from(first, body["options"])[-1] + 1
        minutes = self.deadline / 60
        words = permission_questions.words(str(body["title"]), body["input"], body["options"], first, minutes, self.who)
        legs = self.legs(words)
        announce = show.Announced(words, legs) if legs else None
        asked = {**body, "state": "open", "first": first}
        return [show.ItemOpen(slot, "permission", request.id, body=asked, announce=announce)]

    def _at_once(self, request: Asked, option: str | None, slot: int, body: Json) -> list[show.Op]:
        """Answer a request without asking a person, and show the answer."""
        self._answer(request, option)
        return [show.ItemOpen(slot, "permission", request.id, body=body, live=False)]

    def recorded(self, items: Mapping[int, int], expired: Collection[int]) -> None:
        """Note the committed items of open requests by slot, and answer those whose deadline has passed (`expired`)."""
        for slot, one in list(self.open.items()):
            one.item = items.get(slot, one.item)
            if slot in expired:
                self._close(slot)
                self._answer(one.asked, None)

    def answered(self, item: int, option: str | None) -> bool:
        """A person's answer, already recorded, goes to the agent. False: a stop was faster, and it was told so."""
        for slot, one in list(self.open.items()):
            if one.item == item:
                self._close(slot)
                self._answer(one.asked, option)
                return True
        return False

    def stop(self) -> list[show.Op]:
        """A person stops the turn: what is open, and what still comes, is answered `cancelled` (ACP)."""
        self.stopped = True
        return self.cancel()

    def cancel(self) -> list[show.Op]:
        """Every open request is answered `cancelled`."""
        out: list[show.Op] = []
        for slot, one in list(self.open.items()):
            self._close(slot)
            self._answer(one.asked, None)
            out.append(show.ItemSet(slot, {"state": "cancelled"}, live=False))
        return out

    def close(self) -> None:
        """Cancel all timers at the end of the run."""
        for slot in list(self.open):
            self._close(slot)

    def _close(self, slot: int) -> None:
        one = self.open.pop(slot)
        if one.timer is not None:
            one.timer.cancel()

    def _answer(self, request: Asked, option: str | None) -> None:
        task = asyncio.get_running_loop().create_task(self.conversation.answer(request.id, option))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _title(call: Json) -> str:
    title = call.get("title")
    return title if isinstance(title, str) else ""


def _option(request: Asked, policy: str) -> str | None:
    """The mildest option of that kind; None (cancelled) if the agent offers none."""
    kinds = ("allow_once", "allow_always") if policy == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in request.options:
            if option.get("kind") == kind:
                return str(option.get("optionId"))
    return None


def is_ours(tool_call: Json, known: Json) -> bool:
    """Whether the agent asks to use one of our own tools that guard themselves.

    By what the agent itself says of the tool, whole: never by the tool's input, which its model writes, nor by how a
    title begins, which of a command is the command. A bare tool name is not enough: agents have a `send_message` of
    their own.
    """
    both = (tool_call, known)
    if any(_runs(one.get(name)) for one in both for name in ("rawInput", "input")):
        return False
    told = [meta for one in both if isinstance(meta := one.get("_meta"), dict)]
    metas = [meta for one in told if isinstance(meta := one.get("claudeCode"), dict)]
    servers = [server.get("name") for meta in metas if isinstance(server := meta.get("mcpServer"), dict)]
    tools = [meta["toolName"] for meta in metas if isinstance(meta.get("toolName"), str)]
    if any(server != MCP_SERVER_NAME for server in servers) or not all(map(_is_our_tool_name, tools)):
        return False
    titles = [name for one in both for name in (one.get("name"), one.get("title")) if isinstance(name, str)]
    return any(map(_is_our_tool_name, [*tools, *titles]))


def _runs(given: object) -> bool:
    """Whether the input holds a command, which none of our self-guarded tools takes."""
    return isinstance(given, dict) and any(name in given for name in ("command", "cmd"))


def _is_our_tool_name(name: str) -> bool:
    """`mcp__semel__x` (Claude Code, Hermes, Qwen), `mcp.semel.x` (Codex), `Tool: semel/x`, `semel_x` (OpenCode)."""
    return any(
        name
        in (
            f"mcp__{MCP_SERVER_NAME}__{t}",
            f"mcp.{MCP_SERVER_NAME}.{t}",
            f"Tool: {MCP_SERVER_NAME}/{t}",
            f"{MCP_SERVER_NAME}_{t}",
        )
        for t in SELF_GUARDED_TOOLS
    )
