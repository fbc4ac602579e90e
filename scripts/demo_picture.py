"""Draw what `semel demo` prints as docs/demo.svg, the picture at the beginning of README.md: `make samples`."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "demo.svg"
COMMAND = "semel demo"
WIDTH = 106  # columns: the longest line has 103
REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.S)  # a picture loads nothing; each reader has a monospace font
DRAWN_TEXT = re.compile(r'<text class="demo-r\d+"[^>]* y="([\d.]+)"[^>]*>(.*?)</text>')


def run_demo() -> str:
    """Return what the command prints on a terminal, with colours. Raises CalledProcessError if a case does not hold."""
    env = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run([sys.executable, "-m", *COMMAND.split()], env=env, stdout=subprocess.PIPE, text=True)
    done.check_returncode()
    return done.stdout


def draw_picture(output: str) -> str:
    """Return the SVG of a terminal with the command and its output. `output`: may have ANSI colours."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {COMMAND}", "bold"))
    console.print(Text.from_ansi(output), end="")
    return REMOTE_FONT.sub("", console.export_svg(title=COMMAND, unique_id="demo"))


def read_picture(svg: str) -> list[str]:
    """Return the lines of text in a picture, without blank ones and without trailing blanks."""
    lines: dict[str, str] = {}
    for height, piece in DRAWN_TEXT.findall(svg):
        lines[height] = lines.get(height, "") + html.unescape(piece).replace("\N{NO-BREAK SPACE}", " ")
    return [line.rstrip() for line in lines.values() if line.strip()]


if __name__ == "__main__":
    picture = draw_picture(run_demo())
    if not PICTURE.exists() or read_picture(picture) != read_picture(PICTURE.read_text(encoding="utf-8")):
        PICTURE.write_text(picture, encoding="utf-8")
