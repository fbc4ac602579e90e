"""Follow the reply to one message while it grows: what the agent says, what it does, and how its turn ends.

Chat clients and front ends get a reply in pieces, and a piece cannot be taken back. So each character of the agent's
text is handed out once, and only when it is certain where it belongs:

- A text begins only when every text before it has ended. A tool call before it may still be running.
- If an attempt was lost and the next one says the same again, what was handed out is not repeated: the new text
  continues the lost one. While the new text is only a beginning of the lost text, it is withheld (Law 8).
- A text that a lost attempt had shown and that nobody said again is part of the reply (Law 6).

A client that asks again for the same reply gets all of it, from the ledger.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from semel.faces.view import SessionView
from semel.gateway.errors import NoSuchSession, NotFound
from semel.ledger.turns.permission_requests import KIND as PERMISSION
from semel.ledger.turns.replies import COMMAND, Reply
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway


@dataclass(frozen=True)
class TextPiece:
    """The agent's text grew by `text`. Pieces with one `id` make up one text; `is_last`: it has ended."""

    id: int
    text: str
    is_last: bool


@dataclass(frozen=True)
class Activity:
    """An item changed: a tool call, a thought, a plan, a permission request."""

    item: Json


@dataclass(frozen=True)
class NoticePiece:
    """A notice of the gateway about the turn, or its answer to a command."""

    entry: Json


@dataclass(frozen=True)
class ReplyEnd:
    """Nothing follows. `reason`: why the turn failed."""

    outcome: Literal["done", "failed", "cancelled"]
    reason: str = ""


Piece = TextPiece | Activity | NoticePiece | ReplyEnd

QUIET_NOTICES = frozenset({"retry", "permission", "summary", "turn.failed"})
"""Kinds of notices that are left out: they announce what the reply itself shows later, or what `ReplyEnd` says."""


