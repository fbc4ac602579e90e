"""The only writer of the transcript and of its items (Laws 4, 6, 8).

Before a watcher sees any change, the change is a row with a rev. The functions here write those rows and note them in
`tx.dirty`. When the transaction ends, `semel.ledger.transcript.views.render_changes` renders them.

An *item* is what watchers see beside the transcript, such as a tool call or a permission request. An entry or an item
is *live* while its text still streams. Each addition to a live text is stored as a *piece*, a row of its own. Later the
pieces are folded into the text of the entry or item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from semel.ledger.storage.rows import ClaimEntry, EntryRow, ItemRow, Row, SessionRow
from semel.ledger.storage.sql import Tx

Body = Mapping[str, Any]
TIMED_KINDS = frozenset(("tool", "thought"))  # kinds of items that take time, so that their end is recorded
WHOLE_ROW: list[str] | None = None  # in tx.dirty: render the whole row, not only the appended text


class NextEntry(Row):
    """The numbers for a new entry of a session."""

    seq: int
    rev: int
    chapter: int


def dump(value: Any) -> str:
    """Encode a value as the JSON text that the ledger stores. Raises UnicodeEncodeError for a lone surrogate."""
    return msgspec.json.encode(value).decode()


def load(text: str | None) -> dict[str, Any]:
    """Decode the JSON object in a `more` or `body` column; return {} if the column is empty."""
    return msgspec.json.decode(text) if text else {}


def read_object(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object under `name` in `data`, which another program wrote. Return {} if there is no such object."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _merge_fields(stored: str | None, changes: Body | None) -> dict[str, Any]:
    return {name: value for name, value in {**load(stored), **(changes or {})}.items() if value is not None}


def _mark_dirty(tx: Tx, session: int, kind: str, number: int, rev: int, appended: str | None = None) -> None:
    key = (session, kind, number)
    earlier = tx.dirty.get(key)
    if appended is None or (earlier is not None and earlier[1] is None):
        tx.dirty[key] = (rev, WHOLE_ROW)
    elif earlier is None:
        tx.dirty[key] = (rev, [appended])
    else:
        assert earlier[1] is not None
        earlier[1].append(appended)
        tx.dirty[key] = (rev, earlier[1])


def next_rev(tx: Tx, session: int) -> int:
    """Increment the session's rev and return it."""
    return tx.number("session_next_rev", id=session)


def touch_session(tx: Tx, session: int) -> None:
    """Give the session a new rev, so that watchers get its changed state, waiting events or title."""
    mark_session(tx, session, next_rev(tx, session))


def mark_session(tx: Tx, session: int, rev: int) -> None:
    """Let watchers get the session's changed state, waiting events or title with `rev`, which it has taken already."""
    _mark_dirty(tx, session, "session", 0, rev)


def read_about(tx: Tx, session: int) -> dict[str, Any]:
    """Return what the agent offers in this session, as `set_about` stored it."""
    return load(tx.get(SessionRow, "session_by_id", id=session).about)


def set_about(tx: Tx, session: int, about: Body) -> None:
    """Update the session's record of what its agent offers: the modes, models and tools, and which ones are current.

    The fields of `about` replace those of the record. Fields that are None are ignored.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    stored = load(row.about)
    merged = {**stored, **{name: value for name, value in about.items() if value is not None}}
    if merged != stored:
        tx.run("session_set_about", id=session, about=dump(merged))
        touch_session(tx, session)


def set_busy(tx: Tx, session: int, mode: str | None) -> None:
    """Set the session's busy mode: how to handle messages that come while a turn runs.

    None restores the configured mode.
    """
    tx.run("session_set_busy", id=session, busy=mode)
    touch_session(tx, session)


def take_next(tx: Tx, session: int) -> NextEntry:
    """Take the numbers of the session's next entry, to be passed to `add_entry`."""
    return tx.get(NextEntry, "session_next_entry", id=session)


