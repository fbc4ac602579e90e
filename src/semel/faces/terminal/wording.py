"""Plain words for what Semel's own tools are called in the record, and its notices with commands as code.

As on the page (web/src/rows/wording.ts). Only what is shown changes.
"""

from __future__ import annotations

import re

from rich.text import Text

from semel.acp_stream.own_tools import list_whole_names
from semel.text.json_types import Json

CODE_STYLE = "bold"
STOPPED_HERE = ("Stopped by the owner.", "Stopped by owner.")  # the second: as older versions wrote it
STOPPED_BY_OWNER = "You stopped it."
_OWN_TOOLS = {  # what a call has done, and what it is to do
    "send_message": ("Sent a message", "Send a message"),
    "send_file": ("Sent a file", "Send a file"),
    "add_reaction": ("Reacted to a message", "React to a message"),
    "edit_message": ("Edited a message", "Edit a message"),
    "ask": ("Asked you", "Ask you"),
    "schedule": ("Made a schedule", "Make a schedule"),
    "list_schedules": ("Listed the schedules", "List the schedules"),
    "cancel_schedule": ("Cancelled a schedule", "Cancel a schedule"),
    "run_in_background": ("Started a command in the background", "Start a command in the background"),
    "list_background": ("Listed the background commands", "List the background commands"),
    "cancel_background": ("Ended a background command", "End a background command"),
}
_OWN_NAMES = list_whole_names(_OWN_TOOLS)
_CODE = re.compile(r"`([^`\n]+)`")


def describe_own_tool(item: Json) -> str | None:
    """Say in words what a call of one of Semel's own tools does; None if it is another tool.

    A command may have any title, so a call that runs one is never one of them.
    """
    name = item.get("title") or item.get("name") or ""
    if item.get("tool_kind") == "execute" or name not in _OWN_NAMES:
        return None
    done, doing = _OWN_TOOLS[_OWN_NAMES[name]]
    has_succeeded = item.get("status") == "done" and not str(item.get("text") or "").startswith("refused: ")
    return done if has_succeeded else doing


def name_person(name: str) -> str:
    """Name the person who did something: the owner, who sits at this terminal, is "you"."""
    return "you" if name in ("the owner", "owner") else name


def format_code(text: str) -> Text:
    """Return a text of Semel's; what stands between backticks in it is shown as code, without them."""
    line = Text()
    for number, piece in enumerate(_CODE.split(text)):
        line.append(piece, CODE_STYLE if number % 2 else None)
    return line
