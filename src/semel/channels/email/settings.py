"""What `[channels.NAME]` with `kind = "email"` may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Tls = Literal["tls", "starttls", "none"]

PORTS: dict[str, dict[str, int]] = {
    "imap": {"tls": 993, "starttls": 143, "none": 143},
    "smtp": {"tls": 465, "starttls": 587, "none": 25},
}
METHODS = ("dmarc", "dkim", "spf", "auth")
"""Methods by which our own server may have verified a sender (RFC 8601; "auth" is a login at that server)."""

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TIMES = {"poll": (1.0, 1500.0), "settle": (0.0, 86400.0), "timeout": (0.1, 600.0), "pace": (0.0, 86400.0)}
_SIZES = {"file_limit": 1_000_000_000, "mail_limit": 1_000_000_000}


@dataclass(frozen=True)
class EmailSettings:
    """One mail account. Times are seconds, sizes bytes."""

    address: str  # ours
    imap: str  # the host that we read mail from
    smtp: str  # the host that we send mail through
    password: str = field(default="", repr=False)
    user: str | None = None  # None: the address
    display_name: str = "Semel"  # the name that people see beside the address
    aliases: list[str] = field(default_factory=list)  # other addresses that lead to the same mailbox
    imap_port: int | None = None
    imap_tls: Tls = "tls"
    smtp_port: int | None = None
    smtp_tls: Tls = "tls"
    smtp_login: bool = True  # False for a relay that accepts our mail without a login
    allow_plaintext: bool = False  # tls "none" with a host that is not this machine
    ca_file: str | None = None  # certificates (PEM) to trust instead of the system's
    mailbox: str = "INBOX"
    mark_seen: bool = False
    proof: Literal["bcc", "sent"] = "bcc"  # where the copy of a sent mail is found
    sent: str | None = None  # the mailbox of sent mail; None: the one that the server marks as such
    subject: str = "A message from Semel"  # of a mail that answers none
    quotes: Literal["trim", "keep"] = "trim"
    authserv: list[str] | str = ""  # the authserv-ids of our own server (RFC 8601)
    verified_by: list[str] = field(default_factory=lambda: list(METHODS))
    trust_from: bool = False  # believe every From line
    poll: float = 60.0
    settle: float = 300.0
    timeout: float = 30.0
    pace: float = 0.0
    file_limit: int = 18_000_000
    mail_limit: int = 30_000_000

    def __post_init__(self) -> None:
        for name in ("address", "imap", "smtp", "password", "display_name", "mailbox", "subject"):
            _check_text(name, getattr(self, name))
        for name in ("user", "sent", "ca_file"):
            if getattr(self, name) is not None:
                _check_text(name, getattr(self, name))
        for one in (self.address, *_list("aliases", self.aliases)):
            if not _ADDRESS.fullmatch(one):
                raise ValueError(f"{one!r} is no mail address; write one like semel@example.org")
        if len(self.address) > 90:
            raise ValueError("address should have at most 90 characters")
        for name in ("allow_plaintext", "mark_seen", "smtp_login", "trust_from"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} should be true or false")
        self._check_choice("proof", ("bcc", "sent"))
        self._check_choice("quotes", ("trim", "keep"))
        self._check_host("imap")
        self._check_host("smtp")
        self._check_numbers()
        self._check_trust()
        if self.smtp_login and not self.password:
            raise ValueError('password is missing; write password = "env:NAME" or "file:PATH"')
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ValueError(f"ca_file {self.ca_file} is no file")

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise ValueError(f"{name} should be one of: {', '.join(choices)}")

    def _check_host(self, what: str) -> None:
        host, port = getattr(self, what), getattr(self, f"{what}_port")
        if not _HOST.fullmatch(host):
            raise ValueError(f"{what} should be a host's name, without a port; there is {what}_port")
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
            raise ValueError(f"{what}_port should be a number from 1 to 65535")
        self._check_choice(f"{what}_tls", ("tls", "starttls", "none"))
        if getattr(self, f"{what}_tls") == "none" and not self.allow_plaintext:
            raise ValueError(
                f'{what}_tls = "none" would send the password and every mail readable over the network; '
                "set allow_plaintext = true if that is meant"
            )

    def _check_numbers(self) -> None:
        for name, (least, most) in _TIMES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise ValueError(f"{name} should be {least:g} to {most:g} seconds")
        for name, size in _SIZES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= size:
                raise ValueError(f"{name} should be a number of bytes, at most {size}")

    def _check_trust(self) -> None:
        methods = _list("verified_by", self.verified_by)
        if odd := [each for each in methods if each not in METHODS]:
            raise ValueError(f"verified_by has {odd[0]!r}; there is {', '.join(METHODS)}")
        if not methods:
            raise ValueError("verified_by is empty, so that nobody could ever write; name at least one method")
        if not self.authservs and not self.trust_from:
            raise ValueError(
                "authserv is missing: the name at the beginning of the Authentication-Results line that your "
                "mail server adds (docs/email.md tells how to find it). Without it anybody could write in any name"
            )

    @property
    def authservs(self) -> frozenset[str]:
        """The names of our own server, in lower case."""
        names = [self.authserv] if isinstance(self.authserv, str) else _list("authserv", self.authserv)
        return frozenset(name.strip().lower() for name in names if name.strip())

    @property
    def login(self) -> str:
        return self.user or self.address

    @property
    def domain(self) -> str:
        """The domain of our address, in lower case."""
        return self.address.rpartition("@")[2].lower()

    def port(self, what: Literal["imap", "smtp"]) -> int:
        given: int | None = getattr(self, f"{what}_port")
        return given or PORTS[what][getattr(self, f"{what}_tls")]


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} should be a string")
    if _CONTROL.search(value):
        raise ValueError(f"{name} holds a control character")
    if not value.strip() and name not in ("password", "display_name"):
        raise ValueError(f"{name} is empty")


def _list(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} should be a list of strings")
    return value
