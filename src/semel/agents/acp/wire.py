"""The wire: JSON-RPC 2.0, one message a line, read in order by one reader (ACP, transport "stdio").

Real agents print plain text on stdout, send scalars, batches and unknown methods, use integer and string
ids, and write lines of many megabytes. All of that is taken as it comes; only a line above the bound
ends the conversation.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from semel.agents.acp.pipes import Reader, Writer
from semel.law.stream.halves import scrub_update
from semel.law.wellformed import scrub

log = logging.getLogger("semel.agents")

MAX_LINE = 64 * 1024 * 1024  # bytes
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
    """The agent sent a line above the bound."""


class Lines:
    """Cuts chunks into lines of any length up to `limit` bytes, at a cost linear in the bytes."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines this chunk completes, without their newline. Raises LineTooLong."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if self._parts:
                self._parts.append(line)
                line = b"".join(self._parts)
                self._parts, self._size = [], 0
            if len(line) > self._limit:
                raise LineTooLong
            yield line
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > self._limit:
            raise LineTooLong

    def rest(self) -> bytes:
        """What came after the last newline."""
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


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
                self._line(line)
        except LineTooLong:
            self._lines.rest()  # not kept until a garbage collection that an idle gateway never comes to
            self.finish(f"sent a line of more than {self._limit // (1024 * 1024)} MB")

    def _eof(self) -> None:
        self._line(self._lines.rest())
        self.finish(None)

    def _line(self, line: bytes) -> None:
        if not line.strip() or self._ended:
            return
        found = messages(line)
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
