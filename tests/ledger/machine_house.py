"""A house of sessions over a ledger in memory, for state machines: every transaction is one call, nothing waits.

`House.do` runs one transaction as the gateway's `Record` does and hands its changes to every `Client`, a watcher
that knows nothing but what it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from semel.gateway.places import Places
from semel.gateway.ports import Caps, Safety
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.gateway.speech import Speech
from semel.gateway.viewing import Viewing
from semel.law.delivery import Rules
from semel.law.wake import AT_ONCE, Pause
from semel.ledger import books, hear, show, views
from semel.ledger.speak import Caller
from semel.ledger.sql import Tx
from semel.ledger.store import Store
from semel.ledger.turns import Begun, Fence

Json = dict[str, Any]
ALL = 1 << 40

HOMES: Mapping[str, str | None] = {
    "page": "web:page",
    "chat": "chat:1",
    "chat-too": "chat:1",  # another agent's session with the same person
    "mail": "mail:2",
    "job": None,
}
PAUSES = {"mail": Pause(debounce=1_000, max_wait=3_000)}
CHANNELS = {
    "chat": Caps(Safety.AT_MOST_ONCE, max_len=12, edits=True, deletes=True),
    "mail": Caps(Safety.RECONCILABLE, finds=True, settle=1.0, edits=True, deletes=True),
    "push": Caps(Safety.IDEMPOTENT, key_life=100.0),
}
NARRATION = {"chat": "last", "mail": "all", "push": "last"}
STREAMS = {"chat", "mail"}  # there an answer is seen while it is written
NAMES = {"room": ("chat", "1"), "post": ("mail", "2"), "hook": ("push", "3"), "screen": ("web", "page")}
RULES = {
    "chat": Rules("at-most-once"),
    "mail": Rules("reconcilable", settle=1000, finds=True, horizon=10_000),
    "push": Rules("idempotent", key_life=100_000),
}


def places() -> Places:
    """Five homes, four names, three channels, one of each safety class."""
    return Places(
        {n: DestinationSettings(n, channel, address, ("*",)) for n, (channel, address) in NAMES.items()},
        {n: ChannelSettings(n, "fake", narration=told, stream=n in STREAMS) for n, told in NARRATION.items()},  # type: ignore[arg-type]
        {n: SimpleNamespace(caps=caps) for n, caps in CHANNELS.items()},  # type: ignore[misc]
    )


class Client:
    """A watcher of one session. It applies what it is sent, and refuses what no watcher could make sense of."""

    def __init__(self) -> None:
        self.rev = 0
        self.entries: dict[int, Json] = {}
        self.items: dict[int, Json] = {}
        self.session: Json = {}

    def __repr__(self) -> str:
        return f"<Client at {self.rev}: {len(self.entries)} entries, {len(self.items)} items>"

    def start(self, snapshot: Json) -> None:
        """Forget all, and begin from a snapshot."""
        self.rev, self.session = snapshot["rev"], snapshot["session"]
        self.entries = {e["seq"]: e for e in snapshot["entries"]}
        self.items = {i["id"]: i for i in snapshot["items"]}

    def apply(self, changes: list[Json]) -> None:
        for change in changes:
            assert change["rev"] > self.rev or change["op"] == "session", f"{self!r} was sent {change} again"
            self.rev = max(self.rev, change["rev"])
            what = {k: v for k, v in change.items() if k != "op"}
            match change["op"]:
                case "entry":
                    self.entries[what["seq"]] = what
                case "item":
                    self.items[what["id"]] = what
                case "append" | "output":
                    which = self.entries[what["seq"]] if change["op"] == "append" else self.items[what["id"]]
                    assert which.get("live"), f"{change} for what is final"
                    which["text"] += what["text"]
                    which["rev"] = what["rev"]
                case "session":
                    self.session = {k: v for k, v in what.items() if k != "rev"}

    def catch_up(self, tx: Tx, session: int, limit: int) -> None:
        """What a watcher does after it was away: what changed since, or else a snapshot."""
        found = views.since(tx, session, self.rev, limit)
        if found is None:
            self.start(views.snapshot(tx, session, ALL))
        else:
            self.apply(found[1])
            self.rev = found[0]

    def equals(self, snapshot: Json) -> None:
        assert self.rev == snapshot["rev"]
        assert self.session == snapshot["session"]
        assert [self.entries[n] for n in sorted(self.entries)] == snapshot["entries"]
        assert [self.items[n] for n in sorted(self.items)] == sorted(snapshot["items"], key=lambda i: i["id"])


@dataclass
class Process:
    """One start of an agent."""

    spawn: int
    session: str
    token: bytes
    live: bool = True
    viewing: Viewing = field(default_factory=Viewing)
    slots: show.Slots = field(default_factory=show.Slots)
    used: int = 0  # slots of its fold


@dataclass
class Running:
    """One turn, as the gateway holds it."""

    begun: Begun
    process: Process
    speech: Speech
    viewing: Viewing
    slots: show.Slots = field(default_factory=show.Slots)
    how: Any = "start"

    def fresh(self) -> int:
        """The next slot of its fold."""
        self.process.used += 1
        return self.process.used

    @property
    def fence(self) -> Fence:
        return Fence(self.begun.session, self.begun.turn, self.begun.epoch)

    @property
    def caller(self) -> Caller:
        b = self.begun
        return Caller(b.session, b.key, b.turn, b.root, self.how, self.process.spawn)


class House:
    """The ledger, its watchers, and what must hold whatever happens."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.store = Store.in_memory(clock=lambda: self.now)
        self.places = places()
        self.ids: dict[str, int] = {}
        self.clients: dict[int, Client] = {}  # sent every change
        self.absent: dict[int, Client] = {}  # comes back now and then
        self.heads: dict[int, tuple[int, int]] = {}  # the highest (seq, rev) seen
        self.told_at: dict[str, int] = {}  # session -> claims made before it was there

    def do(self, body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """One transaction; its changes reach whoever watches."""
        result, changes = self.store.apply(_seen, body, args, kwargs)
        for session, change in changes:
            self.clients.setdefault(session, Client()).apply([_copy(change)])
        return result

    def look(self, body: Callable[..., Any], *args: Any) -> Any:
        return self.store.look(body, *args)

    def to(self, key: str, steers: bool = False) -> hear.To:
        return hear.To(key, "main", HOMES[key], pause=PAUSES.get(key, AT_ONCE), steers=steers)

    def hear(self, event: hear.Event, *keys: str, steering: Collection[str] = ()) -> hear.Outcome:
        before = self.look(_claims)
        done = self.do(hear.hear, event, [self.to(k, k in steering) for k in keys])
        for key in keys:
            if key not in self.ids and (row := self.look(views.find, key)) is not None:
                self.ids[key] = row.id
                self.told_at[key] = before
        return done

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        self.look(self._check)

    def _check(self, tx: Tx) -> None:
        broken = [book for book in books.audit(tx) if not book.ok]
        assert not broken, broken
        for session, client in self.clients.items():
            snapshot = views.snapshot(tx, session, ALL)
            client.equals(snapshot)
            head = (len(snapshot["entries"]), snapshot["rev"])
            old = self.heads.get(session, (0, 0))
            assert head[0] >= old[0] and head[1] >= old[1], "a number went back"
            self.heads[session] = head
            _revs(snapshot)
        self._received(tx)
        _said_again(tx)
        _outputs(tx)
        _reserved(tx)

    def come_back(self, session: int, limit: int) -> None:
        """The absent watcher returns with the rev it held."""
        client = self.absent.setdefault(session, Client())
        self.look(client.catch_up, session, limit)
        self.look(lambda tx: client.equals(views.snapshot(tx, session, ALL)))

    def _received(self, tx: Tx) -> None:
        """Law 6: what each person was told, by destination, stands in the session whose home it is."""
        said: dict[str, list[tuple[int, str]]] = {}
        for c in _all(tx, "SELECT id, dest, text FROM claim WHERE outcome = 'said' AND dest IS NOT NULL ORDER BY id"):
            said.setdefault(c[1], []).append((c[0], c[2]))
        for key, session in self.ids.items():
            home = HOMES[key] or f"session:{key}"
            want = [text for claim, text in said.get(home, []) if claim > self.told_at[key]]
            have = _all(
                tx,
                "SELECT e.text FROM entry e JOIN claim c ON c.id = e.claim"
                " WHERE e.session = ? AND c.dest = ? ORDER BY c.id", session, home,
            )  # fmt: skip
            assert [row[0] for row in have] == want, f"{key} does not know what was said at its home"


def _seen(tx: Tx, body: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, list[tuple[int, Json]]]:
    result = body(tx, *args, **kwargs)
    return result, views.changes(tx)


def _copy(change: Json) -> Json:
    """A watcher's own: what it does to it changes nothing here."""
    return dict(change)


def _all(tx: Tx, sql: str, *params: Any) -> list[Any]:
    """Any question of a test (the ledger itself runs named statements only)."""
    return tx._cursor.execute(sql, params).fetchall()  # type: ignore[union-attr, call-arg, arg-type, no-any-return]


def _claims(tx: Tx) -> int:
    return int(_all(tx, "SELECT coalesce(max(id), 0) FROM claim")[0][0])


def _revs(snapshot: Json) -> None:
    """One rev per change: no two things changed last with the same one."""
    revs = [row["rev"] for row in (*snapshot["entries"], *snapshot["items"])]
    assert len(revs) == len(set(revs))
    assert max(revs, default=0) <= snapshot["rev"]
    assert all(row["born"] <= row["rev"] for row in (*snapshot["entries"], *snapshot["items"]))


def _said_again(tx: Tx) -> None:
    """Law 5: a restart says a text once more only as often as it makes more claims than the lost ones said."""
    rows = _all(
        tx,
        "SELECT c.root, c.dest, c.digest, c.turn, t.how, c.outcome, EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id"
        " AND p.state IN ('rejected', 'dropped')) FROM claim c JOIN turn t ON t.id = c.turn"
        " WHERE c.digest IS NOT NULL AND c.outcome IN ('said', 'echo') ORDER BY c.id",
    )
    groups: dict[Any, list[Any]] = {}
    for root, dest, digest, *rest in rows:
        groups.setdefault((root, dest, digest), []).append(rest)
    for group in groups.values():
        for turn in {row[0] for row in group if row[1] in ("restart", "recall")}:
            mine = [row for row in group if row[0] == turn]
            lost = sum(row[0] < turn and row[2] == "said" and not row[3] for row in group)
            again = sum(row[2] == "said" for row in mine)
            assert again <= max(0, len(mine) - lost), f"turn {turn} said {again} of {len(mine)} again; {lost} were said"


def _reserved(tx: Tx) -> None:
    """No mark stays where it is not filled: what was withdrawn and may be there is removed, and told to nobody."""
    left = _all(
        tx,
        "SELECT p.id FROM claim c JOIN part p ON p.claim = c.id AND p.n = 0 WHERE c.outcome = 'quiet'"
        " AND c.reason = 'withdrawn' AND p.state IN ('queued', 'sending', 'unknown', 'sent')"
        " AND NOT EXISTS(SELECT 1 FROM part d WHERE d.claim = c.id AND d.n = 1)",
    )
    assert not left, f"parts {left} stay"
    held = _all(
        tx, "SELECT p.id FROM part p JOIN claim c ON c.id = p.claim WHERE c.outcome = 'quiet' AND p.state = 'held'"
    )
    assert not held, f"parts {held} say nothing, and ask a person"


def _outputs(tx: Tx) -> None:
    """Law 8: for tool output, head + stated gap + tail of the stored whole."""
    for row in _all(tx, "SELECT id FROM item WHERE kind = 'tool'"):
        item = views.item_json(tx, tx.one("item_get", id=row[0]))  # type: ignore[arg-type]
        whole = "".join(r.text for r in tx.all("output_of_item", item=row[0]))
        tail = item.get("tail") or ""
        assert item["text"] == whole[: len(item["text"])]
        assert len(item["text"]) + item.get("gap", 0) + len(tail) == len(whole)
        assert not tail or whole.endswith(tail)
