"""Feeds the JSON-RPC messages of a recorded or live ACP connection to the folds of its sessions, in order.

One `Wire` follows successive connections to the same agent (a trace may contain a kill and a restart). It tracks which
requests are prompts and loads, and reports turns, replays and the agent's death to each session's `Fold`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.acp_stream.folding import Fold
from semel.acp_stream.notices import failure
from semel.acp_stream.ops import WHOLE, Limits, Op
from semel.acp_stream.profiles import CAREFUL, Profile, profile_for

END_REMARKS = (
    "eof",
    "exit",
    "spawn",
)  # remarks after which nothing more comes from a process; a kill is not yet one


class Wire:
    """Feeds messages to one `Fold` per session. `profile` None: found by the agent's name in `initialize`."""

    def __init__(self, profile: Profile | None = None, limits: Limits = WHOLE) -> None:
        self._given = profile
        self.profile = profile or CAREFUL
        self.limits = limits
        self.folds: dict[str, Fold] = {}
        self._asked: dict[tuple[str, str], tuple[str, str]] = {}  # (side, request id) -> (method, session)
        self._prompts: dict[str, int] = {}  # session -> prompts in flight
        self._replaying: set[str] = set()

    def __repr__(self) -> str:
        return f"<Wire {self.profile.name} {len(self.folds)} sessions>"

    def fold(self, session: str) -> Fold:
        """The fold of a session; made when the session is first spoken of."""
        if session not in self.folds:
            self.folds[session] = Fold(self.profile, self.limits)
        return self.folds[session]

    def sent(self, message: object) -> list[Op]:
        """A message from the client to the agent."""
        if not isinstance(message, dict):
            return []
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        session = params.get("sessionId")
        session = session if isinstance(session, str) else ""
        if not isinstance(method, str):
            return []
        if "id" in message:
            self._asked["c", str(message["id"])] = (method, session)
        if method == "session/prompt":
            self._replaying.discard(session)
            self._prompts[session] = self._prompts.get(session, 0) + 1
            return self.fold(session).prompt(_prompt_text(params.get("prompt")))
        if method in ("session/load", "session/resume"):
            self._replaying.add(session)
        if method == "session/cancel":
            return self.fold(session).cancel()
        return []

    def received(self, message: object) -> list[Op]:
        """A message from the agent to the client. Anything that is not a JSON-RPC message is ignored."""
        if isinstance(message, list):  # a batch
            return [op for each in message if isinstance(each, dict) for op in self.received(each)]
        if not isinstance(message, dict):
            return []
        method = message.get("method")
        if method is None:
            return self._answer(message) if "id" in message else []
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        session = params.get("sessionId")
        session = session if isinstance(session, str) else ""
        if method == "session/update":
            data = params.get("update")
            return self.update(session, data) if isinstance(data, dict) else []
        if method == "session/request_permission":
            call = params.get("toolCall")
            return self.fold(session).permission(call) if isinstance(call, dict) else []
        if method == "_session/retrying":
            return self.update(session, {**params, "sessionUpdate": method})
        return []

    def update(self, session: str, data: Mapping[str, Any]) -> list[Op]:
        """One update of a session."""
        return self.fold(session).update(data, session in self._replaying)

    def noted(self, note: object) -> list[Op]:
        """A recorder's remark. If it marks the end of the agent's output, the running turns end."""
        if not isinstance(note, dict) or not any(key in note for key in END_REMARKS):
            return []
        return self.died()

    def died(self) -> list[Op]:
        """The agent process has died: end all turns whose prompt was not answered."""
        ops: list[Op] = []
        for session, count in self._prompts.items():
            for _ in range(count):
                ops += self.fold(session).end("error", "the agent died", died=True)
        self._prompts.clear()
        self._replaying.clear()
        self._asked.clear()
        return ops

    def _answer(self, message: Mapping[str, Any]) -> list[Op]:
        method, session = self._asked.pop(("c", str(message["id"])), ("", ""))
        result = message.get("result")
        result = result if isinstance(result, dict) else {}
        if method == "initialize":
            self._named(result.get("agentInfo"))
        elif method in ("session/load", "session/resume"):
            if self.profile.replay_until == "response" or "error" in message:
                self._replaying.discard(session)
        elif method == "session/prompt":
            self._prompts[session] = max(0, self._prompts.get(session, 0) - 1)
            if "error" in message:
                return self.fold(session).end("error", _error_text(message["error"]))
            stop = result.get("stopReason")
            return self.fold(session).end(stop if isinstance(stop, str) else "unknown", failure(result.get("_meta")))
        return []

    def _named(self, info: object) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        if self._given is None and isinstance(name, str):
            self.profile = profile_for(name)


def _prompt_text(prompt: object) -> str:
    blocks = prompt if isinstance(prompt, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return "\n".join(t for t in texts if isinstance(t, str))


def _error_text(error: object) -> str:
    if not isinstance(error, dict):
        return "error"
    data = error.get("data")
    data = data if isinstance(data, dict) else {}
    detail = next((data[k] for k in ("message", "details") if isinstance(data.get(k), str)), "")
    message = str(error.get("message") or "error")
    return f"{message}: {detail}" if detail and detail not in message else message
