"""What of the evidence breaks a law: one line each. Nothing here reads a clock, a file or a process."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from proof.conversations import judge_conversations
from proof.marking_agent import MARK
from proof.soak.evidence import Evidence
from proof.soak.plan import Channel
from proof.soak.platforms import Post
from proof.soak.traffic import Said

Json = dict[str, Any]
SETTLED = frozenset({"sent", "held", "rejected", "dropped"})
NOTICES = {"failed": "turn.failed", "cancelled": "turn.cancelled"}
"""What a person reads of a turn that did not answer, by its state."""
MOST_FAILED = 0.1
"""The share of messages that may fail visibly: agents die here three times in a row, but not that often."""


class Case:
    """The evidence, with what is looked up in it again and again."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.wanted = {one.message.mark: one for one in evidence.said}

    @cached_property
    def heard(self) -> Mapping[str, list[Json]]:
        """The events that hold each marker."""
        found: defaultdict[str, list[Json]] = defaultdict(list)
        for event in self.evidence.events:
            for mark in MARK.findall(json.loads(event["payload"] or "{}").get("text", "")):
                found[mark].append(event)
        return found

    @cached_property
    def entries(self) -> Mapping[str, list[Json]]:
        """By session."""
        found: defaultdict[str, list[Json]] = defaultdict(list)
        for entry in self.evidence.entries:
            found[entry["session"]].append(entry)
        return found

    @cached_property
    def spoken(self) -> Mapping[tuple[str, str], list[str]]:
        """What agents said and what stands of it (not cut off, not said anew), by session and marker."""
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for entry in self.evidence.entries:
            if entry["role"] == "agent" and not entry["superseded"]:
                for mark in set(MARK.findall(entry["text"])):
                    found[entry["session"], mark].append(entry["text"])
        return found

    def texts(self, said: Said, head: str) -> list[str]:
        """What was said about a message, whole, that begins so."""
        texts = self.spoken.get((said.message.session.key, said.message.mark), [])
        return [one for one in texts if one.startswith(head) and (one.endswith(".") or not head.endswith(": "))]

    @cached_property
    def roots(self) -> Mapping[int, list[Json]]:
        """Turns by root."""
        found: defaultdict[int, list[Json]] = defaultdict(list)
        for turn in self.evidence.turns:
            found[turn["root"]].append(turn)
        return found


def judge(evidence: Evidence) -> list[str]:
    """Every line is a law that does not hold."""
    case = Case(evidence)
    return [line for one in CHECKS for line in one(case)]


# -------------------------------------------------------------------- heard and recorded once


def heard_once(case: Case) -> Iterator[str]:
    """Each message is one event, with what was said; whoever was acknowledged to was told of that event."""
    for mark, said in case.wanted.items():
        events = case.heard.get(mark, [])
        if len(events) != 1:
            yield f"{mark} was heard {len(events)} times"
            continue
        event, told = events[0], [body for status, body in said.answers if status == 202]
        if json.loads(event["payload"])["text"] != said.message.text or event["session"] != said.message.session.key:
            yield f"{mark} was heard as something else: {event}"
        if any(body["event"] != event["id"] for body in told) or [b["status"] for b in told].count("accepted") > 1:
            yield f"{mark} was acknowledged as another event, or accepted twice: {told}, and it is {event['id']}"
        if said.message.route != "platform" and not told:
            yield f"{mark} was never acknowledged: {said.answers[-3:]}"
    odd = [one for one in case.evidence.said for status, _ in one.answers if status not in (202, 503)]
    yield from (f"{one.message.mark} was answered {one.answers[-3:]}" for one in odd)
    strange = [event for mark, events in case.heard.items() if mark not in case.wanted for event in events]
    strange += [event for event in case.evidence.events if not MARK.search(event["payload"] or "")]
    yield from (f"an event that nobody told: {event}" for event in strange)


def recorded_once(case: Case) -> Iterator[str]:
    """n messages in = n entries."""
    entries: defaultdict[int, list[Json]] = defaultdict(list)
    for entry in case.evidence.entries:
        if entry["role"] in ("user", "event"):
            entries[entry["event"]].append(entry)
    for mark, said in case.wanted.items():
        for event in case.heard.get(mark, []):
            found = entries.pop(event["id"], [])
            if [(one["session"], one["text"]) for one in found] != [(said.message.session.key, said.message.text)]:
                yield f"{mark} has {len(found)} entries: {found}"
    yield from (f"an entry of no message: {found}" for found in entries.values())


# -------------------------------------------------------------------- answered once


