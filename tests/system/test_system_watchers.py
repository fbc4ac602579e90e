"""Fifty who watch, one who never reads, and one whose connection breaks again and again."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx2
from system_house import DEMO, House, Json, opened, script, send, until

SESSION = "demo:web:w"
TURN = script(
    {"tool": "noisy", "output": [f"line {n}\n" * 20 for n in range(60)], "delay": 0.005},
    {"text": "wörd 🙂\u2028 " * 1000, "chunks": 100, "delay": 0.01},
    send("in the middle"),
    "the end",
)


class Watcher(threading.Thread):
    """Holds what the stream tells it, as the API's document says to. `cut`: leaves after so many messages."""

    def __init__(self, url: str, cut: int = 0) -> None:
        super().__init__(daemon=True)
        self.url, self.cut = url, cut
        self.rev = 0
        self.snapshots = self.connections = 0
        self.entries: dict[int, Json] = {}
        self.items: dict[int, Json] = {}
        self.over = False

    def run(self) -> None:
        while not self.over:
            headers = {"last-event-id": str(self.rev)} if self.rev else {}
            with httpx2.stream("GET", self.url, headers=headers, timeout=60) as stream:
                self.connections += 1
                told = 0
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        self.take(json.loads(line[6:]))
                        told += 1
                    if self.over or (self.cut and told >= self.cut):
                        break

    def take(self, message: Json) -> None:
        if message["type"] == "snapshot":
            self.snapshots += 1
            self.entries = {one["seq"]: one for one in message["entries"]}
            self.items = {one["id"]: one for one in message["items"]}
        for change in message.get("changes", ()):
            assert change["rev"] > self.rev, "nothing comes twice"
            match change.pop("op"):
                case "entry":
                    self.entries[change["seq"]] = change
                case "item":
                    self.items[change["id"]] = change
                case "append":
                    self.entries[change["seq"]]["text"] += change["text"]
                case "output":
                    self.items[change["id"]]["text"] += change["text"]
        self.rev = message["rev"]


def test_fifty_watchers_see_exactly_what_is_recorded_and_slow_nothing(tmp_path: Path) -> None:
    with ExitStack() as held, opened(House(tmp_path, "[gateway]\nheartbeat = 1\n" + DEMO)) as house:
        house.say(SESSION, "hello")
        house.idle(SESSION)

        def turn() -> float:
            began = time.monotonic()
            house.say(SESSION, TURN)
            house.idle(SESSION)
            return time.monotonic() - began

        alone = turn()
        url = f"{house.url}/v1/sessions/{SESSION}/stream"
        watchers = [Watcher(url) for _ in range(48)] + [Watcher(url, cut=3)]
        host = house.url.removeprefix("http://")
        deaf = held.enter_context(socket.socket())
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect((host.partition(":")[0], int(host.partition(":")[2])))
        deaf.sendall(f"GET {url.removeprefix(house.url)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        for one in watchers:
            one.start()
        until(lambda: all(one.rev for one in watchers), "all have a snapshot")
        watched = turn()
        rev = (house.session(SESSION) or {})["rev"]
        until(lambda: all(one.rev >= rev for one in watchers), "all have seen it")
        for one in watchers:
            one.over = True
        truth = {one["seq"]: one for one in house.entries(SESSION)}
        for one in watchers:
            assert one.snapshots == 1, "the rest came as changes"
            assert {seq: {**e, "rev": 0} for seq, e in one.entries.items()} == {
                seq: {**e, "rev": 0} for seq, e in truth.items()
            }
            assert one.items.keys() == watchers[0].items.keys()
            assert [i["text"] for i in one.items.values()] == [i["text"] for i in watchers[0].items.values()]
        assert watchers[-1].connections >= 3, "one came back again and again"
        assert watched < 3 * alone + 3, (alone, watched)
        for one in watchers:
            one.join(30)
