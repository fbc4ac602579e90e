"""Fold an agent's ACP stream into the view that a person sees: exactly the text that the agent wrote, once (Law 8).

To *fold* an update is to apply it to the view. `Fold` takes ACP updates one by one and returns how the view changed
(`Began`, `Grew`, `Changed`, `Ended`); `Fold.items` yields the view. A `Profile` describes how an agent's stream differs
from others. Reading order: ops, profiles, redelivery, block, messages, output_fields, tool_output, tool_calls, history,
folding, wire, view.
"""

from semel.acp_stream.display import render_terminal
from semel.acp_stream.folding import Fold
from semel.acp_stream.notices import read_failure_text
from semel.acp_stream.ops import WHOLE, Began, Changed, Ended, Grew, Limits, Op, ViewItem
from semel.acp_stream.profiles import CAREFUL, PROFILES, Profile, profile_for
from semel.acp_stream.view import View, fold
from semel.acp_stream.wire import ConnectionFolder

__all__ = [
    "CAREFUL",
    "PROFILES",
    "WHOLE",
    "Began",
    "Changed",
    "ConnectionFolder",
    "Ended",
    "Fold",
    "Grew",
    "Limits",
    "Op",
    "Profile",
    "View",
    "ViewItem",
    "fold",
    "profile_for",
    "read_failure_text",
    "render_terminal",
]
