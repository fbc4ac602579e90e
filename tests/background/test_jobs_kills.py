"""`kill -9` of gateways and supervisors: no job starts twice, and each is told to its end exactly once."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import httpx2
import pytest
from jobs_house import (
    CONFIG,
    Json,
    alive,
    answers,
    ask,
    begin,
    call,
    ended,
    ends,
    jobs,
    nothing_begins,
    processes,
    rest,
    start,
    supervisor,
    tool_servers,
    woken,
)
from system_house import DEMO, House, opened, script, until

MANY = f'{DEMO}\n[background]\njobs = 50\nall = 50\ntime = "60s"\n'
KILLS = 4


def gone(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it is dead")


@pytest.mark.storm
def test_whatever_dies_while_jobs_run_each_end_is_told_once(tmp_path: Path) -> None:
    go, later, ran = (tmp_path / name for name in ("go", "later", "ran"))
    wait = "until test -e {}; do sleep 0.05; done; ".format
    with opened(House(tmp_path, MANY)) as house:
        through, down, lost, told = (
            start(house, f"demo:{name}", command)
            for name, command in (
                ("through", f"{wait(go)}exit 4"),
                ("down", f"{wait(later)}exit 5"),
                ("lost", "sleep 60"),
                ("told", f"{wait(later)}echo said; exit 6"),
            )
        )
        with nothing_begins(house):
            house.say("demo:never", script(begin(f"touch {ran}")))
            until(lambda: [one["state"] for one in jobs_of(house, "demo:never")] == ["asked"], "its row")
            house.kill()
        later.touch()
        gone(supervisor(lost))
        report = house.data / "jobs" / told["id"] / "exec.finished.json"
        until(report.exists, "the report of the one that ended")
        gone(supervisor(told))
        assert alive(supervisor(through)) and alive(supervisor(down))
        house.up()
        for name in ("down", "lost", "told", "never"):
            ended(house, f"demo:{name}")
        assert ends(house, "demo:through") == [] and jobs(house, "demo:through")[0]["state"] == "running"
        go.touch()
        ended(house, "demo:through")
        texts = {name: told_once(house, f"demo:{name}") for name in ("through", "down", "lost", "told", "never")}
        assert "exit code 4" in texts["through"] and "exit code 5" in texts["down"]
        assert "Its remaining processes were killed." in texts["lost"] and processes(lost) == []
        assert "exit code 6" in texts["told"] and "said" in texts["told"]
        assert "was not started" in texts["never"] and "Nothing was run." in texts["never"]
        assert not ran.exists()
        house.kill()
        house.up()
        assert {name: told_once(house, f"demo:{name}") for name in texts} == texts
        assert sorted(one.name for one in (house.data / "jobs").iterdir()) == [".lock", "outputs"]


def test_a_cancel_that_was_recorded_before_the_gateway_died_happens(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        job = start(house, "demo:c", "sleep 60")
        watcher = supervisor(job)
        os.kill(watcher, signal.SIGSTOP)  # it does not read what it is told
        house.say("demo:c", script(call("cancel_background", id=job["id"])))
        until(lambda: jobs(house, "demo:c")[0].get("cancelled_by"), "the wish is recorded")
        house.kill()
        os.kill(watcher, signal.SIGCONT)
        house.up()
        ended(house, "demo:c")
        assert "was cancelled by the agent" in told_once(house, "demo:c")
        assert jobs(house, "demo:c")[0]["cancelled_by"] == "the agent"


@pytest.mark.storm
def test_however_often_the_gateway_is_killed_while_jobs_start_none_starts_twice_or_is_lost_in_silence(
    tmp_path: Path,
) -> None:
    dice, ran = random.Random(4), tmp_path / "ran"
    sessions = [f"demo:{n}" for n in range(3)]
    with opened(House(tmp_path, MANY)) as house:
        for turn in range(KILLS):
            for n, session in enumerate(sessions):
                command = f"echo $SEMEL_JOB >> {ran}; sleep 0.3; true {turn}"
                try:
                    house.say(session, script(begin(command), begin(f"{command} again")), id=f"{turn}-{n}")
                except httpx2.TransportError:
                    pass
            time.sleep(dice.uniform(0.0, 0.6))  # a kill at any moment is the point
            house.kill()
            house.up()
        for session in sessions:
            rest(house, session)  # a turn that goes on after the last kill may still start one
        until(lambda: not house.get("/v1/jobs")["jobs"], "every job is over")
        for session in sessions:
            rest(house, session)
        begun = ran.read_text().split()
        all_ = [job for session in sessions for job in jobs(house, session)]
        assert len(all_) >= KILLS and len(begun) == len(set(begun))
        for session in sessions:
            heard = ends(house, session)
            mine = jobs(house, session)
            assert sorted(one["event"] for one in heard) == sorted(job["event"] for job in mine)
            told = {one["event"]: one["text"] for one in heard}
            unrun = {job["id"] for job in mine if re.search("othing (of it )?was run", told[job["event"]])}
            assert not unrun & set(begun)
            assert {job["id"] for job in mine} - unrun <= set(begun)


def test_a_call_that_the_agent_issues_again_after_its_tool_server_was_killed_is_the_same_job(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        with nothing_begins(house):
            house.say("demo:again", script({**begin("echo once"), "reissue": True}))
            until(lambda: jobs_of(house, "demo:again"), "its row")
            (server,) = tool_servers(house)
            gone(server)
            until(lambda: tool_servers(house) not in ([], [server]), "the next tool server")
        (end,) = ended(house, "demo:again")
        (job,) = jobs(house, "demo:again")
        assert end["event"] == job["event"] and end["text"].endswith("\n\nonce\n")
        assert answers(house, "demo:again")[0].startswith(f"started in the background as {job['id']}")


def test_a_clean_stop_ends_no_job(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        job = start(house, "demo:s", "sleep 1; echo went on")
        assert house.end() == 0
        assert alive(supervisor(job))
        house.up()
        (end,) = ended(house, "demo:s")
        assert "went on" in end["text"] and woken(house, "demo:s") == 1
        assert ask(house, "demo:s", call("cancel_background", id=job["id"]))[0].startswith("nothing to cancel: ")


def jobs_of(house: House, session: str) -> list[Json]:
    """The same before the session is there."""
    answer = httpx2.get(f"{house.url}/v1/sessions/{session}/jobs", timeout=60)
    return list(answer.json().get("jobs", []))


def told_once(house: House, session: str) -> str:
    """The one event that told an end; its job is over by it."""
    rest(house, session)
    (end,) = ends(house, session)
    assert [job["event"] for job in jobs(house, session)] == [end["event"]]
    return str(end["text"])
