"""Channels to test with: one of each safety class, on a platform that keeps a log and can be told to fail.

    platform = Platform()
    channel = FakeChannel("chat", Safety.AT_MOST_ONCE, platform)
    platform.fail_next(Fault.DROP)          # it takes the message, and the answer is lost
    ...
    assert platform.shown("room") == ["hello"]

`platform.log` is what the platform committed, in its order: hold it against the ledger. `platform.attempts`
counts every call of `send`, so that a hidden retry shows.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from semel.gateway.ports import Caps, Inbox, Incoming, Kept, NotSent, Op, Receipt, Rejected, Safety, Unknown


class Fault(enum.Enum):
    """What goes wrong with one attempt."""

    DROP = "the platform takes it, and its answer is lost"
    LOSE = "the connection breaks before the platform took it, and nobody can tell"
    REFUSE = "the connection is refused: provably not sent"
    LIMIT = "429: not now, with a Retry-After"
    REJECT = "the platform's definite no"
    ERROR = "500: no answer that settles it; not taken"
    ERROR_AFTER = "500, though the platform took it"
    HANG = "no answer, ever; not taken"
    HANG_AFTER = "no answer, ever, though the platform took it"
    BUG = "the channel's code raises what it never promised"
    KILL = "SIGKILL to this process before the platform took it"
    KILL_AFTER = "SIGKILL to this process after the platform took it"


_TAKEN = frozenset({Fault.DROP, Fault.ERROR_AFTER, Fault.HANG_AFTER, Fault.KILL_AFTER})
"""Faults that strike after the platform took the message."""


@dataclass(frozen=True)
class Post:
    """One thing the platform took."""

    id: str
    key: str
    address: str
    text: str
    kind: str = "post"
    target: str | None = None
    marked: bool = False


@dataclass
class Platform:
    """A platform's own truth: what it took, in order. `folds`: it answers a repeated key with the first
    id."""

    folds: bool = False
    retry_after: float | None = 5.0  # seconds, with Fault.LIMIT
    log: list[Post] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)  # by key
    finds: Counter[str] = field(default_factory=Counter)  # by key
    plan: deque[Fault | None] = field(default_factory=deque)
    always: Callable[[Op], Fault | None] = field(default=lambda op: None)
    findable: bool = True  # False: looking up fails, too

    def fail_next(self, *faults: Fault | None) -> None:
        """What the next attempts meet, in order; None: nothing goes wrong."""
        self.plan.extend(faults)

    def fail_always(self, fault: Fault | None, address: str | None = None) -> None:
        """What every attempt meets from now on (to one address, if given); None ends it."""
        self.always = lambda op: fault if address in (None, op.address) else None

    def shown(self, address: str) -> list[str]:
        """The texts a person sees there."""
        return [post.text for post in self.log if post.address == address and post.kind == "post"]

    def take(self, op: Op) -> Post:
        """Commit one message."""
        for post in self.log:
            if self.folds and post.key == op.key:
                return post
        post = Post(f"m{len(self.log) + 1}", op.key, op.address, op.text, op.kind, op.target, op.marked)
        self.log.append(post)
        return post

    async def meet(self, op: Op) -> Receipt:
        """One attempt, with whatever goes wrong with it."""
        self.attempts[op.key] += 1
        fault = self.plan.popleft() if self.plan else self.always(op)
        post = self.take(op) if fault is None or fault in _TAKEN else None
        if fault is None:
            assert post is not None
            return Receipt(post.id)
        raise await self._trouble(fault)

    async def _trouble(self, fault: Fault) -> Exception:
        match fault:
            case Fault.REFUSE:
                return NotSent("connection refused")
            case Fault.LIMIT:
                return NotSent("429 Too Many Requests", self.retry_after)
            case Fault.REJECT:
                return Rejected("403 Forbidden")
            case Fault.HANG | Fault.HANG_AFTER:
                await asyncio.Event().wait()
            case Fault.KILL | Fault.KILL_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
            case Fault.BUG:
                return RuntimeError("a bug in this channel")
        return Unknown(fault.value)


def caps_of(safety: Safety, **facts: Any) -> Caps:
    """A table of facts that fits a class; `facts` override it."""
    usual: dict[str, Any] = {"timeout": 30.0, "edits": True, "reactions": True, "files": True}
    if safety is Safety.IDEMPOTENT:
        usual["key_life"] = 3600.0
    if safety is Safety.RECONCILABLE:
        usual |= {"settle": 1.0, "finds": True}
    return Caps(safety=safety, **(usual | facts))


class FakeChannel:
    """A channel of any safety class. `facts` are fields of `Caps`."""

    def __init__(self, name: str, safety: Safety, platform: Platform | None = None, **facts: Any) -> None:
        self.name = name
        self.caps = caps_of(safety, **facts)
        self.platform = platform or Platform(folds=safety is Safety.IDEMPOTENT)
        self.running = False
        self._incoming: asyncio.Queue[_Update] = asyncio.Queue()

    def __repr__(self) -> str:
        return f"<FakeChannel {self.name} {self.caps.safety}, {len(self.platform.log)} posts>"

    async def send(self, op: Op) -> Receipt:
        return await self.platform.meet(op)

    async def find(self, op: Op, since: float) -> Receipt | None:
        self.platform.finds[op.key] += 1
        if not self.platform.findable:
            raise Unknown("the platform's history does not answer")
        return next((Receipt(post.id) for post in self.platform.log if post.key == op.key), None)

    # ------------------------------------------------------------ what people do there

    def write(self, address: str, text: str, *, key: str, copies: int = 1, **more: Any) -> asyncio.Future[None]:
        """A program that has shown a secret reports, as `Inbox.hear` takes it; `copies` times. Done once the last copy
        was acknowledged."""

        async def hear(inbox: Inbox) -> None:
            session = f"main:{self.name}:{address}"
            await inbox.hear(session=session, key=key, text=text, **more)

        return self._soon(hear, copies)

    def tell(self, *events: Incoming, cursor: str | None = None, copies: int = 1) -> asyncio.Future[None]:
        """People do something there, told in one batch with the cursor behind it; `copies` times. Done once the last
        copy was acknowledged.

        channel.tell(Incoming("message", "m1", "room", Person("ann", "Ann"), "hello"), cursor="1")
        """

        async def put(inbox: Inbox) -> None:
            await inbox.put(events, cursor)

        return self._soon(put, copies)

    def bounce(self, post: Post, why: str, *, key: str = "", copies: int = 1) -> asyncio.Future[None]:
        """The platform tells that a message failed which it had taken; `copies` times."""
        return self.tell(Incoming("failed", key or f"failed/{post.id}", of=post.id, text=why), copies=copies)

    def attach(self, name: str, content: bytes, mime: str = "application/octet-stream") -> asyncio.Future[Kept]:
        """A file comes with the next message: done once it is in the store. Its result goes into `Incoming.files`."""

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(content), 65536):
                yield content[at : at + 65536]

        async def keep(inbox: Inbox) -> Kept:
            return await inbox.keep(name, mime, pieces())

        return self._soon(keep, 1)

    def lose(self, fault: Exception) -> None:
        """`run` ends with this, once what was told before was put: `Offline`, `Denied`, or a mistake of its own."""

        async def fail(inbox: Inbox) -> None:
            raise fault

        self._incoming.put_nowait((fail, 1, None))

    def _soon(self, what: Callable[[Inbox], Awaitable[Any]], copies: int) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._incoming.put_nowait((what, copies, done))
        return done

    async def run(self, inbox: Inbox) -> None:
        self.running = True
        try:
            inbox.online()
            while True:
                what, copies, done = await self._incoming.get()
                result = None
                for _ in range(copies):
                    result = await what(inbox)
                if done is not None and not done.done():
                    done.set_result(result)
        finally:
            self.running = False


_Update = tuple[Callable[[Inbox], Awaitable[Any]], int, "asyncio.Future[Any] | None"]
