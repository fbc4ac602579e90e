"""The scripted agent's memory: files in its state directory, which survive the process.

SESSION.jsonl        the session's history: one `update` of session/update per line; chunks joined to whole messages
SESSION.resume       the steps for the next prompts that have no script of their own
attempts/NAME        one byte for each start of the script with that name
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class AgentMemory:
    """The files of one session. `state`: the directory. `session`: the session's id."""

    def __init__(self, state: Path, session: str) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self.session = session
        self._state = state
        self._history = state / f"{session}.jsonl"
        self._resume = state / f"{session}.resume"

    @staticmethod
    def fresh(state: Path) -> AgentMemory:
        memory = AgentMemory(state, f"scripted-{os.urandom(8).hex()}")
        memory._history.touch()
        return memory

    @staticmethod
    def existing(state: Path, session: str) -> AgentMemory | None:
        safe = session.replace("-", "").isalnum()
        return AgentMemory(state, session) if safe and (state / f"{session}.jsonl").exists() else None

    def history(self) -> list[Json]:
        return [json.loads(line) for line in self._history.read_text().splitlines() if line]

    def save(self, updates: list[Json]) -> None:
        with self._history.open("a") as file:
            file.writelines(json.dumps(update) + "\n" for update in updates)

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
        """Count a start of this script. Returns how often it was started before, in any session and process."""
        import hashlib  # OpenSSL, a tenth of an agent's start, and few scripts count theirs

        name = hashlib.sha256(json.dumps(script, sort_keys=True).encode()).hexdigest()[:16]
        path = self._state / "attempts" / str(script.get("name", name)).replace("/", "-")
        path.parent.mkdir(exist_ok=True)
        before = path.stat().st_size if path.exists() else 0
        with path.open("a") as file:
            file.write(".")
        return before
