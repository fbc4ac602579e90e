"""The permission requests of a running turn.

Each is answered once: by the policy, a person, its deadline, or a stop. An answer, or the end of the deadline, is
passed to the agent only after it is recorded; if both happen at once, the ledger decides which was first. A stop
answers all requests at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from semel.acp_stream.own_tools import MCP_SERVER_NAME, list_whole_names
from semel.gateway.ports import MAX_BUTTONS, Asked, Conversation
from semel.gateway.record import LedgerAccess
from semel.gateway.turns.call_details import read_requested_change
from semel.law import answer_emoji, permission_questions
from semel.law.access import ROLES, format_approvers, may_approve
from semel.ledger.delivery.cutting import Leg
from semel.ledger.transcript.entries import read_object
from semel.ledger.turns import permission_requests, turn_ops
from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turns import BegunTurn
from semel.text.json_types import Json

SELF_GUARDED_TOOLS = (
    "send_message", "send_file", "add_reaction", "edit_message", "ask", "schedule", "list_schedules",
    "cancel_schedule", "list_background", "cancel_background",
)  # fmt: skip
"""Our tools that need no permission, because they check each call themselves (Laws 5, 10).

`run_in_background` is not among them: a person is asked about its command.
"""
DENIED_UNSEEN = "nobody could see it"  # the session has neither a home nor watchers
DENIED_CROWDED = "too many requests of guests wait"  # this turn may not keep its agent waiting
_FIRST_SLOT = 1 << 40  # slots of permission items, away from those of the fold


def find_guests(events: Sequence[TurnEvent]) -> frozenset[str]:
    """Return the accounts of the guests who asked for a turn. If anybody else asked for it too, return an empty set."""
    writers = [read_object(read_object(event.data, "data"), "from") for event in events]
    if not writers or any(writer.get("role") != "guest" for writer in writers):
        return frozenset()
    return frozenset(f"{event.source} {writer.get('id')}" for event, writer in zip(events, writers, strict=True))


@dataclass(frozen=True)
class Readers:
    """Who reads a request in the chat to which it is sent.

    `place`: where they can answer it. `name`: whose chat it is; "" if it is nobody's alone.
    """

    place: permission_questions.AnswerPlace = "chat"
    name: str = ""


def find_readers(begun: BegunTurn, approvals: Collection[str]) -> Readers:
    """Return who reads a turn's requests at the session's home.

    `approvals`: who may answer there, besides the owner.
    """
    if begun.is_home_group:
        return Readers("group")
    readers = {(person.role, person.name) for person in begun.people}
    if not readers:  # a guest, or somebody's first message
        writers = [(read_object(read_object(event.data, "data"), "from"), event) for event in begun.events]
        readers = {
            (writer["role"], str(writer.get("person") or event.sender))
            for writer, event in writers
            if writer.get("role") in ROLES
        }
    if not readers or any(may_approve(role, name, True, approvals) for role, name in readers):
        return Readers()
    return Readers("elsewhere", ", ".join(sorted(name for _, name in readers)))


@dataclass
class OpenRequest:
    """A permission request without an answer. `item`: the id of its item in the view; None until it is recorded."""

    request: Asked
    slot: int
    item: int | None = None
    must_notify_owners: bool = False  # whether the owners are still to be notified, because it is answered elsewhere
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


@dataclass(eq=False, repr=False)
class Permissions:
    """The permission requests of one run of a turn."""

    conversation: Conversation
    policy: str
    deadline: float  # seconds until a request expires
    on_expired: Callable[[turn_ops.Op], None]  # called when a deadline passes, with the operation that shows it
    is_seen: Callable[[], bool] = lambda: True
    """Returns whether anyone can see a request now. If nobody can, it is denied at once."""
    make_legs: Callable[[str, Sequence[Json], Sequence[str]], tuple[Leg, ...]] = lambda text, buttons, emoji: ()
    """Splits a text with buttons, or with the emoji that stand for them, into the legs for the session's home; () if
    the commit alone shows it there."""
    approvals: Collection[str] = ()  # who may answer there, besides the owner
    last_number: int = 0  # the last option number that people were shown in this session
    may_wait: Callable[[], bool] = lambda: True
    """Returns whether this turn may hold its agent until somebody answers. If not, its request is denied at once."""
    readers: Readers = field(default_factory=lambda: Readers())
    is_answered_by_reactions: bool = False  # whether a request at the session's home is answered by reactions

    def __post_init__(self) -> None:
        self.open: dict[int, OpenRequest] = {}
        self.stopped = False
        self._next_slot = _FIRST_SLOT
        self._next_number = self.last_number + 1  # of the next option; never used again (Law 13)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, request: Asked, announced: Json) -> list[turn_ops.Op]:
        """Answer a new request by the policy, or open it for people. Return the operations that show it.

        `announced`: the fields with which the stream announced its tool call.
        """
        request = replace(request, options=permission_questions.usable_options(request.options))
        if is_self_guarded(request.tool_call, announced):
            self._answer(request, None if self.stopped else _choose_option(request, "allow"))
            return []
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        body: Json = {
            "title": _read_title(request.tool_call) or _read_title(announced) or "The agent asks for permission",
            "options": [dict(o) for o in request.options],
            "input": request.tool_call.get("rawInput") or announced.get("input"),
            "call": request.tool_call.get("toolCallId"),
            **read_requested_change(request.tool_call, announced),
        }
        if self.stopped:  # the agent asked before it noticed the stop, and waits for an answer
            return self._answer_at_once(request, None, slot, {**body, "state": "cancelled"})
        if self.policy in ("allow", "deny"):
            option = _choose_option(request, self.policy)
            return self._answer_at_once(
                request, option, slot, {**body, "state": "answered", "answer": option, "by": "policy"}
            )
        denied_by = (
            DENIED_UNSEEN if not self.is_seen() else DENIED_CROWDED if not self.open and not self.may_wait() else None
        )
        if denied_by is not None:
            option = _choose_option(request, "deny")
            state = "cancelled" if option is None else "answered"
            return self._answer_at_once(
                request, option, slot, {**body, "state": state, "answer": option, "by": denied_by}
            )
        entry = self.open[slot] = OpenRequest(request, slot, must_notify_owners=self.readers.place == "elsewhere")
        entry.timer = asyncio.get_running_loop().call_later(
            self.deadline, self.on_expired, turn_ops.ItemSet(slot, {"state": "expired"}, live=False)
        )
        first = self._next_number
        self._next_number = permission_questions.numbers_from(first, body["options"])[-1] + 1
        approvers = format_approvers(self.approvals)
        buttons = permission_questions.list_buttons(body["options"], first, self.readers.place)
        emoji = answer_emoji.choose_for_request(buttons) if self.is_answered_by_reactions else ()
        question = permission_questions.format_request(
            str(body["title"]), body["input"], body["options"], first, self.deadline, approvers,
            self.readers.place, emoji,
        )  # fmt: skip
        legs = self.make_legs(question, buttons[:MAX_BUTTONS], emoji)
        announce = turn_ops.Announcement(question, legs) if legs else None
        open_body = {**body, "state": "open", "first": first, "approvers": approvers, "place": self.readers.place}
        lifetime_ms = round(self.deadline * 1000)
        return [
            turn_ops.ItemOpen(
                slot, "permission", request.id, body=open_body, announcement=announce, lifetime_ms=lifetime_ms
            )
        ]

    def _answer_at_once(self, request: Asked, option: str | None, slot: int, body: Json) -> list[turn_ops.Op]:
        """Answer a request without asking a person. Return the operations that show the answer."""
        self._answer(request, option)
        return [turn_ops.ItemOpen(slot, "permission", request.id, body=body, live=False)]

    def note_recorded(self, items: Mapping[int, int], expired: Collection[int]) -> None:
        """Store which item of the view shows each open request, and cancel the requests that have expired.

        `items`: {slot: item}. `expired`: the slots of requests whose expiry was recorded.
        """
        for slot, entry in list(self.open.items()):
            entry.item = items.get(slot, entry.item)
            if slot in expired:
                self._close(slot)
                self._answer(entry.request, None)

    async def notify_owners(self, record: LedgerAccess) -> None:
        """Tell the owners of the recorded open requests that only they can answer, of each once."""
        unnotified = [entry for entry in self.open.values() if entry.must_notify_owners and entry.item is not None]
        for entry in unnotified:
            entry.must_notify_owners = False
            await record.write(permission_requests.notify_owners, entry.item, self.readers.name, self.deadline)

    def pass_answer(self, item: int, option: str | None) -> bool:
        """Pass a recorded answer to the agent.

        Return False if the request is no longer open, for example after a stop.
        """
        for slot, entry in list(self.open.items()):
            if entry.item == item:
                self._close(slot)
                self._answer(entry.request, option)
                return True
        return False

    def stop(self) -> list[turn_ops.Op]:
        """Cancel open and later requests, because a person stops the turn (ACP). Return the operations that show it."""
        self.stopped = True
        return self.cancel()

    def cancel(self) -> list[turn_ops.Op]:
        """Cancel every open request. Return the operations that show it."""
        out: list[turn_ops.Op] = []
        for slot, entry in list(self.open.items()):
            self._close(slot)
            self._answer(entry.request, None)
            out.append(turn_ops.ItemSet(slot, {"state": "cancelled"}, live=False))
        return out

    def close(self) -> None:
        """Stop the timers of all deadlines, at the end of the run."""
        for slot in list(self.open):
            self._close(slot)

    def _close(self, slot: int) -> None:
        entry = self.open.pop(slot)
        if entry.timer is not None:
            entry.timer.cancel()

    def _answer(self, request: Asked, option: str | None) -> None:
        task = asyncio.get_running_loop().create_task(self.conversation.answer(request.id, option))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _read_title(call: Json) -> str:
    title = call.get("title")
    return title if isinstance(title, str) else ""


def _choose_option(request: Asked, policy: str) -> str | None:
    """Return the id of the option that fits the policy ("allow" or "deny"); None if there is none.

    An option for this one request is preferred to an option for all later ones.
    """
    kinds = ("allow_once", "allow_always") if policy == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in request.options:
            if option.get("kind") == kind:
                return str(option.get("optionId"))
    return None


def is_self_guarded(tool_call: Json, announced: Json) -> bool:
    """Return whether the agent asks for permission to use one of SELF_GUARDED_TOOLS.

    This looks at the whole name that the agent gives the tool. It does not look at the tool's input, because the model
    writes the input; nor at the beginning of a title, because a title may be a command; nor at a bare tool name,
    because agents have a `send_message` of their own.
    """
    reports = (tool_call, announced)
    if any(_holds_command(report.get(name)) for report in reports for name in ("rawInput", "input")):
        return False
    metas_of_reports = [meta for report in reports if isinstance(meta := report.get("_meta"), dict)]
    metas = [meta for report in metas_of_reports if isinstance(meta := report.get("claudeCode"), dict)]
    servers = [server.get("name") for meta in metas if isinstance(server := meta.get("mcpServer"), dict)]
    tools = [tool for meta in (*metas, *metas_of_reports) if isinstance(tool := meta.get("toolName"), str)]
    if any(server != MCP_SERVER_NAME for server in servers) or not all(map(_is_our_tool_name, tools)):
        return False
    titles = [name for report in reports for name in (report.get("name"), report.get("title")) if isinstance(name, str)]
    return any(map(_is_our_tool_name, [*tools, *titles]))


def _holds_command(input: object) -> bool:
    """Return whether a tool's input contains a command. If it does, the tool is not one of SELF_GUARDED_TOOLS."""
    return isinstance(input, dict) and any(name in input for name in ("command", "cmd"))


OWN_TOOL_NAMES = frozenset(list_whole_names(SELF_GUARDED_TOOLS))
"""The whole names by which agents call SELF_GUARDED_TOOLS."""


def _is_our_tool_name(name: str) -> bool:
    return name in OWN_TOOL_NAMES
