"""Operation: run an agent in the AG-UI protocol, for front ends such as CopilotKit and assistant-ui (docs/ag-ui.md).

A thread is a session, and a run is one message with the run's id as its key: a repeated run id shows the same run again
(https://docs.ag-ui.com/spec/1.0). A run may not wait for its consumer, so one that needs a permission ends with an
interrupt. The turn waits in Semel, and the run that answers continues it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from semel.faces.http import conversations
from semel.faces.http.ag_ui_messages import (
    describe_request,
    describe_tool_result,
    is_made_result,
    is_without_output,
    list_call_ids,
    name_tool,
    read_conversation,
    write_transcript,
)
from semel.faces.http.conversations import Conversation
from semel.faces.http.operations.messages import MAX_MESSAGE_BYTES, OWNER
from semel.faces.http.operations.stream import Stream, encode_data
from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router
from semel.faces.reply_stream import Activity, NoticePiece, Piece, ReplyEnd, TextPiece, follow_reply
from semel.gateway.errors import NoSuchSession
from semel.ledger.inbound.answers import AnswerContext
from semel.ledger.turns.replies import Reply
from semel.text.json_types import Json

PROTOCOL_VERSION = "1.0"
CLIENT = "ag-ui"  # in the session keys of threads
REQUEST_ID = re.compile(r"request-(\d{1,18})", re.A)  # the id of an interrupt, with the permission request's item
MAX_HISTORY = 200  # entries of a session that a run without a new message shows
router = Router("ag-ui")


class ResumeEntry(Struct, rename="camel"):
    """The answer to an interrupt. `payload`: an option's id, alone or as `option`, or whether it is `approved`."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class ContextEntry(Struct):
    """What an application wants the agent to know."""

    description: str
    value: str


class RunAgentInput(Struct, rename="camel"):
    """The input of a run, as AG-UI defines it. `messages`: the conversation; what comes after the last answer is said
    to the agent. `protocolVersion`: absent from clients older than 1.0. `tools`, `state` and `forwardedProps` have no
    effect.
    """

    thread_id: Annotated[str, Meta(min_length=1)]
    run_id: Annotated[str, Meta(min_length=1)]
    messages: list[dict[str, Any]]
    context: list[ContextEntry] = []
    resume: list[ResumeEntry] = []
    protocol_version: str | None = None


class AgUiEvent(Struct):
    """An event of AG-UI 1.0. Its other fields depend on its type."""

    type: str


RUN_ERRORS = ("conflict", "not-found", "wrong-state", "unavailable")
RUN_EVENTS = Returns("The events of the run.", AgUiEvent, "text/event-stream", only_data=True)


SESSION_HEADER = Param("Key of the session, if the thread's id does not name it.", name="X-Semel-Session")


@router.route(
    "POST", "/ag-ui/{agent}", RUN_EVENTS, headers=(SESSION_HEADER,), errors=RUN_ERRORS, max_body=MAX_MESSAGE_BYTES
)
async def run_agent(call: ApiCall, agent: Annotated[str, Param("Name of the agent.")], body: RunAgentInput) -> Response:
    """Run an agent in the AG-UI protocol, and stream what it does. A repeated run id shows the same run again."""
    conversations.check_name(call.gateway, agent, "agent")
    session, field = _find_session(call, agent, body.thread_id)
    await conversations.check_agent(call.gateway, session, agent, field)
    run = _Run(call, session, body)
    context = [f"{entry.description}: {entry.value}" for entry in body.context]
    await run.begin(read_conversation(agent, body.messages, context))
    stopping = run.event("RUN_ERROR", message="The gateway stops. Run again with the same id.", code="unavailable")
    return Stream(run.stream(), call, stopping, {"X-Semel-Session": session})


def _find_session(call: ApiCall, agent: str, thread: str) -> tuple[str, str]:
    """Return the key of a thread's session, and the field that names it."""
    if key := call.request.headers.get("x-semel-session"):
        return key, "X-Semel-Session"
    return thread if thread.startswith(f"{agent}:") else conversations.name_session(agent, CLIENT, thread), "threadId"


