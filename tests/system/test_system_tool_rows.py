"""What watchers see of a tool call whose gateway or agent was killed while it ran: no row stays running."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx2
from system_house import DEMO, House, Json, left, opened, script, until

SESSION = "demo:web:rows"
NO_RESULT = "no result"


def announced(id: str, status: str = "in_progress") -> Json:
    """The step in which the agent tells of a tool call, and no more of it."""
    call = {"sessionUpdate": "tool_call", "toolCallId": id, "title": f"Back up {id}", "status": status}
    return {"update": call}


def watched(house: House, rev: int = 0) -> tuple[int, list[tuple[str, str]]]:
    """What somebody who comes (back, with a rev) is sent at first: its rev, and (title, status) of each tool call."""
    headers = {"last-event-id": str(rev)} if rev else {}
    url = f"{house.url}/v1/sessions/{SESSION}/stream"
    with httpx2.stream("GET", url, headers=headers, timeout=60) as stream:
        told = next(json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
    items = [*told.get("items", ()), *(one for one in told.get("changes", ()) if one["op"] == "item")]
    return told["rev"], [(one["title"], one["status"]) for one in items if one["kind"] == "tool"]


def begin(house: House, path: Path) -> int:
    """A turn whose first call waits, and whose second one runs, until the file is there; the rev with both."""
    steps = [announced("one", "pending"), announced("two"), {"wait": str(path)}, "All is safe."]
    house.say(SESSION, script(*steps, resume=["I went on."]))
    seen = [("Back up one", "pending"), ("Back up two", "running")]
    until(lambda: house.session(SESSION) and watched(house)[1] == seen, "both calls are seen")
    return watched(house)[0]


def end(house: House, rev: int) -> None:
    """Whoever comes and whoever comes back sees both calls without a result; later, the same ids are other calls."""
    house.idle(SESSION)
    assert house.texts(SESSION)[-1] == "I went on."
    ended = [("Back up one", NO_RESULT), ("Back up two", NO_RESULT)]
    assert watched(house)[1] == ended
    assert watched(house, rev)[1] == ended
    house.doctor()
    house.say(SESSION, script({"tool": "Back up one", "id": "one", "output": ["saved"]}, "Now it is."))
    house.idle(SESSION)
    assert watched(house)[1] == [*ended, ("Back up one", "done")]


def test_a_gateway_killed_while_tools_run_leaves_no_row_running_and_the_next_turn_has_rows_of_its_own(
    tmp_path: Path,
) -> None:
    with opened(House(tmp_path, DEMO)) as house:
        rev = begin(house, tmp_path / "never")
        house.kill()
        house.up()
        end(house, rev)


def test_an_agent_killed_while_tools_run_leaves_no_row_running(tmp_path: Path) -> None:
    with opened(House(tmp_path, DEMO)) as house:
        rev = begin(house, tmp_path / "never")
        agents = [int(line.split()[0]) for line in left(house) if "scripted_agent" in line and " up " not in line]
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        assert agents
        end(house, rev)


def test_a_turn_that_ends_without_their_results_ends_its_tool_calls(tmp_path: Path) -> None:
    with opened(House(tmp_path, DEMO)) as house:
        rev = begin(house, tmp_path / "now")
        (tmp_path / "now").touch()
        house.idle(SESSION)
        assert house.texts(SESSION)[-1] == "All is safe."
        ended = [("Back up one", NO_RESULT), ("Back up two", NO_RESULT)]
        assert watched(house)[1] == ended and watched(house, rev)[1] == ended
