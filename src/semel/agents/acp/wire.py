"""JSON-RPC 2.0 over an agent's pipes, one message per line (ACP, transport "stdio").

Real agents print plain text on stdout, send scalars, batches and unknown methods, use integer and string ids, and write
lines of many megabytes. All of that is accepted; the largest file that Semel takes fits into one line.

Of an overlong line, only the beginning and the end are kept; the part between them is the *gap*. If the gap lies in the
content of a file or of a tool call, a note replaces the gap and the turn goes on. Otherwise the conversation ends,
because nobody can know what the agent said there, and to whom. It also ends if a line is several times too long.

Lines that are no messages are *stray lines*. A banner, or the output of a tool that shares the agent's stdout, does no
harm. A program that prints nothing else is no agent: after too many stray lines in a row the conversation ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from semel.acp_stream.surrogate_pairs import scrub_update
from semel.agents.acp.pipes import PipeReader, StdinWriter
from semel.text.json_types import object_at, value_at
from semel.text.wellformed import scrub

log = logging.getLogger("semel.agents")

MAX_LINE_BYTES = (50 * 4 // 3 + 2) * 1024 * 1024  # bytes; the largest file (50 MiB) fits in base64
ENDLESS_LINE_FACTOR = 4  # a line longer than this many times the limit ends the conversation
KEPT_END_BYTES = 64 * 1024  # kept at each end of an overlong line
KEPT_STRAY_BYTES = 200  # of a stray line
MAX_STRAY_LINES_AT_START = 1_000  # before the first message, and in a row
MAX_STRAY_LINES = 100_000  # later, in a row; the output of a long build has fewer lines
GAP_MARKER = f"left-out-{secrets.token_hex(16)}"  # put between the two ends; unguessable
Id = int | str | float | None

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class IncomingCall(msgspec.Struct, frozen=True):
    """A request or notification from the agent. `is_request`: it is a request, to be answered under the id `id`."""

    method: str
    params: dict[str, Any]
    id: Id = None
    is_request: bool = False


class AgentReply(msgspec.Struct, frozen=True):
    """The agent's answer to a request of Semel. `error`: JSON-RPC's error object; None if there was no error."""

    id: Id
    result: Any = None
    error: dict[str, Any] | None = None


class Noise(msgspec.Struct, frozen=True):
    """A line, or an element of a batch, that is not a JSON-RPC message."""

    text: str


Message = IncomingCall | AgentReply | Noise


class LineTooLong(Exception):
    """The agent sent a line that is several times longer than the limit."""


class LineSplitter:
    """A splitter of chunks into lines, in linear time. Of a line above `limit` bytes, it keeps only the two ends."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._end_size = min(KEPT_END_BYTES, limit // 4)
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # beginning of an overlong line; its end is in `_parts`
        self.missing_bytes = 0  # size of the gap in the line that was returned last

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes, without their newlines. Raises LineTooLong."""
        *lines, partial = chunk.split(b"\n")
        for line in lines:
            self._add(line)
            yield self.take_rest()
        if partial:
            self._add(partial)

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit * ENDLESS_LINE_FACTOR:
            raise LineTooLong
        if self._size > self._limit:
            line = b"".join(self._parts)
            self._head = line[: self._end_size] if self._head is None else self._head
            self._parts = [line[-self._end_size :]]

    def take_rest(self) -> bytes:
        """Return the bytes since the last newline, and forget them. GAP_MARKER stands in place of a gap."""
        line = b"".join(self._parts)
        self.missing_bytes = 0
        if self._head is not None:
            self.missing_bytes = self._size - 2 * self._end_size
            line = _whole_end(self._head) + GAP_MARKER.encode() + _whole_beginning(line)
        self._parts, self._size, self._head = [], 0, None
        return line


def _whole_end(head: bytes) -> bytes:
    """Return the beginning of a JSON text without an incomplete escape sequence at its end."""
    escape = head.rfind(b"\\", len(head) - 6)
    return head if escape < 0 else head[:escape].rstrip(b"\\")


def _whole_beginning(tail: bytes) -> bytes:
    """Return `tail`, which begins after a gap in a JSON text, without an incomplete escape sequence at its beginning.

    The backslash of such a sequence may lie in the gap. So leading backslashes are removed, and one character more.
    """
    return tail.lstrip(b"\\")[1:]


def fill_gap(call: IncomingCall, missing_bytes: int) -> bool:
    """Replace the gap marker in a message, in place, by a note that says how many bytes are missing.

    Return False if the gap does not lie in the content of a file or tool call.
    """
    update = call.params.get("update")
    if not isinstance(update, dict):
        return False
    stack: list[tuple[Any, tuple[Any, ...]]] = [(update, ())]
    while stack and call.method == "session/update" and not call.is_request:
        value, path = stack.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, dict | list):
                stack.append((inner, (*path, key)))
            elif isinstance(inner, str) and GAP_MARKER in inner:
                if not _is_content(update, (*path, key)):
                    return False
                value[key] = inner.replace(GAP_MARKER, f"\n[... {missing_bytes:,} bytes were left out here ...]\n")
                if isinstance(value, dict):
                    value["leftOut"] = missing_bytes
                return True
    return False


def _is_content(update: Any, path: tuple[Any, ...]) -> bool:
    """Return whether a value in an update belongs to a file, or to the content or raw output of a tool call.

    Only such a value may have a gap. In the agent's own text, the missing part could contain markup that addresses the
    text to somebody else (`semel.text.message_markup`). `path`: the keys and indices that lead to the value.
    """
    if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
        return path[0] in ("content", "rawOutput")
    return path[-1] in ("data", "blob") or path[-2:] == ("resource", "text")


def decode_line(line: bytes) -> Any:
    """Parse a line of JSON. Replace invalid UTF-8, lone surrogates and U+0000. Raises ValueError.

    Half a surrogate pair in streamed text is kept, because the other half may follow in the next chunk.
    """
    try:
        value = _decoder.decode(line)
        return _scrub_message(value) if b"\\u0000" in line else value
    except (msgspec.DecodeError, ValueError, RecursionError):
        try:
            value = json.loads(line.decode(errors="replace"), parse_constant=lambda _: None)
            return _scrub_message(value)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def _scrub_message(value: Any) -> Any:
    scrubbed = scrub(value)
    if value_at(value, "method") == "session/update" and (update := object_at(value, "params", "update")):
        scrubbed["params"]["update"] = scrub_update(update)
    return scrubbed


def parse_messages(line: bytes) -> list[Message]:
    """Parse a line into its messages: one or, for a batch, several. Anything that is not JSON-RPC becomes Noise."""
    if line.lstrip()[:1] not in (b"{", b"["):  # told at once, because there may be very many of these
        return [Noise(line.decode(errors="replace"))]
    try:
        value = decode_line(line)
    except ValueError:
        return [Noise(line.decode(errors="replace"))]
    return [_read_message(element) for element in value] if isinstance(value, list) else [_read_message(value)]


def _read_message(value: Any) -> Message:
    if not isinstance(value, dict):
        return Noise(json.dumps(value))
    id, method, params = value.get("id"), value.get("method"), value.get("params")
    if not isinstance(id, int | str | float | None):
        return Noise(json.dumps(value))
    if isinstance(method, str):
        return IncomingCall(method, params if isinstance(params, dict) else {}, id, is_request="id" in value)
    if "result" not in value and "error" not in value:
        return Noise(json.dumps(value))
    error = value.get("error")
    if error is not None and not isinstance(error, dict):
        error = {"message": str(error)}
    return AgentReply(id, value.get("result"), error)


class Trace:
    """A file with a conversation's messages, in the format that `semel fold` reads: one object per line.

    The objects are `{"t": seconds, "dir": direction, "msg": message}`. Directions: "c2a" from Semel to the agent, "a2c"
    from the agent to Semel, "a2c_raw" for a line that is not JSON, "stderr", and "note" for Semel's own remarks.
    `secret`: the fencing token, which is replaced everywhere.
    """

    def __init__(self, path: Path, secret: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file holds a whole conversation, so only its owner may read it.
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        self._path = path
        self._began = time.monotonic()
        self._secret = secret.encode()

    def record_line(self, direction: str, line: bytes) -> None:
        """Record a line that is JSON."""
        if self._secret:
            line = line.replace(self._secret, b"(secret)")
        line = line.decode(errors="replace").encode()
        if self._file.closed:
            return
        elapsed = time.monotonic() - self._began
        try:
            self._file.write(b'{"t": %.6f, "dir": "%s", "msg": %s}\n' % (elapsed, direction.encode(), line.strip()))
            self._file.flush()
        except OSError as error:  # a full disk: the conversation matters more than its trace
            log.warning("the trace %s ends here: %s", self._path, error)
            self.close()

    def record_value(self, direction: str, value: Any) -> None:
        self.record_line(direction, json.dumps(value, ensure_ascii=False).encode(errors="replace"))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


class AcpWire:
    """The connection to one agent: it sends and receives messages.

    It calls `on_message` for each message in order, then `on_end` once: with the reason, or with None at a normal
    end-of-file.
    """

    def __init__(
        self,
        writer: StdinWriter,
        stdout: IO[bytes],
        on_message: Callable[[Message], None],
        on_end: Callable[[str | None], None],
        *,
        trace: Trace | None = None,
    ) -> None:
        self._writer = writer
        self._on_message = on_message
        self._on_end = on_end
        self._trace = trace
        self._lines = LineSplitter(MAX_LINE_BYTES)
        self._stray_lines_left = MAX_STRAY_LINES_AT_START
        self._ended = False
        self.reader = PipeReader(stdout, self._on_chunk, self._on_eof)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message after all earlier ones, without waiting."""
        rpc_message = {"jsonrpc": "2.0", **message}
        try:
            line = _encoder.encode(rpc_message)
        except UnicodeEncodeError:
            line = _encoder.encode(scrub(rpc_message))
        if self._trace:
            self._trace.record_line("c2a", line)
        self._writer.write(line + b"\n")

    def _on_chunk(self, chunk: bytes) -> None:
        try:
            for line in self._lines.feed(chunk):
                self._handle_line(line, self._lines.missing_bytes)
        except LineTooLong:
            self._lines.take_rest()  # free the memory now; an idle gateway may not collect garbage for long
            self._end_too_long()

    def _end_too_long(self) -> None:
        megabytes = MAX_LINE_BYTES // (1024 * 1024)
        self.finish(f"sent a line of more than {megabytes} MB; a file of more than 50 MiB is better named by its path")

    def _on_eof(self) -> None:
        self._handle_line(self._lines.take_rest(), self._lines.missing_bytes)
        self.finish(None)

    def _handle_line(self, line: bytes, missing_bytes: int) -> None:
        if self._ended:
            return
        parsed = parse_messages(line) if line.strip() else []
        if all(isinstance(part, Noise) for part in parsed):
            self._count_stray_line(line)
        else:
            self._stray_lines_left = MAX_STRAY_LINES
        if not parsed or self._ended:
            return
        if missing_bytes:
            if not all(isinstance(part, IncomingCall) and fill_gap(part, missing_bytes) for part in parsed):
                self._end_too_long()
                return
            line = line.replace(GAP_MARKER.encode(), b"[...]")
        if self._trace:
            if len(parsed) == 1 and isinstance(parsed[0], Noise):
                self._trace.record_value("a2c_raw", line.decode(errors="replace"))
            else:
                self._trace.record_line("a2c", line)
        for message in parsed:
            self._on_message(message)

    def _count_stray_line(self, line: bytes) -> None:
        self._stray_lines_left -= 1
        if self._stray_lines_left < 0:
            text = line[:KEPT_STRAY_BYTES].decode(errors="replace").strip()
            reason = "printed line after line that is not ACP"
            self.finish(f"{reason}; its last words: {text}" if text else reason)

    def finish(self, reason: str | None) -> None:
        """Stop reading and call `on_end(reason)`, unless this was done before.

        `reason`: None at a normal end-of-file.
        """
        if self._ended:
            return
        self._ended = True
        self.reader.close()
        self._on_end(reason)
