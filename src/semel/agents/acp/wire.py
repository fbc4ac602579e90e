"""JSON-RPC 2.0 over an agent's pipes, one message per line (ACP, transport "stdio").

Real agents print plain text on stdout, send scalars, batches and unknown methods, use integer and string ids, and
write lines of many megabytes. All of that is accepted; the largest file that Semel takes fits into one line.

Of a longer line only the beginning and the end are kept. If the part left out lies in the content of a file or of a
tool call, a note replaces it and the turn goes on. In any other case the conversation ends, because what the agent
said and to whom is unknown; likewise if a line grows without end.
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
from semel.agents.acp.pipes import StdinWriter, StdoutReader
from semel.text.wellformed import scrub

log = logging.getLogger("semel.agents")

MAX_LINE_BYTES = (50 * 4 // 3 + 2) * 1024 * 1024  # bytes; fits the largest file (FILE_LIMIT) in base64
ENDLESS_LINE_FACTOR = 4  # a line longer than this many times the limit ends the conversation
KEPT_END_BYTES = 64 * 1024  # kept at each end of an overlong line
GAP_MARKER = f"left-out-{secrets.token_hex(16)}"  # put between the two ends; unguessable
Id = int | str | float | None

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class Call(msgspec.Struct, frozen=True):
    """A request or notification from the agent. `asks`: it is a request, which needs an answer to `id`."""

    method: str
    params: dict[str, Any]
    id: Id = None
    asks: bool = False


class Reply(msgspec.Struct, frozen=True):
    """The answer to one of our requests: `error` is None, or JSON-RPC's error object."""

    id: Id
    result: Any = None
    error: dict[str, Any] | None = None


class Noise(msgspec.Struct, frozen=True):
    """A line, or an element of a batch, that is not a JSON-RPC message."""

    text: str


Message = Call | Reply | Noise


class LineTooLong(Exception):
    """The agent sent a line several times longer than the limit."""


