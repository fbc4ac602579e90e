"""Settings of files: where the content of messages' files is, if the ledger is in a database."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from semel.gateway.settings.tables import SecretReference, Table, raise_conflicts

_URL = re.compile(r"s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,62})(?:/(?P<prefix>[^?#]*))?")
_ENDPOINT = re.compile(r"https?://[^/?#@\s]+/?")


class FileSettings(Table):
    """The table `[files]` (`semel docs postgres`)."""

    url: str = Field(default="", examples=["s3://bucket/semel"])
    """Where the files of messages are: a bucket of S3, or of a service like it, and a prefix that only this ledger
    uses ([object storage](postgres.md#files-in-object-storage)). It needs a ledger in PostgreSQL. Default: in the
    database."""
    endpoint: str = Field(default="", examples=["https://s3.example.org"])
    """The address of the service. Default: $AWS_ENDPOINT_URL_S3, or else Amazon's in the region."""
    region: str = Field(default="us-east-1", pattern="^[A-Za-z0-9-]+$")
    """The region of the bucket, as the service calls it."""
    access_key: SecretReference | None = Field(default=None, repr=False, examples=["env:SEMEL_S3_ACCESS_KEY"])
    """The id of the key: "env:NAME" or "file:PATH". Default: $AWS_ACCESS_KEY_ID and the other usual variables, or the
    role of this machine; agents see these, too."""
    secret_key: SecretReference | None = Field(default=None, repr=False, examples=["env:SEMEL_S3_SECRET_KEY"])
    """The key itself, also as "env:NAME" or "file:PATH". Agents do not get the variable."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not _URL.fullmatch(url):
            raise ValueError(f'{url!r} does not name a bucket: write it like "s3://bucket/semel"')
        return url.rstrip("/")

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, endpoint: str) -> str:
        if endpoint and not _ENDPOINT.fullmatch(endpoint):
            raise ValueError(f'{endpoint!r} is not like "https://s3.example.org": give scheme, host and port only')
        return endpoint.rstrip("/")

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        conflicts = []
        if (self.access_key is None) != (self.secret_key is None):
            conflicts.append(("access_key secret_key", "access_key and secret_key go together: give both, or neither"))
        raise_conflicts(self, conflicts)
        return self

    @property
    def bucket(self) -> str:
        """The name of the bucket; "" if files are in the database."""
        return match["bucket"] if (match := _URL.fullmatch(self.url)) else ""

    @property
    def prefix(self) -> str:
        """What the names of all objects begin with, before a slash; "" if there is no prefix."""
        return (match["prefix"] or "").strip("/") if (match := _URL.fullmatch(self.url)) else ""
