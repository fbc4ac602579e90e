"""Have a voice note written down, by a program or by a model API (`[transcription]`).

Nothing here touches the ledger. A failure is a `NotTranscribed`, whose message is for people and for the agent.

The API is OpenAI's `POST /v1/audio/transcriptions`
(https://platform.openai.com/docs/api-reference/audio/createTranscription), which servers on one's own machine speak,
too.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from semel.gateway.files import StoredFiles, StoreFailed
from semel.gateway.settings.transcription import FILE_PLACE, TranscriptionSettings
from semel.gateway.start_errors import correct_start_error
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json, object_at, text_at
from semel.text.wellformed import MAX_REASON_CHARS, one_line, scrub

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger("semel.transcription")

MAX_TRANSCRIPT_CHARS = 200_000  # about four hours of speech
MAX_OUTPUT_BYTES = 2_000_000  # of a program, or of an answer: more than the longest transcript has
MAX_ERROR_BYTES = 20_000  # kept of what a program writes to stderr
KILL_TIMEOUT_S = 5.0  # seconds a killed program may take to be gone
MAX_CONCURRENT = 2  # voice notes that are written down at once
RETRY_DELAYS_S = (1.0, 3.0)  # after answers that say that the API takes nothing at the moment
PATH_OF_API = "/audio/transcriptions"
KNOWN_ENDINGS = frozenset((".flac", ".m4a", ".mp3", ".mp4", ".mpeg", ".mpga", ".oga", ".ogg", ".wav", ".webm"))
"""Endings of names by which OpenAI's API knows the format of a file."""
_ENDINGS = {
    "audio/ogg": ".ogg", "audio/opus": ".ogg", "audio/mpeg": ".mp3", "audio/mp4": ".m4a", "audio/aac": ".aac",
    "audio/x-m4a": ".m4a", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/webm": ".webm", "audio/flac": ".flac",
}  # fmt: skip


class NotTranscribed(Exception):
    """A voice note was not written down. The message completes "it was not written down: ..."."""


class _TryAgain(Exception):
    """The API takes nothing at the moment. The message says why."""


class Transcriber:
    """Writes voice notes down, at most MAX_CONCURRENT at once. `files`: where their content is."""

    def __init__(self, settings: TranscriptionSettings, files: StoredFiles) -> None:
        self.settings = settings
        self._files = files
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    @property
    def is_configured(self) -> bool:
        return self.settings.is_configured

    async def transcribe(self, file: Mapping[str, Any]) -> str:
        """Return the words of a stored voice note, which is described as in its entry. Raises NotTranscribed.

        The time limit begins when its turn has come.
        """
        size = int(file.get("size") or 0)
        if size > self.settings.size:
            raise NotTranscribed(f"it has {size:,} bytes, and at most {self.settings.size:,} are allowed")
        async with self._slots:
            try:
                async with asyncio.timeout(self.settings.time_s):
                    text = await self._transcribe_stored(file)
            except TimeoutError:
                raise NotTranscribed(f"it took longer than {self.settings.time_s:g} s") from None
            except (StoreFailed, LedgerError, OSError) as error:
                raise NotTranscribed(f"its file cannot be read: {_describe_os_error(error)}") from None
        text = scrub(text).strip()
        if not text:
            raise NotTranscribed("no words were found in it")
        if len(text) > MAX_TRANSCRIPT_CHARS:
            raise NotTranscribed(f"its words are more than {MAX_TRANSCRIPT_CHARS:,} characters")
        return text

    async def _transcribe_stored(self, file: Mapping[str, Any]) -> str:
        loan = self._files.lend(str(file["id"]))
        path = await asyncio.to_thread(loan.__enter__)
        try:
            if self.settings.command:
                return await self._run_on(path, f"voice{_choose_ending(file)}")
            content = await asyncio.to_thread(path.read_bytes)
            return await self._ask_api(content, f"voice{_choose_ending(file)}", str(file.get("mime") or ""))
        finally:
            await asyncio.shield(asyncio.to_thread(loan.__exit__, None, None, None))

    # ---- a program

    async def _run_on(self, path: Path, name: str) -> str:
        """Run the command on a file, which it sees under a name with the right ending."""
        with tempfile.TemporaryDirectory(prefix="semel-voice-") as folder:
            link = Path(folder) / name
            link.symlink_to(path.absolute())
            return await run_program([part.replace(FILE_PLACE, str(link)) for part in self.settings.command])

    # ---- an API

    async def _ask_api(self, content: bytes, name: str, mime: str) -> str:
        fields = {"model": self.settings.model, "response_format": "json"}
        fields |= {"language": self.settings.language} if self.settings.language else {}
        request = {"data": fields, "files": {"file": (name, content, mime or "application/octet-stream")}}
        async with open_client(self.settings) as client:
            for delay_s in (*RETRY_DELAYS_S, None):
                try:
                    return await _post(client, self.settings.url + PATH_OF_API, request)
                except _TryAgain as error:
                    if delay_s is None:
                        raise NotTranscribed(self._hide_key(str(error))) from None
                    await asyncio.sleep(delay_s)
                except NotTranscribed as error:
                    raise NotTranscribed(self._hide_key(str(error))) from None
        raise AssertionError

    def _hide_key(self, text: str) -> str:
        """Return what an API says without its key, since agents and people read it."""
        return text.replace(self.settings.key, "(the key)") if self.settings.key else text


