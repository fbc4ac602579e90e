"""What the lines around a conversation say: whose session it is, what the agent does, and how the connection is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from semel.faces.busy_texts import describe_silence, format_time_left
from semel.faces.terminal.link import State
from semel.faces.view import SessionView
from semel.text.json_types import Json
from semel.text.visible import visible

MIN_TITLE_CELLS = 12
"""To how many cells a title is cut before facts about the agent are left out."""
GAP = "  "
CHOICE_IDS = ("id", "modelId", "value")
CONNECTIONS: dict[State, tuple[str, str]] = {
    "connecting": ("○ connecting", "dim"),
    "connected": ("● live", "green"),
    "new": ("● live", "green"),
    "away": ("○ away", "bold red"),
}


def format_session_line(key: str, session: Json, usage: Json, state: State, width: int) -> Text:
    """Format the title of a session, and facts about its agent: its name, model, mode, context, cost, connection.

    `session`, `usage`: the state and the last usage item of the view. `width`: in cells. If it is too small, the title
    is cut, then facts are left out, the least urgent first.
    """
    title = visible(" ".join(str(session.get("title") or key).split()))
    facts = _list_facts(session, usage)
    connection = Text(*CONNECTIONS[state])
    room = width - connection.cell_len - 2 * len(GAP) - 2
    needed = min(cell_len(title), MIN_TITLE_CELLS)
    while facts and needed + sum(cell_len(fact) + len(GAP) for _, fact in facts) > room:
        facts.remove(max(facts))
    shown_facts = GAP.join(fact for _, fact in facts)
    title = _cut_to_cells(title, max(room - cell_len(shown_facts) - (len(GAP) if facts else 0), 1))
    line = Text(f" {title}{GAP}", "bold").append(shown_facts, "not bold dim")
    line.pad_right(max(width - line.cell_len - connection.cell_len - 1, 1))
    return line.append_text(connection)


def _cut_to_cells(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else f"{set_cell_size(text, max(cells - 1, 0))}…"


def _list_facts(session: Json, usage: Json) -> list[tuple[int, str]]:
    """List what is known of the agent, as it is shown, each with its rank: the highest is left out first."""
    modes, models = session.get("modes") or {}, session.get("models") or {}
    mode = session.get("mode") or modes.get("currentModeId")
    model = models.get("currentModelId") or models.get("currentValue")
    facts = (
        (0, session.get("agent")),
        (4, _name_choice(model, models.get("availableModels") or models.get("options") or ())),
        (5, _name_choice(mode, modes.get("availableModes") or ())),
        (1, "asks nobody" if mode in (session.get("unattended_modes") or ()) else ""),
        (2, format_context(usage)),
        (3, format_cost(usage.get("cost"))),
    )
    return [(rank, visible(str(fact))) for rank, fact in facts if fact]


def _name_choice(id: object, choices: Sequence[Json]) -> str:
    """Return the name of the chosen mode or model; its id if it has no name, "" if none is known.

    `choices`: ACP's `SessionMode`, `ModelInfo` or `SessionConfigSelectOption`.
    """
    names = [choice.get("name") for choice in choices if id in (choice.get(field) for field in CHOICE_IDS)]
    return str(next(iter(names), None) or id or "")


def format_context(usage: Json) -> str:
    """Format how full the context of a model is: "48.2K (24 %)"; "" if the agent did not tell."""
    used, size = usage.get("used"), usage.get("size")
    if not isinstance(used, int) or not used:
        return ""
    return format_count(used) + (f" ({100 * used / size:.0f} %)" if isinstance(size, int) and size else "")


def format_count(count: int) -> str:
    """Format a number of tokens: "950", "48.2K", "1.2M"."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}K" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def format_cost(cost: object) -> str:
    """Format a cost (ACP's `Cost`): "$0.43", "0.43 EUR"; "" if it is none."""
    if not isinstance(cost, dict) or not isinstance(amount := cost.get("amount"), int | float):
        return ""
    currency = str(cost.get("currency") or "USD")
    return f"${amount:.2f}" if currency == "USD" else f"{amount:.2f} {currency}"


def format_activity(view: SessionView, state: State, quiet_s: float) -> Text:
    """Say what the agent does, or why nothing comes. `quiet_s`: seconds since the view changed last."""
    if state == "away":
        return Text("the gateway is away; trying again … (start it with: semel up)", "bold red")
    if state == "new":
        return Text("a new session: say something", "dim")
    session = view.session
    waiting = session.get("waiting") or 0
    if session.get("state") != "running":
        return Text(f"◌ {waiting} waiting", "cyan") if waiting else Text()
    doing = Text("◐ working", "cyan")
    if "retry_at" in session:
        doing = Text(f"◌ the turn failed, tried again {format_time_left(session['retry_at'])}", "yellow")
    elif silence := describe_quiet_turn(view, quiet_s):
        doing.append(f": {silence}", "yellow")
    return doing.append(f"  {waiting} waiting", "dim") if waiting else doing


def describe_quiet_turn(view: SessionView, quiet_s: float) -> str:
    """Say for how long the running turn has shown nothing new; "" if not for long, or if it waits for a person."""
    silence = describe_silence(quiet_s)
    return "" if silence and view.open_questions() else silence
