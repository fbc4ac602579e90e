"""A watcher's copy of one session, built from a snapshot and the changes after it (Law 8).

Entries are keyed by `seq`, items by `id`; people see both in the order of `born`. Applying a frame twice changes
nothing, so the gateway may send a reconnecting watcher more than it missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.text.json_types import Json


@dataclass
class SessionView:
    rev: int | None = None  # None before the first frame
    session: Json = field(default_factory=dict)
    entries: dict[int, Json] = field(default_factory=dict)
    items: dict[int, Json] = field(default_factory=dict)
    has_older: bool = False  # whether the gateway has history older than these rows

    def __repr__(self) -> str:
        state = self.session.get("state", "unknown")
        return f"<SessionView rev={self.rev} {state} entries={len(self.entries)} items={len(self.items)}>"

    def apply(self, frame: Json) -> list[Json]:
        """Apply a frame. Returns each changed entry and item, complete and in its new state.

        Rows that left the view carry `"gone": True`.
        """
        if frame["type"] == "snapshot":
            return self._apply_snapshot(frame)
        touched: dict[tuple[str, int], Json] = {}
        for change in frame["changes"]:
            if self.rev is None or change["rev"] > self.rev:
                self._apply_change(change, touched)
        self.rev = max(self.rev or 0, frame["rev"])
        return list(touched.values())

    def _apply_snapshot(self, frame: Json) -> list[Json]:
        """Replace the view's rows by those of a snapshot. Returns the removed rows, marked as gone, and the new ones.

        Rows older than the snapshot's oldest row stay if the snapshot says that older history exists, unless its rev is
        lower than the view's: then the ledger was replaced.
        """
        previous = {**self.entries, **{-id: item for id, item in self.items.items()}}
        rows = [*frame["entries"], *frame["items"]]
        oldest = min((int(row["born"]) for row in rows), default=0)
        keeps_older = frame["more"] and frame["rev"] >= (self.rev or 0)
        older = [row for row in previous.values() if keeps_older and int(row["born"]) < oldest]
        self.has_older = self.has_older if older else frame["more"]
        self.rev = frame["rev"]
        self.session = frame["session"]
        self.entries = {row["seq"]: row for row in [*older, *rows] if "seq" in row}
        self.items = {row["id"]: row for row in [*older, *rows] if "seq" not in row}
        gone = [{**row, "gone": True} for key, row in previous.items() if not self._contains(key)]
        return [*gone, *sorted(rows, key=lambda row: int(row["born"]))]

    def forget(self) -> list[Json]:
        """Empty the view, because the session was deleted. Returns the removed rows, marked as gone."""
        gone = [{**row, "gone": True} for row in self.ordered()]
        self.rev, self.session, self.entries, self.items, self.has_older = None, {}, {}, {}, False
        return gone

    def _contains(self, key: int) -> bool:
        return key in self.entries if key > 0 else -key in self.items

    def _apply_change(self, change: Json, touched: dict[tuple[str, int], Json]) -> None:
        body = {key: value for key, value in change.items() if key != "op"}
        match change["op"]:
            case "entry":
                self.entries[change["seq"]] = touched["seq", change["seq"]] = body
            case "item":
                self.items[change["id"]] = touched["id", change["id"]] = body
            case "append":
                if entry := self.entries.get(change["seq"]):
                    self.entries[change["seq"]] = touched["seq", change["seq"]] = _append_text(entry, change)
            case "output":
                if item := self.items.get(change["id"]):
                    self.items[change["id"]] = touched["id", change["id"]] = _append_text(item, change)
            case "session":
                self.session = {k: v for k, v in body.items() if k != "rev"}  # sent whole: a missing key was unset

    def prepend(self, older: Json) -> list[Json]:
        """Add a page of older history. Returns the new rows, oldest first; rows in the view do not change."""
        new_rows = [entry for entry in older["entries"] if entry["seq"] not in self.entries]
        new_rows += [item for item in older["items"] if item["id"] not in self.items]
        self.entries = {e["seq"]: e for e in new_rows if "seq" in e} | self.entries
        self.items = {i["id"]: i for i in new_rows if "seq" not in i} | self.items
        self.has_older = older["more"]
        return sorted(new_rows, key=lambda row: int(row["born"]))

    def ordered(self) -> list[Json]:
        """Return entries and items in the order in which a person sees them."""
        return sorted((*self.entries.values(), *self.items.values()), key=lambda row: int(row["born"]))

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or an event waits for one."""
        return self.session.get("state", "idle") != "idle" or bool(self.session.get("waiting"))

    def open_questions(self) -> list[Json]:
        """Return open permission requests, and questions after which no person has written yet, oldest first.

        The answer to a question may be any message, so the next message of a person counts as having read it.
        """
        open_items = [
            item
            for item in self.items.values()
            if item.get("kind") in ("permission", "ask") and item.get("state") == "open"
        ]
        if not open_items:
            return []
        messages = (e for e in self.entries.values() if e["role"] == "user" and e.get("kind") != "command")
        last_message = max((int(entry["born"]) for entry in messages), default=0)
        return sorted(
            (item for item in open_items if item["kind"] == "permission" or int(item["born"]) > last_message),
            key=lambda item: int(item["born"]),
        )


def _append_text(row: Json, change: Json) -> Json:
    return {**row, "text": row["text"] + change["text"], "rev": change["rev"]}
