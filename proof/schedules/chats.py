"""What people find in their chats at the end of a run, held against the entries (Laws 7 and 12)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any, Protocol

from proof.schedules.deeds import UNSEEN
from proof.schedules.platforms import Platform
from semel.ledger.delivery.placeholders import REASONS

Json = dict[str, Any]
STANDS = ("done", "failed", "cancelled")


class Rows(Protocol):
    """The ledger as it was read. `listed`: events that no agent is asked; `names`: session ids to keys."""

    sessions: dict[str, Json]
    names: dict[int, str]
    turns: dict[int, Json]
    roots: defaultdict[int, list[Json]]
    entries: list[Json]
    claims: dict[int, Json]
    parts: list[Json]
    events: list[Json]
    listed: Collection[Any]
    platforms: Mapping[str, Any]


def out_of_order(rows: Rows, home: str, parts: list[Json]) -> Iterator[str]:
    """What a person received, in its order, is what each transcript says. Only what a tool sent may overtake other
    text, and what a lost attempt left behind leaves with its turn. A text is recorded once it is whole."""
    claims = [rows.claims[part["claim"]] for part in parts]
    for session in {claim["session"] for claim in claims}:
        for kept in ("tool", "block"):
            mine = [
                claim
                for claim in claims
                if claim["session"] == session and claim["how"] in (kept, "notice") and _stands_in_order(rows, claim)
            ]
            for before, after in pairwise(mine):
                if before["id"] > after["id"]:
                    what = f"{after['text']!r} behind {before['text']!r}"
                    yield f"law 7: {home} got {what}, and {rows.names[session]} has it the other way round"


def _stands_in_order(rows: Rows, claim: Json) -> bool:
    turn = rows.turns.get(claim["turn"])
    return claim["outcome"] == "said" and (turn is None or turn["state"] != "lost")


def unanswered(rows: Rows) -> Iterator[str]:
    """Behind every message that asked for a turn stands something that its person can see: on a page by being
    recorded, in a chat by having parts there, unless they stopped the turn in that very chat."""
    parts: defaultdict[int, list[Json]] = defaultdict(list)
    for part in rows.parts:
        parts[part["claim"]].append(part)
    for event in rows.events:
        if not event["wakes"] or event["turn"] is None or event["kind"] == "heartbeat":
            continue
        session, final = rows.sessions[rows.names[event["session"]]], rows.turns[event["turn"]]
        mine = [e for e in rows.entries if e["session"] == session["id"]]
        asked = next(e["seq"] for e in mine if e["event"] == event["id"])
        if final["state"] not in STANDS or asked <= session["erased"]:
            continue
        if (final["state"], final["evidence"], final["evidence_row"]) == ("cancelled", "stopped", asked):
            continue  # its sender withdrew it while it waited, and was answered so
        attempts = {turn["id"] for turn in rows.roots[final["root"]]}
        behind = [e for e in mine if e["seq"] > asked]
        seen = [e for e in behind if e["turn"] in attempts and _is_seen(rows, e, session["home"], parts)]
        if not seen and not (final["state"] == "cancelled" and _stopped_there(rows, behind, session["home"])):
            what = f"{event['key']} (turn {final['id']}, {final['state']}) of {session['key']}"
            yield f"law 12: nobody at {session['home']} can see what became of {what}"


def _is_seen(rows: Rows, entry: Json, home: str | None, parts: dict[int, list[Json]]) -> bool:
    more, claim = json.loads(entry["more"] or "{}"), rows.claims.get(entry["claim"])
    if entry["role"] not in ("agent", "notice") or "to" in more or more.get("kind") in ("reaction", "edit", "refused"):
        return False
    if not entry["text"].strip(UNSEEN):
        return False
    if home is None or home.partition(":")[0] not in rows.platforms:
        return True
    left = [part for part in parts[claim["id"]] if part["dest"] == home] if claim is not None else []
    return bool(left)


def _stopped_there(rows: Rows, behind: list[Json], home: str | None) -> bool:
    """Whether people said something at home afterwards, a command or a message: it has an answer of its own."""
    events = {event["id"]: event for event in rows.events}
    source = f"channel:{(home or '').partition(':')[0]}"
    commands = rows.listed
    said = [events[e["event"]] for e in behind if e["role"] == "user" and e["event"] in events]
    return any(one["id"] in commands or one["source"] == source for one in said)


def answers_a_later_prompt(rows: Rows, before: Json, after: Json) -> bool:
    """Whether a prompt joined between the two. An attempt that restarts the turn says all anew (and may repeat what
    was said before the prompt joined a lost attempt) only with its last block."""
    claim = rows.claims[after["claim"]]
    if claim["how"] == "tool":
        return False
    turn = rows.turns[claim["turn"]]
    blocks = [
        one["id"]
        for one in rows.claims.values()
        if one["turn"] == turn["id"] and one["how"] == "block" and one["reason"] not in REASONS
    ]
    anew = turn["how"] in ("restart", "recall") and claim["id"] != max(blocks)
    attempts = [turn] if anew else [one for one in rows.roots[turn["root"]] if one["id"] <= turn["id"]]
    joined = [one["joined"] for one in attempts if one["joined"] is not None]
    heard = [e for e in rows.entries if e["session"] == after["session"] and '"joined"' in (e["more"] or "")]
    # A turn's row knows the last prompt that joined it: with more of them, another may have come in time.
    return any(before["claim"] <= one and (one < claim["id"] or len(heard) > 1) for one in joined)


def count_taken(platform: Platform, by_key: dict[str, Json]) -> Counter[str]:
    """How many messages have said the text of each part, by the part's key. A placeholder does not say it."""
    texts = {key: json.loads(part["op"]).get("text", "") for key, part in by_key.items()}
    said = {(post.key, post.id) for post in platform.log if post.text == texts.get(post.key)}
    return Counter(key for key, _ in said)
