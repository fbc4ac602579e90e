"""Join the streamed chunks of messages and thoughts into blocks, and recognise failed starts and copies.

A block ends at a tool call, a new message id, or the turn's end; a thought also ends when a message begins. The chunks
of a block are joined unchanged. The view shows a text once, although an agent may send it again in two ways:

- If the model's stream breaks, the agent may begin the message again: a *repeated start*. So if a block begins with the
  whole text of an earlier block, the earlier one may be a *failed start*. A failed start stays in the record, marked
  superseded. The *rivals* of a block are the earlier blocks that may be failed starts of it.
- An *adapter* (the program that speaks ACP for an agent) may stream a block and then send a whole *copy* of it in one
  chunk.

`redelivery` says which evidence proves a repeated start or a copy. A copy of a thought needs less evidence: adapters
often stream a summary in tokens and then send it whole, and the only sign of the copy is that it comes in one chunk. A
wrong decision also costs less, because thoughts are not sent to chats. So a copy of a thought may be shorter than the
limits in `redelivery`.

A chunk of a thought counts as a copy if three things hold. It repeats the whole thought, or its current *section*,
which began after a chunk of newlines. That text came in several chunks. Nothing, or an empty line, follows the chunk.
Such a chunk is *withheld* until the next one arrives; if other text follows, the chunk is added after all. The rule
fails only for a thought that is the same words twice and nothing else, first in several chunks and then in one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from semel.acp_stream.attachment import describe_attachment, is_attachment
from semel.acp_stream.block import MAX_EDGE, MESSAGE, THOUGHT, TextBlock, missing_newlines, supersede
from semel.acp_stream.notices import Notices
from semel.acp_stream.ops import Changed, Grew, Op, ViewItems
from semel.acp_stream.profiles import Profile
from semel.acp_stream.redelivery import LEAST_RETRY_CHARS, TextCursor, is_distinctive, is_glued, is_redelivery

MAX_RIVALS = 8  # how many earlier blocks, at most, a block is compared with


class BlockAssembler:
    """The open blocks of one stream.

    It joins chunks (ACP's `agent_message_chunk`, `agent_thought_chunk`) into blocks. Methods return the operations by
    which the view changed.
    """

    def __init__(self, view_items: ViewItems, profile: Profile) -> None:
        self.view_items = view_items
        self.profile = profile
        self.notices = Notices(view_items, profile)
        self.open_blocks: dict[str, TextBlock | None] = {MESSAGE: None, THOUGHT: None}
        # The latest blocks of this turn since the last side effect (a tool call that started).
        self.recent_blocks: deque[TextBlock] = deque(maxlen=4 * MAX_RIVALS)
        self.latest_blocks: dict[str, TextBlock | None] = {
            MESSAGE: None,
            THOUGHT: None,
        }  # the latest block of this turn
        self.void_blocks: dict[str, list[TextBlock]] = {
            MESSAGE: [],
            THOUGHT: [],
        }  # blocks that the agent discarded with a retry signal
        self.has_text = False  # this turn has produced text

    def __repr__(self) -> str:
        blocks = [block for block in self.open_blocks.values() if block]
        return f"<BlockAssembler {self.profile.name} open={blocks} recent={len(self.recent_blocks)}>"

    # ---- the hot path

    def add_chunk(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Add one chunk that is not part of a replay to its block.

        `kind`: MESSAGE or THOUGHT. `data`: the chunk's update.
        """
        content = data.get("content")
        text = content.get("text") if type(content) is dict else None
        block = self.open_blocks[kind]
        if (
            block is None
            or not block.is_plain
            or type(text) is not str
            or not text
            or data.get("messageId") != block.mid
            or text[0] in block.alert_chars
            or "_meta" in data
            or (kind is THOUGHT and text[0] == block.pieces[-1][0])
            or (kind is MESSAGE and self.open_blocks[THOUGHT] is not None)
        ):
            return self._examine_chunk(kind, data, content, text)
        if kind is THOUGHT:
            block.append(text)
            return [Grew(block.id, text)]
        block.pieces.append(text)
        block.size += len(text)
        return [Grew(block.id, text)]

    # ---- the slow path

    def _examine_chunk(self, kind: str, data: Mapping[str, Any], content: Any, text: Any) -> list[Op]:
        mid = data.get("messageId")
        if not isinstance(mid, str):
            mid = None
        if not isinstance(text, str):
            return self._add_attachment(kind, mid, content)
        if kind is THOUGHT:
            if self.profile.system_prompt and text.startswith(self.profile.system_prompt):
                return []
            text = text.removeprefix(self.profile.thought_frame)
        if not text:
            return self._end_paragraph(kind, data)
        is_first = not self.has_text
        self.has_text = True
        if kind is MESSAGE:
            notice_kind = self.notices.classify(text, mid, data, is_first)
            if notice_kind is not None:
                ops = self.notices.add(text, queued=True) if notice_kind == "queued" else self.notices.add(text)
                return self.announce_retry() + ops if notice_kind == "retry" else ops
        return self._take_text(kind, mid, text)

    def _take_text(self, kind: str, mid: str | None, text: str) -> list[Op]:
        block = self.open_blocks[kind]
        if block is not None and mid is not None and block.mid is None and not block.size:
            block.mid = block.fields["message_id"] = mid  # an attachment came first, without the id of its message
        if self.profile.exact:
            same = block is not None and mid in (None, block.mid)
            return self._grow(block, text) if block is not None and same else self._begin(kind, mid, text)
        if block is not None and mid in (None, block.mid):
            ops = self._settle_withheld_chunk(block, text)
            folded = self._fold_copy(block, text)
            return ops + (folded if folded is not None else self._grow(block, text))
        if block is not None and self._is_copy_of(block, text):
            block.mid = block.fields["message_id"] = mid  # the streamed chunks had another id, or none
            return [Changed(block.id, {"message_id": mid}), *self._append_rest(block, text[block.size :])]
        if block is None and not self.void_blocks[kind] and self._is_repeat_after_call(kind, text):
            return []
        return self._begin(kind, mid, text)

    def _begin(self, kind: str, mid: str | None, text: str) -> list[Op]:
        ops = self._close(kind)
        if kind is MESSAGE:
            ops += self._close(THOUGHT)
        block = _new_block(kind, mid)
        began = self.view_items.add(block)
        ops += self._supersede_void(kind, block.id)
        if self.profile.retry != "continue":
            earlier = [
                b for b in self.recent_blocks if b.kind == kind and b.size and (kind == THOUGHT or not b.superseded)
            ]
            block.rivals = [(b, TextCursor(b.pieces, b.size)) for b in earlier[-MAX_RIVALS:]]
        ops.append(began)
        self.open_blocks[kind] = self.latest_blocks[kind] = block
        self.recent_blocks.append(block)
        return ops + self._grow(block, text)

    def _lead_chars(self, kind: str) -> frozenset[str]:
        """Return the first characters with which a chunk must be examined instead of simply appended.

        A chunk of a message that begins with one of them may be a notice. Such a chunk of a thought may end a section,
        or have a frame to remove.
        """
        return self.profile.prose_leads if kind == MESSAGE else frozenset("\n" + self.profile.thought_frame[:1])

    def _grow(self, block: TextBlock, text: str) -> list[Op]:
        if block.is_blank:
            lead = text.lstrip()[:1]
            block.lead_chars |= frozenset((text[0], *lead)) | self._lead_chars(block.kind)
            block.alert_chars, block.is_blank = block.lead_chars, not lead
        elif not self._has_section(block):
            block.alert_chars = block.lead_chars | {text[0]}
        if block.size and block.paragraph_ended:
            text = "\n" * missing_newlines(block.pieces[-1], text) + text
        block.paragraph_ended = False
        start = block.size
        block.append(text)
        ops: list[Op] = [Grew(block.id, text)]
        if block.rivals:
            ops += self._compare_rivals(block, text)
        if self.profile.retry == "whole":
            ops += self._find_restart(block, start, text)
        block.is_plain = (
            not block.rivals and block.repeat_cursor is None and not block.is_blank and self._has_section(block)
        )
        return ops

    def _has_section(self, block: TextBlock) -> bool:
        """Return whether a thought's current section has any text yet. Return True for a message."""
        return block.kind is MESSAGE or bool(block.section.pieces)

    # ---- repeated starts

    def _compare_rivals(self, block: TextBlock, text: str) -> list[Op]:
        """Compare a new chunk of `block` with its rivals: the earlier blocks that may be failed starts of it.

        A rival whose text differs is dropped. A rival whose whole text `block` has now repeated is superseded, if it
        was a failed start.
        """
        ops: list[Op] = []
        remaining_rivals: list[tuple[TextBlock, TextCursor]] = []
        for rival, cursor in block.rivals:
            if not cursor.feed(text):
                continue
            if cursor.remaining or rival.size == block.size:
                remaining_rivals.append((rival, cursor))
            if not cursor.remaining and self._is_failed_start(rival, block):
                ops += supersede(rival, block.id, repeated=True)
        block.rivals = remaining_rivals
        return ops

    def _is_failed_start(self, rival: TextBlock, block: TextBlock) -> bool:
        """Return whether `rival` was a failed start of `block`.

        The caller has checked that `block` begins with the rival's whole text, and that no tool call started between
        the two.
        """
        if rival.superseded:
            return True
        if self._retries_under_another_id(rival, block.mid):
            return is_distinctive(rival.text())
        return rival.size >= LEAST_RETRY_CHARS and is_distinctive(rival.text())

    def _retries_under_another_id(self, block: TextBlock, mid: str | None) -> bool:
        """Return whether the agent retries messages under new ids, and `mid` differs from the block's message id."""
        return self.profile.another_id == "retry" and None not in (block.mid, mid) and block.mid != mid

    def _find_restart(self, block: TextBlock, start: int, text: str) -> list[Op]:
        """Split the block if the message begins again inside it, because the agent retried without saying so.

        `text`: the latest chunk. `start`: the chunk's offset in the block.
        """
        if block.repeat_cursor is not None and not block.repeat_cursor.feed(text):
            block.repeat_cursor = None
        if block.repeat_cursor is None and start > block.first_chunk_size and text[0] == block.pieces[0][0]:
            cursor = TextCursor(block.pieces, start)
            if cursor.feed(text):
                block.repeat_cursor, block.repeat_start = cursor, start
        if block.repeat_cursor is None or block.repeat_cursor.remaining:
            return []
        block.repeat_cursor = None
        text_so_far = block.text()
        if not is_redelivery(text_so_far[: block.repeat_start], text_so_far[block.repeat_start :]):
            return []
        return self._split_block(block, text_so_far)

    def _split_block(self, block: TextBlock, text_so_far: str) -> list[Op]:
        """Split a block at the offset `repeat_start`, at which the message begins again.

        A message becomes two blocks, and the first is superseded. A thought keeps only the second one. `text_so_far`:
        the whole text of the block.
        """
        failed_text, next_text = text_so_far[: block.repeat_start], text_so_far[block.repeat_start :]
        if block.kind == THOUGHT:  # the new text repeats every character, and thoughts are not sent to chats
            block.restart(next_text)
            return [Changed(block.id, {"text": next_text})]
        block.restart(failed_text)
        marks = {
            "superseded": True,
            "repeated": True,
            "superseded_by": self.view_items.last_id + 1,
        }  # the block that begins
        block.fields.update(marks)
        ops: list[Op] = [Changed(block.id, {"text": failed_text, **marks})]
        self.open_blocks[block.kind] = None
        ops.append(block.end())
        ops += self._begin(block.kind, block.mid, next_text)
        next_block = self.open_blocks[block.kind]
        if next_block is not None:
            next_block.first_chunk_size = 0  # its text came in several chunks, too, so it counts as streamed
        return ops

    def announce_retry(self) -> list[Op]:
        """End the open blocks at a retry signal, and remember which blocks the agent discards with it.

        These are the blocks since the last tool call that started. They are superseded once the repeated start produces
        text (`_supersede_void`).
        """
        ops = self._close_open(**({"broken": True} if self.profile.signal_means_retry else {}))
        for kind, void in self.void_blocks.items():
            void[:] = [b for b in self.recent_blocks if b.kind == kind and not b.superseded]
        return ops

    def _supersede_void(self, kind: str, by: int) -> list[Op]:
        """Mark the blocks that a retry signal discarded as superseded, because the message begins again.

        `kind`, `by`: the kind and the id of the block that begins. A thought supersedes only thoughts, a message
        supersedes both kinds. Nothing is marked if the agent's signals do not mean a retry
        (`Profile.signal_means_retry`).
        """
        kinds = (THOUGHT,) if kind == THOUGHT else (THOUGHT, MESSAGE)
        void = [block for block_kind in kinds for block in self.void_blocks[block_kind]]
        for block_kind in kinds:
            self.void_blocks[block_kind].clear()
        return [op for block in void for op in supersede(block, by)] if self.profile.signal_means_retry else []

    def seal_message(self) -> list[Op]:
        """Mark the open message as streamed to its end, because the agent confirmed that.

        Earlier messages without this mark were failed starts of it and are superseded, unless a tool call started
        after them.
        """
        block = self.open_blocks[MESSAGE]
        if block is None or block.sealed or not self._has_model_id(block):
            return []
        block.sealed = True
        before = [b for b in self.recent_blocks if b.kind == MESSAGE and b is not block and self._has_model_id(b)]
        return [op for b in before if not b.sealed for op in supersede(b, block.id)]

    def _has_model_id(self, block: TextBlock) -> bool:
        return block.mid is not None and block.mid.startswith(self.profile.model_id)

    # ---- whole copies

    def _is_copy_of(self, block: TextBlock, text: str) -> bool:
        """Return whether `text`, a chunk under another message id, begins with a copy of the whole open block."""
        if self.profile.another_id == "message" or len(text) < block.size:
            return False
        if block.kind == MESSAGE and self.view_items.last_id != block.id:
            return False
        block_text = block.text()
        if not text.startswith(block_text):
            return False
        if self.profile.another_id == "retry":
            return text == block_text or is_distinctive(block_text)
        return (text == block_text and block.streamed) or is_redelivery(block_text, text)

    def _fold_copy(self, block: TextBlock, text: str) -> list[Op] | None:
        """Append only the new text of a chunk, `text`, that begins with a copy of the whole block so far.

        Return None if it does not begin with such a copy: the caller then appends the whole chunk. In a thought, a
        chunk may also repeat only a part of the thought (`_fold_thought_copy`).
        """
        if not block.size:
            return None
        if block.kind == THOUGHT:
            return self._fold_thought_copy(block, text)
        if len(text) < block.size:
            return None
        block_text = block.text()
        if not text.startswith(block_text):
            return None
        is_glued_copy = text == block_text and is_glued(block_text, text) and is_distinctive(block_text)
        is_copy = (block.streamed and is_glued_copy) or is_redelivery(block_text, text)
        return self._append_rest(block, text[block.size :]) if is_copy else None

    def _fold_thought_copy(self, block: TextBlock, text: str) -> list[Op] | None:
        """Handle the chunk `text` if it begins with a copy of the open thought, its current section, or its latest
        chunk.

        If the wording alone proves the copy, only the text after the copy is added to the thought. If the copy is only
        probable, the chunk is withheld until the next one decides (`_settle_withheld_chunk`). If there is no copy,
        return None: the caller then adds the whole chunk.
        """
        for part in (block.all_chunks, block.section):
            repeat = part.find_repeat(text)
            if repeat is not None:
                new, is_proved = repeat
                return self._append_rest(block, new) if is_proved else self._withhold_chunk(block, text, new)
        last, before = block.pieces[-1], block.pieces[-2][-1:] if len(block.pieces) > 1 else ""
        if len(text) <= len(last) or not text.startswith(last) or before.isalnum():
            return None
        is_copy = is_glued(last, text) and is_distinctive(last)
        return self._withhold_chunk(block, text, text[len(last) :]) if is_copy else None

    def _withhold_chunk(self, block: TextBlock, text: str, new: str) -> list[Op]:
        """Withhold the chunk `text`, a probable copy followed by the text `new`, until the next chunk decides."""
        block.withheld_copy = (text, new)
        block.is_plain = False
        return []

    def _settle_withheld_chunk(self, block: TextBlock, text: str = "") -> list[Op]:
        """Add to the block the chunk that was withheld, if there is one. `text`: the next chunk; "" if there is none.

        The chunk begins with a probable copy. If no chunk follows, or one that begins with an empty line, it is taken
        for a copy, and only the text after it is added. Otherwise the whole chunk is added.
        """
        if block.withheld_copy is None:
            return []
        (copy, new), block.withheld_copy = block.withheld_copy, None
        kept_text = new if not text or text.startswith("\n\n") else copy
        return self._grow(block, kept_text) if kept_text else []

    def _is_repeat_after_call(self, kind: str, text: str) -> bool:
        """Return whether `text`, a chunk after a tool call, is a copy of the whole latest block.

        For a thought, the same distinctive wording is enough, because adapters repeat a summary after a tool call. A
        message must also be long, and must have come in several chunks.
        """
        block = self.latest_blocks[kind]
        if block is None or block.superseded or abs(block.size - len(text)) > MAX_EDGE:
            return False
        if kind == THOUGHT:
            return is_distinctive(text.strip()) and block.text().strip() == text.strip()
        return block.streamed and len(text) >= LEAST_RETRY_CHARS and is_distinctive(text) and block.text() == text

    def _append_rest(self, block: TextBlock, new_text: str) -> list[Op]:
        if not new_text:
            return []
        block.append(new_text)
        block.rivals, block.repeat_cursor = [], None
        block.is_plain = not block.paragraph_ended
        return [Grew(block.id, new_text)]

    # ---- pauses, attachments, ends

    def _end_paragraph(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        block = self.open_blocks[kind]
        if block is not None and self.profile.empty_is_break and not data.get("_meta"):
            block.paragraph_ended = True
            block.is_plain = False
        return []

    def _add_attachment(self, kind: str, mid: str | None, content: Any) -> list[Op]:
        """List an attachment in the fields of the open block, or of a new one. Ignore any other content."""
        if not is_attachment(content):
            return []
        description = describe_attachment(content)
        block = self.open_blocks[kind]
        ops: list[Op] = []
        if block is None or mid not in (None, block.mid):
            ops = self._close(kind)
            block = self.open_blocks[kind] = _new_block(kind, mid)
            block.is_plain = False
            ops.append(self.view_items.add(block))
        block.fields["content"] = [*block.fields.get("content", []), description]
        return [*ops, Changed(block.id, {"content": block.fields["content"]})]

    def _close(self, kind: str, **fields: Any) -> list[Op]:
        block = self.open_blocks[kind]
        if block is None:
            return []
        ops = self._settle_withheld_chunk(block)
        self.open_blocks[kind] = None
        for rival, cursor in block.rivals:
            is_whole_repeat = not cursor.remaining and rival.size == block.size  # equal: even short texts count
            if is_whole_repeat and self._retries_under_another_id(rival, block.mid):
                ops += supersede(rival, block.id, repeated=True)
        block.rivals, block.repeat_cursor = [], None
        return [*ops, block.end(**fields)]

    def _close_open(self, **fields: Any) -> list[Op]:
        return self._close(THOUGHT) + self._close(MESSAGE, **fields)

    def end_blocks(self) -> list[Op]:
        """End the open blocks, because a tool call was announced. A repeated start may still supersede them."""
        return self._close_open()

    def note_side_effect(self) -> None:
        """Record that a tool call has started.

        No retry can undo it, so no earlier block counts as a failed start of a later one.
        """
        self.recent_blocks.clear()
        for void in self.void_blocks.values():
            void.clear()

    def settle(self) -> list[Op]:
        """Decide that a thought's chunk which was withheld is a copy, because no more chunks are coming for now.

        Do nothing if no chunk is withheld.
        """
        block = self.open_blocks[THOUGHT]
        return self._settle_withheld_chunk(block) if block is not None else []

    def begin_turn(self) -> list[Op]:
        """Begin a turn: end the open blocks, and forget the blocks with which later text would be compared."""
        ops = self._close_open()
        self.note_side_effect()
        self.latest_blocks = {MESSAGE: None, THOUGHT: None}
        self.has_text = False
        return ops

    def end_turn(self, partial: bool) -> list[Op]:
        """End the turn. `partial`: it was cancelled, failed, or its agent died."""
        ops = self._close_open(**({"partial": True} if partial else {}))
        self.note_side_effect()
        return ops


def _new_block(kind: str, mid: str | None) -> TextBlock:
    fields = {"role": "agent"} if kind is MESSAGE else {}
    return TextBlock(kind, fields if mid is None else {**fields, "message_id": mid}, mid)