def add_entry(
    tx: Tx,
    session: int,
    *,
    role: str,
    text: str,
    turn: int | None = None,
    event: int | None = None,
    claim: int | None = None,
    tell: bool = False,
    live: bool = False,
    partial: bool = False,
    more: Body | None = None,
    numbers: NextEntry | None = None,
) -> int:
    """Add an entry to the transcript. Return its seq. `numbers`: its numbers, if they were taken before.

    `tell`: the agent's next prompt includes the entry (Law 7). `live`: the entry is a preview whose text still streams.
    """
    row = numbers or take_next(tx, session)
    tx.run(
        "entry_add", session=session, seq=row.seq, rev=row.rev, at=tx.now, role=role, chapter=row.chapter,
        text=text, live=int(live), partial=int(partial), turn=turn, event=event, claim=claim, tell=int(tell),
        more=dump(more) if more else None,
    )  # fmt: skip
    for file in (more or {}).get("files") or ():
        if file.get("id"):  # else the file is missing, and the entry only names it
            tx.run("holding_add", session=session, seq=row.seq, blob=str(file["id"]))
    _mark_dirty(tx, session, "entry", row.seq, row.rev)
    return row.seq


def hold_item_files(tx: Tx, session: int, files: Sequence[Mapping[str, Any]]) -> None:
    """Let the session's newest entry hold the files of an item, so that they are erased together with that entry."""
    row = tx.one(SessionRow, "session_by_id", id=session)
    for blob_id in sorted({str(file["id"]) for file in files if file.get("id")}):
        if row is not None:
            tx.run("blob_heard", id=blob_id)
            tx.run("holding_add", session=session, seq=row.seq, blob=blob_id)


def let_go_of_files(tx: Tx, blob_ids: Iterable[str]) -> None:
    """Allow the removal of those of these files that no entry holds any more."""
    for blob_id in sorted(set(blob_ids)):  # in one order, so that two transactions never wait for each other
        tx.lock("blob_lock", id=blob_id)
        tx.run("blob_let_go", id=blob_id)


def touch_entry(tx: Tx, session: int, seq: int) -> None:
    """Give the entry a new rev, so that watchers get its changed delivery state or echoes."""
    rev = next_rev(tx, session)
    tx.run("entry_touch", session=session, seq=seq, rev=rev)
    _mark_dirty(tx, session, "entry", seq, rev)


def grow_entry(tx: Tx, session: int, seq: int, text: str) -> None:
    """Append `text` to a live entry. The text is a row (a piece) before a watcher sees it (Law 6)."""
    rev = next_rev(tx, session)
    tx.run("piece_add", session=session, rev=rev, entry=seq, item=None, text=text)
    tx.run("entry_grew", session=session, seq=seq, rev=rev)
    _mark_dirty(tx, session, "entry", seq, rev, text)


def shown_text(tx: Tx, session: int, seq: int) -> str:
    """Return the text that watchers of a live entry have seen so far."""
    row = tx.get(EntryRow, "entry_get", session=session, seq=seq)
    pieces = tx.values(str, "pieces_of_entry", session=session, seq=seq, after=row.base)
    return row.text + "".join(pieces)


def set_entry(
    tx: Tx,
    session: int,
    seq: int,
    *,
    text: str | None = None,
    live: bool | None = None,
    partial: bool | None = None,
    superseded: bool | None = None,
    claim: int | None = None,
    tell: bool | None = None,
    more: Body | None = None,
) -> None:
    """Change an entry. An argument that is None leaves its column unchanged.

    `text` replaces the text, with all pieces of it; without `text`, the pieces are joined to the text. `more` is merged
    into the stored fields; a None value in it removes that field.
    """
    row = tx.get(EntryRow, "entry_get", session=session, seq=seq)
    rev = next_rev(tx, session)
    merged = _merge_fields(row.more, more)
    tx.run(
        "entry_set", session=session, seq=seq, rev=rev,
        text=shown_text(tx, session, seq) if text is None else text,
        live=row.live if live is None else int(live),
        partial=row.partial if partial is None else int(partial),
        superseded=row.superseded if superseded is None else int(superseded),
        claim=row.claim if claim is None else claim,
        tell=row.tell if tell is None else int(tell),
        more=dump(merged) if merged else None,
    )  # fmt: skip
    tx.run("pieces_drop_entry", session=session, seq=seq)
    _mark_dirty(tx, session, "entry", seq, rev)


def name_superseded(tx: Tx, session: int, seq: int, superseded: Collection[int]) -> None:
    """Let the entry `seq` name the entries of its session that it supersedes, besides those that it names already."""
    if not superseded:
        return
    row = tx.get(EntryRow, "entry_get", session=session, seq=seq)
    named = load(row.more).get("supersedes", [])
    if added := set(superseded) - {seq, *named}:
        set_entry(tx, session, seq, more={"supersedes": sorted(added.union(named))})