def answered_once(case: Case) -> Iterator[str]:
    """Each message is bound to one finished turn. It is answered there once, or people see that it was not."""
    notices = Counter(
        (entry["turn"], json.loads(entry["more"] or "{}").get("kind"))
        for entry in case.evidence.entries
        if entry["role"] == "notice"
    )
    deaf = {one.message.session.key for one in case.evidence.said if one.message.deed == "deaf"}
    for mark, said in case.wanted.items():
        for event in case.heard.get(mark, [])[:1]:
            state, answers = event["state"], case.texts(said, "Seen: ")
            if state == "done" and len(answers) != 1:
                yield f"{mark} was answered {len(answers)} times by the finished turn {event['turn']}: {answers}"
            elif state in NOTICES and (len(answers) > 1 or not notices[event["turn"], NOTICES[state]]):
                yield f"{mark} was {state} (turn {event['turn']}) and nobody can see it, or was answered: {answers}"
            elif state not in ("done", *NOTICES):
                yield f"{mark} is bound to no finished turn, but to {event['turn']}, which is {state}"
            if state == "cancelled" and said.message.session.key not in deaf:
                yield f"{mark} was stopped, and nobody stopped it"


def failed_seldom(case: Case) -> Iterator[str]:
    states = Counter(event["state"] for event in case.evidence.events)
    if states["failed"] > MOST_FAILED * sum(states.values()):
        yield f"{states['failed']} of {sum(states.values())} messages failed"


def said_once(case: Case) -> Iterator[str]:
    """What a tool said stands once; what was said twice on purpose stands twice."""
    for mark, said in case.wanted.items():
        event = next(iter(case.heard.get(mark, [])), {})
        done, deed = event.get("state") == "done", said.message.deed
        told, late, twice = (case.texts(said, head) for head in ("Told: ", "Late: ", "Ha"))
        if len(told) > 1 or (done and deed in ("tool", "reissue") and not told):
            yield f"{mark} was told {len(told)} times by a tool: {told}"
        if len(late) > 1:
            yield f"{mark} was told {len(late)} times by a late tool: {late}"
        if deed == "again" and done and event["attempt"] == 1 and len(twice) != 2:
            yield f"{mark} was said twice on purpose, and {len(twice)} are there"


def prompted_for_each_attempt(case: Case) -> Iterator[str]:
    """An agent is asked about a message once in each attempt, and in no other turn."""
    times = Counter(mark for one in case.evidence.asked for mark in set(one.marks))
    for mark in case.wanted:
        for event in case.heard.get(mark, [])[:1]:
            attempts = case.roots.get(event["root"], [])
            asked = sum(turn["how"] not in (None, "recall") for turn in attempts)
            if times[mark] > asked or (event["state"] == "done" and not times[mark]):
                yield f"agents were asked {times[mark]} times about {mark}, in {asked} attempts: {attempts}"


# -------------------------------------------------------------------- platforms


def left_once(case: Case) -> Iterator[str]:
    """Each channel's log against the ledger, by its safety class."""
    told = Counter(
        json.loads(entry["more"] or "{}").get("part") for entry in case.evidence.entries if entry["role"] == "notice"
    )
    by_channel: defaultdict[str, list[Json]] = defaultdict(list)
    for part in case.evidence.parts:
        by_channel[part["channel"]].append(part)
        if part["state"] not in SETTLED:
            yield f"a part never came to rest: {part}"
        if part["state"] in ("held", "rejected") and not told[part["id"]]:
            yield f"a part is {part['state']} and nobody was told: {part}"
    for name, channel in case.evidence.channels.items():
        posts, all_parts = case.evidence.posts[name], by_channel[name]
        yield from _deleted(channel, posts, all_parts)
        says = [part for part in all_parts if part["op"].get("kind") != "delete"]
        parts = [part for part in says if part["claim"] not in case.evidence.record.needless]
        yield from _once(channel, posts, parts)
        yield from _in_order(channel, posts, parts)


def _deleted(channel: Channel, posts: Sequence[Post], parts: Sequence[Json]) -> Iterator[str]:
    """Nobody sees a message that was deleted: one that kept the place of a text, and no text came."""
    there = {(one.address, one.id) for one in posts}
    for part in parts:
        op = part["op"]
        if op.get("kind") == "delete" and part["state"] == "sent" and (_address(part), op.get("target")) in there:
            yield f"{channel.name}: people see what was deleted: {part}"


def _address(part: Json) -> str:
    return str(part["dest"]).partition(":")[2]


def _text(part: Json) -> str:
    return str(part["op"].get("text", ""))


def _shown(channel: Channel, text: str) -> str:
    """A text as people see it: Telegram takes white space off its ends, where a long one was split, and draws what
    stands between backticks, as a command in a notice, as code."""
    return text.strip().replace("`", "") if channel.kind == "telegram" else text


