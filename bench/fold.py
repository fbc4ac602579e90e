"""Folding streams: CPU time of `json.loads` + `Fold.update` beside `json.loads` + a list append of the same lines.

Targets: 10,000 chunks under 3 times the plain loop; 100,000 chunks under 11 times the time of 10,000.
"""

from __future__ import annotations

import gc
import json
import lzma
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from semel.acp_stream import ConnectionFolder, Fold

TRACES = Path(__file__).parent.parent / "tests" / "data" / "traces"
KINDS = ("tool call", "message", "thought")
SIZES = (1_000, 10_000, 100_000)
CHUNK = 100  # characters
CUMULATIVE = 10_000  # updates
STEP = 12  # characters that each of them adds


def chunk(number: int) -> str:
    """100 characters, all different from their neighbours."""
    return (f"line {number} of the output " + "abcdefghij klmnopqrst " * 5)[: CHUNK - 1] + "\n"


def line(update: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})


def lines(kind: str, count: int) -> list[str]:
    def update(text: str) -> dict[str, Any]:
        if kind == "tool call":
            meta = {"terminal_output": {"terminal_id": "t", "data": text}}
            return {"sessionUpdate": "tool_call_update", "toolCallId": "t", "_meta": meta}
        name = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}[kind]
        return {"sessionUpdate": name, "messageId": "m", "content": {"type": "text", "text": text}}

    return [line(update(chunk(n))) for n in range(count)]


def plain(stream: Iterator[str] | list[str]) -> None:
    kept = []
    for each in stream:
        message = json.loads(each)
        kept.append(message["params"]["update"])


def folded(stream: Iterator[str] | list[str]) -> Fold:
    fold = Fold()
    for each in stream:
        message = json.loads(each)
        fold.update(message["params"]["update"])
    return fold


def cpu(work: Callable[[], object], times: int) -> float:
    """Seconds of CPU, the best of some runs."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def row(name: str, plain_s: float, fold_s: float, note: str = "") -> None:
    print(f"{name:34} {plain_s * 1e3:10.1f} ms {fold_s * 1e3:10.1f} ms {fold_s / plain_s:7.2f} x  {note}", flush=True)


def verdict(value: float, limit: float) -> str:
    return f"{value:.2f} (target: under {limit:g}){'' if value < limit else ' MISSED'}"


def chunks() -> None:
    for kind in KINDS:
        took: dict[int, float] = {}
        base: dict[int, float] = {}
        for count in SIZES:
            stream = lines(kind, count)
            base[count] = cpu(lambda stream=stream: plain(stream), 5)  # type: ignore[misc]
            took[count] = cpu(lambda stream=stream: folded(stream), 5)  # type: ignore[misc]
            note = "times the plain loop: " + verdict(took[count] / base[count], 3) if count == 10_000 else ""
            row(f"{kind}, {count:,} chunks", base[count], took[count], note)
        growth = verdict(took[100_000] / took[10_000], 11)
        beside = base[100_000] / base[10_000]
        print(f"{'':34} growth from 10,000 to 100,000: {growth}; the plain loop's own: {beside:.2f}")


def cumulative_lines() -> Iterator[str]:
    """Content that is sent whole with every update, made as it is read: the stream is 600 MB."""
    text = "".join(chunk(n) for n in range(CUMULATIVE * STEP // CHUNK + 1))
    for number in range(1, CUMULATIVE + 1):
        content = [{"type": "content", "content": {"type": "text", "text": text[: number * STEP]}}]
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress", "content": content}
        yield line(update)


def cumulative() -> None:
    making = cpu(lambda: [None for _ in cumulative_lines()], 1)
    # The plain loop would keep all 600 MB: it only decodes here.
    base = cpu(lambda: [json.loads(each) and None for each in cumulative_lines()], 1) - making
    took = cpu(lambda: folded(cumulative_lines()), 1) - making
    row(
        f"cumulative content, {CUMULATIVE:,} updates",
        base,
        took,
        f"{CUMULATIVE * CUMULATIVE * STEP / 2e6:.0f} MB of text",
    )


def long_line() -> None:
    stream = [line({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 8_000_000}})]
    row("one line of 8 MB", cpu(lambda: plain(stream), 5), cpu(lambda: folded(stream), 5))


def trace_set() -> None:
    traces = []
    for path in sorted(TRACES.glob("*/*.jsonl.xz")):
        if not path.name.endswith(".mcp.jsonl.xz"):
            with lzma.open(path, "rt") as text:
                traces.append([each for each in text if '"dir": "a2c"' in each or '"dir":"a2c"' in each])
    updates = sum(each.count("session/update") for trace in traces for each in trace)

    def decode() -> None:
        for trace in traces:
            kept = []
            for each in trace:
                kept.append(json.loads(each)["msg"])

    def fold() -> None:
        for trace in traces:
            wire = ConnectionFolder()
            for each in trace:
                wire.fold_received(json.loads(each)["msg"])

    base, took = cpu(decode, 3), cpu(fold, 3)
    rate = f"{updates:,} updates: {updates / base:,.0f} and {updates / took:,.0f} a second of CPU"
    row(f"{len(traces)} traces", base, took, rate)


def main() -> None:
    print(f"{'':34} {'plain loop':>13} {'fold':>13}")
    chunks()
    cumulative()
    long_line()
    trace_set()


if __name__ == "__main__":
    main()
