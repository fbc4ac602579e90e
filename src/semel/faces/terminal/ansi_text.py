"""Tool output with its ANSI colours, of which only a safe part is used: no character is hidden, lost or moved (Law 8).

A sequence that sets colours or weight (SGR, `ESC [ ... m`) becomes a style. Every other control character is shown as a
stand-in (text/visible.py). Of the styles, concealed text, backgrounds and black are left out, because they could make a
text invisible; other colours become the nearest of the terminal's sixteen.
"""

from __future__ import annotations

import re

from rich.ansi import AnsiDecoder
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from semel.acp_stream import render_terminal
from semel.text.visible import visible

BLACK = 0
_CONTROL = re.compile(r"[\r\x08\x1b]")  # what `render_terminal` obeys
_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def style_output(text: str) -> Text:
    """Return a tool's output as it is shown."""
    shown = Text()
    decoder = AnsiDecoder()
    style = Style()
    end = 0
    for match in _SGR.finditer(text):
        shown.append(visible(text[end : match.start()]), style)
        decoder.decode_line(match[0])
        style = _keep_safe(decoder.style)
        end = match.end()
    return shown.append(visible(text[end:]), style)


def render_coloured(raw: str) -> str:
    """Return a stored output as a terminal would show it, with its colours, for `style_output`.

    A line that was overwritten has the colour which was set last in it.
    """
    return "\n".join(map(_render_line, raw.split("\n")))


def _render_line(line: str) -> str:
    line = line.removesuffix("\r")
    if not _CONTROL.search(_SGR.sub("", line)):
        return line
    return "".join(_SGR.findall(line)) + render_terminal(line)


def _keep_safe(style: Style) -> Style:
    """Return the part of a style in which every text can be read."""
    color = style.color and style.color.downgrade(ColorSystem.STANDARD)
    if color is not None and (color.is_default or color.number == BLACK):
        color = None
    return Style(
        color=color, bold=style.bold, dim=style.dim, italic=style.italic, underline=style.underline,
        strike=style.strike,
    )  # fmt: skip
