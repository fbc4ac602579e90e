"""A bucket of S3, or of a service like it, as far as stored files need it: through `obstore`.

A request is made again for at most RETRY_TIMEOUT_S if the service cannot be reached, or says that it is busy. This is
safe for all of them, because no name is used for two contents (`semel.ledger.file_objects`).

All methods block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from semel.gateway.files import StoreFailed
from semel.gateway.settings.files import FileSettings

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3Store

CONNECT_TIMEOUT_S = 5
REQUEST_TIMEOUT_S = 60  # for one object, of at most a few MiB
RETRY_TIMEOUT_S = 10
MAX_RETRIES = 3
MAX_REASON_CHARS = 300
_CODE = re.compile(r"<Code>(?P<code>[^<]*)</Code>(?:.*?<Message>(?P<message>[^<]*)</Message>)?", re.DOTALL)
_NOT_SENT = "HTTP error: error sending request"
_REMEDIES = {
    "NoSuchBucket": "make the bucket, or correct url in [files]",
    "SignatureDoesNotMatch": "correct secret_key and region in [files]",
    "InvalidAccessKeyId": "correct access_key in [files]",
    "AccessDenied": "allow this key to read, write, list and delete objects there",
}


class StorageUnavailable(StoreFailed):
    """Object storage did not do what was asked: it cannot be reached, or refuses. Try again later."""


class ObjectMissing(StoreFailed):
    """There is no object with this name."""


@dataclass(frozen=True)
class ObjectEntry:
    """An object in the bucket. `name`: without the prefix. `size`: in bytes. `stored`: when."""

    name: str
    size: int
    stored: datetime


def lacks_client() -> bool:
    """Return whether the package that speaks with object storage is missing."""
    return find_spec("obstore") is None


class Bucket:
    """The objects below a prefix. `problem`: why the last request failed; None if it succeeded.

    Its text is its URL.
    """

    def __init__(self, settings: FileSettings) -> None:
        self.settings = settings
        self.problem: str | None = None
        self._store: S3Store | None = None

    def __str__(self) -> str:
        return self.settings.url

    def put(self, name: str, content: bytes) -> None:
        """Store an object; durable on return. Raises StorageUnavailable."""
        with self._raising_storage_unavailable():
            self._open().put(name, content, use_multipart=False)

    def get(self, name: str) -> bytes:
        """Return the content of an object. Raises ObjectMissing, StorageUnavailable."""
        with self._raising_storage_unavailable():
            return bytes(self._open().get(name).bytes())

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there, too. Raises StorageUnavailable."""
        with self._raising_storage_unavailable():
            store = self._open()
            for name in names:  # one by one: not every service knows the request for many
                try:
                    store.delete(name)
                except FileNotFoundError as error:
                    if _lacks_bucket(error):
                        raise

    def list_objects(self, after: str = "") -> Iterator[ObjectEntry]:
        """Yield the objects whose names are above `after`, in the order of their names. Raises StorageUnavailable."""
        with self._raising_storage_unavailable():
            for page in self._open().list(offset=after or None, chunk_size=1000):
                for entry in page:
                    yield ObjectEntry(str(entry["path"]), int(entry["size"]), entry["last_modified"])

    def _open(self) -> S3Store:
        if self._store is None:
            from obstore.store import S3Store

            settings = self.settings
            config: S3Config = {"region": settings.region, "disable_bulk_delete": True}
            if settings.endpoint:
                config["aws_endpoint_url_s3"] = settings.endpoint  # `endpoint` yields to the environment
            self._store = S3Store(
                settings.bucket,
                prefix=settings.prefix or None,
                config=config,
                credential_provider=self._give_keys if settings.access_key is not None else None,
                client_options={
                    "allow_http": settings.endpoint.startswith("http:"),
                    "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                    "timeout": timedelta(seconds=REQUEST_TIMEOUT_S),
                },
                retry_config={"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S)},
            )
        return self._store

    def _give_keys(self) -> S3Credential:
        """Return the configured keys, to which nothing of the environment's, such as a token, is added."""
        access_key, secret_key = self.settings.access_key, self.settings.secret_key
        assert access_key is not None and secret_key is not None
        return {"access_key_id": access_key, "secret_access_key": secret_key, "token": None, "expires_at": None}

    @contextmanager
    def _raising_storage_unavailable(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if not _lacks_bucket(error):
                self.problem = None
                raise ObjectMissing(f"an object is not in {self}") from None
            raise self._note_problem(error) from None
        except (BaseError, ValueError, OSError) as error:
            raise self._note_problem(error) from None
        self.problem = None

    def _note_problem(self, error: Exception) -> StorageUnavailable:
        place = f" at {self.settings.endpoint}" if self.settings.endpoint else ""
        self.problem = f"{self}{place} cannot be used: {_explain_error(error)}"
        return StorageUnavailable(self.problem)


def _lacks_bucket(error: FileNotFoundError) -> bool:
    return "NoSuchBucket" in str(error)


def _explain_error(error: Exception) -> str:
    """Return what the service or the network said, without what is for programmers, and what to do if that is known."""
    text = str(error).partition("\n\nDebug source")[0].strip()
    if match := _CODE.search(text):
        said = ": ".join(part for part in (match["code"], match["message"]) if part)
        remedy = _REMEDIES.get(match["code"])
        return f"{said[:MAX_REASON_CHARS].rstrip('.')}{f'; {remedy}' if remedy else ''}"
    reason = text.rpartition(" - ")[2][:MAX_REASON_CHARS]
    return "it cannot be reached" if reason == _NOT_SENT else reason
