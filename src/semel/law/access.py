"""Access control: roles and their permissions, group policies, and pairing codes.

A *stranger* is a sender that Semel does not know. Strangers are refused: they are counted, and nothing that they send
is recorded, unless the channel or group admits them as guests. A person becomes known when the configuration lists
them, when the owner adds them, or when they send a pairing code that the owner gave them.

| role | talks | commands | answers permission requests |
|---|---|---|---|
| owner | yes | all | anywhere |
| member | yes | all | anywhere if the agent's `approvals` name the person; in direct chats if they name the role |
| guest | yes | /help, /status, /history | never |

Whoever holds the owner's token (page, terminal, CLI, API) acts as the owner.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from semel.law.commands import COMMANDS

Role = Literal["owner", "member", "guest"]
Policy = Literal["mention", "always", "never"]
Strangers = Literal["refuse", "guest"]

ROLE_NAMES: tuple[Role, ...] = get_args(Role)
POLICIES: tuple[Policy, ...] = get_args(Policy)

REASONS = {
    "stranger": "from unknown senders",
    "code": "codes that were wrong, used or expired",
    "codes": "codes from somebody who sent too many wrong ones",
    "shown": "codes that were sent in a group and are void",
    "limit": "from guests over the limit for strangers",
    "unreadable": "unreadable, and over the limit for quarantine",
    "group": "in groups where nothing is accepted",
    "command": "commands that the role does not allow",
    "approval": "answers to an agent's request from people who may not answer it",
}
"""Reasons for a refusal, with their descriptions: the labels of the metric `semel_refused_total`."""

APPROVALS = frozenset({"approve", "deny"})
"""Commands that answer an agent's permission request. The function `may_approve` decides who may use them."""


@dataclass(frozen=True)
class RolePermissions:
    """What a role may do.

    `commands`: the slash commands that the role may use. `approves`: where it may answer permission requests. "direct"
    stands for a direct chat with an agent whose `approvals` name the role; the function `may_approve` has the details.
    """

    commands: frozenset[str]
    approves: Literal["anywhere", "direct", "never"]


_ALL = frozenset(COMMANDS)

ROLES: dict[Role, RolePermissions] = {
    "owner": RolePermissions(_ALL, "anywhere"),
    "member": RolePermissions(_ALL, "direct"),
    "guest": RolePermissions(frozenset({"help", "status", "history"}), "never"),
}


def may_approve(role: Role, person: str, direct: bool, approvers: Collection[str]) -> bool:
    """Whether a person with this role may answer an agent's permission request.

    `direct`: the person writes in a direct chat, not in a group. `approvers`: the roles and people that the agent's
    setting `approvals` lists. The owner always may, a guest never. A member may answer anywhere if listed by name, but
    only in a direct chat if listed by role: in a group, others see the request and could press for an answer.
    """
    scope = ROLES[role].approves
    if scope == "anywhere":
        return True
    if scope == "never":
        return False
    return (bool(person) and person in approvers) or (direct and role in approvers)


def may_hold_agent(guests: Collection[str], others: Collection[Collection[str]], max_agents: int) -> bool:
    """Whether a guests' turn may keep its agent process while it waits for an answer to a permission request.

    Each guest may keep one agent waiting, and all guests together at most half of `max_agents`, so that other people
    are still served. `guests`: the guests whose messages the turn answers. `others`: for each other turn of guests that
    waits now, the guests whose messages it answers. `max_agents`: how many agents may run at once.
    """
    return len(others) < max_agents // 2 and not any(set(guests) & set(other) for other in others)


def format_approvers(approvers: Collection[str]) -> str:
    """Return who may answer a request, as a phrase for people: "the owner, Bob or a member"."""
    others = sorted({"a member" if name == "member" else name for name in approvers if name not in ("owner", "guest")})
    return " or ".join(filter(None, [", ".join(["the owner", *others[:-1]]), *others[-1:]]))


def explain_denied_approval(role: Role, approvers: Collection[str]) -> str:
    """Return a text for a person of this role who may not answer a request here: it says who may, or where."""
    if role == "member" and "member" in approvers:
        return "answer it in a conversation alone with the agent, not in a group; or ask the owner."
    return f"what the agent asks here is answered by {format_approvers(set(approvers) - {'member'})}."


def make_unique_name(display_name: str, taken_names: Collection[str]) -> str:
    """Turn a display name into a person's name that is not yet taken and is not the name of a role.

    The result has only ASCII letters, digits, "-" and "_", so that it can be written in commands and in semel.toml.
    """
    without_accents = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", display_name))
    bare = re.sub(r"[^A-Za-z0-9_-]+", "-", without_accents).strip("-_")[:40] or "somebody"
    if bare not in taken_names and bare not in ROLES:
        return bare
    return next(name for n in itertools.count(2) if (name := f"{bare}-{n}") not in taken_names)


def decide_group_wake(policy: Policy, mentioned: bool) -> bool | None:
    """Decide whether a known person's message in a group wakes the session.

    `mentioned`: the message mentions the agent. Returns True if it wakes the session, False if it is accepted without a
    wake, and None if it is ignored.
    """
    if policy == "never":
        return None
    return mentioned or policy == "always"


# ---------------------------------------------------------------- codes

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O and U. https://www.crockford.com/base32.html"""
CODE_LENGTH = 8  # characters of 5 bits each: 40 bits
_ALIKE = str.maketrans("ILO", "110")


def parse_code(text: str) -> str | None:
    """Return the pairing code, in capitals without separators; None if the text is not exactly one code.

    Letter case, white space and hyphens are ignored; I and L are read as 1, O as 0.
    """
    if len(text) > 4 * CODE_LENGTH:
        return None
    bare = "".join(text.replace("-", " ").split()).upper().translate(_ALIKE)
    return bare if len(bare) == CODE_LENGTH and all(char in ALPHABET for char in bare) else None


def show_code(code: str) -> str:
    """Format a code as two halves joined by a hyphen, so that it is easier to read aloud."""
    return f"{code[: CODE_LENGTH // 2]}-{code[CODE_LENGTH // 2 :]}"


def read_pairing_message(text: str) -> tuple[str | None, bool]:
    """Return (the pairing code that the message gives, or None; whether the message is a `/pair` command)."""
    command, *rest = text.split(None, 1) or [""]
    if command.lower() == "/pair":
        return parse_code(rest[0] if rest else ""), True
    return parse_code(text), False
