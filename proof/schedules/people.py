"""People and programs outside: they write, ask the API again until they have an answer, watch, stop, and settle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from proof.schedules.chance import EPOCH
from proof.schedules.wires import Gone, Outside, Pipe
from semel.faces.view import SessionView
from semel.gateway import Gateway
from semel.gateway.errors import Conflict, GatewayError, GatewayUnavailable, NoSuchSession
from semel.gateway.ports import Heard, Incoming, Person

if TYPE_CHECKING:
    from proof.schedules.world import World

T = TypeVar("T")
Json = dict[str, Any]
AGAIN = 0.7  # seconds until a client asks again
PATIENCE = 5.0  # the longest that a watcher waits until it looks again for a gateway that is gone, in seconds


@dataclass
class Said:
    """What one API client was told about one event, attempt by attempt."""

    source: str
    key: str
    mark: str
    answers: list[tuple[str, int]] = field(default_factory=list)  # status, event
    done: bool = False


class Watcher:
    """Somebody who watches one session over every death of the gateway, and holds what they were told."""

    def __init__(self, world: World, session: str) -> None:
        self.world, self.session = world, session
        self.view = SessionView()
        self.final: dict[int, str] = {}
        self.faults: list[str] = []
        self._there = asyncio.Event()
        self._away = asyncio.Event()
        self.come()
        self._line = 0  # the number of its connection
        self._vain = 0  # how often it found nobody since

    def __repr__(self) -> str:
        return f"<Watcher of {self.session}, {self.view!r}{', away' if self.away else ''}>"

    @property
    def away(self) -> bool:
        return self._away.is_set()

    def go(self) -> None:
        """They close the page."""
        self._there.clear()
        self._away.set()

    def come(self) -> None:
        """They are back, with the rev that they had."""
        self._away.clear()
        self._there.set()

    async def run(self) -> None:
        """Connect, and connect again."""
        while True:
            await self._there.wait()
            await self._connected()
            await asyncio.sleep(0.02 + self.world.outside.lag(0.4) + min(PATIENCE, 0.01 * self._vain))

    async def _connected(self) -> None:
        self._line += 1
        line, after = self._line, self.view.rev
        pipe = Pipe(self.world.outside, lambda frame: self._take(frame, line))
        over = asyncio.Event()
        gateway = self.world.gateway
        self._vain = self._vain + 1 if gateway is None else 0
        if gateway is None:
            return
        stream = self.world.ask(lambda: follow(gateway, self.session, after, pipe, over))
        leaving = asyncio.ensure_future(self._away.wait())
        try:
            await asyncio.wait({stream, leaving}, return_when=asyncio.FIRST_COMPLETED)
            over.set()
            await stream
        except (Gone, GatewayError):
            pass
        finally:
            leaving.cancel()
            self._line += 1  # nothing of that connection is read any more

    def _take(self, frame: Json, line: int) -> None:
        if line != self._line:
            return
        self.world.witness.seen(self.session, frame)
        before = self.view.rev
        for change in frame.get("changes", ()):
            if before is not None and change["rev"] <= before:
                self.faults.append(f"a watcher of {self.session} at rev {before} was told rev {change['rev']} again")
        self.view.apply(frame)
        self.world.witness.held(self.session, self.view)
        self.world.people.sees(self.session, self.view)
        for seq, entry in self.view.entries.items():
            if not entry.get("live") and self.final.setdefault(seq, entry["text"]) != entry["text"]:
                self.faults.append(
                    f"entry {seq} of {self.session} was {self.final[seq]!r} and became {entry['text']!r}"
                )
                self.final[seq] = entry["text"]


async def follow(gateway: Gateway, session: str, after: int | None, pipe: Pipe, over: asyncio.Event) -> None:
    """In the gateway's process: frames into the wire, until the other end hangs up."""
    frames = gateway.watch(session, after)
    ending = asyncio.ensure_future(over.wait())
    try:
        while True:
            step = asyncio.ensure_future(anext(frames))
            await asyncio.wait({step, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                step.cancel()
                await asyncio.wait({step})
                return
            try:
                pipe.put(step.result())
            except StopAsyncIteration:
                return
    finally:
        ending.cancel()
        await frames.aclose()


class People:
    """Who acts in a plan."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.outside: Outside = world.outside
        self.said: list[Said] = []
        self.told: dict[str, list[Incoming]] = {name: [] for name in world.platforms}
        self.watchers = [Watcher(world, session) for session in world.rooms]
        self.automatic: set[str] = set()  # keys of what programs wrote
        self.asked: dict[int, str] = {}  # permission requests that somebody saw, in order -> session
        self.permitted: list[tuple[int, str, str]] = []  # (item, option, what the gateway said to it)
        self.stopped: set[str] = set()  # sessions where somebody stopped, or began anew
        self._acting = 0

    def busy(self) -> str | None:
        return f"{self._acting} people still act" if self._acting else None

    def behind(self) -> str | None:
        """Which watcher was not told everything yet."""
        for watcher in self.watchers:
            rows = self.world.look.execute("SELECT rev FROM session WHERE key = ?", (watcher.session,)).fetchall()
            if rows and not watcher.faults and watcher.view.rev != rows[0][0]:
                return f"{watcher!r} is not at rev {rows[0][0]}"
        return None

    def watch(self) -> None:
        for watcher in self.watchers:
            self.outside.run(watcher.run(), "watcher")

    def act(self, n: int, action: Json, seconds: float) -> None:
        """This is to happen in so many seconds."""
        name = f"_{action['do']}"
        deed: Callable[[Json], Awaitable[None]] | None
        deed = getattr(self, name, None) or getattr(self.world.editors, name, None)
        if deed is not None:
            self._acting += 1
            self.outside.run(self._in(seconds, action, deed), f"{action['do']} {n}")

    async def _in(self, seconds: float, action: Json, deed: Callable[[Json], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        try:
            await deed(action)
        finally:
            self._acting -= 1

    # ------------------------------------------------------------ what they do

    async def _hear(self, action: Json) -> None:
        room = self.world.rooms[action["room"]]
        _, name, address = room.split(":")
        platform = self.world.platforms[name]
        key = f"{name}-{action['mark']}"
        bot = action.get("bot", False)
        text, at = f"please look at {action['mark']} now", self._now()
        event = Incoming("message", key, address, Person("ann", "Ann", bot), text, at=at)
        if bot:
            self.automatic.add(key)
        for _ in range(action.get("copies", 1)):
            platform.tell(event)
            self.told[name].append(event)

    def _now(self) -> float:
        """By the platforms' clock, which need not be ours."""
        skew: float | None = self.world.plan.shape.get("skew")
        return 0.0 if skew is None else EPOCH / 1000 + self.world.loop.time() + skew

    async def _change(self, action: Json) -> None:
        """Somebody edits, deletes or reacts to what they wrote before."""
        _, name, address = self.world.rooms[action["room"]].split(":")
        of, what = f"{name}-{action['mark']}", action["what"]
        text = {"edit": "please look at something else", "delete": "", "reaction": "👍"}[what]
        event = Incoming(what, f"{of}-{what}", address, Person("ann", "Ann"), text, of=of, at=self._now())
        self.world.platforms[name].tell(event)
        self.told[name].append(event)

    async def _garble(self, action: Json) -> None:
        """The platform tells of something that nobody can read."""
        name = self.world.rooms[action["room"]].split(":")[1]
        event = Incoming("unreadable", f"{name}-{action['mark']}", raw=b"{half of it", why="it breaks off")
        self.world.platforms[name].tell(event)
        self.told[name].append(event)

    async def _series(self, action: Json) -> None:
        """Somebody makes a schedule, and pauses it much later."""
        name, session, every = f"series{action['room']}", self.world.rooms[action["room"]], f"{action['every']}s"

        async def make(gateway: Gateway) -> Any:
            text, downtime = "look at the clock", action["downtime"]
            return await gateway.schedules.add(name, text, session=session, every=every, downtime=downtime)

        await self._persist(lambda: self._there(make))
        await asyncio.sleep(action["for"])
        await self._persist(lambda: self._there(lambda gateway: gateway.schedules.pause(name)))

    async def _there(self, deed: Callable[[Gateway], Awaitable[T]]) -> T:
        gateway = self.world.gateway
        if gateway is None:
            raise Gone
        return await deed(gateway)

    async def _say(self, action: Json) -> None:
        session, mark = self.world.rooms[action["room"]], action["mark"]
        one = Said(f"api:{session}", f"k-{mark}", mark)
        self.said.append(one)
        text = f"please look at {mark} now"

        async def ask(words: str) -> Heard:
            gateway = self.world.gateway
            if gateway is None:
                raise Gone
            return await gateway.say(session, words, sender="Ann", key=one.key, busy=action.get("busy"))

        await self._until_answered(one, lambda: ask(text), action)
        if action.get("other"):
            heard = await self._persist(lambda: ask("something else altogether"))
            one.answers.append((f"other {heard.status}", heard.event))

    async def _report(self, action: Json) -> None:
        session, mark = self.world.rooms[action["room"]], action["mark"]
        one = Said(f"api:{session}", f"k-{mark}", mark)
        self.said.append(one)

        async def ask() -> Heard:
            gateway = self.world.gateway
            if gateway is None:
                raise Gone
            return await gateway.report(session, "build.done", f"{mark} is built", key=one.key, wakes=action["wakes"])

        await self._until_answered(one, ask, action)

    async def _until_answered(self, one: Said, ask: Callable[[], Awaitable[Heard]], action: Json) -> None:
        """As a client does that must not lose it: again, under the same key, until there is an answer."""
        for _ in range(action.get("lose", 0)):
            await asyncio.sleep(AGAIN)  # the request never arrived
        for n in range(1 + action.get("drop", 0) + action.get("again", 0)):
            heard = await self._persist(ask)
            if n >= action.get("drop", 0):  # before that the answer was lost
                self.world.witness.answered(one, heard)
                one.answers.append((heard.status, heard.event))
        one.done = True

    async def _persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                await asyncio.sleep(self.outside.lag())
                return await self.world.ask(ask)
            except (Gone, GatewayUnavailable):
                await asyncio.sleep(AGAIN)

    async def _command(self, action: Json) -> None:
        session = self.world.rooms[action["room"]]
        self.stopped.add(session)

        async def ask() -> Heard:
            gateway = self.world.gateway
            if gateway is None:
                raise Gone
            return await gateway.say(session, action["text"], sender="Ann", key=f"c-{action['text']}-{action['room']}")

        await self._persist(ask)

    async def _once(self, deed: Callable[[Gateway], Awaitable[Any]]) -> None:
        gateway = self.world.gateway
        if gateway is None:
            return
        try:
            await self.world.ask(lambda: deed(gateway))
        except (Gone, GatewayUnavailable, NoSuchSession, Conflict):
            return

    async def _stop(self, action: Json) -> None:
        session = self.world.rooms[action["room"]]
        self.stopped.add(session)

        async def stop(gateway: Gateway) -> None:
            await gateway.controls.stop_turn(session, "Ann")
            self.world.happens("stop")

        await self._once(stop)

    def sees(self, session: str, view: SessionView) -> None:
        """Somebody looks at a session: perhaps they answer what is asked there."""
        for item in view.open_questions():
            if item["id"] in self.asked:
                continue
            n = sum(one == session for one in self.asked.values())
            self.asked[item["id"]] = session
            for number, one in enumerate(self.world.plan.actions):
                if one["do"] == "permit" and one["n"] == n and self.world.rooms[one["room"]] == session:
                    self.act(number, {**one, "item": item["id"]}, one["in"])

    async def _permit(self, action: Json) -> None:
        session, item, option = self.world.rooms[action["room"]], action["item"], action["option"]
        if action["how"] == "chat" and self.world.plan.shape["rooms"][action["room"]] != "web":
            _, name, address = session.split(":")
            words = "/approve" if option == "once" else "/deny"
            event = Incoming("message", f"{name}-p{item}", address, Person("ann", "Ann"), words)
            self.world.platforms[name].tell(event)
            self.told[name].append(event)
            return
        for _ in range(2 if action.get("twice") else 1):
            status = await self._persist(
                lambda: self._there(lambda gateway: gateway.controls.answer(session, item, option, "Ann"))
            )
            self.permitted.append((item, option, status))

    async def _busy(self, action: Json) -> None:
        await self._once(lambda gateway: gateway.controls.set_busy(self.world.rooms[action["room"]], action["mode"]))

    async def _blink(self, action: Json) -> None:
        watcher = self.watchers[action["room"]]
        watcher.go()
        await asyncio.sleep(action["for"])
        watcher.come()

    async def _decide(self, action: Json) -> None:
        async def settle(gateway: Gateway) -> None:
            for part in await gateway.parts("held"):
                before = self._tail_of(part["id"])
                await gateway.decide_part(part["id"], action["what"])
                if action["what"] == "resend":
                    self.world.witness.resent(part["id"], before)

        await self._once(settle)

    def _tail_of(self, part: int) -> int:
        """The last place in the line that a part belongs to."""
        sql = "SELECT max(line) FROM part WHERE dest = (SELECT dest FROM part WHERE id = ?) AND id <> ?"
        (found,) = next(iter(self.world.look.execute(sql, (part, part))))
        return int(found or 0)

    async def _restart(self, action: Json) -> None:
        await self.world.restart(action["grace"], action["down"])
