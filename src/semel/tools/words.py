"""Turn the gateway's outcome into text for the model, in three branches: done, refused, outcome unknown."""

from __future__ import annotations

from semel.tools.catalogue import Greeting
from semel.tools.rpc_client import GatewayRefused, NoGatewayAnswer, Outcome


def settled(outcome: Outcome) -> bool:
    """Whether the outcome is known. It is unknown without an answer, and after an internal error, which may have
    occurred after the commit."""
    return not isinstance(outcome, NoGatewayAnswer) and not (
        isinstance(outcome, GatewayRefused) and outcome.code == "internal"
    )


def render_outcome(outcome: Outcome, patience: float) -> tuple[str, bool]:
    """The text of a tool's result, and whether it went well."""
    if isinstance(outcome, NoGatewayAnswer):
        return _lost(outcome, patience), False
    if isinstance(outcome, GatewayRefused):
        return _refused(outcome), False
    return str(outcome.get("text", "")) or "done", outcome.get("ok") is True


def _refused(error: GatewayRefused) -> str:
    if not settled(error):
        return f"Outcome unknown: the gateway failed while it handled this call. {DO_NOT_REPEAT}"
    return f"refused: {error}"


def _lost(lost: NoGatewayAnswer, patience: float) -> str:
    """Say that the call was certainly not sent, or that its outcome is unknown; never a guess (Law 7)."""
    if lost.handed:
        return f"Outcome unknown: the gateway took this call and {lost}, for {patience:.0f} s. {DO_NOT_REPEAT}"
    return f"Nothing was sent: {lost}, tried for {patience:.0f} s. You may try again later. {DO_NOT_REPEAT}"


DO_NOT_REPEAT = (
    "Do not call again for the same thing now; if it was a message, end your turn with the same text, word "
    "for word, as your closing text: it is delivered then, and only if it was not delivered already."
)


def render_too_long(error: GatewayRefused) -> str:
    return f"Nothing was sent: this call is too large ({error}). Send a shorter text, or a file with send_file."


def parse_greeting(outcome: Outcome) -> Greeting:
    """Parse the gateway's answer to `hello`; without an answer, general defaults."""
    if not isinstance(outcome, dict):
        return Greeting()
    names = outcome.get("names")
    return Greeting(
        home=outcome.get("home") is not False,
        names=tuple(str(name) for name in names) if isinstance(names, list) else (),
        instructions=str(outcome.get("instructions") or ""),
    )
