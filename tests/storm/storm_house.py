"""A storm: twenty producers, six sessions, their watchers and a platform, and a gateway that is killed twenty times."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import httpx2
from storm_plan import KILLS, SESSIONS, Producer, plan, producers
from system_house import PATIENCE, House, channel, until

from proof import marking_agent
from proof.stream_view import View

HERE = Path(__file__).parent
EARLY = 0.2  # the share of kills that hit a gateway while it starts
BUSY = 0.6  # the share of the others that wait until a turn runs


def config(home: Path, one: list[Producer], hook: str, all_: str) -> str:
    """Two agents, one of which can load its sessions again; two webhook channels; a token for each node."""
    agent = [sys.executable, "-I", "-S", marking_agent.__file__, str(home / "prompts")]
    lines = ["[gateway]", "max_live_agents = 4"]
    for name, command in (("plain", agent), ("loads", [*agent, str(home / "memory")])):
        lines += [f"[agents.{name}]", 'kind = "acp"', f"command = {json.dumps(command)}"]
    lines.append(channel("hook", hook, session="plain:hook:b", sessions=["*", "*:all:*"]))
    lines.append(channel("all", all_, narration="all"))
    for node in one:
        if node.kind == "node":
            (home / f"{node.name}.token").write_text(node.token)
            lines += [
                f"[nodes.{node.name}]",
                f'token = "file:{node.name}.token"',
                'sessions = ["*", "*:hook:*", "*:all:*"]',
            ]
    return "\n".join(lines)


class Watcher(threading.Thread):
    """Holds what a session's stream tells, over every death of the gateway."""

    def __init__(self, house: House, session: str) -> None:
        super().__init__(daemon=True)
        self.house, self.session = house, session
        self.view = View()
        self.connections = 0
        self.over = False

    def run(self) -> None:
        with httpx2.Client(timeout=PATIENCE) as client:
            while not self.over:
                try:
                    self.follow(client)
                except (httpx2.HTTPError, ValueError):
                    pass  # the gateway died in the middle
                time.sleep(0.05)

    def follow(self, client: httpx2.Client) -> None:
        headers = {"last-event-id": str(self.view.rev)} if self.view.rev else {}
        with client.stream("GET", f"{self.house.url}/v1/sessions/{self.session}/stream", headers=headers) as stream:
            self.connections += stream.status_code == 200
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    self.view.take(json.loads(line[6:]))
                if self.over:
                    return


@dataclass
class Storm:
    house: House
    seed: int
    hook: str
    all: str
    kills: int = 0
    producers: list[Producer] = field(default_factory=list)
    programs: list[subprocess.Popen[str]] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)
    newest: int = 0  # the last turn that an earlier gateway began

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.producers = producers(self.seed, self.house.home)
        self.house.config = config(self.house.home, self.producers, self.hook, self.all)

    # ---------------------------------------------------------------- what happens

    def blow(self) -> None:
        for one in self.producers:
            self.send_out(one)
        self.watchers = [Watcher(self.house, session) for session in SESSIONS]
        for watcher in self.watchers:
            watcher.start()
        while self.kills < KILLS:
            until(self.bearable, "no turn is in its last attempt")
            self.tell()
            if self.chance.random() < BUSY:
                self.wait_for_a_turn(2.0)
            time.sleep(self.chance.random() * 0.6)  # a chance moment, not a wait for something
            self.kill()
            self.house.start()
            while self.kills < KILLS and self.chance.random() < EARLY:
                time.sleep(self.chance.random() * 0.7)
                if not self.bearable():
                    break
                self.kill()
                self.house.start()
            self.house.came_up()
        self.tell()

    def send_out(self, one: Producer) -> None:
        path, log = self.house.home / f"{one.name}.plan", self.house.home / f"{one.name}.log"
        path.write_text(json.dumps(plan(one, self.seed, self.house.data)))
        with (self.house.home / "producers.err").open("ab") as err:
            program = subprocess.Popen(
                [sys.executable, str(HERE / "producer.py"), str(path), str(log)],
                stdin=subprocess.PIPE, stdout=err, stderr=err, text=True, env=self.house.environment,
            )  # fmt: skip
        self.programs.append(program)

    def tell(self) -> None:
        """The producers hear where the gateway is now, and how far the storm is."""
        for program in self.programs:
            assert program.stdin is not None
            if program.poll() is None:
                program.stdin.write(json.dumps({"stretch": self.kills, "url": self.house.url}) + "\n")
                program.stdin.flush()

    def kill(self) -> None:
        self.house.kill()
        self.newest = self.count("SELECT coalesce(max(id), 0) FROM turn")
        self.kills += 1

    def wait_for_a_turn(self, seconds: float) -> None:
        """Until one runs, or this long: a chance, no promise."""
        end = time.monotonic() + seconds
        while not self.running() and time.monotonic() < end:
            time.sleep(0.01)

    # ---------------------------------------------------------------- what the ledger says meanwhile

    def count(self, sql: str, *values: object) -> int:
        ledger = self.house.data / "ledger.db"
        with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            db.set_busy_timeout(10_000)
            return int(next(iter(db.execute(sql, values)))[0])

    def running(self) -> int:
        return self.count("SELECT count(*) FROM turn WHERE state = 'running' AND id > ?", self.newest)

    def bearable(self) -> bool:
        """No turn would be lost for the third time by a kill now: it would be reported as failed, as it should."""
        third = "SELECT count(*) FROM turn WHERE state = 'running' AND (attempt > 2 OR (attempt = 2 AND id <= ?))"
        return not self.count(third, self.newest)

    # ---------------------------------------------------------------- the calm after it

    def calm(self) -> None:
        """All is delivered, one last message took along what does not wake, and nothing runs."""
        end = time.monotonic() + PATIENCE
        for program in self.programs:
            assert program.wait(max(1.0, end - time.monotonic())) == 0, self.errors()
        for session in SESSIONS:
            self.house.say(session, "That was all.", id="last")
        for session in SESSIONS:
            self.house.idle(session)
        self.house.settled()
        revs = {one["key"]: one["rev"] for one in self.house.get("/v1/sessions")["sessions"]}
        until(lambda: all(one.view.rev >= revs[one.session] for one in self.watchers), "all was seen")

    def errors(self) -> str:
        return (self.house.home / "producers.err").read_text()

    def close(self) -> None:
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.wait()
            if program.stdin is not None:
                program.stdin.close()
        for watcher in self.watchers:
            watcher.over = True
