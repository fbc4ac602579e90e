"""The settings of an XMPP account: `[channels.NAME]` with `kind = "xmpp"`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from semel.channels.problems import explain, is_loopback, raise_problems
from semel.channels.xmpp import address


@dataclass(frozen=True)
class XmppSettings:
    """One XMPP account. Times are seconds, sizes bytes."""

    jid: str = ""
    """The account, like `name@example.org`. Required."""
    password: str = field(default="", repr=False)
    """The account's password. Required."""
    server: str | None = None
    """The host to connect to. Default: found by DNS from the account's domain."""
    port: int | None = None
    """The port of `server`. Default: 5222, or 5223 with `tls = "direct"`."""
    tls: Literal["required", "direct", "none"] = "required"
    """required: STARTTLS. direct: TLS from the first byte. none: only for a server on this machine."""
    ca_file: str | None = None
    """A file with certificates (PEM) to trust in addition to the system's."""
    rooms: list[str] = field(default_factory=list)
    """The rooms to join, like `room@conference.example.org`."""
    nick: str | None = None
    """The nickname in rooms. Default: the account's name."""
    room_password: str | None = field(default=None, repr=False)
    """The password of rooms that need one."""
    resource: str = "semel"
    """The resource of the receiving connection. A second gateway on the same account needs another one."""
    archive: bool = True
    """Whether the server keeps an archive. Without one, less is promised ([XMPP](xmpp.md))."""
    allow_private: bool = False
    """Whether files may be downloaded from, and uploaded to, this machine and its network."""
    file_limit: int = 20_000_000
    """The most bytes of a file that people send."""
    max_len: int = 10_000
    """The most bytes of one message; longer texts are split."""
    timeout: float = 15.0
    """How long to wait for an answer of the server."""
    keepalive: float = 60.0
    """The interval of checks that the server and rooms still answer."""

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())
        object.__setattr__(self, "jid", address.normalize_jid(address.bare_jid(self.jid), "jid"))
        object.__setattr__(self, "rooms", [address.normalize_jid(room, "a room") for room in self.rooms])

    def _find_problems(self) -> Iterator[str]:
        if not self.jid:
            yield 'jid is needed: the account to speak as, like jid = "bot@example.org"'
        else:
            yield from explain(address.normalize_jid, address.bare_jid(self.jid), "jid")
        if not self.password:
            yield 'password is needed: write password = "env:XMPP_PASSWORD" or "file:PATH"'
        yield from self._find_server_problems()
        yield from self._find_room_problems()
        for name, least, most in (
            ("file_limit", 0, 10**10), ("max_len", 200, 60_000), ("timeout", 0.05, 600), ("keepalive", 0.05, 3600),
        ):  # fmt: skip
            if not least <= getattr(self, name) <= most:
                yield f"{name} should be between {least:g} and {most:g}"

    def _find_server_problems(self) -> Iterator[str]:
        if self.port is not None and not 0 < self.port < 65536:
            yield "port should be between 1 and 65535"
        if self.port is not None and self.server is None:
            yield "port has no effect without server: name the host it belongs to"
        if self.tls == "none" and not is_loopback(self.server):
            yield (
                'tls = "none" shows the password to everyone on the way: it is for a server on this machine, '
                'with server = "127.0.0.1"'
            )
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            yield f"ca_file: there is no file {self.ca_file}"

    def _find_room_problems(self) -> Iterator[str]:
        problems = [problem for room in self.rooms for problem in explain(address.normalize_jid, room, "a room")]
        yield from problems
        if not problems and len({address.normalize_jid(room, "a room") for room in self.rooms}) != len(self.rooms):
            yield "rooms names a room twice"
        if self.nick is not None and (not self.nick.strip() or len(self.nick) > 100 or not self.nick.isprintable()):
            yield "nick should be 1 to 100 printable characters"

    @property
    def domain(self) -> str:
        return address.domain(self.jid)

    @property
    def name(self) -> str:
        """Our nick in rooms."""
        return self.nick or address.local_part(self.jid)
