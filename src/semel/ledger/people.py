"""Known people: their accounts, their pairing codes, and the direct chat in which each of them last wrote to Semel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from semel.law.access import Role, make_unique_name
from semel.ledger.storage.rows import PairingRow, PersonRow, Row, SessionRow
from semel.ledger.storage.sql import Tx

DIRECT_PLACE_REFRESH_MS = 3_600_000  # an unchanged direct chat is stored again after this time
PAGE = 1000  # accounts per query


class PairingCode(Row):
    """An open pairing code.

    `at`: when it was made; `expires`: when it becomes invalid (both in ms since the Unix epoch).
    """

    id: int
    channel: str
    salt: bytes
    digest: bytes
    name: str
    role: Role
    at: int
    expires: int


@dataclass(frozen=True)
class PersonAccount:
    """An account of a person on a channel. `origin`: "config", "added" or "paired"."""

    channel: str
    id: str
    name: str
    role: Role
    origin: str


class AccountConfigured(Exception):
    """The account is defined in the configuration and can only be changed there."""


def list_accounts(tx: Tx) -> list[PersonAccount]:
    """Return all known accounts."""
    return [_to_account(row) for row in _iterate_rows(tx)]


def _iterate_rows(tx: Tx) -> Iterator[PersonRow]:
    page = tx.all(PersonRow, "people_all", after=0, limit=PAGE)
    while page:
        yield from page
        page = tx.all(PersonRow, "people_all", after=page[-1].id, limit=PAGE)


def replace_configured(tx: Tx, configured: Collection[PersonAccount], roles: Mapping[str, str]) -> list[PersonAccount]:
    """Replace the accounts from the configuration by `configured`. Return all known accounts.

    Configured accounts that are no longer listed are removed. `roles`: the role of each person, by name. All accounts
    of a person get that role, also those that were added or paired.
    """
    by_account = {(account.channel, account.id): account for account in configured}
    for row in list(_iterate_rows(tx)):
        if row.origin == "config" and (row.channel, row.account) not in by_account:
            _drop_account(tx, row.channel, row.account)
    for account in by_account.values():
        stored = tx.one(PersonRow, "person_get", channel=account.channel, account=account.id)
        if stored is None or _to_account(stored) != account:
            _put_account(tx, account)
    for name, role in roles.items():
        if any(row.role != role for row in tx.all(PersonRow, "people_named", name=name)):
            tx.run("person_role", name=name, role=role)
    return list_accounts(tx)


def save_account(tx: Tx, account: PersonAccount) -> list[PersonAccount]:
    """Add or update an account. Return all known accounts. The person's other accounts get the same role.

    Raises AccountConfigured.
    """
    stored = tx.one(PersonRow, "person_get", channel=account.channel, account=account.id)
    if stored is not None and stored.origin == "config":
        raise AccountConfigured
    _put_account(tx, account)
    tx.run("person_role", name=account.name, role=account.role)
    return list_accounts(tx)


def remove_account(tx: Tx, channel: str, account: str) -> list[PersonAccount] | None:
    """Remove an account.

    Return the remaining accounts, or None if there was no such account. Raises AccountConfigured.
    """
    stored = tx.one(PersonRow, "person_get", channel=channel, account=account)
    if stored is None:
        return None
    if stored.origin == "config":
        raise AccountConfigured
    _drop_account(tx, channel, account)
    return list_accounts(tx)


def _drop_account(tx: Tx, channel: str, account: str) -> None:
    tx.run("person_drop", channel=channel, account=account)
    tx.run("direct_drop", channel=channel, account=account)


def _put_account(tx: Tx, account: PersonAccount) -> None:
    tx.run(
        "person_put", channel=account.channel, account=account.id, name=account.name, role=account.role,
        origin=account.origin, at=tx.now,
    )  # fmt: skip


def _to_account(row: PersonRow) -> PersonAccount:
    return PersonAccount(row.channel, row.account, row.name, row.role, row.origin)


# ---------------------------------------------------------------- pairing codes


def add_code(tx: Tx, channel: str, salt: bytes, digest: bytes, name: str, role: Role, lifetime_ms: int) -> PairingCode:
    """Record and return a new pairing code, which expires after `lifetime_ms` milliseconds.

    Only `salt` and `digest` are stored, not the code. `name`: the person's name, if the owner gave one. `role`: their
    role.
    """
    expires = tx.now + lifetime_ms
    id = tx.number(
        "pairing_add", channel=channel, salt=salt, digest=digest, name=name, role=role, at=tx.now, expires=expires
    )  # fmt: skip
    return PairingCode(id, channel, salt, digest, name, role, tx.now, expires)


def list_open_codes(tx: Tx) -> list[PairingCode]:
    """Return the pairing codes that are neither used nor voided, including expired ones."""
    return tx.all(PairingCode, "pairings_open")


def redeem_code(
    tx: Tx, code: int, account: str, key: str, display_name: str, taken_names: Collection[str] = ()
) -> list[PersonAccount] | None:
    """Use a pairing code: add the account to the known accounts, and return them all.

    Return None if the code has been used, voided or has expired. `key`: the key of the message that contained the code.
    `display_name`: the person's own name, used if the owner gave none; it is changed if another known person or
    `taken_names` has it. Raises AccountConfigured.
    """
    tx.lock("ledger_lock")
    row = tx.one(PairingRow, "pairing_get", id=code)
    if row is None or row.state != "open" or row.expires <= tx.now:
        return None
    other_names = {
        known_account.name
        for known_account in list_accounts(tx)
        if (known_account.channel, known_account.id) != (row.channel, account)
    }
    name = row.name or make_unique_name(display_name, other_names | set(taken_names))
    accounts = save_account(tx, PersonAccount(row.channel, account, name, row.role, "paired"))
    tx.run("pairing_end", id=code, state="used", account=account, key=key, name=name)
    return accounts


def void_code(tx: Tx, code: int) -> bool:
    """Invalidate an open code. Return False if the code is already used or voided."""
    tx.lock("ledger_lock")
    return tx.count_changed("pairing_end", id=code, state="void", account=None, key=None, name=None) > 0


def find_redeemed(tx: Tx, channel: str, account: str, key: str) -> PairingRow | None:
    """Return the pairing that this message completed, or None.

    With it, the gateway gives a repeated message the same answer. The message is identified by its channel, the
    sender's account and the key of its event.
    """
    return tx.one(PairingRow, "pairing_by_key", channel=channel, account=account, key=key)


def list_pairings(tx: Tx, limit: int) -> list[PairingRow]:
    """Return the newest `limit` pairing codes, whatever their state."""
    return tx.all(PairingRow, "pairings_last", before=1 << 62, limit=limit)


def find_agents(tx: Tx, keys: Collection[str]) -> list[str]:
    """Return the names of the agents of the sessions with these keys. Skip a key without a session."""
    rows = [tx.one(SessionRow, "session_by_key", key=key) for key in keys]
    return [row.agent for row in rows if row is not None]


# ---------------------------------------------------------------- direct chats


def remember_place(tx: Tx, channel: str, address: str, account: str, direct: bool) -> None:
    """Record the direct chat in which a known person just wrote. Ignore group chats and unknown accounts.

    A chat that is recorded already is recorded again after DIRECT_PLACE_REFRESH_MS, or if the person wrote in another
    one since.
    """
    if not direct or tx.one(PersonRow, "person_get", channel=channel, account=account) is None:
        return
    place = _find_direct(tx, channel, account)
    if (
        place is None
        or place[0] != address
        or tx.now - place[1] > DIRECT_PLACE_REFRESH_MS
        or tx.exists("direct_newer", channel=channel, account=account, at=place[1])
    ):
        tx.run("direct_put", channel=channel, account=account, address=address, at=tx.now)


def list_role_places(tx: Tx, role: Role) -> list[str]:
    """Return, for each person with this role, the direct chat in which they last wrote, as "channel:address".

    A person who never wrote in a direct chat is left out.
    """
    newest: dict[str, tuple[int, str]] = {}
    for account in list_accounts(tx):
        place = _find_direct(tx, account.channel, account.id) if account.role == role else None
        if place is not None:
            address, at = place
            newest[account.name] = max(newest.get(account.name, (0, "")), (at, f"{account.channel}:{address}"))
    return list(dict.fromkeys(dest for _, dest in newest.values()))


def _find_direct(tx: Tx, channel: str, account: str) -> tuple[str, int] | None:
    """Return the address of the direct chat in which an account last wrote, and when (ms); None if there is none."""
    return next(iter(tx.pairs(str, int, "direct_get", channel=channel, account=account)), None)


def list_people_at(tx: Tx, dest: str) -> list[PersonAccount]:
    """Return the accounts of the known people whose direct chat is `dest` ("channel:address")."""
    channel, _, address = dest.partition(":")
    return [_to_account(row) for row in tx.all(PersonRow, "direct_people", channel=channel, address=address)]


def list_other_places(tx: Tx, dest: str) -> list[str]:
    """Return a person's direct chats on other channels, as "channel:address"; that of the newest message comes first.

    The person is the one whose direct chat is `dest` ("channel:address"). The list is empty if `dest` is not the direct
    chat of a known person.
    """
    channel, _, address = dest.partition(":")
    places = tx.pairs(str, str, "direct_elsewhere", channel=channel, address=address)
    return list(dict.fromkeys(f"{channel}:{address}" for channel, address in places))
