"""The ports: the interfaces that agent drivers, channel adapters and the runner of background jobs implement.

Before the gateway calls a port to send a part, or to start an agent or a job, the ledger has its row.
"""

from semel.gateway.ports.agent import (
    RECORD,
    Agent,
    AgentError,
    Answered,
    Asked,
    Conversation,
    Died,
    Inside,
    Launch,
    Signal,
    Update,
)  # fmt: skip
from semel.gateway.ports.channel import (
    CLOCK_MARGIN_S,
    MAX_ANSWER_BYTES,
    MAX_BUTTONS,
    REPEAT_PREFIX,
    Answers,
    Button,
    Caps,
    Channel,
    Denied,
    Heard,
    Inbox,
    Incoming,
    Kept,
    Missing,
    NotSent,
    Offline,
    Op,
    Person,
    Receipt,
    Rejected,
    Safety,
    TooLarge,
    Unknown,
    press_key,
)  # fmt: skip
from semel.gateway.ports.jobs import BY_AGENT, Background, CannotBegin, Job, Orphan
from semel.ledger.turns.history import Deed, Past, Spoken, Stretch
from semel.ledger.turns.summary import Summary
from semel.text.json_types import Json

__all__ = [
    "BY_AGENT", "CLOCK_MARGIN_S", "MAX_ANSWER_BYTES", "MAX_BUTTONS", "RECORD", "REPEAT_PREFIX", "Agent",
    "AgentError", "Answered", "Answers", "Asked", "Background", "Button", "CannotBegin", "Caps", "Channel",
    "Conversation", "Deed", "Denied", "Died", "Heard", "Inbox", "Incoming", "Inside", "Job", "Json", "Kept",
    "Launch", "Missing", "NotSent", "Offline", "Op", "Orphan", "Past", "Person", "Receipt", "Rejected", "Safety",
    "Signal", "Spoken", "Stretch", "Summary", "TooLarge", "Unknown", "Update", "press_key",
]  # fmt: skip
