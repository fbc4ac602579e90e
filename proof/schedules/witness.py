"""What has to hold at the very moment something leaves the gateway: looked up in the committed ledger, from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proof.schedules import past
from proof.schedules.agents import questions
from proof.schedules.platforms import Platform
from semel.gateway.outbound import previews
from semel.gateway.ports import Heard, Incoming, Launch, Op, Safety
from semel.ledger.delivery import placeholders
from semel.ledger.delivery.parts import MARKED_AS_REPEAT

if TYPE_CHECKING:
    from proof.schedules.people import Said
    from proof.schedules.world import World
    from semel.faces.view import SessionView

Json = dict[str, Any]


class Witness:
    """Each method is called where its name says; what it finds broken joins the world's faults."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut_off: dict[tuple[int, int], str] = {}  # (session, seq): what streamed there when its gateway died
        world.agent.prompting = self.prompting
        for platform in world.platforms.values():
            platform.departing = self.departing
            platform.acknowledging = self.acknowledging

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.world.look.execute(sql, values).fetchall()

    def _broken(self, what: str) -> None:
        self.world.fault(f"{what} (step {self.world.loop.steps}, {self.world.loop.time():.3f} s)")

    def departing(self, platform: Platform, op: Op) -> None:
        """Law 7: "sending" is durable before the network call. (The platform may tell meanwhile that it has it.)"""
        rows = self._ask("SELECT state, marked FROM part WHERE key = ?", op.key)
        if not rows and op.kind == "edit":
            self._previewing(platform, op)
        elif not rows:
            self._broken(f"law 6: {op.text!r} leaves for {platform.name} without a row")
        elif rows[0][0] != "sending" and not (rows[0][0] == "sent" and platform.safety is Safety.IDEMPOTENT):
            self._broken(f"law 7: {op.text!r} leaves for {platform.name} while its part is {rows[0][0]}, not sending")
        elif (rows[0][1] == MARKED_AS_REPEAT) != op.marked and op.text != placeholders.TEXT:
            word = "as a repeat" if op.marked else "without a sign that it may be a repeat"
            self._broken(f"law 7: {op.text!r} leaves for {platform.name} {word}")

    def _previewing(self, platform: Platform, op: Op) -> None:
        """Law 6: what is shown of an answer that is being written is recorded. Its message was reserved for it, and
        nothing has left yet to fill or to remove it."""
        dest = f"{platform.name}:{op.address}"
        changed = {key for (key,) in self._ask(_CHANGES, dest, op.target)} & platform.tried.keys()
        if changed or not self._ask(_RESERVED, dest, op.target):
            self._broken(f"law 6: {op.text!r} is shown in {op.target} of {platform.name}, which is not reserved")
        shown = op.text.removesuffix(previews.MORE_MARKER)
        if not any(self._recorded(*entry, LAST).startswith(shown) for entry in self._ask(_SAID, op.session)):
            self._broken(f"law 6: {shown!r} is shown on {platform.name}, and nobody recorded it")

    def _recorded(self, session: int, seq: int, text: str, base: int, rev: int) -> str:
        """The text of an entry at a rev: as it was at `base`, and the pieces since."""
        return text + "".join(piece for (piece,) in self._ask(_PIECES, session, seq, base, rev))

    def acknowledging(self, platform: Platform, events: list[Incoming]) -> None:
        """Law 1: a platform is acknowledged only after the commit."""
        for event in events:
            if event.kind == "message" and not self._ask(
                "SELECT 1 FROM event WHERE source = ? AND key = ?", f"channel:{platform.name}", event.key
            ):
                self._broken(f"law 1: {event.key} is acknowledged to {platform.name} before it is committed")
        self.world.happens("ack")

    def answered(self, one: Said, heard: Heard) -> None:
        """The same for whoever asks the API."""
        rows = self._ask("SELECT id FROM event WHERE source = ? AND key = ?", one.source, one.key)
        if not rows:
            self._broken(f"law 1: {one.key} was answered {heard.status} before it was committed")
        elif rows[0][0] != heard.event:
            self._broken(f"law 1: {one.key} was answered with event {heard.event}, and is {rows[0][0]}")

    def prompting(self, launch: Launch, content: Sequence[Json]) -> None:
        """Law 3: what an agent is asked is bound to its session's running turn, in the transaction before."""
        marks, _ = questions(content)
        self.world.happens("prompt")
        for mark in dict.fromkeys(marks):
            rows = self._ask(
                "SELECT t.state, t.id = s.turn FROM event e JOIN hearing h ON h.event = e.id "
                "JOIN session s ON s.id = h.session LEFT JOIN turn t ON t.id = h.turn "
                "WHERE s.key = ? AND instr(e.payload, ?)",
                launch.session, f" {mark} ",
            ) or self._ask(
                "SELECT t.state, t.id = s.turn FROM event e JOIN hearing h ON h.event = e.id "
                "JOIN session s ON s.id = h.session LEFT JOIN turn t ON t.id = h.turn "
                "WHERE s.key = ? AND instr(e.payload, ?)",
                launch.session, mark,
            )  # fmt: skip
            if not any(state == "running" and its for state, its in rows):
                self._broken(f"law 3: an agent is asked {mark}, which is not bound to the running turn: {rows}")
        refused = [text for (text,) in self._ask(_REFUSED, launch.session)]
        self.world.editors.judge_asked(content)
        for what in past.misplaced(content, self.world.disk.prompts, dict(self._ask(_BOUND, launch.session)), refused):
            self._broken(what)

    def seen(self, session: str, frame: Json) -> None:
        """Law 6: a preview is a row before it is seen."""
        rows = self._ask("SELECT rev FROM session WHERE key = ?", session)
        if not rows or frame["rev"] > rows[0][0]:
            self._broken(f"law 6: rev {frame['rev']} of {session} was shown and is not committed: {rows}")

    def held(self, session: str, view: SessionView) -> None:
        """Law 8: what streams is held as it was recorded up to the rev that its watcher has."""
        for id, seq, text, base in self._ask(_STREAMING, session):
            entry = view.entries.get(seq)
            if entry is None or not entry.get("live") or view.rev is None or base > view.rev:
                continue
            recorded = self._recorded(id, seq, text, base, view.rev)
            if entry["text"] != recorded:
                self._broken(f"law 8: entry {seq} of {session} is watched as {entry['text']!r}, and is {recorded!r}")

    def resent(self, part: int, tail: int) -> None:
        """Law 7: what a person sends once more joins the tail of its line."""
        for line, dest in self._ask("SELECT line, dest FROM part WHERE id = ?", part):
            if line < tail:  # two that are resent may tie
                self._broken(f"law 7: part {part} is resent at place {line} of {dest}, whose tail was {tail}")

    def at_death(self) -> None:
        """Law 6: what streamed when the gateway died was recorded, and may have been seen. It stays."""
        for session in self.world.rooms:
            for id, seq, text, base in self._ask(_STREAMING, session):
                self.cut_off[id, seq] = self._recorded(id, seq, text, base, LAST)


