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

CUSTOMARY_NAME = "main"
"""How session keys such as "main:web:me" name the default agent, whatever its own name is."""

KEY_LENGTH = 512
"""The maximum length of an event key, in code points."""

QUESTION_PRESS_PREFIX = "pressed:"
"""Prefix of the event key of a press on a question's button. The message's id follows, so all presses share one key
(Law 1)."""

_SESSION = re.compile(r"[A-Za-z0-9._:@!+=~-]{1,200}")
_SPECIAL = re.compile(r"[^A-Za-z0-9._:@!+=-]")  # escaped in an address, "~" included: it begins an escape
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPED = re.compile(r"(?:~[0-9A-F]{2})+")


class BadKey(ValueError):
    """An invalid session key, event key or escaped address; the message says what to do."""


class BadFields(ValueError):
    """Fields that have no canonical form; the message says which value and what to do."""


def check_session_key(key: str) -> str:
    """Return the session key unchanged if it is valid. Raises BadKey."""
    if not key:
        raise BadKey("a session key is empty; give it 1 to 200 characters, such as main:telegram:-100")
    if len(key) > 200:
        raise BadKey(f"a session key has {len(key)} characters; shorten it to at most 200")
    if not _SESSION.fullmatch(key):
        odd_chars = sorted({char for char in key if not _SESSION.fullmatch(char)})
        raise BadKey(
            f"a session key holds {', '.join(map(ascii, odd_chars[:5]))}; "
            "use letters, digits and ._:@!+=~- only (a channel escapes the rest of an address)"
        )
    return key


def escape_address(text: str) -> str:
    """Escape an address for a session key: write each byte (UTF-8) of a character that is not allowed there as ~XX."""
    return _SPECIAL.sub(lambda char: "".join(f"~{byte:02X}" for byte in char[0].encode("utf-8", "surrogatepass")), text)


def unescape_address(text: str) -> str:
    """Undo `escape_address`. Raises BadKey if the text is not an escaped address."""
    try:
        address = _ESCAPED.sub(_unescape, text)
    except UnicodeDecodeError:
        address = ""
    if escape_address(address) != text:
        raise BadKey(f"{text!r} is not an escaped address; write ~7E for a tilde, and other escapes as ~XX")
    return address


def _unescape(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("~", "")).decode("utf-8", "surrogatepass")


def check_event_key(key: str) -> str:
    """Return the event key unchanged if it has 1 to 512 characters and no control character. Raises BadKey."""
    if not key:
        raise BadKey("an event key is empty; leave it out if the event has none")
    if len(key) > KEY_LENGTH:
        raise BadKey(f"an event key has {len(key)} characters; shorten it, or hash it, to at most {KEY_LENGTH}")
    if control := _CONTROL.search(key):
        raise BadKey(f"an event key holds {control[0]!a} at position {control.start()}; remove control characters")
    return key


def digest_fields(fields: Mapping[str, Any]) -> bytes:
    """Return the BLAKE2b-128 digest of the fields' canonical JSON.

    In canonical JSON, names are sorted, there is no white space, characters beyond ASCII are escaped, and Unicode is
    not normalised. Tuples count as arrays. Raises BadFields if a value is not JSON: a float that is not finite, a name
    that is not a string, bytes, or values that are nested too deeply.
    """
    try:
        plain = _check_value(fields, "the fields")
        form = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise BadFields("the fields are nested too deeply; flatten them") from None
    except BadFields:
        raise
    except ValueError as error:  # an integer of more digits than Python prints
        raise BadFields(f"the fields hold a value without a JSON form ({error}); send a string") from None
    return hashlib.blake2b(form.encode("ascii"), digest_size=16).digest()


def _check_value(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        return {_check_name(name, path): _check_value(inner, f"{path}: {name!r}") for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_check_value(inner, path) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise BadFields(f"{path} hold {value}; JSON has no such number, send null or a string")
    if value is not None and not isinstance(value, str | int | float):
        raise BadFields(f"{path} hold a {type(value).__name__}; send a JSON value")
    return value


def _check_name(name: object, path: str) -> str:
    if not isinstance(name, str):
        raise BadFields(f"{path} have the name {name!r}; names must be strings")
    return name


def judge_repeat(first_digest: bytes, second_digest: bytes) -> Literal["duplicate", "conflict"]:
    """Whether an event with the source and key of an earlier one is its duplicate or in conflict with it (Law 1).

    The arguments are the digests of the two events' content.
    """
    return "duplicate" if first_digest == second_digest else "conflict"


@dataclass(frozen=True)
class Route:
    """What a session key describes: the agent's name, and the session's home as a resolved destination."""

    agent: str
    home: str


@dataclass(frozen=True)
class Grant:
    """The sessions to which a reporter may report: a node (a machine with its own token) or a webhook.

    `patterns`: shell patterns that match session keys. `channel`: the webhook's own channel name; "" for a node. The
    owner needs no grant.
    """

    patterns: Sequence[str] = ()
    channel: str = ""

    def reaches(self, agent: str, channel: str, address: str) -> bool:
        """Whether a session that the reporter creates may have `channel:address` as its home.

        It may if the channel is the reporter's own, or if one of `patterns` matches `agent:channel:address` and spells
        the channel out. The three segments are matched one by one; `ci:*` and `*:*:*` spell out no channel.
        """
        return channel == self.channel or any(
            _pattern_reaches(pattern, agent, channel, address) for pattern in self.patterns
        )


def _pattern_reaches(pattern: str, agent: str, channel: str, address: str) -> bool:
    agent_pattern, _, tail = pattern.partition(":")
    channel_pattern, _, address_pattern = tail.partition(":")
    return channel_pattern == channel and fnmatchcase(agent, agent_pattern) and fnmatchcase(address, address_pattern)


def choose_agent(key: str, agents: Collection[str], default_agent: str) -> str:
    """Return the agent of a new session: the one that its key begins with, if it is one of `agents`."""
    agent = key.partition(":")[0]
    return agent if agent in agents else default_agent


def derive_route(
    key: str, agents: Collection[str], channels: Collection[str], default_agent: str, grant: Grant | None = None
) -> Route:
    """Derive agent and home from a session key of the form `agent:channel:address`.

    The agent is that of `choose_agent`. The home is `channel:address`, with
    the address unescaped, if the second segment is one of `channels` and `grant` reaches that destination; otherwise it
    is `web:<key>`. A `grant` of None stands for the owner, who reaches every channel.
    """
    agent_part, _, tail = key.partition(":")
    channel, _, address = tail.partition(":")
    agent = choose_agent(key, agents, default_agent)
    if channel in channels and address and (grant is None or grant.reaches(agent_part, channel, address)):
        return Route(agent, f"{channel}:{_unescape_typed(address)}")
    return Route(agent, f"web:{key}")


def _unescape_typed(escaped: str) -> str:
    try:
        return unescape_address(escaped)
    except BadKey:  # a person typed the key, with a "~" that is no escape
        return escaped
