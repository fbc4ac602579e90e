"""Agents that misbehave, as real processes: no session is wedged, and what went wrong is said."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from system_house import House, opened, until

AGENT = Path(__file__).with_name("misbehaving_agent.py")
FAILS = {  # how -> what the person reads
    "exits": "exited with code 3",
    "closes its output": "closed its output",
    "other version": "speaks ACP version 99",
    "wants a login": "Run `agent login`",
    "no session id": "without a sessionId",
    "a line without end": "the last time the agent sent a line of more than 68 MB",
    "dies": "the last time the agent was killed by SIGKILL",
    "odd error": "kaputt",
}
ANSWERS = (
    "garbage", "deaf to signals", "wrong ids", "floods tool output", "one huge line", "updates of another session",
    "answers requests that nobody made", "answers twice", "odd updates", "floods stderr", "dies once",
)  # fmt: skip
ATTEMPTS = {"dies while loading": 1, "a line without end": 2}  # to read 68 MB takes most of a second
OTHERS = ("mute", "hangs", "asks twice with one id", "dies while loading", "talks on")


def name(how: str) -> str:
    return how.replace(" ", "-")


def agents(home: Path) -> str:
    """A configuration with one agent for each way to misbehave."""
    lines = ["[gateway]", "max_live_agents = 3"]
    for how in (*FAILS, *ANSWERS, *OTHERS):
        command = [sys.executable, str(AGENT), how, *([str(home / "once")] if how == "dies once" else [])]
        lines += [f"[agents.{name(how)}]", f"command = {json.dumps(command)}"]
        lines += [f"attempts = {ATTEMPTS[how]}"] if how in ATTEMPTS else []
    return "\n".join(lines) + "\n"


def resident(house: House) -> int:
    """Megabytes of the gateway."""
    assert house.process is not None
    status = Path(f"/proc/{house.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


@pytest.mark.long
def test_no_way_to_misbehave_wedges_a_session_or_goes_unsaid(tmp_path: Path) -> None:
    with opened(House(tmp_path, agents(tmp_path))) as house:
        for word in ("first", "second"):
            for how in (*FAILS, *ANSWERS):
                house.say(f"{name(how)}:a", word)
        for how in (*FAILS, *ANSWERS):
            house.idle(f"{name(how)}:a")
        for how, why in FAILS.items():
            notices = house.texts(f"{name(how)}:a", "notice")
            assert len(notices) >= 1 and all(why in notice for notice in notices), (how, notices)
        for how in ANSWERS:
            said = "".join(house.texts(f"{name(how)}:a"))
            assert "answer to first" in said or "answer to second" in said, (how, said[:500])
            assert "not for you" not in said
            assert not house.texts(f"{name(how)}:a", "notice"), how
        assert len(house.texts("dies:a")) == 2, "what was shown before it died stays, once for each turn"
        assert resident(house) < 180, "100 MB were said by the agent that floods tool output alone"


def test_an_agent_that_is_still_starting_can_be_stopped(tmp_path: Path) -> None:
    with opened(House(tmp_path, agents(tmp_path))) as house:
        house.say("mute:a", "hello")
        until(lambda: (house.session("mute:a") or {}).get("state") == "running", "it starts")
        began = time.monotonic()
        until(lambda: house.post("/v1/sessions/mute:a/stop").json()["stopped"], "it is stopped")
        house.idle("mute:a", 20)
        assert time.monotonic() - began < 20
        assert house.texts("mute:a", "notice") == ["Stopped by the owner."]


def test_a_request_that_comes_twice_is_answered_once_and_a_restored_session_goes_on(tmp_path: Path) -> None:
    with opened(House(tmp_path, agents(tmp_path))) as house:
        session = "asks-twice-with-one-id:a"
        house.say(session, "please")

        def requests() -> list[int]:
            items = house.get(f"/v1/sessions/{session}/history", before=10**9)["items"]
            return [one["id"] for one in items if one["kind"] == "permission" and one["state"] == "open"]

        until(lambda: len(requests()) == 2, "both are shown")
        answers = [{"item": item, "option": "y"} for item in requests()]
        outcomes = [house.post(f"/v1/sessions/{session}/answers", answer).json()["outcome"] for answer in answers]
        assert outcomes[0] == "answered" and outcomes[1] in ("answered", "closed")
        house.idle(session)
        assert house.texts(session) == ["answer to please"]
        house.say("dies-while-loading:a", "one")
        house.idle("dies-while-loading:a")
        house.kill()
        house.up()
        house.say("dies-while-loading:a", "two")
        house.idle("dies-while-loading:a")
        assert len(house.texts("dies-while-loading:a", "agent", "notice")) == 2


def test_what_an_agent_says_after_its_answer_is_no_part_of_the_next_one(tmp_path: Path) -> None:
    with opened(House(tmp_path, agents(tmp_path))) as house:
        for word in ("first", "second", "third"):
            house.say("talks-on:a", word)
            house.idle("talks-on:a")
        until(lambda: "one more thing about third" in house.texts("talks-on:a"), "what was said last is shown, too")
        said = house.texts("talks-on:a")
        assert said == [
            "answer to first", "one more thing about first", "answer to second", "one more thing about second",
            "answer to third", "one more thing about third",
        ]  # fmt: skip
