"""The class `Rig`, which describes a platform to the suite. To test your own channel, write one."""

from __future__ import annotations

import abc
import re
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import semel.channels
from semel.gateway.ports import Channel, Safety
from semel.gateway.settings import ChannelSettings
from semel.testing.conformance.package_paths import find_package_paths
from semel.testing.http_requests import HttpRequest


class ConformanceError(AssertionError):
    """The channel, or something around it, broke a promise. The message says which one and how."""


def demand(holds: object, broken: str) -> None:
    """Raise ConformanceError with the message `broken` if `holds` is false."""
    if not holds:
        raise ConformanceError(broken)


class NumberedTexts:
    """Makes numbered texts, such as "k3f9a2c1 17", and recognises them whatever a platform puts around them."""

    def __init__(self, letter: str) -> None:
        self.token = f"{letter}{secrets.token_hex(4)}"
        self._found = re.compile(rf"{self.token} \d+(?!\d)")
        self._next = 0

    def __repr__(self) -> str:
        return f"<NumberedTexts {self.token}, {self._next} of them>"

    def new(self) -> str:
        """Return the next text."""
        self._next += 1
        return f"{self.token} {self._next}"

    def some(self, count: int) -> list[str]:
        return [self.new() for _ in range(count)]

    def among(self, texts: Iterable[str]) -> Sequence[str]:
        """Find the first numbered text in each of `texts`. Returns them in order; texts without one are skipped."""
        return [match[0] for text in texts if (match := self._found.search(text))]


@dataclass(frozen=True)
class HttpFront:
    """A port of the platform that speaks HTTP/1.1 without TLS.

    `says`: tells whether a request sends something that people will see. Such requests are counted and meet faults.
    """

    port: int
    says: Callable[[HttpRequest], bool] = lambda request: request.method == "POST"


@dataclass(frozen=True)
class TcpFront:
    """A port of the platform that speaks a protocol other than HTTP, without TLS.

    All three functions get the bytes that the channel has sent on one connection so far. `count` returns how many
    complete messages are in them. `not_now` and `no` return what the platform would answer if it did not take the last
    message now, or refused it for good; b"" if it waits for more bytes. None: the platform has no such answer.
    """

    port: int
    count: Callable[[bytes], int] = lambda sent: 0
    not_now: Callable[[bytes], bytes] | None = None
    no: Callable[[bytes], bytes] | None = None


Front = HttpFront | TcpFront


