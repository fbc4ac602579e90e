"""Chat platforms, one of each safety class, with a channel of ours at each; faults by the number of the attempt.

A platform is outside: what reached it is taken whatever became of the gateway since, and its log is its own truth.
The channel is part of the gateway's process, and dies with it. Where a platform `streams`, messages can be changed and
removed, and answers are shown while they are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proof.schedules.loop import settle
from proof.schedules.wires import Outside
from semel.gateway.ports import Caps, Inbox, Incoming, NotSent, Offline, Op, Person, Receipt, Rejected, Safety, Unknown

Json = dict[str, Any]

SETTLE = 1.0  # seconds after an attempt when the reconcilable platform knows whether it has the message
LATE = 0.9 * SETTLE  # when a message arrives there that was given up at once
MILLISECOND = 0.001  # the gateway's clock is no finer
FLIGHT = 0.3  # the longest that a request is under way, in seconds: shorter than any restart, and than `settle`
TAKEN = frozenset({"drop", "error after", "hang after"})
"""Faults that strike after the platform took the message."""
FAULTS = ("lose", "drop", "refuse", "limit", "reject", "error", "error after", "hang", "hang after", "late")
"""What an attempt may meet. "late": its answer is lost at once, and it arrives LATE seconds after it left."""


@dataclass(frozen=True)
class Post:
    """One thing the platform took. `id`: of the message that it made, changed or removed; `at`: virtual seconds."""

    id: str
    key: str
    address: str
    text: str
    kind: str
    target: str | None
    marked: bool
    at: float


@dataclass
class Message:
    """What people see. `key`: of what made it; `by`: of what it says now."""

    id: str
    key: str
    address: str
    text: str
    by: str


@dataclass
class Platform:
    """`faults`: what the n-th attempt meets (from 0), and how long its answer takes. `forgets`: an update that was
    acknowledged is never told again."""

    name: str
    safety: Safety
    outside: Outside
    forgets: bool = False
    tells_echo: bool = False
    streams: bool = False
    echo_lag: float = 0.0  # seconds until it tells of our own message
    echo_copies: int = 1
    key_life: float | None = None  # seconds for which it folds a repeated key; None: for ever
    refuses_edits: bool = False
    vanishing: frozenset[int] = frozenset()  # the n-th thing that it took (from 0) is deleted there by others
    failing_looks: int = 0  # so many look-ups get no answer
    down: tuple[float, float] = (0.0, 0.0)  # from when to when nobody is there
    log: list[Post] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)  # by id, in the order in which people see them
    faults: dict[int, Json] = field(default_factory=dict)
    attempts: int = 0
    tried: dict[str, list[str]] = field(default_factory=dict)  # key: what each attempt met
    refused: set[str] = field(default_factory=set)  # keys that it said a definite no to
    waits: dict[str, float] = field(default_factory=dict)  # key: before when it asked not to be tried again
    asking: list[asyncio.Future[Receipt]] = field(default_factory=list)  # of the gateway that lives
    late: list[tuple[float, Op, int]] = field(default_factory=list)  # (when it arrives, what, the attempt's number)
    broken: list[str] = field(default_factory=list)  # promises that it saw broken
    updates: list[Incoming] = field(default_factory=list)
    acknowledged: int = 0
    polls: int = 0
    troubles: dict[int, Json] = field(default_factory=dict)  # what the n-th poll meets
    news: list[Callable[[], None]] = field(default_factory=list)
    at_take: Callable[[Platform, int, str], None] = lambda platform, n, when: None
    departing: Callable[[Platform, Op], None] = lambda platform, op: None
    acknowledging: Callable[[Platform, list[Incoming]], None] = lambda platform, events: None

    def __repr__(self) -> str:
        return f"<Platform {self.name} {self.safety}, {len(self.log)} posts, {len(self.updates)} updates>"

    # ------------------------------------------------------------ what we send

    def request(self, op: Op) -> asyncio.Future[Receipt]:
        """One attempt: the answer, or what there is instead of one."""
        n, self.attempts = self.attempts, self.attempts + 1
        fault = self._fault(op, n)
        answer: asyncio.Future[Receipt] = self.outside.loop.create_future()
        self.asking.append(answer)
        self.tried.setdefault(op.key, []).append(fault.get("what", "fine"))
        self._told_to_wait(op)
        if fault.get("what") == "late":
            self.late.append((self.outside.loop.time() + LATE, op, n))
            self.outside.later(LATE, self._land)
        self.outside.later(self.outside.lag(FLIGHT), self._arrives, op, n, fault, answer)
        return answer

    def _fault(self, op: Op, n: int) -> Json:
        """What the attempt meets. Only a message can be late: a change that is given up is not made any more."""
        fault = self.faults.get(n, {})
        if self.is_down or (self.refuses_edits and op.kind == "edit"):
            return {"what": "refuse" if self.is_down else "reject"}
        return {"what": "lose"} if fault.get("what") == "late" and op.kind != "post" else fault

    @property
    def is_down(self) -> bool:
        return self.down[0] <= self.outside.loop.time() < self.down[1]

    def _told_to_wait(self, op: Op) -> None:
        early = self.waits.pop(op.key, 0.0) - self.outside.loop.time()
        if early > MILLISECOND and not op.marked:  # a person may have it sent at once
            self.broken.append(f"law 7: {self.name} is asked for {op.text!r} {early:.3f} s before it said it may be")

    def _land(self) -> None:
        """What was late is there from its time on, whoever asks."""
        now = self.outside.loop.time()
        there = [one for one in self.late if one[0] <= now]
        self.late = [one for one in self.late if one[0] > now]
        for _, op, n in there:
            self._took(op, n)

    def _took(self, op: Op, n: int) -> Post:
        self.at_take(self, n, "before")
        post = self._take(op)
        self.at_take(self, n, "after")
        return post

    def _arrives(self, op: Op, n: int, fault: Json, answer: asyncio.Future[Receipt]) -> None:
        self._land()
        if op.kind == "edit" and op.target not in self.messages:
            fault = {"what": "reject"}
        what, post = fault.get("what"), None
        if what is None or what in TAKEN:
            post = self._took(op, n)
        elif what != "late":
            self.at_take(self, n, "before")
        if what == "reject":
            self.refused.add(op.key)
        if what not in ("hang", "hang after"):
            seconds = fault.get("slow", 0.0) + self.outside.lag(FLIGHT)
            self.outside.later(seconds, self._answers, op, post, fault, answer)

    def _answers(self, op: Op, post: Post | None, fault: Json, answer: asyncio.Future[Receipt]) -> None:
        match fault.get("what"):
            case None:
                assert post is not None
                settle(answer, Receipt(post.id))
            case "refuse":
                settle(answer, fault=NotSent("connection refused"))
            case "limit":
                seconds = fault.get("after", 3.0)
                if seconds is not None and answer in self.asking and not answer.done():  # else nobody hears it
                    self.waits[op.key] = self.outside.loop.time() + seconds
                settle(answer, fault=NotSent("429 Too Many Requests", seconds))
            case "reject":
                settle(answer, fault=Rejected("403 Forbidden"))
            case what:
                settle(answer, fault=Unknown(str(what)))

    def _take(self, op: Op) -> Post:
        if self.safety is Safety.IDEMPOTENT:
            for post in self.log:
                if post.key == op.key and (self.key_life is None or self.outside.loop.time() < post.at + self.key_life):
                    return post
        id = op.target or f"{self.name}{len(self.log) + 1}"
        at = self.outside.loop.time()
        post = Post(id, op.key, op.address, op.text, op.kind, op.target, op.marked, at)
        self.log.append(post)
        self._show(post)
        if len(self.log) - 1 in self.vanishing:
            self.outside.later(FLIGHT, self.messages.pop, id, None)
        if self.tells_echo and op.kind == "post":
            echo = Incoming("echo", op.key, op.address, Person("us", "us"), of=id)
            for _ in range(self.echo_copies):
                self.outside.later(self.echo_lag, self.tell, echo) if self.echo_lag else self.tell(echo)
        return post

    def _show(self, post: Post) -> None:
        match post.kind:
            case "edit":
                self.messages[post.id].text, self.messages[post.id].by = post.text, post.key
            case "delete":
                self.messages.pop(post.id, None)
            case _:
                self.messages[post.id] = Message(post.id, post.key, post.address, post.text, post.key)

    def find(self, op: Op) -> Receipt | None:
        self._land()
        return next((Receipt(post.id) for post in self.log if post.key == op.key), None)

    # ------------------------------------------------------------ what people do there

    def tell(self, event: Incoming) -> None:
        """People did something; whoever polls is told."""
        self.updates.append(event)
        waiting, self.news = self.news, []
        for call in waiting:
            call()

    def left(self) -> int:
        """Updates that nobody acknowledged yet."""
        return len(self.updates) - self.acknowledged


class SeededChannel:
    """Our end of a platform: `run` polls it, `send` is one request."""

    def __init__(self, platform: Platform, **facts: Any) -> None:
        self.name = platform.name
        self.platform = platform
        streams = platform.streams
        usual: Json = {"timeout": 20.0, "edits": streams, "deletes": streams, "reactions": False, "files": False}
        if platform.safety is Safety.IDEMPOTENT:
            usual["key_life"] = platform.key_life or 100_000.0
        if platform.safety is Safety.RECONCILABLE:
            usual |= {"settle": SETTLE, "finds": True}
        self.caps = Caps(safety=platform.safety, **(usual | facts))

    def __repr__(self) -> str:
        return f"<SeededChannel {self.name} {self.caps.safety}>"

    async def send(self, op: Op) -> Receipt:
        self.platform.departing(self.platform, op)
        return await self.platform.request(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        answer: asyncio.Future[Receipt | None] = asyncio.get_running_loop().create_future()
        outside = self.platform.outside
        if self.platform.failing_looks:
            self.platform.failing_looks -= 1
            outside.later(outside.lag(FLIGHT), settle, answer, None, Unknown("the look-up broke off"))
        else:
            outside.later(outside.lag(FLIGHT), lambda: settle(answer, self.platform.find(op)))
        return await answer

    async def run(self, inbox: Inbox) -> None:
        """Poll from the cursor on; acknowledge what was put."""
        told = await inbox.cursor()
        at = int(told) if told is not None else 0
        if self.platform.forgets:
            at = self.platform.acknowledged
        self.platform.outside.later(self.platform.outside.lag(), self._acknowledged, at)
        inbox.online()
        while True:
            n, trouble = self.platform.polls, self.platform.troubles.get(self.platform.polls, {})
            self.platform.polls = n + 1
            begin, batch = await self._poll(at, trouble.get("again", 0), trouble.get("most", 4))
            if trouble.get("lost") == "before" or self.platform.is_down:
                raise Offline("the connection was lost")
            upto = begin + len(batch)
            if trouble.get("mixed"):
                batch = batch[::-1]
            await inbox.put(batch, str(max(at, upto)))
            self.platform.acknowledging(self.platform, batch)
            at = max(at, upto)
            if trouble.get("lost") == "after":
                raise Offline("the connection was lost")
            self.platform.outside.later(self.platform.outside.lag(), self._acknowledged, at)

    def _acknowledged(self, at: int) -> None:
        self.platform.acknowledged = max(self.platform.acknowledged, at)

    async def _poll(self, at: int, again: int, most: int) -> tuple[int, list[Incoming]]:
        """The next updates behind `at`; `again` of those before it are told once more."""
        platform = self.platform
        while len(platform.updates) <= at:
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            platform.news.append(lambda news=news: platform.outside.later(platform.outside.lag(), settle, news))  # type: ignore[misc]
            await news
        begin = max(platform.acknowledged if platform.forgets else 0, at - again)
        return begin, platform.updates[begin : at + most]
