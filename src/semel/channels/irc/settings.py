"""The settings of a nick on an IRC network: `[channels.NAME]` with `kind = "irc"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from semel.channels.problems import is_loopback, raise_problems

ACCOUNT_ID = r"~?[^\sA-Z:,!@*?#&+~\x00-\x20\x7f][^\sA-Z:,!@*?\x00-\x20\x7f]{0,59}"
"""An account's name, or "~" and a nick, in small letters: networks take no notice of case."""
EXAMPLE_ID = "ann"
_NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]{0,29}")
_CHANNEL = re.compile(r"[#&!+][^\s,:\x00-\x20\x7f]{1,63}")


@dataclass(frozen=True)
class IrcSettings:
    """One nick on one network. Times are seconds."""

    server: str = ""
    """The host to connect to, like `irc.libera.chat`. Required."""
    nick: str = ""
    """The nick to speak as. Required."""
    port: int | None = None
    """The port of `server`. Default: 6697, or 6667 with `tls = "none"`."""
    tls: Literal["required", "none"] = "required"
    """required: TLS from the first byte. none: only for a server on this machine."""
    ca_file: str | None = None
    """A file with certificates (PEM) to trust in addition to the system's."""
    channels: list[str] = field(default_factory=list)
    """The channels to join, like `#semel`."""
    channel_key: str | None = field(default=None, repr=False)
    """The key of channels that need one."""
    login: str | None = None
    """The account's name at the network's services. Default: the nick."""
    password: str | None = field(default=None, repr=False)
    """The account's password, for SASL PLAIN."""
    certificate: str | None = None
    """A file (PEM) with the account's certificate and its key, for SASL EXTERNAL."""
    server_password: str | None = field(default=None, repr=False)
    """The password of a server that asks each connection for one."""
    trust_nicks: bool = False
    """Whether a nick without an account may be a person, `~NICK`. Anybody can take a nick ([IRC](irc.md))."""
    pace: float = 1.0
    """The interval between lines after the first five. A server drops who is faster than it allows."""
    timeout: float = 15.0
    """How long to wait for an answer of the server."""
    keepalive: float = 60.0
    """The interval of checks that the server still answers."""

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not self.server or re.search(r"[\s/@]", self.server):
            yield 'server is needed: the host to connect to, like server = "irc.libera.chat"'
        if not _NICK.fullmatch(self.nick):
            yield f"nick is {self.nick!r}; it should be 1 to 30 letters, digits and -_[]{{}}\\|^`, no digit first"
        if self.port is not None and not 0 < self.port < 65536:
            yield "port should be between 1 and 65535"
        if self.tls == "none" and not is_loopback(self.server):
            yield (
                'tls = "none" shows everything to everyone on the way: it is for a server on this machine, '
                'with server = "127.0.0.1"'
            )
        for name in ("ca_file", "certificate"):
            if getattr(self, name) is not None and not Path(getattr(self, name)).is_file():
                yield f"{name}: there is no file {getattr(self, name)}"
        yield from self._find_login_problems()
        for channel in self.channels:
            if not _CHANNEL.fullmatch(channel):
                yield f"channels names {channel!r}; it should read like #semel"
        if len({channel.lower() for channel in self.channels}) != len(self.channels):
            yield "channels names a channel twice"
        for name, least, most in (("pace", 0, 60), ("timeout", 0.05, 600), ("keepalive", 0.05, 3600)):
            if not least <= getattr(self, name) <= most:
                yield f"{name} should be between {least:g} and {most:g}"

    def _find_login_problems(self) -> Iterator[str]:
        if self.password is not None and self.certificate is not None:
            yield "password and certificate are two ways to log in: leave one out"
        if self.login is not None and self.password is None and self.certificate is None:
            yield "login has no effect without password or certificate"
        if self.certificate is not None and self.tls == "none":
            yield "certificate needs TLS"
        for name in ("password", "server_password", "channel_key", "login"):
            if re.search(r"[\x00\r\n]", getattr(self, name) or ""):
                yield f"{name} should be one line"
        if re.search(r"[\s,]", self.channel_key or ""):
            yield "channel_key should have no blank and no comma"

    @property
    def account(self) -> str:
        """What no two channels may share: the nick on its server."""
        return f"{self.nick.lower()}@{self.server.lower()}:{self.used_port}"

    @property
    def used_port(self) -> int:
        return self.port or (6697 if self.tls == "required" else 6667)

    @property
    def sasl(self) -> Literal["PLAIN", "EXTERNAL", ""]:
        """The SASL mechanism to log in with; "" without an account."""
        return "PLAIN" if self.password is not None else "EXTERNAL" if self.certificate is not None else ""
