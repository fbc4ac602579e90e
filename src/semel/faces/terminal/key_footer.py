"""The last line of the screen: the keys that work now. A click on one presses it."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

KEY_RANKS = {
    "enter": 6, "escape": 0, "tab": 1, "ctrl+end": 5, "ctrl+t": 3, "ctrl+k": 2, "ctrl+o": 7, "ctrl+d": 4,
}  # fmt: skip
"""The keys in the order in which they are shown; on a narrow screen, those of the highest rank are left out first."""


class KeyFooter(Footer):
    """Shows as many of the live keys as fit, each of them whole."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)

    def compose(self) -> ComposeResult:
        keys = {key.key: key for key in super().compose() if isinstance(key, FooterKey)}
        shown = [name for name in KEY_RANKS if name in keys]
        while shown and sum(_count_cells(keys[name]) for name in shown) > self.app.size.width:
            shown.remove(max(shown, key=KEY_RANKS.__getitem__))
        yield from (keys[name] for name in shown)

    def on_resize(self) -> None:
        self.call_after_refresh(self.recompose)


def _count_cells(key: FooterKey) -> int:
    return cell_len(f"{key.key_display} {key.description} ")
