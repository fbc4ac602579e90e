"""People: whose accounts are known, the codes by which they become so, and where each was met last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from semel.law.access import Role, free_name
from semel.ledger.storage.sql import Row, Tx

FRESH_MS = 3_600_000  # where somebody was met is written again after this, or when it is another place
PAGE = 1000  # accounts that are read at once


@dataclass(frozen=True)
class Account:
    """One account of a person. `origin`: "config", "added" or "paired"."""

    channel: str
    id: str
    name: str
    role: Role
    origin: str


@dataclass(frozen=True)
class Code:
    """A code that waits to be used. Times are milliseconds since the epoch."""

    id: int
    channel: str
    salt: bytes
    digest: bytes
    name: str
    role: str
    expires: int


class Listed(Exception):
    """The account stands in the configuration, and is changed there."""


def all_accounts(tx: Tx) -> list[Account]:
    """Everybody who is known."""
    return [_account(row) for row in _all(tx)]


def _all(tx: Tx) -> Iterator[Row]:
    page = tx.all("people_all", after=0, limit=PAGE)
    while page:
        yield from page
        page = tx.all("people_all", after=page[-1].id, limit=PAGE)


def configure(tx: Tx, listed: Collection[Account], roles: Mapping[str, str]) -> list[Account]:
    """What the configuration lists holds from now on; what it lists no more is gone. Everybody who is known then.

    `roles`: of the people it names, who may have other accounts than those it lists.
    """
    wanted = {(one.channel, one.id): one for one in listed}
    for row in list(_all(tx)):
        if row.origin == "config" and (row.channel, row.account) not in wanted:
            _drop(tx, row.channel, row.account)
    for one in wanted.values():
        known = tx.one("person_get", channel=one.channel, account=one.id)
        if known is None or _account(known) != one:
            _put(tx, one)
    for name, role in roles.items():
        if any(row.role != role for row in tx.all("people_named", name=name)):
            tx.run("person_role", name=name, role=role)
    return all_accounts(tx)


def put(tx: Tx, account: Account) -> list[Account]:
    """An account is known from now on; the person's other accounts get the same role. Raises Listed."""
    known = tx.one("person_get", channel=account.channel, account=account.id)
    if known is not None and known.origin == "config":
        raise Listed
    _put(tx, account)
    tx.run("person_role", name=account.name, role=account.role)
    return all_accounts(tx)


def remove(tx: Tx, channel: str, account: str) -> list[Account] | None:
    """An account is known no more; None: it was not. Raises Listed."""
    known = tx.one("person_get", channel=channel, account=account)
    if known is None:
        return None
    if known.origin == "config":
        raise Listed
    _drop(tx, channel, account)
    return all_accounts(tx)


def _drop(tx: Tx, channel: str, account: str) -> None:
    tx.run("person_drop", channel=channel, account=account)
    tx.run("direct_drop", channel=channel, account=account)


def _put(tx: Tx, one: Account) -> None:
    tx.run(
        "person_put", channel=one.channel, account=one.id, name=one.name, role=one.role, origin=one.origin, at=tx.now
    )  # fmt: skip


def _account(row: Row) -> Account:
    return Account(row.channel, row.account, row.name, row.role, row.origin)


# ---------------------------------------------------------------- codes


def open_pairing(tx: Tx, channel: str, salt: bytes, digest: bytes, name: str, role: str, lasts: int) -> Code:
    """A code that the owner was shown; it lasts so many milliseconds."""
    expires = tx.now + lasts
    id = tx.value(
        "pairing_add", channel=channel, salt=salt, digest=digest, name=name, role=role, at=tx.now, expires=expires
    )  # fmt: skip
    return Code(int(id), channel, salt, digest, name, role, expires)


def open_codes(tx: Tx) -> list[Code]:
    """Codes that were not used, the expired ones among them."""
    return [Code(r.id, r.channel, bytes(r.salt), bytes(r.digest), r.name, r.role, r.expires)
            for r in tx.all("pairings_open")]  # fmt: skip


def redeem(tx: Tx, code: int, account: str, key: str, called: str, taken: Collection[str] = ()) -> list[Account] | None:
    """The account is known from now on; None: the code was used, void or expired meanwhile. Raises Listed.

    `called`: what the person calls themselves, where the owner gave no name; made one that nobody has, of those who
    are known and of those that are `taken`.
    """
    row = tx.one("pairing_get", id=code)
    if row is None or row.state != "open" or row.expires <= tx.now:
        return None
    others = {one.name for one in all_accounts(tx) if (one.channel, one.id) != (row.channel, account)}
    name = row.name or free_name(called, others | set(taken))
    people = put(tx, Account(row.channel, account, name, row.role, "paired"))
    tx.run("pairing_end", id=code, state="used", account=account, key=key, name=name)
    return people


def void(tx: Tx, code: int) -> bool:
    """Nobody can use this code any more; False: it was used, or void, already."""
    return tx.run("pairing_end", id=code, state="void", account=None, key=None, name=None) > 0


def redeemed_by(tx: Tx, channel: str, account: str, key: str) -> Row | None:
    """The pairing that this very message made, if it did: a repeat is answered the same."""
    return tx.one("pairing_by_key", channel=channel, account=account, key=key)


def pairings(tx: Tx, limit: int) -> list[Row]:
    """The newest codes and what became of them."""
    return tx.all("pairings_last", before=1 << 62, limit=limit)


def agents_of(tx: Tx, keys: Collection[str]) -> list[str]:
    """Which agents think in these sessions, as far as they exist."""
    found = [tx.one("session_by_key", key=key) for key in keys]
    return [row.agent for row in found if row is not None]


# ---------------------------------------------------------------- where people are


def seen(tx: Tx, channel: str, address: str, account: str, direct: bool) -> None:
    """A known person wrote there. Only what is direct is remembered, and of whoever is known by name."""
    if not direct or tx.one("person_get", channel=channel, account=account) is None:
        return
    known = tx.one("direct_get", channel=channel, account=account)
    if known is None or known.address != address or tx.now - known.at > FRESH_MS:
        tx.run("direct_put", channel=channel, account=account, address=address, at=tx.now)


def other_places(tx: Tx, dest: str) -> list[str]:
    """Where else the person can be reached whose direct conversation `dest` ("channel:address") is, newest first.

    Resolved destinations of direct conversations on other channels; none where nobody is known there by name.
    """
    channel, _, address = dest.partition(":")
    found = tx.all("direct_elsewhere", channel=channel, address=address)
    return list(dict.fromkeys(f"{row.channel}:{row.address}" for row in found))
