"""The demo agent's memory: files in its state directory, which survive the process.

SESSION.jsonl        the session's history: one `update` object per line, whole messages
SESSION.resume       the steps for the next prompt that has no script of its own
attempts/NAME        one byte for each time the script of that name was started
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def get_state_dir() -> Path:
    """$SEMEL_DEMO_STATE, else semel/demo under $XDG_STATE_HOME (default ~/.local/state)."""
    if given := os.environ.get("SEMEL_DEMO_STATE"):
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "semel/demo"


class Memory:
    """One session's files."""

    def __init__(self, state: Path, session: str) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self.session = session
        self._state = state
        self._history = state / f"{session}.jsonl"
        self._resume = state / f"{session}.resume"

    @staticmethod
    def fresh(state: Path) -> Memory:
        memory = Memory(state, f"demo-{os.urandom(8).hex()}")
        memory._history.touch()
        return memory

    @staticmethod
    def existing(state: Path, session: str) -> Memory | None:
        safe = session.replace("-", "").isalnum()
        return Memory(state, session) if safe and (state / f"{session}.jsonl").exists() else None

    def history(self) -> list[Json]:
        return [json.loads(line) for line in self._history.read_text().splitlines() if line]

    def save(self, updates: list[Json]) -> None:
        with self._history.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in updates)

    def set_resume(self, steps: list[Any] | None) -> None:
        if steps is None:
            self._resume.unlink(missing_ok=True)
        else:
            self._resume.write_text(json.dumps(steps))

    def take_resume(self) -> list[Any] | None:
        if not self._resume.exists():
            return None
        steps: list[Any] = json.loads(self._resume.read_text())
        self._resume.unlink()
        if steps and isinstance(steps[0], list):  # a list of lists: one list of steps for each prompt to come
            steps, *later = steps
            self.set_resume(later or None)
        return steps

    def attempt(self, script: Json) -> int:
        """How often this script was started before, in any session and process; counts this start."""
        name = hashlib.sha256(json.dumps(script, sort_keys=True).encode()).hexdigest()[:16]
        path = self._state / "attempts" / str(script.get("name", name)).replace("/", "-")
        path.parent.mkdir(exist_ok=True)
        before = path.stat().st_size if path.exists() else 0
        with path.open("a") as file:
            file.write(".")
        return before
