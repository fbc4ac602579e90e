"""`python -m bench [NAME ...]`: run the named parts, or all of them, and print what was measured."""

from __future__ import annotations

import importlib
import sys

PARTS = {
    "latency": "accepted -> agent has the prompt, agent's text -> a watcher sees it",
    "turns": "durable turns per second, beside the raw disk",
    "postgres": "the ledger in PostgreSQL beside SQLite: turns a second, and a server at a distance",
    "dumped": "a day in PostgreSQL, in short, while the database is dumped all the time: its tables and its turns",
    "cluster": "two gateways: a message that comes in at one and is answered at the other",
    "shared": "one and four gateways on one database behind a slow network, with agents that take a second",
    "copied": "semel ledger copy of 1,000,000 entries into PostgreSQL and back",
    "events": "accepted a second over HTTP, wake to prompt, and 1,000,000 remembered keys",
    "stranded": "1,000 turns by 20 sessions, and 10,000 messages right after a reply",
    "history": "what a prompt reads of the past, at 1,000 and at 100,000 entries",
    "scale": "turns with 1,000,000 entries in the ledger, 100,000 in the session, 10,000 sessions beside",
    "growth": "bytes of the ledger for each message, turn and tool call, and after they were aged out",
    "memory": "an idle gateway, each live session, and what idling costs",
    "page": "the web page's memory while it follows a day of streaming",
    "terminal": "semel chat while an answer of 10,000 lines streams, opened again, and resized",
    "startup": "from the command to accepting",
    "outage": "what a channel that hangs for ever adds to the delay of another",
    "fold": "folding streams, beside json.loads and a list",
    "editor": "semel acp --alone: beside folding, a tool's output, and the latency that it adds",
    "attached": "semel acp through a gateway: start, memory, latency, lists and loads",
}


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f"no part is named {', '.join(unknown)}; the parts are:", file=sys.stderr)
        for name, what in PARTS.items():
            print(f"  {name:9}  {what}", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"\n== {name}: {PARTS[name]}", flush=True)
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
