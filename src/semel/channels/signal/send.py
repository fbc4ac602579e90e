"""Build the call of signal-cli that sends a part (signal-cli(1): send, sendReaction, remoteDelete)."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from semel.channels.signal.address import (
    SELF,
    EditedMessages,
    MessageId,
    OwnAccount,
    SignalPlace,
    parse_address,
    parse_message_id,
)
from semel.channels.signal.render import render
from semel.gateway.ports import REPEAT_PREFIX, Op, Rejected
from semel.text.json_types import Json
from semel.text.wellformed import one_line

MAX_TEXT_BYTES = 2000
"""Longest text that Signal shows in a message; a longer one would be sent as a file."""
MAX_FILE_BYTES = 100_000_000
MAX_NAME_CHARS = 100
OUTGOING = "outgoing-"


@dataclass(frozen=True)
class SignalCall:
    """A method of signal-cli and its parameters."""

    method: str
    params: Json


def make_call(op: Op, own: OwnAccount, edits: EditedMessages, file: Path | None = None) -> SignalCall:
    """Build the call for a part. Raises Rejected. `file`: the file to send, under the name that people are to see."""
    place = parse_place(op.address)
    to = _make_recipient(place, own)
    match op.kind:
        case "post" | "file":
            text = _make_text(op, required=op.kind == "post")
            quote = _make_quote(op, place, own)
            return SignalCall("send", {**to, **text, **quote, **({"attachment": [str(file)]} if file else {})})
        case "edit":
            target = edits.find_latest(_parse_own_target(op))
            quote = _make_quote(op, place, own)
            return SignalCall("send", {**to, **_make_text(op, required=True), **quote, "editTimestamp": target})
        case "react":
            return SignalCall("sendReaction", {**to, **_make_reaction(op, own)})
        case "delete":
            return SignalCall("remoteDelete", {**to, "targetTimestamp": _parse_own_target(op).time})


def parse_place(address: str) -> SignalPlace:
    """Parse the address of a part. Raises Rejected."""
    try:
        return parse_address(address)
    except ValueError as error:
        raise Rejected(str(error)) from None


def _make_recipient(place: SignalPlace, own: OwnAccount) -> Json:
    return {"noteToSelf": True} if own.is_self(place.person) else place.params


def _make_text(op: Op, required: bool) -> Json:
    text, styles = render(op.text, MAX_TEXT_BYTES, REPEAT_PREFIX if op.marked else "")
    if not text and required:
        raise Rejected("there is nothing to see in this message: Signal takes no empty one")
    return {**({"message": text} if text else {}), **({"textStyle": styles} if styles else {})}


def _make_quote(op: Op, place: SignalPlace, own: OwnAccount) -> Json:
    """Return the parameters that quote the answered message: in groups, with the first part of an answer.

    An edit quotes it again, since it replaces the whole message.
    """
    if not place.group or op.answers is None or op.n != 0:
        return {}
    try:
        answered = parse_message_id(op.answers.id)
    except ValueError:
        return {}
    quoted = str(op.answers.data.get("excerpt") or "")
    author = own.account if answered.author == SELF else answered.author
    return {"quoteTimestamp": answered.time, "quoteAuthor": author, "quoteMessage": quoted}


def _make_reaction(op: Op, own: OwnAccount) -> Json:
    target = _parse_target(op)
    if not op.text.strip():
        raise Rejected("a reaction needs an emoji")
    author = own.account if target.author == SELF else target.author
    return {"emoji": op.text.strip(), "targetAuthor": author, "targetTimestamp": target.time}


def _parse_target(op: Op) -> MessageId:
    try:
        return parse_message_id(op.target or "")
    except ValueError as error:
        raise Rejected(str(error)) from None


def _parse_own_target(op: Op) -> MessageId:
    target = _parse_target(op)
    if target.author != SELF:
        raise Rejected("only one's own messages can be changed")
    return target


@contextlib.contextmanager
def name_file(op: Op, folder: Path) -> Iterator[Path | None]:
    """Give the file of a part the name that people are to see, by a link in `folder` for as long as the block lasts.

    None if the part has no file. Raises Rejected if it cannot be read.
    """
    if op.kind != "file":
        yield None
        return
    if op.file is None or not op.file.is_file():
        raise Rejected("the stored file cannot be read: it is not there")
    name = one_line(op.name or op.file.name, MAX_NAME_CHARS).replace("/", "_").lstrip(".") or "file"
    place = folder / f"{OUTGOING}{secrets.token_hex(8)}"
    try:
        place.mkdir(parents=True, mode=0o700)
        (place / name).symlink_to(op.file.absolute())
    except OSError as error:
        raise Rejected(f"the file cannot be handed to signal-cli: {error.strerror}") from None
    try:
        yield place / name
    finally:
        shutil.rmtree(place, ignore_errors=True)


def forget_files(folder: Path) -> None:
    """Remove the links that a gateway left behind which was killed while it sent files."""
    for place in folder.glob(f"{OUTGOING}*"):
        shutil.rmtree(place, ignore_errors=True)
