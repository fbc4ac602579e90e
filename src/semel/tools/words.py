"""What the gateway answered, in the words the model reads. Three branches: done, refused, outcome unknown."""

from __future__ import annotations

from semel.tools.catalogue import Greeting
from semel.tools.rpc_client import Lost, Outcome, Refused


def settled(outcome: Outcome) -> bool:
    """Whether the agent was told what happened. An internal failure may come after the commit: it is not a
    no."""
    return not isinstance(outcome, Lost) and not (isinstance(outcome, Refused) and outcome.code == "internal")


def for_agent(outcome: Outcome, patience: float) -> tuple[str, bool]:
    """The text of a tool's result, and whether it went well."""
    if isinstance(outcome, Lost):
        return _lost(outcome, patience), False
    if isinstance(outcome, Refused):
        return _refused(outcome), False
    return str(outcome.get("text", "")) or "done", outcome.get("ok") is True


def _refused(error: Refused) -> str:
    if not settled(error):
        return f"Outcome unknown: the gateway failed while it handled this call. {CLOSING}"
    return f"refused: {error}"


def _lost(lost: Lost, patience: float) -> str:
    """Law 7: provably not handed over, or unknown; never a guess."""
    if lost.handed:
        return f"Outcome unknown: the gateway took this call and {lost}, for {patience:.0f} s. {CLOSING}"
    return f"Nothing was sent: {lost}, tried for {patience:.0f} s. You may try again later. {CLOSING}"


CLOSING = (
    "Do not call again for the same thing now; if it was a message, end your turn with the same text, word "
    "for word, as your closing text: it is delivered then, and only if it was not delivered already."
)


def too_long(error: Refused) -> str:
    return f"Nothing was sent: this call is too large ({error}). Send a shorter text, or a file with send_file."


def greeting(outcome: Outcome) -> Greeting:
    """The gateway's `hello`, or general words where there is none."""
    if not isinstance(outcome, dict):
        return Greeting()
    names = outcome.get("names")
    return Greeting(
        home=outcome.get("home") is not False,
        names=tuple(str(name) for name in names) if isinstance(names, list) else (),
        instructions=str(outcome.get("instructions") or ""),
    )
