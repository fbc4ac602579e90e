"""Settings of transcription: by which program or model API voice notes are written down."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from semel.gateway.settings.tables import Duration, SecretReference, Size, Strings, Table, raise_conflicts

_URL = re.compile(r"https?://[^/?#@\s]+(?:/[^?#\s]*)?")
FILE_PLACE = "{file}"
"""In `command`, it stands for the path of the voice note."""


class TranscriptionSettings(Table):
    """The table `[transcription]` ([voice notes](voice-notes.md))."""

    command: Strings = Field(default=(), examples=[["transcribe", "{file}"]])
    """A program that prints the words of the voice note at the path `{file}`. It runs without a shell, as the gateway's
    user and with its environment. Default: none, and a voice note is a file like any other, unless there is a `url`."""
    url: str = Field(default="", examples=["https://api.openai.com/v1"])
    """In place of a `command`: the URL of a model API that answers `POST /audio/transcriptions` as OpenAI's does, up to
    and without that path."""
    key: SecretReference | None = Field(default=None, repr=False, examples=["env:OPENAI_API_KEY"])
    """The key of the API: "env:NAME" or "file:PATH". Agents do not get the variable. Default: no key."""
    model: str = Field(default="", examples=["gpt-4o-mini-transcribe"])
    """The model of the API."""
    language: str = Field(default="", pattern="^([a-z]{2,3})?$", examples=["de"])
    """The language of the voice notes for the API, by its code in ISO 639. Default: the model finds out."""
    time_s: Duration = 120.0
    """How long it may take for one voice note. Then the agent gets the file without its words."""
    size: Size = 25_000_000
    """How large a voice note may be, like "500kB" or "25MB". A larger one is not written down."""

    @field_validator("command")
    @classmethod
    def _check_command(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if command and not any(FILE_PLACE in argument for argument in command[1:]):
            raise ValueError('no argument says "{file}", which stands for the path of the voice note')
        return command

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not _URL.fullmatch(url):
            raise ValueError(f'{url!r} is not like "https://api.openai.com/v1"')
        return url.rstrip("/").removesuffix("/audio/transcriptions")

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        conflicts = []
        if self.command and self.url:
            conflicts.append(("command url", "command and url exclude each other: give one of them"))
        if not self.url:
            for name in ("key", "model", "language"):
                if getattr(self, name):
                    conflicts.append((f"{name} url", f"{name} is for a model API: give its url, too"))
        elif not self.model:
            conflicts.append(("url model", "give the model, too, as the API calls it"))
        raise_conflicts(self, conflicts)
        return self

    @property
    def is_configured(self) -> bool:
        """Whether voice notes are written down."""
        return bool(self.command or self.url)
