"""Who may talk, and what each may: roles, groups, and the codes by which a person becomes known.

Whoever a channel does not know is a *stranger*: refused, counted, never recorded. A person is known because the
configuration lists them, because the owner added them, or because they showed a code that the owner was given.

| role | talks | commands | answers permission requests |
|---|---|---|---|
| owner | yes | all | anywhere |
| member | yes | all | where the agent's `approvals` name them; as a member, only where they are alone with it |
| guest | yes | /help, /status, /history | never |

The owner's token (page, terminal, CLI, API) is the owner.
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
"""Why something is refused: the labels of the metric `semel_refused_total`."""

APPROVALS = frozenset({"approve", "deny"})
"""Commands that answer an agent's permission request: who may is decided apart from the others."""


@dataclass(frozen=True)
class May:
    """What a role may. `approves`: everywhere, in their own direct conversation where an agent lets them, or never."""

    talks: bool
    commands: frozenset[str]
    approves: Literal["anywhere", "direct", "never"]


_ALL = frozenset(COMMANDS)

ROLES: dict[Role, May] = {
    "owner": May(True, _ALL, "anywhere"),
    "member": May(True, _ALL, "direct"),
    "guest": May(True, frozenset({"help", "status", "history"}), "never"),
}


def approves(role: Role, person: str, direct: bool, named: Collection[str]) -> bool:
    """Whether they may answer an agent's permission request. `named`: the roles and people its `approvals` name.

    The owner always may. A person who is named themselves may anywhere; one whose role is named, where nobody else
    can write: what is said in a group is seen, and pressed for, by the others.
    """
    may = ROLES[role].approves
    if may == "anywhere":
        return True
    if may == "never":
        return False
    return (bool(person) and person in named) or (direct and role in named)


def may_hold_agent(guests: Collection[str], others: Collection[Collection[str]], most: int) -> bool:
    """Whether a turn of these guests may keep its agent while it waits for a permission, of `most` that may live.

    `others`: the guests of each other turn that does. A guest holds one agent at most, and all guests together hold
    half of them: whoever else writes meanwhile is served.
    """
    return len(others) < most // 2 and not any(set(guests) & set(other) for other in others)


def in_words(named: Collection[str]) -> str:
    """Who may answer a request, for people."""
    others = sorted({"a member" if name == "member" else name for name in named if name not in ("owner", "guest")})
    return " or ".join(filter(None, [", ".join(["the owner", *others[:-1]]), *others[-1:]]))


def who_approves(role: Role, named: Collection[str]) -> str:
    """Why one who may not answer a request there may not, and who may."""
    if role == "member" and "member" in named:
        return "what the agent asks is answered alone with it, not in a group; or by the owner."
    return f"what the agent asks here is answered by {in_words(set(named) - {'member'})}."


def free_name(called: str, taken: Collection[str]) -> str:
    """What somebody calls themselves, as a name that nobody has: with that, they would be somebody else.

    Letters, digits, - and _, as it stands in a command or in semel.toml; never the name of a role.
    """
    bare = re.sub(r"[^A-Za-z0-9_-]+", "-", called).strip("-_")[:40] or "somebody"
    if bare not in taken and bare not in ROLES:
        return bare
    return next(name for n in itertools.count(2) if (name := f"{bare}-{n}") not in taken)


def in_group(policy: Policy, mentioned: bool) -> bool | None:
    """Whether what a known person writes in a group is heard: None: no; True: as ever; False: without a wake."""
    if policy == "never":
        return None
    return mentioned or policy == "always"


# ---------------------------------------------------------------- codes

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O and U. https://www.crockford.com/base32.html"""
CODE_LENGTH = 8  # of 32 signs each: 40 bits
_ALIKE = str.maketrans("ILO", "110")


def code_in(text: str) -> str | None:
    """The code that a message holds and nothing else: letter case, blanks and hyphens aside; I, L, O as 1, 1, 0."""
    if len(text) > 4 * CODE_LENGTH:
        return None
    bare = "".join(text.replace("-", " ").split()).upper().translate(_ALIKE)
    return bare if len(bare) == CODE_LENGTH and all(sign in ALPHABET for sign in bare) else None


def show_code(code: str) -> str:
    """In two halves, as people read it aloud."""
    return f"{code[: CODE_LENGTH // 2]}-{code[CODE_LENGTH // 2 :]}"


def given_code(text: str) -> tuple[str | None, bool]:
    """(the code that a person's message brings, whether they wrote `/pair` before it)."""
    first, _, rest = text.strip().partition(" ")
    if first == "/pair":
        return code_in(rest), True
    return code_in(text), False
