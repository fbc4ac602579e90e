"""The tools' names, descriptions and argument schemas, as the model reads them.

The wording is part of the product: it must keep a model from two mistakes, repeating its closing text and sending
again what was already said (Law 5). `check_arguments` validates a call's arguments before the gateway sees it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from semel.text.json_types import Json

TEXT: Json = {"type": "string"}
LIST: Json = {"type": "array", "items": {"type": "string"}, "minItems": 1}


class Tool(NamedTuple):
    """One tool. `aliases`: (wrong name, argument) pairs for names that models use by mistake; not advertised."""

    name: str
    title: str
    description: str
    arguments: dict[str, tuple[Json, str]]  # name: (JSON Schema, description)
    required: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    runs_anything: bool = False  # can run anything: agents should ask a person, as for their own shell


class Greeting(NamedTuple):
    """The gateway's answer to `hello`: whether the session has a home, the names of its other destinations, and
    instructions for the model."""

    has_home: bool = True
    destinations: tuple[str, ...] = ()
    instructions: str = ""


INSTRUCTIONS = (
    "You are in a conversation with a person through Semel. What you write as your closing text (the text "
    "after your last tool call) is delivered to them by itself. With send_message you speak before that, "
    "while you work. Nothing needs to be sent twice: when a tool answers 'sent' or 'already said', the "
    "person has it."
)

TO_DESCRIPTION = "Where to. Leave it out to reach the person you are talking with."

TOOLS = (
    Tool(
        "send_message",
        "Send a message now",
        "Say something to the person NOW, while you go on working: that you have begun, how far you are, a "
        "first result, a question. It goes out at once, not at the end of your turn.\n"
        "Your closing text (what you write after your last tool call) is delivered too, by itself. So this "
        "tool is not for the final answer, and the closing text need not repeat what was sent here. If it "
        "repeats it word for word, that is recognised and the person sees it once; any other closing text "
        "is delivered.\n"
        "Answers: 'sent' = it is recorded and on its way. 'already said' = the person has exactly this from "
        "you already; all is well. In both cases do not send it again. 'refused' = nothing was sent, and "
        "why. A second call with the same text, made on purpose, is a second message.",
        {"text": (TEXT, "The message, in Markdown, exactly as it should be read."), "to": (TEXT, TO_DESCRIPTION)},
        ("text",),
    ),
    Tool(
        "send_file",
        "Send a file now",
        "Send a file from your workspace to the person NOW, with an optional text. The file is copied "
        "before this answers, so you may change or delete it afterwards. Only regular files inside the "
        "workspace: no symbolic links, no '..'. Do not send it again after 'sent' or 'already said'.",
        {
            "path": (TEXT, "The file: relative to the workspace, or an absolute path inside it."),
            "text": (TEXT, "What to say with it."),
            "to": (TEXT, TO_DESCRIPTION),
        },
        ("path",),
        (("caption", "text"),),
    ),
    Tool(
        "add_reaction",
        "React to a message",
        "Put an emoji on a message of the conversation, the way people do in a chat. It says no text: your "
        "closing text is delivered whatever you react with.",
        {
            "emoji": (TEXT, "One emoji, such as 👍."),
            "message": (TEXT, "The id of the message. Leave it out for the one you are answering."),
        },
        ("emoji",),
    ),
    Tool(
        "edit_message",
        "Edit a message you sent",
        "Replace the text of a message that you sent with send_message in this conversation. Use it to "
        "correct or to update in place; to say something more, use send_message. Where the platform cannot "
        "edit, this is refused and the message stays as it was.",
        {
            "message": (TEXT, "The id that send_message gave you when it answered 'sent'."),
            "text": (TEXT, "The whole new text."),
        },
        ("message", "text"),
    ),
    Tool(
        "ask",
        "Ask the person to choose",
        "Ask the person a question with options to choose from. This returns at once and does not wait: the "
        "answer comes later, as a new message. Go on with what does not depend on it, or end your turn; do "
        "not ask again meanwhile, and do not repeat the question in your closing text.",
        {
            "question": (TEXT, "The question."),
            "options": (LIST, "The possible answers, short, in the order to show them."),
        },
        ("question", "options"),
    ),
    Tool(
        "schedule",
        "Schedule a turn",
        "Have this conversation continued later, once or again and again: at each due time you get a turn in which "
        "you are asked TEXT. It survives restarts. Use it for reminders and for what has to be done regularly; "
        "do not wait or sleep instead. The same schedule made twice is one.",
        {
            "cron": (
                TEXT,
                "When. Again and again: a cron of five fields (minute hour day-of-month month day-of-week), like "
                "'30 7 * * MON-FRI'. Once: a date and time, like '2030-03-29 07:30'.",
            ),
            "text": (TEXT, "What you are asked then: write it so that it can be understood without this turn."),
            "tz": (TEXT, "The time zone of it, like 'Europe/Berlin'. Left out: UTC."),
        },
        ("cron", "text"),
        (("at", "cron"), ("time", "cron"), ("prompt", "text"), ("timezone", "tz")),
    ),
    Tool(
        "list_schedules",
        "List the schedules",
        "List the schedules of this conversation with their names, when each fires next and when it last did.",
        {},
        (),
    ),
    Tool(
        "cancel_schedule",
        "Cancel a schedule",
        "Cancel a schedule of this conversation: it does not fire any more.",
        {"name": (TEXT, "Its name, as schedule and list_schedules tell it.")},
        ("name",),
    ),
    Tool(
        "run_in_background",
        "Run a command in the background",
        "Start a shell command in your workspace that goes on by itself: a build, a long test run, a download. This "
        "returns at once with an id. When the command has ended, you are told by an event of this conversation, with "
        "its exit code and the end of what it printed; that starts a turn of yours. So go on with something else or "
        "end your turn: do not wait, do not poll, do not start it again. It survives restarts of you and of the "
        "gateway. It has no input, and is ended when its time is over.",
        {
            "command": (TEXT, "The command line, as /bin/sh reads it. It runs in your workspace."),
            "name": (TEXT, "What to call it in reports, such as 'unit tests'."),
            "timeout": (TEXT, "The longest it may run, such as '90s', '10m' or '2h'. Left out: as long as is allowed."),
        },
        ("command",),
        (("cmd", "command"), ("description", "name")),
        runs_anything=True,
    ),
    Tool(
        "list_background",
        "List the background commands",
        "List the background commands of this conversation: id, how each is, and what it runs. You need not ask for "
        "this to learn that one has ended: you are told.",
        {},
        (),
    ),
    Tool(
        "cancel_background",
        "Cancel a background command",
        "End a background command of this conversation, with every process of it. Answers how it ended.",
        {"id": (TEXT, "Its id, as run_in_background and list_background tell it.")},
        ("id",),
    ),
)

SPEAKING_TOOLS = frozenset({"send_message", "send_file", "add_reaction", "edit_message", "ask"})
"""The tools that say something. Their calls are recorded in the order in which an agent made them."""

TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}


def list_tools(greeting: Greeting) -> list[Json]:
    """The tools in the format of MCP's tools/list (`Tool` in the schemas 2024-11-05 to 2026-07-28)."""
    return [_describe_tool(tool, greeting) for tool in TOOLS]


