"""The judge of the soak tells every kind of broken law: evidence that is whole, and the same doctored."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # where `proof` and `bench` are

from proof.conversations import Record
from proof.soak.evidence import Asked, Evidence
from proof.soak.judge import judge
from proof.soak.plan import Channel, Message, Session
from proof.soak.platforms import Post
from proof.soak.traffic import Said

pytestmark = pytest.mark.proof

HOOK = Channel("hook1", "webhook", "idempotent", "plain")
TG = Channel("tg1", "telegram", "at-most-once", "plain")
KNOWN = Channel("known1", "pigeon", "reconcilable", "plain")
WEB = Session("plain:web:s1", None, "s1")
PLACES = [WEB, *(Session(f"plain:{one.name}:5001", one, "5001") for one in (HOOK, TG, KNOWN))]
Json = dict[str, Any]


class Told:
    """A small world that keeps every law: two messages in each of four sessions."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.events: list[Json] = []
        self.entries: list[Json] = []
        self.turns: list[Json] = []
        self.parts: list[Json] = []
        self.posts: dict[str, list[Post]] = {one.name: [] for one in (HOOK, TG, KNOWN)}
        self.asked: list[Asked] = []
        self.seq: dict[str, int] = {}
        self.claims: list[Json] = []
        self.open_calls: list[Json] = []
        self.needless: set[int] = set()
        for session in PLACES:
            for deed in ("plain", "tool"):
                self.talk(Message(f"q{len(self.said)}x1a", session, "api", deed, again=False))

    def talk(self, message: Message) -> None:
        n, key = len(self.said) + 1, message.session.key
        body = {"event": n, "status": "accepted"}
        self.said.append(Said(message, 0, 1, n, [(202, body), (202, {**body, "status": "duplicate"})]))
        payload = json.dumps({"text": message.text})
        self.events.append(
            {"id": n, "payload": payload, "session": key, "turn": n, "root": n, "state": "done", "attempt": 1}
        )
        self.turns.append({"id": n, "root": n, "attempt": 1, "how": "start", "state": "done", "pid": 7})
        self.asked.append(Asked(7, n, (message.mark,)))
        self.entry(key, "user", message.text, event=n)
        if message.deed == "tool":
            self.speak(message, f"Told: {message.mark}.")
        self.speak(message, f"Seen: {message.mark}.")

    def entry(self, session: str, role: str, text: str, **more: Any) -> None:
        self.seq[session] = self.seq.get(session, 0) + 1
        usual = {"live": 0, "partial": 0, "superseded": 0, "turn": None, "event": None, "claim": None, "more": None}
        self.entries.append({"session": session, "seq": self.seq[session], "role": role, "text": text, **usual, **more})

    def speak(self, message: Message, text: str) -> None:
        how = "tool" if text.startswith("Told: ") else "block"
        self.entry(message.session.key, "agent", text, turn=len(self.said), claim=self.claim(message.session, how))
        self.leave(message.session, text)

    def claim(self, session: Session, how: str) -> int:
        """What is said now, by the newest turn."""
        n, turn, place = len(self.claims) + 1, len(self.said), PLACES.index(session)
        made = {"id": n, "session": place, "turn": turn, "root": turn, "how": how, "kind": "text", "outcome": "said"}
        dest = f"{session.channel.name}:{session.address}" if session.channel else f"web:{session.address}"
        self.claims.append({**made, "dest": dest, "echo_of": None, "part_of": None, "edits": None})
        return n

    def leave(self, session: Session, text: str) -> None:
        """The newest claim leaves for its chat, if its session is at home in one."""
        if session.channel is None:
            return
        n, channel = len(self.parts) + 1, session.channel.name
        part = {"id": n, "channel": channel, "dest": f"{channel}:{session.address}", "key": f"k{n}", "state": "sent"}
        part["claim"] = len(self.claims)
        self.parts.append({**part, "op": {"text": text}, "receipt": f"r{n}", "session": session.key})
        key = None if session.channel is TG else f"k{n}"
        self.posts[channel].append(Post(f"k{n}" if session.channel is HOOK else f"r{n}", key, session.address, text))

    def evidence(self) -> Evidence:
        there: dict[str, dict[int, Json]] = {}
        for entry in self.entries:
            there.setdefault(entry["session"], {})[entry["seq"]] = {"seq": entry["seq"], "text": entry["text"]}
        return Evidence(
            record=self.record(),
            said=self.said, events=self.events, entries=self.entries, turns=self.turns, parts=self.parts,
            posts=self.posts, channels={one.name: one for one in (HOOK, TG, KNOWN)}, views=deepcopy(there),
            faults={session: [] for session in there}, transcript=there, asked=self.asked, answered={},
        )  # fmt: skip

    def record(self) -> Record:
        """What of it the judge of conversations reads."""
        places = {session.key: n for n, session in enumerate(PLACES)}
        entries = [{**one, "session": places[one["session"]]} for one in self.entries]
        seqs = {one["event"]: (one["session"], one["seq"]) for one in entries if one["event"] is not None}
        homes = [f"{one.channel.name}:{one.address}" if one.channel else f"web:{one.address}" for one in PLACES]
        told = {json.loads(one["more"] or "{}").get("part") for one in self.entries if one["role"] == "notice"}
        return Record(
            sessions={n: {"id": n, "key": key, "home": homes[n], "erased": 0} for key, n in places.items()},
            turns={one["id"]: one for one in self.turns},
            entries=entries,
            claims={one["id"]: one for one in self.claims},
            events=[
                {"id": n, "source": "api", "key": f"k{n}", "kind": "message", "session": place, "seq": seq, "turn": n}
                for n, (place, seq) in seqs.items()
            ],
            sources=dict.fromkeys(seqs, "api"),
            commands=set(),
            excused={part["claim"] for part in self.parts if part["id"] in told},
            open_calls=self.open_calls,
            needless=self.needless,
        )

    def notice_nobody_needs(self) -> Json:
        """A place for a notice was kept in a chat and given up, as what the notice tells of came. Returns its part."""
        session = PLACES[2]
        more = json.dumps({"kind": "delivery.elsewhere"})
        self.entry(session.key, "notice", "A message may be missing.", claim=self.claim(session, "notice"), more=more)
        self.leave(session, "A message may be missing.")
        notice = self.parts[-1]
        notice |= {"state": "dropped", "receipt": None}
        place = self.posts["tg1"].pop()
        self.parts.append(
            {**notice, "id": len(self.parts) + 1, "claim": None, "key": "gone", "state": "sent", "receipt": place.id}
            | {"op": {"kind": "delete", "text": "", "target": place.id}}
        )
        self.needless.add(notice["claim"])
        return notice


