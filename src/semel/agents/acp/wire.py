"""The wire: JSON-RPC 2.0, one message a line, read in order by one reader (ACP, transport "stdio").

Real agents print plain text on stdout, send scalars, batches and unknown methods, use integer and string
ids, and write lines of many megabytes. All of that is taken as it comes; the largest file that Semel takes fits
into a line.

Of a line above the bound only both ends are kept. Where what is left out is the content of a file, or of a tool call,
the message is taken with words in its place, and the turn goes on; any other such line ends the conversation: what it
said, and to whom, cannot be known. So does one that has no end.
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
from semel.agents.acp.pipes import Reader, Writer
from semel.text.wellformed import scrub

log = logging.getLogger("semel.agents")

MAX_LINE = (50 * 4 // 3 + 2) * 1024 * 1024  # bytes: base64 of the largest file (gateway.files.FILE_LIMIT), and room
ENDLESS = 4  # a line of so many times the bound is not waited for
ENDS = 64 * 1024  # bytes of a line above the bound that are kept at each of its ends
GAP = f"left-out-{secrets.token_hex(16)}"  # stands between them; no agent can write it
Id = int | str | float | None

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class Call(msgspec.Struct, frozen=True):
    """The other side calls. `id` is None for a notification; `asks` says whether it wants an answer."""

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
    """A line, or part of one, that is no JSON-RPC message."""

    text: str


Message = Call | Reply | Noise


class LineTooLong(Exception):
    """The agent sent a line far above the bound."""


class Lines:
    """Cuts chunks into lines, at a cost linear in the bytes. Of one above `limit` bytes both ends are given."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._ends = min(ENDS, limit // 4)
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # of a line above the limit; its end is in `_parts`
        self.left_out = 0  # bytes of the line that was given last: GAP stands for them

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
        if self._size > self._limit * ENDLESS:
            raise LineTooLong
        if self._size > self._limit:
            line = b"".join(self._parts)
            self._head = line[: self._ends] if self._head is None else self._head
            self._parts = [line[-self._ends :]]

    def rest(self) -> bytes:
        """What came after the last newline."""
        line = b"".join(self._parts)
        self.left_out = 0
        if self._head is not None:
            self.left_out = self._size - 2 * self._ends
            line = _whole_end(self._head) + GAP.encode() + _whole_beginning(line)
        self._parts, self._size, self._head = [], 0, None
        return line


def _whole_end(head: bytes) -> bytes:
    """The beginning of a JSON text, without half an escape at its end."""
    half = head.rfind(b"\\", len(head) - 6)
    return head if half < 0 else head[:half].rstrip(b"\\")


def _whole_beginning(tail: bytes) -> bytes:
    """The end of a JSON text, without a character at its beginning that may be escaped."""
    return tail.lstrip(b"\\")[1:]


def fill_gap(call: Call, left_out: int) -> bool:
    """Say in a message how much of it was left out, if that is content of a file or of a tool call."""
    update = call.params.get("update")
    if not isinstance(update, dict):
        return False
    stack: list[tuple[Any, tuple[Any, ...]]] = [(update, ())]
    while stack and call.method == "session/update" and not call.asks:
        value, path = stack.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, dict | list):
                stack.append((inner, (*path, key)))
            elif isinstance(inner, str) and GAP in inner:
                if not _is_content(update, (*path, key)):
                    return False
                value[key] = inner.replace(GAP, f"\n[... {left_out:,} bytes were left out here ...]\n")
                if isinstance(value, dict):
                    value["leftOut"] = left_out
                return True
    return False


def _is_content(update: Any, path: tuple[Any, ...]) -> bool:
    """Whether this is no text of the agent: what is left out of that may have said for whom it is."""
    if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
        return path[0] in ("content", "rawOutput")
    return path[-1] in ("data", "blob") or path[-2:] == ("resource", "text")


def decode(line: bytes) -> Any:
    """The JSON of a line, leniently: bad UTF-8 and lone surrogates are replaced. Raises ValueError.

    Half of a surrogate pair in a text that streams stays: its other half may be in the next line.
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
    """What a line holds: one message, several (a batch array), or noise. Never raises."""
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
    """Keeps the wire in a file: one object a line, {"t": seconds, "dir", "msg"}; `semel fold` reads it.

    dir: "c2a" we to the agent (token blotted out), "a2c" the agent to us (the raw line), "a2c_raw" a
    line that is no JSON, "stderr", "note".
    """

    def __init__(self, path: Path, secret: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A whole conversation: for its owner's eyes.
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        self._path = path
        self._began = time.monotonic()
        self._secret = secret.encode()

    def raw(self, direction: str, line: bytes) -> None:
        """One line that is JSON already."""
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
    """Both pipes of one agent.

    `on_message` is called in the order of the wire; `on_end(why)` once, after the last.
    """

    def __init__(
        self,
        writer: Writer,
        stdout: IO[bytes],
        on_message: Callable[[Message], None],
        on_end: Callable[[str | None], None],
        *,
        trace: Trace | None = None,
        limit: int = MAX_LINE,
    ) -> None:
        self._writer = writer
        self._on_message = on_message
        self._on_end = on_end
        self._trace = trace
        self._limit = limit
        self._lines = Lines(limit)
        self._ended = False
        self.reader = Reader(stdout, self._data, self._eof)

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
            self._lines.rest()  # not kept until a garbage collection that an idle gateway never comes to
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
            line = line.replace(GAP.encode(), b"[...]")
        if self._trace:
            if len(found) == 1 and isinstance(found[0], Noise):
                self._trace.note("a2c_raw", line.decode(errors="replace"))
            else:
                self._trace.raw("a2c", line)
        for message in found:
            self._on_message(message)

    def finish(self, why: str | None) -> None:
        """No more is read;

        `on_end(why)` follows if it has not yet. `why` is None at the end of the stream.
        """
        if self._ended:
            return
        self._ended = True
        self.reader.close()
        self._on_end(why)