def _describe_tool(tool: Tool, greeting: Greeting) -> Json:
    properties = {
        name: {**schema, "description": description} for name, (schema, description) in tool.arguments.items()
    }
    if "to" in properties:
        properties["to"]["description"] = _describe_destinations(greeting)
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": list(tool.required),
            "additionalProperties": False,
        },
        # Some agents ask a person, or a second model, before each call of a tool without such hints. Most tools here
        # destroy nothing and reach only destinations that the owner allowed.
        "annotations": {
            "title": tool.title,
            "readOnlyHint": False,
            "destructiveHint": tool.runs_anything,
            "idempotentHint": False,
            "openWorldHint": tool.runs_anything,
        },
    }


def _describe_destinations(greeting: Greeting) -> str:
    names = ", ".join(greeting.destinations)
    if not greeting.has_home:
        return f"Where to; needed, as this session has no home. One of: {names}." if names else "No destination."
    return f"{TO_DESCRIPTION} Otherwise one of: {names}." if names else TO_DESCRIPTION


def check_arguments(name: str, raw_arguments: Json) -> Json | str:
    """Validate a call's arguments and resolve aliases; returns them, or a sentence that says what is wrong."""
    tool = TOOLS_BY_NAME[name]
    arguments: Json = {}
    aliases = dict(tool.aliases)
    for key, value in raw_arguments.items():
        key = aliases.get(key, key)
        if key not in tool.arguments:
            return f"{name} has no argument {key!r}. It takes: {', '.join(tool.arguments)}. Nothing was done."
        if value is None or (key not in tool.required and value == ""):
            continue  # models write null or "" for what they leave out
        value = _coerce_value(tool.arguments[key][0], value)
        if value is None:
            kind = "a list of at least one text" if tool.arguments[key][0] is LIST else "a text"
            return f"{name}: {key!r} must be {kind}. Nothing was done."
        arguments[key] = value
    if missing := [key for key in tool.required if key not in arguments]:
        return f"{name} needs {' and '.join(repr(key) for key in missing)}. Nothing was done."
    return arguments


def _coerce_value(schema: Json, value: Any) -> str | list[str] | None:
    """Convert a value to the schema's type; `None` if that is impossible. A number becomes text, because models write
    ids as numbers."""
    if schema is LIST:
        fits = isinstance(value, list) and value and all(isinstance(item, str) for item in value)
        return value if fits else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value)) if value == value // 1 else str(value)
    return value if isinstance(value, str) else None
