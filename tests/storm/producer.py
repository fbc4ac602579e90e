"""One producer: a program that reports until it is answered, whatever the gateway does; run as a program.

    python producer.py PLAN LOG

PLAN: {"kind": "node"|"caller"|"hook"|"exec", "token", "secret", "data", "deliveries": [{"stretch", "n", "mark", "path",
"body", "key"}]}. stdin: a line {"stretch", "url"} after each start of the gateway; deliveries of later stretches wait.
LOG: a line {"n", "mark", "status", "body"} for each request; status 0 where no answer came.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PLAN = json.loads(Path(sys.argv[1]).read_text())
LOG = Path(sys.argv[2]).open("a", buffering=1)  # noqa: SIM115 - as long as the program
LANES = 2  # connections at once: a repeat may overtake the first
Json = dict[str, Any]


class World:
    """What the producer was told last, and what is left to do."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.stretch, self.url = -1, ""
        self.left: list[Json] = PLAN["deliveries"]

    def listen(self) -> None:
        for line in sys.stdin:
            told = json.loads(line)
            with self.changed:
                self.stretch, self.url = told["stretch"], told["url"]
                self.changed.notify_all()

    def next(self) -> Json | None:
        with self.changed:
            while self.left and self.left[0]["stretch"] > self.stretch:
                self.changed.wait()
            return self.left.pop(0) if self.left else None


def headers(raw: bytes, one: Json) -> dict[str, str]:
    told = {"content-type": "application/json"}
    if PLAN["kind"] == "node":
        told["authorization"] = f"Bearer {PLAN['token']}"
    if PLAN["kind"] == "hook":
        at, secret = str(int(time.time())), base64.b64decode(PLAN["secret"].removeprefix("whsec_"))
        mac = hmac.new(secret, f"{one['key']}.{at}.".encode() + raw, hashlib.sha256).digest()
        signature = "v1," + base64.b64encode(mac).decode()
        told |= {"webhook-id": one["key"], "webhook-timestamp": at, "webhook-signature": signature}
    return told


class Lane:
    """One connection, kept while it holds."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance
        self.line: http.client.HTTPConnection | None = None
        self.url = ""

    def run(self) -> None:
        while (one := self.world.next()) is not None:
            time.sleep(self.chance.random() * 0.4)
            while not self.deliver(one):
                time.sleep(0.05 + self.chance.random() * 0.1)

    def deliver(self, one: Json) -> bool:
        """True: it was answered."""
        try:
            status, body = self.execute(one) if PLAN["kind"] == "exec" else self.post(one)
        except (OSError, http.client.HTTPException):
            status, body, self.line = 0, {}, None
        LOG.write(json.dumps({"n": one["n"], "mark": one["mark"], "status": status, "body": body}) + "\n")
        return status not in (0, 503)

    def post(self, one: Json) -> tuple[int, Json]:
        if self.line is None or self.url != self.world.url:
            self.url = self.world.url
            self.line = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        raw = json.dumps(one["body"]).encode()
        self.line.request("POST", one["path"], raw, headers(raw, one))
        answer = self.line.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def execute(self, one: Json) -> tuple[int, Json]:
        """A command whose output is the marker, under `semel exec`."""
        semel = [sys.executable, "-m", "semel", "exec", "--data-dir", PLAN["data"], "--wait", "2m"]
        command = [*semel, "--session", one["path"], "--name", one["key"], "--", "cat", one["body"]["file"]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return (202 if done.returncode == 0 else 599), {"err": done.stderr}


def main() -> None:
    world = World()
    threading.Thread(target=world.listen, daemon=True).start()
    lanes = [Lane(world, random.Random(f"{PLAN['seed']}.{n}")) for n in range(LANES)]
    threads = [threading.Thread(target=lane.run) for lane in lanes]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


main()
