"""`kill -9` of the gateway between receive and commit, inside the commit, between commit and acknowledgement, and at
random: everything that the platform told, three times each, is heard once, in its order, and no file is left over."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from semel.ledger.admin import books
from semel.ledger.sqlite.store import Store
from semel.ledger.transcript import views

WORKER = Path(__file__).parent / "inbound_worker.py"
EVENTS = 60
PATIENCE = 60.0

Json = dict[str, Any]


def plan(path: Path) -> list[Json]:
    """What happens on the platform: messages, some with files, and what is done to them."""
    dice, events = random.Random(7), list[Json]()
    for n in range(EVENTS):
        who = dice.choice(("ann", "bob"))
        one: Json = {"kind": "message", "key": f"m{n}", "address": f"room{n % 2}", "text": f"text {n}"}
        one["sender"] = {"id": who, "name": who.title()}
        if n >= 6 and n % 3 == 0:
            one |= {"kind": dice.choice(("edit", "delete", "reaction")), "of": f"m{n - 4}"}
        elif n % 5 == 0:
            one["file"] = f"content {n // 10}"
        events.append(one)
    (path / "incoming.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    return events


class Nursery:
    """Makes gateways, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with (path / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def run(self, where: str = "never", n: int = 0, after: float | None = None) -> int:
        """One life of a gateway; its exit code. `after`: seconds of it, once it has started; then it is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self.path} {where} {n}\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        if after is not None:
            deadline = time.monotonic() + PATIENCE
            while not (self.path / "started").exists():
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(after)
            with suppress(ProcessLookupError):  # it was done by then
                os.kill(pid, signal.SIGKILL)
        late = threading.Timer(PATIENCE, os.kill, (pid, signal.SIGABRT))  # it hangs: no code that a test wants
        late.start()
        code = int(self.process.stdout.readline())
        late.cancel()
        (self.path / "started").unlink(missing_ok=True)
        return code

    def log(self) -> str:
        return (self.path / "log").read_text()[-3000:]

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def judge(path: Path, events: list[Json]) -> None:
    store = Store.open_sync(path / "ledger.db")
    try:
        assert not [book for book in store.read_sync(books.audit) if not book.ok]
        for room in ("room0", "room1"):
            row = store.read_sync(views.find_session, f"main:file:{room}")
            entries, _ = store.read_sync(views.read_entries, row.id, 0, 1000)
            entries.sort(key=lambda entry: entry["seq"])
            assert [entry["role"] for entry in entries] == ["user"] * len(entries)
            wanted = [one for one in events if one["address"] == room]
            assert [(e.get("kind", "message"), e["text"]) for e in entries] == [(o["kind"], o["text"]) for o in wanted]
            assert all("of" in e for e, one in zip(entries, wanted, strict=True) if "of" in one)
            held = {file["id"] for e in entries for file in e.get("files", [])}
            assert all((path / "blobs" / id).is_file() for id in held)
        kept = store.read_sync(lambda tx: tx.values(str, "blobs_kept", before=tx.now))
        assert kept == []
    finally:
        store.close()


def test_killed_wherever_it_is_and_told_three_times_all_is_heard_once(tmp_path: Path) -> None:
    events, dice = plan(tmp_path), random.Random(3)
    with Nursery(tmp_path) as nursery:
        for where in ("receive", "keep", "kept", "commit", "ack"):
            assert nursery.run(where, 2) == -signal.SIGKILL, nursery.log()
        for _ in range(4):
            nursery.run(after=dice.uniform(0, 0.1))
        assert nursery.run() == 0, nursery.log()
    judge(tmp_path, events)
    left = {one.name for one in (tmp_path / "blobs").iterdir()}
    assert len(left) == len({one["file"] for one in events if "file" in one})
