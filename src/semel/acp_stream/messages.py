"""Messages and thoughts: join streamed chunks into blocks, and recognise failed attempts and repeated deliveries.

A block ends at a tool call, a new message id, or the turn's end (a thought also when the agent begins a message).
Chunks of one block are joined unchanged. `redelivery` says what evidence a re-delivery needs. A block whose whole text
comes again as the beginning of a later block was an attempt at it: it stays in the record, marked superseded. If an
adapter sends a whole copy of a streamed block in one chunk, the copy is folded into the block.

Thoughts have a weaker rule: adapters often repeat them (a summary first in tokens, then whole), the copy has no other
sign than its chunk, and thoughts are not sent to chats. So a copy shorter than the lengths in `redelivery` counts, too,
if it repeats the whole thought (or its latest section) in one chunk after several, and nothing follows it. Such a chunk
is held back, and added after all if the thought continues. The rule is wrong only for a thought that consists of the
same words twice and nothing else, with the second half in one chunk and the first half in several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from semel.acp_stream.attachment import attachment, is_attachment
from semel.acp_stream.block import MAX_EDGE, MESSAGE, THOUGHT, Block, end, missing_newlines, supersede
from semel.acp_stream.notices import Notices
from semel.acp_stream.ops import Began, Board, Changed, Grew, Op
from semel.acp_stream.profiles import Profile
from semel.acp_stream.redelivery import LEAST_RETRY_CHARS, Cursor, is_distinctive, is_glued, is_redelivery

MAX_RIVALS = 8


class Talk:
    """Folds `agent_message_chunk` and `agent_thought_chunk`."""

    def __init__(self, board: Board, profile: Profile) -> None:
        self.board = board
        self.profile = profile
        self.notices = Notices(board, profile)
        self.open: dict[str, Block | None] = {MESSAGE: None, THOUGHT: None}
        # The latest blocks of this turn since the last side effect (a tool call that started).
        self.run: deque[Block] = deque(maxlen=4 * MAX_RIVALS)
        self.told: dict[str, Block | None] = {MESSAGE: None, THOUGHT: None}  # the latest block of this turn
        self.void: dict[str, list[Block]] = {MESSAGE: [], THOUGHT: []}  # blocks that a retry signal declared void
        self.begun = False  # this turn has produced text

    def __repr__(self) -> str:
        return f"<Talk {self.profile.name} open={[b for b in self.open.values() if b]} run={len(self.run)}>"

    # ---- the hot path

    def chunk(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """One chunk of live text."""
        content = data.get("content")
        text = content.get("text") if type(content) is dict else None
        block = self.open[kind]
        if (
            block is None
            or not block.calm
            or type(text) is not str
            or not text
            or data.get("messageId") != block.mid
            or text[0] in block.alert
            or "_meta" in data
            or (kind is THOUGHT and text[0] == block.pieces[-1][0])
            or (kind is MESSAGE and self.open[THOUGHT] is not None)
        ):
            return self._look(kind, data, content, text)
        if kind is THOUGHT:
            block.append(text)
            return [Grew(block.id, text)]
        block.pieces.append(text)
        block.size += len(text)
        return [Grew(block.id, text)]

    # ---- the slow path

    def _look(self, kind: str, data: Mapping[str, Any], content: Any, text: Any) -> list[Op]:
        mid = data.get("messageId")
        mid = mid if isinstance(mid, str) else None
        if not isinstance(text, str):
            return self._attach(kind, mid, content)
        if kind is THOUGHT and self.profile.thought_frame:
            text = text.removeprefix(self.profile.thought_frame)
        if not text:
            return self._pause(kind, data)
        first = not self.begun
        self.begun = True
        if kind is MESSAGE:
            what = self.notices.spoken(text, mid, data, first)
            if what is not None:
                ops = self.notices.tell(text, queued=True) if what == "queued" else self.notices.tell(text)
                return self.signal() + ops if what == "retry" else ops
        return self._take(kind, mid, text)

    def _take(self, kind: str, mid: str | None, text: str) -> list[Op]:
        block = self.open[kind]
        if block is not None and mid is not None and block.mid is None and not block.size:
            block.mid = block.fields["message_id"] = mid  # an image, say, came first, without the id of its message
        if self.profile.exact:
            same = block is not None and mid in (None, block.mid)
            return self._grow(block, text) if block is not None and same else self._begin(kind, mid, text)
        if block is not None and mid in (None, block.mid):
            ops = self._settle(block, text)
            folded = self._copy(block, text)
            return ops + (folded if folded is not None else self._grow(block, text))
        if block is not None and self._is_copy_of(block, text):
            block.mid = block.fields["message_id"] = mid  # the consolidated copy names the block
            return [Changed(block.id, {"message_id": mid}), *self._rest(block, text)]
        if block is None and not self.void[kind] and self._is_told_again(kind, text):
            return []
        return self._begin(kind, mid, text)

    def _begin(self, kind: str, mid: str | None, text: str) -> list[Op]:
        ops = self._close(kind)
        if kind is MESSAGE:
            ops += self._close(THOUGHT)
        fields: dict[str, Any] = {"role": "agent"} if kind is MESSAGE else {}
        if mid is not None:
            fields["message_id"] = mid
        block = Block(self.board.fresh(), kind, fields, mid)
        ops += self._superseded_by(kind)
        if self.profile.retry != "continue":
            earlier = [b for b in self.run if b.kind == kind and b.size and (kind == THOUGHT or not b.superseded)]
            block.rivals = [(b, Cursor(b.pieces, b.size)) for b in earlier[-MAX_RIVALS:]]
        self.board.add(block)
        self.open[kind] = self.told[kind] = block
        self.run.append(block)
        ops.append(Began(block.id, kind, {**fields, "text": ""}))
        return ops + self._grow(block, text)

    def _leads(self, kind: str) -> frozenset[str]:
        """First characters of chunks that may be more than plain continuation, so that they leave the fast path."""
        return self.profile.prose_leads if kind == MESSAGE else frozenset("\n" + self.profile.thought_frame[:1])

    def _grow(self, block: Block, text: str) -> list[Op]:
        if block.blank:
            lead = text.lstrip()[:1]
            block.leads |= frozenset((text[0], *lead)) | self._leads(block.kind)
            block.alert, block.blank = block.leads, not lead
        elif not self._has_section(block):
            block.alert = block.leads | {text[0]}
        if block.size and block.break_:
            text = "\n" * missing_newlines(block.pieces[-1], text) + text
        block.break_ = False
        start = block.size
        block.append(text)
        ops: list[Op] = [Grew(block.id, text)]
        if block.rivals:
            ops += self._compare(block, text)
        if self.profile.retry == "whole":
            ops += self._follow(block, start, text)
        block.calm = not block.rivals and block.again is None and not block.blank and self._has_section(block)
        return ops

    def _has_section(self, block: Block) -> bool:
        """Whether a thought's section has begun, so that its first character is known. Always true for messages."""
        return block.kind is MESSAGE or bool(block.section.pieces)

    # ---- attempts

    def _compare(self, block: Block, text: str) -> list[Op]:
        """Compare the block with its rivals, and supersede those that it has now repeated completely."""
        ops: list[Op] = []
        still: list[tuple[Block, Cursor]] = []
        for rival, cursor in block.rivals:
            if not cursor.feed(text):
                continue
            if cursor.left or rival.size == block.size:
                still.append((rival, cursor))
            if not cursor.left and self._is_attempt(rival, block):
                ops += supersede(rival, repeated=True)
        block.rivals = still
        return ops

    def _is_attempt(self, rival: Block, block: Block) -> bool:
        """Whether an earlier block was an attempt at this one, which begins with all of it. No tool ran in between."""
        if rival.superseded:
            return True
        if self._retries_under_another_id(rival, block.mid):
            return is_distinctive(rival.text())
        return rival.size >= LEAST_RETRY_CHARS and is_distinctive(rival.text())

    def _retries_under_another_id(self, block: Block, mid: str | None) -> bool:
        """Whether this agent's change of message id is evidence of another attempt or a copy."""
        return self.profile.another_id == "retry" and None not in (block.mid, mid) and block.mid != mid

    def _follow(self, block: Block, start: int, text: str) -> list[Op]:
        """Detect that the block begins again inside itself, for agents that retry without any mark."""
        if block.again is not None and not block.again.feed(text):
            block.again = None
        if block.again is None and start > block.first and text[0] == block.pieces[0][0]:
            cursor = Cursor(block.pieces, start)
            if cursor.feed(text):
                block.again, block.origin = cursor, start
        if block.again is None or block.again.left:
            return []
        block.again = None
        whole = block.text()
        if not is_redelivery(whole[: block.origin], whole[block.origin :]):
            return []
        return self._split(block, whole)

    def _split(self, block: Block, whole: str) -> list[Op]:
        """The block was an attempt and the beginning of the next one: make two of it."""
        attempt, rest = whole[: block.origin], whole[block.origin :]
        if block.kind == THOUGHT:  # the next attempt repeats every character, and no chat was sent the thought
            block.restart(rest)
            return [Changed(block.id, {"text": rest})]
        block.restart(attempt)
        marks = {"superseded": True, "repeated": True}
        block.fields.update(marks)
        ops: list[Op] = [Changed(block.id, {"text": attempt, **marks})]
        self.open[block.kind] = None
        ops += end(block)
        ops += self._begin(block.kind, block.mid, rest)
        again = self.open[block.kind]
        if again is not None:
            again.first = 0  # its text came in pieces, too
        return ops

    def signal(self) -> list[Op]:
        """The agent announced a retry: the text of this attempt is superseded once the next attempt produces text."""
        ops = self._close_open(**({"broken": True} if self.profile.signal_means_retry else {}))
        for kind, void in self.void.items():
            void[:] = [b for b in self.run if b.kind == kind and not b.superseded]
        return ops

    def _superseded_by(self, kind: str) -> list[Op]:
        """A new block replaces the void blocks: a thought replaces only thoughts, a message replaces all of them."""
        kinds = (THOUGHT,) if kind == THOUGHT else (THOUGHT, MESSAGE)
        void = [block for each in kinds for block in self.void[each]]
        for each in kinds:
            self.void[each].clear()
        return [op for block in void for op in supersede(block)] if self.profile.signal_means_retry else []

    def seal(self) -> list[Op]:
        """The open message was streamed to its end. Unsealed messages right before it were attempts at it."""
        block = self.open[MESSAGE]
        if block is None or block.sealed or not self._is_the_models(block):
            return []
        block.sealed = True
        before = [b for b in self.run if b.kind == MESSAGE and b is not block and self._is_the_models(b)]
        return [op for b in before if not b.sealed for op in supersede(b)]

    def _is_the_models(self, block: Block) -> bool:
        return block.mid is not None and block.mid.startswith(self.profile.model_id)

    # ---- whole copies

    def _is_copy_of(self, block: Block, text: str) -> bool:
        """Whether a chunk under another message id repeats the whole open block, perhaps with more text after it."""
        if self.profile.another_id == "message" or len(text) < block.size:
            return False
        if block.kind == MESSAGE and self.board.last != block.id:
            return False
        whole = block.text()
        if not text.startswith(whole):
            return False
        if self.profile.another_id == "retry":
            return text == whole or is_distinctive(whole)
        return (text == whole and block.streamed) or is_redelivery(whole, text)

    def _copy(self, block: Block, text: str) -> list[Op] | None:
        """Fold a chunk that repeats at least the whole block so far. None if the chunk is no copy."""
        if not block.size:
            return None
        if block.kind == THOUGHT:
            return self._thought_copy(block, text)
        if not block.streamed or len(text) < block.size:
            return None
        whole = block.text()
        if not text.startswith(whole):
            return None
        glued_copy = text == whole and is_glued(whole, text) and is_distinctive(whole)
        return self._rest(block, text) if glued_copy or is_redelivery(whole, text) else None

    def _thought_copy(self, block: Block, text: str) -> list[Op] | None:
        """Fold a chunk that repeats a thought, its latest section, or its latest chunk. None if it is no copy."""
        for part in (block.whole, block.section):
            again = part.told_again(text)
            if again is not None:
                new, is_proved = again
                return self._append(block, new) if is_proved else self._hold(block, text, new)
        last, before = block.pieces[-1], block.pieces[-2][-1:] if len(block.pieces) > 1 else ""
        if len(text) <= len(last) or not text.startswith(last) or before.isalnum():
            return None
        return self._hold(block, text, text[len(last) :]) if is_glued(last, text) and is_distinctive(last) else None

    def _hold(self, block: Block, text: str, new: str) -> list[Op]:
        """Hold a chunk back as a probable copy followed by the text `new`, until the next chunk decides."""
        block.held = (text, new)
        block.calm = False
        return []

    def _settle(self, block: Block, text: str = "") -> list[Op]:
        """Decide on the held chunk: it is a copy if nothing or a new section (an empty line) follows, else text."""
        if block.held is None:
            return []
        (copy, new), block.held = block.held, None
        said = new if not text or text.startswith("\n\n") else copy
        return self._grow(block, said) if said else []

    def _is_told_again(self, kind: str, text: str) -> bool:
        """Whether a chunk after a tool call repeats the latest closed block as a whole.

        For a thought, equal wording is enough: adapters repeat a summary after a tool call.
        """
        block = self.told[kind]
        if block is None or block.superseded or abs(block.size - len(text)) > MAX_EDGE:
            return False
        if kind == THOUGHT:
            return is_distinctive(text.strip()) and block.text().strip() == text.strip()
        return block.streamed and len(text) >= LEAST_RETRY_CHARS and is_distinctive(text) and block.text() == text

    def _rest(self, block: Block, text: str) -> list[Op]:
        return self._append(block, text[block.size :])

    def _append(self, block: Block, rest: str) -> list[Op]:
        if not rest:
            return []
        block.append(rest)
        block.rivals, block.again = [], None
        block.calm = not block.break_
        return [Grew(block.id, rest)]

    # ---- pauses, attachments, ends

    def _pause(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        block = self.open[kind]
        if block is not None and self.profile.empty_is_break and not data.get("_meta"):
            block.break_ = True
            block.calm = False
        return []

    def _attach(self, kind: str, mid: str | None, content: Any) -> list[Op]:
        """Content that is not text is named, not shown. What names no type is no content block (ACP, Content)."""
        if not is_attachment(content):
            return []
        named = attachment(content)
        block = self.open[kind]
        ops: list[Op] = []
        if block is None or mid not in (None, block.mid):
            ops = self._close(kind)
            fields: dict[str, Any] = {"role": "agent"} if kind is MESSAGE else {}
            if mid is not None:
                fields["message_id"] = mid
            block = Block(self.board.fresh(), kind, fields, mid)
            block.calm = False
            self.board.add(block)
            self.open[kind] = block
            ops.append(Began(block.id, kind, {**fields, "text": ""}))
        block.fields["content"] = [*block.fields.get("content", []), named]
        return [*ops, Changed(block.id, {"content": block.fields["content"]})]

    def _close(self, kind: str, **fields: Any) -> list[Op]:
        block = self.open[kind]
        if block is None:
            return []
        ops = self._settle(block)
        self.open[kind] = None
        for rival, cursor in block.rivals:
            whole = not cursor.left and rival.size == block.size  # short, but all of it and nothing else
            if whole and self._retries_under_another_id(rival, block.mid):
                ops += supersede(rival, repeated=True)
        block.rivals, block.again = [], None
        return ops + end(block, **fields)

    def _close_open(self, **fields: Any) -> list[Op]:
        return self._close(THOUGHT) + self._close(MESSAGE, **fields)

    def interrupt(self) -> list[Op]:
        """A tool call was announced: text after it is another block, but may still be a further attempt."""
        return self._close_open()

    def happened(self) -> None:
        """A side effect happened that no retry undoes: earlier text can no longer be an attempt."""
        self.run.clear()
        for void in self.void.values():
            void.clear()

    def settle(self) -> list[Op]:
        """No more chunks are coming for now: the held chunk counts as a copy."""
        block = self.open[THOUGHT]
        return self._settle(block) if block is not None else []

    def turn(self) -> list[Op]:
        """A turn begins."""
        ops = self._close_open()
        self.happened()
        self.told = {MESSAGE: None, THOUGHT: None}
        self.begun = False
        return ops

    def end(self, partial: bool) -> list[Op]:
        """The turn is over. `partial`: it was cancelled, failed, or its agent died."""
        ops = self._close_open(**({"partial": True} if partial else {}))
        self.happened()
        return ops
