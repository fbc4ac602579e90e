"""Access control: roles and their permissions, group policies, and pairing codes.

A sender that a channel does not know is a *stranger*: refused and counted, never recorded. A person becomes known
when the configuration lists them, when the owner adds them, or when they send a pairing code issued to the owner.

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
    "stranger": "of strangers",
    "code": "a code that was wrong, used or expired",
    "codes": "too many wrong codes",
    "shown": "a code that was sent in a group, and is void",
    "limit": "of guests who wrote more than strangers may",
    "unreadable": "of nobody, more than is kept of what cannot be read",
    "group": "in groups where nothing is heard",
    "command": "commands that are not for that role",
    "approval": "answers to an agent's request, of people who may not",
}
"""Reasons for a refusal, with their descriptions: the labels of the metric `semel_refused_total`."""

APPROVALS = frozenset({"approve", "deny"})
"""Commands that answer an agent's permission request. `approves` decides who may use them, not the role's commands."""


@dataclass(frozen=True)
class RolePermissions:
    """The permissions of a role.

    `approves`: may answer permission requests anywhere, only in a direct chat and if the agent allows it, or never.
    """

    talks: bool
    commands: frozenset[str]
    approves: Literal["anywhere", "direct", "never"]


_ALL = frozenset(COMMANDS)

ROLES: dict[Role, RolePermissions] = {
    "owner": RolePermissions(True, _ALL, "anywhere"),
    "member": RolePermissions(True, _ALL, "direct"),
    "guest": RolePermissions(True, frozenset({"help", "status", "history"}), "never"),
}


def approves(role: Role, person: str, direct: bool, named: Collection[str]) -> bool:
    """Whether a person may answer an agent's permission request.

    `named`: the roles and people in the agent's `approvals`. The owner always may. A person named there may answer
    anywhere. A person whose role is named may answer only in a direct chat: in a group, others see the request and
    could press for an answer.
    """
    may = ROLES[role].approves
    if may == "anywhere":
        return True
    if may == "never":
        return False
    return (bool(person) and person in named) or (direct and role in named)


def may_hold_agent(guests: Collection[str], others: Collection[Collection[str]], most: int) -> bool:
    """Whether a turn of these guests may keep its agent process while it waits for a permission.

    `others`: the guests of each other turn that does so now. `most`: how many agents may run at once. A guest holds at
    most one agent, and all guests together hold at most half of them, so that other people are still served.
    """
    return len(others) < most // 2 and not any(set(guests) & set(other) for other in others)


def in_words(named: Collection[str]) -> str:
    """The people and roles that may answer a request, as a phrase to show."""
    others = sorted({"a member" if name == "member" else name for name in named if name not in ("owner", "guest")})
    return " or ".join(filter(None, [", ".join(["the owner", *others[:-1]]), *others[-1:]]))


def explain_denied_approval(role: Role, named: Collection[str]) -> str:
    """Explain to a person why they may not answer a request here, and who may."""
    if role == "member" and "member" in named:
        return "what the agent asks is answered alone with it, not in a group; or by the owner."
    return f"what the agent asks here is answered by {in_words(set(named) - {'member'})}."


def make_unique_name(called: str, taken: Collection[str]) -> str:
    """Turn a display name into a person's name that is not taken yet.

    The result has letters, digits, "-" and "_" only, so that it can be written in commands and in semel.toml. It is
    never the name of a role.
    """
    bare = re.sub(r"[^A-Za-z0-9_-]+", "-", called).strip("-_")[:40] or "somebody"
    if bare not in taken and bare not in ROLES:
        return bare
    return next(name for n in itertools.count(2) if (name := f"{bare}-{n}") not in taken)


def decide_group_wake(policy: Policy, mentioned: bool) -> bool | None:
    """How a known person's message in a group is treated: True: accepted, and it wakes; False: accepted without a wake;
    None: ignored."""
    if policy == "never":
        return None
    return mentioned or policy == "always"


# ---------------------------------------------------------------- codes

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O and U. https://www.crockford.com/base32.html"""
CODE_LENGTH = 8  # characters of 5 bits each: 40 bits
_ALIKE = str.maketrans("ILO", "110")


def parse_code(text: str) -> str | None:
    """The pairing code in a message that consists of nothing else; None if it is not one.

    Letter case, white space and hyphens are ignored; I and L are read as 1, O as 0.
    """
    if len(text) > 4 * CODE_LENGTH:
        return None
    bare = "".join(text.replace("-", " ").split()).upper().translate(_ALIKE)
    return bare if len(bare) == CODE_LENGTH and all(sign in ALPHABET for sign in bare) else None


def show_code(code: str) -> str:
    """Format a code in two halves joined by a hyphen, which is easier to read aloud."""
    return f"{code[: CODE_LENGTH // 2]}-{code[CODE_LENGTH // 2 :]}"


def read_pairing_message(text: str) -> tuple[str | None, bool]:
    """Return (the pairing code in a person's message or None, whether the message begins with `/pair`)."""
    first, _, rest = text.strip().partition(" ")
    if first == "/pair":
        return parse_code(rest), True
    return parse_code(text), False
