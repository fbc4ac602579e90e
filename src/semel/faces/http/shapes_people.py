"""Request and answer types of the operations on people."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from semel.law.access import Role


class AccountOf(Struct):
    """`account` is CHANNEL:ID; `origin` tells where it is known from."""

    account: str
    origin: Literal["config", "added", "paired"]


class Someone(Struct):
    """A person who may talk. One whom semel.toml names may have no account yet."""

    name: str
    role: Role
    accounts: list[AccountOf]


class People(Struct):
    people: list[Someone]


class NewAccount(Struct, forbid_unknown_fields=True):
    """`account`: CHANNEL:ID. `name`: default: as they call themselves; `role`: as the person has it, else member."""

    account: str
    name: str | None = None
    role: Role | None = None


class NewCode(Struct, forbid_unknown_fields=True):
    """`name`: default: as whoever uses it calls themselves; `role`: as the person has it, else member."""

    channel: str
    name: str | None = None
    role: Role | None = None


class Code(Struct):
    """A code, told once. `expires` is ms."""

    code: str
    channel: str
    name: str | None
    role: Role
    expires: int


class CodeState(Struct):
    """What became of a code; `account` is who used it. `at` and `expires` are ms."""

    channel: str
    name: str | None
    role: Role
    state: Literal["open", "used", "expired", "void"]
    account: str | None
    at: int
    expires: int


class StrangerMet(Struct):
    """Somebody who was refused: when first, when last (ms), how often; never what they wrote."""

    account: str
    channel: str
    id: str
    name: str
    first: int
    last: int
    times: int


class RefusedOften(Struct):
    """How often something was refused on a channel for a reason (docs/people.md)."""

    channel: str
    reason: str
    times: int


class Refusals(Struct):
    """Since the gateway started; the latest strangers of each channel, newest first."""

    strangers: list[StrangerMet]
    refused: list[RefusedOften]
    codes: list[CodeState]