def test_evidence_that_is_whole_is_no_violation() -> None:
    assert judge(Told().evidence()) == []


def test_what_is_held_and_told_so_is_no_violation_whether_people_see_it_or_not() -> None:
    told = Told()
    seen, unseen = [part for part in told.parts if part["channel"] == "tg1"][:2]
    for part in (seen, unseen):
        part |= {"state": "held", "receipt": None}
        told.entry(part["session"], "notice", "A message was held.", more=json.dumps({"part": part["id"]}))
    told.posts["tg1"] = [one for one in told.posts["tg1"] if one.text != unseen["op"]["text"]]
    assert judge(told.evidence()) == []


def test_what_is_held_and_came_after_what_was_said_later_is_no_violation() -> None:
    told = Told()
    first = next(part for part in told.parts if part["channel"] == "tg1")
    first |= {"state": "held", "receipt": None}
    told.entry(first["session"], "notice", "A message was held.", more=json.dumps({"part": first["id"]}))
    posts = told.posts["tg1"]
    posts.append(posts.pop(next(n for n, one in enumerate(posts) if one.text == first["op"]["text"])))
    assert judge(told.evidence()) == []


def test_a_folded_repeat_is_no_violation() -> None:
    told = Told()
    told.posts["hook1"].append(told.posts["hook1"][0])
    assert judge(told.evidence()) == []


def test_a_notice_that_nobody_needs_any_more_is_no_violation() -> None:
    told = Told()
    told.notice_nobody_needs()
    assert judge(told.evidence()) == []


def test_a_turn_that_failed_visibly_is_no_violation() -> None:
    told = Told()
    for _ in range(12):  # one of many
        told.talk(Message(f"q{len(told.said)}x1a", WEB, "api", "plain", again=False))
    last = len(told.said)
    told.events[-1]["state"] = told.turns[-1]["state"] = "failed"
    told.entries.pop()
    told.seq[WEB.key] -= 1
    told.entry(WEB.key, "notice", "The agent's turn failed.", turn=last, more='{"kind": "turn.failed"}')
    assert judge(told.evidence()) == []
    told.entries.pop()
    assert "nobody can see it" in judge(told.evidence())[0]


