"""`kill -9` of the gateway while an agent calls its tools over HTTP: no message is lost, none is sent twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from system_house import DEMO_OVER_HTTP, House, channel, opened, receiver, script, send, until

KEY = "demo:hook:a"


@pytest.mark.parametrize("moment", ["before the call is recorded", "after the call is recorded"])
def test_a_gateway_killed_in_mid_call_says_the_message_once(tmp_path: Path, moment: str) -> None:
    house = House(tmp_path)
    called = tmp_path / "called"
    with receiver() as rx:
        house.config = DEMO_OVER_HTTP + channel("hook", rx.url, session=KEY, sessions=["demo:*"])
        with opened(house):
            # A call that the stream does not announce waits for its announcement before it is recorded.
            announced = moment.startswith("after")
            call = {"call": "send_message", "arguments": {"text": "On it."}, "announce": announced}
            touch = {"touch": str(called)}
            steps = [{"text": "Looking. "}, send("First."), touch, call, {"hang": True}]
            house.say(KEY, script(*steps, resume=["Done."] if announced else [send("On it."), "Done."]))
            until(called.exists, "the first call is answered")
            if announced:
                until(lambda: "On it." in house.texts(KEY), "the second call is recorded")
            else:
                time.sleep(0.05)
            house.kill()
            house.up()
            house.idle(KEY)
            house.settled()
            expected = ["Looking. ", "First.", "On it.", "Done."]
            assert house.texts(KEY) == expected
            assert rx.shown == [text.strip() for text in expected if text != "Looking. "]
            assert {part["state"] for part in house.parts()} == {"sent"}
