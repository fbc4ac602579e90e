"""What each connection of an editor has shown and sent, held against the ledger once all is at rest."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

from proof.schedules.agents import MARK
from proof.schedules.editors import Connection, Editor
from proof.schedules.screens import ENDS

Json = dict[str, Any]
ENTRY_ID = re.compile(r"e(\d+)(\.\d+)?")
STOPS = {"end_turn", "cancelled"}


class Rows(Protocol):
    """The ledger as it was read."""

    sessions: dict[str, Json]
    turns: dict[int, Json]
    entries: list[Json]
    events: list[Json]
    items: list[Json]


def wrong(editors: list[Editor], rows: Rows) -> Iterator[str]:
    for editor in editors:
        for connection in editor.connections:
            for fault in connection.screen.faults:
                yield f"law 8: {connection!r}: {fault}"
            yield from _prompts(connection, rows)
            yield from _own_words(connection)
        yield from _shown(editor.now, rows)
        yield from _open(editor.now)
    yield from _chosen(editors, rows)
    yield from _stopped(editors, rows)
    yield from withdrawn(editors, rows)


def _prompts(connection: Connection, rows: Rows) -> Iterator[str]:
    """Laws 1 and 12: each was heard once, and answered once unless its editor's process was killed."""
    for prompt in connection.prompts.values():
        where = f"prompt {prompt.mark} of {connection!r}"
        heard = [event for event in rows.events if f" {prompt.mark} " in (event["payload"] or "")]
        refused = any("error" in answer for answer in prompt.answers)
        if len(heard) > 1:
            yield f"law 1: {where} was heard {len(heard)} times"
        if not heard and connection.life.alive and not prompt.is_discarded and not (refused and not prompt.was_open):
            yield f"law 1: {where} was never heard; it was answered {prompt.answers}"
        if len(prompt.answers) > 1 or (connection.life.alive and not prompt.answers):
            yield f"law 12: {where} was answered {len(prompt.answers)} times: {prompt.answers}"


def _own_words(connection: Connection) -> Iterator[str]:
    """Law 8: no editor is told what it said itself."""
    own = {prompt.mark for prompt in connection.prompts.values()}
    texts = [shown.text for shown in connection.screen.texts.values() if not shown.text.startswith("About ")]
    for text in [*texts, *connection.screen.pushed]:
        if (echoed := own.intersection(MARK.findall(text))) and "please look at" in text:
            yield f"law 8: {connection!r} is told its own prompt {echoed}: {text!r}"


def _shown(connection: Connection, rows: Rows) -> Iterator[str]:
    """Law 8: of all that was said since the session was opened, each is on the screen once, and whole."""
    session = rows.sessions.get(connection.editor.session)
    if session is None or (connection.how == "prompt" and not connection.told_until):  # it was never opened
        return
    waits = connection.editor.profile.out_of_turn == "until_prompt"
    entries = [
        e for e in rows.entries
        if e["session"] == session["id"] and e["seq"] > session["erased"] and e["text"]
        and (e["seq"] <= connection.told_until or not waits)
    ]  # fmt: skip
    if connection.screen.dropped:
        yield f"law 8: {connection!r} was sent {connection.screen.dropped} updates outside of its turns, and drops them"
    if any(id.startswith("missed-") for id in connection.screen.texts):  # so much was missed that some is left out
        return
    yield from _agents_words(connection, entries, rows)
    yield from _others_words(connection, entries, {event["id"]: event for event in rows.events})


def _agents_words(connection: Connection, entries: list[Json], rows: Rows) -> Iterator[str]:
    stands = [e for e in entries if e["role"] == "agent" and not e["superseded"]]
    by_id = {id: text.text for id, text in connection.screen.texts.items() if ENTRY_ID.fullmatch(id)}
    shown, known = Counter(by_id.values()), Counter(e["text"] for e in stands)
    for text, count in Counter(e["text"] for e in stands if e["seq"] > connection.begins_behind).items():
        if shown[text] < count and not _goes_on(connection, stands, text, by_id):
            yield f"law 8: {connection!r} shows {text!r} {shown[text]} times, and it was said {count} times"
    for text in known:
        if shown[text] > known[text]:
            yield f"law 8: {connection!r} shows {text!r} {shown[text]} times, and it stands {known[text]} times"
    by_seq = {entry["seq"]: entry for entry in entries}
    for id, text in by_id.items():
        entry = by_seq.get(int(id[1:].partition(".")[0]))
        if entry is not None and entry["superseded"] and text not in known:
            yield from _replaced(connection, entry, text, stands)


def _supersedes(entry: Json) -> list[int]:
    return list(json.loads(entry["more"] or "{}").get("supersedes", []))


def _goes_on(connection: Connection, stands: list[Json], text: str, by_id: Mapping[str, str]) -> bool:
    """Whether a resumed session goes on with a text that its editor has had from before: it gets the rest, if any."""
    if connection.how not in ("resume", "prompt"):
        return False
    replaced = [seq for entry in stands if entry["text"] == text for seq in _supersedes(entry)]
    return any(text.endswith(by_id.get(f"e{seq}", "")) for seq in replaced)


