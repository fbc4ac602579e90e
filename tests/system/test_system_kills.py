"""`kill -9` of the gateway, of agents and of their MCP processes, at chance moments of every kind of turn."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from system_house import DEMO, DEMO_OVER_HTTP, House, channel, left, opened, receiver, script, send, until

from proof.conversations import judge_conversations, read_record

SESSIONS = ("demo:hook:a", "demo:hook:b", "demo:web:a", "demo:web:b")
KILLS = 10


class Storm:
    """People who talk, answer and stop while processes die. `accepted` is what they were told was heard."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)
        self.accepted: dict[int, str] = {}  # event -> session
        self.unsure: list[tuple[str, str, str]] = []
        self.count = 0

    def turn(self) -> str:
        self.count += 1
        mark = f"<{self.count}>"
        allowed = {"permission": "may I", "allowed": [f"allowed {mark}"], "denied": [f"denied {mark}"]}
        question = {"question": f"which {mark}", "options": ["a", "b"]}
        settled = {"sleep": 0.5}  # a call whose tool server died may be recorded while the same text streams already
        kinds: list[list[Any]] = [
            [{"text": f"streamed {mark} " + "word " * 40, "chunks": 30, "delay": 0.02}],
            [
                send(f"sent {mark}"),
                {"sleep": 0.2},
                send(f"sent more {mark}"),
                {"text": f"closing {mark}", "delay": 0.05},
            ],
            [f"before {mark} ", allowed],
            [{"call": "ask", "arguments": question, "meta": "claude"}, f"asked {mark}"],
            [{"tool": "work", "output": ["a\n"] * 5, "delay": 0.05}, send(f"same {mark}"), settled, f"same {mark}"],
            [
                send(f"again {mark}", reissue=True),
                {"kill_mcp": True},
                send(f"further {mark}", reissue=True),
                f"end {mark}",
            ],
        ]
        return script(*self.chance.choice(kinds))

    def say(self, session: str, text: str, id: str) -> None:
        try:
            answer = self.house.post(f"/v1/sessions/{session}/messages", {"text": text, "id": id})
        except httpx2.HTTPError:
            self.unsure.append((session, text, id))
            return
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 202:
            self.accepted[answer.json()["event"]] = session
        else:
            self.unsure.append((session, text, id))

    def say_again(self) -> None:
        """What had no answer is said again under its id: it is heard once."""
        again, self.unsure = self.unsure, []
        for one in again:
            self.say(*one)

    def answer(self) -> None:
        """People answer what is asked, now and then."""
        for session in SESSIONS:
            path = f"/v1/sessions/{session}/history"
            got = self.house.request("GET", path, params={"before": 10**9, "limit": 30})
            for item in got.json()["items"] if got.status_code == 200 else ():
                if item["kind"] in ("permission", "ask") and item.get("state") == "open":
                    option = self.chance.choice(item["options"])["optionId"]
                    self.house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": option})

    def kill(self) -> None:
        what = self.chance.choice(("gateway", "agent", "tools", "stop"))
        if what == "gateway":
            self.house.kill()
            self.house.up()
        elif what == "stop":
            self.house.post(f"/v1/sessions/{self.chance.choice(SESSIONS)}/stop")
        else:
            found = [one for one in left(self.house) if ("semel.tools" if what == "tools" else "demo") in one]
            if found:
                try:
                    os.kill(int(self.chance.choice(found).split()[0]), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def blow(self) -> None:
        for _ in range(KILLS):
            for _ in range(2):
                self.say(self.chance.choice(SESSIONS), self.turn(), f"m{self.count}")
            time.sleep(self.chance.random() * 0.6)  # a chance moment, not a wait for something
            self.answer()
            self.kill()
            self.say_again()

    def calm(self) -> None:
        """Everything came to rest."""

        def quiet() -> bool:
            self.say_again()
            self.answer()
            rows = self.house.get("/v1/sessions")["sessions"]
            return not self.unsure and all(row["state"] == "idle" and not row["waiting"] for row in rows)

        until(quiet, "everything came to rest")


@pytest.mark.storm
@pytest.mark.parametrize("agent", [DEMO, DEMO_OVER_HTTP], ids=["stdio", "http"])
def test_a_storm_of_kills_loses_nothing_and_says_nothing_twice(tmp_path: Path, agent: str) -> None:
    house = House(tmp_path)
    with receiver() as rx:
        hook = channel("hook", rx.url, session="demo:hook:a", sessions=["demo:*"])
        house.config = "[gateway]\nmax_live_agents = 3\n" + agent + hook
        with opened(house):
            storm = Storm(house, random.SystemRandom().randrange(10**6))
            storm.blow()
            storm.calm()
            house.settled()
            for session in SESSIONS:
                entries = house.entries(session)
                assert [one["seq"] for one in entries] == list(range(1, len(entries) + 1)), "no gaps"
                heard = [one["event"] for one in entries if "[[script" in one["text"] and one["role"] == "user"]
                assert sorted(heard) == sorted(e for e, of in storm.accepted.items() if of == session), "heard once"
                whole = [one for one in entries if not one.get("partial") and not one.get("superseded")]
                said = Counter(one["text"] for one in whole if one["role"] == "agent" and "<" in one["text"])
                assert max(said.values(), default=1) == 1, ("said twice", said.most_common(2))
                ended = {f"t{one['turn']}" for one in entries if one["role"] in ("agent", "notice") and one.get("turn")}
                for one in entries:
                    if one.get("event") in storm.accepted:
                        story = str(house.get(f"/v1/why/e{one['event']}")["lines"])
                        turns = set(re.findall(r"\bt\d+\b", story))
                        assert turns & ended, ("neither answered nor failed", one, story)
            shown = Counter(text for text in rx.shown if "<" in text)
            assert max(shown.values(), default=1) == 1, ("shown twice", shown.most_common(2))
            assert {part["state"] for part in house.parts()} <= {"sent"}
            assert list(judge_conversations(read_record(house.data / "ledger.db"), {"hook": rx.chat})) == []
