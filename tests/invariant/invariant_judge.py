"""The one judge of every path: what people received, what the record holds, and what the agent is told next.

It reads the ledger beside the gateway, as a file. A row of the transcript is written in one line:

    user: TEXT                 what a person said
    agent: TEXT                what the agent said; `agent partial`, `agent superseded`, `agent partial superseded`
    sent: TEXT                 what it sent by a tool
    notice KIND: TEXT          what Semel said
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from semel.testing.scripted_agent.script import strip_marked_text

Json = dict[str, Any]
Talk = Sequence[tuple[str, str]]
MACHINE = ("(empty)", "continue exactly", "[System:", "[semel", "session restored")  # nobody ever said these
MARKED = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One entry as the ledger holds it. `turn`: the turn that it belongs to, or that answered it."""

    seq: int
    role: str
    text: str
    turn: int | None
    event: int | None
    claim: int | None
    partial: bool
    superseded: bool
    live: bool
    more: Json

    def __str__(self) -> str:
        if self.role == "notice":
            return f"notice {self.more.get('kind')}: {self.text}"
        marks = "".join(f" {name}" for name in ("partial", "superseded") if getattr(self, name))
        return f"{'sent' if self.more.get('tool') else self.role}{marks}: {self.text}"


def asked(db: apsw.Connection, sql: str, *values: Any) -> list[Json]:
    """Rows as dictionaries. (apsw, as the gateway: two SQLite libraries in one process break each other's locks.)"""
    cursor = db.cursor()
    cursor.row_trace = lambda one, row: dict(zip([name for name, _ in one.get_description()], row, strict=True))
    return list(cursor.execute(sql, values))


@dataclass
class Record:
    """One session of a ledger, read once."""

    rows: list[Row] = field(default_factory=list)
    turns: dict[int, Json] = field(default_factory=dict)
    bound: dict[int, int | None] = field(default_factory=dict)  # event -> turn
    parts: list[Json] = field(default_factory=list)  # in the order of their line
    claims: list[Json] = field(default_factory=list)

    @classmethod
    def of(cls, ledger: Path, session: str) -> Record:
        with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db, db:
            return cls._read(db, session)

    @classmethod
    def _read(cls, db: apsw.Connection, key: str) -> Record:
        ((session,),) = db.execute("SELECT id FROM session WHERE key = ?", (key,))
        bound = dict(db.execute("SELECT event, turn FROM hearing WHERE session = ?", (session,)))
        rows = []
        for one in asked(db, "SELECT * FROM entry WHERE session = ? ORDER BY seq", session):
            turn = bound.get(one["event"]) if one["event"] is not None else one["turn"]
            flags = (bool(one[name]) for name in ("partial", "superseded", "live"))
            more = json.loads(one["more"] or "{}")
            rows.append(Row(one["seq"], one["role"], one["text"], turn, one["event"], one["claim"], *flags, more))
        turns = {one["id"]: one for one in asked(db, "SELECT * FROM turn WHERE session = ? ORDER BY id", session)}
        claims = asked(db, "SELECT * FROM claim WHERE session = ? ORDER BY id", session)
        parts = asked(
            db,
            "SELECT part.* FROM part JOIN claim ON claim.id = part.claim WHERE claim.session = ? ORDER BY line",
            session,
        )
        return cls(rows, turns, bound, parts, claims)

    def root(self, turn: int | None) -> int | None:
        return None if turn is None else int(self.turns[turn]["root"])

    def in_turns(self) -> list[Row]:
        """The rows in order of turns: what each was asked, then what was said and told in it."""
        latest, keyed = 0, []
        for row in self.rows:
            of = self.root(row.turn) or latest
            latest = max(latest, of)
            keyed.append(((of, 0 if row.event is not None else 1, row.seq), row))
        return [row for _, row in sorted(keyed, key=lambda one: one[0])]


