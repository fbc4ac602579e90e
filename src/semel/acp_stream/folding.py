"""Apply one session's stream of ACP updates to the view that a person sees.

Messages and tool calls are upserts by id: fields that an update omits keep their values, and chunks of content or
terminal output are appended. ACP v2 defines updates in this way; for v1, a profile says how each agent differs.

To *fold* an update is to apply it to the view. A *replay* is the history that an agent sends when a session is loaded;
the caller says which updates belong to one. The fold has no clock and does no I/O. The cost of an update is
proportional to the update's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from semel.acp_stream.block import MESSAGE, THOUGHT, TextBlock
from semel.acp_stream.history import Replay
from semel.acp_stream.messages import BlockAssembler
from semel.acp_stream.notices import read_retry_text, read_signal, read_thread_error
from semel.acp_stream.ops import Began, Grew, GrowingItem, Limits, Op, ViewItem, ViewItems
from semel.acp_stream.output_fields import NO_RESULT
from semel.acp_stream.profiles import CAREFUL, Profile
from semel.acp_stream.redelivery import without_white_space
from semel.acp_stream.state import SessionState
from semel.acp_stream.surrogate_pairs import PendingSurrogates, find_streamed_text, has_lone_surrogate
from semel.acp_stream.tool_calls import ToolCall, ToolCalls
from semel.acp_stream.v2 import KINDS as V2_KINDS
from semel.acp_stream.v2 import WHOLE_MESSAGE_KINDS as V2_WHOLE
from semel.acp_stream.v2 import Version2
from semel.text.json_types import text_at

REPLAYED = frozenset(
    ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update")
)


class Fold:
    """The view of one session, and the state of its stream.

    The methods return how the view changed, as operations in order.
    """

    def __init__(self, profile: Profile = CAREFUL, limits: Limits = Limits()) -> None:  # noqa: B008
        self.profile = profile
        self.view_items = ViewItems()
        self.blocks = BlockAssembler(self.view_items, profile)
        self.calls = ToolCalls(self.view_items, profile, limits)
        self.state = SessionState(self.view_items)
        self.v2 = Version2(self.view_items, self.blocks, self.calls)
        self._replay: Replay | None = None
        self._known_before: list[GrowingItem] = []
        self._open_prompts = 0  # prompts that have not ended
        self._echoes: deque[str] = deque(maxlen=8)  # sent prompts, without white space; the agent may send them back
        self._user: TextBlock | None = None
        self._retry_notice = ("", 0)  # the latest notice of a retry: its text and id
        self._has_thread_error = False  # the agent said so, and has not taken it back
        self.failure: str | None = None  # the reason with which the agent says that its turn failed, if it says so
        self._greeting: list[str] = []  # text of the agent before the first prompt of a new session
        self._halves = PendingSurrogates()

    def __repr__(self) -> str:
        unfinished = len(self.calls.unfinished)
        return f"<Fold {self.profile.name}: {self.view_items.last_id} items, {unfinished} calls unfinished>"

    @property
    def is_replaying(self) -> bool:
        """Whether a replay has begun and not ended. Until it ends, its last message may get more chunks."""
        return self._replay is not None

    def items(self) -> Iterator[ViewItem]:
        """Yield the items of the view, in the order in which a person sees them."""
        return self.view_items.items()

    def get_usage(self) -> dict[str, Any] | None:
        """Return how full the agent's context is and what it cost, as it told last; None if it told nothing."""
        return self.state.get_usage()

    def settle(self) -> list[Op]:
        """Show everything that waits for a further update, because none comes for now.

        This ends a replay, drops a thought's chunk that was withheld as a probable copy (see `messages`), and shows
        U+FFFD for half a surrogate pair.
        """
        return self._show_lost_halves() + self._finish_replay() + self.blocks.settle()

    def add_known_text(self, role: str, text: str, message_id: str | None = None) -> None:
        """Add a text that was recorded before this fold began, so that a replay does not show it again.

        `role`: "agent", "user" or "thought". `message_id`: the ACP message id, if the record has it.
        """
        kind, fields = (THOUGHT, {}) if role == "thought" else (MESSAGE, {"role": role})
        node = GrowingItem(kind, fields | ({"message_id": message_id} if message_id is not None else {}))
        node.pieces.append(text)
        self._known_before.append(node)

    def add_known_call(self, call: str, title: str = "", tool_input: object = None) -> None:
        """Add a tool call that was recorded before this fold began, so that a replay does not show it again.

        `call`: the agent's id of the call.
        """
        fields: dict[str, Any] = {"call": call, "title": title, "status": "done"}
        node = ToolCall(fields | ({"input": tool_input} if tool_input else {}), self.calls.limits)
        node.ended = True
        self._known_before.append(node)

    def forget_all_but(self, keep: Iterable[int]) -> None:
        """Forget completed items, except those with the ids in `keep`.

        So a long conversation costs no more than a short one (Law 11). A replay or a late update does not recognise
        forgotten items.
        """
        open_ = (
            *self.blocks.open_blocks.values(),
            self._user,
            *self.calls.unfinished.values(),
            *self.state.nodes.values(),
        )
        kept_ids = {*keep, *(node.id for node in open_ if node is not None)}
        self.view_items.keep_only(kept_ids)
        self.calls.keep_only(kept_ids)

    def end_replay(self) -> list[Op]:
        """End the replay, and fold its last message.

        Call this when it is certain that no more replayed updates will come.
        """
        return self._show_lost_halves() + self._finish_replay()

    # ---- what the client did

    def prompt(self, text: str) -> list[Op]:
        """Record a prompt that was sent to the agent. It begins a turn, or joins the running one.

        A prompt with a text becomes an item of the view, but none of the returned operations announces it. A prompt
        that joins a turn does not end the agent's open message.
        """
        ops = self._show_lost_halves() if not self._open_prompts else []
        ops += self._finish_replay() + self._end_greeting()
        self._has_thread_error, self.failure = False, None
        if not self._open_prompts:
            ops += self._end_user() + self.blocks.begin_turn()
            self.state.begin_turn()
            self.calls.begin_turn()
        self.blocks.has_text = False
        self._open_prompts += 1
        self._echoes.append(without_white_space(text))
        if text:
            node = GrowingItem(MESSAGE, {"role": "user"})
            node.pieces.append(text)
            self.view_items.add(node)
            node.end()
        return ops

    def apply_permission(self, tool_call: Mapping[str, Any]) -> list[Op]:
        """Apply the `toolCall` of a permission request (`session/request_permission`) to its call in the view."""
        cid = tool_call.get("toolCallId")
        if not isinstance(cid, str):
            return []
        ops = self._finish_replay()
        if cid not in self.calls.by_id and self.profile.permission_is_call:
            ops += self.blocks.end_blocks()
        self.blocks.note_side_effect()
        return ops + self.calls.fold_permission(cid, tool_call)

    def cancel(self) -> list[Op]:
        """Cancel the unfinished tool calls, because a person cancelled the turn. Later updates do not revive them."""
        return self._show_lost_halves(tools_only=True) + self.calls.finish_all("cancelled")

    def end(self, stop: str, error: str | None = None, died: bool = False) -> list[Op]:
        """End the turn.

        `stop`: ACP's stop reason, or "error". `error`: the error's text, if there was one. `died`: the turn ended
        because the agent process died.
        """
        self._open_prompts = max(0, self._open_prompts - 1)
        is_partial = died or error is not None or stop in ("error", "cancelled")
        ops = (
            self._show_lost_halves()
            + self._finish_replay()
            + self._end_user()
            + self.blocks.end_turn(partial=is_partial)
        )
        if stop == "cancelled" and not died:
            ops += self.calls.finish_all("cancelled")
        elif is_partial and not died:
            ops += self.calls.finish_all("failed")
        else:
            ops += self.calls.finish_all(NO_RESULT if died else self.profile.unfinished)
        fields = {"stop": stop} if error is None else {"stop": stop, "error": error}
        turn = GrowingItem("turn", fields)
        self.view_items.add(turn)
        turn.end()
        return ops

    # ---- what the agent said

    def update(self, data: Mapping[str, Any], replay: bool = False) -> list[Op]:
        """Apply the `update` object of one ACP `session/update` to the view. Ignore an update that cannot be read.

        `replay`: the update belongs to a replay.
        """
        try:
            text = find_streamed_text(data)
            if self._halves.waiting or (text is not None and has_lone_surrogate(text)):
                return self._update_halves(data, text, replay)
            return self._update(data, replay)
        except RecursionError:  # JSON that is nested a thousand levels deep
            return []

    def update_before_prompt(self, data: Mapping[str, Any]) -> list[Op]:
        """Apply an update that came before the first prompt of a new session.

        A message cannot be an answer then; it is a greeting, such as the name of the model. When the prompt comes, the
        whole greeting is shown as one notice.
        """
        text = text_at(data, "content", "text")
        if data.get("sessionUpdate") != "agent_message_chunk" or text is None:
            return self.update(data)
        self._greeting.append(text)
        return []

    def _end_greeting(self) -> list[Op]:
        text, self._greeting = "".join(self._greeting), []
        return self.blocks.notices.add(text) if text.strip() else []

    def _update_halves(self, data: Mapping[str, Any], text: str | None, replay: bool) -> list[Op]:
        """Apply an update whose text contains half of a surrogate pair, or that comes while an earlier half waits.

        `text`: the update's streamed text; None if it has none.
        """
        ops = [op for lost in self._halves.take_lost(data) for op in self._update(lost, self._replay is not None)]
        if text is None:
            return ops + self._update(data, replay)
        whole_each_time = self.profile.terminal == "snapshot" and "toolCallId" in data
        joined = self._halves.join(data, text, waits=not whole_each_time)
        return ops + self._update(joined, replay) if joined is not None else ops

    def _show_lost_halves(self, tools_only: bool = False) -> list[Op]:
        """Show U+FFFD for each half of a surrogate pair whose other half will not come.

        `tools_only`: only for halves in the output of tool calls.
        """
        lost = self._halves.take_lost(tools_only=tools_only)
        return [op for update in lost for op in self._update(update, self._replay is not None)]

    def _update(self, data: Mapping[str, Any], replay: bool) -> list[Op]:
        if replay is not (self._replay is not None):
            return self._switch_replay(data, replay)
        kind = data.get("sessionUpdate")
        if not replay:
            if kind == "agent_message_chunk":
                ops = self.blocks.add_chunk(MESSAGE, data)
                return self._note_failure(ops) if self._has_thread_error else ops
            if kind == "tool_call_update" or kind == "tool_call":
                return self._fold_tool_call(data, kind)
            if kind == "agent_thought_chunk":
                return self.blocks.add_chunk(THOUGHT, data)
            if kind == "user_message_chunk":
                return self._fold_user_chunk(data)
        elif self._replay is not None and isinstance(kind, str) and kind in REPLAYED:
            return self._replay.update(kind, data)
        return self._fold_session_update(kind, data)

    def _switch_replay(self, data: Mapping[str, Any], replay: bool) -> list[Op]:
        """Begin or end a replay, as `replay` says, then apply the update."""
        if not replay:
            return self._finish_replay() + self._update(data, False)
        ops = self._end_user() + self.blocks.begin_turn()
        self._replay = Replay(self.view_items, self.profile, self.calls, self.blocks.notices, self._known_before)
        return ops + self._update(data, True)

    def _finish_replay(self) -> list[Op]:
        replay, self._replay = self._replay, None
        return replay.end() if replay is not None else []

    def _fold_tool_call(self, data: Mapping[str, Any], kind: str) -> list[Op]:
        cid = data.get("toolCallId")
        if not isinstance(cid, str):
            return []
        announces = kind == "tool_call"
        call = self.calls.find(cid, data, announces)
        # The fast path, for an update that contains nothing but its kind, the call's id and new terminal output.
        if call is not None and call.has_started and len(data) == 3 and self.calls.has_plain_deltas:
            meta = data.get("_meta")
            if type(meta) is dict and len(meta) == 1:
                part = meta.get("terminal_output") or meta.get("terminal_output_delta")
                text = part.get("data") if type(part) is dict else None
                if type(text) is str and text:
                    return self.calls.append_terminal(call, text)
        ops = self.blocks.end_blocks() if call is None or announces else []
        if self._user is not None:
            ops += self._end_user()
        ops += self.calls.update(cid, data, announces) + self.v2.attach_terminals(cid, data)
        if self.calls.by_id[cid].has_started:
            self.blocks.note_side_effect()
        return ops

    def _fold_user_chunk(self, data: Mapping[str, Any]) -> list[Op]:
        """Show a chunk of a user message, unless it repeats a prompt that was sent to the agent."""
        text = text_at(data, "content", "text")
        if not text:
            return []
        bare_text = without_white_space(text)
        if self._user is None and any(bare_text in prompt for prompt in self._echoes):
            return []
        ops: list[Op] = []
        mid = data.get("messageId")
        if self._user is None or (self._user.mid != mid and mid is not None):
            ops = self._end_user() + self.blocks.begin_turn()
            if any(pattern.match(text) for pattern in self.profile.synthetic_user):
                return ops + self.blocks.notices.add(text)
            fields = {"role": "user", "message_id": mid} if isinstance(mid, str) else {"role": "user"}
            self._user = TextBlock(MESSAGE, fields, text_at(data, "messageId"))
            ops.append(self.view_items.add(self._user))
        self._user.append(text)
        return [*ops, Grew(self._user.id, text)]

    def _end_user(self) -> list[Op]:
        user, self._user = self._user, None
        return [user.end()] if user is not None else []

    def _fold_session_update(self, kind: object, data: Mapping[str, Any]) -> list[Op]:
        """Apply an update about the session (usage, plan, mode, commands, title), a signal, or an update of ACP v2."""
        if kind == "usage_update":
            seals = self.profile.usage_seals and self._replay is None and data.get("cost") is None
            return (self.blocks.seal_message() if seals else []) + self.state.fold_usage(data)
        if kind == "plan" or kind == "plan_update":
            return self.state.fold_plan(data)
        if kind == "current_mode_update":
            return self.state.fold_mode(data)
        if kind == "config_option_update":
            return self.state.fold_options(data)
        if kind == "available_commands_update":
            return self.state.fold_commands(data)
        if kind == "session_info_update":
            return self.state.fold_title(data) + self._fold_signal(data.get("_meta"))
        if isinstance(kind, str) and (kind in V2_KINDS or kind == "user_message"):
            return self._fold_version2(kind, data)
        text = read_retry_text(data)
        return self._fold_retry(text) if text is not None else []

    def _fold_retry(self, text: str) -> list[Op]:
        """Show a notice that the agent announces a retry.

        If the same announcement follows directly, show no second notice.
        """
        is_repeat = self._retry_notice == (text, self.view_items.last_id)
        ops = [] if is_repeat else self.blocks.notices.add(text)
        self._retry_notice = text, self.view_items.last_id
        return ops + self.blocks.announce_retry()

    def _fold_version2(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Apply an update of a kind that only ACP v2 has. `kind`: its `sessionUpdate`.

        A user message, and in a replay any whole message, is applied as one chunk for each of its content blocks. A
        replay's other updates of these kinds are ignored.
        """
        if self._replay is None and kind != "user_message":
            return self.v2.update(kind, data)
        content = data.get("content")
        if not isinstance(content, list) or kind not in (*V2_WHOLE, "user_message"):
            return []
        chunks = [{**data, "content": block} for block in content if isinstance(block, dict)]
        if self._replay is not None:
            return [op for chunk in chunks for op in self._replay.update(kind + "_chunk", chunk)]
        return [op for chunk in chunks for op in self._fold_user_chunk(chunk)]

    def _note_failure(self, ops: list[Op]) -> list[Op]:
        """Take the notice that these operations begin, if they do, for the reason of the agent's failure."""
        reasons = [str(op.fields["text"]) for op in ops if isinstance(op, Began) and op.kind == "notice"]
        self.failure = next(filter(None, reasons), self.failure)
        return ops

    def _fold_signal(self, meta: object) -> list[Op]:
        has_thread_error = read_thread_error(meta)
        if has_thread_error is not None:
            self._has_thread_error, self.failure = has_thread_error, None
        signal = read_signal(meta)
        if signal is None:
            return []
        text, announces_retry = signal
        return (self.blocks.announce_retry() if announces_retry else []) + self.blocks.notices.add(text)
