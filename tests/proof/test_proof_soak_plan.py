"""What the soak stands on: its plan, its gauges, and what it reads of watchers, guards and agents."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # where `proof` and `bench` are

from proof.soak import gauges
from proof.soak.evidence import notes
from proof.soak.plan import DEEDS, Traffic, channels, sessions
from proof.soak.world import World
from proof.stream_view import View

pytestmark = pytest.mark.proof


def test_what_a_watcher_is_told_against_order_is_a_fault() -> None:
    view = View()
    first = {"op": "entry", "seq": 1, "rev": 1, "text": "Se", "live": True}
    assert view.take({"rev": 1, "changes": [first]}) == [1]
    view.take({"rev": 3, "changes": [{"op": "append", "seq": 1, "rev": 3, "text": "en"}]})
    assert view.entries[1]["text"] == "Seen" and not view.faults
    view.take({"rev": 3, "changes": [{"op": "append", "seq": 1, "rev": 3, "text": "en"}]})
    assert view.faults == ["rev 3 came behind 3"]
    view.take({"rev": 5, "changes": [{**first, "rev": 4, "live": False}, {**first, "rev": 5, "text": "X", "live": 0}]})
    assert view.faults[1:] == ["entry 1 was 'Se' and became 'X'"]
    view.take({"rev": 7, "changes": [{"op": "append", "seq": 9, "rev": 7, "text": ""}]})
    assert len(view.faults) == 3


def test_memory_that_climbs_is_told_and_memory_that_stands_is_not() -> None:
    def looks(rise: float) -> gauges.Gauges:
        one = gauges.Gauges(world=None)  # type: ignore[arg-type]
        one.eves = [gauges.Look(n, 20.0, 100 * (1 + rise * n), 50, 20, 9, 0.0, 0) for n in range(20)]
        one.looks = [gauges.Look(20, 2.0 * n, 100 * (1 + rise * n / 5), 50, 20, 9, 0.0, 0) for n in range(100)]
        return one

    assert gauges.flatness(looks(0.0))[1] == []
    assert gauges.flatness(looks(0.002))[1] == []
    crowded = looks(0.0)
    crowded.looks.append(gauges.Look(20, 300.0, 100, 50, 99, 41, 0.0, 0))
    assert "41 agents at once" in gauges.flatness(crowded)[1][0]
    lives, life = gauges.flatness(looks(0.01))[1]
    assert "rss over the lives" in lives and "rss in one life" in life


def test_a_guard_is_ours_by_its_start_and_not_by_a_pid_that_was_used_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    command = ["/bin/sh", "-c", "read -r word", "semel-guard", "4711"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as world.process:
        pid = world.process.pid
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        world._guards = {(pid, "1")}
        assert world.processes() == []
        world._guards = {(pid, start)}
        assert [one.pid for one in world.processes()] == [pid]
        world.process.communicate()


def test_the_plan_has_twenty_channels_of_each_class_and_the_same_seed_says_the_same() -> None:
    all_ = channels()
    assert len(all_) == 20 and {one.safety for one in all_} == {"idempotent", "reconcilable", "at-most-once"}
    places = sessions(200, all_)
    assert len({one.key for one in places}) == 200 and {one.channel for one in places} == {None, *all_}
    one, other = Traffic(3, places), Traffic(3, places)
    said = [one.next() for _ in range(3000)]
    assert said == [other.next() for _ in range(3000)]
    assert {each.deed for each in said} == set(DEEDS) and {each.session for each in said} == set(places)


def test_what_agents_wrote_down_is_read(tmp_path: Path) -> None:
    resumed = "[semel: your turn goes on; nobody typed this]\n- it was asked: 'look at q2x1a tool'\n[/semel]"
    lines = [
        {"pid": 3, "at": 5, "blocks": ["[semel: notes for you; nobody typed this]\nq9x9a", "look at q1x1a die"]},
        {"pid": 3, "at": 6, "answered": ["q1x1a"]},
        {"pid": 4, "at": 7, "blocks": [resumed]},
    ]
    (tmp_path / "prompts").write_text("".join(json.dumps(one) + "\n" for one in lines))
    asked, answered = notes(tmp_path / "prompts")
    assert [(one.pid, one.marks) for one in asked] == [(3, ("q1x1a",)), (4, ("q2x1a",))]
    assert answered == {("q1x1a",): 6}
