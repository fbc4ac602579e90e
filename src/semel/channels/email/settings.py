"""What `[channels.NAME]` with `kind = "email"` may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from semel.channels.problems import explain, raise_problems

Tls = Literal["tls", "starttls", "none"]

PORTS: dict[str, dict[str, int]] = {
    "imap": {"tls": 993, "starttls": 143, "none": 143},
    "smtp": {"tls": 465, "starttls": 587, "none": 25},
}
VerificationMethod = Literal["dmarc", "dkim", "spf", "auth"]
"""Methods by which our own server may have verified a sender (RFC 8601; "auth" is a login at that server)."""

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TIMES = {"poll": (1.0, 1500.0), "settle": (0.0, 86400.0), "timeout": (0.1, 600.0), "pace": (0.0, 86400.0)}
_MAX_SIZE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class EmailSettings:
    """One mail account. Times are seconds, sizes bytes."""

    address: str
    """The account's mail address."""
    imap: str
    """The host from which mail is read."""
    smtp: str
    """The host through which mail is sent."""
    password: str = field(default="", repr=False)
    """The account's password. Required, unless `smtp_login` is false."""
    user: str | None = None
    """The user name for logins. Default: `address`."""
    display_name: str = "Semel"
    """The name that people see beside the address."""
    aliases: list[str] = field(default_factory=list)
    """Other addresses whose mail is delivered to the same mailbox."""
    imap_port: int | None = None
    """The port of `imap`. Default: 993 with TLS, else 143."""
    imap_tls: Tls = "tls"
    """tls, starttls, or none, which needs `allow_plaintext`."""
    smtp_port: int | None = None
    """The port of `smtp`. Default: 465 with TLS, 587 with STARTTLS, else 25."""
    smtp_tls: Tls = "tls"
    """tls, starttls, or none, which needs `allow_plaintext`."""
    smtp_login: bool = True
    """Whether to log in before sending; false for a relay that needs no login."""
    allow_plaintext: bool = False
    """Whether password and mail may cross the network unencrypted."""
    ca_file: str | None = None
    """A file with certificates (PEM) to trust instead of the system's."""
    mailbox: str = "INBOX"
    """The mailbox that is read."""
    mark_seen: bool = False
    """Whether mail that was read is marked as seen."""
    proof: Literal["bcc", "sent"] = "bcc"
    """Where the copy of a sent mail is found: bcc (sent to ourselves), or sent, if the provider keeps it there."""
    sent: str | None = None
    """The mailbox of sent mail. Default: the one that the server marks as such."""
    subject: str = "A message from Semel"
    """The subject of a mail that is not an answer."""
    quotes: Literal["trim", "keep"] = "trim"
    """Whether quoted earlier mail is removed from the text (trim) or kept (keep)."""
    authserv: list[str] | str = ""
    """The name of your mail server in its Authentication-Results lines, or a list of names. Required, unless
    `trust_from` is true."""
    verified_by: list[VerificationMethod] = field(default_factory=lambda: list(get_args(VerificationMethod)))
    """Which results verify a sender."""
    trust_from: bool = False
    """Whether every From line is believed, although anybody can write one: [read this first](email.md#who-wrote-it)."""
    poll: float = 60.0
    """The longest time between two checks of the mailbox."""
    settle: float = 300.0
    """How long to wait after a lost answer before looking for the copy."""
    timeout: float = 30.0
    """How long to wait for an answer of a server."""
    pace: float = 0.0
    """The minimum time between two mails to one address."""
    file_limit: int = 18_000_000
    """The most bytes of a file that is sent."""
    mail_limit: int = 30_000_000
    """The most bytes of a mail that is read."""

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        for name in ("password", "display_name", "mailbox", "subject"):
            yield from explain(_check_text_value, name, getattr(self, name))
        for name in ("user", "sent"):
            if getattr(self, name) is not None:
                yield from explain(_check_text_value, name, getattr(self, name))
        for name, address in [("address", self.address), *(("aliases", alias) for alias in self.aliases)]:
            yield from explain(_check_address, name, address)
        if len(self.address) > 90:
            yield "address should have at most 90 characters"
        yield from self._find_host_problems("imap")
        yield from self._find_host_problems("smtp")
        yield from self._find_number_problems()
        yield from self._find_trust_problems()
        if self.smtp_login and not self.password:
            yield 'password is missing; write password = "env:NAME" or "file:PATH"'
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            yield f"ca_file {self.ca_file!r} is not a file"

    def _find_host_problems(self, service: str) -> Iterator[str]:
        port = getattr(self, f"{service}_port")
        yield from explain(_check_host, service, getattr(self, service))
        if port is not None and not 0 < port < 65536:
            yield f"{service}_port should be a number from 1 to 65535"
        if getattr(self, f"{service}_tls") == "none" and not self.allow_plaintext:
            yield (
                f'{service}_tls = "none" would send the password and every mail readable over the network; '
                "set allow_plaintext = true if that is meant"
            )

    def _find_number_problems(self) -> Iterator[str]:
        for name, (minimum, maximum) in _TIMES.items():
            if not minimum <= getattr(self, name) <= maximum:
                yield f"{name} should be {minimum:g} to {maximum:g} seconds"
        for name in ("file_limit", "mail_limit"):
            if not 0 < getattr(self, name) <= _MAX_SIZE_BYTES:
                yield f"{name} should be a number of bytes, at most {_MAX_SIZE_BYTES}"

    def _find_trust_problems(self) -> Iterator[str]:
        if not self.verified_by:
            yield "verified_by is empty, so that nobody could ever write; name at least one method"
        if not self.authservs and not self.trust_from:
            yield (
                "authserv is missing: the name at the beginning of the Authentication-Results line that your "
                "mail server adds (`semel docs email` says how to find it). Without it anybody could write in any name"
            )

    @property
    def authservs(self) -> frozenset[str]:
        """The names of our own server, in lower case."""
        names = [self.authserv] if isinstance(self.authserv, str) else self.authserv
        return frozenset(name.strip().lower() for name in names if name.strip())

    @property
    def login(self) -> str:
        return self.user or self.address

    @property
    def domain(self) -> str:
        """The domain of our address, in lower case."""
        return self.address.rpartition("@")[2].lower()

    def port(self, service: Literal["imap", "smtp"]) -> int:
        port: int | None = getattr(self, f"{service}_port")
        return port or PORTS[service][getattr(self, f"{service}_tls")]


def _check_text_value(name: str, value: str) -> None:
    if _CONTROL.search(value):
        raise ValueError(f"{name} holds a control character")
    if not value.strip() and name not in ("password", "display_name"):
        raise ValueError(f"{name} is empty")


def _check_address(name: str, address: str) -> None:
    _check_text_value(name, address)
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"{name}: {address!r} is not a mail address; write one like semel@example.org")


def _check_host(service: str, host: str) -> None:
    _check_text_value(service, host)
    if not _HOST.fullmatch(host):
        raise ValueError(f"{service} should be a host's name, without a port; there is {service}_port")
