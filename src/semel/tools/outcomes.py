"""Turn the gateway's outcome into text for the model, in three branches: done, refused, outcome unknown."""

from __future__ import annotations

from semel.tools.catalogue import Greeting
from semel.tools.gateway_link import GatewayRefused, NoGatewayAnswer, Outcome


def is_outcome_known(outcome: Outcome) -> bool:
    """Whether the outcome is known. It is unknown without an answer, and after a failure of the gateway, which may
    have occurred after the commit."""
    return not isinstance(outcome, NoGatewayAnswer) and not (isinstance(outcome, GatewayRefused) and outcome.failed)


def render_outcome(outcome: Outcome, timeout_s: float) -> tuple[str, bool]:
    """Return (the text of a tool's result, whether the call succeeded).

    The text states what is known and never guesses (Law 7). `timeout_s`: seconds that the call waited for the gateway.
    """
    if isinstance(outcome, NoGatewayAnswer):
        if outcome.sent:
            text = f"Outcome unknown: the gateway took this call and {outcome}, for {timeout_s:.0f} s."
        else:
            text = f"Nothing was sent: {outcome}, tried for {timeout_s:.0f} s. You may try again later."
        return f"{text} {DO_NOT_REPEAT}", False
    if isinstance(outcome, GatewayRefused):
        if outcome.failed:
            return f"Outcome unknown: the gateway failed while it handled this call. {DO_NOT_REPEAT}", False
        return f"refused: {outcome}", False
    return str(outcome.get("text", "")) or "done", outcome.get("ok") is True


DO_NOT_REPEAT = (
    "Do not call again for the same thing now; if it was a message, end your turn with the same text, word "
    "for word, as your closing text: it is delivered then, and only if it was not delivered already."
)


def render_too_long(error: GatewayRefused) -> str:
    return f"Nothing was sent: this call is too large ({error}). Send a shorter text, or a file with send_file."


def parse_greeting(outcome: Outcome) -> Greeting:
    """Parse the gateway's answer to `hello`. Without an answer, returns a greeting that fits any session."""
    if not isinstance(outcome, dict):
        return Greeting()
    names = outcome.get("names")
    return Greeting(
        has_home=outcome.get("home") is not False,
        destinations=tuple(str(name) for name in names) if isinstance(names, list) else (),
        instructions=str(outcome.get("instructions") or ""),
    )
