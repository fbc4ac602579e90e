"""Check what writes voice notes down (`[transcription]`): the program is there, or the API answers."""

from __future__ import annotations

import asyncio

import httpx2

from semel.faces.health.finding import Finding
from semel.gateway.settings import TranscriptionSettings
from semel.gateway.transcription import PATH_OF_API, find_program, open_client

TIMEOUT_S = 10.0


async def examine_transcription(settings: TranscriptionSettings) -> list[Finding]:
    """Return the finding about transcription; none if it is not set. Nobody's voice is sent."""
    if not settings.is_configured:
        return []
    problem = _find_program_problem(settings) if settings.command else await _find_api_problem(settings)
    if problem is None:
        by = settings.command[0] if settings.command else f"{settings.model} at {settings.url}"
        return [Finding("voice notes", "ok", f"they are written down by {by}")]
    text, remedy = problem
    return [Finding("voice notes", "broken", f"they are not written down: {text}", remedy)]


def _find_program_problem(settings: TranscriptionSettings) -> tuple[str, str] | None:
    if find_program(settings) is not None:
        return None
    remedy = "install it, or correct command in [transcription]; until then agents get the sound alone"
    return f"there is no program {settings.command[0]} that can be run", remedy


async def _find_api_problem(settings: TranscriptionSettings) -> tuple[str, str] | None:
    """Ask for a transcription without a file: a server that has it, and takes the key, answers that it lacks one."""
    url = settings.url + PATH_OF_API
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            open_client(settings) as client,
            client.stream("POST", url, files={"model": (None, settings.model)}) as answer,
        ):
            status = answer.status_code
    except (httpx2.HTTPError, TimeoutError) as error:
        return f"{url} does not answer ({str(error) or type(error).__name__})", "start that server, or correct url"
    if status in (401, 403):
        return f"{url} refuses the key ({status})", "correct key in [transcription]"
    if status in (404, 405):
        return f"{url} is not there ({status})", "correct url in [transcription]; it often ends with /v1"
    if status >= 500:
        return f"{url} answers {status}", "look at that server's log"
    return None
