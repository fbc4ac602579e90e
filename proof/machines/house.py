"""A house of sessions over any ledger, for state machines: every transaction is one call, nothing waits.

`House.tell` hands the changes of the transaction before to every `Client`, a watcher that knows nothing but what it
was sent. `House.check` is what must hold whatever happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

from proof.machines.ledger import Claim, Ledger, Make
from semel.gateway import viewing
from semel.gateway.places import Places
from semel.gateway.ports import Caps, Safety
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.gateway.speech import Speech
from semel.gateway.viewing import Viewing
from semel.law.delivery import Rules
from semel.law.wake import AT_ONCE, Pause
from semel.ledger import hear, show
from semel.ledger.speak import Caller
from semel.ledger.turns import Begun, Fence

Json = dict[str, Any]
T = TypeVar("T")

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
        {n: SimpleNamespace(caps=caps) for n, caps in CHANNELS.items()},
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

    def catch_up(self, ledger: Ledger, session: int, limit: int) -> None:
        """What a watcher does after it was away: what changed since, or else a snapshot."""
        found = ledger.since(session, self.rev, limit)
        if found is None:
            self.start(ledger.snapshot(session))
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

    def __init__(self, make: Make) -> None:
        self.now = 1_000_000
        self.ledger = make(lambda: self.now)
        self.places = places()
        self.ids: dict[str, int] = {}
        self.clients: dict[int, Client] = {}  # sent every change
        self.absent: dict[int, Client] = {}  # comes back now and then
        self.heads: dict[int, tuple[int, int]] = {}  # the highest (seq, rev) seen
        self.told_at: dict[str, int] = {}  # session -> claims made before it was there

    def tell(self) -> None:
        """The changes of the transaction before reach whoever watches."""
        for session, change in self.ledger.changes():
            self.clients.setdefault(session, Client()).apply([dict(change)])

    def seen(self, result: T) -> T:
        """What a transaction came to; watchers were told."""
        self.tell()
        return result

    def to(self, key: str, steers: bool = False) -> hear.To:
        return hear.To(key, "main", HOMES[key], pause=PAUSES.get(key, AT_ONCE), steers=steers)

    def hear(self, event: hear.Event, *keys: str, steering: Collection[str] = ()) -> hear.Outcome:
        before = max((claim.id for claim in self.ledger.claims()), default=0)
        done = self.seen(self.ledger.hear(event, [self.to(k, k in steering) for k in keys]))
        for key in keys:
            if key not in self.ids and (session := self.ledger.find(key)) is not None:
                self.ids[key] = session
                self.told_at[key] = before
        return done

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        broken = self.ledger.broken()
        assert not broken, broken
        for session, client in self.clients.items():
            snapshot = self.ledger.snapshot(session)
            client.equals(snapshot)
            head = (len(snapshot["entries"]), snapshot["rev"])
            old = self.heads.get(session, (0, 0))
            assert head[0] >= old[0] and head[1] >= old[1], "a number went back"
            self.heads[session] = head
            _revs(snapshot)
        claims = self.ledger.claims()
        self._received(claims)
        _said_again(claims)
        _echoes(claims)
        _reserved(self.ledger, claims)
        _outputs(self.ledger)

    def come_back(self, session: int, limit: int) -> None:
        """The absent watcher returns with the rev it held."""
        client = self.absent.setdefault(session, Client())
        client.catch_up(self.ledger, session, limit)
        client.equals(self.ledger.snapshot(session))

    def _received(self, claims: list[Claim]) -> None:
        """Law 6: what each person was told, by destination, stands in the session whose home it is."""
        said: dict[str, list[tuple[int, str]]] = {}
        for claim in claims:
            if claim.outcome == "said" and claim.dest is not None:
                said.setdefault(claim.dest, []).append((claim.id, claim.text))
        stands: dict[tuple[int, str | None], list[str]] = {}
        for entry in self.ledger.claimed():
            stands.setdefault((entry.session, entry.dest), []).append(entry.text)
        for key, session in self.ids.items():
            home = HOMES[key] or f"session:{key}"
            want = [text for claim, text in said.get(home, []) if claim > self.told_at[key]]
            assert stands.get((session, home), []) == want, f"{key} does not know what was said at its home"


def _revs(snapshot: Json) -> None:
    """One rev per change: no two things changed last with the same one."""
    revs = [row["rev"] for row in (*snapshot["entries"], *snapshot["items"])]
    assert len(revs) == len(set(revs)), "two things changed with one rev"
    assert max(revs, default=0) <= snapshot["rev"]
    assert all(row["born"] <= row["rev"] for row in (*snapshot["entries"], *snapshot["items"]))


def _said_again(claims: list[Claim]) -> None:
    """Law 5: a restart says a text once more only as often as it makes more claims than the lost ones said."""
    groups: dict[Any, list[Claim]] = {}
    for claim in claims:
        if claim.digest is not None and claim.turn is not None and claim.outcome in ("said", "echo"):
            groups.setdefault((claim.root, claim.dest, claim.digest), []).append(claim)
    for group in groups.values():
        for turn in {c.turn for c in group if c.turn is not None and c.turn_how in ("restart", "recall")}:
            mine = [c for c in group if c.turn == turn]
            lost = sum(c.turn is not None and c.turn < turn and c.outcome == "said" and not c.fallen for c in group)
            again = sum(c.outcome == "said" for c in mine)
            assert again <= max(0, len(mine) - lost), f"turn {turn} said {again} of {len(mine)} again; {lost} were said"


def _echoes(claims: list[Claim]) -> None:
    """Law 5: an echo is of the same text, said there before, in the same root."""
    known = {claim.id: claim for claim in claims}
    for claim in claims:
        if claim.outcome == "echo" and claim.digest is not None and claim.echo_of is not None:
            first = known[claim.echo_of]
            same = (first.root, first.dest, first.digest) == (claim.root, claim.dest, claim.digest)
            assert same and first.id < claim.id, f"claim {claim.id} is called an echo of {first}"


def _reserved(ledger: Ledger, claims: list[Claim]) -> None:
    """No mark stays where it is not filled: what was withdrawn and may be there is removed, and told to nobody."""
    quiet = {c.id: c.reason for c in claims if c.outcome == "quiet"}
    parts = [part for part in ledger.parts() if part.claim in quiet]
    removed = {part.claim for part in parts if part.n == 1}
    there = ("queued", "sending", "unknown", "sent")
    left = [
        p.id for p in parts
        if p.n == 0 and quiet[p.claim] == "withdrawn" and p.state in there and p.claim not in removed
    ]  # fmt: skip
    assert not left, f"parts {left} stay"
    held = [part.id for part in parts if part.state == "held"]
    assert not held, f"parts {held} say nothing, and ask a person"


def _outputs(ledger: Ledger) -> None:
    """Law 8: for tool output, head + stated gap + tail of the stored whole."""
    for item, whole in ledger.outputs():
        tail = item.get("tail") or ""
        assert item["text"] == whole[: len(item["text"])], "a head that is not the beginning"
        assert len(item["text"]) + item.get("gap", 0) + len(tail) == len(whole), "characters are missing unsaid"
        assert not tail or whole.endswith(tail), "a tail that is not the end"


@contextmanager
def short_outputs() -> Iterator[None]:
    """Heads and tails so short that a few words of output go beyond them."""
    with mock.patch.object(viewing, "HEAD", 12), mock.patch.object(viewing, "TAIL", 5):
        yield


@contextmanager
def refused(error: type[Exception]) -> Iterator[None]:
    """What is done in it is refused with this error; anything else is no refusal."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"not refused: {error.__name__} was due")
