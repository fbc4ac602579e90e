"""All tools of one conversation: Semel's own (`door.py`), built-in (`builtin.py`) and those of MCP servers.

Each call is announced on the ACP stream, then a person is asked if it may have effects, then it runs. Before a call
with effects runs, its "in progress" update is committed; so a turn that is lost afterwards is known to have started a
tool and is not restarted automatically (Law 9).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.tools import ToolDefinition

from semel.agents.model import builtin
from semel.agents.model.builtin import BuiltinTools, ToolResult
from semel.agents.model.door import Door
from semel.text.wellformed import scrub

Json = dict[str, Any]
Tell = Callable[[Json], None]
Ask = Callable[[Json, list[Json]], Awaitable[str | None]]

ALLOW_ONCE_ID, ALLOW_ALWAYS_ID, REJECT_ID = "allow", "always", "reject"
DENIED_TEXT = (
    "Not done: the person did not allow it. Do not try the same in another way; go on without it, or end your turn "
    "and say what you would need."
)
UNANSWERED_TEXT = "Not done: nobody answered whether it is allowed. Go on without it, or end your turn and say so."


class Toolbox:
    """Announces, authorises and runs tool calls.

    servers   the MCP servers, or `None`
    tell      receives ACP updates
    ask       asks a person about a tool call; returns the chosen option's id, or `None` if nobody answered
    settled   waits until the gateway has committed all updates so far
    prefix    begins every tool call id, so that ids of different spawns differ
    """

    def __init__(
        self,
        own: BuiltinTools,
        door: Door | None,
        servers: Any | None,
        *,
        tell: Tell,
        ask: Ask,
        settled: Callable[[], Awaitable[None]],
        prefix: str,
    ) -> None:
        self._own = own
        self._door = door
        self._servers = servers
        self._tell = tell
        self._ask = ask
        self._settled = settled
        self._prefix = prefix
        self._calls = 0
        self._always: set[str] = set()  # tools and commands that a person allowed for this conversation's lifetime
        self._doors = {one["name"]: one for one in door.listing()} if door is not None else {}

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self.names())}>"

    def names(self) -> list[str]:
        return [one.name for one in self.definitions()]

    def definitions(self) -> list[ToolDefinition]:
        """The tool definitions for the model. If names clash, Semel's own tools win, then built-in ones, then MCP."""
        found = {n: _definition(n, one["inputSchema"], one["description"]) for n, one in self._doors.items()}
        for name, tool in self._own.tools.items():
            found.setdefault(name, _definition(name, tool.schema, tool.description))
        for definition in self._servers.definitions if self._servers is not None else ():
            found.setdefault(definition.name, definition)
        return list(found.values())

    async def call(self, part: ToolCallPart) -> ToolReturnPart:
        """Handle one tool call of the model, from its announcement to the result that the model reads."""
        self._calls += 1
        id = f"{self._prefix}.{self._calls}"
        name = part.tool_name
        try:
            given = part.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError) as error:
            given, broken = {"arguments": str(part.args)[:2000]}, f"The arguments are no JSON object: {error}"
        else:
            broken = ""
        self._tell(self._announcement(id, name, given))
        if broken:
            found: tuple[ToolResult, Any] = (ToolResult(f"{broken}. Nothing was done.", ok=False), None)
        else:
            found = await self._do(id, name, given)
        result, content = found
        self._end(id, result)
        return ToolReturnPart(name, scrub(result.text) if content is None else content, part.tool_call_id)

    def _announcement(self, id: str, name: str, given: Json) -> Json:
        kind, title = "other", name
        if name in self._doors:
            title = str(self._doors[name]["annotations"]["title"])
        elif name in self._own.tools:
            kind, title = self._own.tools[name].kind, builtin.render_title(self._own.tools[name], given)
        return {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "name": name, "kind": kind,
                "status": "pending", "rawInput": given}  # fmt: skip

    async def _do(self, id: str, name: str, given: Json) -> tuple[ToolResult, Any]:
        if name in self._doors:
            assert self._door is not None
            self._begin(id)
            text, ok = await self._door.call(name, given, id)
            return ToolResult(text, ok), None
        if name in self._own.tools:
            return await self._builtin(id, self._own.tools[name], given), None
        if self._servers is not None and self._servers.has(name):
            refused = await self._refused(id, name, name, given)
            if refused is not None:
                return refused, None
            self._begin(id)
            await self._settled()
            result, content = await self._servers.call(name, given)
            return result, content
        return ToolResult(f"There is no tool {name!r}. There are: {', '.join(self.names())}.", ok=False), None

    async def _builtin(self, id: str, tool: builtin.BuiltinTool, given: Json) -> ToolResult:
        checked = builtin.check(tool, given)
        if isinstance(checked, str):
            return ToolResult(checked, ok=False)
        if tool.asks:
            what = f"shell {checked['command']}" if tool.name == "shell" else tool.name
            if (refused := await self._refused(id, tool.name, what, given)) is not None:
                return refused
        self._begin(id)
        if tool.asks:
            await self._settled()
        return await self._own.call(tool.name, checked, lambda text: self._output(id, text))

    async def _refused(self, id: str, name: str, what: str, given: Json) -> ToolResult | None:
        """Ask a person; `None` if the call is allowed, else the result that says it is not.

        `what` identifies what an "always" answer covers: a tool, or one command line.
        """
        if what in self._always:
            return None
        always = "Always allow this command here" if name == "shell" else f"Always allow {name} here"
        options = [
            {"optionId": ALLOW_ONCE_ID, "name": "Allow once", "kind": "allow_once"},
            {"optionId": ALLOW_ALWAYS_ID, "name": always, "kind": "allow_always"},
            {"optionId": REJECT_ID, "name": "Do not allow", "kind": "reject_once"},
        ]
        announced = self._announcement(id, name, given)
        option = await self._ask({key: announced[key] for key in ("toolCallId", "title", "kind", "rawInput")}, options)
        if option == ALLOW_ALWAYS_ID:
            self._always.add(what)
        if option in (ALLOW_ONCE_ID, ALLOW_ALWAYS_ID):
            return None
        return ToolResult(UNANSWERED_TEXT if option is None else DENIED_TEXT, ok=False)

    # ---------------------------------------------------------------- on the stream

    def _begin(self, id: str) -> None:
        self._tell({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"})

    def _output(self, id: str, text: str) -> None:
        meta = {"terminal_output": {"data": text}}
        self._tell({"sessionUpdate": "tool_call_update", "toolCallId": id, "_meta": meta})

    def _end(self, id: str, result: ToolResult) -> None:
        if not result.told and result.text:
            self._output(id, result.text)
        end: Json = {"sessionUpdate": "tool_call_update", "toolCallId": id,
                     "status": "completed" if result.ok else "failed"}  # fmt: skip
        if result.code is not None:
            end["_meta"] = {"terminal_exit": {"exit_code": result.code}}
        self._tell(end)


def _definition(name: str, schema: Json, description: str | None) -> ToolDefinition:
    return ToolDefinition(name=name, parameters_json_schema=schema, description=description)
