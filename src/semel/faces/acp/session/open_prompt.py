"""A prompt that an editor has sent, from its request to the end of the turn that answers it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from semel.faces.acp.connection.gateway_link import RESTART_AFTER_S
from semel.text.json_types import Json
from semel.tools.address import find_start_command

Answer = Callable[[Json | None, Json | None], None]

IF_IT_STAYS_AWAY = " If the gateway stays away, start it with `{start}`."
STARTED_HERE = f" If the gateway stays away, one is started {RESTART_AFTER_S:g} seconds after it was last there."
STARTED_HERE_IF_KILLED = (
    " If the gateway stays away, start it with `{start}`; if it was killed, one is started "
    f"{RESTART_AFTER_S:g} seconds after that."
)
DISCARDED_REMARK = (
    "You cancelled your message before it was sent. Nothing of it is recorded, and no agent gets it. To have it "
    "answered, send it again."
)
AWAY_REMARK = (
    "The gateway is away. Your message is recorded, so do not send it again: it is answered when the gateway is back."
)
UNRECORDED_REMARK = (
    "The gateway is away. Your message is not recorded yet: keep this session open in the editor, and it is sent once, "
    "as soon as the gateway is back."
)
CANCEL_REMARK = (
    "The gateway is away, and may have your message. Your cancel reaches it as soon as it is back, and then your "
    "prompt ends."
)


def describe_failed_start(reason: str, data_dir: Path) -> str:
    """Return what becomes of a message for which a gateway was to be started. `reason`: why it did not start."""
    start = find_start_command(data_dir)
    return f"{reason[0].upper()}{reason[1:].rstrip('.')}. Your message waits: start the gateway with `{start}`."


class OpenPrompt:
    """A prompt that the editor waits for. `key`: its idempotency key. `seen`: the rev up to which the editor had shown
    the session when the prompt came; None if it had shown nothing.

    `answer`: called once, with its result or its error. `note_recorded`: called when the gateway is known to have its
    message; perhaps twice.

    While `is_sent` is false, no gateway can have the message, because no request with its key was ever written to a
    connection. Only then may a cancel answer the prompt at once: no turn runs for it, and none will (Law 12).
    """

    def __init__(self, key: str, answer: Answer, note_recorded: Callable[[], None], seen: int | None = None) -> None:
        self.key = key
        self.seen = seen
        self.is_sent = False
        self.is_recorded = False
        self.is_cancelled = False
        self.is_answered = False
        self.seq: int | None = None  # its entry, once that is seen
        self._answer = answer
        self._note_recorded = note_recorded

    def answer(self, result: Json | None, error: Json | None) -> None:
        """Answer the editor, unless that was done before."""
        if not self.is_answered:
            self.is_answered = True
            self._answer(result, error)

    def set_recorded(self) -> None:
        """Note that the gateway has the message."""
        self.is_sent = self.is_recorded = True
        self._note_recorded()


def describe_outage(prompts: Collection[OpenPrompt], may_start: bool, data_dir: Path) -> tuple[str, str]:
    """Return what becomes of open prompts while the gateway is away: a name for it, and words for people.

    `may_start`: whether a gateway is started for them (`GatewayLink`).
    """
    if_killed = STARTED_HERE_IF_KILLED if may_start else IF_IT_STAYS_AWAY
    if any(prompt.is_cancelled for prompt in prompts):
        name, text = "cancel", CANCEL_REMARK + if_killed
    elif all(prompt.is_recorded for prompt in prompts):
        name, text = "away", AWAY_REMARK + if_killed
    else:
        name, text = "unrecorded", UNRECORDED_REMARK + (STARTED_HERE if may_start else IF_IT_STAYS_AWAY)
    return name, text.format(start=find_start_command(data_dir))