class _Run:
    """One run. Call `begin` to accept its input, then `stream` for its events."""

    def __init__(self, call: ApiCall, session: str, body: RunAgentInput):
        self._gateway = call.gateway
        self._url = str(call.request.base_url).rstrip("/")
        self._session = session
        self._input = body
        self._reads: list[Callable[[], Awaitable[Reply]]] = []  # the replies that the run shows, in order
        self._shows_transcript = False
        self._end = ReplyEnd("done")  # of the last reply
        self._texts: set[str] = set()  # messages that are open
        self._thoughts: dict[int, int] = {}  # thought -> how many of its characters were sent
        self._tools: dict[int, bool] = {}  # tool call -> whether its result was sent
        self._known_calls: set[str] = set()  # tool calls that the client has, by their ids
        self._known_until = 0  # the rev before which all tool calls came with the interrupt that the client answers
        self._requests: list[Json] = []  # open permission requests
        self._items: list[Json] = []  # of the session's history, as they were when a tool call ended

    async def begin(self, conversation: Conversation) -> None:
        """Accept the answers and the message of the input. Raises a Problem if that is impossible."""
        if answered := [await self._answer_request(entry) for entry in self._input.resume]:
            self._reads.append(lambda: self._gateway.reply_after_request(self._session, min(answered)))
            conversation = await conversations.remove_recorded(self._gateway, self._session, conversation)
        key = self._input.run_id
        if conversation.new_messages and not conversation.new_messages[-1].is_blank:
            message = await conversations.accept_message(
                self._gateway, conversation, self._session, key, CLIENT, "runId"
            )
            self._reads.append(lambda: self._gateway.reply(message.event))
        elif (earlier := await self._gateway.find_message(key)) is not None and earlier.session == self._session:
            self._reads.append(lambda: self._gateway.reply(earlier.event))
        if not self._reads:
            await self._begin_transcript()

    async def _begin_transcript(self) -> None:
        """Show the session as it is, and what the running turn still does."""
        self._shows_transcript = True
        with contextlib.suppress(NoSuchSession):
            if (turn := (await self._gateway.session(self._session)).get("turn")) is not None:
                self._reads.append(lambda: self._gateway.reply_of_turn(self._session, turn))

    async def _answer_request(self, entry: ResumeEntry) -> int:
        """Answer a permission request, once for this run id, and return its item.

        If the request is over already, only its cancellation is accepted. Raises a Problem for any other answer.
        """
        if (match := REQUEST_ID.fullmatch(entry.interrupt_id)) is None:
            raise Problem("not-found", f"There is no interrupt {entry.interrupt_id!r}.", field="resume")
        item = int(match[1])
        option = None if entry.status == "cancelled" else await self._read_option(item, entry.payload)
        context = AnswerContext(key=self._input.run_id)
        outcome = await self._gateway.controls.answer(self._session, item, option, OWNER, context=context)
        if outcome != "answered" and option is not None:
            ending = await self._gateway.describe_request_ending(self._session, item)
            raise Problem("wrong-state", f"The request is over; cancel the interrupt to go on. {ending}")
        return item

    async def _read_option(self, item: int, payload: Any) -> str:
        """Return the option that a payload chooses. Raises a Problem if it chooses none."""
        chosen = payload.get("option", payload.get("approved")) if isinstance(payload, dict) else payload
        if isinstance(chosen, bool):
            page = await self._gateway.history(self._session, 1 << 62, MAX_HISTORY)
            options = [option for each in page["items"] if each["id"] == item for option in each.get("options", [])]
            kind = "allow_once" if chosen else "reject_once"
            chosen = next((option["optionId"] for option in options if option.get("kind") == kind), None)
        if not isinstance(chosen, str):
            raise Problem("bad-field", "A payload names an option's id, or says if it is `approved`.", field="resume")
        return chosen

    def event(self, type: str, **fields: Any) -> bytes:
        return encode_data({"type": type, **fields})

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield the events of the run."""
        ids = {"threadId": self._input.thread_id, "runId": self._input.run_id}
        yield self.event("RUN_STARTED", **ids, protocolVersion=PROTOCOL_VERSION)
        messages = await self._list_earlier(await self._read_messages())
        if messages != self._input.messages:
            yield self.event("MESSAGES_SNAPSHOT", messages=messages)
        self._known_calls = list_call_ids(messages)
        outcome: Json = {"type": "success"}
        for read in self._reads:
            async with contextlib.aclosing(self._stream_reply(read)) as events:
                async for event in events:
                    yield event
            if self._end.outcome == "failed":
                yield self.event("RUN_ERROR", message=self._end.reason, code="turn-failed")
                return
            if self._end.outcome == "cancelled" and self._input.protocol_version is not None:  # older clients refuse it
                outcome = {"type": "cancelled"}
        if self._requests:
            calls = await self._find_calls()
            for event in [event for item in calls.values() for event in self._announce_tool(item)]:
                yield event
            outcome = {"type": "interrupt", "interrupts": self._describe_requests(calls)}
        yield self.event("RUN_FINISHED", **ids, outcome=outcome)

    async def _stream_reply(self, read: Callable[[], Awaitable[Reply]]) -> AsyncGenerator[bytes]:
        """Yield the events of one reply, until it ends or its turn waits for an answer."""
        if self._input.resume:
            self._known_until = (await read()).born
        async with contextlib.aclosing(follow_reply(self._gateway, read, self._url)) as pieces:
            async for piece in pieces:
                is_end = isinstance(piece, ReplyEnd) and not all(self._tools.values())
                if is_end or (isinstance(piece, Activity) and is_without_output(piece.item)):
                    self._items = (await self._read_history())["items"]
                for event in self._write_piece(piece):
                    yield event
                if self._requests:
                    break
        for event in self._end_open_items():
            yield event

    def _write_piece(self, piece: Piece) -> list[bytes]:
        match piece:
            case TextPiece():
                return self._write_text(f"entry-{piece.id}", piece.text, piece.is_last)
            case NoticePiece():
                return self._write_text(f"entry-{piece.entry['seq']}", piece.entry["text"], True)
            case Activity():
                return self._write_item(piece.item)
        self._end = piece
        return []

    def _write_text(self, id: str, text: str, is_last: bool) -> list[bytes]:
        events = []
        if id not in self._texts:
            self._texts.add(id)
            events.append(self.event("TEXT_MESSAGE_START", messageId=id, role="assistant"))
        if text:
            events.append(self.event("TEXT_MESSAGE_CONTENT", messageId=id, delta=text))
        if is_last:
            self._texts.discard(id)
            events.append(self.event("TEXT_MESSAGE_END", messageId=id))
        return events

    def _write_item(self, item: Json) -> list[bytes]:
        if item["kind"] == "tool":
            return self._write_tool(item)
        if item["kind"] == "thought":
            return self._write_thought(item)
        if item["kind"] == "plan":
            plan = {"activityType": "plan", "content": {"entries": item.get("entries", [])}}
            return [self.event("ACTIVITY_SNAPSHOT", messageId=f"item-{item['id']}", **plan)]
        if item["kind"] == "permission" and item.get("state") == "open":
            self._requests.append(item)
        return []

    def _write_tool(self, item: Json) -> list[bytes]:
        events = self._announce_tool(item)
        self._tools.setdefault(item["id"], False)
        if not item.get("live") and not self._tools[item["id"]]:
            events.append(self._write_result(item["id"], describe_tool_result(item, self._items)))
        return events

    def _announce_tool(self, item: Json) -> list[bytes]:
        """Return the events of a tool call without its result; none if the client has it, as from an earlier run."""
        id = f"tool-{item['id']}"
        if id in self._known_calls or item["born"] <= self._known_until:
            return []
        self._known_calls.add(id)
        events = [self.event("TOOL_CALL_START", toolCallId=id, toolCallName=name_tool(item))]
        if item.get("input") is not None:
            arguments = msgspec.json.encode(item["input"]).decode()
            events.append(self.event("TOOL_CALL_ARGS", toolCallId=id, delta=arguments))
        return [*events, self.event("TOOL_CALL_END", toolCallId=id)]

    def _write_result(self, item: int, output: str) -> bytes:
        self._tools[item] = True
        return self.event("TOOL_CALL_RESULT", messageId=f"result-{item}", toolCallId=f"tool-{item}", content=output)

    def _write_thought(self, item: Json) -> list[bytes]:
        id, text, events = f"item-{item['id']}", str(item["text"]), []
        sent = self._thoughts.setdefault(item["id"], 0)
        if sent == 0:
            events.append(self.event("REASONING_START", messageId=id))
            events.append(self.event("REASONING_MESSAGE_START", messageId=id, role="reasoning"))
        if text[sent:]:
            events.append(self.event("REASONING_MESSAGE_CONTENT", messageId=id, delta=text[sent:]))
        self._thoughts[item["id"]] = len(text)
        return events + (self._end_thought(item["id"]) if not item.get("live") else [])

    def _end_thought(self, item: int) -> list[bytes]:
        del self._thoughts[item]
        return [self.event(end, messageId=f"item-{item}") for end in ("REASONING_MESSAGE_END", "REASONING_END")]

    def _end_open_items(self) -> list[bytes]:
        """End what is open. A tool call that waits for a permission gets its result from the run that answers."""
        events = [event for item in list(self._thoughts) for event in self._end_thought(item)]
        events += [self.event("TEXT_MESSAGE_END", messageId=id) for id in sorted(self._texts)]
        self._texts.clear()
        if not self._requests:
            ended = {
                item["id"]: describe_tool_result(item, self._items) for item in self._items if item["kind"] == "tool"
            }
            unfinished = [item for item, is_done in self._tools.items() if not is_done]
            events += [self._write_result(item, ended.get(item, "no result")) for item in unfinished]
        return events

    async def _read_messages(self) -> list[Json]:
        """Return the messages of the input or, if the run shows the transcript, those of the session."""
        if self._shows_transcript and (page := await self._read_history())["entries"]:
            return write_transcript(page, self._input.messages, self._url)
        return self._input.messages

    async def _read_history(self) -> Json:
        """Return the end of the session's history; an empty page if there is no such session."""
        with contextlib.suppress(NoSuchSession):
            return await self._gateway.history(self._session, 1 << 62, MAX_HISTORY)
        return {"entries": [], "items": []}

    async def _list_earlier(self, messages: list[Json]) -> list[Json]:
        """Return the messages without those that this run will show.

        If the client repeats a run that broke off, its input contains what that run had shown. A client that answered a
        request may have made a result of the tool call itself, which the agent's replaces.
        """
        shown: set[str] = set()
        for reply in [await read() for read in self._reads]:
            for row in reply.rows:
                shown |= {f"entry-{row['seq']}"} if "seq" in row else {f"item-{row['id']}", f"result-{row['id']}"}
                shown |= {f"tool-{row['id']}"} if "id" in row and row["born"] > reply.born else set()
        return [each for each in messages if each.get("id") not in shown and not is_made_result(each)]

    async def _find_calls(self) -> dict[int, Json]:
        """Return the tool calls that the open permission requests are about, by the ids of the requests."""
        calls = {
            (item.get("turn"), item.get("call")): item
            for item in (await self._read_history())["items"]
            if item["kind"] == "tool"
        }
        places = {request["id"]: (request.get("turn"), request.get("call")) for request in self._requests}
        return {request: calls[place] for request, place in places.items() if place in calls}

    def _describe_requests(self, calls: Mapping[int, Json]) -> list[Json]:
        """Return the open permission requests as interrupts. `calls`: of `_find_calls`."""
        is_current = self._input.protocol_version is not None  # older clients cannot go on after an interrupt expired
        ids = {request: f"tool-{call['id']}" for request, call in calls.items()}
        return [describe_request(item, ids.get(item["id"]), is_current) for item in self._requests]