LAST = 1 << 62  # behind every rev

_RESERVED = (
    "SELECT 1 FROM part p JOIN claim c ON c.id = p.claim WHERE p.dest = ? AND p.receipt = ? AND c.outcome = 'quiet'"
)
_CHANGES = (
    "SELECT p.key FROM part p JOIN part r ON r.id = json_extract(p.op, '$.target_part') "
    "WHERE r.dest = ? AND r.receipt = ?"
)
_SAID = (
    "SELECT s.id, e.seq, e.text, e.base FROM session s JOIN entry e ON e.session = s.id "
    "WHERE s.key = ? AND e.role = 'agent'"
)
_REFUSED = """SELECT c.text FROM claim c JOIN session s ON s.id = c.session WHERE s.key = ?
 AND EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND p.state IN ('rejected', 'dropped'))"""
_BOUND = (
    "SELECT substr(e.payload, instr(e.payload, 'look at q') + 8, instr(substr(e.payload, instr(e.payload, 'look at q') "
    "+ 8), ' ') - 1), t.root FROM event e JOIN hearing h ON h.event = e.id JOIN session s ON s.id = h.session "
    "JOIN turn t ON t.id = h.turn WHERE s.key = ? AND instr(e.payload, 'look at q')"
)
_STREAMING = (
    "SELECT s.id, e.seq, e.text, e.base FROM session s JOIN entry e ON e.session = s.id WHERE s.key = ? AND e.live = 1"
)
_PIECES = "SELECT text FROM piece WHERE session = ? AND entry = ? AND rev > ? AND rev <= ? ORDER BY rev"
