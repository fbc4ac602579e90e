"""A part -> the content of an event (spec, "m.room.message", "Event replacements", "Threading", "Rich replies").

An event is at most 65,536 bytes with everything the homeserver adds. A part's Markdown is at most `LONGEST` bytes, so
that its plain form always fits; its formatted form does nearly always, and where it does not, the plain one is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.channels.matrix.parse import KEY
from semel.channels.matrix.render import Rendered, render
from semel.channels.matrix.transport import Json, dump
from semel.channels.words import REPEAT
from semel.gateway.ports import Op

LONGEST = 24_000
"""Bytes of a part's text. In JSON a line break or a quotation mark takes two."""
ROOM_FOR = 60_000
"""Bytes of a content: the rest is the homeserver's (ids, hashes, signatures)."""
CUT = 1000
"""Characters of the text that clients without edits show, where the whole does not fit twice."""


def message(op: Op, msgtype: str, related: Mapping[str, Any] | None, mentioned: str | None = None) -> Json:
    """A text. `related`: its `m.relates_to`; `mentioned`: whom it replies to."""
    rendered = render(_shown(op))
    users = [*rendered.mentions, *([mentioned] if mentioned and mentioned not in rendered.mentions else [])]
    frame: Json = {KEY: op.key, "m.mentions": {"user_ids": users} if users else {}}
    frame |= {"m.relates_to": dict(related)} if related else {}
    return _first_that_fits([{**text, **frame} for text in _texts(rendered, msgtype)])


def edit(op: Op, msgtype: str) -> Json:
    """The new text of `op.target`. Nobody is notified a second time."""
    rendered = render(_shown(op))
    frame: Json = {KEY: op.key, "m.mentions": {}, "m.relates_to": {"rel_type": "m.replace", "event_id": op.target}}
    forms = []
    for text in _texts(rendered, msgtype):
        old = {**text, "body": f"* {text['body']}"}
        old |= {"formatted_body": f"* {text['formatted_body']}"} if "formatted_body" in text else {}
        short = {"msgtype": msgtype, "body": f"* {rendered.body[:CUT]}"}
        forms += [{**each, "m.new_content": {**text, "m.mentions": {}}, **frame} for each in (old, short)]
    return _first_that_fits(forms)


def reaction(op: Op) -> Json:
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": op.target, "key": op.text}, KEY: op.key}


def file(op: Op, msgtype: str, name: str, mxc: str, info: Mapping[str, Any], related: Mapping[str, Any] | None) -> Json:
    """A file, with what is said to it."""
    frame: Json = {KEY: op.key, "m.mentions": {}, "url": mxc, "filename": name, "info": dict(info)}
    frame |= {"m.relates_to": dict(related)} if related else {}
    said = _shown(op) if op.text.strip() else f"{REPEAT if op.marked else ''}{name}"
    texts = _texts(render(said), msgtype) if op.text.strip() else [{"msgtype": msgtype, "body": said}]
    return _first_that_fits([{**text, **frame} for text in texts])


def _shown(op: Op) -> str:
    return f"{REPEAT}{op.text}" if op.marked else op.text


def _texts(rendered: Rendered, msgtype: str) -> list[Json]:
    """Formatted, if it is; then plain."""
    plain: Json = {"msgtype": msgtype, "body": rendered.body}
    if rendered.html is None:
        return [plain]
    return [{**plain, "format": "org.matrix.custom.html", "formatted_body": rendered.html}, plain]


def _first_that_fits(forms: list[Json]) -> Json:
    return next((form for form in forms[:-1] if len(dump(form)) <= ROOM_FOR), forms[-1])