class Lines:
    """Splits chunks into lines, in linear time. A line above `limit` bytes is reduced to its two ends."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._ends = min(KEPT_END_BYTES, limit // 4)
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # beginning of an overlong line; its end is in `_parts`
        self.left_out = 0  # bytes missing from the line returned last, at the gap marker

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines this chunk completes, without their newline. Raises LineTooLong."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._add(line)
            yield self.rest()
        if rest:
            self._add(rest)

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit * ENDLESS_LINE_FACTOR:
            raise LineTooLong
        if self._size > self._limit:
            line = b"".join(self._parts)
            self._head = line[: self._ends] if self._head is None else self._head
            self._parts = [line[-self._ends :]]

    def rest(self) -> bytes:
        """Take the bytes collected since the last newline."""
        line = b"".join(self._parts)
        self.left_out = 0
        if self._head is not None:
            self.left_out = self._size - 2 * self._ends
            line = _whole_end(self._head) + GAP_MARKER.encode() + _whole_beginning(line)
        self._parts, self._size, self._head = [], 0, None
        return line


def _whole_end(head: bytes) -> bytes:
    """Drop an incomplete escape sequence from the end of a JSON fragment."""
    half = head.rfind(b"\\", len(head) - 6)
    return head if half < 0 else head[:half].rstrip(b"\\")


def _whole_beginning(tail: bytes) -> bytes:
    """Drop the first character of a JSON fragment, as it may belong to an escape sequence."""
    return tail.lstrip(b"\\")[1:]


def fill_gap(call: Call, left_out: int) -> bool:
    """Replace the gap marker in a message by a note. False if the gap is not in the content of a file or tool call."""
    update = call.params.get("update")
    if not isinstance(update, dict):
        return False
    stack: list[tuple[Any, tuple[Any, ...]]] = [(update, ())]
    while stack and call.method == "session/update" and not call.asks:
        value, path = stack.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, dict | list):
                stack.append((inner, (*path, key)))
            elif isinstance(inner, str) and GAP_MARKER in inner:
                if not _is_content(update, (*path, key)):
                    return False
                value[key] = inner.replace(GAP_MARKER, f"\n[... {left_out:,} bytes were left out here ...]\n")
                if isinstance(value, dict):
                    value["leftOut"] = left_out
                return True
    return False


def _is_content(update: Any, path: tuple[Any, ...]) -> bool:
    """Whether a path in an update is file or tool content. A gap in the agent's own text is not allowed: the missing
    part may address the text to other people."""
    if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
        return path[0] in ("content", "rawOutput")
    return path[-1] in ("data", "blob") or path[-2:] == ("resource", "text")


def decode(line: bytes) -> Any:
    """Parse a line of JSON, replacing invalid UTF-8 and lone surrogates. Raises ValueError.

    Half of a surrogate pair in streamed text is kept, as the other half may follow in the next chunk.
    """
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        try:
            value = json.loads(line.decode(errors="replace"), parse_constant=lambda _: None)
            return _scrub_message(value)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def _scrub_message(value: Any) -> Any:
    scrubbed = scrub(value)
    params = value.get("params") if isinstance(value, dict) and value.get("method") == "session/update" else None
    if isinstance(params, dict) and isinstance(params.get("update"), dict):
        scrubbed["params"]["update"] = scrub_update(params["update"])
    return scrubbed


def messages(line: bytes) -> list[Message]:
    """Parse a line into messages: one, several (a batch), or Noise if it is not JSON-RPC. Never raises."""
    try:
        value = decode(line)
    except ValueError:
        return [Noise(line.decode(errors="replace"))]
    return [_message(one) for one in value] if isinstance(value, list) else [_message(value)]


def _message(value: Any) -> Message:
    if not isinstance(value, dict):
        return Noise(json.dumps(value))
    id, method, params = value.get("id"), value.get("method"), value.get("params")
    if not isinstance(id, int | str | float | None):
        return Noise(json.dumps(value))
    if isinstance(method, str):
        return Call(method, params if isinstance(params, dict) else {}, id, asks="id" in value)
    if "result" not in value and "error" not in value:
        return Noise(json.dumps(value))
    error = value.get("error")
    if error is not None and not isinstance(error, dict):
        error = {"message": str(error)}
    return Reply(id, value.get("result"), error)


class Trace:
    """Records the wire in a file that `semel fold` reads: one object per line, {"t": seconds, "dir", "msg"}.

    dir: "c2a" from us to the agent, "a2c" from the agent to us (the raw line), "a2c_raw" a line that is not
    JSON, "stderr", "note". The fencing token is replaced everywhere.
    """

    def __init__(self, path: Path, secret: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file holds a whole conversation, so only its owner may read it.
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        self._path = path
        self._began = time.monotonic()
        self._secret = secret.encode()

    def raw(self, direction: str, line: bytes) -> None:
        """Record a line that is JSON already."""
        if self._secret:
            line = line.replace(self._secret, b"(secret)")
        line = line.decode(errors="replace").encode()
        if self._file.closed:
            return
        at = time.monotonic() - self._began
        try:
            self._file.write(b'{"t": %.6f, "dir": "%s", "msg": %s}\n' % (at, direction.encode(), line.strip()))
            self._file.flush()
        except OSError as error:  # a full disk: the conversation matters more than its trace
            log.warning("the trace %s ends here: %s", self._path, error)
            self.close()

    def note(self, direction: str, value: Any) -> None:
        self.raw(direction, json.dumps(value, ensure_ascii=False).encode(errors="replace"))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


class Wire:
    """Sends and receives the messages of one agent.

    Calls `on_message` for each message in order, then `on_end(why)` once; `why` is `None` at a normal end-of-file.
    """

    def __init__(
        self,
        writer: StdinWriter,
        stdout: IO[bytes],
        on_message: Callable[[Message], None],
        on_end: Callable[[str | None], None],
        *,
        trace: Trace | None = None,
        limit: int = MAX_LINE_BYTES,
    ) -> None:
        self._writer = writer
        self._on_message = on_message
        self._on_end = on_end
        self._trace = trace
        self._limit = limit
        self._lines = Lines(limit)
        self._ended = False
        self.reader = StdoutReader(stdout, self._data, self._eof)

    def send(self, message: dict[str, Any]) -> None:
        """Write one message, after all earlier ones. Never waits."""
        whole = {"jsonrpc": "2.0", **message}
        try:
            line = _encoder.encode(whole)
        except UnicodeEncodeError:
            line = _encoder.encode(scrub(whole))
        if self._trace:
            self._trace.raw("c2a", line)
        self._writer.write(line + b"\n")

    def _data(self, chunk: bytes) -> None:
        try:
            for line in self._lines.feed(chunk):
                self._line(line, self._lines.left_out)
        except LineTooLong:
            self._lines.rest()  # free the memory now; an idle gateway may not collect garbage for long
            self._too_long()

    def _too_long(self) -> None:
        megabytes = self._limit // (1024 * 1024)
        self.finish(f"sent a line of more than {megabytes} MB; a file of more than 50 MiB is better named by its path")

    def _eof(self) -> None:
        self._line(self._lines.rest(), self._lines.left_out)
        self.finish(None)

    def _line(self, line: bytes, left_out: int = 0) -> None:
        if not line.strip() or self._ended:
            return
        found = messages(line)
        if left_out:
            if not all(isinstance(one, Call) and fill_gap(one, left_out) for one in found):
                self._too_long()
                return
            line = line.replace(GAP_MARKER.encode(), b"[...]")
        if self._trace:
            if len(found) == 1 and isinstance(found[0], Noise):
                self._trace.note("a2c_raw", line.decode(errors="replace"))
            else:
                self._trace.raw("a2c", line)
        for message in found:
            self._on_message(message)

    def finish(self, why: str | None) -> None:
        """Stop reading and call `on_end(why)`, unless that was done. `why` is `None` at a normal end-of-file."""
        if self._ended:
            return
        self._ended = True
        self.reader.close()
        self._on_end(why)
