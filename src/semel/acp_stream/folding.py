"""The fold: one agent's stream of ACP updates into the view that a person sees.

Semantics (ACP v2; v1 traffic is translated by profiles): messages and tool calls are upserts by id, in which omitted
fields keep their values; content and terminal chunks append. The caller marks which updates are a replay. The fold has
no clock and does no I/O. The cost of an update is proportional to its own size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from semel.acp_stream.block import MESSAGE, THOUGHT, Block
from semel.acp_stream.dialect import NO_RESULT
from semel.acp_stream.history import Replay
from semel.acp_stream.messages import Talk
from semel.acp_stream.notices import retrying, signalled
from semel.acp_stream.ops import Began, Board, Ended, Grew, Item, Limits, Node, Op
from semel.acp_stream.profiles import CAREFUL, Profile
from semel.acp_stream.redelivery import bare
from semel.acp_stream.state import State
from semel.acp_stream.surrogate_pairs import Halves, find_streamed_text, has_half
from semel.acp_stream.tool_calls import Call, Calls
from semel.acp_stream.v2 import KINDS as V2_KINDS
from semel.acp_stream.v2 import WHOLE_MESSAGE_KINDS as V2_WHOLE
from semel.acp_stream.v2 import Version2

REPLAYED = frozenset(
    ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update")
)


class Fold:
    """Folds one session's stream. Methods return what changed, in order."""

    def __init__(self, profile: Profile = CAREFUL, limits: Limits = Limits()) -> None:  # noqa: B008
        self.profile = profile
        self.board = Board()
        self.talk = Talk(self.board, profile)
        self.calls = Calls(self.board, profile, limits)
        self.state = State(self.board)
        self.v2 = Version2(self.board, self.talk, self.calls)
        self._replay: Replay | None = None
        self._before: list[Node] = []
        self._running = 0  # prompts that have not ended
        self._echoes: deque[str] = deque(maxlen=8)  # prompts, without white space, whose echo may come
        self._user: Block | None = None
        self._halves = Halves()

    def __repr__(self) -> str:
        unfinished = len(self.calls.unfinished)
        return f"<Fold {self.profile.name}: {self.board.last} items, {unfinished} calls unfinished>"

    def items(self) -> Iterator[Item]:
        """The view, in the order a person sees it."""
        return self.board.items()

    def settle(self) -> list[Op]:
        """No more updates are coming for now: an open replay, or a held chunk of a thought, is taken as complete."""
        return self._give_up_halves() + self._end_replay() + self.talk.settle()

    def knows(self, role: str, text: str, message_id: str | None = None) -> None:
        """Add a text that the caller's record has from before this fold, so that a replay does not show it again.

        `role`: agent, user or thought.
        """
        kind, fields = (THOUGHT, {}) if role == "thought" else (MESSAGE, {"role": role})
        node = Node(0, kind, fields | ({"message_id": message_id} if message_id is not None else {}))
        node.pieces.append(text)
        self._before.append(node)

    def knows_call(self, call: str, title: str = "", given: object = None) -> None:
        """Add a tool call that the caller's record has from before this fold, by id, title and input."""
        fields: dict[str, Any] = {"call": call, "title": title, "status": "done"}
        node = Call(0, fields | ({"input": given} if given else {}), self.calls.limits)
        node.ended = True
        self._before.append(node)

    def let_go(self, keep: Iterable[int]) -> None:
        """Forget completed items except `keep`, so that a long conversation costs no more than a short one (Law 11).

        Forgotten items are no longer recognised, neither in a replay nor by a late update.
        """
        open_ = (*self.talk.open.values(), self._user, *self.calls.unfinished.values(), *self.state.nodes.values())
        kept = {*keep, *(node.id for node in open_ if node is not None)}
        self.board.let_go(kept)
        self.calls.let_go(kept)

    def replayed(self) -> list[Op]:
        """The caller knows that the replay is over: its last message is complete."""
        return self._give_up_halves() + self._end_replay()

    # ---- what the client did

    def prompt(self, text: str) -> list[Op]:
        """A turn begins with this prompt. Its text becomes an item of the view, without an operation.

        A prompt during a turn does not end the agent's open message.
        """
        ops = self._give_up_halves() if not self._running else []
        ops += self._end_replay()
        if not self._running:
            ops += self._end_user() + self.talk.turn()
            self.state.turn()
            self.calls.begin_turn()
        self.talk.begun = False
        self._running += 1
        self._echoes.append(bare(text))
        if text:
            node = Node(self.board.fresh(), MESSAGE, {"role": "user"})
            node.pieces.append(text)
            node.ended = True
            self.board.add(node)
        return ops

    def permission(self, tool_call: Mapping[str, Any]) -> list[Op]:
        """The agent asks for permission: `session/request_permission`'s toolCall."""
        cid = tool_call.get("toolCallId")
        if not isinstance(cid, str):
            return []
        ops = self._end_replay()
        if cid not in self.calls.known and self.profile.permission_is_call:
            ops += self.talk.interrupt()
        self.talk.happened()
        return ops + self.calls.permission(cid, tool_call)

    def cancel(self) -> list[Op]:
        """The person cancelled the turn: unfinished calls are cancelled at once, whatever the agent reports later."""
        return self._give_up_halves(tools_only=True) + self.calls.finish_all("cancelled")

    def end(self, stop: str, error: str | None = None, died: bool = False) -> list[Op]:
        """The turn has ended, or (`died`) the agent process has. `stop`: ACP's stop reason, or "error"."""
        self._running = max(0, self._running - 1)
        bad = died or error is not None or stop in ("error", "cancelled")
        ops = self._give_up_halves() + self._end_replay() + self._end_user() + self.talk.end(partial=bad)
        if stop == "cancelled" and not died:
            ops += self.calls.finish_all("cancelled")
        elif bad and not died:
            ops += self.calls.finish_all("failed")
        else:
            ops += self.calls.finish_all(NO_RESULT if died else self.profile.unfinished)
        fields = {"stop": stop} if error is None else {"stop": stop, "error": error}
        self.board.add(Node(self.board.fresh(), "turn", fields)).ended = True
        return ops

    # ---- what the agent said

    def update(self, data: Mapping[str, Any], replay: bool = False) -> list[Op]:
        """Fold the `update` object of one ACP `session/update`. Unreadable updates are ignored."""
        try:
            text = find_streamed_text(data)
            if self._halves.waiting or (text is not None and has_half(text)):
                return self._update_halves(data, text, replay)
            return self._update(data, replay)
        except RecursionError:  # JSON nested a thousand deep
            return []

    def _update_halves(self, data: Mapping[str, Any], text: str | None, replay: bool) -> list[Op]:
        """An update that may begin or end inside a character."""
        ops = [op for lost in self._halves.give_up(data) for op in self._update(lost, self._replay is not None)]
        if text is None:
            return ops + self._update(data, replay)
        whole_each_time = self.profile.terminal == "snapshot" and "toolCallId" in data
        joined = self._halves.join(data, text, waits=not whole_each_time)
        return ops + self._update(joined, replay) if joined is not None else ops

    def _give_up_halves(self, tools_only: bool = False) -> list[Op]:
        """Show U+FFFD for waiting halves of characters whose other half will not come."""
        lost = self._halves.give_up(tools_only=tools_only)
        return [op for update in lost for op in self._update(update, self._replay is not None)]

    def _update(self, data: Mapping[str, Any], replay: bool) -> list[Op]:
        if replay is not (self._replay is not None):
            return self._turn_over(data, replay)
        kind = data.get("sessionUpdate")
        if not replay:
            if kind == "agent_message_chunk":
                return self.talk.chunk(MESSAGE, data)
            if kind == "tool_call_update" or kind == "tool_call":
                return self._call(data, kind)
            if kind == "agent_thought_chunk":
                return self.talk.chunk(THOUGHT, data)
            if kind == "user_message_chunk":
                return self._user_chunk(data)
        elif self._replay is not None and isinstance(kind, str) and kind in REPLAYED:
            return self._replay.update(kind, data)
        return self._said(kind, data)

    def _turn_over(self, data: Mapping[str, Any], replay: bool) -> list[Op]:
        """Switch between live updates and a replay."""
        if not replay:
            return self._end_replay() + self._update(data, False)
        ops = self._end_user() + self.talk.turn()
        self._replay = Replay(self.board, self.profile, self.calls, self.talk.notices, self._before)
        return ops + self._update(data, True)

    def _end_replay(self) -> list[Op]:
        replay, self._replay = self._replay, None
        return replay.end() if replay is not None else []

    def _call(self, data: Mapping[str, Any], kind: str) -> list[Op]:
        cid = data.get("toolCallId")
        if not isinstance(cid, str):
            return []
        announces = kind == "tool_call"
        call = self.calls.find(cid, data, announces)
        if call is not None and call.started and len(data) == 3 and self.calls.plain:
            meta = data.get("_meta")
            if type(meta) is dict and len(meta) == 1:
                part = meta.get("terminal_output") or meta.get("terminal_output_delta")
                text = part.get("data") if type(part) is dict else None
                if type(text) is str and text:
                    return self.calls.terminal(call, text)
        ops = self.talk.interrupt() if call is None or announces else []
        if self._user is not None:
            ops += self._end_user()
        ops += self.calls.update(cid, data, announces) + self.v2.refers(cid, data)
        if self.calls.known[cid].started:
            self.talk.happened()
        return ops

    def _user_chunk(self, data: Mapping[str, Any]) -> list[Op]:
        """An echo of the prompt (ignored), or a user message that the caller did not send."""
        content = data.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        if not isinstance(text, str) or not text:
            return []
        spare = bare(text)
        if self._user is None and any(spare in prompt for prompt in self._echoes):
            return []
        ops: list[Op] = []
        mid = data.get("messageId")
        if self._user is None or (self._user.mid != mid and mid is not None):
            ops = self._end_user() + self.talk.turn()
            if any(pattern.match(text) for pattern in self.profile.synthetic_user):
                return ops + self.talk.notices.tell(text)
            fields = {"role": "user", "message_id": mid} if isinstance(mid, str) else {"role": "user"}
            self._user = Block(self.board.fresh(), MESSAGE, fields, mid if isinstance(mid, str) else None)
            self.board.add(self._user)
            ops.append(Began(self._user.id, MESSAGE, {**fields, "text": ""}))
        self._user.append(text)
        return [*ops, Grew(self._user.id, text)]

    def _end_user(self) -> list[Op]:
        user, self._user = self._user, None
        if user is None:
            return []
        user.ended = True
        return [Ended(user.id, {})]

    def _said(self, kind: object, data: Mapping[str, Any]) -> list[Op]:
        """Fold an update about the session or the run, rather than about text or tool calls."""
        if kind == "usage_update":
            seals = self.profile.usage_seals and self._replay is None and data.get("cost") is None
            return (self.talk.seal() if seals else []) + self.state.usage(data)
        if kind == "plan" or kind == "plan_update":
            return self.state.plan(data)
        if kind == "current_mode_update":
            return self.state.mode(data)
        if kind == "available_commands_update":
            return self.state.commands(data)
        if kind == "session_info_update":
            return self.state.title(data) + self._signal(data.get("_meta"))
        if isinstance(kind, str) and (kind in V2_KINDS or kind == "user_message"):
            return self._version2(kind, data)
        text = retrying(data)
        return self.talk.notices.tell(text) + self.talk.signal() if text is not None else []

    def _version2(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Fold an ACP v2 update. In a replay or echo, each block of a whole message is handled like a v1 chunk."""
        if self._replay is None and kind != "user_message":
            return self.v2.update(kind, data)
        content = data.get("content")
        if not isinstance(content, list) or kind not in (*V2_WHOLE, "user_message"):
            return []
        chunks = [{**data, "content": block} for block in content if isinstance(block, dict)]
        if self._replay is not None:
            return [op for chunk in chunks for op in self._replay.update(kind + "_chunk", chunk)]
        return [op for chunk in chunks for op in self._user_chunk(chunk)]

    def _signal(self, meta: object) -> list[Op]:
        found = signalled(meta) if isinstance(meta, dict) else None
        if found is None:
            return []
        text, again = found
        ops = self.talk.signal() if again else []
        return ops + self.talk.notices.tell(text)
