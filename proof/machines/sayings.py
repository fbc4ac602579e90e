"""What an agent says in particular stories of the machine: a message it changes, and what became of its last one."""

from __future__ import annotations

from proof.machines.house import HOMES, Process
from proof.machines.model import Model
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.turns import tool_calls
from semel.text.verbatim import verbatim_form


def edit(model: Model, process: Process, call: str, target: int, text: str) -> None:
    """An agent changes a message that it sent to its home, as often as its parts can be changed one by one."""
    home = HOMES[process.session]
    parts = [part.id for part in model.ledger.parts() if part.claim == target]
    legs = model.house.places.cut_edit(home, process.session, text, parts) if home else ()
    if legs is not None:
        what = ClaimRequest(
            "tool", text, home or f"session:{process.session}", "edit", True, legs, {"kind": "edit"}, edits=target
        )
        model.house.seen(
            model.ledger.call(
                tool_calls.ToolCallRequest(process.token, "c1", f"{call}-{process.spawn}", text.encode()), what
            )
        )
        if (run := model.runs.get(process.session)) is not None and run.process is process:
            run.speech.hold_back([text])


def said(model: Model, text: str) -> bool:
    """Whether the newest claim says this, and not that it was said before."""
    newest = [claim for claim in model.ledger.claims() if claim.outcome != "quiet"][-1]
    assert verbatim_form(newest.text) == verbatim_form(text), f"the newest claim is {newest}, and not {text!r}"
    return newest.outcome == "said"
