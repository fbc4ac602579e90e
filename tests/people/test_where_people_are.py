"""Where else a person can be reached: their direct conversations on other channels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.ledger import people
from semel.ledger.people import Account, other_places, seen
from semel.ledger.storage.store import Store

ADA = [Account(channel, f"ada@{channel}", "ada", "owner", "added") for channel in ("matrix", "telegram", "email")]
BOB = [Account("matrix", "bob@matrix", "bob", "member", "added"), Account("telegram", "7", "bob", "member", "added")]


class Now:
    at = 1_000_000

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def store(now: Now) -> Iterator[Store]:
    with Store.in_memory(clock=now) as store:
        for one in (*ADA, *BOB):
            store.apply(people.put, one)
        yield store


def meet(store: Store, now: Now, account: Account, address: str, direct: bool = True) -> None:
    now.at += 1000
    store.apply(seen, account.channel, address, account.id, direct)


def test_the_newest_comes_first_and_the_same_channel_never(store: Store, now: Now) -> None:
    for account in ADA:
        meet(store, now, account, f"dm-{account.channel}")
    assert store.look(other_places, "matrix:dm-matrix") == ["email:dm-email", "telegram:dm-telegram"]
    assert store.look(other_places, "email:dm-email") == ["telegram:dm-telegram", "matrix:dm-matrix"]
    meet(store, now, BOB[1], "dm-bob")
    assert store.look(other_places, "telegram:dm-bob") == []
    assert store.look(other_places, "matrix:nobodys") == []


def test_a_group_and_a_stranger_are_no_place(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "room", direct=False)
    store.apply(seen, "telegram", "dm-eve", "eve", True)
    meet(store, now, ADA[1], "dm-telegram")
    assert store.look(other_places, "matrix:room") == []
    assert store.look(other_places, "telegram:dm-telegram") == []


def test_who_moves_is_found_where_they_are_now(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm-old")
    meet(store, now, ADA[1], "dm-telegram")
    meet(store, now, ADA[0], "dm-new")
    assert store.look(other_places, "telegram:dm-telegram") == ["matrix:dm-new"]


def test_whose_account_is_removed_is_not_found_there_any_more(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm-matrix")
    meet(store, now, ADA[1], "dm-telegram")
    store.apply(people.remove, "telegram", "ada@telegram")
    assert store.look(other_places, "matrix:dm-matrix") == []


def test_an_address_with_a_colon_is_one_address(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "!room:example.org")
    meet(store, now, ADA[1], "-100:7")
    assert store.look(other_places, "matrix:!room:example.org") == ["telegram:-100:7"]


def test_a_message_more_costs_no_row_and_no_write(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm")

    def written() -> int:
        before = now.at
        row = store.look(lambda tx: tx.one("direct_get", channel="matrix", account="ada@matrix"))
        assert row is not None and row.at <= before
        return int(row.at)

    first = written()
    for _ in range(100):
        meet(store, now, ADA[0], "dm")
    assert written() == first
    now.at += people.DIRECT_PLACE_REFRESH_MS
    meet(store, now, ADA[0], "dm")
    assert written() == now.at


LISTED = [Account("matrix", "ada@matrix", "ada", "member", "config")]


def test_what_the_configuration_lists_holds_and_what_it_lists_no_more_is_gone(store: Store) -> None:
    everybody = store.apply(people.configure, LISTED, {"ada": "member"})
    mine = [one for one in everybody if one.name == "ada"]
    assert [(one.channel, one.role, one.origin) for one in mine] == [
        ("matrix", "member", "config"), ("telegram", "member", "added"), ("email", "member", "added"),
    ]  # fmt: skip
    with pytest.raises(people.Listed):
        store.apply(people.remove, "matrix", "ada@matrix")
    with pytest.raises(people.Listed):
        store.apply(people.put, ADA[0])
    assert store.apply(people.configure, LISTED, {"ada": "member"}) == everybody
    left = store.apply(people.configure, [], {})
    assert [one.channel for one in left if one.name == "ada"] == ["telegram", "email"]


def test_more_people_than_a_page_are_all_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "PAGE", 2)
    assert store.look(people.all_accounts) == [*ADA, *BOB]
