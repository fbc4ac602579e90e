"""Real agents through a running gateway: delivered = recorded = shown, with the exact texts (`make test-agents`)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from expected import Expected, expected
from fleet import AGENTS, INSTALLER, RealAgent, chosen, installed
from models.script import SUGGESTION, Json, Script
from real_house import ROOM, House
from scenarios import (
    ASKED,
    NEED_STREAM,
    NEED_TOOLS,
    ONLY,
    ORPHANED,
    PLANS,
    SCENARIOS,
    UNABLE,
    deny,
    kill_gateway_in_tool,
    stop_while_asked,
)
from watcher import Watcher, row, words_of

pytestmark = pytest.mark.agents


def cases() -> list[tuple[str, str]]:
    """Each agent with each scenario that it is able to play; one that is not installed with the first, to fail once."""
    return [(agent, scenario) for agent in chosen() for scenario in PLANS if can_play(AGENTS[agent], scenario)]


def can_play(agent: RealAgent, scenario: str) -> bool:
    if not INSTALLER.is_installed(agent.name):
        return scenario == "plain"
    return (
        (agent.tools or scenario not in NEED_TOOLS or (agent.tools_later and scenario == "ask_send"))
        and (agent.asks or scenario != "perm")
        and (agent.streams or scenario not in NEED_STREAM)
        and agent.name in ONLY.get(scenario, AGENTS)
        and (agent.name, scenario) not in UNABLE
    )


@pytest.mark.parametrize(("agent", "scenario"), cases(), ids=lambda name: name)
async def test_what_the_model_says_is_delivered_recorded_and_shown_once(
    tmp_path: Path, agent: str, scenario: str
) -> None:
    possible = expected(agent, scenario)
    policy = "ask" if scenario in ASKED else "allow"
    async with House(tmp_path, installed(agent), Script(SCENARIOS), policy) as house:
        await PLANS[scenario](house)
        (session,) = house.watchers
        possible.sort(key=lambda one: one.asked != tuple(house.script.asked))  # some differ in what is asked alone
        wanted = await _judge(house, session, possible)
        asked = tuple(house.script.asked)
        if AGENTS[agent].asks_aside:
            assert _without_repeats(asked) == _without_repeats(wanted.asked), house.story()
        else:
            assert asked == wanted.asked, house.story()
        await house.doctor()


def _without_repeats(names: tuple[str, ...]) -> list[str]:
    return [name for name, _ in itertools.groupby(names)]


async def _judge(house: House, session: str, possible: list[Expected]) -> Expected:
    """Shown = recorded = delivered = one of what is possible, which is returned."""
    seen = house.watchers[session]
    assert seen.fault is None
    entries = await _recorded(house, session)
    assert seen.view.entries == entries, "shown = recorded, field by field"
    rows = [row(entry) for entry in _ordered(entries)]
    said = tuple(r for r in rows if not r.startswith("user: "))
    wanted = next((one for one in possible if one.rows == said), possible[0])
    assert said == wanted.rows, house.story()
    assert [r for r in rows if r.startswith("user: ")] == [f"user: {text}" for text in house.told[session]]
    assert SUGGESTION not in str(rows)
    assert ORPHANED not in str(rows)
    _delivered(house, session, entries, wanted)
    _items(house, seen.view.items, wanted)
    await _comes_anew(house, seen)
    return wanted


async def _recorded(house: House, session: str) -> dict[int, Json]:
    page = await house.get(f"/v1/sessions/{session}/entries?after=0&limit=10000")
    return {entry["seq"]: entry for entry in page["entries"]}


def _ordered(rows: Mapping[int, Json]) -> list[Json]:
    return sorted(rows.values(), key=lambda row: int(row["born"]))


def _delivered(house: House, session: str, entries: Mapping[int, Json], wanted: Expected) -> None:
    """What reached the webhook is what was recorded as sent there, each once and in order."""
    assert len({post["id"] for post in house.posts}) == len(house.posts), "no post came twice"
    claimed = sorted(entries.values(), key=lambda e: int(e["claim"] or 0) if e.get("claim") else 0)
    recorded = [entry for entry in claimed if entry.get("delivery")]
    assert all(leg["state"] == "sent" for e in entries.values() for leg in e.get("delivery") or [])
    assert [post["text"] for post in house.posts] == [entry["text"] for entry in recorded], house.story()
    if wanted.delivered is None:
        rows = [r for r in wanted.rows if r.startswith(("agent", "notice permission"))]
        assert [row(entry) for entry in recorded] == rows, house.story()
    else:
        assert tuple(map(words_of, recorded)) == wanted.delivered, house.story()
    assert session != ROOM or recorded


def _items(house: House, items: Mapping[int, Json], wanted: Expected) -> None:
    """Tool calls, thoughts and permission requests; each text as far as the expectation tells."""
    found = [_line(item) for item in _ordered(items) if item["kind"] in ("tool", "thought", "permission")]
    assert len(found) == len(wanted.items), (found, wanted.items)
    lines = found if house.agent.asks_in_order else _in_order_of(wanted.items, found)
    for line, want in zip(lines, wanted.items, strict=True):
        assert line.startswith(want), (lines, house.story())
    assert not [item for item in items.values() if item.get("live")]


def _in_order_of(wants: tuple[str, ...], lines: list[str]) -> list[str]:
    """The lines, each where it is wanted: the most precise wish takes its line first. A wish in vain gets ""."""
    left, taken = list(lines), dict.fromkeys(range(len(wants)), "")
    for at in sorted(taken, key=lambda at: -len(wants[at])):
        if line := next((line for line in left if line.startswith(wants[at])), ""):
            taken[at] = line
            left.remove(line)
    return list(taken.values())


def _line(item: Json) -> str:
    match item["kind"]:
        case "tool":
            return f"tool {item['status']}: {item['title']} -> {item['text'].strip()}"
        case "thought":
            return f"thought: {item['text'].strip()}"
        case _:
            return f"permission {item['state']}"


async def _comes_anew(house: House, seen: Watcher) -> None:
    """Whoever comes now is shown the very same."""
    late = Watcher(house.url, seen.session)
    try:
        await house.until(lambda: late.connected, "a late watcher is served")
        assert late.view.entries == seen.view.entries
        assert late.view.items == seen.view.items
    finally:
        await late.stop()


async def _questions_denied_and_stopped(house: House) -> None:
    await deny(house)
    await stop_while_asked(house)
    items = _ordered(house.watchers[ROOM].view.items)
    questions = [item["state"] for item in items if item["kind"] == "permission"]
    assert questions == ["answered", "cancelled"], house.story()
    assert not (house.work / "perm_marker").exists()


async def _gateway_killed_in_tool(house: House) -> None:
    """What was said before the command is no answer: there is another one, or a reason why not."""
    await kill_gateway_in_tool(house)
    last = _ordered(await _recorded(house, ROOM))[-1]
    assert last["role"] == "notice" or "Before the tool." not in last["text"], house.story()


INTERRUPTIONS = {"denied": _questions_denied_and_stopped, "killed": _gateway_killed_in_tool}


@pytest.mark.parametrize(
    ("agent", "interruption"),
    [
        (agent, interruption)
        for agent in chosen()
        for interruption in INTERRUPTIONS
        if INSTALLER.is_installed(agent) and (AGENTS[agent].asks or interruption != "denied")
    ],
)
async def test_no_tool_call_stays_open_that_was_denied_stopped_or_lost(
    tmp_path: Path, agent: str, interruption: str
) -> None:
    policy = "ask" if interruption == "denied" else "allow"
    async with House(tmp_path, AGENTS[agent], Script(SCENARIOS), policy) as house:
        await INTERRUPTIONS[interruption](house)
        calls = [item for item in house.watchers[ROOM].view.items.values() if item["kind"] == "tool"]
        assert not [call for call in calls if call["status"] in ("pending", "running") or call.get("live")], calls
        await house.doctor()
