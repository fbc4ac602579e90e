"""A model agent's own tools: their words and schemas, which of them ask for permission, and what each does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from semel.agents.acp.environment import environment
from semel.agents.model import commands, files
from semel.agents.model.workspace import Refused, Workspace
from semel.gateway.settings import AgentSettings
from semel.text.shorten import shorten_to_line

Json = dict[str, Any]
Tell = Callable[[str], None]

TIMEOUT, LONGEST = 120, 3600  # seconds a command gets, and the most it may ask for
TITLE_CHARS = 120
SEARCH = 30.0  # seconds
FOUND = 200  # lines that a search tells

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer", "minimum": 1}


@dataclass(frozen=True)
class Tool:
    """`kind` is ACP's tool kind. `title` is a template over the arguments."""

    name: str
    kind: str
    title: str
    description: str
    arguments: Mapping[str, tuple[Json, str]]
    required: tuple[str, ...]
    asks: bool = False

    @property
    def schema(self) -> Json:
        properties = {name: {**kind, "description": words} for name, (kind, words) in self.arguments.items()}
        return {"type": "object", "properties": properties, "required": list(self.required),
                "additionalProperties": False}  # fmt: skip


_PATH = (_TEXT, "The file: relative to the workspace, or an absolute path inside it.")

TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "read", "read", "Read {path}",
            "Read a text file of the workspace. Long files come in parts: the last line then says how to go on.",
            {"path": _PATH, "offset": (_NUMBER, "The first line to read, from 1."),
             "limit": (_NUMBER, f"How many lines; at most {files.LINES}.")},
            ("path",),
        ),
        Tool(
            "write", "edit", "Write {path}",
            "Write a whole file of the workspace; directories on the way are made, what was there is replaced. To "
            "change a part of a file use edit.",
            {"path": _PATH, "text": (_TEXT, "The whole content.")}, ("path", "text"), asks=True,
        ),
        Tool(
            "edit", "edit", "Edit {path}",
            "Replace one passage of a file. `old` must stand there exactly once, character for character, blanks and "
            "line breaks included.",
            {"path": _PATH, "old": (_TEXT, "The passage as it stands."), "new": (_TEXT, "What takes its place."),
             "all": ({"type": "boolean"}, "Replace every place where it stands.")},
            ("path", "old", "new"), asks=True,
        ),
        Tool(
            "list", "search", "List {path}", "List a directory of the workspace.",
            {"path": (_TEXT, "The directory; left out: the workspace itself.")}, (),
        ),
        Tool(
            "search", "search", "Search {pattern}",
            "Find lines in the files of the workspace by an extended regular expression. Tells file, line number "
            "and line.",
            {"pattern": (_TEXT, "The regular expression."),
             "path": (_TEXT, "A file or directory to search in; left out: the workspace.")},
            ("pattern",),
        ),
        Tool(
            "shell", "execute", "{command}",
            "Run a command line in the workspace and read its output and exit code. It gets no input, and whatever it "
            f"leaves running is ended with it. It has {TIMEOUT} s unless `timeout` says otherwise.",
            {"command": (_TEXT, "The command line, for bash."),
             "timeout": ({**_NUMBER, "maximum": LONGEST}, f"Seconds it may take; at most {LONGEST}.")},
            ("command",), asks=True,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a call came to. `text` is what the model reads; `told`: it was told to the stream already."""

    text: str
    ok: bool = True
    code: int | None = None
    told: bool = False


class Builtin:
    """The tools of one conversation."""

    def __init__(self, agent: AgentSettings, hidden: Collection[str] = ()) -> None:
        assert agent.model is not None
        self.workspace = Workspace(agent.cwd)
        self.tools = {name: TOOLS[name] for name in agent.model.tools}
        self._env = environment(("sh",), agent.env, hidden=hidden)

    def __repr__(self) -> str:
        return f"<Builtin {', '.join(self.tools)}>"

    async def call(self, name: str, given: Json, tell: Tell) -> Result:
        """One call, arguments checked. `tell` is given output as it comes."""
        try:
            if name == "shell":
                return await self._shell(given, tell)
            if name == "search":
                return await self._search(given)
            do = {"read": files.read, "write": files.write, "edit": files.edit, "list": files.list_}[name]
            return Result(await asyncio.to_thread(do, self.workspace, given))
        except Refused as no:
            return Result(str(no), ok=False)
        except OSError as error:
            return Result(f"{name} failed: {error.strerror or error}", ok=False)

    async def _shell(self, given: Json, tell: Tell) -> Result:
        within = float(min(given.get("timeout") or TIMEOUT, LONGEST))
        ran = await commands.run(commands.shell(given["command"]), self.workspace.root, self._env, tell, within)
        text = ran.output
        if ran.code is None:
            tell(f"\n[it {ran.how}]\n")
        if ran.code != 0:
            text += "\n" if text and not text.endswith("\n") else ""
            text += f"[it {ran.how}]"
        return Result(text or "[no output]", ran.code == 0, ran.code, told=True)

    async def _search(self, given: Json) -> Result:
        path = self.workspace.path(given.get("path") or ".")
        where = self.workspace.name(path)
        command = commands.search(given["pattern"], self.workspace.root, where)
        ran = await commands.run(command, self.workspace.root, self._env, lambda text: None, SEARCH)
        if ran.code not in (0, 1) and not ran.output:  # some files could not be read; the others were
            return Result(f"the search failed: it {ran.how}. Is {given['pattern']!r} a regular expression?", ok=False)
        lines = ran.output.splitlines()
        if len(lines) > FOUND:
            lines = [*lines[:FOUND], f"[and {len(lines) - FOUND} lines more; search for something narrower]"]
        return Result("\n".join(line.removeprefix("./") for line in lines) or "[nothing found]")


def check(tool: Tool, given: Json) -> Json | str:
    """The arguments, or a sentence that tells the model what to change."""
    wanted: Json = {}
    for key, value in given.items():
        if key not in tool.arguments:
            return f"{tool.name} has no argument {key!r}. It takes: {', '.join(tool.arguments)}. Nothing was done."
        if value is None:
            continue
        kind = tool.arguments[key][0]["type"]
        if kind == "integer" and isinstance(value, str) and value.isdigit():
            value = int(value)
        fits = {"string": str, "integer": int, "boolean": bool}[kind]
        if not isinstance(value, fits) or (kind == "integer" and isinstance(value, bool)):
            return f"{tool.name}: {key!r} must be of type {kind}. Nothing was done."
        if key in ("command", "pattern") and "\0" in str(value):
            return f"{tool.name}: {key!r} holds a NUL, which no command can be given. Nothing was done."
        wanted[key] = value
    if missing := [key for key in tool.required if key not in wanted]:
        return f"{tool.name} needs {' and '.join(repr(key) for key in missing)}. Nothing was done."
    return wanted


def title(tool: Tool, given: Json) -> str:
    """What a person reads of a call."""
    values = {"path": ".", **{key: str(value) for key, value in given.items()}}
    try:
        text = tool.title.format_map(values)
    except KeyError:
        text = tool.name
    return shorten_to_line(text, TITLE_CHARS)