def transcript(record: Record, said: Sequence[str]) -> None:
    """Laws 2, 3, 4, 6: what was heard is there once; what was said is there as what it was; nothing else is."""
    rows = record.rows
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), "no gaps"
    assert [row.text for row in rows if row.role == "user"] == list(said), "people's words, once each, in order"
    assert not [row for row in rows if row.live], "nothing streams any more"
    for row in rows:
        assert row.role == "user" or row.text.strip(), (row, "an entry that says nothing")
        machine = [words for words in MACHINE if words in row.text and row.role in ("user", "agent")]
        assert not machine, (row, machine, "machine text in somebody's mouth")
    for event, turn in record.bound.items():
        assert turn is not None, (event, "nobody took it")
        states = [one["state"] for one in record.turns.values() if one["root"] == record.root(turn)]
        assert states[-1] in ("done", "failed", "cancelled"), (event, states)
        assert set(states[:-1]) <= {"lost"}, states
        told = [r for r in rows if r.role in ("agent", "notice") and record.root(r.turn) == record.root(turn)]
        assert told, (event, "neither answered, nor told why not")
    said_claims = [one for one in record.claims if one["outcome"] == "said"]
    by_claim = {row.claim: row for row in rows if row.claim is not None}
    for claim in said_claims:
        assert by_claim[claim["id"]].text == claim["text"], "what was said is what stands there"


def shown(record: Record, expected: Sequence[str], after: int = 1) -> None:
    """The rows behind the first `after` are these; a notice may be told in more words than expected."""
    found = [str(row) for row in record.rows[after:]]
    good = len(found) == len(expected) and all(map(_fits, found, expected))
    assert good, "\n".join(["", "expected:", *expected, "", "found:", *found])


def _fits(found: str, expected: str) -> bool:
    return found == expected or (expected.startswith("notice") and found.startswith(expected))


def received(record: Record, chat: Sequence[str], expected: Sequence[str]) -> None:
    """What a chat showed, in its order, is what the record says left, and nothing is left over (Laws 6, 7)."""
    text = {row.claim: row.text for row in record.rows if row.claim is not None}
    left = [text[part["claim"]] for part in record.parts if part["state"] == "sent"]
    assert {part["state"] for part in record.parts} <= {"sent"}
    assert list(chat) == left, "what arrived is what the record says, in its order"
    ordered(record)
    answered(record)
    good = len(chat) == len(expected) and all(map(str.startswith, chat, expected))
    assert good, "\n".join(["", "expected in the chat:", *map(repr, expected), "", "found:", *map(repr, chat)])


def ordered(record: Record) -> None:
    """The chat got its texts in the order of the entries; only what a tool sent may overtake other text (Law 7)."""
    seq = {row.claim: row.seq for row in record.rows if row.claim is not None}
    how = {claim["id"]: claim["how"] for claim in record.claims}
    left = [part["claim"] for part in record.parts if part["state"] == "sent" and not part["marked"]]
    for kept in ("tool", "block"):
        order = [seq[claim] for claim in left if how[claim] in (kept, "notice", "recovery")]
        assert order == sorted(order), (order, "what a person received, in its order, is what the transcript says")


def answered(record: Record) -> None:
    """Behind each message stands something that left for the chat, in the turn that took it (Law 12).

    Here every stop comes from another face, so it has to be told as well.
    """
    left = {part["claim"] for part in record.parts if part["state"] == "sent"}
    for row in record.rows:
        if row.role != "user" or row.turn is None:
            continue
        root = record.root(row.turn)
        seen = [r for r in record.rows if r.claim in left and record.root(r.turn) == root and r.seq > row.seq]
        assert seen, (row, "nobody in the chat was told what became of it")


def view(record: Record, entries: Iterable[Json]) -> None:
    """What somebody who watched all the time sees last is the record, byte for byte (Law 8)."""
    seen = [
        (e["seq"], e["role"], e["text"], bool(e.get("partial")), bool(e.get("superseded")), bool(e.get("live")))
        for e in sorted(entries, key=lambda e: int(e["seq"]))
    ]
    assert seen == [(r.seq, r.role, r.text, r.partial, r.superseded, r.live) for r in record.rows]


# -------------------------------------------------------------------- what the agent is told


def bare(text: str) -> str:
    return "".join(text.split())


def history(record: Record, talk: Talk) -> None:
    """A model's next request: each message of a person once, and behind it what answered it (Law 4).

    `talk` is (role, text) of the whole request; its last user message is the newest one.
    """
    flat = pieces(talk)
    asked = [text for role, text in flat if role == "user"]
    rows = record.in_turns()
    newest = [row.text for row in rows if row.role == "user"]
    assert asked == newest, "each once, in order of turns, nothing made up"
    groups: list[tuple[str, str]] = []
    for role, text in flat:
        if role == "user":
            groups.append((text, ""))
        elif role == "assistant":
            assert groups, ("an answer before any question", text)
            groups[-1] = (groups[-1][0], groups[-1][1] + text)
    wanted = [(asked, answer) for asked, answer in answers(rows) if asked != newest[-1]]
    assert [(a, bare(b)) for a, b in groups[:-1]] == [(a, bare(b)) for a, b in wanted], "each answered by its own"
    marked = "\n".join(text for role, text in flat if role == "marked")
    for row in rows:
        if row.role == "notice":
            assert marked.count(f"]\n{row.text}\n") == 1, (row, "told once, as a notice", marked)
    assert not any(words in marked for words in MACHINE if words != "[semel"), marked


