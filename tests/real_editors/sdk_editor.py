"""The client of ACP's Python SDK, in a process of its own (`sdk_process.py`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from real_editor import DisplayedCall, Json, acp_command, environment, find_program
from system_house import House, until


class Sdk:
    """A program that uses the SDK. Its name is not known to Semel: what others say waits for its next prompt."""

    sees_others_at_once = False

    def __init__(self, house: House) -> None:
        variables = {key: value for key, value in environment(house).items() if key != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [find_program("sdk", "bin/python"), Path(__file__).with_name("sdk_process.py"), *acp_command(house)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, cwd=house.home,
        )  # fmt: skip

    def _do(self, what: str, **more: Any) -> Json:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def new(self) -> str:
        return str(self._do("new")["session"])

    def load(self, session: str) -> None:
        self._do("load", session=session)

    def begin(self, text: str) -> None:
        self._do("begin", text=text)

    def stopped(self) -> str:
        return str(until(lambda: self._do("look")["stop"], "the end of the turn"))

    def texts(self, kind: str = "agent") -> list[str]:
        return [text for role, text in self._do("look")["texts"] if role == kind]

    def calls(self) -> list[DisplayedCall]:
        return [DisplayedCall(status, title, text.rstrip("\n")) for status, title, text in self._do("look")["calls"]]

    def questions(self) -> list[str]:
        return list(self._do("look")["questions"])

    def choose(self, name: str) -> None:
        self._do("choose", name=name)

    def cancel(self) -> None:
        self._do("cancel")

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
