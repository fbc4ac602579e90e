"""The storm: whatever twenty producers repeat and whenever the gateway dies, each event is heard and answered once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from storm_books import Aftermath
from storm_house import Storm
from storm_plan import KILLS
from system_house import House, opened, receiver

pytestmark = pytest.mark.storm


def test_twenty_producers_and_twenty_kills_leave_every_event_heard_and_answered_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("STORM_SEED") or random.SystemRandom().randrange(10**6))
    print(f"STORM_SEED={seed}")
    began = time.monotonic()
    with receiver() as hook, receiver() as all_:
        storm = Storm(House(tmp_path), seed, hook.url, all_.url)
        try:
            with opened(storm.house):
                storm.blow()
                blown = time.monotonic()
                storm.calm()
                calm = time.monotonic()
                after = Aftermath(storm, hook, all_)
                print(after.told(), f"{blown - began:.1f} s of storm, {calm - blown:.1f} s until calm")
                after.check_acceptances()
                after.check_heard()
                after.check_prompts()
                after.check_answers()
                after.check_conversations()
                told = after.told()
                assert told["kills"] == KILLS and told["conflicts"] and told["repeats"] > told["events"]
                assert any(name.startswith("lost") for name in told["turns"]), "kills hit turns"
        finally:
            storm.close()
