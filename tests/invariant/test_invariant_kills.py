"""`kill -9` of the gateway, of agents and of tools, at every moment of a turn: real processes, real `semel up`.

Each conversation is brought to its moment; then all that is to die dies at once, and each is judged.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import invariant_judge as judge
import pytest
from invariant_house import Router, in_room
from invariant_judge import Record, asked
from invariant_ways import ASK, ASKED, HANG, LOOK, RETRY, SHELL, SLOW, WITHDRAWN, error, held, send, sends
from model_server import Answer
from system_house import House, Receiver, channel, opened, receiver, until
from system_house import script as typed
from test_model_system import served

from semel.testing.scripted_agent import command, read_prompts

pytestmark = pytest.mark.storm

Json = dict[str, Any]
HALF: Json = {"text": "Half of ", "chunks": 1}
DOWN = error("503 Unavailable")


@dataclass(frozen=True)
class Moment:
    """Where a turn is when it is hit, and what is there afterwards. `again`: what an agent does that is asked again
    (by the same words, or to go on)."""

    name: str
    sees: str
    acp: Sequence[Any]
    model: Sequence[Answer]
    again: str
    shown: Sequence[str]
    last: Sequence[str]
    all: Sequence[str]


def moments() -> list[Moment]:
    whole, other = "Half of it, and the rest.", "Other words."
    return [
        Moment("before", "asked", [HANG], [held("", "it")], whole, [f"agent: {whole}"], [whole], [whole]),
        Moment("text", "text", [HALF, HANG], [held("Half of ", "it")], whole,
               ["agent partial superseded: Half of ", f"agent: {whole}"], [whole], [whole]),
        Moment("other", "text", [HALF, HANG], [held("Half of ", "it")], other,
               ["agent partial: Half of ", f"agent: {other}"], [other], [other]),
        Moment("send", "sent", [send("On it."), HANG], [Answer(calls=[sends("On it.")]), held("", "x")], "Done.",
               ["sent: On it.", "agent: Done."], ["On it.", "Done."], ["On it.", "Done."]),
        Moment("tool", "tool", ["Building.", SLOW], [Answer(["Building."], calls=[SHELL])], "Built.",
               ["agent: Building.", "agent: Built."], ["Built."], ["Building.", "Built."]),
        Moment("cut", "text", ["See.", LOOK, HALF, HANG],
               [Answer(["See."], calls=[("list", {})]), held("Half of ", "it")], whole,
               ["agent: See.", "agent partial superseded: Half of ", f"agent: {whole}"], [whole], ["See.", whole]),
        Moment("silent", "text", ["See.", LOOK, HALF, HANG],
               [Answer(["See."], calls=[("list", {})]), held("Half of ", "it")], "",
               ["agent: See.", "agent partial: Half of "], ["Half of "], ["See.", "Half of "]),
        Moment("ask", "permission", ["May I?", ASK], [Answer(["May I?"], calls=[SHELL])], "Asked again.",
               ["agent: May I?", *(f"notice permission: {told}" for told in (ASKED, WITHDRAWN)), "agent: Asked again."],
               ["May I?", ASKED, WITHDRAWN, "Asked again."], ["May I?", ASKED, WITHDRAWN, "Asked again."]),
    ]  # fmt: skip


RETRIED = Moment("retry", "retry", [DOWN], [Answer(status=503)], "Back.", [RETRY, "agent: Back."], ["Back."], ["Back."])
OVER = Moment("over", "idle", ["Said."], [Answer(["Said."])], "Never.", ["agent: Said."], ["Said."], ["Said."])


@dataclass
class Talk:
    """One conversation in the house, and what it saw before it was hit."""

    hall: Hall
    kind: str  # acp, model
    narration: str
    moment: Moment
    people: list[str] = field(default_factory=list)
    held: dict[int, Json] = field(default_factory=dict)
    rev: int = 0

    @property
    def name(self) -> str:
        return f"{self.hall.round}{self.kind}{self.narration}{self.moment.name}"

    @property
    def key(self) -> str:
        agent = {"acp": "demo", "serves": "serves"}.get(self.kind, "model")
        asks = agent == "model" and self.moment.sees == "permission"
        return f"{'asks' if asks else agent}:{self.narration}:{self.name}"

    def begin(self) -> None:
        first, again = list(self.moment.acp), [self.moment.again] if self.moment.again else []
        if self.kind == "acp":
            tools = any(isinstance(one, dict) and {"call", "tool"} & one.keys() for one in first)
            later = {"resume": again or [{"think": "Nothing to add."}]} if tools else {"attempts": [first, again]}
            self._say(typed(*first, name=f"<<{self.name}>> 1", **later))
        else:
            self.hall.router.answers[self.name] = deque([*self.moment.model, Answer(again)])
            self._say(f"Question 1 <<{self.name}>>")

    def _say(self, text: str) -> None:
        self.people.append(text)
        self.hall.house.say(self.key, text)

    def at_its_moment(self) -> bool:
        if self.moment.sees == "asked":
            return bool(self.given() if self.kind == "acp" else self.hall.router.asked.get(self.name))
        if self.moment.sees == "idle":
            told = self.hall.house.session(self.key)
            return told is not None and told["state"] == "idle" and self.hall.house.texts(self.key) == ["Said."]
        with self.hall.looking() as db:
            return bool(asked(db, _SEEN[self.moment.sees], self.key))

    def look(self) -> None:
        """What a watcher holds now."""
        told = self.hall.house.get(f"/v1/sessions/{self.key}/entries", after=self.rev)
        self.held |= {one["seq"]: one for one in told["entries"]}
        self.rev = told["rev"]

    def given(self) -> list[str]:
        log = self.hall.house.home / "prompts"
        return [one.text for one in read_prompts(log) if f"<<{self.name}>>" in one.text]

    def received(self) -> list[str]:
        return in_room(self.hall.rooms[self.narration], self.name)

    def judged(self, shown: Sequence[str], delivered: Sequence[str]) -> Record:
        record = Record.of(self.hall.ledger, self.key)
        judge.transcript(record, self.people)
        judge.shown(record, shown)
        judge.received(record, self.received(), delivered)
        self.look()
        judge.view(record, self.held.values())
        return record

    def goes_on(self) -> None:
        """The next message, and what the agent is told with it."""
        if self.kind == "acp":
            self._say(typed("Then this.", name=f"<<{self.name}>> 2"))
        else:
            self.hall.router.answers[self.name] = deque([Answer(["Then this."])])
            self._say(f"Question 2 <<{self.name}>>")

    def told(self, record: Record) -> None:
        if self.kind == "acp":
            judge.prompts(record, self.given())
            judge.cut_off(record, self.given())
        else:
            judge.history(record, self.hall.router.asked[self.name][-1].talk)
            judge.cut_in_history(record, self.hall.router.asked[self.name][-1].talk)


_OF = "FROM {0} JOIN session ON session.id = {0}.session WHERE session.key = ?"
_SEEN = {
    "text": f"SELECT 1 {_OF.format('entry')} AND role = 'agent' AND live = 1",
    "sent": f"SELECT 1 {_OF.format('entry')} AND role = 'agent' AND more ->> 'tool'",
    "retry": f"SELECT 1 {_OF.format('entry')} AND more ->> 'kind' = 'retry'",
    "tool": f"SELECT 1 {_OF.format('item')} AND kind = 'tool' AND body ->> 'status' = 'running'",
    "permission": f"SELECT 1 {_OF.format('item')} AND kind = 'permission' AND body ->> 'state' = 'open'",
}


@dataclass
class Hall:
    """A house with agents of both kinds, and two chats."""

    house: House
    router: Router
    rooms: dict[str, Receiver]
    round: str = ""

    @property
    def ledger(self) -> Path:
        return self.house.data / "ledger.db"

    @contextmanager
    def looking(self) -> Iterator[apsw.Connection]:
        with closing(apsw.Connection(str(self.ledger), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            yield db

    def spawned(self, talks: Sequence[Talk]) -> list[int]:
        """The pids of these conversations' agents."""
        with self.looking() as db:
            sql = f"SELECT pid {_OF.format('spawn')} AND spawn.state = 'live' AND pid IS NOT NULL"
            return [row["pid"] for one in talks for row in asked(db, sql, one.key)]

    def brought(self, talks: list[Talk]) -> list[Talk]:
        """Each conversation at its moment."""
        for one in talks:
            one.begin()
        for one in talks:
            until(one.at_its_moment, f"{one.name} at its moment")
            one.look()
        return talks

    def judged(self, talks: Sequence[Talk]) -> None:
        """Each came to rest, and holds what it should; so do the next turns."""
        for one in talks:
            self.house.idle(one.key)
        self.house.settled()
        for one in talks:
            one.judged(one.moment.shown, getattr(one.moment, one.narration))
        for one in talks:
            one.goes_on()
        for one in talks:
            self.house.idle(one.key)
        self.house.settled()
        for one in talks:
            delivered = [*getattr(one.moment, one.narration), "Then this."]
            one.told(one.judged([*one.moment.shown, f"user: {one.people[-1]}", "agent: Then this."], delivered))
        self.house.doctor()


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    router, home = Router(), tmp_path_factory.mktemp("kills")
    (home / "work").mkdir()
    with ExitStack() as stack:
        api = stack.enter_context(served(*[router] * 500))  # type: ignore[arg-type]
        rooms = {name: stack.enter_context(receiver()) for name in ("last", "all")}
        house = House(home, config(home, api.url, rooms), env={"MODEL_KEY": "sk-of-the-test"})
        yield Hall(stack.enter_context(opened(house)), router, rooms)


