"""One stream, folded: what a person sees is exactly what the agent wrote.

`Fold` takes an agent's ACP updates as they come and says what changed (`Began`, `Grew`, `Changed`, `Ended`);
`items()` is the view. What differs from agent to agent is data: `Profile`. Reading order: ops, profiles,
evidence, talk, dialect, output, calls, history, folding, wire, view.
"""

from .display import display
from .folding import Fold
from .notices import failure
from .ops import WHOLE, Began, Changed, Ended, Grew, Item, Limits, Op
from .profiles import CAREFUL, PROFILES, Profile, profile_for
from .view import View, fold
from .wire import Wire

__all__ = [
    "CAREFUL",
    "PROFILES",
    "WHOLE",
    "Began",
    "Changed",
    "Ended",
    "Fold",
    "Grew",
    "Item",
    "Limits",
    "Op",
    "Profile",
    "View",
    "Wire",
    "display",
    "failure",
    "fold",
    "profile_for",
]
