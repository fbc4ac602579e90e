"""Each channel tells a voice note from other sounds by its platform's mark, or, without one, by its being alone."""

from __future__ import annotations

from typing import Any

import pytest

from semel.channels.discord import parse as discord
from semel.channels.downloads import mark_voice_note
from semel.channels.matrix import parse as matrix
from semel.channels.signal import parse as signal
from semel.channels.slack.parse import parse_file
from semel.channels.telegram.message_content import files_of
from semel.channels.whatsapp.message_content import read_file_of
from semel.gateway.ports import Kept, Missing

Json = dict[str, Any]


@pytest.mark.parametrize(("kind", "is_voice"), [("voice", True), ("audio", False), ("video_note", False)])
def test_telegram(kind: str, is_voice: bool) -> None:
    [file] = files_of({kind: {"file_id": "f", "file_unique_id": "u", "mime_type": "audio/ogg"}})
    assert file.is_voice is is_voice


@pytest.mark.parametrize("is_voice", [True, False])
def test_whatsapp(is_voice: bool) -> None:
    audio = {"id": "1", "mime_type": "audio/ogg; codecs=opus", "voice": is_voice}
    file = read_file_of({"type": "audio", "audio": audio})
    assert file is not None and file.is_voice is is_voice


@pytest.mark.parametrize(("flags", "is_voice"), [(1 << 13, True), (1 << 12, False), (None, False)])
def test_discord(flags: int | None, is_voice: bool) -> None:
    attachment = {
        "id": "1",
        "filename": "voice-message.ogg",
        "content_type": "audio/ogg",
        "size": 9,
        "url": "https://x",
    }
    [file] = discord._list_files({"id": "1", "channel_id": "2", "attachments": [attachment], "flags": flags})
    assert file.is_voice is is_voice


@pytest.mark.parametrize(("more", "is_voice"), [({"subtype": "slack_audio"}, True), ({}, False)])
def test_slack(more: Json, is_voice: bool) -> None:
    assert parse_file({"id": "F1", "name": "audio_message.m4a", "mimetype": "audio/mp4", **more}).is_voice is is_voice


@pytest.mark.parametrize(
    ("mark", "is_voice"), [("org.matrix.msc3245.voice", True), ("org.matrix.msc1767.audio", False)]
)
def test_matrix(mark: str, is_voice: bool) -> None:
    content = {"msgtype": "m.audio", "body": "Voice message.ogg", "url": "mxc://x/y", mark: {}}
    media = matrix._parse_media(content, "m.room.message")
    assert media is not None and media.is_voice is is_voice


@pytest.mark.parametrize(
    ("mime", "name", "is_voice"),
    [("audio/aac", None, True), ("audio/mpeg", "song.mp3", False), ("image/png", None, False)],
)
def test_signal(mime: str, name: str | None, is_voice: bool) -> None:
    attachment = {"contentType": mime, "filename": name, "id": "x1", "size": 3}
    [file] = signal._list_files({"attachments": [attachment]})
    assert file.is_voice is is_voice


SOUND, PICTURE = Kept("1", 3, "a.m4a", "audio/mp4"), Kept("2", 3, "a.png", "image/png")


@pytest.mark.parametrize(
    ("text", "files", "are_voice"),
    [
        ("", [SOUND], [True]),
        ("our song", [SOUND], [False]),
        ("", [SOUND, SOUND], [False, False]),
        ("", [PICTURE], [False]),
        ("", [Missing("a.m4a", "gone", "audio/mp4")], [False]),
    ],
)
def test_without_a_mark_a_sound_that_comes_alone_is_one(
    text: str, files: list[Kept | Missing], are_voice: list[bool]
) -> None:
    assert [getattr(file, "voice", False) for file in mark_voice_note(text, files)] == are_voice
