"""The judge: what everybody outside saw, held against each other and against the ledger, when all is at rest.

Each check gives sentences that say what is broken; none, where all holds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import apsw

from proof.conversations import judge_conversations, read_record
from proof.crash import script
from proof.crash.platforms import Platform
from proof.crash.world import World
from semel.ledger.admin import books
from semel.ledger.backup import settle_restored
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerError

Json = dict[str, Any]
PUT_BACK = "was restored to its state"
PARTS = "SELECT id, channel, dest, key, state, line, receipt, op ->> 'text' AS text FROM part ORDER BY line"
ENTRIES = """SELECT n.seq, n.role, n.text, n.partial, n.superseded, n.live, n.more ->> 'kind' AS about, e.kind, e.key
 FROM entry n JOIN session s ON s.id = n.session LEFT JOIN event e ON e.id = n.event WHERE s.key = ? ORDER BY n.seq"""
HEARD = """SELECT e.id, e.source, e.key, e.kind, h.turn, t.state, t.root FROM event e
 LEFT JOIN hearing h ON h.event = e.id LEFT JOIN turn t ON t.id = h.turn ORDER BY e.id"""


class Aftermath:
    """What a world left behind."""

    def __init__(self, world: World) -> None:
        self.world = world
        with closing(apsw.Connection(str(world.house.ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            self.parts = _rows(db, PARTS)
            self.entries = _rows(db, ENTRIES, script.SESSION)
            self.events = _rows(db, HEARD)
            self.copied = _rows(db, "SELECT copied FROM ledger")
            self.lives = _rows(db, "SELECT copied, at FROM restore")
            self.turns = _rows(db, "SELECT id, root, attempt, how, tools, state FROM turn ORDER BY id")
        log = world.place / "agent.log"
        self.agent = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        self.ends = [one["kind"] for one in self.events if one["kind"] in ("exec.finished", "exec.lost")]
        texts = {one["text"] for one in self.entries}
        is_known = {"run": bool(self.ends), "edit": script.E1 in texts}
        self.asked = [name for name in world.asked if is_known.get(name, True)]
        self.doubted = {f"m{n}" for n in (3, 4)} if "copied" in world.asked else set[str]()  # keys of events

    def wanted(self) -> Iterator[tuple[str, str]]:
        """(address, text) of all that people must see."""
        for name in self.asked:
            for address, texts in script.SAYS[name].items():
                yield from ((address, text) for text in texts)


def judge(world: World) -> list[str]:
    """What is broken, a sentence each."""
    found = list(world.faults)
    try:
        with Store.open_sync(world.house.ledger) as store:
            broken = [book for book in store.read_sync(books.audit) if not book.ok]
        found += [f"the book {book.name!r} does not balance: {book.broken[:2]}" for book in broken]
        after = Aftermath(world)
    except (LedgerError, apsw.Error) as fault:
        return [*found, f"the ledger cannot be read: {fault}"]
    checks = (
        _platforms, _conversations, _transcript, _turns, _restored, _agent, _watcher, _callers, _reporter, _editors,
    )  # fmt: skip
    for check in checks:
        found += check(after)
    return found


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[Json]:
    cursor = db.execute(sql, values)
    return [dict(zip([name for name, _ in cursor.get_description()], row, strict=True)) for row in cursor]


# ---------------------------------------------------------------- what the platforms have


def _platforms(after: Aftermath) -> Iterator[str]:
    world = after.world
    for name, platform in (("post", world.post), ("bird", world.bird), ("hook", world.hook)):
        parts = {one["key"]: one for one in after.parts if one["channel"] == name}
        yield from _platform(name, platform, parts)
    shown = Counter((one.address, one.text) for each in (world.post, world.bird, world.hook) for one in each.log)
    held = {(one["dest"].partition(":")[2], one["text"]) for one in after.parts if one["state"] == "held"}
    for place in after.wanted():
        if shown[place] != 1 and not (shown[place] == 0 and place in held):
            yield f"people at {place[0]!r} see {place[1]!r} {shown[place]} times"
    if held and not any(one["role"] == "notice" for one in after.entries):
        yield f"{sorted(held)} is held, and nobody was told"


def _conversations(after: Aftermath) -> Iterator[str]:
    """Laws 6, 7, 12: each chat is what the entries say, in their order, and nobody waits for an answer."""
    platforms = {"post": after.world.post, "bird": after.world.bird, "hook": after.world.hook}
    chats = {name: [(one.address, one.text) for one in each.log] for name, each in platforms.items()}
    return judge_conversations(read_record(after.world.house.ledger), chats)


def _platform(name: str, platform: Platform, parts: dict[str, Json]) -> Iterator[str]:
    """Law 7, by class: order kept, nothing twice, nothing lost, nothing that no row speaks of."""
    yield from platform.faults
    times = Counter(one.key for one in platform.log)
    for one in platform.log:
        part = parts.get(one.key)
        if part is None:
            yield f"{name} was sent {one.text!r}, of which the ledger knows nothing"
        elif part["text"] != one.text:
            yield f"{name} was sent {one.text!r}, and the ledger says {part['text']!r}"
        if times[one.key] > 1:
            yield f"{name} was sent {one.text!r} {times[one.key]} times"
    known = sorted((parts[one.key] for one in platform.log if one.key in parts), key=itemgetter("dest"))
    for dest, sent in groupby(known, itemgetter("dest")):
        if any(later["line"] < earlier["line"] for earlier, later in pairwise(sent)):
            shown = [one.text for one in platform.log if f"{name}:{one.address}" == dest]
            yield f"{dest} shows messages in another order than they were said: {shown}"
    for part in parts.values():
        if part["state"] == "sent" and part["key"] not in times:
            yield f"{name} never got {part['text']!r}, which is recorded as sent"
        elif part["state"] == "sent" and part["receipt"] != part["key"]:  # what these platforms call a message
            yield f"{part['text']!r} was sent to {name} as {part['key']}, and the receipt is {part['receipt']!r}"
        elif part["state"] not in ("sent", "held") or (part["state"] == "held" and name != "bird"):
            yield f"{part['text']!r} for {name} ended as {part['state']}"


# ---------------------------------------------------------------- what the ledger says


def _transcript(after: Aftermath) -> Iterator[str]:
    """Laws 1, 4, 5, 6: each message one entry, in order, and nothing that nobody said."""
    heard = [one["text"] for one in after.entries if one["role"] == "user"]
    people = {
        "pair": [script.M1, script.M2], "desk": [script.H1], "copied": [script.M4, script.M5], "job": [script.M3],
        "edit": [script.E1], "hook": [script.H2],
    }  # fmt: skip
    wanted = [text for name in after.asked for text in people.get(name, ())]
    if heard != wanted:
        yield f"people said {wanted}, and the transcript has {heard}"
    stands = Counter(one["text"] for one in after.entries if one["role"] == "agent" and not one["superseded"])
    says = [text for _, text in after.wanted()] + [script.LOOKING] * ("pair" in after.asked)
    for text in says:
        if stands[text] != 1:
            yield f"the transcript has {text!r} {stands[text]} times"
    for one in after.entries:
        if one["live"]:
            yield f"entry {one['seq']} still streams"
        cut = one["partial"] or one["superseded"]
        known = one["text"] in says or (cut and any(text.startswith(one["text"]) for text in says))
        if one["role"] == "agent" and not known:
            yield f"the transcript has {one['text']!r}, which nobody said"
    stages = [stage for one in after.entries if (stage := _stage(one)) is not None]
    if any(later < earlier for earlier, later in pairwise(stages)):
        yield f"the transcript is out of order: {[one['text'] for one in after.entries]}"


def _stage(entry: Json) -> int | None:
    """Which question an entry belongs to, by its place in the script; None: to any."""
    text = entry["text"]
    for n, (name, says) in enumerate(script.SAYS.items()):
        own = [text_ for texts in says.values() for text_ in texts]
        if name in script.marks(text) or text in own or (name == "pair" and script.LOOKING.startswith(text)):
            return n
    return None


def _turns(after: Aftermath) -> Iterator[str]:
    """Laws 2, 3, 9: each event in one turn that is done, one turn for each question, and no attempt too many."""
    keys = Counter((one["source"], one["key"]) for one in after.events)
    for one in after.events:
        if one["state"] != ("failed" if one["key"] in after.doubted else "done"):
            yield f"event {one['key']} is in no turn that is done, but in one that is {one['state']}"
        if one["key"] is None or keys[one["source"], one["key"]] > 1:
            yield f"event {one['key']} of {one['source']} was heard {keys[one['source'], one['key']]} times"
    done = [one for one in after.turns if one["state"] == "done"]
    asked = [name for name in after.asked if name != "copied"]
    if len(done) != len(asked):
        yield f"{len(done)} turns are done, and {asked} were asked"
    lost = [one for one in after.turns if one["state"] not in ("done", "failed")]
    if any(one["state"] != "lost" for one in lost) or len(lost) > after.world.house.deaths:
        yield f"turns ended as {lost}, though the gateway died {after.world.house.deaths} times"


def _restored(after: Aftermath) -> Iterator[str]:
    """Law 14: settled once; what may have been answered is answered by a notice, and people are told once."""
    times = int("copied" in after.asked)
    if after.copied[0]["copied"] is not None or len(after.lives) != times:
        yield f"the ledger was put back {times} times, and is {after.copied}, after {after.lives}"
    failed = [one for one in after.turns if one["state"] == "failed"]
    if len(failed) != times:
        yield f"{failed} failed, and what ran and waited when the ledger was copied is one turn"
    notices = [one["text"] for one in after.entries if one["about"] == settle_restored.KIND]
    room = [one.text for one in after.world.post.log if PUT_BACK in one.text]
    if len(notices) != times or room != notices:
        yield f"the transcript has {notices} of the restore, and people at 'room' were told {room}"
    if any("6 messages" not in text or "2 requests" not in text for text in notices):
        yield f"six messages and two requests are in doubt, and people were told {notices}"
    held = {one["text"] for one in after.parts if one["state"] == "held"}
    if times and held != {script.BIRD_1, script.BIRD_2}:
        yield f"{held} is held of what was on its way where nothing can be looked up"


def _agent(after: Aftermath) -> Iterator[str]:
    """Law 9, as the agent saw it: what it was asked, and that nothing ran twice.

    Only what is recorded can be known: an attempt that died before its tool call was, is made anew.
    """
    prompts = [one for one in after.agent if "asked" in one]
    if len(prompts) > len(after.turns):
        yield f"the agent was prompted {len(prompts)} times in {len(after.turns)} turns"
    if any(len(one["asked"]) != 1 for one in prompts):
        yield f"the agent was asked several things in one prompt: {prompts}"
    for one in after.turns:
        before = [two for two in after.turns if two["root"] == one["root"] and two["attempt"] < one["attempt"]]
        if one["how"] == "restart" and any(two["tools"] for two in before):
            yield f"turn {one['id']} began anew, though a tool call of its root had started"
    anew = sum(one["how"] == "restart" for one in after.turns)
    calls = [one["calls"] for one in after.agent if "calls" in one]
    if len(calls) > len(set(calls)) + anew:
        yield f"the agent called its tool {len(calls)} times, and {anew} turns began anew"


# ---------------------------------------------------------------- what others saw


def _watcher(after: Aftermath) -> Iterator[str]:
    """Law 8: view text = entry text, each once, no gap."""
    watcher = after.world.watcher
    yield from (f"the watching client: {fault}" for fault in watcher.view.faults)
    marks = ("role", "text", "partial", "superseded", "live")
    record = {one["seq"]: [one[name] or 0 for name in marks] for one in after.entries}
    seen = {seq: [one.get(name) or 0 for name in marks] for seq, one in watcher.view.entries.items()}
    for seq in sorted(record.keys() | seen.keys()):
        if record.get(seq) != seen.get(seq):
            yield f"the watching client sees {seen.get(seq)} where entry {seq} is {record.get(seq)}"
    if list(record) != list(range(1, len(record) + 1)):
        yield f"the transcript has gaps: {list(record)}"


def _callers(after: Aftermath) -> Iterator[str]:
    """Law 1: whoever was told that an event is accepted was told of one event, and it is there."""
    known = {one["key"]: one["id"] for one in after.events}
    for key, answers in after.world.caller.answers.items():
        taken = [told for status, told in answers if status == 202]
        odd = [told for status, told in answers if status not in (202, 503)]
        if odd or not taken:
            yield f"the caller of {key} was answered {answers}"
        if sum(told["status"] == "accepted" for told in taken) > 1:
            yield f"{key} was accepted more than once: {taken}"
        if any(told["event"] != known.get(key) for told in taken):
            yield f"the caller of {key} was told of event {taken[-1]['event']}, and the ledger has {known.get(key)}"


def _reporter(after: Aftermath) -> Iterator[str]:
    """A command that was run is reported: begun at most once, ended exactly once."""
    world = after.world
    if "run" not in world.asked:
        return
    begun = sum(one["kind"] == "exec.started" for one in after.events)
    nothing = world.exec_died and not world.exec_known and not begun
    known = world.exec_finished or not (world.exec_died or (world.process == "jobs" and world.control.struck))
    if begun > 1 or len(after.ends) != (0 if nothing and not after.ends else 1):
        yield f"of a command that was run once, {begun} beginnings and the ends {after.ends} were heard"
    if known and after.ends == ["exec.lost"]:
        yield "a command whose end was known is reported as lost"
    if world.ran > 1 or (world.ran == 0 and after.ends == ["exec.finished"]):
        yield f"a command was run {world.ran} times, and its ends are {after.ends}"
    left = [one.parent.name for one in world.spooled()]
    if left and not world.faults:
        yield f"the spool still holds {left}"


def _editors(after: Aftermath) -> Iterator[str]:
    """Laws 1, 8: an editor's prompt that was answered is recorded; who loads the session sees each text once."""
    if "edit" not in after.world.asked:
        return
    first, second = after.world.editors
    answers = first.answers.get(3, [])
    if len(answers) > 1 or any("error" in answer for answer in answers):
        yield f"the editor's prompt was answered {answers}"
    if answers and "edit" not in after.asked:
        yield "the editor's prompt was answered, and is not recorded"
    if script.E1 in first.list_texts("user"):
        yield "the editor was shown its own prompt"
    if answers and first.list_texts("agent").count(script.HOME_5) != 1:
        yield f"the editor's prompt was answered, and it shows {first.list_texts('agent')}"
    for role in ("user", "agent"):
        said = [one["text"] for one in after.entries if one["role"] == role and not one["superseded"]]
        shown = [text for text in second.list_texts(role) if role == "user" or text in said]
        if shown != said:
            yield f"who loads the session sees {shown} where the transcript has {said}"
