"""Agents that remember a lost turn as real ones do, killed at each step with real processes: nobody is left without
the answer, nothing is said or done twice (Laws 5, 6, 9, 12)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from remembering_agent import DONE, LOOK, POINTS, SENT
from system_house import House, Json, Receiver, channel, opened, receiver, until

WAYS = ("finished", "items", "halves", "late", "other ids", "after", "again", "silent", "joined")
HOMES = ("last", "all", "web")
AGENT = Path(__file__).with_name("remembering_agent.py")


@contextmanager
def house(path: Path) -> Iterator[tuple[House, Receiver]]:
    with receiver() as rx:
        config = "[gateway]\nmax_live_agents = 64\n"
        for name in ("last", "all"):
            config += channel(name, rx.url, narration=name)
        for way in WAYS:
            command = json.dumps([sys.executable, str(AGENT), str(path / "memory"), way])
            config += f'[agents.{way.replace(" ", "-")}]\ncommand = {command}\npermissions = "allow"\n'
        (path / "memory").mkdir()
        with opened(House(path, config)) as running:
            yield running, rx


def sessions(parity: int) -> Iterator[tuple[str, str, str]]:
    """(way, point, key) of half of all cases: the other half dies otherwise. Homes take turns."""
    for n, way in enumerate(WAYS):
        for k, point in enumerate(POINTS):
            if (n + k) % 2 == parity:
                yield way, point, f"{way.replace(' ', '-')}:{HOMES[(n + k // 2) % 3]}:{n}x{k}"


def judge(h: House, rx: Receiver, way: str, point: str, key: str) -> list[str]:
    """What is wrong with this case, in words."""
    room, home = key.rpartition(":")[2], key.split(":")[1]
    entries = h.entries(key)
    stands = Counter(one["text"].strip() for one in entries if one["role"] == "agent" and not one.get("superseded"))
    posts = Counter(text.strip() for text in {p.id: p.text for p in rx.posts if p.data["to"] == room}.values())
    wrong = [f"{text!r} stands {n} times" for text, n in stands.items() if n > 1]
    wrong += [f"{text!r} was sent {n} times" for text, n in posts.items() if n > 1]
    expected = [] if way == "silent" and POINTS.index(point) < 4 else [DONE]
    expected += [SENT] if way != "silent" or POINTS.index(point) >= 3 else []
    wrong += [f"{text!r} is missing in the record" for text in expected if not stands[text]]
    if home != "web":
        wrong += [f"{text!r} never reached the chat" for text in expected if not posts[text]]
        wrong += [f"{text!r} was sent" for text in posts if text not in (LOOK.strip(), SENT, DONE)]
        wrong += ["the chat is left without any word"] if not posts else []
    partial = [one["text"] for one in entries if one.get("partial") and not one.get("superseded")]
    unknown = way in ("halves", "joined") or (way in ("late", "finished", "other ids") and point == "answered")
    wrong += [f"{text!r} is still partial" for text in partial if text == DONE and not unknown]
    wrong += [f"notice: {one['text']}" for one in entries if one["role"] == "notice"]
    return [f"{way}, {point}, {home}: {one} ({[one['text'] for one in entries]}, {dict(posts)})" for one in wrong]


def played(h: House, rx: Receiver, path: Path, parity: int) -> None:
    """Every session came to rest, and is as it has to be."""
    cases = list(sessions(parity))
    for _, _, key in cases:
        h.idle(key)
    h.settled()
    wrong = [line for case in cases for line in judge(h, rx, *case)]
    assert not wrong, "\n" + "\n".join(wrong)
    ran = {one.stem: one.read_text().count("ran") for one in (path / "memory").glob("*.ran")}
    assert {n for n in ran.values() if n > 1} == set(), "a tool ran twice"
    with apsw.Connection(str(h.data / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY) as db:
        ways = Counter(how for (how,) in db.execute("SELECT how FROM turn"))
    assert not ways["recall"], "no agent of these marks the end of a turn"
    assert ways["resume"] >= len(cases) // 2, ways


def begin(h: House, parity: int, what: str) -> None:
    """Each session begins its turn, in which its agent `dies` or `waits` at its point."""
    for _, point, key in sessions(parity):
        h.say(key, json.dumps({what: [point]}))


@pytest.mark.storm
def test_an_agent_that_is_killed_at_any_step_is_asked_to_go_on_and_its_person_sees_the_outcome(tmp_path: Path) -> None:
    with house(tmp_path) as (h, rx):
        begin(h, 0, "dies")
        played(h, rx, tmp_path, 0)


@pytest.mark.storm
def test_a_gateway_that_is_killed_while_agents_are_at_any_step_asks_each_to_go_on(tmp_path: Path) -> None:
    with house(tmp_path) as (h, rx):
        begin(h, 1, "waits")
        cases = list(sessions(1))
        until(lambda: len(list((tmp_path / "memory").glob("*.deaths"))) == len(cases), "every agent is at its point")
        until(lambda: all(_shown(h, key) for _, _, key in cases), "what was streamed is recorded")
        h.kill()
        h.up()
        played(h, rx, tmp_path, 1)


def _shown(h: House, key: str) -> bool:
    told: list[Json] = h.entries(key)
    return any(one["role"] == "agent" for one in told)


def test_an_agent_that_dies_again_where_it_goes_on_is_asked_a_third_time(tmp_path: Path) -> None:
    with house(tmp_path) as (h, rx):
        keys = {way: f"{way.replace(' ', '-')}:last:{n}x4" for n, way in enumerate(("finished", "items", "other ids"))}
        for key in keys.values():
            h.say(key, json.dumps({"dies": ["tool ended", "sent"]}))
        for way, key in keys.items():
            h.idle(key)
            h.settled()
            assert len(list((tmp_path / "memory").glob("*.ran"))) == len(keys)
            assert not (wrong := judge(h, rx, way, "tool ended", key)), wrong
