"""Models of semel.toml: `[gateway]`, `[ledger]` and `[nodes.NAME]`, the whole file, and its source.

The settings that the gateway itself reads are declared in `semel.gateway.settings`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from semel.faces.config.paths import expand_path
from semel.faces.config.problems import ConfigError, find_line
from semel.gateway.settings import GatewayOptions, Sections
from semel.gateway.settings.tables import (
    NAME_PATTERN,
    Duration,
    Entries,
    NamedTable,
    ReferenceResolvers,
    SecretReference,
    Strings,
    Table,
    Text,
)
from semel.ledger.storage.location import DatabaseUrl, is_database_uri

MIN_TOKEN_CHARS = 16
DEFAULT_PORTS = {"http": 80, "https": 443}


class ServerOptions(Table):
    """The settings in `[gateway]` that only `semel up` reads."""

    listen: Text = "127.0.0.1:8420"
    """The address of the page and the API, as host:port."""
    data_dir: str = Field(default="", examples=["~/.local/share/semel"])
    """The directory for the ledger, files and the owner's token. A relative path starts at this file. Default:
    $XDG_DATA_HOME/semel, which is ~/.local/share/semel."""
    log: Literal["auto", "human", "json"] = "auto"
    """The format of the log on stderr. auto: human on a terminal, else json."""
    check_agents: bool = True
    """Whether `semel up`, once it runs, starts each agent for a moment, two at a time, and logs whether it can be
    used."""


def _check_origin(origin: str) -> str:
    """Return the origin as browsers send it: in lower case, without a default port. Raises ValueError."""
    try:
        parts = urlsplit(origin.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if origin.strip() == "*":
        raise ValueError('"*" would let every web page in: list each page\'s origin, such as "https://app.example"')
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or extra or "*" in parts.hostname:
        raise ValueError(f'{origin!r} is not an origin: give scheme, host and port, such as "https://app.example"')
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, DEFAULT_PORTS[parts.scheme]) else "")


Origin = Annotated[str, AfterValidator(_check_origin)]


def _read_host(entry: str) -> str:
    """Return the host in lower case, as browsers send it: of a URL its host, an IPv6 address in brackets.

    A port follows it, unless it is the usual one of http or https. Raises ValueError if there is no host.
    """
    is_bare_ipv6 = entry.count(":") > 1 and "/" not in entry and not entry.startswith("[")
    try:
        parts = urlsplit(f"//[{entry}]" if is_bare_ipv6 else entry if "://" in entry else f"//{entry}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        name, port = "", None
    suffix = "" if port in (None, *DEFAULT_PORTS.values()) else f":{port}"
    if ":" in name:
        return f"[{name}]{suffix}"
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", name):
        raise ValueError(f'{entry!r} is not a host name: write it like "semel.example.org"')
    return name.rstrip(".") + suffix


Host = Annotated[str, AfterValidator(_read_host)]


class HttpOptions(Table):
    """The settings in `[gateway]` that concern HTTP."""

    hosts: Annotated[tuple[Host, ...], Field(strict=False)] = Field(default=(), examples=[["semel.example.org"]])
    """Further host names under which the gateway is reached, such as a proxy's. Others are refused. If an
    entry is a URL, its host and port are used. A port is for the links of `semel link`; requests are accepted with any
    port."""
    origins: Annotated[tuple[Origin, ...], Field(strict=False)] = Field(default=(), examples=[["https://app.example"]])
    """Origins of other web pages that may use the API, compared exactly. They must send the owner's token as a bearer
    token; the login cookie is only for the gateway's own page."""
    heartbeat_s: Duration = 4.0
    """How often a quiet event stream gets a sign of life, so that proxies do not close it. The page and the terminal
    take their connection as lost after two and a half times as long without one."""


class GatewaySection(GatewayOptions, HttpOptions, ServerOptions):
    """`[gateway]`"""


DATABASE_EXAMPLE = '"postgresql://semel@db.example.org/semel"'


class LedgerSection(Table):
    """`[ledger]`"""

    url: str = Field(default="", examples=["sqlite:///ledger.db"])
    """The ledger's file, as "sqlite:///path", relative to the data directory (four slashes: absolute), or its
    [PostgreSQL database](postgres.md), as "postgresql://user@host/database". Default: ledger.db in the data
    directory."""

    @field_validator("url")
    @classmethod
    def _check_engine(cls, url: str) -> str:
        if is_database_uri(url):  # it may hold a password, so it is not shown
            if not DatabaseUrl(url).database:
                raise ValueError(f"it names no database; write it like {DATABASE_EXAMPLE}")
        elif not re.match("sqlite:///.", url):
            raise ValueError(f'it is not like "sqlite:///ledger.db" or {DATABASE_EXAMPLE}')
        return url


