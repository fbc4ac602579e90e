"""Check object storage, where the files of messages are if `[files]` url names a bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from semel.faces.health.finding import Finding
from semel.gateway.bucket import Bucket, ObjectEntry, lacks_client
from semel.gateway.disk_use import format_bytes
from semel.gateway.files import StoreFailed
from semel.gateway.object_files import name_objects
from semel.gateway.settings import FileSettings
from semel.installation import find_install_command
from semel.ledger import file_objects
from semel.ledger.file_objects import StoredCopy
from semel.ledger.storage.rows import FileObjectRow
from semel.ledger.storage.store import LedgerStore

PROBE_PREFIX = "semel-doctor-"
MIN_AGE = timedelta(hours=1)
"""A younger object that the ledger does not know may be one that is just being stored."""


def examine_object_storage(store: LedgerStore, settings: FileSettings) -> list[Finding]:
    """Return the findings about the bucket: whether it takes objects, and has those of the ledger. Blocks.

    Raises LedgerError.
    """
    if not settings.url:
        return _examine_unnamed(store)
    if lacks_client():
        return [Finding("files", "broken", f"{settings.url} needs obstore", find_install_command("s3"))]
    bucket = Bucket(settings)
    try:
        _try_bucket(bucket)
        missing, unknown = _compare(store, bucket)
    except StoreFailed as error:
        remedy = "until it works again, files are neither received nor sent; their messages wait"
        return [Finding("files", "broken", str(error), remedy)]
    works = f"files of messages are in {bucket}, in which objects can be written, read and deleted"
    findings = [Finding("files", "ok", works)]
    if missing:
        text = f"files of messages are not in {bucket}, or not whole: {len(missing)}, such as {missing[0]}"
        findings.append(Finding("files", "broken", text, "put the bucket's objects back from its backup or versions"))
    if unknown:
        size = format_bytes(sum(entry.size for entry in unknown))
        count = f"{len(unknown)} ({size}), such as {unknown[0].name}"
        text = f"objects in {bucket} belong to no file of this ledger: {count}"
        remedy = "if no other ledger uses this prefix, remove them with a program for the bucket"
        findings.append(Finding("files", "warning", text, remedy))
    return findings


def _examine_unnamed(store: LedgerStore) -> list[Finding]:
    """Return a finding if there are files in object storage, but no setting that says where that is."""
    objects = sum(sum(row.is_needed for row in page) for _, _, page in _list_pages(store))
    if not objects:
        return []
    text = f"files of messages are in object storage, and [files] does not say where: {objects}"
    return [Finding("files", "broken", text, "set url in [files] again")]


def _try_bucket(bucket: Bucket) -> None:
    name = f"{PROBE_PREFIX}{secrets.token_hex(8)}"
    bucket.put(name, b"")
    bucket.get(name)
    bucket.remove([name])


def _list_pages(store: LedgerStore) -> Iterator[tuple[str, str, list[FileObjectRow]]]:
    """Yield (after, last, the objects of the files above `after` up to `last`), for all files."""
    after = ""
    while ids := store.read_sync(file_objects.list_files, after):
        yield after, ids[-1], store.read_sync(file_objects.list_objects, after, ids[-1])
        after = ids[-1]


def _compare(store: LedgerStore, bucket: Bucket) -> tuple[list[str], list[ObjectEntry]]:
    """Return the ids of files that messages need and of which an object is missing, and objects of no file."""
    missing, unknown, after = list[str](), list[ObjectEntry](), ""
    limit = datetime.now(UTC) - MIN_AGE
    for after, last, rows in _list_pages(store):
        there = _list_up_to(bucket, after, last)
        names = {name: row for row in rows for name in name_objects(StoredCopy(row.blob, row.n, row.size))}
        found = {entry.name for entry in there}
        missing += sorted({row.blob for name, row in names.items() if row.is_needed and name not in found})
        unknown += [entry for entry in there if entry.name not in names and entry.stored < limit]
        after = last
    unknown += [entry for entry in _list_up_to(bucket, after, "~") if entry.stored < limit]
    return missing, unknown


def _list_up_to(bucket: Bucket, after: str, last: str) -> list[ObjectEntry]:
    """Return the objects whose files have ids above `after` up to `last`. "~" is above all that names have."""
    objects = bucket.list_objects(f"{after}~" if after else "")
    return list(takewhile(lambda entry: entry.name < f"{last}~", objects))
