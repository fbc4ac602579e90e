"""A call's parameters: in the query, as JSON, as a form, or as multipart/form-data with files."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

Json = dict[str, Any]
_FIELD = re.compile(r';\s*(name|filename)="((?:[^"\\]|\\.)*)"')


class BadForm(ValueError):
    """The body cannot be read."""


def parameters(query: Json, kind: str, body: bytes) -> Json:
    """By name. A file is {"name", "mime", "content"}. Raises BadForm."""
    media = kind.partition(";")[0].strip().lower()
    if not body:
        return query
    if media == "application/json":
        try:
            given = json.loads(body)
        except ValueError:
            raise BadForm("can't parse the JSON of the request") from None
        if not isinstance(given, dict):
            raise BadForm("the request should be a JSON object")
        return {**query, **given}
    if media == "application/x-www-form-urlencoded":
        return {**query, **dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))}
    if media == "multipart/form-data":
        return {**query, **_multipart(kind, body)}
    raise BadForm(f"unsupported content type {media!r}")


def _multipart(kind: str, body: bytes) -> Json:
    """RFC 7578."""
    found = re.search(r'boundary="?([^";]+)"?', kind)
    if found is None:
        raise BadForm("a multipart body has no boundary")
    pieces = (b"\r\n" + body).split(b"\r\n--" + found[1].encode("ascii"))
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise BadForm("the multipart body is not complete")
    fields: Json = {}
    for piece in pieces[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "replace").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        told = dict(_FIELD.findall(headers.get("content-disposition", "")))
        if "name" not in told:
            raise BadForm("a part of the multipart body has no name")
        if "filename" in told:
            mime = headers.get("content-type", "application/octet-stream")
            fields[told["name"]] = {"name": told["filename"], "mime": mime, "content": content}
        else:
            fields[told["name"]] = content.decode("utf-8", "replace")
    return fields
