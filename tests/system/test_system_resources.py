"""What a gateway holds after a day's work, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from system_house import DEMO, House, left, opened, script, send, until

CONFIG = "[gateway]\nmax_live_agents = 3\n" + DEMO


def agents(house: House) -> list[int]:
    """The agents' processes: each leads a group, in which a tool server looks like its agent until it calls exec."""
    pids = [int(line.split()[0]) for line in left(house) if "scripted_agent" in line]
    with contextlib.suppress(ProcessLookupError):
        return [pid for pid in pids if os.getpgid(pid) == pid]
    return agents(house)


def measure(house: House) -> tuple[int, int]:
    """(megabytes, file descriptors) of the gateway."""
    assert house.process is not None
    process = Path(f"/proc/{house.process.pid}")
    status = (process / "status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024, len(list((process / "fd").iterdir()))


def cpu(house: House) -> float:
    """Seconds of processor time it used."""
    assert house.process is not None
    fields = Path(f"/proc/{house.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
def test_many_turns_and_killed_agents_leave_nothing_behind_and_an_idle_gateway_sleeps(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        most, over = 0, threading.Event()

        def count() -> None:
            nonlocal most
            while not over.wait(0.05):
                most = max(most, len(agents(house)))

        counting = threading.Thread(target=count)
        counting.start()
        seen = []
        for round in range(3):
            for n in range(8):
                house.say(f"demo:web:{n}", script({"tool": "t", "output": ["x\n"]}, send(f"hello {n}"), f"done {n}"))
            for n in range(8):
                house.idle(f"demo:web:{n}")
            for pid in agents(house)[:1]:
                os.kill(pid, signal.SIGKILL)
            until(lambda: len(house.get("/v1/status")["agents"]) == len(agents(house)), "the death was noticed")
            seen.append(measure(house))
            assert all(house.texts(f"demo:web:{n}")[2 * round :] == [f"hello {n}", f"done {n}"] for n in range(8))
        over.set()
        counting.join()
        assert most <= 3, "max_live_agents holds, those that are being ended included"
        assert seen[2][0] <= seen[0][0] + 15 and seen[2][1] <= seen[0][1] + 6, seen
        began, used = time.monotonic(), cpu(house)
        time.sleep(4)  # the time is what is measured
        assert (cpu(house) - used) / (time.monotonic() - began) < 0.005 + 0.0075, "idle: half a percent, and a tick"


def test_a_gateway_ends_with_everything_it_started_however_it_is_ended(tmp_path: Path) -> None:
    with opened(House(tmp_path, CONFIG)) as house:
        assert house.process is not None
        house.say("demo:web:a", script({"text": "word " * 9, "chunks": 3}, {"sleep": 300}))
        until(lambda: house.texts("demo:web:a"), "it runs")
        house.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        until(lambda: "stopping" in house.log, "it waits for the turn")
        house.process.send_signal(signal.SIGINT)
        assert house.process.wait(60) == 0 and time.monotonic() - began < 9, "the second signal is at once"
        assert left(house) == []
        house.up()
        until(lambda: agents(house), "the turn is taken up again")
        house.kill()
        until(lambda: not left(house), "a killed gateway leaves no orphan", 20)
        house.up()
        house.post("/v1/sessions/demo:web:a/stop")
        house.idle("demo:web:a")