MODEL = """kind = "model"
model = "openai-chat:scripted"
base_url = "{url}/v1"
key = "env:MODEL_KEY"
cwd = "work"
"""


def config(home: Path, url: str, rooms: dict[str, Receiver]) -> str:
    model = MODEL.format(url=url)
    server = json.dumps([sys.executable, str(Path(__file__).parents[1] / "model" / "mcp_server.py")])
    return "\n".join(
        [
            "[gateway]\nmax_live_agents = 64",
            f"[agents.demo]\ncommand = {json.dumps(command(log=home / 'prompts'))}",
            f'[agents.model]\n{model}permissions = "allow"',
            f'[agents.asks]\n{model}permissions = "ask"',
            f'[agents.serves]\n{model}permissions = "allow"\n[agents.serves.mcp.slow]\ncommand = {server}',
            *(channel(name, rx.url, narration=name) for name, rx in rooms.items()),
        ]
    )


def test_the_gateway_is_killed(hall: Hall) -> None:
    hall.round = "g"
    both = [Talk(hall, kind, "last", moment) for kind in ("acp", "model") for moment in (*moments(), RETRIED, OVER)]
    chatty = [Talk(hall, kind, "all", m) for kind in ("acp", "model") for m in moments() if m.name in ("other", "cut")]
    talks = hall.brought([*both, *chatty])
    hall.house.kill()
    hall.house.up()
    hall.judged(talks)


