"""A model agent's built-in tools (read, write, edit, list, search, shell).

The table TOOLS holds names, descriptions and argument schemas, which the model sees, and whether a call needs a
person's permission. `BuiltinTools` runs calls. `toolbox.py` announces calls and asks for permission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from semel.agents.acp.environment import build_environment
from semel.agents.model import commands, files
from semel.agents.model.workspace import ToolRefused, Workspace
from semel.gateway.settings import AgentSettings
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

OnOutput = Callable[[str], None]

DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 120, 3600  # for a command
MAX_TITLE_CHARS = 120
SEARCH_TIMEOUT_S = 30.0
MAX_SEARCH_LINES = 200  # lines of a search result; further lines are counted only

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer", "minimum": 1}


@dataclass(frozen=True)
class BuiltinTool:
    """A built-in tool.

    - `kind`: ACP's tool kind ("read", "edit", "search", "execute").
    - `title`: a format string for a call's title, which people see; its fields are the arguments.
    - `arguments`: {argument name: (JSON Schema, description)}.
    - `needs_permission`: a call may change something, so a person is asked first.
    """

    name: str
    kind: str
    title: str
    description: str
    arguments: Mapping[str, tuple[Json, str]]
    required: tuple[str, ...]
    needs_permission: bool = False

    @property
    def schema(self) -> Json:
        properties = {name: {**kind, "description": words} for name, (kind, words) in self.arguments.items()}
        return {"type": "object", "properties": properties, "required": list(self.required),
                "additionalProperties": False}  # fmt: skip


_PATH = (_TEXT, "The file: relative to the workspace, or an absolute path inside it.")

TOOLS = {
    tool.name: tool
    for tool in (
        BuiltinTool(
            "read", "read", "Read {path}",
            "Read a text file of the workspace. Long files come in parts: the last line then says how to go on.",
            {"path": _PATH, "offset": (_NUMBER, "The first line to read, from 1."),
             "limit": (_NUMBER, f"How many lines; at most {files.MAX_READ_LINES}.")},
            ("path",),
        ),
        BuiltinTool(
            "write", "edit", "Write {path}",
            "Write a whole file of the workspace; directories on the way are made, what was there is replaced. To "
            "change a part of a file use edit.",
            {"path": _PATH, "text": (_TEXT, "The whole content.")}, ("path", "text"), needs_permission=True,
        ),
        BuiltinTool(
            "edit", "edit", "Edit {path}",
            "Replace one passage of a file. `old` must stand there exactly once, character for character, blanks and "
            "line breaks included.",
            {"path": _PATH, "old": (_TEXT, "The passage as it stands."), "new": (_TEXT, "What takes its place."),
             "all": ({"type": "boolean"}, "Replace every place where it stands.")},
            ("path", "old", "new"), needs_permission=True,
        ),
        BuiltinTool(
            "list", "search", "List {path}", "List a directory of the workspace.",
            {"path": (_TEXT, "The directory; left out: the workspace itself.")}, (),
        ),
        BuiltinTool(
            "search", "search", "Search {pattern}",
            "Find lines in the files of the workspace by an extended regular expression. Tells file, line number "
            "and line.",
            {"pattern": (_TEXT, "The regular expression."),
             "path": (_TEXT, "A file or directory to search in; left out: the workspace.")},
            ("pattern",),
        ),
        BuiltinTool(
            "shell", "execute", "{command}",
            "Run a command line in the workspace and read its output and exit code. It gets no input, and whatever it "
            f"leaves running is ended with it. It has {DEFAULT_TIMEOUT_S} s unless `timeout` says otherwise.",
            {"command": (_TEXT, "The command line, for bash."),
             "timeout": ({**_NUMBER, "maximum": MAX_TIMEOUT_S}, f"Seconds it may take; at most {MAX_TIMEOUT_S}.")},
            ("command",), needs_permission=True,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call.

    - `text`: the text for the model.
    - `code`: the exit code, if a command was run and has exited.
    - `is_streamed`: the output was already streamed to the gateway and must not be sent again.
    """

    text: str
    ok: bool = True
    code: int | None = None
    is_streamed: bool = False