def add_decision(tx: Tx, claim: int, decision: Body) -> None:
    """Let the entries of `claim` keep a person's decision about one of its parts.

    `decision`: {"part", "decision", "at" (ms), "by"}.
    """
    for row in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
        decisions = list_decisions(tx, row.session, row.seq)
        set_entry(tx, row.session, row.seq, more={"decisions": [*decisions, decision]})


def list_decisions(tx: Tx, session: int, seq: int) -> list[Any]:
    """Return what people decided about the held parts of an entry, oldest first (`add_decision`)."""
    row = tx.one(EntryRow, "entry_get", session=session, seq=seq)
    return list(load(row.more).get("decisions", ())) if row is not None else []


def mark_whole(tx: Tx, claim: int | None) -> None:
    """Clear the mark `partial` in the entries of `claim`, because its text turned out to be complete.

    The text seemed cut off, but the agent said it again in the same words.
    """
    for claim_entry in tx.all(ClaimEntry, "entries_of_claim", claim=claim):
        entry = tx.one(EntryRow, "entry_get", session=claim_entry.session, seq=claim_entry.seq)
        if entry is not None and entry.partial:
            set_entry(tx, claim_entry.session, claim_entry.seq, partial=False, tell=False)


def add_item(
    tx: Tx,
    session: int,
    *,
    turn: int | None,
    kind: str,
    name: str | None = None,
    text: str = "",
    body: Body | None = None,
    live: bool = True,
) -> int:
    """Add an item, which watchers see beside the transcript. Return its id. None values in `body` are left out."""
    rev = next_rev(tx, session)
    item = tx.number(
        "item_add", session=session, turn=turn, kind=kind, name=name, rev=rev, live=int(live), text=text,
        body=dump({name: value for name, value in (body or {}).items() if value is not None}),
    )  # fmt: skip
    _mark_dirty(tx, session, "item", item, rev)
    return item


def grow_item(tx: Tx, session: int, item: int, text: str) -> None:
    """Append `text` to the text of an item.

    While the item is live, `text` is stored as a row of its own (a *piece*), and the next `set_item` makes it part of
    the item's text. Afterwards, `text` is appended to the item's text directly.
    """
    if not tx.number("item_is_live", id=item):
        set_item(tx, item, text=item_text(tx, item) + text)
        return
    rev = next_rev(tx, session)
    tx.run("piece_add", session=session, rev=rev, entry=None, item=item, text=text)
    tx.run("item_grew", id=item, rev=rev)
    _mark_dirty(tx, session, "item", item, rev, text)


def item_text(tx: Tx, item: int) -> str:
    """Return the text that watchers of an item have seen so far."""
    row = tx.get(ItemRow, "item_get", id=item)
    return row.text + "".join(tx.values(str, "pieces_of_item", item=item, after=row.base))


def set_item(tx: Tx, item: int, *, text: str | None = None, body: Body | None = None, live: bool | None = None) -> None:
    """Change an item. An argument that is None changes nothing.

    `text` replaces the text, with all pieces of it; without `text`, the pieces are joined to the text. `body` is merged
    into the stored object; a None value in it removes that field.
    """
    row = tx.get(ItemRow, "item_get", id=item)
    rev = next_rev(tx, row.session)
    merged = _merge_fields(row.body, body)
    if row.live and live is False and row.kind in TIMED_KINDS:
        merged["ended_at"] = tx.now
    tx.run(
        "item_set", id=item, rev=rev, live=row.live if live is None else int(live),
        text=item_text(tx, item) if text is None else text, body=dump(merged),
    )  # fmt: skip
    tx.run("pieces_drop_item", item=item)
    _mark_dirty(tx, row.session, "item", item, rev)


def list_items_of_turns(tx: Tx, session: int) -> list[ItemRow]:
    """Return the live items that end with their turn. A question is not among them: it stays open until its answer."""
    return [item for item in tx.all(ItemRow, "items_live", session=session) if item.kind != "ask"]


def close_items(tx: Tx, session: int) -> None:
    """Close the live items of a turn that has ended. An unfinished tool call gets the status "no result"."""
    for item in list_items_of_turns(tx, session):
        is_open = item.kind == "tool" and load(item.body).get("status") in ("pending", "running")
        set_item(tx, item.id, live=False, body={"status": "no result"} if is_open else None)
