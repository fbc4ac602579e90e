"""What an agent and a person may rely on: a command goes on beside the turn, within limits, and its end is told."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs_house import (
    CONFIG,
    alive,
    ask,
    begin,
    call,
    ended,
    ends,
    events,
    jobs,
    processes,
    rest,
    start,
    supervisor,
    woken,
)
from system_house import House, opened, until


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    env = {"PLATFORM_TOKEN": "a-secret-of-a-channel"}
    with opened(House(tmp_path_factory.mktemp("jobs"), CONFIG, env=env)) as house:
        yield house
        assert house.get("/v1/jobs")["jobs"] == []


def test_a_command_goes_on_beside_its_turn_and_its_end_starts_one_turn(house: House, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = start(
        house, "demo:a", f"echo one; until test -e {go}; do sleep 0.05; done; echo two; exit 3", name="unit  tests"
    )
    assert (job["state"], job["name"], job["seconds"]) == ("running", "unit tests", 60.0)
    rest(house, "demo:a")
    begun = house.entries("demo:a")
    assert [one.get("kind") for one in begun][-1] == "exec.started" and woken(house, "demo:a") == 0
    asked, state = [line["text"] for line in house.get(f"/v1/why/{job['id']}")["lines"]][:2]
    assert asked.startswith(f"{job['id']}: a background job 'unit tests' was asked for in demo:a, by t")
    assert state == f"{job['id']}: it was started, and no report of its end has come; it may run for 1 min"
    go.touch()
    (end,) = ended(house, "demo:a")
    name = f"background job {job['id']}, unit tests"
    assert end["text"].startswith(f"`{job['command']}` ended with exit code 3, after ") and name in end["text"]
    assert end["text"].endswith("It printed 8 bytes:\n\none\ntwo\n")
    assert woken(house, "demo:a") == 1
    (over,) = jobs(house, "demo:a")
    assert (over["state"], over["exit"], over["event"]) == ("finished", 3, end["event"])
    assert over["ended"] == end["data"]["ended"], "it ended when the command did, not when that was heard"
    told = [line["text"] for line in house.get(f"/v1/why/{job['id']}")["lines"]]
    assert f"{job['id']}: it ended with exit code 3" in told and any("accepted exec.finished" in line for line in told)
    assert len(events(house, "demo:a", "exec.started")) == 1
    assert not (house.data / "jobs" / job["id"]).exists()


def test_it_runs_in_the_workspace_with_the_agents_environment_and_no_secret(house: House) -> None:
    job = start(house, "demo:env", "pwd; env; sleep 60")
    secrets = [(house.data / "owner.token").read_text().strip(), "SEMEL_TOKEN", "SEMEL_SPAWN", "PLATFORM_TOKEN"]
    for pid in (supervisor(job), *processes(job)):
        seen = b"".join((Path(f"/proc/{pid}") / what).read_bytes() for what in ("environ", "cmdline"))
        assert not [one for one in secrets if one.encode() in seen]
    spooled = (house.data / "jobs" / job["id"] / "run.json").read_text()
    assert not [one for one in secrets if one in spooled]
    house.post(f"/v1/jobs/{job['id']}/cancel")
    (end,) = ended(house, "demo:env")
    told = end["text"].split("\n\n", 1)[1].splitlines()
    assert told[0] == str(house.data / "workspaces" / "demo")
    assert f"SEMEL_JOB={job['id']}" in told and f"HOME={house.home}" in told
    assert not [line for line in told if any(one in line for one in secrets)]


def test_output_that_is_no_text_is_kept_as_it_was_up_to_a_limit_and_its_end_is_told(house: House) -> None:
    start(house, "demo:out", r"printf '\377\376 %s\n' x; seq 100000; printf '\303'")
    (end,) = ended(house, "demo:out")
    (job,) = jobs(house, "demo:out")
    kept = (house.data / "jobs" / "outputs" / f"{job['id']}.txt").read_bytes()
    assert len(kept) == 100_000 and kept.startswith(b"\xff\xfe x\n1\n2\n")
    assert "of the 588,901 bytes it printed (1 of them no UTF-8, replaced by \ufffd)" in end["text"]
    assert "100000\n\ufffd" in end["text"] and "(Only its first 100,000 bytes were stored" in end["text"]


def test_what_is_over_the_limits_is_refused_with_the_reason_and_recorded(house: House) -> None:
    sleeps = begin("sleep 60")
    first, second, third = ask(house, "demo:l1", sleeps, begin("sleep 61"), begin("sleep 62"))
    assert first.startswith("started") and second.startswith("started")
    assert third.startswith("refused: 2 jobs of this conversation already run") and "Nothing was started." in third
    assert [one["text"][:11] for one in house.entries("demo:l1") if one.get("kind") == "refused"] == ['Held back "']
    one, other = ask(house, "demo:l2", sleeps, begin("sleep 63"))
    assert one.startswith("started") and other.startswith("refused: 3 jobs already run in the background here")
    assert len(house.get("/v1/jobs")["jobs"]) == 3
    (told,) = ask(house, "demo:l2", call("cancel_background", id=jobs(house, "demo:l2")[0]["id"]))
    assert "ended with exit code 143, cancelled by the agent" in told
    assert ask(house, "demo:l2", begin("exit 0"))[0].startswith("started")
    ended(house, "demo:l2", 2)
    for job in jobs(house, "demo:l1"):
        house.post(f"/v1/jobs/{job['id']}/cancel")
    ended(house, "demo:l1", 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": "x", "timeout": "2m"}, "refused: timeout: '2m' is longer than a job may run here, 60 s"),
        ({"command": "x", "timeout": "soon"}, "write seconds, or like '90s', '10m', '2h'"),
        ({"command": "x", "timeout": 0}, "'0' is not a duration"),
        ({"command": "x" * 100_001}, "write a longer one into a file"),
        ({"command": " "}, "'command' must be a text that is not empty"),
        ({"name": "x"}, "needs 'command'. Nothing was done."),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(house: House, arguments: dict[str, object], words: str) -> None:
    (told,) = ask(house, "demo:bad", call("run_in_background", **arguments))
    assert words in told
    assert jobs(house, "demo:bad") == []


def test_a_job_is_ended_at_its_time_limit_with_all_that_it_started(house: House) -> None:
    job = start(house, "demo:time", "sleep 600 & sleep 600", timeout="1")
    (end,) = ended(house, "demo:time")
    assert "was ended at its time limit of 1 s: it was killed by SIGTERM" in end["text"]
    assert processes(job) == []


def test_what_a_command_leaves_in_its_group_is_ended_with_it(house: House) -> None:
    job = start(house, "demo:left", "sleep 600 & echo left; exit 0")
    (end,) = ended(house, "demo:left")
    assert "ended with exit code 0" in end["text"] and processes(job) == []


def test_a_command_that_cannot_be_found_is_told_as_a_shell_tells_it(house: House) -> None:
    start(house, "demo:none", "no-such-program --now")
    (end,) = ended(house, "demo:none")
    assert "ended with exit code 127" in end["text"] and "no-such-program" in end["text"]


def test_a_cancel_ends_the_whole_group_and_its_agent_is_answered_and_not_woken(house: House, tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    command = f"trap 'exit 9' TERM; (trap '' TERM; touch {deaf}; sleep 600) & sleep 600 & wait"
    job = start(house, "demo:stop", command)
    until(deaf.exists, "it ignores SIGTERM")
    others, twice = ask(
        house, "demo:stop", call("cancel_background", id=job["id"]), call("cancel_background", id=job["id"])
    )
    assert others == f"{job['id']} ended with exit code 9, cancelled by the agent."
    assert twice == f"nothing to cancel: {job['id']} ended with exit code 9, cancelled by the agent."
    (end,) = ends(house, "demo:stop")
    assert "was cancelled by the agent: it ended with exit code 9" in end["text"] and woken(house, "demo:stop") == 0
    assert processes(job) == []


def test_an_agent_sees_and_cancels_the_jobs_of_its_own_session_alone(house: House) -> None:
    job = start(house, "demo:mine", "sleep 60", name="mine")
    listed, cancelled = ask(house, "demo:yours", call("list_background"), call("cancel_background", id=job["id"]))
    assert listed == "no background jobs here"
    assert cancelled.startswith(f"refused: there is no background job '{job['id']}' in this conversation")
    (told,) = ask(house, "demo:mine", call("list_background"))
    assert told.startswith(f"- {job['id']} (mine) runs for ") and told.endswith(", at most 60 s: 'sleep 60'")
    house.post(f"/v1/jobs/{job['id']}/cancel", {"by": "Ann"})
    (end,) = ended(house, "demo:mine")
    assert "was cancelled by Ann: it was killed by SIGTERM" in end["text"]
    assert woken(house, "demo:mine") == 1  # somebody else did it


def test_a_person_lists_and_cancels_by_command_line_and_http(house: House) -> None:
    job = start(house, "demo:person", "sleep 60", name="long one")
    assert [one["id"] for one in json.loads(house.cli("jobs", "list", "--json").stdout)] == [job["id"]]
    assert "long one: sleep 60" in house.cli("jobs", "list", "demo:person").stdout
    told = json.loads(house.cli("jobs", "cancel", job["id"], "--json").stdout)
    assert (told["state"], told["exit"], told["cancelled_by"]) == ("finished", 143, "the owner")
    again = house.post(f"/v1/jobs/{job['id']}/cancel")
    assert again.status_code == 409 and "ended with exit code 143, cancelled by the owner" in again.json()["detail"]
    assert house.post("/v1/jobs/job-none/cancel").status_code == 404
    assert "there is no job 'job-none'" in house.cli("jobs", "cancel", "job-none", rc=1).stderr
    assert house.cli("jobs", "list", "nobody", rc=1).returncode == 1
    ended(house, "demo:person")


def test_an_agent_that_is_killed_leaves_its_job_running_and_its_end_starts_a_turn(house: House) -> None:
    job = start(house, "demo:dies", "sleep 2")
    house.say("demo:dies", '[[script {"attempts": [[{"die": 9}], ["back"]], "name": "dies"}]]')
    rest(house, "demo:dies")
    assert alive(supervisor(job))
    (end,) = ended(house, "demo:dies")
    assert "ended with exit code 0" in end["text"] and woken(house, "demo:dies") == 1


def test_a_supervisor_that_is_killed_is_told_of_once_and_nothing_of_its_job_goes_on(house: House) -> None:
    job = start(house, "demo:lost", "echo begun; sleep 600 & setsid sleep 600 & wait")
    until(lambda: len(processes(job)) >= 3, "all of it runs")
    began = time.monotonic()
    os.kill(supervisor(job), signal.SIGKILL)
    (end,) = ended(house, "demo:lost")
    assert time.monotonic() - began < 30
    assert end["kind"] == "exec.lost" and "begun" in end["text"]
    assert "Its remaining processes were killed." in end["text"]
    assert processes(job) == [] and jobs(house, "demo:lost")[0]["state"] == "lost"
    assert woken(house, "demo:lost") == 1
