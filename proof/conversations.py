"""Judge each conversation by what its people see: every chat against the transcript's entries (Laws 6, 7, 8 and 12).

The parts of the outbox are Semel's own word for what left, so they are not asked: a text that never became a part would
be missing from both sides. Here the platform's log is held against the entries, and decisions of the engine (what is an
echo, what leaves, what is evidence) are not taken from its code:

- what a chat shows is what an entry says, each once, whole, in the order of the record;
- what was sent by a tool, addressed elsewhere or told as a notice reached its chat, and so did the closing text of each
  turn that ended well (where a channel narrates all, every block did);
- behind each event that asked for a turn its person can see something of that turn, unless they stopped it in that very
  chat, or it was a heartbeat, which its agent may leave unanswered;
- no tool call of a turn that is over waits or runs.

Two things excuse a text that did not arrive: an entry that says so, which is where people decide what becomes of it;
and, of a notice that a message may be missing, that this was settled before the notice left.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw

Json = dict[str, Any]
Chats = Mapping[str, Sequence[tuple[str, str]]]
"""By channel: (address, text) of each message that people see there, in their order."""

FINISHED = ("done", "failed", "cancelled")
RESERVED = "…"  # what stands where a text is still to come
_ENTRIES = "SELECT session, seq, role, text, superseded, turn, event, claim, more FROM entry ORDER BY session, seq"
_CLAIMS = """SELECT id, session, turn, root, how, kind, dest, outcome, echo_of, part_of, edits FROM claim
 WHERE outcome IN ('said', 'echo') ORDER BY id"""
_EVENTS = """SELECT e.id, e.source, e.key, e.kind, h.session, h.seq, h.turn FROM event e
 JOIN hearing h ON h.event = e.id WHERE h.wakes = 1 AND h.turn IS NOT NULL ORDER BY e.id"""
_EXCUSED = """SELECT DISTINCT p.claim FROM entry n JOIN part p ON p.id = n.more ->> 'part'
 WHERE n.role = 'notice' AND n.more ->> 'kind' LIKE 'delivery.%'"""
_NEEDLESS = """WITH dropped AS (SELECT n.claim, n.more ->> 'part' AS missing FROM entry n
  WHERE n.role = 'notice' AND n.more ->> 'kind' LIKE 'delivery.%' AND n.claim IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM part p WHERE p.claim = n.claim AND p.state <> 'dropped'))
 SELECT d.claim FROM dropped d LEFT JOIN part p ON p.id = d.missing
 WHERE p.id IS NULL OR p.state IN ('sent', 'dropped')
 OR EXISTS (SELECT 1 FROM entry n WHERE n.more ->> 'part' = d.missing AND n.claim NOT IN (SELECT claim FROM dropped))"""
_OPEN_CALLS = """SELECT i.id, i.turn, i.body ->> 'title' AS title, i.body ->> 'status' AS status FROM item i
 JOIN turn t ON t.id = i.turn WHERE i.kind = 'tool' AND t.state <> 'running'
 AND i.body ->> 'status' IN ('pending', 'running')"""


@dataclass(frozen=True)
class Record:
    """The ledger's rows that tell of conversations. `excused`: claims that an entry says may be missing. `needless`:
    those of notices that were dropped, because what they tell of was settled, or a later notice tells of it."""

    sessions: Mapping[int, Json]
    turns: Mapping[int, Json]
    entries: Sequence[Json]
    claims: Mapping[int, Json]
    events: Sequence[Json]
    sources: Mapping[int, str]  # of everything that was heard, commands too
    commands: Collection[int]
    excused: Collection[int]
    open_calls: Sequence[Json]
    needless: Collection[int] = ()

    @classmethod
    def read(cls, db: apsw.Connection) -> Record:
        with db:  # one moment
            return cls(
                sessions={row["id"]: row for row in _rows(db, "SELECT id, key, home, erased FROM session")},
                turns={row["id"]: row for row in _rows(db, "SELECT id, root, state FROM turn ORDER BY id")},
                entries=_rows(db, _ENTRIES),
                claims={row["id"]: row for row in _rows(db, _CLAIMS)},
                events=_rows(db, _EVENTS),
                sources={row["id"]: row["source"] for row in _rows(db, "SELECT id, source FROM event")},
                commands={row["event"] for row in _rows(db, "SELECT event FROM command")},
                excused={row["claim"] for row in _rows(db, _EXCUSED)},
                open_calls=_rows(db, _OPEN_CALLS),
                needless={row["claim"] for row in _rows(db, _NEEDLESS)},
            )


def read_record(ledger: Path) -> Record:
    """From a ledger that a gateway may have open."""
    db = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(10_000)
        return Record.read(db)
    finally:
        db.close()


def judge_conversations(record: Record, chats: Chats, narrates_all: Collection[str] = ()) -> Iterator[str]:
    """What is broken, a sentence each. `chats` has a key for each channel whose people can be asked, also an empty one;
    `narrates_all`: channels where every block leaves, not only the closing text of a turn."""
    judge = _Judge(record, chats, narrates_all)
    yield from judge.check_chats()
    yield from judge.check_arrivals()
    yield from judge.check_answers()
    yield from judge.check_calls()


def _rows(db: apsw.Connection, sql: str) -> list[Json]:
    cursor = db.execute(sql)
    return [dict(zip([name for name, _ in cursor.get_description()], row, strict=True)) for row in cursor]


def _bare(text: str) -> str:
    """Without white space, some of which platforms take off where a long text was split, and without the backticks
    around a command in a notice, which Telegram draws as code."""
    return "".join(text.split()).replace("`", "")


class _Text:
    """A text that was said to one destination, and how much of it people see there."""

    def __init__(self, claim: Json, entry: Json, dest: str) -> None:
        self.claim, self.entry, self.dest = claim, entry, dest
        self.rest = [_bare(entry["text"])]  # in each of its versions: an edit replaces it
        self.places: list[int] = []

    def __repr__(self) -> str:
        return f"{self.entry['text'][:80]!r}"

    def begins_with(self, shown: str) -> bool:
        return any(rest and rest.startswith(shown) for rest in self.rest)

    def take(self, shown: str, place: int) -> None:
        self.places.append(place)
        self.rest = [rest[len(shown) :] for rest in self.rest if rest.startswith(shown)]

    @property
    def whole(self) -> bool:
        return "" in self.rest


class _Told(NamedTuple):
    """One message in a chat."""

    place: int
    text: str


class _Judge:
    def __init__(self, record: Record, chats: Chats, narrates_all: Collection[str]) -> None:
        self.record, self.narrates_all = record, narrates_all
        self.channels = set(chats)
        self.chats: defaultdict[str, list[_Told]] = defaultdict(list)
        for channel, messages in chats.items():
            for place, (address, text) in enumerate(messages):
                self.chats[f"{channel}:{address}"].append(_Told(place, text))
        self.texts = self._said_texts()  # by claim
        self.roots: defaultdict[int, list[Json]] = defaultdict(list)
        for turn in record.turns.values():
            self.roots[turn["root"]].append(turn)
        self.claims_of_root: defaultdict[int, list[Json]] = defaultdict(list)
        for claim in record.claims.values():
            self.claims_of_root[claim["root"]].append(claim)

    def _said_texts(self) -> dict[int, _Text]:
        found: dict[int, _Text] = {}
        for entry in self.record.entries:
            claim = self.record.claims.get(entry["claim"])
            if claim is None or entry["session"] != claim["session"] or claim["outcome"] != "said":
                continue
            if claim["kind"] == "edit" and claim["edits"] in found:
                found[claim["edits"]].rest.append(_bare(entry["text"]))
            elif claim["kind"] in ("text", "ask"):
                found[claim["id"]] = _Text(claim, entry, self._dest(claim))
        return found

    def _dest(self, claim: Json) -> str:
        """What was shown before its turn ended names no destination: it was shown at home."""
        return str(claim["dest"] or self.record.sessions[claim["session"]]["home"] or "")

    def _leaves(self, dest: str | None) -> bool:
        return dest is not None and dest.partition(":")[0] in self.channels

    # ------------------------------------------------------------ what chats show

    def check_chats(self) -> Iterator[str]:
        """Each message in a chat is a text of the record, told once, and in its order."""
        by_dest: defaultdict[str, list[_Text]] = defaultdict(list)
        for text in self.texts.values():
            by_dest[text.dest].append(text)
        for dest, messages in self.chats.items():
            # A lost attempt may have said the same words: the message is the text that stands.
            standing_first = sorted(by_dest[dest], key=lambda text: bool(text.entry["superseded"]))
            for told in messages:
                yield from self._match(dest, told, standing_first)
            yield from self._check_order(dest, by_dest[dest])

    def _match(self, dest: str, told: _Told, texts: Sequence[_Text]) -> Iterator[str]:
        shown = _bare(told.text)
        if shown == RESERVED:
            return
        exact = (text for text in texts if not text.places and shown in text.rest)
        begun = (text for text in texts if text.places and text.begins_with(shown))
        fresh = (text for text in texts if not text.places and text.begins_with(shown))
        found = next(exact, None) or next(begun, None) or next(fresh, None)
        if found is not None:
            found.take(shown, told.place)
        elif any(shown == _bare(text.entry["text"]) for text in texts):
            yield f"law 5: people at {dest} read {told.text[:80]!r} more often than the record has it"
        else:
            yield f"law 6: people at {dest} read {told.text[:80]!r}, which no entry says"

    def _check_order(self, dest: str, texts: Sequence[_Text]) -> Iterator[str]:
        """Only what a tool sent may overtake other text; what a lost attempt left behind leaves with its turn. A text
        is recorded once it is whole. What may not have arrived, as a notice says, may have come when its platform was
        ready."""
        by_session: defaultdict[int, list[_Text]] = defaultdict(list)
        for text in sorted((text for text in texts if text.places), key=lambda text: text.places[0]):
            late = text.claim["id"] in self.record.excused
            if text.claim["how"] != "recovery" and not self._is_of_lost_turn(text.claim) and not late:
                by_session[text.claim["session"]].append(text)
        for arrived in by_session.values():
            for n, text in enumerate(arrived):
                for before in arrived[:n]:
                    tool_alone = before.claim["how"] == "tool" and text.claim["how"] != "tool"
                    if before.claim["id"] > text.claim["id"] and not tool_alone:
                        yield f"law 7: people at {dest} read {text} behind {before}, and the record is the other way"
                        break

    def _is_of_lost_turn(self, claim: Json) -> bool:
        turn = self.record.turns.get(claim["turn"])
        return turn is not None and turn["state"] == "lost"

    # ------------------------------------------------------------ what has to be there

    def check_arrivals(self) -> Iterator[str]:
        """Whatever leaves at once is in its chat, and the closing text of each turn that ended well."""
        for text in self.texts.values():
            if text.claim["id"] in self.record.needless:
                if text.places:
                    yield f"law 7: people at {text.dest} read {text}, which was dropped"
                continue
            if text.claim["id"] in self.record.excused or not self._leaves(text.dest):
                continue
            home = self.record.sessions[text.claim["session"]]["home"]
            at_once = text.claim["how"] in ("tool", "notice") or (text.claim["how"] == "block" and text.dest != home)
            narrated = text.claim["how"] == "block" and text.dest.partition(":")[0] in self.narrates_all
            if text.places and not text.whole:
                yield f"law 7: people at {text.dest} read a part of {text}, and the rest is nowhere"
            elif not text.places and (at_once or narrated) and not self._is_erased(text):
                yield f"law 6: {text} stands in the record, and people at {text.dest} never got it"
        for root, attempts in self.roots.items():
            if attempts[-1]["state"] == "done":
                yield from self._check_closing(root, attempts[-1])

    def _is_erased(self, text: _Text) -> bool:
        return bool(text.entry["seq"] <= self.record.sessions[text.claim["session"]]["erased"])

    def _check_closing(self, root: int, final: Json) -> Iterator[str]:
        """A turn that ended well, with a text for home: its last one is there."""
        own = [claim for claim in self.claims_of_root[root] if claim["kind"] == "text" and self._is_for_home(claim)]
        spoken = [claim for claim in own if claim["turn"] == final["id"]]
        closing = [claim for claim in spoken if claim["how"] == "block"] if spoken else own
        if not closing:
            return
        last = closing[-1]
        first = last["part_of"] or last["id"]
        block = [claim for claim in own if first in (claim["id"], claim["part_of"])] or [last]
        for claim in block:
            text = self.texts.get(claim["echo_of"] or claim["id"])
            if text is None or text.claim["id"] in self.record.excused or self._is_erased(text):
                continue
            if self._leaves(text.dest) and not text.places and not text.entry["superseded"]:
                yield f"law 12: turn {final['id']} ended well with {text}, and nothing was sent to {text.dest}"

    def _is_for_home(self, claim: Json) -> bool:
        home = self.record.sessions[claim["session"]]["home"]
        return claim["how"] in ("tool", "block", "recovery") and claim["dest"] in (home, None, "")

    # ------------------------------------------------------------ Law 12

    def check_answers(self) -> Iterator[str]:
        """Behind every event that asked for a turn stands something of it that its person can see."""
        by_session: defaultdict[int, list[Json]] = defaultdict(list)
        for entry in self.record.entries:
            by_session[entry["session"]].append(entry)
        for event in self.record.events:
            final, session = self.record.turns[event["turn"]], self.record.sessions[event["session"]]
            if event["kind"] == "heartbeat" or event["seq"] <= session["erased"]:
                continue
            name = f"{event['key']} ({event['kind']}) in {session['key']}"
            if final["state"] not in FINISHED:
                yield f"law 12: {name} is bound to turn {final['id']}, which is {final['state']} though all is at rest"
                continue
            behind = [entry for entry in by_session[session["id"]] if entry["seq"] > event["seq"]]
            attempts = {turn["id"] for turn in self.roots[final["root"]]}
            if any(entry["turn"] in attempts and self._is_seen(entry, session["home"]) for entry in behind):
                continue
            if final["state"] == "cancelled" and self._is_stopped_there(behind, session["home"]):
                continue
            where = session["home"] or "the transcript"
            yield f"law 12: nobody at {where} can see what became of {name}: turn {final['id']} is {final['state']}"

    def _is_seen(self, entry: Json, home: str | None) -> bool:
        """Words for whoever is at home: on a page the entry itself, in a chat a message, or the notice of its loss."""
        more = json.loads(entry["more"] or "{}")
        if entry["role"] not in ("agent", "notice") or "to" in more:
            return False
        if more.get("kind") in ("reaction", "edit", "refused"):
            return False
        if not self._leaves(home):
            return True
        claim = self.record.claims.get(entry["claim"])
        if claim is None:
            return False
        text = self.texts.get(claim["id"])
        return claim["id"] in self.record.excused or text is None or bool(text.places)

    def _is_stopped_there(self, behind: Sequence[Json], home: str | None) -> bool:
        """Whether people said something at home afterwards, a command or a message: it has an answer of its own."""
        source = f"channel:{(home or '').partition(':')[0]}"
        heard = [entry["event"] for entry in behind if entry["role"] == "user" and entry["event"] is not None]
        return any(event in self.record.commands or self.record.sources[event] == source for event in heard)

    def check_calls(self) -> Iterator[str]:
        for call in self.record.open_calls:
            name = f"tool call {call['title']!r} of turn {call['turn']}"
            yield f"law 8: {name} is {call['status']}, and its turn is over"
