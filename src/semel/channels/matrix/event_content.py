"""Make the content of an event from a part (spec, "m.room.message", "Event replacements", "Threading", "Rich replies").

An event has at most 65,536 bytes, including what the homeserver adds. The length of a part's Markdown is limited so
that the plain form always fits. The formatted form nearly always fits, too; if not, the plain form is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.channels.matrix.parse import KEY
from semel.channels.matrix.render import Rendered, render
from semel.channels.matrix.transport import Json, dump
from semel.channels.words import REPEAT_PREFIX
from semel.gateway.ports import Op

LONGEST = 24_000
"""Maximum bytes of a part's text. In JSON, a line break or a quotation mark takes two bytes."""
MAX_CONTENT_BYTES = 60_000
"""Maximum bytes of an event's content; the homeserver needs the rest for ids, hashes and signatures."""
CUT = 1000
"""Characters of an edit's fallback text (for clients without edits), if the whole text does not fit twice."""


def message(op: Op, msgtype: str, related: Mapping[str, Any] | None, mentioned: str | None = None) -> Json:
    """The content of a text message. `related`: its `m.relates_to`. `mentioned`: the user that it replies to."""
    rendered = render(_shown(op))
    users = [*rendered.mentions, *([mentioned] if mentioned and mentioned not in rendered.mentions else [])]
    frame: Json = {KEY: op.key, "m.mentions": {"user_ids": users} if users else {}}
    frame |= {"m.relates_to": dict(related)} if related else {}
    return _first_that_fits([{**text, **frame} for text in _texts(rendered, msgtype)])


def edit(op: Op, msgtype: str) -> Json:
    """The content of an edit of `op.target`. It mentions nobody, so that nobody is notified a second time."""
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
    """The content of a file message, with the part's text as its caption."""
    frame: Json = {KEY: op.key, "m.mentions": {}, "url": mxc, "filename": name, "info": dict(info)}
    frame |= {"m.relates_to": dict(related)} if related else {}
    said = _shown(op) if op.text.strip() else f"{REPEAT_PREFIX if op.marked else ''}{name}"
    texts = _texts(render(said), msgtype) if op.text.strip() else [{"msgtype": msgtype, "body": said}]
    return _first_that_fits([{**text, **frame} for text in texts])


def _shown(op: Op) -> str:
    return f"{REPEAT_PREFIX}{op.text}" if op.marked else op.text


def _texts(rendered: Rendered, msgtype: str) -> list[Json]:
    """The possible forms of a text, best first: formatted if it has formatting, then plain."""
    plain: Json = {"msgtype": msgtype, "body": rendered.body}
    if rendered.html is None:
        return [plain]
    return [{**plain, "format": "org.matrix.custom.html", "formatted_body": rendered.html}, plain]


def _first_that_fits(forms: list[Json]) -> Json:
    return next((form for form in forms[:-1] if len(dump(form)) <= MAX_CONTENT_BYTES), forms[-1])
