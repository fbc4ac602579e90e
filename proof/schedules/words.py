"""What agents told to its end, held against the entries and the parts (Law 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from proof.schedules.plan import Plan
from proof.schedules.told import Prompted, Told, count_copies
from semel.text.verbatim import verbatim_form

Json = dict[str, Any]


class Rows(Protocol):
    """The ledger as it was read, and the plan. `names`: session ids to keys."""

    plan: Plan
    all_prompts: list[Prompted]
    sessions: dict[str, Json]
    names: dict[int, str]
    roots: Mapping[int, list[Json]]
    entries: list[Json]
    claims: dict[int, Json]
    parts: list[Json]
    platforms: Mapping[str, Any]


def missing(rows: Rows, root: int, prompts: list[Prompted]) -> Iterator[str]:
    """What the agent of a turn told, and nobody can read."""
    final = rows.roots[root][-1]
    for one in prompts:
        for told in one.told:
            if told.how == "send" and (told.answer or {}).get("ok") and not _stands(rows, root, told.text, None):
                yield f"law 6: the agent was told that {told.text!r} was sent, and no entry says so"
    if final["state"] != "done":
        return
    group, before = _last_groups(prompts)
    home = rows.sessions[rows.names[final["session"]]]["home"]
    if final["how"] == "resume" and _added_nothing(group) and rows.plan.shape["agent"]["memory"] == "loaded":
        yield from _recollected(rows, final, before, home)
    for one in group:
        last = [told for told in one.told if told.how == "block"][-1:]
        for told in one.told:
            if told.how in ("block", "aside") and told.whole:
                everything = rows.plan.shape["narration"] == "all" or told.how == "aside"
                leaves = everything or (one is group[-1] and told in last)
                dest = home if told.how == "block" else "chat:side"
                yield from _delivered(rows, final, _as_known(rows, final, told), dest, leaves=leaves)
        yield from _swallowed(rows, final, one, home)


def _swallowed(rows: Rows, final: Json, one: Prompted, home: str) -> Iterator[str]:
    """Law 5: what an agent says twice in one answer stands twice, also where an attempt before had said it once."""
    for text in {told.text for told in one.told if told.repeated and told.whole}:
        stands, copies = len(_stands(rows, final["root"], text, home)), count_copies([one], text)
        if stands < copies:
            yield f"law 5: the agent said {text!r} {copies} times in turn {final['id']}, and it stands {stands} times"


def _as_known(rows: Rows, final: Json, told: Told) -> str:
    """A text as it has to stand. Where it came again unmarked and the turn is finished from a memory, that holds only
    the last of it: unless all of it was shown, people read what was shown and then that."""
    if final["how"] != "recall" or not told.unmarked or _stands(rows, final["root"], told.text, None):
        return told.text
    return told.kept


def shown_once_more(rows: Rows, root: int, prompts: list[Prompted]) -> Iterator[str]:
    """Law 8: a text that came again unmarked is shown twice, not a third time from its agent's memory."""
    blocks = [told for one in prompts for told in one.told if told.how == "block"]
    plain = {told.text for told in blocks}
    for told in blocks:
        if not told.unmarked or told.kept in plain or not _stands(rows, root, told.text, None):
            continue
        again = [claim["id"] for claim in _stands(rows, root, told.kept, None) if claim["how"] == "recovery"]
        if again:
            yield f"law 8: {told.text!r} was shown, and {told.kept!r} stands again (claims {again})"


def told_behind_echoes(claims: Iterable[Json], turns: Mapping[int, Json], told: Iterable[str]) -> list[str]:
    """The rest of each text whose beginning was an echo when another prompt joined its turn: a text of its own.

    `claims`: those of a session. `told`: what agents told there.
    """
    echoes = [
        claim["text"]
        for claim in claims
        if (claim["how"], claim["outcome"]) == ("block", "echo")
        and claim["id"] <= (turns[claim["turn"]]["joined"] or 0)
    ]
    return [text.removeprefix(echo) for text in told for echo in echoes if text.startswith(echo) and text != echo]


def _added_nothing(group: list[Prompted]) -> bool:
    """Whether the agent that was asked to go on ended without a word: what it had told before is its answer."""
    return len(group) == 1 and group[0].resumes and group[0].end == "end_turn" and not group[0].told


def _recollected(rows: Rows, final: Json, before: list[Prompted], home: str) -> Iterator[str]:
    """What its memory had of the attempt before, if that was asked, shown or not, stands; the last of it leaves."""
    if not before or rows.plan.shape["agent"]["holds"] == "late":  # nothing of an attempt that was cut off
        return
    session, first = before[0].session, before[0].n
    silent = [one for one in rows.all_prompts if one.session == session and one.n < first and not _kept_any(one)]
    if silent:  # prompts with nothing between them are one in a history: whose answer stands there is not known
        return
    blocks = [told for one in before for told in one.told if told.how == "block"]
    for told in blocks:
        if told.whole and not told.unmarked and not told.copied:
            last = told is blocks[-1] and before[-1].told[-1:] == [told]
            if told.undecided and any(told.text in entry["text"] for entry in rows.entries):
                continue  # behind an attempt at it, from which nothing had told it apart yet
            yield from _delivered(rows, final, told.text, home, leaves=last)


def _kept_any(one: Prompted) -> bool:
    return any(told.kept for told in one.told)


def _delivered(rows: Rows, turn: Json, text: str, dest: str, *, leaves: bool) -> Iterator[str]:
    """A text that an agent ended stands in the transcript, and has parts where it has to leave."""
    stands = _stands(rows, turn["root"], text, dest)
    if not stands:
        yield f"law 6: the agent said {text!r} to {dest} in turn {turn['id']}, and no entry says so"
        return
    ids = {claim["id"] for claim in stands}
    outgoing = dest.partition(":")[0] in rows.platforms
    if leaves and outgoing and not any(part["claim"] in ids for part in rows.parts):
        yield f"law 6: {text!r} of turn {turn['id']} stands in the transcript, and nothing of it left for {dest}"


def _last_groups(prompts: list[Prompted]) -> tuple[list[Prompted], list[Prompted]]:
    """The last attempt's prompt, and those that joined it; the same of the attempt before."""
    groups: list[list[Prompted]] = [[], []]
    for one in prompts:
        if one.steered and groups[-1]:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups[-1], groups[-2]


def _stands(rows: Rows, root: int, text: str, dest: str | None) -> list[Json]:
    """The claims by which a text stands in the transcript of its session, said to a destination (None: any). What was
    shown before a turn ended has none of its own: it was said at home."""
    wanted = verbatim_form(text)
    found = []
    for entry in rows.entries:
        claim = rows.claims.get(entry["claim"])
        if claim is None or claim["root"] != root or entry["session"] != claim["session"] or entry["superseded"]:
            continue
        said_to = claim["dest"]
        if said_to is None and claim["how"] == "recovery":
            said_to = rows.sessions[rows.names[claim["session"]]]["home"]
        if dest in (None, said_to) and verbatim_form(entry["text"]) == wanted:
            found.append(claim)
    return found