class ClusterSection(Table):
    """`[cluster]`"""

    name: str = Field(default="", pattern=f"^$|{NAME_PATTERN}", examples=["alpha"])
    """A name for this gateway, which makes it one of [several on a database](postgres.md#several-gateways). They share
    the work. Default: none, and a gateway refuses a database that another one uses."""
    address: str | None = Field(default=None, pattern="^https?://[^/]+", examples=["https://alpha.example.org"])
    """The URL of this gateway for the other machines. They let it answer what concerns its sessions, and send it the
    owner's token: use https, or a network that you trust. Default: none, and this gateway runs nothing until it takes
    over."""


def _check_token(token: str, info: ValidationInfo) -> str:
    if info.context is None:
        return token
    token = token.strip()
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"a token is {MIN_TOKEN_CHARS} or more ASCII letters, digits and signs, without a blank")
    return token


class NodeSettings(NamedTable):
    """`[nodes.NAME]`: a machine that reports events with a token of its own."""

    token: Annotated[SecretReference, AfterValidator(_check_token)] = Field(repr=False, examples=["file:ci.token"])
    """The machine's token: "env:NAME" or "file:PATH", 16 or more characters, different for each node."""
    sessions: Strings = Field(default=(), examples=[["main:ci:*"]])
    """The sessions to which it may report, as patterns like "main:ci:*". Default: none."""
    recorded_source: str = Field(default="", validation_alias="(source)")

    @property
    def source(self) -> str:
        """The source of the node's events (Law 1). The ledger remembers it, so that a renamed node keeps it."""
        return self.recorded_source or f"node:{self.name}"

    @property
    def digest(self) -> bytes:
        """Digest of the token, by which the ledger recognises a renamed node."""
        return hashlib.blake2b(self.token.encode(), digest_size=16, person=b"semel node").digest()

    def may_report_to(self, session: str) -> bool:
        return any(fnmatchcase(session, pattern) for pattern in self.sessions)


class ConfigFile(Sections):
    """The whole of semel.toml."""

    gateway: GatewaySection = GatewaySection()
    ledger: LedgerSection = LedgerSection()
    cluster: ClusterSection = ClusterSection()
    nodes: Entries[NodeSettings] = Field(default_factory=dict)


@dataclass(frozen=True)
class ConfigSource:
    """A configuration file, and what is needed to resolve the references in its values.

    base         the directory from which relative paths start
    text, name   for the line numbers and the file name in error messages
    env          the environment variables for `env:NAME`
    content      the file's content as TOML, with its mistakes
    """

    base: Path
    text: str
    name: str
    env: Mapping[str, str]
    content: Mapping[str, Any] = field(default_factory=dict)

    def find_names(self, kind: str) -> Collection[str] | None:
        """Return the NAME of each section [kind.NAME], whether it is right or wrong; None if they cannot be told."""
        sections = self.content.get(kind, {})
        return list(sections) if isinstance(sections, dict) else None

    @property
    def resolvers(self) -> ReferenceResolvers:
        return ReferenceResolvers(self.resolve_path, self.resolve_secret)

    def sort_by_line(self, problems: Iterable[str]) -> list[str]:
        """Return problems in the order of the file; those without a line come first."""

        def find_place(problem: str) -> int:
            line = problem.removeprefix(f"{self.name}:").partition(":")[0]
            return int(line) if line.isdecimal() else 0

        return sorted(problems, key=find_place)

    def error(self, location: tuple[str, ...], problem: str) -> ConfigError:
        line = find_line(self.text, location)
        return ConfigError(f"{self.name}:{line}: {problem}" if line else f"{self.name}: {problem}")

    def resolve_path(self, value: str) -> Path:
        """Return an absolute path; a relative `value` starts at the file's directory. Raises ValueError."""
        try:
            return (self.base / expand_path(value)).absolute()
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def resolve_secret(self, value: str) -> str:
        """Return the value itself, or what `env:NAME` or `file:PATH` refers to. Raises ValueError.

        Line breaks at the end of a file are dropped.
        """
        if not value.startswith("file:"):
            return self._resolve_variable(value)
        if value == "file:":
            raise ValueError(f'{value!r} names no file: write "file:PATH"')
        try:
            return self.resolve_path(value.removeprefix("file:")).read_text(encoding="utf-8").rstrip("\r\n")
        except FileNotFoundError:
            raise ValueError(f"{value!r} cannot be read: there is no such file") from None
        except UnicodeDecodeError:
            raise ValueError(f"{value!r} cannot be read: it is not UTF-8") from None
        except OSError as error:
            raise ValueError(f"{value!r} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"{value!r} cannot be read: {error}") from None

    def _resolve_variable(self, value: str) -> str:
        """Return the value itself, or what `env:NAME` refers to. Raises ValueError."""
        if not value.startswith("env:"):
            return value
        name = value.removeprefix("env:")
        if not name:
            raise ValueError(f'{value!r} names no environment variable: write "env:NAME"')
        if name not in self.env:
            raise ValueError(f"{value!r} cannot be read: the environment variable {name} is not set")
        return self.env[name]
