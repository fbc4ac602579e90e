"""`python -m proof soak`: the soak, its judgement and its figures."""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from bench.house import quantile
from proof.arguments import BadArgument, above, whole
from proof.report import Count, Proof
from proof.soak.evidence import Evidence
from proof.soak.gauges import Gauges, flatness, load
from proof.soak.judge import folded, judge
from proof.soak.storm import Size, Soak
from proof.soak.world import World, world

FULL = Size(sessions=200, storm=300, calm=180, rate=8.0, seed=0)
QUICK = Size(sessions=40, storm=32, calm=8, rate=6.0, seed=0, kill_every=8.0, idle=5.0)
MOST = 600
"""Characters that one violation may take."""
ROOM = 4
"""Descriptors that a gateway at rest may have more than one that has just started."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="of traffic, faults and kills (another one each time; with --quick 1)")
    parser.add_argument("--minutes", type=above(0), help="of the storm, a kill every 20 s (5)")
    parser.add_argument("--calm", type=above(0), help="minutes of the same traffic without kills behind it (3)")
    parser.add_argument("--sessions", type=whole(), help="how many (200)")
    parser.add_argument("--rate", type=above(0), help="messages a second (8)")
    parser.add_argument("--keep", type=Path, help="make the files in this directory, and leave them there")


def prove(quick: bool, args: argparse.Namespace) -> Proof:
    size = _size(quick, args)
    root = args.keep or Path(tempfile.mkdtemp(prefix="semel-soak-"))
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise BadArgument(f"--keep {root}: {fault.strerror}; give a directory that can be made") from None
    again = f"python -m proof soak --seed {size.seed} --minutes {size.storm / 60:g} --calm {size.calm / 60:g}"
    again += f" --sessions {size.sessions} --rate {size.rate:g}" + (" --quick" if quick else "")
    print(f"soak: {size.storm + size.calm:.0f} s, load {load()}: {again}", flush=True)
    try:
        with world(root.resolve()) as one:
            soak = Soak(one, size)
            evidence = asyncio.run(soak.run())
            drifts, uneven = flatness(soak.gauges)
            broken = [*judge(evidence), *soak.broken, *uneven, *_left(soak, one), *_log(one)]
            _tell(soak, evidence, drifts)
        counts = _counts(soak, evidence)
        return Proof("soak", counts, [f"{line[:MOST]} ({again})" for line in broken], work="messages")
    finally:
        if args.keep is None:
            shutil.rmtree(root, ignore_errors=True)


def _size(quick: bool, args: argparse.Namespace) -> Size:
    usual = QUICK if quick else FULL
    return Size(
        sessions=usual.sessions if args.sessions is None else args.sessions,
        storm=usual.storm if args.minutes is None else args.minutes * 60,
        calm=usual.calm if args.calm is None else args.calm * 60,
        rate=usual.rate if args.rate is None else args.rate,
        seed=_seed(quick) if args.seed is None else args.seed,
        kill_every=usual.kill_every,
        idle=usual.idle,
    )


def _seed(quick: bool) -> int:
    return 1 if quick else random.SystemRandom().randrange(10**6)


def _left(soak: Soak, one: World) -> list[str]:
    """What a gateway that has worked holds more than a fresh one, and what outlived it."""
    broken = []
    if soak.rested.total() > soak.fresh.total() + ROOM:
        more = dict(soak.rested - soak.fresh)
        broken.append(f"a gateway at rest has {soak.rested.total()} descriptors, {more} more than a fresh one")
    return broken + [f"it outlived its gateway: {found.line}" for found in one.left]


def _log(one: World) -> list[str]:
    """What the gateway itself did not expect."""
    lines = (one.root / "log").read_text(errors="replace").splitlines()
    bad = [line for line in lines if "Traceback" in line or "exc_info" in line or '"exception"' in line]
    return [f"the gateway's log has {len(bad)} faults of its own, such as: {bad[0][:1500]}"] if bad else []


# -------------------------------------------------------------------- figures


def _counts(soak: Soak, evidence: Evidence) -> dict[str, Count]:
    return {
        "sessions": len(soak.sessions), "channels": len(soak.channels), "messages": len(soak.people.said),
        "turns": len(evidence.turns), "parts": len(evidence.parts), "kills of the gateway": soak.world.kills,
        "of agents and MCP processes": soak.strikes.total(),
    }  # fmt: skip


def _tell(soak: Soak, evidence: Evidence, drifts: dict[str, float]) -> None:
    """The figures that docs/proof.md states."""
    for line in [*_happened(soak, evidence), *latencies(soak, evidence), *_gauged(soak.gauges, drifts, evidence)]:
        print(f"  {line}", flush=True)


def _happened(soak: Soak, evidence: Evidence) -> list[str]:
    answers = Counter(status for one in evidence.said for status, _ in one.answers)
    told = Counter(body.get("status") for one in evidence.said for status, body in one.answers if status == 202)
    routes = Counter(one.message.route for one in evidence.said)
    states = Counter(event["state"] for event in evidence.events)
    attempts = Counter(turn["attempt"] for turn in evidence.turns)
    parts = Counter(part["state"] for part in evidence.parts)
    posts = {name: len(posts) for name, posts in evidence.posts.items()}
    shown = sum(len(folded(evidence.channels[name], posts)) for name, posts in evidence.posts.items())
    return [
        f"messages by {_list(routes)}; answers {_list(answers)}, {_list(told)}; strikes {_list(soak.strikes)}; "
        f"{soak.people.stops} stops",
        f"messages end {_list(states)}; turns by attempt {_list(attempts)}",
        f"parts {_list(parts)}; platforms took {sum(posts.values())}, and show {shown}; "
        f"watchers connected {sum(one.connections for one in soak.watched)} times",
    ]


def _list(counts: Counter[str] | Counter[int]) -> str:
    return ", ".join(f"{value} {key}" for key, value in sorted(counts.items(), key=str))


def latencies(soak: Soak, evidence: Evidence) -> list[str]:
    """p50 and p99 in ms, of the storm and of the stretch without kills."""
    asked: dict[str, int] = {}
    for one in sorted(evidence.asked, key=lambda one: one.at):
        for mark in one.marks:
            asked.setdefault(mark, one.at)
    seen = {text: at for one in soak.watched for text, at in one.seen.items()}
    shown = [(at, seen_at) for marks, at in evidence.answered.items() for seen_at in _of(seen, marks)]
    lines = []
    for name, calm in (("in the storm", False), ("without kills", True)):
        waits = [
            (asked[one.message.mark] - one.accepted) / 1e6
            for one in evidence.said
            if one.accepted and one.message.mark in asked and (one.accepted > soak.calm_from) is calm
        ]
        texts = [(later - at) / 1e6 for at, later in shown if (at > soak.calm_from) is calm]
        lines.append(f"{name}: accepted -> agent asked {_ms(waits)}; text -> watcher {_ms(texts)}")
    return lines


def _of(seen: dict[str, int], marks: tuple[str, ...]) -> list[int]:
    """When a watcher had the answer to these."""
    head = f"Seen: {' '.join(marks)}"
    plain = seen.get(f"{head}.")
    return [plain] if plain is not None else [at for text, at in seen.items() if text.startswith(f"{head} and")]


def _ms(values: list[float]) -> str:
    if not values:
        return "-"
    return f"p50 {quantile(values, 0.5):.0f} ms, p99 {quantile(values, 0.99):.0f} ms ({len(values)})"


def _driver() -> float:
    """CPU seconds of this process: the platforms, the watchers and those who write."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _gauged(gauges: Gauges, drifts: dict[str, float], evidence: Evidence) -> list[str]:
    eves, calm = gauges.eves, gauges.calm
    lines = [f"drift {name}: {by:+.1%}" for name, by in drifts.items()]
    told = "; ".join(lines)
    rss = ", ".join(f"{one.rss:.0f}" for one in eves)
    last = gauges.looks[-1]
    each = (last.ledger - evidence.flooded) / max(1, len(evidence.said))
    ripe = [*eves, *calm] or [last]
    lives = {one.life: one.cpu for one in gauges.looks}  # the last look at each
    return [
        f"RSS in MB before each kill: {rss}; then without kills: " + ", ".join(f"{one.rss:.0f}" for one in calm[::5]),
        f"descriptors {min(one.descriptors for one in ripe)}-{max(one.descriptors for one in ripe)}, "
        f"processes {min(one.processes for one in ripe)}-{max(one.processes for one in ripe)}; {told}",
        f"ledger and log {last.ledger:,} bytes, {evidence.flooded:,} of it output of tools and thoughts: "
        f"{each:,.0f} bytes a message beside that",
        f"the machine's CPUs were {gauges.busy:.0%} busy "
        f"(load {load()}): {sum(lives.values()):.0f} s by the gateway, {_driver():.0f} s by the driver",
    ]