class BuiltinTools:
    """The built-in tools of one conversation that the agent's settings enable."""

    def __init__(self, agent: AgentSettings, hidden: Collection[str] = ()) -> None:
        self.workspace = Workspace(agent.cwd)
        self.tools = {name: TOOLS[name] for name in agent.tools}
        self._env = build_environment(("sh",), agent.env, hidden=hidden)

    def __repr__(self) -> str:
        return f"<BuiltinTools {', '.join(self.tools)}>"

    async def call(self, name: str, arguments: Json, tell: OnOutput) -> ToolResult:
        """Run a call whose arguments `check` has accepted. `tell`: gets a command's output in pieces."""
        try:
            if name == "shell":
                return await self._shell(arguments, tell)
            if name == "search":
                return await self._search(arguments)
            file_tool = {"read": files.read, "write": files.write, "edit": files.edit, "list": files.list_}[name]
            return ToolResult(await asyncio.to_thread(file_tool, self.workspace, arguments))
        except ToolRefused as refusal:
            return ToolResult(str(refusal), ok=False)
        except OSError as error:
            return ToolResult(f"{name} failed: {error.strerror or error}", ok=False)

    async def _shell(self, arguments: Json, tell: OnOutput) -> ToolResult:
        timeout_s = float(min(arguments.get("timeout") or DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S))
        result = await commands.run_command(
            commands.build_shell_command(arguments["command"]), self.workspace.root, self._env, tell, timeout_s
        )
        text = result.output
        if result.code is None:
            tell(f"\n[it {result.ending}]\n")
        if result.code != 0:
            text += "\n" if text and not text.endswith("\n") else ""
            text += f"[it {result.ending}]"
        return ToolResult(text or "[no output]", result.code == 0, result.code, is_streamed=True)

    async def _search(self, arguments: Json) -> ToolResult:
        path = self.workspace.path(arguments.get("path") or ".")
        relative_path = self.workspace.name(path)
        command = commands.build_search_command(arguments["pattern"], relative_path)
        result = await commands.run_command(
            command, self.workspace.root, self._env, lambda text: None, SEARCH_TIMEOUT_S
        )
        if (
            result.code not in (0, 1) and not result.output
        ):  # with output, code 2 means only that some files were unreadable
            return ToolResult(
                f"the search failed: it {result.ending}. Is {arguments['pattern']!r} a regular expression?", ok=False
            )
        lines = result.output.splitlines()
        if len(lines) > MAX_SEARCH_LINES:
            lines = [
                *lines[:MAX_SEARCH_LINES],
                f"[and {len(lines) - MAX_SEARCH_LINES} lines more; search for something narrower]",
            ]
        return ToolResult("\n".join(line.removeprefix("./") for line in lines) or "[nothing found]")


def check(tool: BuiltinTool, arguments: Json) -> Json | str:
    """Check a call's arguments against the tool's schema.

    Return the arguments, without nulls and with integers converted from text. If they are wrong, return a sentence for
    the model that says why.
    """
    checked: Json = {}
    for key, value in arguments.items():
        if key not in tool.arguments:
            return f"{tool.name} has no argument {key!r}. It takes: {', '.join(tool.arguments)}. Nothing was done."
        if value is None:
            continue
        type_name = tool.arguments[key][0]["type"]
        if type_name == "integer" and isinstance(value, str) and value.isdigit():
            value = int(value)
        fits = {"string": str, "integer": int, "boolean": bool}[type_name]
        if not isinstance(value, fits) or (type_name == "integer" and isinstance(value, bool)):
            return f"{tool.name}: {key!r} must be of type {type_name}. Nothing was done."
        if key in ("command", "pattern") and "\0" in str(value):
            return f"{tool.name}: {key!r} holds a NUL, which no command can be given. Nothing was done."
        checked[key] = value
    if missing := [key for key in tool.required if key not in checked]:
        return f"{tool.name} needs {' and '.join(repr(key) for key in missing)}. Nothing was done."
    return checked


def render_title(tool: BuiltinTool, arguments: Json) -> str:
    """Return the title of a call for people, as one line."""
    values = {"path": ".", **{key: str(value) for key, value in arguments.items()}}
    try:
        text = tool.title.format_map(values)
    except KeyError:
        text = tool.name
    return shorten_to_line(text, MAX_TITLE_CHARS)