def _once(channel: Channel, posts: Sequence[Post], parts: Sequence[Json]) -> Iterator[str]:
    shown = folded(channel, posts)
    if channel.safety == "idempotent":
        for texts in _grouped(posts, lambda one: one.key).values():
            if len({(one.address, one.text) for one in texts}) != 1:
                yield f"{channel.name}: one key, and other content: {texts}"
    elif any(one.key for one in shown):
        for key, same in _grouped(shown, lambda one: one.key).items():
            if len(same) > 1:
                yield f"{channel.name}: {key} was taken {len(same)} times: {same[0]}"
    there = Counter((one.address, _shown(channel, one.text)) for one in shown)
    said = Counter((_address(part), _shown(channel, _text(part))) for part in parts)
    for what, count in there.items():
        if count > said[what]:
            yield f"{channel.name}: people see {what} {count} times, and it was said {said[what]} times"
    ids = {(one.id, one.address, _shown(channel, one.text)) for one in shown}
    sent = [part for part in parts if part["state"] == "sent"]
    for part in sent:
        if (_receipt(channel, part), _address(part), _shown(channel, _text(part))) not in ids:
            yield f"{channel.name}: a part is sent, and people do not see it: {part}"
    missing = said - there
    for part in parts:
        if part["state"] == "held":
            missing[_address(part), _shown(channel, _text(part))] -= 1
    if lost := +missing:
        yield f"{channel.name}: neither seen nor held: {dict(lost)}"
    if channel.safety != "at-most-once" and len(sent) < len(parts):
        yield f"{channel.name} is {channel.safety}, and not all of it was sent: {[p for p in parts if p not in sent]}"


def _receipt(channel: Channel, part: Json) -> str:
    return str(part["key"] if channel.kind == "webhook" else part["receipt"])


def folded(channel: Channel, posts: Sequence[Post]) -> list[Post]:
    """What people see: an idempotent platform shows a repeated key once."""
    if channel.safety != "idempotent":
        return list(posts)
    found: dict[str | None, Post] = {}
    for one in posts:
        found.setdefault(one.key, one)
    return list(found.values())


def _grouped(posts: Sequence[Post], by: Callable[[Post], str | None]) -> dict[str | None, list[Post]]:
    found: defaultdict[str | None, list[Post]] = defaultdict(list)
    for one in posts:
        found[by(one)].append(one)
    return found


def _in_order(channel: Channel, posts: Sequence[Post], parts: Sequence[Json]) -> Iterator[str]:
    """At each address what was sent stands in the order in which it was said."""
    place = {(_address(part), _receipt(channel, part)): n for n, part in enumerate(parts) if part["state"] == "sent"}
    by_address = _grouped(folded(channel, posts), lambda one: one.address)
    for address, there in by_address.items():
        known = [one for one in there if (address, one.id) in place]
        for one, next_ in pairwise(known):
            if place[address, one.id] > place[address, next_.id]:
                yield f"{channel.name}: people at {address} see {next_.text[:60]!r} behind {one.text[:60]!r}"


def answers_left(case: Case) -> Iterator[str]:
    """An answer given in a session that has its home on a channel left for it once."""
    heads: Counter[tuple[str, str]] = Counter()
    for part in case.evidence.parts:
        if _text(part).startswith("Seen: "):
            heads.update((part["dest"], mark) for mark in MARK.findall(_text(part)))
    for mark, said in case.wanted.items():
        session = said.message.session
        event = next(iter(case.heard.get(mark, [])), {})
        if session.channel is not None and event.get("state") == "done":
            times = heads[f"{session.channel.name}:{session.address}", mark]
            if times != 1:
                yield f"the answer to {mark} left {times} times for {session.channel.name}"


def nobody_waits(case: Case) -> Iterator[str]:
    """Each chat is what the entries say, in their order, and every message is answered there."""
    evidence = case.evidence
    chats = {
        name: [(one.address, one.text) for one in folded(channel, evidence.posts[name])]
        for name, channel in evidence.channels.items()
    }
    all_ = [name for name, channel in evidence.channels.items() if channel.narration == "all"]
    return judge_conversations(evidence.record, chats, all_)


# -------------------------------------------------------------------- watchers


def views_are_entries(case: Case) -> Iterator[str]:
    """Law 8, for every watcher, over every death of the gateway."""
    evidence = case.evidence
    for session, faults in evidence.faults.items():
        yield from (f"the watcher of {session}: {fault}" for fault in faults[:3])
        view, there = evidence.views[session], evidence.transcript[session]
        for seq in sorted(view.keys() | there.keys()):
            if view.get(seq) != there.get(seq):
                yield f"the watcher of {session} holds {view.get(seq)}, and entry {seq} is {there.get(seq)}"
                break
        texts = {entry["seq"]: entry["text"] for entry in case.entries.get(session, ())}
        if texts != {seq: entry["text"] for seq, entry in there.items()}:
            yield f"the API tells another transcript of {session} than the ledger holds"


CHECKS: Sequence[Callable[[Case], Iterator[str]]] = (
    heard_once, recorded_once, answered_once, failed_seldom, said_once, prompted_for_each_attempt, left_once,
    answers_left, nobody_waits, views_are_entries,
)  # fmt: skip
