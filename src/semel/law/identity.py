"""Identity: session keys, event keys, content digests, and the route that a session key describes (Law 1)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

KEY_LENGTH = 512
"""The maximum length of an event key, in code points."""

_SESSION = re.compile(r"[A-Za-z0-9._:@!+=~-]{1,200}")
_SPECIAL = re.compile(r"[^A-Za-z0-9._:@!+=-]")  # escaped in an address, "~" included: it begins an escape
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPED = re.compile(r"(?:~[0-9A-F]{2})+")


class BadKey(ValueError):
    """An invalid session key, event key or escaped address; the message says what to do."""


class BadFields(ValueError):
    """Fields that have no canonical form; the message says which value and what to do."""


def check_session_key(key: str) -> str:
    """Return the key if it is valid. Raises BadKey."""
    if not key:
        raise BadKey("a session key is empty; give it 1 to 200 characters, such as main:telegram:-100")
    if len(key) > 200:
        raise BadKey(f"a session key has {len(key)} characters; shorten it to at most 200")
    if not _SESSION.fullmatch(key):
        odd = sorted({char for char in key if not _SESSION.fullmatch(char)})
        raise BadKey(
            f"a session key holds {', '.join(map(ascii, odd[:5]))}; "
            "use letters, digits and ._:@!+=~- only (a channel escapes the rest of an address)"
        )
    return key


def escape_address(text: str) -> str:
    """Escape an address for a session key: a character that a key cannot hold becomes its UTF-8 bytes as ~XX in hex."""
    return _SPECIAL.sub(lambda found: "".join(f"~{byte:02X}" for byte in _utf8(found[0])), text)


def unescape_address(text: str) -> str:
    """The inverse of `escape_address`. Raises BadKey if the text is not an escaped address."""
    try:
        address = _ESCAPED.sub(_unescape, text)
    except UnicodeDecodeError:
        address = ""
    if escape_address(address) != text:
        raise BadKey(f"{text!r} is no escaped address; write ~7E for a tilde, and other escapes as ~XX")
    return address


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("~", "")).decode("utf-8", "surrogatepass")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def check_event_key(key: str) -> str:
    """Return the key if it has 1 to 512 characters and no control character. Raises BadKey."""
    if not key:
        raise BadKey("an event key is empty; leave it out if the event has none")
    if len(key) > KEY_LENGTH:
        raise BadKey(f"an event key has {len(key)} characters; shorten it, or hash it, to at most {KEY_LENGTH}")
    if odd := _CONTROL.search(key):
        raise BadKey(f"an event key holds {odd[0]!a} at position {odd.start()}; remove control characters")
    return key


def digest(fields: Mapping[str, Any]) -> bytes:
    """BLAKE2b-128 of the fields' canonical JSON: sorted names, no white space, ASCII escapes, no Unicode normalisation.

    Values are JSON values; tuples count as arrays. Raises BadFields for anything else: a float that is not finite, a
    name that is not a string, bytes, or values that are nested too deeply.
    """
    try:
        plain = _plain(fields, "the fields")
        form = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise BadFields("the fields are nested too deeply; flatten them") from None
    except BadFields:
        raise
    except ValueError as error:  # an integer of more digits than Python prints
        raise BadFields(f"the fields hold a value without a JSON form ({error}); send a string") from None
    return hashlib.blake2b(form.encode("ascii"), digest_size=16).digest()


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return {_named(name, where): _plain(inner, f"{where}: {name!r}") for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise BadFields(f"{where} hold {value}; JSON has no such number, send null or a string")
    if value is not None and not isinstance(value, str | int | float):
        raise BadFields(f"{where} hold a {type(value).__name__}; send a JSON value")
    return value


def _named(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise BadFields(f"{where} have the name {name!r}; names must be strings")
    return name


def judge_repeat(first: bytes, second: bytes) -> Literal["duplicate", "conflict"]:
    """What a second event with the same source and key is, by the digests of their content (Law 1)."""
    return "duplicate" if first == second else "conflict"


@dataclass(frozen=True)
class Route:
    """The agent and the home (a resolved destination) that a session key describes."""

    agent: str
    home: str


@dataclass(frozen=True)
class Grant:
    """The sessions to which a node or webhook may report. The owner needs no grant.

    `patterns`: shell patterns over session keys. `channel`: the channel that the reporter itself is, or "".
    """

    patterns: Sequence[str] = ()
    channel: str = ""

    def reaches(self, first: str, channel: str, address: str) -> bool:
        """Whether a new session that the reporter creates may have this destination as its home.

        It may on the reporter's own channel, or if a pattern spells the channel out. Patterns are matched segment by
        segment; `ci:*` and `*:*:*` name no channel.
        """
        return channel == self.channel or any(
            _pattern_reaches(pattern, first, channel, address) for pattern in self.patterns
        )


def _pattern_reaches(pattern: str, first: str, channel: str, address: str) -> bool:
    of_first, _, rest = pattern.partition(":")
    named, _, of_address = rest.partition(":")
    return named == channel and fnmatchcase(first, of_first) and fnmatchcase(address, of_address)


def route(
    key: str, agents: Sequence[str], channels: Collection[str], default_agent: str, grant: Grant | None = None
) -> Route:
    """Derive agent and home from a session key of the form `agent:channel:address`.

    The agent is the first segment if an agent of that name is configured, else the default agent. The home is
    `channel:address`, with the address unescaped, if the second segment is a configured channel that `grant` reaches
    (None: the owner, who reaches every channel); otherwise it is `web:<key>`.
    """
    first, _, rest = key.partition(":")
    channel, _, address = rest.partition(":")
    agent = first if first in agents else default_agent
    if channel in channels and address and (grant is None or grant.reaches(first, channel, address)):
        return Route(agent, f"{channel}:{_address(address)}")
    return Route(agent, f"web:{key}")


def _address(escaped: str) -> str:
    try:
        return unescape_address(escaped)
    except BadKey:  # a person typed the key, with a "~" that is no escape
        return escaped