def test_agents_are_killed(hall: Hall) -> None:
    hall.round = "a"
    talks = [Talk(hall, "acp", "last", moment) for moment in moments()]
    talks += [Talk(hall, "acp", "all", moment) for moment in moments() if moment.name in ("other", "cut")]
    hall.brought(talks)
    for pid in hall.spawned(talks):
        os.kill(pid, signal.SIGKILL)
    hall.judged(talks)


def test_tools_are_killed(hall: Hall, tmp_path: Path) -> None:
    """MCP processes between two calls, and a command that runs: the turn goes on, and nothing is said twice."""
    hall.round = "t"
    go = tmp_path / "go"
    more = [send("One."), {"wait": str(go)}, {**send("Two."), "reissue": True}, "Done."]
    two = ["sent: One.", "sent: Two.", "agent: Done."]
    own = Moment("own", "sent", more, [], "", two, ["One.", "Two.", "Done."], [])
    killed = [Answer(["Building."], calls=[SHELL]), Answer(["It was killed."])]
    words = ["agent: Building.", "agent: It was killed."]
    shell = Moment("shell", "tool", [], killed, "", words, ["It was killed."], [])
    waits = ("shell", {"command": f"while [ ! -e {go} ]; do sleep 0.05; done"})
    gone = [Answer(["Wait."], calls=[waits]), Answer(calls=[("slow_add", {"a": 1, "b": 2})]), Answer(["It is gone."])]
    mcp = Moment("mcp", "tool", [], gone, "", ["agent: Wait.", "agent: It is gone."], ["It is gone."], [])
    talks = [Talk(hall, "acp", "last", own), Talk(hall, "model", "last", shell), Talk(hall, "serves", "last", mcp)]
    hall.brought(talks)
    assert hall.house.process is not None
    gateway = [hall.house.process.pid]
    doomed = [*children(hall.spawned(talks[:1]), "semel.tools"), *children(gateway, "sleep 60")]
    for pid in [*doomed, *children(gateway, "mcp_server.py")]:
        os.kill(pid, signal.SIGKILL)
    go.touch()
    hall.judged(talks)


def children(of: Sequence[int], what: str) -> list[int]:
    """The processes below these whose command line holds it."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    below, found = set(of), []
    while grown := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= grown
    found = [pid for pid in below if what in lines.get(pid, "")]
    assert found, (what, lines)
    return found
