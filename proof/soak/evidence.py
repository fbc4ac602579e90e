"""What each side saw by itself, read when all is at rest: plain rows, which `judge` holds against each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from proof.conversations import Record
from proof.marking_agent import MARK, questions
from proof.soak.plan import Channel
from proof.soak.platforms import Platform, Post
from proof.soak.traffic import Said, Watched

Json = dict[str, Any]

EVENTS = """SELECT e.id, e.source, e.key, e.kind, e.payload, e.repeats, h.turn, h.wakes, t.root, t.state, t.error,
 t.attempt, s.key AS session FROM event e LEFT JOIN hearing h ON h.event = e.id LEFT JOIN turn t ON t.id = h.turn
 LEFT JOIN session s ON s.id = h.session ORDER BY e.id"""
ENTRIES = """SELECT s.key AS session, e.seq, e.role, e.text, e.live, e.partial, e.superseded, e.turn, e.event, e.claim,
 e.more, t.root FROM entry e JOIN session s ON s.id = e.session LEFT JOIN turn t ON t.id = e.turn ORDER BY e.id"""
PARTS = """SELECT p.id, p.claim, p.line, p.channel, p.dest, p.key, p.op, p.state, p.receipt, p.marked, s.key AS session
 FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session ORDER BY p.line"""
FLOODED = "SELECT sum(length(text)) AS size FROM output UNION ALL SELECT sum(length(text) + length(body)) FROM item"
TURNS = "SELECT t.id, t.root, t.attempt, t.how, t.state, t.error, s.pid FROM turn t LEFT JOIN spawn s ON s.id = t.spawn"


@dataclass(frozen=True)
class Asked:
    """One prompt, as the agent that got it wrote it down: which process, when, and the markers it asks about."""

    pid: int
    at: int
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """`views`: what watchers hold, by session; `transcript`: the same entries, as the API tells them."""

    record: Record
    said: Sequence[Said]
    events: Sequence[Json]
    entries: Sequence[Json]
    turns: Sequence[Json]
    parts: Sequence[Json]
    posts: Mapping[str, Sequence[Post]]  # by channel
    channels: Mapping[str, Channel]
    views: Mapping[str, Mapping[int, Json]]
    faults: Mapping[str, Sequence[str]]  # of what a watcher was told
    transcript: Mapping[str, Mapping[int, Json]]
    asked: Sequence[Asked]
    answered: Mapping[tuple[str, ...], int]  # when an agent had told an answer as a whole, by its markers
    flooded: int = 0  # bytes of the ledger that are output of tools, and thoughts


def gather(
    root: Path, ledger: Path, said: Sequence[Said], channels: Sequence[Channel], platforms: Mapping[str, Platform],
    watched: Sequence[Watched], transcript: Mapping[str, Mapping[int, Json]],
) -> Evidence:  # fmt: skip
    asked, answered = notes(root / "prompts")
    with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return Evidence(
            record=Record.read(db),
            said=said,
            events=rows(db, EVENTS),
            entries=rows(db, ENTRIES),
            turns=rows(db, TURNS),
            parts=[{**one, "op": json.loads(one["op"])} for one in rows(db, PARTS)],
            posts={name: platform.posts() for name, platform in platforms.items()},
            channels={one.name: one for one in channels},
            views={one.session.key: one.view.entries for one in watched},
            faults={one.session.key: one.view.faults for one in watched},
            transcript=transcript,
            asked=asked,
            answered=answered,
            flooded=sum(one["size"] or 0 for one in rows(db, FLOODED)),
        )


def rows(db: apsw.Connection, sql: str) -> list[Json]:
    cursor = db.execute(sql)
    return [dict(zip([name for name, _ in cursor.get_description()], row, strict=True)) for row in cursor]


def notes(path: Path) -> tuple[list[Asked], dict[tuple[str, ...], int]]:
    """What agents wrote down: each line in one write, which a kill does not tear."""
    asked, answered = [], {}
    for line in path.read_text().splitlines():
        told = json.loads(line)
        if "blocks" in told:
            marks = (mark for one in questions(told["blocks"]) for mark in MARK.findall(one))
            asked.append(Asked(told["pid"], told["at"], tuple(marks)))
        else:
            answered.setdefault(tuple(told["answered"]), told["at"])
    return asked, answered
