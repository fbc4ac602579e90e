"""What an agent offers in a session, as ACP's modes, configuration options and commands; and the session's title."""

from __future__ import annotations

from typing import Any

from semel.faces.acp.updates.row_writer import RowWriter
from semel.law.commands import COMMANDS
from semel.text.json_types import Json, object_at, objects_in

MODE_OPTION = "mode"
"""The id of the option that stands for the session's modes, if the agent has no such option itself."""


class SessionOffers:
    """What the editor was told of one session's offers. `session`: the session, as the API returns it."""

    def __init__(self, session: Json) -> None:
        self._offers: dict[str, Any] = {}
        self._note(session)

    def _note(self, session: Json) -> None:
        self._offers = {
            "modes": read_modes(session), "options": read_options(session), "commands": read_commands(session),
            "title": session.get("title"),
        }  # fmt: skip

    def describe(self, session: Json) -> Json:
        """Return the fields `modes` and `configOptions` of the answer that opens a session, and note them as told."""
        self._note(session)
        modes, options = self._offers["modes"], self._offers["options"]
        return {**({"modes": modes} if modes else {}), **({"configOptions": options} if options else {})}

    def write_changes(self, writer: RowWriter, session: Json, is_first: bool = False) -> list[bytes]:
        """Return the lines for what has changed. `is_first`: commands and title were not told yet."""
        before = self._offers
        self._note(session)
        offers, lines = self._offers, list[bytes]()
        if offers["modes"] and offers["modes"]["currentModeId"] != (before["modes"] or {}).get("currentModeId"):
            lines.append(writer.format_update("current_mode_update", currentModeId=offers["modes"]["currentModeId"]))
        if offers["options"] and offers["options"] != before["options"]:
            lines.append(writer.format_update("config_option_update", configOptions=offers["options"]))
        if is_first or offers["commands"] != before["commands"]:
            lines.append(writer.format_update("available_commands_update", availableCommands=offers["commands"]))
        if offers["title"] and (is_first or offers["title"] != before["title"]):
            lines.append(writer.format_update("session_info_update", title=offers["title"]))
        return lines


def read_modes(session: Json) -> Json | None:
    """Return the session's ACP SessionModeState, with the mode that was set last as the current one."""
    modes = object_at(session, "modes")
    current = session.get("mode") or modes.get("currentModeId")
    choices = [
        {**mode, "name": str(mode.get("name") or mode["id"])}
        for mode in objects_in(modes.get("availableModes"))
        if mode.get("id")
    ]
    return {"currentModeId": current, "availableModes": choices} if choices and current else None


def read_options(session: Json) -> list[Json]:
    """Return the session's ACP configuration options. If there are any, the mode is always one of them.

    Some editors show no `modes` if there are options.
    """
    options = objects_in(session.get("options"))
    modes = read_modes(session)
    if not options or modes is None or any(option.get("category") == "mode" for option in options):
        return options
    values = [
        {"value": mode["id"], **{key: mode[key] for key in ("name", "description") if mode.get(key)}}
        for mode in modes["availableModes"]
    ]
    mode = {"id": MODE_OPTION, "name": "Mode", "category": "mode", "type": "select"}
    return [{**mode, "currentValue": modes["currentModeId"], "options": values}, *options]


def stands_for_modes(session: Json, option: str) -> bool:
    """Whether the option with this id is the one that `read_options` has added."""
    return option == MODE_OPTION and all(offered.get("id") != option for offered in objects_in(session.get("options")))


def read_commands(session: Json) -> list[Json]:
    """Return the commands as ACP's AvailableCommand: Semel's, then the agent's.

    An agent's command with the name of one of Semel's is reached with one more slash (docs/commands.md).
    """
    own = [{"name": command.name, "description": f"Semel: {command.description}"} for command in COMMANDS.values()]
    agents = [
        {**command, "name": f"/{command['name']}" if command["name"] in COMMANDS else command["name"]}
        for command in objects_in(session.get("commands"))
        if command.get("name") and isinstance(command.get("description"), str)
    ]
    return [*own, *agents]


def describe_left_out_servers(row: Json) -> str | None:
    """Return which MCP servers of the editor the agent does not take; None if it takes all.

    `row`: the session, as the gateway returned it when the agent had started.
    """
    if not (names := row.get("left_out_servers")):
        return None
    return f"The agent {row['agent']} does not take these MCP servers of your editor: {', '.join(names)}."