async def run_program(command: list[str]) -> str:
    """Run a program in a process group of its own and return what it prints. Raises NotTranscribed.

    The whole group is killed when this ends, also if the caller is cancelled.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        reason = _describe_os_error(correct_start_error(command[0], error))
        raise NotTranscribed(f"{command[0]} cannot be started: {reason}") from None
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.create_task(_read_last(process.stderr))
    try:
        output = await _read_all(process.stdout, command[0])
        code = await process.wait()
        last_words = await errors
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a child in another process group may keep its pipes open
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await _read_last(process.stdout)  # a pipe with unread output is closed only once it is read to its end
                await process.wait()
        errors.cancel()
    if code != 0:
        lines = last_words.decode("utf-8", "replace").strip().splitlines()
        why = one_line(scrub(lines[-1]), MAX_REASON_CHARS) if lines else "and says nothing"
        end = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise NotTranscribed(f"{Path(command[0]).name} failed ({end}): {why}")
    return output.decode("utf-8", "replace")


async def _read_all(stream: asyncio.StreamReader, program: str) -> bytes:
    output = bytearray()
    while piece := await stream.read(65536):
        output += piece
        if len(output) > MAX_OUTPUT_BYTES:
            raise NotTranscribed(f"{Path(program).name} printed more than {MAX_OUTPUT_BYTES:,} bytes")
    return bytes(output)


async def _read_last(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end. Return the last MAX_ERROR_BYTES of it."""
    last = b""
    while piece := await stream.read(65536):
        last = (last + piece)[-MAX_ERROR_BYTES:]
    return last


def open_client(settings: TranscriptionSettings) -> httpx2.AsyncClient:
    """Return a client for the API, with its key. It follows no redirects, and knows no proxies."""
    import httpx2  # only now: a gateway that writes no voice notes down does not load it

    headers = {"accept-encoding": "identity"}  # so that no answer expands without end
    headers |= {"authorization": f"Bearer {settings.key}"} if settings.key else {}
    return httpx2.AsyncClient(headers=headers, timeout=settings.time_s, trust_env=False)


async def _post(client: httpx2.AsyncClient, url: str, request: Json) -> str:
    """Make one attempt. Raises NotTranscribed, _TryAgain."""
    import httpx2

    try:
        async with client.stream("POST", url, **request) as answer:
            body = bytearray()
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MAX_OUTPUT_BYTES:
                    raise NotTranscribed(f"the answer of {url} is larger than {MAX_OUTPUT_BYTES:,} bytes")
    except httpx2.HTTPError as error:
        raise _TryAgain(f"{url} does not answer: {str(error) or type(error).__name__}") from None
    fields = _parse(bytes(body))
    if answer.status_code == 200:
        text = fields.get("text")
        if not isinstance(text, str):
            raise NotTranscribed(f"the answer of {url} has no text")
        return text
    reason = text_at(fields, "error", "message") or text_at(fields, "detail") or text_at(fields, "error") or ""
    problem = one_line(scrub(f"{url} answers {answer.status_code}: {reason}".rstrip(": ")), MAX_REASON_CHARS)
    raise (_TryAgain if answer.status_code == 429 or answer.status_code >= 500 else NotTranscribed)(problem)


def _parse(body: bytes) -> Json:
    try:
        return object_at({"body": json.loads(body)}, "body")
    except ValueError:
        return {}


def _choose_ending(file: Mapping[str, Any]) -> str:
    """Return the ending of a name by which programs and APIs know the file's format; "" if it is not known."""
    ending = Path(str(file.get("name") or "")).suffix.lower()
    if ending in KNOWN_ENDINGS:
        return ending
    mime = str(file.get("mime") or "").partition(";")[0].strip().lower()
    ending = _ENDINGS.get(mime) or mimetypes.guess_extension(mime) or ending
    return ending if ending.isascii() and ending.removeprefix(".").isalnum() else ""


def _describe_os_error(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def find_program(settings: TranscriptionSettings) -> str | None:
    """Return the path of the command's program; None if there is none that can be run."""
    return shutil.which(settings.command[0])
