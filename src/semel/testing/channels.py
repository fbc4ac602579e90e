"""Fake channels of each safety class, on a fake platform that keeps a log and fails on demand.

    platform = Platform()
    channel = FakeChannel("chat", Safety.AT_MOST_ONCE, platform)
    platform.fail_next(Fault.DROP)          # the platform takes the message, and its answer is lost
    ...
    assert platform.shown("room") == ["hello"]

`platform.log` is what the platform took (accepted), in order: compare it with the ledger. `platform.attempts` counts
every call of `send`, so that a test can see hidden retries.
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

from semel.gateway.ports import (
    Button,
    Caps,
    Inbox,
    Incoming,
    Kept,
    NotSent,
    Op,
    Person,
    Receipt,
    Rejected,
    Safety,
    Unknown,
    press_key,
)


class Fault(enum.Enum):
    """What goes wrong with one attempt to send a message ("it")."""

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


_FAULTS_AFTER_TAKING = frozenset({Fault.DROP, Fault.ERROR_AFTER, Fault.HANG_AFTER, Fault.KILL_AFTER})
"""Faults that strike after the platform took the message."""


@dataclass(frozen=True)
class Post:
    """One message, edit, reaction or deletion that the platform took."""

    id: str
    key: str
    address: str
    text: str
    kind: str = "post"
    target: str | None = None
    marked: bool = False
    buttons: tuple[Button, ...] = ()


@dataclass
class Platform:
    """A fake platform: it records the messages that it takes, and fails as planned.

    `folds`: whether a message with a known key is answered with the first id and not taken again. `log`: what it took,
    in order. `attempts`, `finds`: the calls of `send` and `find`, by key. `plan`: the faults of the next attempts;
    after them, `always` chooses the fault of each attempt.
    """

    folds: bool = False
    retry_after: float | None = 5.0  # seconds, with Fault.LIMIT
    log: list[Post] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    finds: Counter[str] = field(default_factory=Counter)
    plan: deque[Fault | None] = field(default_factory=deque)
    always: Callable[[Op], Fault | None] = field(default=lambda op: None)
    findable: bool = True  # if False, `find` raises Unknown

    def fail_next(self, *faults: Fault | None) -> None:
        """Plan the faults of the next attempts, in order; None lets an attempt succeed."""
        self.plan.extend(faults)

    def fail_always(self, fault: Fault | None, address: str | None = None) -> None:
        """Let every later attempt fail with this fault, or only those to `address`. None ends this."""
        self.always = lambda op: fault if address in (None, op.address) else None

    def shown(self, address: str) -> list[str]:
        """Return the texts that a person sees at this address, in order."""
        return [post.text for post in self.log if post.address == address and post.kind == "post"]

    def take(self, op: Op) -> Post:
        """Record one message that the platform takes. Returns its post, or the first one with its key if `folds`."""
        for post in self.log:
            if self.folds and post.key == op.key:
                return post
        post = Post(f"m{len(self.log) + 1}", op.key, op.address, op.text, op.kind, op.target, op.marked, op.buttons)
        self.log.append(post)
        return post

    async def meet(self, op: Op) -> Receipt:
        """Answer one attempt to send: return a receipt, or raise the error of the planned fault."""
        self.attempts[op.key] += 1
        fault = self.plan.popleft() if self.plan else self.always(op)
        post = self.take(op) if fault is None or fault in _FAULTS_AFTER_TAKING else None
        if fault is None:
            assert post is not None
            return Receipt(post.id)
        raise await self._make_error(fault)

    async def _make_error(self, fault: Fault) -> Exception:
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
    """Return the `Caps` of a typical channel of this safety class; `facts` replace single fields."""
    usual: dict[str, Any] = {"timeout": 30.0, "edits": True, "reactions": True, "files": True}
    if safety is Safety.IDEMPOTENT:
        usual["key_life"] = 3600.0
    if safety is Safety.RECONCILABLE:
        usual |= {"settle": 1.0, "finds": True}
    return Caps(safety=safety, **(usual | facts))


class FakeChannel:
    """A channel of any safety class on a fake `Platform`. `facts`: fields of its `Caps` that differ from `caps_of`."""

    def __init__(self, name: str, safety: Safety, platform: Platform | None = None, **facts: Any) -> None:
        self.name = name
        self.caps = caps_of(safety, **facts)
        self.platform = platform or Platform(folds=safety is Safety.IDEMPOTENT)
        self.running = False
        self._incoming: asyncio.Queue[_IncomingWork] = asyncio.Queue()

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
        """Report an event through `Inbox.hear`, `copies` times, as a program that names its session does.

        The future is done when all copies are acknowledged. `more`: other arguments of `hear`.
        """

        async def hear(inbox: Inbox) -> None:
            session = f"main:{self.name}:{address}"
            await inbox.hear(session=session, key=key, text=text, **more)

        return self._soon(hear, copies)

    def tell(self, *events: Incoming, cursor: str | None = None, copies: int = 1) -> asyncio.Future[None]:
        """Deliver these events to the inbox in one batch, `copies` times. The future is done when all are acknowledged.

        `cursor`: the platform's cursor after the batch.

            channel.tell(Incoming("message", "m1", "room", Person("ann", "Ann"), "hello"), cursor="1")
        """

        async def put(inbox: Inbox) -> None:
            await inbox.put(events, cursor)

        return self._soon(put, copies)

    def press(
        self, post: Post, button: Button, who: Person, *, press: str, group: bool = False
    ) -> asyncio.Future[None]:
        """Report that a person pressed a button under a post. `press`: the platform's id of the press. See `tell`."""
        key = press_key(button.answer, post.id, press)
        answer = Incoming(
            "message", key, post.address, who, button.answer, of=post.id, group=group, mentioned=True
        )  # fmt: skip
        return self.tell(Incoming("echo", post.key, of=post.id), answer)

    def bounce(self, post: Post, reason: str, *, key: str = "", copies: int = 1) -> asyncio.Future[None]:
        """Report, `copies` times, that a post which the platform had taken was not delivered. See `tell`."""
        return self.tell(Incoming("failed", key or f"failed/{post.id}", of=post.id, text=reason), copies=copies)

    def attach(self, name: str, content: bytes, mime: str = "application/octet-stream") -> asyncio.Future[Kept]:
        """Store a file through `Inbox.keep`. Put the future's result into `Incoming.files` of the next message."""

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(content), 65536):
                yield content[at : at + 65536]

        async def keep(inbox: Inbox) -> Kept:
            return await inbox.keep(name, mime, pieces())

        return self._soon(keep, 1)

    def lose(self, error: Exception) -> None:
        """Make `run` raise `error` after it has put all earlier events: Offline, Denied, or any other as a bug."""

        async def fail(inbox: Inbox) -> None:
            raise error

        self._incoming.put_nowait((fail, 1, None))

    def _soon(self, action: Callable[[Inbox], Awaitable[Any]], copies: int) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._incoming.put_nowait((action, copies, done))
        return done

    async def run(self, inbox: Inbox) -> None:
        self.running = True
        try:
            inbox.online()
            while True:
                action, copies, done = await self._incoming.get()
                result = None
                for _ in range(copies):
                    result = await action(inbox)
                if done is not None and not done.done():
                    done.set_result(result)
        finally:
            self.running = False


_IncomingWork = tuple[Callable[[Inbox], Awaitable[Any]], int, "asyncio.Future[Any] | None"]
