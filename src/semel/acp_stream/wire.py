"""Pass the JSON-RPC messages of an ACP connection, live or recorded, to the folds of its sessions, in order.

One `ConnectionFolder` follows successive connections to the same agent (a trace may contain a kill and a restart). It
keeps track of open prompts and loads, and so knows when each session's turns and replays begin and end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.acp_stream.folding import Fold
from semel.acp_stream.notices import read_failure_text
from semel.acp_stream.ops import WHOLE, Limits, Op
from semel.acp_stream.profiles import CAREFUL, Profile, profile_for
from semel.text.json_types import object_at, objects_in, text_at

LOADING_METHODS = ("session/load", "session/resume")
STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")  # ACP StopReason
END_NOTES = ("eof", "exit", "spawn")  # keys of notes after which the process sends nothing more; after "kill" it may


class ConnectionFolder:
    """The folds of all sessions on a connection. It passes each message to the `Fold` of its session.

    `profile`: if it is None, the profile is chosen by the agent's name in the answer to ACP's `initialize`.
    """

    def __init__(self, profile: Profile | None = None, limits: Limits = WHOLE) -> None:
        self._fixed_profile = profile
        self.profile = profile or CAREFUL
        self.limits = limits
        self.folds: dict[str, Fold] = {}
        self._requests: dict[tuple[str, str], tuple[str, str]] = {}  # (side, request id) -> (method, session)
        self._prompts: dict[str, int] = {}  # session -> prompts in flight
        self._replaying: set[str] = set()

    def __repr__(self) -> str:
        return f"<ConnectionFolder {self.profile.name} {len(self.folds)} sessions>"

    def fold(self, session: str) -> Fold:
        """Return the fold of the session with this id. The first call creates it."""
        if session not in self.folds:
            self.folds[session] = Fold(self.profile, self.limits)
        return self.folds[session]

    def forget(self, session: str) -> None:
        """Forget a session's view, because the client reads the session anew."""
        self.folds.pop(session, None)

    def is_prompting(self, session: str) -> bool:
        """Whether a prompt of the session was not answered yet."""
        return self._prompts.get(session, 0) > 0

    def is_replaying(self, session: str) -> bool:
        """Whether the agent's next updates of the session belong to a replay."""
        return session in self._replaying

    def find_request(self, answer: Mapping[str, Any]) -> tuple[str, str]:
        """Return (method, session) of the client's request that the agent's `answer` answers; ("", "") if unknown."""
        return self._requests.get(("c", str(answer.get("id"))), ("", ""))

    def fold_sent(self, message: object) -> list[Op]:
        """Apply a message from the client to the agent."""
        if not isinstance(message, dict):
            return []
        method, params = message.get("method"), object_at(message, "params")
        session = text_at(params, "sessionId") or ""
        if not isinstance(method, str):
            return []
        if "id" in message:
            self._requests["c", str(message["id"])] = (method, session)
        if method == "session/prompt":
            self._replaying.discard(session)
            self._prompts[session] = self._prompts.get(session, 0) + 1
            return self.fold(session).prompt(_prompt_text(params.get("prompt")))
        if method in LOADING_METHODS:
            self._replaying.add(session)
        if method == "session/cancel":
            return self.fold(session).cancel()
        return []

    def fold_received(self, message: object) -> list[Op]:
        """Apply a message from the agent to the client. Ignore anything that is not a JSON-RPC message."""
        if isinstance(message, list):  # a batch
            return [op for inner in objects_in(message) for op in self.fold_received(inner)]
        if not isinstance(message, dict):
            return []
        method = message.get("method")
        if method is None:
            return self._answer(message) if "id" in message else []
        params = object_at(message, "params")
        session = text_at(params, "sessionId") or ""
        if method == "session/update":
            data = params.get("update")
            return self.update(session, data) if isinstance(data, dict) else []
        if method == "session/request_permission":
            call = params.get("toolCall")
            return self.fold(session).apply_permission(call) if isinstance(call, dict) else []
        if method == "_session/retrying":
            return self.update(session, {**params, "sessionUpdate": method})
        return []

    def update(self, session: str, data: Mapping[str, Any]) -> list[Op]:
        """Apply one ACP update to the view of the session with this id."""
        return self.fold(session).update(data, session in self._replaying)

    def fold_note(self, note: object) -> list[Op]:
        """Apply a note that the recorder put into the trace. A note that the process has ended ends the open turns."""
        if not isinstance(note, dict) or not any(key in note for key in END_NOTES):
            return []
        return self.fold_death()

    def fold_death(self) -> list[Op]:
        """End all turns whose prompt was not answered, because the agent process has died."""
        ops: list[Op] = []
        for session, count in self._prompts.items():
            for _ in range(count):
                ops += self.fold(session).end("error", "the agent died", died=True)
        self._prompts.clear()
        self._replaying.clear()
        self._requests.clear()
        return ops

    def _answer(self, message: Mapping[str, Any]) -> list[Op]:
        method, session = self._requests.pop(("c", str(message["id"])), ("", ""))
        result = object_at(message, "result")
        if method == "initialize":
            name = text_at(result, "agentInfo", "name")
            if self._fixed_profile is None and name is not None:
                self.profile = profile_for(name)
        elif method in LOADING_METHODS:
            if self.profile.replay_until == "response" or "error" in message:
                self._replaying.discard(session)
        elif method == "session/prompt":
            self._prompts[session] = max(0, self._prompts.get(session, 0) - 1)
            if "error" in message:
                return self.fold(session).end("error", _error_text(message["error"]))
            stop = text_at(result, "stopReason")
            fold = self.fold(session)
            return fold.end("unknown" if stop is None else stop, read_failure_text(result.get("_meta")) or fold.failure)
        return []


def _prompt_text(prompt: object) -> str:
    texts = [text_at(block, "text") for block in objects_in(prompt) if block.get("type") == "text"]
    return "\n".join(text for text in texts if text is not None)


def _error_text(error: object) -> str:
    if not isinstance(error, dict):
        return "error"
    details = (text_at(error, "data", key) for key in ("message", "details"))
    detail = next((text for text in details if text is not None), "")
    message = str(error.get("message") or "error")
    return f"{message}: {detail}" if detail and detail not in message else message
