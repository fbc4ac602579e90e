"""Preview a turn's streaming text in a chat: choose the placeholder message that shows it (Law 6).

The placeholder is a part, which the ledger adds with the first batch of text (`turn_ops.Reserve`). While the turn runs,
a later text may get another placeholder. `semel.gateway.outbound.previews` edits the message.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.gateway.outbound.destinations import Destinations
from semel.gateway.outbound.previews import Previews
from semel.gateway.turns.block_claims import BlockClaims
from semel.ledger.turns import turn_ops


class HomePreview:
    """The preview of a turn at its session's home. It does nothing if texts are not previewed there.

    Nor does it if another gateway runs the channels.

    `session`: the session's key. `kick`: wakes the outbox.
    """

    def __init__(
        self, home: str | None, session: str, places: Destinations, previews: Previews, kick: Callable[[], None]
    ) -> None:
        self._home = home if home is not None and places.streams(home) and previews.runs() else None
        self._session = session
        self._places = places
        self._previews = previews
        self._kick = kick
        self._part: int | None = None  # the part of the placeholder that shows the text now
        self._text: Callable[[], str] | None = None  # returns the text of the batch that is recorded next

    def __repr__(self) -> str:
        return f"<HomePreview of {self._session} in part {self._part}>"

    def reserve(self, speech: BlockClaims) -> list[turn_ops.Op]:
        """Return the operation that reserves a placeholder for the text that streams now; [] if none is needed.

        `show`, once this operation and the text are recorded, shows the text.
        """
        self._text = speech.previewed_text()
        if self._home is None or not speech.is_streaming:
            return []
        return [turn_ops.Reserve(self._places.placeholder_leg(self._home, self._session), self._text)]

    def withhold_for(self, ops: list[turn_ops.Op]) -> list[turn_ops.Op]:
        """Return `ops`, which are to be recorded next. If they take back text, show nothing until `show` (Law 6)."""
        if self._part is not None and any(isinstance(op, turn_ops.Replace) for op in ops):
            self._previews.withhold(self._part)
        return ops

    def show(self, part: int | None) -> None:
        """Show the text, which is recorded now, in the placeholder `part`; None if there is no placeholder."""
        if self._home is None:
            return
        if part != self._part:
            self.end()
            self._part = part
            if part is not None:
                self._kick()
        if part is not None and self._text is not None:
            self._previews.show(self._home, part, self._text)

    def end(self) -> None:
        """Stop editing the placeholder."""
        if self._part is not None:
            self._previews.end(self._part)
