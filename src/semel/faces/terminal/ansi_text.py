"""Tool output with its ANSI colours, of which only a safe part is used: no character is hidden, lost or moved (Law 8).

A sequence that sets colours or weight (SGR, `ESC [ ... m`) becomes a style. Every other control character is shown as a
stand-in (text/visible.py). Of the styles, concealed text, backgrounds and black are left out, because they could make a
text invisible; other colours become the nearest of the terminal's sixteen.
"""

from __future__ import annotations

from rich.ansi import AnsiDecoder
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from semel.acp_stream.display import SGR
from semel.text.visible import visible

BLACK = 0


def style_output(text: str) -> Text:
    """Return a tool's output as it is shown."""
    shown = Text()
    decoder = AnsiDecoder()
    style = Style()
    end = 0
    for match in SGR.finditer(text):
        shown.append(visible(text[end : match.start()]), style)
        decoder.decode_line(match[0])
        style = _keep_safe(decoder.style)
        end = match.end()
    return shown.append(visible(text[end:]), style)


def _keep_safe(style: Style) -> Style:
    """Return the part of a style in which every text can be read."""
    color = style.color and style.color.downgrade(ColorSystem.STANDARD)
    if color is not None and (color.is_default or color.number == BLACK):
        color = None
    return Style(
        color=color, bold=style.bold, dim=style.dim, italic=style.italic, underline=style.underline,
        strike=style.strike,
    )  # fmt: skip