class ReplyReader:
    """Turns the rows of a reply into pieces. `read` takes rows in their newest state, in any number of steps.

    `url`: the gateway's own, for links to files.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._open: dict[int, Json] = {}  # rows that are not finished, by entry seq or negative item id
        self._finished: set[int] = set()
        self._handed: dict[int, str] = {}  # what was handed out of a text that has not ended
        self._lost: list[tuple[int, int, str]] = []  # cut texts that were handed out: id, turn, text
        self._names: dict[int, int] = {}  # texts that continue a cut one: seq -> the id of the cut one

    def read(self, rows: Iterable[Json]) -> Iterator[Piece]:
        """Yield what is new in these rows."""
        for row in rows:
            key = int(row["seq"]) if "seq" in row else -int(row["id"])
            if key not in self._finished:
                self._open[key] = row
        text_is_open = False
        for key, row in sorted(self._open.items(), key=lambda pair: int(pair[1]["born"])):
            if key < 0:
                yield from self._read_item(key, row)
            elif not text_is_open:
                yield from self._read_entry(key, row)
                text_is_open = key in self._open

    def _read_item(self, key: int, row: Json) -> Iterator[Piece]:
        if row.get("handed") is None:
            self._open[key] = {**row, "handed": True}
            yield Activity(row)
        if not row.get("live"):
            self._finish_row(key)

    def _read_entry(self, key: int, row: Json) -> Iterator[Piece]:
        if row["role"] == "notice":
            self._finish_row(key)
            if row.get("kind") not in QUIET_NOTICES:
                yield NoticePiece(row)
        elif row["role"] != "agent" or any(row.get(name) for name in ("to", "late", "superseded", "emoji")):
            self._finish_row(key)
        else:
            yield from self._read_text(key, row)

    def _read_text(self, key: int, row: Json) -> Iterator[Piece]:
        text, live = str(row["text"]), bool(row.get("live"))
        if not live:
            text = add_file_links(text, row, self._url)
        if key not in self._handed and not self._begin_text(key, row):
            return
        handed = self._handed[key]
        if not text.startswith(handed):  # the agent rewrote it: what was handed out stays, and the new text follows
            yield TextPiece(self._names[key], "", True)
            handed, self._names[key] = "", -key
        self._handed[key] = text
        if len(text) > len(handed) or not live:
            yield TextPiece(self._names[key], text[len(handed) :], not live)
        if not live:
            self._finish_row(key)
            if row.get("partial"):
                self._lost.append((self._names[key], int(row.get("turn") or 0), text))

    def _begin_text(self, key: int, row: Json) -> bool:
        """Begin a text. If it repeats a text that was cut off, it continues that one.

        Return False, and begin nothing, if it cannot be known yet whether the text will repeat a cut one.
        """
        text, turn = str(row["text"]), int(row.get("turn") or 0)
        for lost in [lost for lost in self._lost if lost[1] < turn]:
            if text.startswith(lost[2]):
                self._lost.remove(lost)
                self._names[key], self._handed[key] = lost[0], lost[2]
                return True
            if row.get("live") and lost[2].startswith(text):
                return False
        self._names[key], self._handed[key] = key, ""
        return True

    def _finish_row(self, key: int) -> None:
        self._finished.add(key)
        self._open.pop(key, None)
        self._handed.pop(key, None)


def add_file_links(text: str, entry: Json, url: str) -> str:
    """Return the text of an entry with its files, as Markdown links; a missing file with the reason.

    `url`: the gateway's own.
    """
    return "\n\n".join(filter(None, [text, *(_write_link(file, url) for file in entry.get("files", ()))]))


def _write_link(file: Json, url: str) -> str:
    name = file.get("name") or "file"
    if file.get("missing"):
        return f"{name}: {file['missing']}"
    return f"[{name}]({file.get('uri') or url + '/v1/blobs/' + str(file.get('id'))})"


async def follow_reply(gateway: Gateway, read: Callable[[], Awaitable[Reply]], url: str) -> AsyncGenerator[Piece]:
    """Yield the pieces of a reply, from its beginning until nothing can follow. `read` returns its current state.

    `url`: the gateway's own, for links to files.
    """
    reader = ReplyReader(url)
    while True:
        try:
            reply = await read()
        except (NoSuchSession, NotFound):
            yield ReplyEnd("failed", "The session was deleted.")
            return
        for piece in reader.read(reply.rows):
            yield piece
        if reply.is_over:
            yield _describe_end(reply)
            return
        async with contextlib.aclosing(_follow_changes(gateway, reply)) as changes:
            async for rows in changes:
                for piece in reader.read(rows):
                    yield piece


async def _follow_changes(gateway: Gateway, reply: Reply) -> AsyncGenerator[list[Json]]:
    """Yield the rows of the reply that change, until it has to be read again."""
    view = SessionView(rev=reply.rev)
    view.entries = {row["seq"]: row for row in reply.rows if "seq" in row}
    view.items = {row["id"]: row for row in reply.rows if "seq" not in row}
    with contextlib.suppress(NoSuchSession):
        async with contextlib.aclosing(gateway.watch(reply.session, reply.rev)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if frame["type"] == "snapshot":  # changes were missed
                    return
                touched = view.apply(frame)
                yield [row for row in touched if _belongs_to_reply(reply, row)]
                if _must_be_read_again(reply, frame["changes"], touched):
                    return


def _belongs_to_reply(reply: Reply, row: Json) -> bool:
    """Whether a row that changed is part of the reply.

    If no turn has taken the message yet, the permission requests of the running turn are part of it: the message waits
    for them.
    """
    if reply.is_command and row.get("kind") == COMMAND and row.get("of") == reply.seq:
        return True
    return row.get("turn") in reply.turns or (not reply.turns and "seq" not in row and row["kind"] == PERMISSION)


def _must_be_read_again(reply: Reply, changes: Iterable[Json], touched: Iterable[Json]) -> bool:
    """Whether another turn runs than before, or something happened to the message itself, such as joining a turn.

    While a message waits, its turn may begin and end between two frames: then each change of the session counts.
    """
    turns = [change.get("turn") for change in changes if change["op"] == "session"]
    changed_turn = bool(turns) and (not reply.turns or turns[-1] != reply.running)
    own = (row for row in touched if row.get("seq") == reply.seq or (reply.is_command and row.get("of") == reply.seq))
    return changed_turn or any("seq" in row for row in own)


def _describe_end(reply: Reply) -> ReplyEnd:
    state = list(reply.turns.values())[-1] if reply.turns else "done"
    if state == "failed":
        reasons = [str(row["text"]) for row in reply.rows if row.get("kind") == "turn.failed"]
        return ReplyEnd("failed", reasons[-1] if reasons else "The agent's turn failed.")
    return ReplyEnd("cancelled" if state == "cancelled" else "done")