def _replaced(connection: Connection, entry: Json, text: str, stands: list[Json]) -> Iterator[str]:
    """A text that a later attempt replaced stays on the screen, unless that goes on from it."""
    if entry["seq"] in connection.replaced and connection.how != "resume":
        yield f"law 8: {connection!r} is shown {text!r}, which was replaced before it opened the session"
    for later in stands:
        replaced = _supersedes(later)
        if replaced and max(replaced) == entry["seq"] and text and later["text"].startswith(text):
            yield f"law 8: {connection!r} shows {text!r}, and again as the beginning of {later['text']!r}"


def _others_words(connection: Connection, entries: list[Json], events: Mapping[int, Json]) -> Iterator[str]:
    """What other people say is shown once, in their order; what machines report, too."""
    own = {prompt.mark for prompt in connection.prompts.values()}
    new = [e for e in entries if e["seq"] > connection.begins_behind]
    others = [e for e in new if e["role"] in ("user", "event") and not own.intersection(MARK.findall(e["text"]))]
    screen, places = connection.screen, list[int]()
    for entry in others:
        id = f"e{entry['seq']}"
        pushed = entry["role"] == "user" and screen.pushed.count(entry["text"])
        by_id = id in screen.texts and entry["text"].split("\n")[0] in screen.texts[id].text
        same = sum(other["text"] == entry["text"] for other in others)
        if by_id + pushed < 1:
            yield f"law 8: {connection!r} lacks what somebody else said: {entry['text']!r}"
        elif by_id + pushed > same:
            yield f"law 8: {connection!r} shows {entry['text']!r} of somebody else {by_id + pushed} times"
        elif entry["role"] == "user" and same == 1 and entry["text"] not in connection.refused:
            places.append(screen.order.index(id if by_id else entry["text"]))
    if any(later < before for before, later in pairwise(places)):
        yield f"law 8: {connection!r} shows what others said in another order: {places}"


def _open(connection: Connection) -> Iterator[str]:
    """Law 12: nothing hangs: no dialog, no drawn turn, no call."""
    for params in connection.asked.values():
        yield f"law 12: {connection!r} still asks for {params['toolCall']['toolCallId']}"
    if connection.pushes:
        yield f"law 12: {connection!r} draws a turn of somebody else that never ends"
    for id, call in connection.screen.calls.items():
        if call.get("status") not in ENDS:
            yield f"law 12: {connection!r} shows call {id} as {call.get('status')}"


def _chosen(editors: list[Editor], rows: Rows) -> Iterator[str]:
    """Law 13: what counts as an editor's answer is what was chosen there."""
    for item in rows.items:
        body = json.loads(item["body"])
        if item["kind"] != "permission" or body.get("state") != "answered":
            continue
        names = {item["name"], f"semel-ask-{item['id']}"}
        connections = [one for editor in editors if editor.profile.name == body["by"] for one in editor.connections]
        chosen = {option for one in connections for name in names for option in one.chosen.get(name, ())}
        if connections and body["answer"] not in chosen:
            answer = f"{body['answer']!r} by {body['by']}"
            yield f"law 13: request {item['id']} counts as answered {answer}, which chose {chosen}"


def _stopped(editors: list[Editor], rows: Rows) -> Iterator[str]:
    """Law 10: a cancel ends the turn of the editor's prompt; without one, the turn that ran when it came."""
    for name in {editor.profile.name for editor in editors}:
        connections = [one for editor in editors if editor.profile.name == name for one in editor.connections]
        meant = set[int]().union(*(one.cancelled_roots for one in connections))
        marks = {prompt.mark for one in connections for prompt in one.prompts.values() if prompt.is_cancelled}
        meant |= {
            rows.turns[event["turn"]]["root"] for event in rows.events
            if event["turn"] is not None and marks.intersection(MARK.findall(event["payload"] or ""))
        }  # fmt: skip
        for entry in rows.entries:
            if entry["text"] != f"Stopped by {name}." or entry["role"] != "notice" or entry["turn"] is None:
                continue
            if rows.turns[entry["turn"]]["root"] not in meant:
                yield f"law 10: turn {entry['turn']} was stopped in {name}, where nobody meant it"


def withdrawn(editors: Sequence[Editor], rows: Rows) -> Iterator[str]:
    """Law 2: a cancel takes out prompts of its own editor alone: what waits beside them is done by a turn.

    The evidence of a withdrawal is the entry of the message itself.
    """
    prompts = [prompt for editor in editors for one in editor.connections for prompt in one.prompts.values()]
    meant = {prompt.mark for prompt in prompts if prompt.is_cancelled}
    events = {(entry["session"], entry["seq"]): entry["event"] for entry in rows.entries}
    for event in rows.events:
        turn = rows.turns.get(event["turn"])
        if turn is None or turn["evidence"] != "stopped" or meant.intersection(MARK.findall(event["payload"] or "")):
            continue
        if events.get((turn["session"], turn["evidence_row"])) == event["id"]:
            yield f"law 2: event {event['id']} ({event['key']}) was withdrawn, and nobody had cancelled it"
