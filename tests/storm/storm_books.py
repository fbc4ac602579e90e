"""What a storm left behind, held against what each side saw by itself: producers, agents, a platform and watchers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw
from storm_house import Storm
from storm_plan import SESSIONS, Planned
from system_house import Json, Receiver

from proof.conversations import judge_conversations, read_record
from proof.marking_agent import MARK, questions

EVENTS = """SELECT e.id, e.source, e.key, e.kind, e.payload, lower(hex(e.digest)) AS digest, e.repeats, h.wakes, h.turn,
 t.root, t.state, s.key AS session, h.seq FROM event e LEFT JOIN hearing h ON h.event = e.id
 LEFT JOIN turn t ON t.id = h.turn LEFT JOIN session s ON s.id = h.session ORDER BY e.id"""
TURNS = """SELECT t.id, t.session, t.root, t.attempt, t.how, t.state, p.pid
 FROM turn t LEFT JOIN spawn p ON p.id = t.spawn ORDER BY t.id"""


def rows(db: apsw.Connection, sql: str) -> list[Json]:
    cursor = db.execute(sql)
    return [dict(zip([name for name, _ in cursor.get_description()], row, strict=True)) for row in cursor]


def told_once(texts: list[str]) -> Counter[str]:
    """How often each marker was answered. What was said before the answer names markers, too, and is there once."""
    before = Counter(text for text in texts if text.startswith("Looking at "))
    assert max(before.values(), default=1) == 1, ("said twice", before.most_common(2))
    return Counter(mark for text in texts if text.startswith("Seen: ") for mark in MARK.findall(text))


class Aftermath:
    """Each `check_...` is a promise; all of them are looked at."""

    def __init__(self, storm: Storm, hook: Receiver, all_: Receiver) -> None:
        self.storm, self.posts = storm, {"hook": hook.posts, "all": all_.posts}
        self.chats = {"hook": hook.chat, "all": all_.chat}
        ledger = storm.house.data / "ledger.db"
        with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            self.events, self.turns = rows(db, EVENTS), rows(db, TURNS)
            self.conflicts = rows(db, "SELECT event, lower(hex(digest)) AS digest FROM conflict")
        self.by_id = {one["id"]: one for one in self.events}
        self.entries = {session: storm.house.entries(session) for session in SESSIONS}
        self.answers = list(self._answers())
        self.kept = self._kept()  # event id -> the marker of the content that was accepted

    def _answers(self) -> Iterator[tuple[Planned, str, str, Json]]:
        """(event, kind of producer, marker sent, what came back), for each request that anybody made."""
        for producer in self.storm.producers:
            log = self.storm.house.home / f"{producer.name}.log"
            for line in log.read_text().splitlines():
                told = json.loads(line)
                yield producer.events[told["n"]], producer.kind, told["mark"], told

    def _kept(self) -> dict[int, str]:
        found = {}
        for event in self.events:
            marks = MARK.findall(json.loads(event["payload"])["text"])
            assert len(marks) <= 1, event
            if marks:
                found[event["id"]] = marks[0]
        return found

    def row(self, event: Planned) -> Json:
        """Its one row in the ledger."""
        if event.source == "exec":
            found = [one for one in self.events if self.kept.get(one["id"]) == event.a]
        else:
            found = [one for one in self.events if (one["source"], one["key"]) == (event.source, event.key)]
        assert len(found) == 1, (event, found)
        return found[0]

    def planned(self) -> list[Planned]:
        return [event for producer in self.storm.producers for event in producer.events]

    # ---------------------------------------------------------------- heard once

    def check_acceptances(self) -> None:
        """Every 202 that a producer ever got is in the ledger, as the content it sent; other content got a 409."""
        accepted: Counter[int] = Counter()
        repeats: Counter[int] = Counter()
        asked: Counter[int] = Counter()
        for event, kind, mark, told in self.answers:
            row, body = self.row(event), told["body"]
            kept = self.kept[row["id"]]
            if kind != "exec":  # that asks again by itself
                asked[row["id"]] += mark == kept
            match told["status"]:
                case 202:
                    assert mark == kept, (event, told, row)
                    if kind != "exec":
                        assert body["event"] == row["id"], (event, told, row)
                        accepted[row["id"]] += body["status"] == "accepted"
                        repeats[row["id"]] += body["status"] == "duplicate"
                case 409:
                    self.check_conflict(event, mark, body, row)
                case status:
                    assert status in (0, 503), (event, told)
        for row in self.events:
            assert accepted[row["id"]] <= 1, ("accepted twice", row)
            assert row["id"] not in asked or repeats[row["id"]] <= row["repeats"] < max(1, asked[row["id"]]), row

    def check_conflict(self, event: Planned, mark: str, body: Json, row: Json) -> None:
        assert mark != self.kept[row["id"]] and body["event"] == row["id"], (event, mark, body, row)
        assert body["kept"] == row["digest"] != body["given"], (body, row)
        recorded = [one["digest"] for one in self.conflicts if one["event"] == row["id"]]
        assert recorded == [body["given"]], ("the other content is kept beside the first", recorded, body)

    def check_heard(self) -> None:
        """Each event is one row, and one entry of its session, with its kind; nothing else is there."""
        where: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for session, entries in self.entries.items():
            assert [one["seq"] for one in entries] == list(range(1, len(entries) + 1)), "no gaps"
            for entry in entries:
                if entry["role"] in ("user", "event"):
                    for mark in MARK.findall(entry["text"]):
                        where[mark].append((session, entry["event"]))
        for event in self.planned():
            row = self.row(event)
            assert where.pop(self.kept[row["id"]]) == [(event.session, row["id"])], (event, row)
            assert (row["session"], row["kind"], bool(row["wakes"])) == (event.session, event.kind, event.wakes)
        assert not where, ("entries of what was not accepted", where)
        others = Counter(row["kind"] for row in self.events if row["id"] not in self.kept)
        runs = sum(event.source == "exec" for event in self.planned())
        assert others == {"message": len(SESSIONS), "exec.started": runs}, others

    # ---------------------------------------------------------------- bound and prompted once

    def prompts(self) -> dict[int, list[str]]:
        """Turn -> the markers in the prompt its agent saw: each process was given its turns' prompts, in order."""
        given: defaultdict[int, list[list[str]]] = defaultdict(list)
        for line in (self.storm.house.home / "prompts").read_text().splitlines():
            told = json.loads(line)
            given[told["pid"]].append([mark for one in questions(told["blocks"]) for mark in MARK.findall(one)])
        found: dict[int, list[str]] = {}
        for pid, seen in given.items():
            asked = [one for one in self.turns if one["pid"] == pid and one["how"] not in (None, "recall")]
            assert len(asked) - len(seen) in (0, 1), ("prompts that no turn owns", pid, seen, asked)
            if len(asked) > len(seen):  # it died before it had read the last one
                assert asked[-1]["state"] == "lost", asked[-1]
            found |= {turn["id"]: marks for turn, marks in zip(asked, seen, strict=False)}
        return found

    def check_prompts(self) -> None:
        """Each event was in exactly one prompt of a turn that finished, and in no attempt at any other."""
        prompts, bound = self.prompts(), defaultdict(list)
        for row in self.events:
            assert row["state"] == "done", ("not in a finished turn", row)
            bound[row["root"]] += [self.kept[row["id"]]] if row["id"] in self.kept else []
        woken = {row["root"] for row in self.events if row["wakes"]}
        times: Counter[str] = Counter()
        for turn in self.turns:
            assert turn["state"] in ("done", "lost") and turn["root"] in woken, ("nobody asked for it", turn)
            if turn["id"] in prompts:
                assert prompts[turn["id"]] == bound[turn["root"]], (
                    "other events than it is bound to", turn, prompts[turn["id"]], bound[turn["root"]],
                )  # fmt: skip
            if turn["state"] == "done":
                times.update(prompts[self.answering(turn, prompts)])
        assert times == Counter(self.kept.values()), times - Counter(self.kept.values())

    def answering(self, turn: Json, prompts: dict[int, list[str]]) -> int:
        """The attempt whose prompt a finished turn answers: its own, or the one whose answer was in the history."""
        if turn["how"] != "recall":
            return int(turn["id"])
        before = [one["id"] for one in self.turns if one["root"] == turn["root"] and one["id"] < turn["id"]]
        return max(one for one in before if one in prompts)

    # ---------------------------------------------------------------- answered once

    def check_answers(self) -> None:
        """Each event is answered once: in the transcript, before the watchers, and on the platform."""
        wanted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in self.events:
            if row["id"] in self.kept:
                wanted[row["session"]][self.kept[row["id"]]] += 1
        for watcher in self.storm.watchers:
            entries = self.entries[watcher.session]
            assert self.answered(entries) == wanted[watcher.session], self.story(watcher.session)
            seen = sorted(watcher.view.entries.values(), key=lambda one: one["seq"])
            assert self.answered(seen) == wanted[watcher.session], ("as it was watched", watcher.session)
            assert [one["text"] for one in seen] == [one["text"] for one in entries], "view text = entry text"
            assert not watcher.view.faults, watcher.view.faults
        for name in self.posts:
            there = [wanted[session] for session in SESSIONS if session.split(":")[1] == name]
            assert self.shown(name) == sum(there, Counter()), ("as the platform has it", name)
        assert {part["state"] for part in self.storm.house.parts()} == {"sent"}

    def check_conversations(self) -> None:
        """Each chat is what the entries say, in their order, and nobody waits for an answer."""
        record = read_record(self.storm.house.data / "ledger.db")
        found = list(judge_conversations(record, self.chats, ["all"]))
        assert not found, found[:5]

    @staticmethod
    def answered(entries: list[Json]) -> Counter[str]:
        """Markers in what agents said and that stands: not cut off, and not said anew by a later attempt."""
        said = [one for one in entries if one["role"] == "agent" and not one.get("superseded")]
        assert not any(one.get("live") for one in said), said
        return told_once([one["text"] for one in said if one["text"].endswith(".")])

    def shown(self, name: str) -> Counter[str]:
        """Markers on the platform, which folds repeats of an id."""
        return told_once(list({post.id: post.text for post in self.posts[name]}.values()))

    def story(self, session: str) -> str:
        lines = [
            f"{one['seq']} {one['role']} t{one.get('turn')} {one['text']!r}"
            f" {[name for name in ('partial', 'superseded', 'live', 'echoes') if one.get(name)]}"
            for one in self.entries[session]
        ]
        return "\n".join([session, *lines, *map(str, self.turns)])

    # ---------------------------------------------------------------- that it was a storm

    def told(self) -> dict[str, Any]:
        """What there was of everything, for a person who looks."""
        status = Counter(told["status"] for *_, told in self.answers)
        heard = {told["body"].get("event") for *_, told in self.answers if told["body"].get("status") == "accepted"}
        return {
            "kills": self.storm.kills,
            "events": len(self.events),
            "requests": sum(status.values()),
            "answers": dict(sorted(status.items())),
            "repeats": sum(one["repeats"] for one in self.events),
            "first answers lost": len([one for one in self.kept if one not in heard]),
            "conflicts": len(self.conflicts),
            "turns": dict(Counter(f"{one['state']} {one['how']}" for one in self.turns)),
            "attempts": dict(Counter(one["attempt"] for one in self.turns)),
            "watched": sum(one.connections for one in self.storm.watchers),
        }
