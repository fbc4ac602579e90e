"""Webhooks in a service's own form, such as GitHub's: settings name its headers, and any JSON object is an event.

Such a service signs the raw body, but neither the id nor the time of a delivery. So somebody who could read a request
could send it again under another id: let the service send over HTTPS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.text.json_types import Json

FORM_TYPE = "application/x-www-form-urlencoded"
MAX_KIND_CHARS = 64
_FIELD = re.compile(r"\{([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\}", re.ASCII)
_NOT_IN_KINDS = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class ServiceForm:
    """How a service sends. Names of headers are in lower case.

    `id_header`: names a delivery, the same on each retry. `signature_header`: has the HMAC-SHA256 of the body; "" if
    the service shows the channel's token. `kind_header`: says what happened; "" if no header does. `text`: a template
    of the event's text, in which `{a.b}` stands for a field of the payload; None takes the payload.
    """

    id_header: str
    signature_header: str = ""
    kind_header: str = ""
    text: str | None = None

    def name_kind(self, channel: str, headers: Mapping[str, str]) -> str:
        """Return the kind of an event: the channel's name and what the service calls it, like `github.push`."""
        event = headers.get(self.kind_header) or "event"
        kind = _NOT_IN_KINDS.sub("-", f"{channel}.{event}".lower())
        return kind[:MAX_KIND_CHARS].strip("._-") or "event"

    def write_text(self, payload: Json, kind: str) -> str:
        """Return the text of an event: the filled template; the payload if there is none, or if no field is filled.

        A template does not fit every kind of event. If a field is missing, the text ends with the `kind`.
        """
        fields = {name: _format_field(payload, name) for name in _FIELD.findall(self.text or "")}
        filled = _FIELD.sub(lambda field: fields[field[1]], self.text or "")
        if not filled.strip() or (fields and not any(fields.values())):
            return json.dumps(payload, ensure_ascii=False, indent=1)
        return filled if all(fields.values()) else f"{' '.join(filled.split())} ({kind})"


def _format_field(payload: Json, path: str) -> str:
    """Return the field at a dotted path as text; "" if there is none. A number in the path is a place in a list."""
    value: Any = payload
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            return ""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
