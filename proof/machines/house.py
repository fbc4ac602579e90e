"""A house of sessions over any ledger, for state machines: every transaction is one call, nothing waits.

`House.tell` hands the changes of the transaction before to every `Client`, a watcher that knows nothing but what it
was sent. `House.check` is what must hold whatever happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, TypeVar
from unicodedata import normalize
from unittest import mock

from proof.machines.ledger import Claim, Ledger, Make
from semel.acp_stream.display import render_terminal
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import Caps, Safety
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.gateway.turns import stream_view
from semel.gateway.turns.block_claims import BlockClaims
from semel.gateway.turns.stream_view import StreamView
from semel.law.delivery import Rules
from semel.law.wake import NO_PAUSE, WakeDelay
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.turns import turn_ops
from semel.ledger.turns.turns import BegunTurn, TurnFence

Json = dict[str, Any]
T = TypeVar("T")

HOMES: Mapping[str, str | None] = {
    "page": "web:page",
    "chat": "chat:1",
    "chat-too": "chat:1",  # another agent's session with the same person
    "mail": "mail:2",
    "job": None,
}
PAUSES = {"mail": WakeDelay(debounce=1_000, max_wait=3_000)}
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
    "mail": Rules("reconcilable", absence_proven_after=1000, can_look_up=True, horizon=10_000),
    "push": Rules("idempotent", key_life=100_000),
}


def places() -> Destinations:
    """Five homes, four names, three channels, one of each safety class."""
    return Destinations(
        {
            n: DestinationSettings(name=n, channel=channel, address=address, allow=("*",))
            for n, (channel, address) in NAMES.items()
        },
        {n: ChannelSettings(name=n, kind="fake", narration=told, stream=n in STREAMS) for n, told in NARRATION.items()},  # type: ignore[arg-type]
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
            again = f"Law 8: {self!r} was sent {change} again"
            assert change["rev"] > self.rev or change["op"] == "session", again
            self.rev = max(self.rev, change["rev"])
            what = {k: v for k, v in change.items() if k != "op"}
            match change["op"]:
                case "entry":
                    self.entries[what["seq"]] = what
                case "item":
                    self.items[what["id"]] = what
                case "append" | "output":
                    which = self.entries[what["seq"]] if change["op"] == "append" else self.items[what["id"]]
                    assert which.get("live"), f"Law 8: {change} was sent for what is final"
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
        """Law 8: what a watcher has is what the ledger holds."""
        entries = [self.entries[n] for n in sorted(self.entries)]
        items = [self.items[n] for n in sorted(self.items)]
        held = sorted(snapshot["items"], key=lambda i: i["id"])
        assert self.rev == snapshot["rev"], f"Law 8: a watcher is at rev {self.rev}, its session at {snapshot['rev']}"
        assert self.session == snapshot["session"], _unlike("session", [self.session], [snapshot["session"]])
        assert entries == snapshot["entries"], _unlike("entry", entries, snapshot["entries"])
        assert items == held, _unlike("item", items, held)


def _unlike(what: str, seen: list[Json], held: list[Json]) -> str:
    """The first of them that a watcher sees otherwise than the ledger holds it."""
    one, other = next(pair for pair in zip_longest(seen, held) if pair[0] != pair[1])
    return f"Law 8: a watcher sees the {what} {one}, and the ledger holds {other}"


@dataclass
class Process:
    """One start of an agent. `turn`: the newest one it was asked for."""

    spawn: int
    session: str
    token: bytes
    live: bool = True
    turn: int | None = None
    viewing: StreamView = field(default_factory=StreamView)
    slots: turn_ops.Slots = field(default_factory=turn_ops.Slots)
    used: int = 0  # slots of its fold


@dataclass
class Running:
    """One turn, as the gateway holds it."""

    begun: BegunTurn
    process: Process
    speech: BlockClaims
    viewing: StreamView
    slots: turn_ops.Slots = field(default_factory=turn_ops.Slots)
    how: Any = "start"

    def fresh(self) -> int:
        """The next slot of its fold."""
        self.process.used += 1
        return self.process.used

    @property
    def fence(self) -> TurnFence:
        return TurnFence(self.begun.session, self.begun.turn, self.begun.epoch)

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
        self.ledger.cut = self.places.make_claim_legs
        self.ids: dict[str, int] = {}
        self.clients: dict[int, Client] = {}  # sent every change
        self.absent: dict[int, Client] = {}  # comes back now and then
        self.heads: dict[int, tuple[int, int]] = {}  # the highest (seq, rev) seen
        self.told_at: dict[str, int] = {}  # session -> claims made before it was there, or before it began anew
        self.gone: set[str] = set()  # sessions that are deleted, and nothing was heard there since
        self.erases = False  # something was deleted: some texts are not there any more
        self.telling: dict[int, set[int]] = {}  # notices that the agent of a session is still to be told of
        self.judged = 0  # claims whose echo was held against its original
        self.joined: dict[int, int] = {}  # turns that another prompt joined, and the newest claim then
        self.first_joined: dict[int, int] = {}  # the same, of the first such prompt

    def tell(self) -> None:
        """The changes of the transaction before reach whoever watches; nobody watches what is deleted."""
        gone = {self.ids[key] for key in self.gone}
        for session, change in self.ledger.changes():
            if session not in gone:
                client = self.clients.setdefault(session, Client())
                self._notes(session, client, change)
                client.apply([dict(change)])

    def _notes(self, session: int, client: Client, change: Json) -> None:
        """A notice of what did not get through is to be told to the agent, unless a new chapter begins first."""
        if change["op"] == "session" and change.get("chapter", 1) > client.session.get("chapter", 1):
            self.telling.pop(session, None)
        failed = change["op"] == "entry" and str(change.get("kind")).startswith("delivery.")
        if failed and change["role"] == "notice" and change["seq"] not in client.entries:
            self.telling.setdefault(session, set()).add(change["seq"])

    def is_to_be_told(self, session: int, chapter: int) -> None:
        """The newest entry is a notice for the agent; of an earlier chapter it is told nothing."""
        client = self.clients[session]
        if client.session.get("chapter", 1) == chapter:
            self.telling.setdefault(session, set()).add(max(client.entries))

    def was_told(self, session: int, seqs: list[int]) -> None:
        """A turn ended whose prompt told the agent of these."""
        self.telling.get(session, set()).difference_update(seqs)

    def seen(self, result: T) -> T:
        """What a transaction came to; watchers were told, and its echoes are held against what stood at that moment."""
        self.tell()
        self.judge_echoes()
        return result

    def judge_echoes(self) -> None:
        """Law 5 speaks of the moment of judging: an original may fall in the next transaction of the same step."""
        newest = self.newest()
        if newest != self.judged:
            claims = self.ledger.claims()
            _echoes(claims, self.judged)
            _edited(claims, self.judged)
            self.judged = newest

    def to(self, key: str, steers: bool = False) -> hear.Addressee:
        return hear.Addressee(key, "main", HOMES[key], pause=PAUSES.get(key, NO_PAUSE), reads_steered=steers)

    def hear(
        self, event: hear.Event, *keys: str, steering: Collection[str] = (), start: hear.IdleStart | None = None
    ) -> hear.HeardOutcome:
        before = self.newest()
        done = self.seen(self.ledger.hear(event, [self.to(k, k in steering) for k in keys], start))
        for key in keys:
            if (key not in self.ids or key in self.gone) and (session := self.ledger.find(key)) is not None:
                self.ids[key] = session
                self.told_at[key] = before
                if key in self.gone:
                    self._begins_anew(key)
        return done

    def joins(self, turn: int, newest: int) -> None:
        """Another prompt joined a running turn, behind this claim."""
        self.first_joined.setdefault(turn, newest)
        self.joined[turn] = newest

    def newest(self) -> int:
        """The newest claim."""
        return self.ledger.newest_claim()

    def delete(self, key: str) -> None:
        """A session is deleted: whoever watches it goes."""
        session = self.ids[key]
        assert self.ledger.delete(session), f"{key} was there, and could not be deleted"
        self.gone.add(key)
        self.erases = True
        self.clients.pop(session, None)
        self.telling.pop(session, None)
        self.tell()

    def _begins_anew(self, key: str) -> None:
        """Something was heard in a session that was deleted: who watches it now begins with what is there."""
        session = self.ids[key]
        snapshot = self.ledger.snapshot(session)
        self.gone.discard(key)
        self.clients[session] = Client()
        self.clients[session].start(snapshot)
        self.heads[session] = (len(snapshot["entries"]), self.heads.get(session, (0, 0))[1])

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        broken = self.ledger.broken()
        assert not broken, f"a book does not hold: {broken}"
        for session, client in self.clients.items():
            snapshot = self.ledger.snapshot(session)
            client.equals(snapshot)
            head = (len(snapshot["entries"]), snapshot["rev"])
            old = self.heads.get(session, (0, 0))
            assert head[0] >= old[0] and head[1] >= old[1], "Law 4: a number went back"
            self.heads[session] = head
            _revs(snapshot)
        claims = self.ledger.claims()
        self._received(claims)
        _said_again(claims, self.first_joined, self.joined)
        _echoes(claims, self.judged)
        _answered(claims, self.joined)
        _whole(self.ledger, claims)
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
        stands: dict[tuple[int, str | None], list[tuple[int, str]]] = {}
        for entry in self.ledger.claimed():
            stands.setdefault((entry.session, entry.dest), []).append((entry.claim, entry.text))
        for key, session in self.ids.items():
            if key not in self.gone:
                home = HOMES[key] or f"session:{key}"
                want = [one for one in said.get(home, []) if one[0] > self.told_at[key]]
                has = [one for one in stands.get((session, home), []) if one[0] > self.told_at[key]]
                assert self._alike(want, has), (
                    f"Law 6: {key} does not know what was said at its home: {has}, not {want}"
                )

    def _alike(self, want: list[tuple[int, str]], has: list[tuple[int, str]]) -> bool:
        """The same claims with the same texts, but for those that were deleted with another session."""
        if not self.erases or want == has:
            return want == has
        same = [n for n, _ in want] == [n for n, _ in has]
        return same and all(a == b or not a for (_, a), (_, b) in zip(want, has, strict=True))


def _revs(snapshot: Json) -> None:
    """One rev per change: no two things changed last with the same one."""
    revs = [row["rev"] for row in (*snapshot["entries"], *snapshot["items"])]
    assert len(revs) == len(set(revs)), "Law 8: two things changed with one rev"
    assert max(revs, default=0) <= snapshot["rev"], "Law 8: something changed with a rev its session has not come to"
    born = all(row["born"] <= row["rev"] for row in (*snapshot["entries"], *snapshot["items"]))
    assert born, "Law 8: something changed last before it was there"


def _said_again(claims: list[Claim], first: dict[int, int], joined: dict[int, int]) -> None:
    """Law 5: a restart says a text once more only as often as it makes more claims than the lost ones said.

    What it says after another prompt joined it is new, and so is its last text, if one had joined a lost attempt.
    """
    roots = {claim.turn: claim.root for claim in claims}
    groups: dict[Any, list[Claim]] = {}
    edited = {claim.edits for claim in claims}  # whatever came of it: what it replaced may not stand
    for claim in claims:
        spoke = claim.outcome in ("said", "echo") and claim.edits is None
        if claim.digest is not None and claim.turn is not None and spoke:
            groups.setdefault((claim.root, claim.dest, claim.digest), []).append(claim)
    for group in groups.values():
        for turn in {c.turn for c in group if c.turn is not None and c.turn_how in ("restart", "recall")}:
            mine = [c for c in group if c.turn == turn and c.id <= first.get(turn, c.id)]
            stood = [c for c in group if c.outcome == "said" and not c.fallen and not c.stayed]
            standing = [c for c in stood if c.id not in edited]
            before = [c for c in standing if c.turn is not None and c.turn < turn]
            asked = max((joined[t] for t in joined if t < turn and roots.get(t) == group[0].root), default=-1)
            new = any(c.id <= asked for c in before)
            again = sum(c.outcome == "said" for c in mine)
            too = f"Law 5: turn {turn} said {again} of {len(mine)} again; {len(before)} were said"
            assert again <= max(0, len(mine) - len(before)) + new, too


def _echoes(claims: list[Claim], judged: int) -> None:
    """Law 5: an echo is of the same text, said there before, in the same root.

    Of claims after `judged`, which the newest transaction made, the original stands: it may fall later.
    """
    known = {claim.id: claim for claim in claims}
    for claim in claims:
        if claim.outcome == "echo" and claim.digest is not None and claim.echo_of is not None:
            first = known[claim.echo_of]
            same = (first.root, first.dest, first.digest) == (claim.root, claim.dest, claim.digest)
            assert same and first.id < claim.id, f"Law 5: claim {claim.id} is called an echo of {first}"
            fell = claim.id > judged and (first.fallen or first.outcome != "said")
            assert not fell, f"Law 5: claim {claim.id} is called an echo of what nobody got: {first}"


def _answered(claims: list[Claim], joined: dict[int, int]) -> None:
    """Laws 5, 12: a block that ends after a prompt joined its turn is no echo of what was said before that."""
    known = {claim.id: claim for claim in claims}
    lost: dict[int | None, int] = {}  # by root: the newest claim when a prompt joined any attempt so far
    for claim in claims:
        since = joined.get(claim.turn or 0, -1)
        if claim.turn_how == "resume":
            since = max(lost.get(claim.root, -1), since)
        if claim.outcome == "echo" and claim.how == "block" and claim.echo_of is not None and claim.id > since:
            first = known[claim.echo_of]
            told = f"Law 5: claim {claim.id} answers what joined after claim {since}, and is called an echo of {first}"
            assert first.id > since, told
        if claim.turn in joined:
            lost[claim.root] = max(lost.get(claim.root, -1), joined[claim.turn])


def _edited(claims: list[Claim], judged: int) -> None:
    """Law 5: the original of an echo still reads so: of the edits that were not refused, it is the last."""
    known = {claim.id: claim for claim in claims}
    for claim in claims:
        if claim.id > judged and claim.outcome == "echo" and claim.echo_of is not None and claim.digest is not None:
            first = known[claim.echo_of]
            place = first.id if first.edits is None else first.edits
            edits = [e for e in claims if e.edits == place and e.outcome == "said" and not e.fallen and e.id < claim.id]
            now = edits[-1] if edits else known[place]
            reads = now.digest == claim.digest
            assert reads, f"Law 5: claim {claim.id} is called an echo of {first}, which reads {now.text!r} by now"


def _whole(ledger: Ledger, claims: list[Claim]) -> None:
    """Law 7: the parts of what was said carry all of it, but for white space; a fence that is cut is dressed."""
    sent: dict[int, list[str | None]] = {}
    for part in ledger.parts():
        sent.setdefault(part.claim, []).append(part.text)
    for claim in claims:
        texts = sent.get(claim.id, [])
        if claim.outcome == "said" and "```" not in claim.text and None not in texts and texts:
            less = f"Law 7: claim {claim.id} says {claim.text!r}, and its parts {texts}"
            assert _letters("".join(text or "" for text in texts)) == _letters(claim.text), less


def _letters(text: str) -> str:
    return normalize("NFC", "".join(text.split()))


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
    assert not left, f"Law 6: what is reserved in parts {left} is not needed, and stays"
    held = [part.id for part in parts if part.state == "held"]
    assert not held, f"Law 7: parts {held} say nothing, and ask a person"


def _outputs(ledger: Ledger) -> None:
    """Law 8: for tool output, head + stated gap + tail of the stored whole, as a terminal displays it."""
    for item, stored in ledger.outputs():
        whole = render_terminal(stored)
        tail = item.get("tail") or ""
        assert item["text"] == whole[: len(item["text"])], "Law 8: a head that is not the beginning"
        assert len(item["text"]) + item.get("gap", 0) + len(tail) == len(whole), "Law 8: characters are missing unsaid"
        assert not tail or whole.endswith(tail), "Law 8: a tail that is not the end"


@contextmanager
def short_outputs() -> Iterator[None]:
    """Heads and tails so short that a few words of output go beyond them."""
    with mock.patch.object(stream_view, "HEAD_CHARS", 12), mock.patch.object(stream_view, "TAIL_CHARS", 5):
        yield


@contextmanager
def refused(error: type[Exception]) -> Iterator[None]:
    """What is done in it is refused with this error; anything else is no refusal."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"not refused: {error.__name__} was due")
