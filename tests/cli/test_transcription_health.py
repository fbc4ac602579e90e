"""`semel doctor` tries what writes voice notes down, and sends nobody's voice."""

from __future__ import annotations

import sys

import pytest

from semel.faces.health.transcription import examine_transcription
from semel.gateway.settings import TranscriptionSettings
from semel.testing.http_double import HttpReply, serve_http
from semel.testing.http_requests import HttpRequest


async def test_without_a_setting_there_is_nothing_to_say() -> None:
    assert await examine_transcription(TranscriptionSettings()) == []


async def test_a_program_that_is_there_is_fine() -> None:
    [finding] = await examine_transcription(TranscriptionSettings(command=(sys.executable, "{file}")))
    assert finding.level == "ok"


@pytest.mark.parametrize(
    ("status", "told"),
    [(400, None), (422, None), (401, "refuses the key (401)"), (404, "is not there (404)"), (502, "answers 502")],
)
async def test_an_api_is_asked_without_a_sound(status: int, told: str | None) -> None:
    requests: list[HttpRequest] = []

    async def answer(request: HttpRequest) -> HttpReply:
        requests.append(request)
        return HttpReply(status, b"{}")

    async with serve_http(answer) as url:
        settings = TranscriptionSettings(url=f"{url}/v1/", model="whisper-1", key="sk-x")
        [finding] = await examine_transcription(settings)
    [request] = requests
    assert (request.target, request.headers["authorization"]) == ("/v1/audio/transcriptions", "Bearer sk-x")
    assert b'name="model"' in request.body and b"filename" not in request.body
    assert finding.level == ("ok" if told is None else "broken")
    assert (told or "whisper-1") in finding.text


async def test_an_api_that_is_away_is_told() -> None:
    [finding] = await examine_transcription(TranscriptionSettings(url="http://127.0.0.1:9/v1", model="m"))
    assert "does not answer" in finding.text and finding.remedy


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": ("whisper",)}, '"{file}"'),
        ({"command": ("whisper", "{file}"), "url": "http://x", "model": "m"}, "exclude each other"),
        ({"url": "http://x"}, "give the model"),
        ({"url": "ftp://x", "model": "m"}, "is not like"),
        ({"language": "de"}, "give its url"),
    ],
)
def test_settings_that_do_not_fit_say_what_to_do(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TranscriptionSettings(**settings)
