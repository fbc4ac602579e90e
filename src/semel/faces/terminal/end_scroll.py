"""A scrolled area that follows new text while its reader is at its end.

Textual ends the following at every attempt to scroll, and resumes it only if that moved something: where all of the
text is in sight, or at its end already, nothing moves.
"""

from __future__ import annotations

from textual.containers import VerticalScroll


class EndScroll(VerticalScroll, can_focus=False):
    """Stays at its end until the reader leaves that, and again once the reader is back."""

    _has_released = False

    @property
    def is_at_bottom(self) -> bool:
        # a log shorter than the screen sits at its bottom: the maximum offset is not positive
        return self.max_scroll_y <= 0 or self.scroll_offset.y >= self.max_scroll_y - 1

    def release_anchor(self) -> None:
        """Let the reader leave the end."""
        super().release_anchor()
        self._has_released = True
        self.call_after_refresh(self._follow_at_end)

    def on_resize(self) -> None:
        self._follow_at_end()

    def _follow_at_end(self) -> None:
        """Follow new text again if the reader is at the end, and not on the way from there."""
        is_at_end = self.max_scroll_y <= 0 or min(self.scroll_y, self.scroll_target_y) >= self.max_scroll_y
        if self._has_released and is_at_end:
            self._has_released = False
            self.anchor()
