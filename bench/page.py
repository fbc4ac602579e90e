"""The page's memory while it follows a day of streaming, in short: its heap after a tenth of the day and at the end.

The reference is the same page, loaded anew at the end of the day.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "http"))

from browser import Browser, missing
from live_house import LiveHouse, visit

TURNS = 10_000
"""Each is a message, a tool call with output, and an answer that streams: 20,000 messages and as many rows again."""
PIECES = 4
BATCH = 50  # turns that are written before the page is asked whether it has followed
GAUGES = ("JSHeapUsedSize", "Nodes", "JSEventListeners")


def _heap(page: Browser) -> dict[str, float]:
    """What the page holds after its garbage was collected."""
    for _ in range(3):
        page.settle()
        page.command("HeapProfiler.collectGarbage")
    metrics = page.metrics()
    return {name: metrics[name] for name in GAUGES}


async def _turn(script: Any, turn: int) -> None:
    await script.entry("user", f"message {turn}: please count")
    tool = await script.item("tool", title=f"count {turn}", status="running", live=True)
    for line in range(PIECES):
        await script.output(tool, f"line {turn}.{line} of the output\n" * 5)
    await script.set_item(tool, live=False, status="done")
    pieces = [f"Answer {turn} has **words**, `code` and piece {piece}.\n\n" for piece in range(PIECES)]
    pieces.append(f"```python\ndef count_{turn}(rows: list[int]) -> int:\n    return len(rows)  # {turn}\n```")
    seq = await script.entry("agent", "", live=True)
    for piece in pieces:
        await script.append(seq, piece)
    await script.finish(seq, "".join(pieces))


async def _turns(script: Any, first: int, end: int) -> None:
    for turn in range(first, end):
        await _turn(script, turn)


def _follow(page: Browser, live: LiveHouse, script: Any, first: int, end: int) -> int:
    """Returns how often the page no longer followed, though nobody scrolled; then it is led back to the end."""
    strayed = 0
    for begin in range(first, end, BATCH):
        last = min(end, begin + BATCH)
        live.do(lambda begin=begin, last=last: _turns(script, begin, last))
        page.settle()
        if page.texts("#down"):
            strayed += 1
            page.click("#down")
        page.until(lambda last=last: f"message {last - 1}:" in str(page.text("#rows")), "the page follows", 120)
    return strayed


def _line(what: str, gauges: dict[str, float], reference: dict[str, float]) -> str:
    heap, nodes, listeners = (gauges[name] for name in GAUGES)
    ratio = heap / reference["JSHeapUsedSize"]
    return f"{what:46} {heap / 1e6:6.1f} MB ({ratio:.2f} x), {nodes:,.0f} nodes, {listeners:,.0f} listeners"


def main(turns: int = TURNS) -> None:
    if why := missing():
        print(f"not measured: {why}")
        return
    live = LiveHouse()
    try:
        with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as page:
            script = live.script()
            visit(page, live)
            strayed = _follow(page, live, script, 0, turns // 10)
            early = _heap(page)
            strayed += _follow(page, live, script, turns // 10, turns)
            late = _heap(page)
            visit(page, live)
            page.until(lambda: f"message {turns - 1}:" in str(page.text("#rows")), "the page, loaded anew")
            anew = _heap(page)
    finally:
        live.close()
    print(_line(f"after {turns // 10:,} turns", early, anew))
    print(_line(f"after {turns:,} turns", late, anew))
    print(_line("the same page, loaded anew", anew, anew))
    print(f"{'at the end, against a tenth of the day':46} {late['JSHeapUsedSize'] / early['JSHeapUsedSize']:.2f} x")
    print(f"{'left the end, though nobody scrolled':46} {strayed} times")