# -------------------------------------------------------------------- doctored


def lost_event(told: Told) -> None:
    told.events.pop()


def second_event(told: Told) -> None:
    told.events.append({**told.events[0], "id": 99})


def other_event_acknowledged(told: Told) -> None:
    told.said[0].answers[1] = (202, {"event": 5, "status": "duplicate"})


def accepted_twice(told: Told) -> None:
    told.said[0].answers[1] = told.said[0].answers[0]


def never_acknowledged(told: Told) -> None:
    told.said[0].answers.clear()


def conflict(told: Told) -> None:
    told.said[0].answers.append((409, {}))


def missing_entry(told: Told) -> None:
    told.entries = [one for one in told.entries if one["event"] != 1]


def second_entry(told: Told) -> None:
    told.entry(WEB.key, "user", told.said[0].message.text, event=1)


def entry_elsewhere(told: Told) -> None:
    next(one for one in told.entries if one["event"] == 1)["text"] = "something else"


def not_answered(told: Told) -> None:
    next(one for one in told.entries if one["text"] == "Seen: q0x1a.")["superseded"] = 1


def answered_twice(told: Told) -> None:
    told.entry(WEB.key, "agent", "Seen: q0x1a.", turn=1)


def answered_half(told: Told) -> None:
    next(one for one in told.entries if one["text"] == "Seen: q0x1a.")["text"] = "Seen: q0x1a"


def still_running(told: Told) -> None:
    told.events[0]["state"] = "running"


def stopped_by_nobody(told: Told) -> None:
    told.events[0]["state"] = "cancelled"
    told.entries = [one for one in told.entries if one["text"] != "Seen: q0x1a."]
    told.entry(WEB.key, "notice", "Stopped.", turn=1, more='{"kind": "turn.cancelled"}')


def told_twice_by_a_tool(told: Told) -> None:
    told.entry(WEB.key, "agent", "Told: q1x1a.", turn=2)


def never_told_by_a_tool(told: Told) -> None:
    told.entries = [one for one in told.entries if one["text"] != "Told: q1x1a."]


def prompted_twice(told: Told) -> None:
    told.asked.append(told.asked[0])


def never_prompted(told: Told) -> None:
    told.asked.pop(0)


def sent_twice(told: Told) -> None:
    told.posts["tg1"].append(replace(told.posts["tg1"][0], id="r99"))


def taken_twice(told: Told) -> None:
    told.posts["known1"].append(replace(told.posts["known1"][0], id="r99"))


def sent_and_never_seen(told: Told) -> None:
    told.posts["known1"].pop()


def sent_with_another_text(told: Told) -> None:
    told.posts["hook1"][0] = replace(told.posts["hook1"][0], text="Sehen.")


def one_key_for_two_texts(told: Told) -> None:
    told.posts["hook1"].append(replace(told.posts["hook1"][0], text="Sehen."))


def said_without_a_row(told: Told) -> None:
    told.posts["tg1"].append(Post("r98", None, "5001", "nobody said this"))


def held_and_nobody_told(told: Told) -> None:
    next(part for part in told.parts if part["channel"] == "tg1")["state"] = "held"


def held_where_it_can_be_known(told: Told) -> None:
    part = next(part for part in told.parts if part["channel"] == "known1")
    part["state"] = "held"
    told.entry(part["session"], "notice", "A message was held.", more=json.dumps({"part": part["id"]}))


def still_under_way(told: Told) -> None:
    told.parts[0]["state"] = "unknown"


def out_of_order(told: Told) -> None:
    told.posts["known1"].reverse()


def answer_that_never_left(told: Told) -> None:
    part = next(one for one in told.parts if one["op"]["text"].startswith("Seen: "))
    told.parts.remove(part)
    told.posts["hook1"] = [one for one in told.posts["hook1"] if one.key != part["key"]]


def answer_that_no_part_is_of(told: Told) -> None:
    """As if the closing text had never been put in line."""
    part = [one for one in told.parts if one["op"]["text"].startswith("Seen: ")][-1]
    told.parts.remove(part)
    told.posts["known1"] = [one for one in told.posts["known1"] if one.key != part["key"]]


def failure_that_is_told_on_the_page_alone(told: Told) -> None:
    told.talk(Message(f"q{len(told.said)}x1a", PLACES[3], "api", "plain", again=False))
    told.events[-1]["state"] = told.turns[-1]["state"] = "failed"
    told.parts.pop()
    told.posts["known1"].pop()
    more = '{"kind": "turn.failed"}'
    told.claims[-1]["how"] = "notice"
    told.entries[-1] |= {"role": "notice", "text": "The agent's turn failed.", "more": more}


