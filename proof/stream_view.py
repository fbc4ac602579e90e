"""What a watcher of a session's stream holds, and what it must never be told (Law 8)."""

from __future__ import annotations

from semel.ledger.transcript.views import LIFE_BITS
from semel.text.json_types import Json


class View:
    """The entries of one session, by `seq`, as the stream told them so far, over every death of the gateway.

    `take` is given each message of the stream; `rev` is where to resume. `faults`: what must never be seen.
    """

    def __init__(self) -> None:
        self.rev = 0
        self.entries: dict[int, Json] = {}
        self.final: dict[int, str] = {}
        self.faults: list[str] = []

    def __repr__(self) -> str:
        return f"<View rev {self.rev}, {len(self.entries)} entries, {len(self.faults)} faults>"

    def take(self, message: Json) -> list[int]:
        """One `snapshot` or `change`; which entries it told of."""
        if message["rev"] < self.rev:
            self.faults.append(f"rev {self.rev} was followed by {message['rev']}")
        if self.rev and message["rev"] >> LIFE_BITS != self.rev >> LIFE_BITS:
            self._begin_life(message)
        if message.get("type") == "snapshot" and not message["more"]:  # all there is
            self.entries.clear()
        told = [entry["seq"] for entry in message.get("entries", ())]
        for entry in message.get("entries", ()):
            self._put(entry)
        for change in message.get("changes", ()):
            if change["rev"] <= self.rev:
                self.faults.append(f"rev {change['rev']} came behind {self.rev}")
            match change["op"]:
                case "entry":
                    self._put({key: value for key, value in change.items() if key != "op"})
                    told.append(change["seq"])
                case "append":
                    self._grow(change["seq"], change["text"])
                    told.append(change["seq"])
        self.rev = message["rev"]
        return told

    def _begin_life(self, message: Json) -> None:
        """The ledger was put back: what was told of its earlier life counts no more, and nothing is mixed with it."""
        if message.get("type") != "snapshot":
            self.faults.append(f"rev {self.rev} was followed by changes of another life, {message['rev']}")
        self.entries.clear()
        self.final.clear()

    def _put(self, entry: Json) -> None:
        seq, text = entry["seq"], entry["text"]
        self.entries[seq] = entry
        if not entry.get("live") and self.final.setdefault(seq, text) != text:
            self.faults.append(f"entry {seq} was {self.final[seq]!r} and became {text!r}")

    def _grow(self, seq: int, text: str) -> None:
        if seq in self.entries:
            self.entries[seq]["text"] += text
        else:
            self.faults.append(f"entry {seq} grew, and was never told")
