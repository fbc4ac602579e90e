"""Parse a call's parameters: from the query, JSON, a form, or multipart/form-data with files."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl

from semel.text.json_types import Json

_FIELD = re.compile(r';\s*(name|filename)="((?:[^"\\]|\\.)*)"')


class BadForm(ValueError):
    """The body of the request is malformed."""


def parse_parameters(query: Json, content_type: str, body: bytes) -> Json:
    """Return the parameters in the query and the body, by name. Raises BadForm.

    A file is {"name", "mime", "content"}. A parameter in the body replaces one in the query.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if not body:
        return query
    if media_type == "application/json":
        try:
            fields = json.loads(body)
        except ValueError:
            raise BadForm("can't parse the JSON of the request") from None
        if not isinstance(fields, dict):
            raise BadForm("the request should be a JSON object")
        return {**query, **fields}
    if media_type == "application/x-www-form-urlencoded":
        return {**query, **dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))}
    if media_type == "multipart/form-data":
        return {**query, **_multipart(content_type, body)}
    raise BadForm(f"unsupported content type {media_type!r}")


def _multipart(content_type: str, body: bytes) -> Json:
    """Return the fields of a multipart/form-data body (RFC 7578) by name."""
    boundary = re.search(r'boundary="?([^";]+)"?', content_type)
    if boundary is None:
        raise BadForm("a multipart body has no boundary")
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("ascii"))
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise BadForm("the multipart body is not complete")
    fields: Json = {}
    for piece in pieces[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "replace").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        disposition = dict(_FIELD.findall(headers.get("content-disposition", "")))
        if "name" not in disposition:
            raise BadForm("a part of the multipart body has no name")
        if "filename" in disposition:
            mime = headers.get("content-type", "application/octet-stream")
            fields[disposition["name"]] = {"name": disposition["filename"], "mime": mime, "content": content}
        else:
            fields[disposition["name"]] = content.decode("utf-8", "replace")
    return fields