class Rig(abc.ABC):
    """A platform to test a channel on. `async with` starts it, without messages, and stops it.

    The suite puts a proxy before each of its `fronts` (ports); the channel under test connects to the proxies.
    """

    kind: ClassVar[str]
    """The channel's `kind` in `[channels.NAME]`, which is the name of its entry point."""
    safety: ClassVar[Safety]
    """The safety class that the channel must declare in its `Caps`."""
    finds: ClassVar[bool] = False
    """Whether the channel can look up what was sent; it must declare the same in `Caps.finds`."""
    hears: ClassVar[bool] = True
    """Whether `run` receives messages. False: they come only as POST /v1/hooks/NAME, or not at all."""
    http: ClassVar[bool] = True
    """Whether the front that `send` uses is an HttpFront. If so, every kind of HTTP answer is tried on the channel."""
    not_accepted: ClassVar[Collection[int]] = frozenset({429})
    """HTTP: the statuses that mean, by the platform's documentation, that it has not taken the message but may take it
    later. Any other 5xx leaves open whether it took the message. If it says so inside a 200, define `not_now`."""
    definite: ClassVar[int | None] = 400
    """HTTP: a status that means a definite no; `refusal` gives its body. 200: it refuses inside a 200. None: it has no
    such status."""
    status_is_receipt: ClassVar[bool] = False
    """HTTP: whether a 2xx is the platform's receipt whatever its body. False: the body must prove it, because something
    in front of the platform, such as a hotel's network, may answer with a login page and a 200, too."""
    backfills: ClassVar[bool] = True
    """Whether the platform keeps messages that are written while the channel is down, and delivers them later."""
    hooked: ClassVar[bool] = False
    """Whether people's messages come as POST /v1/hooks/NAME. If so, `write` posts to the gateway's URL."""

    person: str = "person"
    """The platform's id (`Person.id`) of the person who writes. The gateway's configuration makes them the owner."""
    page: int = 50
    """The maximum number of messages in one page of the platform's history, as the channel requests it."""
    paths: Sequence[Path] = ()
    """Directories that contain the channel's package if it is not installed: the project's, or the one beside its
    pyproject.toml, whose entry points are used. They are added to `sys.path`, in the gateway's process, too."""
    shared: Mapping[str, Any] = {}
    """Settings of `[channels.NAME]` that every kind has, such as {"groups": "always"} for a room of several people."""

    async def __aenter__(self) -> Self:
        """Start the platform, or empty it."""
        return self

    async def __aexit__(  # noqa: B027 (there may be nothing to stop)
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what was started."""

    @abc.abstractmethod
    def fronts(self) -> Mapping[str, Front]:
        """Return the platform's ports by name, all on 127.0.0.1; first the one that `send` uses."""

    @abc.abstractmethod
    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        """Return the settings of `[channels.NAME]` that are specific to the kind.

        `ports`: the port on 127.0.0.1 at which the channel finds each front, by the front's name. Short time-outs (1 or
        2 s) keep the suite quick. Secrets are given as plain values.
        """

    @abc.abstractmethod
    def addresses(self) -> Sequence[str]:
        """Return the addresses to send to, as in `Op.address`. `person` writes at the first one.

        If there are several, `storm` sends to them in turn and checks the order at each.
        """

    def home(self) -> str:
        """Return the address where `person` writes, as in `Incoming.address`."""
        return self.addresses()[0]

    @abc.abstractmethod
    async def shown(self, address: str) -> Sequence[str]:
        """Return the texts that another account sees at `address` from the account under test.

        All pages, oldest first, one text for each message. The platform's markup around a text does no harm.
        """

    async def write(self, text: str, gateway: str) -> None:
        """Write `text` as `person` at the first address, directly and not through the proxies.

        `gateway`: the gateway's URL, or "" if it is not needed or down.
        """
        raise NotImplementedError

    async def again(self, gateway: str) -> bool:
        """Let the platform deliver its events again, as it does after an acknowledgement was lost.

        Returns True if it will. Returns False if it does so only for an older cursor, which the suite then gives to the
        channel. `gateway`: the gateway's URL, or "" if it is down.
        """
        return False

    def reach(self, gateway: str) -> None:  # noqa: B027 (a platform may post nothing by itself)
        """Learn where the gateway is after a start, if the platform posts to it by itself. `gateway`: its URL."""

    async def has_posted_all(self) -> bool:
        """Return whether the platform has posted all that it has for the gateway, and was answered."""
        return True

    def refusal(self, status: int, seconds: int) -> bytes:
        """Return the body of the platform's answer with this status (429, 5xx, `definite`).

        `seconds`: the answer's Retry-After, 0 for none.
        """
        return b"{}"

    def not_now(self, seconds: int) -> bytes:
        """Return the body by which the platform says inside an HTTP 200 that it takes the message later, if it does.

        `seconds`: the wait that the body names. The body differs from `refusal(200, 0)`, which means a definite no.
        """
        return b""

    def make(self, name: str, ports: Mapping[str, int]) -> Channel:
        """Make the channel under test as a gateway would. `ports`: see `settings`.

        Raises ConformanceError if there is no such kind.
        """
        _find_kind(self)
        return semel.channels.make(ChannelSettings(name=name, kind=self.kind, options=dict(self.settings(ports))))


def _find_kind(rig: Rig) -> None:
    """Make the rig's kind known to this process: add `paths` to `sys.path` if it is not. Raises ConformanceError."""
    if rig.kind in semel.channels.kinds():
        return
    sys.path[:0] = [path for path in find_package_paths(rig.paths) if path not in sys.path]
    semel.channels.kinds.cache_clear()
    demand(
        rig.kind in semel.channels.kinds(),
        f"there is no channel kind {rig.kind!r}: install its package, as with `pip install -e .`, or name its "
        f"project's directory in `paths` of the rig, now {[str(path) for path in rig.paths]}. Its pyproject.toml has "
        f'to say, in [project.entry-points."{semel.channels.GROUP}"], {rig.kind} = "MODULE:KIND"',
    )
