"""Show a command's output in a terminal of the editor (`_meta.terminal_output`): write only what is new.

Of a long output, a row has the beginning, the number of characters that follow, and the newest part. While it grows,
each state continues the one before, so a terminal that is written to in time shows more than any single row has. What
a program overwrites in its last line, such as a progress bar, is overwritten in the terminal, too; after any other
change, the terminal is cleared and written anew.
"""

from __future__ import annotations

from semel.acp_stream.tool_output import format_gap

REWRITE_LINE = "\r\x1b[K"  # to the beginning of the line, and erase it
CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # to the beginning, erase the screen and what has left it
MAX_LINE_CHARS = 80  # a longer line may take two rows of the terminal, of which only one would be erased


class TerminalText:
    """What a terminal shows of one output."""

    def __init__(self) -> None:
        self._total = 0  # how long the output was that the terminal shows
        self._end = ""  # its end: what a row had of it without a gap before
        self.has_ended = False  # the terminal was told that the command has ended

    def __repr__(self) -> str:
        return f"<TerminalText {self._total} characters>"

    def write(self, head: str, gap: int, tail: str) -> str:
        """Return what to write so that the terminal shows this state of the output; "" if nothing."""
        end, start = (tail, len(head) + gap) if gap else (head + tail, 0)
        marker = format_gap(start - max(self._total, len(head)))
        whole = head + format_gap(gap) + tail if gap else end
        if self._total >= start:
            text = self._continue(end, start, whole)
        elif self._total > len(head) or head.startswith(self._end):
            text = head[self._total :] + marker + tail
        else:
            text = CLEAR + whole
        self._total, self._end = start + len(end), end
        return text

    def _continue(self, end: str, start: int, whole: str) -> str:
        """Return what makes the terminal show `end`, the output from the character `start` on, of which it has some."""
        size = self._total - start
        shown = self._end[len(self._end) - size :] if size <= len(self._end) else None
        if shown is None:
            return CLEAR + whole
        if end.startswith(shown):
            return end[size:]
        line = shown.rfind("\n") + 1
        begins_in_sight = line > 0 or start == 0
        if begins_in_sight and end.startswith(shown[:line]) and len(shown) - line <= MAX_LINE_CHARS:
            return REWRITE_LINE + end[line:]
        return CLEAR + whole