def swapped_before_they_stood_in_line(told: Told) -> None:
    """The outbox and the chat agree, and the record says otherwise."""
    parts = [part for part in told.parts if part["channel"] == "known1" and part["op"]["text"].startswith("Seen: ")]
    first, second = (told.parts.index(part) for part in parts)
    told.parts[first], told.parts[second] = told.parts[second], told.parts[first]
    posts = told.posts["known1"]
    posts[0], posts[-1] = posts[-1], posts[0]


def call_that_runs_for_ever(told: Told) -> None:
    told.open_calls.append({"id": 1, "turn": 1, "title": "Back up", "status": "running"})


def notice_dropped_though_it_was_needed(told: Told) -> None:
    told.notice_nobody_needs()
    told.needless.clear()


def notice_dropped_and_read(told: Told) -> None:
    notice = told.notice_nobody_needs()
    told.posts["tg1"].append(Post("r99", None, PLACES[2].address, notice["op"]["text"]))


def deleted_and_still_there(told: Told) -> None:
    told.notice_nobody_needs()
    told.posts["tg1"].append(Post(told.parts[-1]["receipt"], None, PLACES[2].address, "…"))


DOCTORED: list[tuple[Callable[[Told], None], str]] = [
    (lost_event, "heard 0 times"),
    (second_event, "heard 2 times"),
    (other_event_acknowledged, "another event"),
    (accepted_twice, "accepted twice"),
    (never_acknowledged, "never acknowledged"),
    (conflict, "was answered"),
    (missing_entry, "has 0 entries"),
    (second_entry, "has 2 entries"),
    (entry_elsewhere, "has 1 entries"),
    (not_answered, "answered 0 times"),
    (answered_twice, "answered 2 times"),
    (answered_half, "answered 0 times"),
    (still_running, "no finished turn"),
    (stopped_by_nobody, "nobody stopped it"),
    (told_twice_by_a_tool, "told 2 times"),
    (never_told_by_a_tool, "told 0 times"),
    (prompted_twice, "asked 2 times"),
    (never_prompted, "asked 0 times"),
    (sent_twice, "2 times, and it was said 1"),
    (taken_twice, "taken 2 times"),
    (sent_and_never_seen, "people do not see it"),
    (sent_with_another_text, "people do not see it"),
    (one_key_for_two_texts, "other content"),
    (said_without_a_row, "said 0 times"),
    (held_and_nobody_told, "nobody was told"),
    (held_where_it_can_be_known, "not all of it was sent"),
    (still_under_way, "never came to rest"),
    (out_of_order, "behind"),
    (answer_that_never_left, "left 0 times"),
    (answer_that_no_part_is_of, "ended well with"),
    (failure_that_is_told_on_the_page_alone, "can see what became of"),
    (swapped_before_they_stood_in_line, "the record is the other way"),
    (call_that_runs_for_ever, "its turn is over"),
    (notice_dropped_though_it_was_needed, "never got it"),
    (notice_dropped_and_read, "which was dropped"),
    (deleted_and_still_there, "people see what was deleted"),
]


@pytest.mark.parametrize(("doctor", "tells"), DOCTORED, ids=lambda one: getattr(one, "__name__", None))
def test_doctored_evidence_is_told(doctor: Callable[[Told], None], tells: str) -> None:
    told = Told()
    doctor(told)
    found = judge(told.evidence())
    assert any(tells in line for line in found), found


def test_a_view_that_differs_from_the_entries_is_told() -> None:
    evidence = Told().evidence()
    evidence.views[WEB.key][2]["text"] = "another"  # type: ignore[index]
    assert "holds" in judge(evidence)[0]
    evidence = Told().evidence()
    evidence.transcript[WEB.key][2]["text"] = evidence.views[WEB.key][2]["text"] = "another"  # type: ignore[index]
    assert "another transcript" in judge(evidence)[0]
    evidence = replace(Told().evidence(), faults={WEB.key: ["rev 3 came behind 4"]})
    assert "rev 3" in judge(evidence)[0]


def test_a_world_in_which_much_fails_is_told() -> None:
    told = Told()
    for event in told.events[:4]:
        event["state"] = "failed"
    assert any("messages failed" in line for line in judge(told.evidence()))
