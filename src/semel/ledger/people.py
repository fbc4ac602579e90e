"""Known people: their accounts, pairing codes, and the place where each last wrote in a direct conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from semel.law.access import Role, make_unique_name
from semel.ledger.storage.sql import Row, Tx

DIRECT_PLACE_REFRESH_MS = 3_600_000  # a known direct place is stored again after this time, or at once if it changed
PAGE = 1000  # accounts per query


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
    """An open pairing code. `expires` is in milliseconds since the Unix epoch."""

    id: int
    channel: str
    salt: bytes
    digest: bytes
    name: str
    role: str
    expires: int


class Listed(Exception):
    """The account comes from the configuration and can only be changed there."""


def all_accounts(tx: Tx) -> list[Account]:
    """All known accounts."""
    return [_account(row) for row in _all(tx)]


def _all(tx: Tx) -> Iterator[Row]:
    page = tx.all("people_all", after=0, limit=PAGE)
    while page:
        yield from page
        page = tx.all("people_all", after=page[-1].id, limit=PAGE)


def configure(tx: Tx, listed: Collection[Account], roles: Mapping[str, str]) -> list[Account]:
    """Replace the configured accounts by `listed`; return all known accounts.

    Configured accounts that are no longer listed are removed. `roles` maps names of people to roles: their other
    accounts (added or paired) get the same role.
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
    """Add or update an account and return all known accounts. The person's other accounts get the same role.

    Raises Listed if the account comes from the configuration.
    """
    known = tx.one("person_get", channel=account.channel, account=account.id)
    if known is not None and known.origin == "config":
        raise Listed
    _put(tx, account)
    tx.run("person_role", name=account.name, role=account.role)
    return all_accounts(tx)


def remove(tx: Tx, channel: str, account: str) -> list[Account] | None:
    """Remove an account and return the remaining ones; `None` if it was not known. Raises Listed."""
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
    """Record a pairing code that the owner was shown. It is valid for `lasts` milliseconds."""
    expires = tx.now + lasts
    id = tx.value(
        "pairing_add", channel=channel, salt=salt, digest=digest, name=name, role=role, at=tx.now, expires=expires
    )  # fmt: skip
    return Code(int(id), channel, salt, digest, name, role, expires)


def open_codes(tx: Tx) -> list[Code]:
    """Pairing codes that were neither used nor voided, including expired ones."""
    return [Code(r.id, r.channel, bytes(r.salt), bytes(r.digest), r.name, r.role, r.expires)
            for r in tx.all("pairings_open")]  # fmt: skip


def redeem(tx: Tx, code: int, account: str, key: str, called: str, taken: Collection[str] = ()) -> list[Account] | None:
    """Use a pairing code: add the account and return all known accounts.

    Returns `None` if the code was used, voided or expired in the meantime. Raises Listed. `called` is the person's own
    name, used if the owner gave none; it is changed if a known person or `taken` already has it.
    """
    row = tx.one("pairing_get", id=code)
    if row is None or row.state != "open" or row.expires <= tx.now:
        return None
    others = {one.name for one in all_accounts(tx) if (one.channel, one.id) != (row.channel, account)}
    name = row.name or make_unique_name(called, others | set(taken))
    people = put(tx, Account(row.channel, account, name, row.role, "paired"))
    tx.run("pairing_end", id=code, state="used", account=account, key=key, name=name)
    return people


def void(tx: Tx, code: int) -> bool:
    """Invalidate an open code. False if it was already used or void."""
    return tx.run("pairing_end", id=code, state="void", account=None, key=None, name=None) > 0


def redeemed_by(tx: Tx, channel: str, account: str, key: str) -> Row | None:
    """The pairing that this message completed, or `None`. It lets a repeat of the message get the same answer."""
    return tx.one("pairing_by_key", channel=channel, account=account, key=key)


def pairings(tx: Tx, limit: int) -> list[Row]:
    """The newest pairing codes, in any state."""
    return tx.all("pairings_last", before=1 << 62, limit=limit)


def agents_of(tx: Tx, keys: Collection[str]) -> list[str]:
    """The agents of those of these sessions that exist."""
    found = [tx.one("session_by_key", key=key) for key in keys]
    return [row.agent for row in found if row is not None]


# ---------------------------------------------------------------- where people are


def seen(tx: Tx, channel: str, address: str, account: str, direct: bool) -> None:
    """Remember where a known person wrote to us directly. Group chats and unknown accounts are ignored."""
    if not direct or tx.one("person_get", channel=channel, account=account) is None:
        return
    known = tx.one("direct_get", channel=channel, account=account)
    if known is None or known.address != address or tx.now - known.at > DIRECT_PLACE_REFRESH_MS:
        tx.run("direct_put", channel=channel, account=account, address=address, at=tx.now)


def other_places(tx: Tx, dest: str) -> list[str]:
    """Other direct conversations of the person behind `dest` ("channel:address"), newest first.

    Returns resolved destinations on other channels; none if `dest` is not the direct conversation of a known person.
    """
    channel, _, address = dest.partition(":")
    found = tx.all("direct_elsewhere", channel=channel, address=address)
    return list(dict.fromkeys(f"{row.channel}:{row.address}" for row in found))