def cut_in_history(record: Record, talk: Talk) -> None:
    """A model reads its own text up to where it was cut off, and that it was cut off there."""
    flat = pieces(talk)
    for row in (row for row in record.rows if row.partial and not row.superseded):
        at = [n for n, (role, text) in enumerate(flat) if role == "assistant" and bare(text).endswith(bare(row.text))]
        assert len(at) == 1, (row, flat)
        assert "your message was cut off there" in flat[at[0] + 1][1], (row, flat)
    texts = [text for role, text in flat if role == "assistant"]
    for row in (row for row in record.rows if row.superseded):
        assert row.text not in texts, "what was said anew is not told"


def answers(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(what a person said, all that was said to it), without what a later attempt said anew."""
    out: list[tuple[str, str]] = []
    for row in rows:
        if row.role == "user":
            out.append((row.text, ""))
        elif row.role == "agent" and not row.superseded:
            out[-1] = (out[-1][0], out[-1][1] + row.text)
    return out


def pieces(talk: Talk) -> list[tuple[str, str]]:
    """(user, assistant or marked; text): marked is what nobody said."""
    return [piece for role, text in talk for piece in _pieces(role, text)]


def _pieces(role: str, text: str) -> list[tuple[str, str]]:
    """A message, parted into what somebody said and what is marked as told by nobody."""
    if role != "user":
        return [(role, text)] if text.strip() else []
    out, at = [], 0
    for found in MARKED.finditer(text):
        out += [("user", text[at : found.start()].strip("\n")), ("marked", found[0])]
        at = found.end()
    out.append(("user", text[at:].strip("\n")))
    return [one for one in out if one[1].strip()]


def prompts(record: Record, given: Sequence[str]) -> None:
    """What an agent with a memory of its own was given: each message as often as a turn asked it, unchanged."""
    people = [row for row in record.rows if row.role == "user"]
    asked = [strip_marked_text(text) for text in given]
    for row in people:
        root = record.root(row.turn)
        times = [one for one in record.turns.values() if one["root"] == root and one["how"] in ("start", "restart")]
        assert sum(one.count(row.text) for one in asked) == len(times), (row.text, asked, times)
    resumed = [one for one in record.turns.values() if one["how"] == "resume"]
    assert asked.count("") == len(resumed), "only a turn that goes on is asked without anybody's words"
    for one in asked:
        for row in people:
            one = one.replace(row.text, "")
        assert not one.strip(), (one, "nothing but people's words outside our marks")
    assert not any("(empty)" in text for text in given)


def cut_off(record: Record, given: Sequence[str]) -> None:
    """What an attempt was cut off in is told to the agent once, and whether it reached the person (Laws 6, 9)."""
    left = {part["claim"] for part in record.parts}
    for row in record.rows:
        if not row.partial:
            continue
        lines = [line for text in given for block in MARKED.findall(text) for line in block.splitlines()]
        told = [line for line in lines if repr(row.text) in line]
        unreached = ["it never left for the person" in line for line in told]
        assert unreached in ([row.claim not in left], [True, False]), (row, told)  # the latter: it left afterwards
    notes = "\n".join(block for text in given for block in MARKED.findall(text))
    for row in record.rows:
        if row.role == "notice":
            assert notes.count(f"- {row.text}\n") <= 1, (row, notes)


def retold(record: Record, given: str) -> None:
    """An agent without any memory is told the whole conversation: each message once, and what answered it."""
    rows = record.in_turns()
    newest = max(row.seq for row in rows if row.role == "user")
    wanted = [
        f"{row.role}{' (cut off there)' if row.partial else ''}: {row.text}"
        for row in rows
        if row.seq < newest and not row.superseded
    ]
    blocks = MARKED.findall(given)
    assert blocks[0].splitlines()[1:-1] == "\n".join(wanted).splitlines()
    assert len(blocks) == 1, (blocks, "nothing is told twice")
