"""`semel acp --alone`: CPU time beside folding alone, a tool's output to an editor, and the latency that it adds.

Targets: 1.5 times folding for 10,000 chunks of 100 bytes; 100,000 chunks at most 11 times that; a tool's output of
280 KB at most 3 times its bytes; added to an update's latency p50 1 ms and p99 5 ms.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from typing import Any

from bench.fold import KINDS, cpu, line, lines, verdict
from semel.acp_stream import ConnectionFolder, Limits
from semel.faces.acp.alone.stream import EditorStream

Json = dict[str, Any]

INITIALIZE: Json = {"clientInfo": {"name": "zed"}, "protocolVersion": 1}
TERMINALS: Json = {"_meta": {"terminal_output": True}}
FEW, MANY = 10_000, 100_000
ROUNDS = 1_000  # updates whose latency is measured
OUTPUT_LINES = 5_000
AGENT = """
import sys, time
line = sys.argv[1].encode() + b"\\n"
for each in sys.stdin.buffer:
    sys.stdout.buffer.write(line.replace(b"NOW", str(time.monotonic_ns()).encode()))
    sys.stdout.buffer.flush()
"""


def request(number: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def make_stream(capabilities: Json) -> EditorStream:
    stream = EditorStream("bench")
    stream.handle_editor_line(request(0, "initialize", **INITIALIZE, clientCapabilities=capabilities), 0.0)
    stream.handle_editor_line(request(1, "session/prompt", sessionId="s", prompt=[]), 0.0)
    return stream


def write(stream_lines: list[bytes], capabilities: Json, step_s: float = 0.001) -> int:
    """Return how many bytes an editor gets if a line comes every `step_s` seconds."""
    stream = make_stream(capabilities)
    size = 0
    for number, each in enumerate(stream_lines):
        size += sum(map(len, stream.handle_agent_line(each, number * step_s)))
    return size


def fold(stream_lines: list[bytes]) -> None:
    folder = ConnectionFolder(limits=Limits())
    for each in stream_lines:
        folder.fold_received(json.loads(str(each, "utf-8")))


def tool_call() -> bytes:
    update = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "make", "status": "in_progress"}
    terminal = {"content": [{"type": "terminal", "terminalId": "t"}], "_meta": {"terminal_info": {"terminal_id": "t"}}}
    return line({**update, **terminal}).encode() + b"\n"


def chunks() -> None:
    print(f"{'':44} {'fold':>10} {'fold and write':>16}")
    for kind in KINDS:
        compare(kind, kind, {})
    compare("tool call, to a client with terminals", "tool call", TERMINALS)


def compare(what: str, kind: str, capabilities: Json) -> None:
    took: dict[int, float] = {}
    for size in (FEW, MANY):
        stream_lines = [each.encode() + b"\n" for each in lines(kind, size)]
        if kind == "tool call":
            stream_lines.insert(0, tool_call())
        base = cpu(partial(fold, stream_lines), 5)
        took[size] = cpu(partial(write, stream_lines, capabilities), 5)
        times = f"{base * 1e3:7.1f} ms {took[size] * 1e3:13.1f} ms"
        print(f"{f'{what}, {size:,}':44} {times}  {verdict(took[size] / base, 1.5)}")
    print(f"{'':44} growth from 10,000 to 100,000: {verdict(took[MANY] / took[FEW], 11)}", flush=True)


def tool_output() -> None:
    output = [f"line {n} of the long output abcdefghijklmnopqrstuvwxyz\n" for n in range(OUTPUT_LINES)]
    size = sum(map(len, output))
    head: Json = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    deltas: list[Json] = [{"terminal_output_delta": {"terminal_id": "t", "data": text}} for text in output]
    updates: list[Json] = [*({**head, "_meta": meta} for meta in deltas), {**head, "status": "completed"}]
    stream_lines = [tool_call(), *(line(update).encode() + b"\n" for update in updates)]
    for step_s in (0.0001, 0.01, 0.1):
        duration_s = step_s * OUTPUT_LINES
        ratio = verdict(write(stream_lines, {}, step_s) / size, 3)
        print(f"a tool's output of {size / 1000:.0f} KB in {duration_s:.1f} s, as content: {ratio} x its bytes")


def measure_latency(command: list[str]) -> list[float]:
    """Return the sorted times from an agent's write to the editor's read, in milliseconds."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdin.write(request(0, "initialize", **INITIALIZE))
    times = []
    for number in range(-100, ROUNDS):
        process.stdin.write(request(number, "x"))
        process.stdin.flush()
        text = json.loads(process.stdout.readline())["params"]["update"]["content"]["text"]
        took = (time.monotonic_ns() - int(text.split()[0])) / 1e6
        times += [took] if number >= 0 else []
        time.sleep(0.001)
    process.stdin.close()
    process.wait()
    return sorted(times)


def latency() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "NOW "}}
    agent = [sys.executable, "-S", "-c", AGENT, line(update)]
    direct = measure_latency(agent)
    through = measure_latency([sys.executable, "-m", "semel", "acp", "--alone", "--", *agent])
    for name, share, target in (("p50", 0.5, 1), ("p99", 0.99, 5)):
        place = int(ROUNDS * share)
        times = f"{direct[place]:.2f} ms directly, {through[place]:.2f} ms through semel acp"
        print(f"an update, agent -> editor, {name}: {times}, added {verdict(through[place] - direct[place], target)}")


def main() -> None:
    chunks()
    tool_output()
    latency()


if __name__ == "__main__":
    main()
