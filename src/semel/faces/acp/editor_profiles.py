"""Editor profiles: what each editor does with updates, as data instead of code paths.

An editor is recognised by `clientInfo.name` in ACP's `initialize`, in any letter case. What it advertises there is read
from its capabilities. One that was never measured gets UNMEASURED. docs/editors.md says how the values were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.text.json_types import object_at, text_at


@dataclass(frozen=True)
class EditorProfile:
    """How one editor shows the updates that it gets. The defaults suit an editor that was never measured."""

    name: str = "unmeasured"

    out_of_turn: Literal["direct", "push", "until_prompt"] = "until_prompt"
    """What the editor does with an agent's text, thoughts and tool calls outside of a turn. `direct`: it shows them.
    `push`: it shows them, and draws them as a turn of the agent's own if that is announced with `session/push`.
    `until_prompt`: it drops them, or may drop them, so they wait for its next prompt."""

    joins_messages: bool = False
    """Whether it ignores `messageId` and joins messages that follow each other: they then need an empty line."""

    drops_user_text: bool = False
    """Whether it drops `user_message_chunk`, or reports it as a fault, unless a session is being loaded."""

    loads_only_messages: bool = False
    """Whether it shows no thoughts and tool calls of a session that is being loaded, and so joins messages there that
    have some between them."""

    takes_terminal_deltas: bool = False
    """Whether it shows `_meta.terminal_output` as a terminal. Other editors need a tool's output as content."""

    ignores_first_output: bool = False
    """Whether it shows the content that a `tool_call_update` brings, and not that of a `tool_call`."""

    takes_notices: bool = False
    """Whether it shows the update `notice`."""

    dialog_closes: Literal["on_cancel", "with_its_call", "never", "no_dialog", "unknown"] = "unknown"
    """When the dialog of a permission request closes. `on_cancel`: on `$/cancel_request`. `with_its_call`: when the
    tool call that it belongs to has ended. Unless it is `on_cancel`, a dialog gets a tool call of its own
    (`permission_dialogs` says why)."""


UNMEASURED = EditorProfile()

EDITOR_PROFILES: dict[str, EditorProfile] = {
    profile.name: profile
    for profile in (
        EditorProfile(  # 0.74.3
            name="agent-shell",
            out_of_turn="push",
            joins_messages=True,
            drops_user_text=True,
            ignores_first_output=True,
            dialog_closes="with_its_call",
        ),
        EditorProfile(  # 19.22.0
            name="CodeCompanion.nvim",
            joins_messages=True,
            drops_user_text=True,
            loads_only_messages=True,
            dialog_closes="never",
        ),
        EditorProfile(name="acpx", joins_messages=True, dialog_closes="no_dialog"),  # 0.19.1
        EditorProfile(name="toad", out_of_turn="direct", joins_messages=True, dialog_closes="never"),  # 0.6.20
        EditorProfile(name="zed", out_of_turn="direct", dialog_closes="on_cancel"),  # from its source of November 2026
        EditorProfile(name="semel.nvim", out_of_turn="direct", dialog_closes="on_cancel"),  # semel.lua
    )
}
"""Measured editors by `clientInfo.name`, with the version that was measured. docs/editors.md has them as a table."""

_BY_NAME = {name.casefold(): profile for name, profile in EDITOR_PROFILES.items()}


def read_editor_profile(initialize: Mapping[str, Any]) -> EditorProfile:
    """Return the profile of an editor, given the params of its `initialize`."""
    capabilities = object_at(initialize, "clientCapabilities")
    return replace(
        _BY_NAME.get((text_at(initialize, "clientInfo", "name") or "").casefold(), UNMEASURED),
        takes_terminal_deltas=object_at(capabilities, "_meta").get("terminal_output") is True,
        takes_notices=isinstance(object_at(capabilities, "session").get("notices"), dict),
    )
