"""What a platform must give so that a channel can be held against it: all that is to be written for one of your own."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import semel.channels
from semel.gateway.ports import Channel, Safety
from semel.gateway.settings import ChannelSettings


class ConformanceError(AssertionError):
    """The channel, or what stands around it, broke a promise. The message says which, and with what."""


def demand(holds: object, broken: str) -> None:
    """Raise ConformanceError, unless it holds."""
    if not holds:
        raise ConformanceError(broken)


@dataclass(frozen=True)
class Request:
    """One HTTP request as a channel made it. Header names are lower-case; `target` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpFront:
    """A port of the platform that speaks HTTP/1.1 without TLS.

    `says`: whether a request says something that people will see: faults strike these, and these are counted.
    """

    port: int
    says: Callable[[Request], bool] = lambda request: request.method == "POST"


@dataclass(frozen=True)
class TcpFront:
    """A port of the platform that speaks anything else, without TLS.

    `count`: how many times something was said completely in all the bytes that one connection brought so far.
    `not_now` and `no`: what the platform answers where it does not take it now, and where it refuses it for good, given
    these bytes (the message never reaches it then). b"": it answers when more has come. None: it never says so.
    """

    port: int
    count: Callable[[bytes], int] = lambda sent: 0
    not_now: Callable[[bytes], bytes] | None = None
    no: Callable[[bytes], bytes] | None = None


Front = HttpFront | TcpFront


class Rig(abc.ABC):
    """A platform to hold a channel against; `async with` starts it and stops it, and gives it back empty.

    The channel under test reaches it through proxies that the suite puts before each of its `fronts`.
    """

    kind: ClassVar[str]
    """`kind` in `[channels.NAME]`, as the entry point is called."""
    safety: ClassVar[Safety]
    """What the channel says of itself; the suite checks that it says so."""
    finds: ClassVar[bool] = False
    """Whether `find` works (`Caps.finds`)."""
    hears: ClassVar[bool] = True
    """Whether `run` hears by itself. False: people reach it by POST /v1/hooks/NAME alone, or not at all."""
    http: ClassVar[bool] = True
    """Whether the front that sends is an HttpFront: every kind of HTTP answer is then tried on the channel."""
    not_accepted: ClassVar[Collection[int]] = frozenset({429})
    """HTTP: the statuses by which the platform says, in its documentation, that it has not taken a message and may take
    it later. A 5xx that is not among them settles nothing."""
    definite: ClassVar[int | None] = 400
    """HTTP: the status of a definite no, with `refusal` as its body. None: the platform has none."""
    status_is_receipt: ClassVar[bool] = False
    """HTTP: a 2xx is the platform's receipt whatever its body holds. False: a page of something before the platform,
    such as a hotel's login, may come with a 200, too."""
    backfills: ClassVar[bool] = True
    """Whether the platform keeps what is written while nobody listens."""
    hooked: ClassVar[bool] = False
    """Whether people's words come as POST /v1/hooks/NAME: `write` then posts to the gateway's URL."""

    person: str = "person"
    """The platform's id of who writes: `Person.id`. They are made the owner in the gateway's configuration."""
    page: int = 50
    """How many messages one page of the platform's history holds at most, as the channel asks for it."""
    paths: Sequence[Path] = ()
    """Directories with the channel's package, where it is not installed: they join the gateway's PYTHONPATH."""
    shared: Mapping[str, Any] = {}
    """Settings of `[channels.NAME]` that every kind has, such as {"groups": "always"} for a room of several."""

    async def __aenter__(self) -> Self:
        """Start the platform, or empty it."""
        return self

    async def __aexit__(  # noqa: B027 (there may be nothing to stop)
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what was started."""

    @abc.abstractmethod
    def fronts(self) -> Mapping[str, Front]:
        """The platform's ports by name, all on 127.0.0.1; the one that `send` uses comes first."""

    @abc.abstractmethod
    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        """The kind's own settings, for an account that finds each front at 127.0.0.1 and the port named here.

        Short time-outs (1 or 2 s) keep the suite quick. Secrets stand as they are.
        """

    @abc.abstractmethod
    def addresses(self) -> Sequence[str]:
        """Where may be sent to, as `Op.address`; `person` writes at the first. Several show that lines are apart."""

    def home(self) -> str:
        """The address where `person` writes, as it is heard (`Incoming.address`)."""
        return self.addresses()[0]

    @abc.abstractmethod
    async def shown(self, address: str) -> Sequence[str]:
        """What people see there of what the account under test said, as another account reads it: all pages, oldest
        first, one text a message. Markup of the platform around a text does not matter, the text must be in it."""

    async def write(self, text: str, gateway: str) -> None:
        """`person` writes this at the first address, beside the proxies. `gateway`: its URL ("" where it is down)."""
        raise NotImplementedError

    async def again(self, gateway: str) -> bool:
        """Have the platform tell again what it told, as it does after an acknowledgement was lost.

        True: it will. False: it does when it is asked from an older cursor, which the suite does by itself.
        """
        return False

    def refusal(self, status: int, seconds: int) -> bytes:
        """The body of the platform's answer with this status (429, 5xx, `definite`); `seconds` is its Retry-After."""
        return b"{}"

    def make(self, name: str, ports: Mapping[str, int]) -> Channel:
        """The channel under test, as a gateway would make it."""
        return semel.channels.make(ChannelSettings(name, self.kind, options=dict(self.settings(ports))))
