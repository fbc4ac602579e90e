"""The verdict over a run that has come to rest: what each side knows by itself, against the ledger."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from proof.schedules import chats, editor_judge, outputs, words
from proof.schedules.agents import MARK
from proof.schedules.chance import EPOCH
from proof.schedules.platforms import TAKEN, Message, Platform
from proof.schedules.told import Prompted, count_copies
from semel.gateway.ports import Safety
from semel.ledger.admin import books
from semel.ledger.delivery import placeholders
from semel.ledger.delivery.claims import REISSUE_REASON
from semel.ledger.delivery.parts import MARKED_AS_REPEAT
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.sql import queries
from semel.text.verbatim import verbatim_form

if TYPE_CHECKING:
    from proof.schedules.world import World

Json = dict[str, Any]
FINAL = {"sent", "held", "rejected", "dropped"}
STANDS = ("done", "failed", "cancelled")


def judge(world: World) -> list[str]:
    """Broken promises, one line each."""
    return [*world.faults, *world.disk.broken, *_Judge(world).all()]


def _instant(key: str) -> int:
    """The due time of a firing, in seconds."""
    return int(datetime.fromisoformat(key).timestamp())


class _Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.plan, self.all_prompts = world.plan, world.disk.prompts
        self.platforms = world.platforms
        self.look = world.look
        self.sessions = {row["key"]: row for row in self._rows("SELECT * FROM session")}
        self.names = {row["id"]: row["key"] for row in self.sessions.values()}
        self.turns = {row["id"]: row for row in self._rows("SELECT * FROM turn ORDER BY id")}
        self.roots: defaultdict[int, list[Json]] = defaultdict(list)
        for turn in self.turns.values():
            self.roots[turn["root"]].append(turn)
        self.entries = self._rows("SELECT * FROM entry ORDER BY session, seq")
        self.claims = {row["id"]: row for row in self._rows("SELECT * FROM claim ORDER BY id")}
        self.parts = self._rows("SELECT * FROM part ORDER BY line")
        self.events = self._rows(
            "SELECT e.*, h.turn, h.wakes, h.session FROM event e LEFT JOIN hearing h ON h.event = e.id ORDER BY e.id"
        )
        self.items = self._rows("SELECT * FROM item")
        self.listed = {
            row["event"] for row in self._rows("SELECT event FROM quarantine UNION SELECT event FROM command")
        }
        self.listed |= {part["failed"] for part in self.parts}
        self.fallen = {part["claim"] for part in self.parts if part["state"] in ("rejected", "dropped")}
        self.marks = self._marks()
        self.prompts = self._prompts()

    def _rows(self, sql: str, *values: Any) -> list[Json]:
        cursor = self.look.cursor()
        found = cursor.execute(sql, values)
        try:
            names = [column[0] for column in found.get_description()]
        except Exception:  # it gave no row
            return []
        return [dict(zip(names, row, strict=True)) for row in found]

    def all(self) -> Iterator[str]:
        yield from self.books()
        yield from self.heard()
        yield from self.fired()
        yield from self.bound()
        yield from self.asked()
        yield from self.said()
        yield from chats.unanswered(self)
        yield from self.permitted()
        yield from self.sent()
        yield from self.watched()
        yield from editor_judge.wrong(self.world.editors.all, self)
        yield from self._acted()

    # ------------------------------------------------------------ the books

    def books(self) -> Iterator[str]:
        cursor = self.look.cursor()
        cursor.execute("BEGIN")
        try:
            for book in books.audit(SqliteTx(cursor, queries(), self.world.clock.now())):
                if not book.ok:
                    yield f"book {book.name} ({book.law}): {book.broken[:2]}"
        finally:
            cursor.execute("ROLLBACK")

    # ------------------------------------------------------------ laws 1 to 3

    def _marks(self) -> dict[str, Json]:
        """Marker -> its event."""
        found = {}
        for event in self.events:
            for mark in MARK.findall(json.loads(event["payload"] or "{}").get("text", "")):
                found[mark] = event
        return found

    def heard(self) -> Iterator[str]:
        rows = {(event["source"], event["key"]): event for event in self.events}
        for name, told in self.world.people.told.items():
            for event in told:
                if (f"channel:{name}", event.key) not in rows:
                    yield f"law 1: {event.key}, written on {name}, was never heard"
        for one in self.world.people.said:
            if not one.done:
                yield f"law 1: whoever said {one.key} never had an answer"
            row = rows.get((one.source, one.key))
            if row is None:
                yield f"law 1: {one.key}, answered {one.answers}, is not in the ledger"
                continue
            if Counter(status for status, _ in one.answers)["accepted"] > 1:
                yield f"law 1: {one.key} was accepted twice: {one.answers}"
            if {event for _, event in one.answers} != {row["id"]} and one.answers:
                yield f"law 1: {one.key} is event {row['id']}, and was answered {one.answers}"
            if any(status == "other accepted" for status, _ in one.answers):
                yield f"law 1: other content under the key {one.key} was accepted"
            kept = self._rows("SELECT id FROM conflict WHERE event = ?", row["id"])
            if any(status == "other conflict" for status, _ in one.answers) and not kept:
                yield f"law 1: other content came under the key {one.key}, and nobody recorded it"

    def bound(self) -> Iterator[str]:
        for event in self.events:
            if event["session"] is None and event["id"] not in self.listed:
                yield f"law 1: event {event['id']} ({event['key']}) is heard in no session, and nobody is shown it"
            if event["key"] in self.world.people.automatic and event["wakes"]:
                yield f"law 2: event {event['id']} ({event['key']}), which a program wrote, wakes its session"
            if event["session"] is None or event["turn"] is None:
                if event["wakes"]:
                    yield f"law 2: event {event['id']} ({event['key']}) wakes its session, and no turn took it"
                continue
            attempts = self.roots[self.turns[event["turn"]]["root"]]
            states = [turn["state"] for turn in attempts]
            if states[-1] not in STANDS or set(states[:-1]) - {"lost"} or attempts[-1]["id"] != event["turn"]:
                yield f"law 3: event {event['id']} is bound to turn {event['turn']} of attempts {states}"
        for root, attempts in self.roots.items():
            for n, after in enumerate(attempts):
                if after["how"] in ("start", "restart") and any(before["tools"] for before in attempts[:n]):
                    yield f"law 9: turn {after['id']} began root {root} anew although a tool of it had started before"
            for before, after in pairwise(attempts):
                if before["stopped"]:
                    yield f"law 9: turn {before['id']} was stopped, and turn {after['id']} tries it again"
            if not any(e["turn"] in {t["id"] for t in attempts} for e in self.events):
                yield f"law 2: nobody asked for turn {root}"

    def fired(self) -> Iterator[str]:
        """Laws 1 and 2: what fell due was heard under its due time, or people were told that it was missed."""
        for row in self._rows("SELECT * FROM schedule WHERE form = 'every'"):
            every, name = int(row["spec"].rstrip("s")), row["name"]
            due = set(range(row["anchor"] // 1000 + every, row["due"] // 1000, every))
            fired = {_instant(event["key"]) for event in self.events if event["source"] == f"schedule:{name}"}
            said = re.compile(rf"Schedule {name}: (\d+) firings? ")
            missed = sum(int(found[1]) for entry in self.entries if (found := said.match(entry["text"])))
            if fired - due:
                yield f"law 2: schedule {name} ({row['spec']}) fired at {sorted(fired - due)}, when it was not due"
            if len(fired & due) + missed != len(due):
                yield (
                    f"law 1: schedule {name} ({row['spec']}, {row['downtime']}) was due {len(due)} times: "
                    f"{len(fired)} firings were heard, and people were told of {missed} more"
                )

    # ------------------------------------------------------------ laws 3 and 9: what agents were asked

    def _prompts(self) -> dict[int, list[Prompted]]:
        """Root -> the prompts that asked for its events, in order."""
        found: dict[int, list[Prompted]] = {}
        for one in self.world.disk.prompts:
            for root in dict.fromkeys(self._root(mark) for mark in one.marks):
                if root is not None:
                    found.setdefault(root, []).append(one)
        return found

    def _root(self, mark: str) -> int | None:
        event = self.marks.get(mark)
        return None if event is None or event["turn"] is None else int(self.turns[event["turn"]]["root"])

    def asked(self) -> Iterator[str]:
        for one in self.world.disk.prompts:
            roots = {self._root(mark) for mark in one.marks}
            if len(roots) > 1:
                yield f"law 3: prompt {one.n} asks for the events of several turns: {one.marks} of {roots}"
            if len(set(one.marks)) != len(one.marks):
                yield f"law 4: prompt {one.n} asks twice for the same: {one.marks}"
        for mark in self.marks:
            root = self._root(mark)
            if root is None:
                continue
            attempts = [turn for turn in self.roots[root] if turn["how"] not in (None, "recall")]
            times = [one for one in self.prompts.get(root, []) if mark in one.marks]
            if len(times) > len(attempts):
                yield f"law 9: {mark} was asked {len(times)} times, in {len(attempts)} attempts"
            if not times and self.roots[root][-1]["state"] == "done":
                yield f"law 3: {mark} is bound to turn {root}, which is done, and no agent was asked it"
            last = attempts[-1] if attempts else None
            done = last is not None and last["state"] == "done" and last is self.roots[root][-1]
            if last is not None and done and last["spawn"] not in {one.spawn for one in times}:
                yield f"law 3: {mark} is bound to turn {last['id']}, whose agent was not asked it"

    # ------------------------------------------------------------ laws 4 to 6: what agents said

    def said(self) -> Iterator[str]:
        for key, session in self.sessions.items():
            mine = [e for e in self.entries if e["session"] == session["id"] and e["role"] == "agent"]
            own = [e for e in mine if '"from"' not in (e["more"] or "")]
            yield from self._made_up(key, own)
            yield from self._twice(key, own)
        for root, prompts in self.prompts.items():
            yield from words.missing(self, root, prompts)
            yield from words.shown_once_more(self, root, prompts)
        yield from self._fallen_echoes()
        yield from self._whole()
        yield from self._kept_at_death()
        yield from self._after_the_end()

    def _fallen_echoes(self) -> Iterator[str]:
        """A text that equals one that had not arrived is no echo of it: it has to leave itself."""
        of = {part["id"]: part["claim"] for part in self.parts}
        fell: dict[int, int] = {}  # claim: when people were told that a part of it was rejected or dropped
        for entry in self.entries:
            more = json.loads(entry["more"] or "{}")
            if more.get("kind") in ("delivery.rejected", "delivery.dropped") and more["part"] in of:
                fell.setdefault(of[more["part"]], entry["at"])
        for claim in self.claims.values():
            when = fell.get(claim["echo_of"])
            if (
                claim["outcome"] == "echo"
                and claim["reason"] != REISSUE_REASON
                and when is not None
                and when < claim["at"]
            ):
                yield f"law 5: {claim['text']!r} was taken for an echo of claim {claim['echo_of']}, which had fallen"

    def _whole(self) -> Iterator[str]:
        """Law 7: the parts of a text are the text. (Where a fence is cut, its parts hold more than it.)"""
        parts: defaultdict[int, list[Json]] = defaultdict(list)
        for part in sorted(self.parts, key=lambda part: int(part["n"])):
            parts[part["claim"]].append(part)
        for id, mine in parts.items():
            claim, texts = self.claims[id], [json.loads(part["op"]).get("text", "") for part in mine]
            plain = claim["outcome"] != "quiet" and claim["kind"] == "text" and "```" not in claim["text"]
            if plain and "".join(texts) != claim["text"]:
                yield f"law 7: {claim['text']!r} leaves for {claim['dest']} as {texts}"

    def _kept_at_death(self) -> Iterator[str]:
        """Law 6: what streamed when a gateway died is an entry, to the last word."""
        entries = {(e["session"], e["seq"]): e for e in self.entries}
        for place, text in self.world.witness.cut_off.items():
            if entries[place]["text"] != text and place[1] > self.sessions[self.names[place[0]]]["erased"]:
                yield f"law 6: {text!r} had streamed when the gateway died, and entry {place[1]} is {entries[place]}"

    def _after_the_end(self) -> Iterator[str]:
        """Law 10: what a cancelled turn calls afterwards is not said."""
        for claim in self.claims.values():
            turn = self.turns.get(claim["turn"])
            if claim["how"] != "tool" or claim["outcome"] == "refused" or turn is None or turn["state"] != "cancelled":
                continue
            if claim["at"] > turn["ended"]:
                yield f"law 10: {claim['text']!r} was said for turn {turn['id']}, which was cancelled before"

    def _acted(self) -> Iterator[str]:
        """Law 10: a process that outlived its agent does nothing, nor does one all of whose turns are over."""
        for answer in self.world.disk.orphans:
            if answer.get("ok"):
                yield f"law 10: what outlived its agent was let speak: {answer}"
        for spawn, asked, answer in self.world.disk.insisted:
            mine = [turn for turn in self.turns.values() if turn["spawn"] == spawn]
            over = all(turn["state"] in ("cancelled", "lost") and turn["ended"] < EPOCH + asked * 1000 for turn in mine)
            if answer.get("ok") and over:
                yield f"law 10: an agent process, all of whose turns were cancelled, still acts: {answer}"

    def _made_up(self, key: str, entries: list[Json]) -> Iterator[str]:
        mine = [told for one in self.world.disk.prompts if one.session == key for told in one.told]
        stand = {entry["text"] for entry in entries if not entry["partial"] and not entry["superseded"]}
        doubled = [one.doubled for one in mine if one.doubled and one.text not in stand]
        told = [*(one.text for one in mine), *self.world.disk.kept, *doubled]
        claims = [claim for claim in self.claims.values() if self.names[claim["session"]] == key]
        told += words.told_behind_echoes(claims, self.turns, told)
        late = [one.text for one in mine if one.how == "after"]
        unmarked, undecided = [one.text for one in mine if one.unmarked], [one.undecided for one in mine]
        broken = [one.text for one in mine if one.broken and not one.whole]
        again = [one.text for one in mine if one.broken]
        for entry in entries:
            if entry["live"]:
                yield f"law 8: entry {entry['seq']} of {key} still streams"
            turn = {} if entry["turn"] is None else self.turns[entry["turn"]]
            lost = turn.get("state") == "lost"  # before it was told again
            texts = told if entry["partial"] or entry["superseded"] else again if lost else broken
            if turn.get("state") == "failed" and turn["stop"] is None:
                # Its last attempt was lost, too. Where the text was told again to its end, nobody heard of that.
                texts = [*texts, *(text for text in again if text not in stand)]
            texts = [*texts, *undecided] if entry["partial"] else texts
            if entry["claim"] and self.claims[entry["claim"]]["how"] == "recovery":  # a history may hold half of it
                texts = [*texts, *told]
            cut = any(text.startswith(entry["text"]) for text in texts)
            piece = any(entry["text"] in text for text in late)  # it paused there, and no turn ran
            how = None if entry["turn"] is None else self.turns[entry["turn"]]["how"]
            rest = how in ("resume", "recall") and any(
                text.endswith(entry["text"]) for text in [*again, *unmarked]
            )  # its beginning was shown
            if entry["text"] not in told and not cut and not piece and not rest:
                yield f"law 4: no agent ever said {entry['text']!r} (entry {entry['seq']} of {key})"

    def _twice(self, key: str, entries: list[Json]) -> Iterator[str]:
        """Every text of these agents is said as often as one answer says it: what stands more often in the same place
        was replayed or re-delivered.
        What joins a turn parts it: the later prompt may be answered in the same words, and a copy of a text that was
        streaming when the prompt came is a text of its own."""
        by_text: defaultdict[tuple[int, str, str], list[Json]] = defaultdict(list)
        for e in entries:
            if not e["superseded"] and not e["partial"] and e["claim"] is not None and e["claim"] not in self.fallen:
                claim = self.claims[e["claim"]]
                by_text[claim["root"], claim["dest"], verbatim_form(e["text"])].append(e)
        for (root, dest, text), same in by_text.items():
            copies = count_copies((one for one in self.all_prompts if one.session == key), text)
            again = [
                after
                for before, after in pairwise(same)
                if not chats.answers_a_later_prompt(self, before, after) and not self._copied_late(text, after)
            ]
            if len(again) >= copies:
                yield f"law 5: {text!r} stands {len(same)} times in {key} for {dest}, in turn {root}"

    def _copied_late(self, text: str, after: Json) -> bool:
        """Whether a prompt joined the turn while the agent told this text: it was given between the first piece and
        the end, though the agent may have ended its answer before it read the prompt."""
        spawn = self.turns.get(after["turn"], {}).get("spawn")
        mine = [one for one in self.all_prompts if one.spawn == spawn]
        began = [told.began for one in mine for told in one.told if verbatim_form(told.text) == text]
        heard = [e for e in self.entries if e["session"] == after["session"] and '"joined"' in (e["more"] or "")]
        marks = {mark for e in heard for mark in MARK.findall(e["text"])}
        joined = [one.given for one in mine if marks & {*one.marks} and EPOCH + int(one.given * 1000) <= after["at"]]
        return min(began, default=inf) <= max(joined, default=-inf)

    # ------------------------------------------------------------ law 9: what agents may do

    def permitted(self) -> Iterator[str]:
        """A permission request is answered once; its agent, the people and the ledger were told the same: whoever a
        stop overtook was told that the request is closed."""
        rows = self._rows("SELECT * FROM item WHERE kind = 'permission'")
        items = {(self.names[row["session"]], row["name"]): row for row in rows}
        bodies = {row["id"]: json.loads(row["body"]) for row in rows}
        for permit in self.world.disk.permits:
            name, row = f"permission request {permit.id} of {permit.session}", items.get((permit.session, permit.id))
            if len(permit.answers) > 1 or permit.forgotten:
                yield f"law 9: {name} was answered {permit.answers}"
            body = {} if row is None else bodies[row["id"]]
            if body.get("state") == "open":
                yield f"law 9: {name} is still open"
            wanted = body["answer"] if body.get("state") == "answered" else None
            if [one for one in permit.answers if one not in (wanted, None if row is not None else "no")]:
                yield f"law 9: {name} was answered {permit.answers}, and is {body}"
        for item, option, status in self.world.people.permitted:  # Ann may be told again that her answer counts
            state, answer = bodies[item]["state"], bodies[item].get("answer")
            if status == "answered" and (state, answer) != (status, option):
                yield f"law 9: somebody answered permission request {item} with {option!r}, and it is {bodies[item]}"

    # ------------------------------------------------------------ law 7: what platforms took

    def sent(self) -> Iterator[str]:
        by_key = {part["key"]: part for part in self.parts}
        notices = Counter(
            json.loads(e["more"] or "{}").get("part") for e in self.entries if '"delivery.' in (e["more"] or "")
        )
        for platform in self.world.platforms.values():
            yield from platform.broken
            taken = chats.count_taken(platform, by_key)
            yield from self._posts(platform, by_key)
            yield from self._unfinished(platform, by_key)
            yield from self._order(platform, by_key)
            for part in self.parts:
                if part["channel"] == platform.name:
                    yield from self._part(part, platform, taken[part["key"]], notices)

    def _posts(self, platform: Platform, by_key: dict[str, Json]) -> Iterator[str]:
        for post in platform.log:
            part = by_key.get(post.key)
            if part is None and post.kind == "edit":  # it was shown while it was written: the witness looks at it
                continue
            if part is not None and post.kind == "post" and post.text == placeholders.TEXT and platform.streams:
                continue  # it reserved the place of the part's text
            if part is None:
                yield f"law 6: {platform.name} took {post.text!r}, which no part of the ledger is"
            elif json.loads(part["op"]).get("text") != post.text or part["dest"] != f"{platform.name}:{post.address}":
                yield f"law 7: {platform.name} took {post.text!r}, and part {part['id']} is {part['op']}"

    def _unfinished(self, platform: Platform, by_key: dict[str, Json]) -> Iterator[str]:
        """What streams at a platform is filled or removed in the end, unless that was refused, or nobody can know the
        message. And what changed one is what people see in it."""
        by_id = {part["id"]: part for part in self.parts}
        of = defaultdict(list)
        for part in self.parts:
            target = by_id.get(json.loads(part["op"]).get("target_part"))
            if target is not None:
                of[target["key"]].append(part)
        for message in platform.messages.values():
            made, by = by_key.get(message.key), by_key.get(message.by)
            if message.text == placeholders.TEXT and made is not None and not self._silent(made):
                continue  # it reserved a place, and its answer was lost: the text is in another message
            changes = of[message.key]
            if changes and changes[-1]["state"] == "sent" and message.by != changes[-1]["key"]:
                yield f"law 7: part {changes[-1]['id']} is sent, and people see {message.text!r} on {platform.name}"
            if made is None or not self._silent(made) or (by is not None and by is not made):
                continue
            asked_in_vain = platform.safety is Safety.AT_MOST_ONCE or "reject" in platform.tried[made["key"]]
            unknown = asked_in_vain and made["receipt"] != message.id
            refused = [part for part in changes if part["state"] != "sent"]
            if not unknown and not refused:
                yield f"law 7: {message.text!r} stays on {platform.name} for ever: {made['state']}, {changes}"

    def _silent(self, part: Json) -> bool:
        """Of a message that is only reserved: it says nothing."""
        return bool(self.claims[part["claim"]]["outcome"] == "quiet")

    def _part(self, part: Json, platform: Platform, taken: int, notices: Counter[Any]) -> Iterator[str]:
        name, state = f"part {part['id']} ({json.loads(part['op']).get('text')!r} to {part['dest']})", part["state"]
        tried = platform.tried.get(part["key"], [])
        most = 1 + (part["marked"] == MARKED_AS_REPEAT and platform.safety is not Safety.IDEMPOTENT)
        if state not in FINAL:
            yield f"law 7: {name} is {state} although all is at rest"
        if taken > most and json.loads(part["op"])["kind"] == "post":
            yield f"law 7: {name} was taken {taken} times by {platform.name}, {platform.safety}; its attempts: {tried}"
        if state == "sent" and not taken and not self._arrived_by_hand(part, tried):
            yield f"law 7: {name} is sent, and {platform.name} never took it; its attempts: {tried}"
        if state == "rejected" and taken and part["marked"] != MARKED_AS_REPEAT:  # else it was sent once more, in doubt
            yield f"law 7: {name} is rejected, and {platform.name} took it; its attempts: {tried}"
        if state == "held" and not notices[part["id"]] and not self._silent(part):
            yield f"law 7: {name} is held, and no notice says so"
        if state == "held" and platform.safety is not Safety.AT_MOST_ONCE and "reject" not in tried:
            yield f"law 7: {name} is held on a platform that can be asked; its attempts: {tried}"
        if state == "held" and not set(tried) - {"fine", "refuse", "limit"} and not self.world.over[1:]:
            yield f"law 7: {name} is held, and nothing was unknown of it; its attempts: {tried}"

    def _arrived_by_hand(self, part: Json, tried: list[str]) -> bool:
        """A person may have said of a held part that it arrived."""
        said = any(one["do"] == "decide" and one["what"] == "arrived" for one in self.world.plan.actions)
        return said and part["receipt"] is None and not set(tried) & TAKEN

    def _order(self, platform: Platform, by_key: dict[str, Json]) -> Iterator[str]:
        """Parts leave in the order of their line; what a person resent joined its tail. What may be late there is not
        asked for, and the line goes on meanwhile."""
        late = {key for key, tried in platform.tried.items() if "late" in tried}
        waits = platform.safety is Safety.RECONCILABLE
        by_address: defaultdict[str, list[Message]] = defaultdict(list)
        seen: set[str] = set()
        for one in platform.messages.values():
            if (
                one.by in by_key
                and not by_key[one.by]["marked"]
                and one.by not in seen
                and (waits or one.by not in late)
            ):
                by_address[one.address].append(one)
                seen.add(one.by)
        for address, messages in by_address.items():
            lines = [by_key[one.by]["line"] for one in messages]
            if lines != sorted(lines):
                yield f"law 7: {platform.name}:{address} took parts in another order than they stood in line: {lines}"
            yield from chats.out_of_order(self, f"{platform.name}:{address}", [by_key[one.by] for one in messages])

    # ------------------------------------------------------------ law 8: what watchers hold

    def watched(self) -> Iterator[str]:
        yield from outputs.wrong(self.world.people.watchers, self._rows)
        for watcher in self.world.people.watchers:
            yield from watcher.faults
            session = self.sessions.get(watcher.session)
            if session is None:
                continue
            mine = {e["seq"]: e for e in self.entries if e["session"] == session["id"]}
            if watcher.view.rev != session["rev"]:
                yield f"law 8: a watcher of {watcher.session} is at rev {watcher.view.rev}, not {session['rev']}"
                continue
            if watcher.view.entries.keys() != mine.keys():
                held = sorted(watcher.view.entries)
                yield f"law 8: a watcher of {watcher.session} holds entries {held} of {sorted(mine)}"
                continue
            for seq, entry in mine.items():
                held = watcher.view.entries[seq]
                if held["text"] != entry["text"] or bool(held.get("superseded")) != bool(entry["superseded"]):
                    where, text = f"entry {seq} of {watcher.session}", held["text"]
                    yield f"law 8: {where} is {entry['text']!r}, and is watched as {text!r}"
