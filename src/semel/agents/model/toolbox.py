"""All tools of one conversation: Semel's own (`ToolAccess`), built-in (`builtin.py`) and those of MCP servers.

Each call is announced to the gateway by an ACP update. If the call may change something, a person is then asked for
permission. Before such a call runs, the update "in_progress" is committed. So if the turn is lost afterwards, the
ledger knows that a tool had started, and the turn is not restarted automatically (Law 9).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.tools import ToolDefinition

from semel.agents.model import ToolAccess, builtin
from semel.agents.model.builtin import BuiltinTools, ToolResult
from semel.text.json_types import Json
from semel.text.wellformed import scrub

SendUpdate = Callable[[Json], None]
Ask = Callable[[Json, list[Json]], Awaitable[str | None]]

ALLOW_ONCE_ID, ALLOW_ALWAYS_ID, REJECT_ID = "allow", "always", "reject"
DENIED_TEXT = (
    "Not done: the person did not allow it. Do not try the same in another way; go on without it, or end your turn "
    "and say what you would need."
)
UNANSWERED_TEXT = "Not done: nobody answered whether it is allowed. Go on without it, or end your turn and say so."


class Toolbox:
    """The tools of one conversation: announce calls, ask for permission, and run them.

    - `servers`: the MCP servers (`McpServers`), if there are any.
    - `tell`: gets each ACP update.
    - `ask`: asks a person about a tool call, with options. It returns the chosen option's id; None if nobody answered.
    - `settled`: waits until the gateway has committed all updates so far.
    - `prefix`: the beginning of every tool call id, so that the ids of different spawns differ.
    """

    def __init__(
        self,
        builtin_tools: BuiltinTools,
        door: ToolAccess | None,
        servers: Any | None,
        *,
        tell: SendUpdate,
        ask: Ask,
        settled: Callable[[], Awaitable[None]],
        prefix: str,
    ) -> None:
        self._builtin_tools = builtin_tools
        self._door = door
        self._servers = servers
        self._tell = tell
        self._ask = ask
        self._settled = settled
        self._prefix = prefix
        self._call_count = 0
        self._always_allowed: set[str] = (
            set()
        )  # tools and commands that a person allowed for this conversation's lifetime
        self._semel_tools = {tool["name"]: tool for tool in door.listing()} if door is not None else {}

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self.names())}>"

    def names(self) -> list[str]:
        return [definition.name for definition in self.definitions()]

    def definitions(self) -> list[ToolDefinition]:
        """Return the tools for the model.

        Of tools with the same name, Semel's own comes first, then the built-in one.
        """
        definitions = {
            tool_name: _make_definition(tool_name, listed["inputSchema"], listed["description"])
            for tool_name, listed in self._semel_tools.items()
        }
        for name, tool in self._builtin_tools.tools.items():
            definitions.setdefault(name, _make_definition(name, tool.schema, tool.description))
        for definition in self._servers.definitions if self._servers is not None else ():
            definitions.setdefault(definition.name, definition)
        return list(definitions.values())

    async def call(self, part: ToolCallPart) -> ToolReturnPart:
        """Announce a tool call of the model, and run it if it is allowed. Return the result for the model."""
        self._call_count += 1
        id = f"{self._prefix}.{self._call_count}"
        name = part.tool_name
        try:
            arguments = part.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError) as error:
            arguments, parse_error = {"arguments": str(part.args)[:2000]}, f"Arguments must be a JSON object: {error}"
        else:
            parse_error = ""
        self._tell(self._build_announcement(id, name, arguments))
        result, content = ToolResult(f"{parse_error}. Nothing was done.", ok=False), None
        if not parse_error:
            result, content = await self._run_call(id, name, arguments)
        self._report_end(id, result)
        return ToolReturnPart(name, scrub(result.text) if content is None else content, part.tool_call_id)

    def _build_announcement(self, id: str, name: str, arguments: Json) -> Json:
        kind, title = "other", name
        if name in self._semel_tools:
            title = str(self._semel_tools[name]["annotations"]["title"])
        elif name in self._builtin_tools.tools:
            kind, title = (
                self._builtin_tools.tools[name].kind,
                builtin.render_title(self._builtin_tools.tools[name], arguments),
            )
        return {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "name": name, "kind": kind,
                "status": "pending", "rawInput": arguments}  # fmt: skip

    async def _run_call(self, id: str, name: str, arguments: Json) -> tuple[ToolResult, Any]:
        if name in self._semel_tools:
            assert self._door is not None
            self._report_start(id)
            text, ok = await self._door.call(name, arguments, id)
            return ToolResult(text, ok), None
        if name in self._builtin_tools.tools:
            return await self._run_builtin(id, self._builtin_tools.tools[name], arguments), None
        if self._servers is not None and self._servers.has(name):
            refused = await self._ask_permission(id, name, name, arguments)
            if refused is not None:
                return refused, None
            self._report_start(id)
            await self._settled()
            result, content = await self._servers.call(name, arguments)
            return result, content
        return ToolResult(f"There is no tool {name!r}. There are: {', '.join(self.names())}.", ok=False), None

    async def _run_builtin(self, id: str, tool: builtin.BuiltinTool, arguments: Json) -> ToolResult:
        checked = builtin.check(tool, arguments)
        if isinstance(checked, str):
            return ToolResult(checked, ok=False)
        if tool.needs_permission:
            allowance = f"shell {checked['command']}" if tool.name == "shell" else tool.name
            if (refused := await self._ask_permission(id, tool.name, allowance, arguments)) is not None:
                return refused
        self._report_start(id)
        if tool.needs_permission:
            await self._settled()
        return await self._builtin_tools.call(tool.name, checked, lambda text: self._report_output(id, text))

    async def _ask_permission(self, id: str, name: str, allowance: str, arguments: Json) -> ToolResult | None:
        """Ask a person whether a call may run.

        Return None if it may, else a result that says that the call was not run. `id`: the call's id. `name`: the
        tool's name. `allowance`: identifies what the answer "always" allows: a tool, or one command line.
        """
        if allowance in self._always_allowed:
            return None
        always = "Always allow this command here" if name == "shell" else f"Always allow {name} here"
        options = [
            {"optionId": ALLOW_ONCE_ID, "name": "Allow once", "kind": "allow_once"},
            {"optionId": ALLOW_ALWAYS_ID, "name": always, "kind": "allow_always"},
            {"optionId": REJECT_ID, "name": "Do not allow", "kind": "reject_once"},
        ]
        announced = self._build_announcement(id, name, arguments)
        option = await self._ask({key: announced[key] for key in ("toolCallId", "title", "kind", "rawInput")}, options)
        if option == ALLOW_ALWAYS_ID:
            self._always_allowed.add(allowance)
        if option in (ALLOW_ONCE_ID, ALLOW_ALWAYS_ID):
            return None
        return ToolResult(UNANSWERED_TEXT if option is None else DENIED_TEXT, ok=False)

    # ---------------------------------------------------------------- on the stream

    def _report_start(self, id: str) -> None:
        self._tell({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"})

    def _report_output(self, id: str, text: str) -> None:
        meta = {"terminal_output": {"data": text}}
        self._tell({"sessionUpdate": "tool_call_update", "toolCallId": id, "_meta": meta})

    def _report_end(self, id: str, result: ToolResult) -> None:
        if not result.is_streamed and result.text:
            self._report_output(id, result.text)
        end: Json = {"sessionUpdate": "tool_call_update", "toolCallId": id,
                     "status": "completed" if result.ok else "failed"}  # fmt: skip
        if result.code is not None:
            end["_meta"] = {"terminal_exit": {"exit_code": result.code}}
        self._tell(end)


def _make_definition(name: str, schema: Json, description: str | None) -> ToolDefinition:
    return ToolDefinition(name=name, parameters_json_schema=schema, description=description)
