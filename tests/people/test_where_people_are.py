"""Where else a person can be reached: their direct conversations on other channels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.ledger import people
from semel.ledger.people import PersonAccount, list_other_places, list_role_places, remember_place
from semel.ledger.sqlite.store import Store

ADA = [PersonAccount(channel, f"ada@{channel}", "ada", "owner", "added") for channel in ("matrix", "telegram", "email")]
BOB = [
    PersonAccount("matrix", "bob@matrix", "bob", "member", "added"),
    PersonAccount("telegram", "7", "bob", "member", "added"),
]


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
            store.write_sync(people.save_account, one)
        yield store


def meet(store: Store, now: Now, account: PersonAccount, address: str, direct: bool = True) -> None:
    now.at += 1000
    store.write_sync(remember_place, account.channel, address, account.id, direct)


def test_the_newest_comes_first_and_the_same_channel_never(store: Store, now: Now) -> None:
    for account in ADA:
        meet(store, now, account, f"dm-{account.channel}")
    assert store.read_sync(list_other_places, "matrix:dm-matrix") == ["email:dm-email", "telegram:dm-telegram"]
    assert store.read_sync(list_other_places, "email:dm-email") == ["telegram:dm-telegram", "matrix:dm-matrix"]
    meet(store, now, BOB[1], "dm-bob")
    assert store.read_sync(list_other_places, "telegram:dm-bob") == []
    assert store.read_sync(list_other_places, "matrix:nobodys") == []


def test_who_goes_back_to_a_chat_is_found_there(store: Store, now: Now) -> None:
    for account in (ADA[0], ADA[1], ADA[0]):
        meet(store, now, account, f"dm-{account.channel}")
    assert store.read_sync(list_role_places, ADA[0].role) == ["matrix:dm-matrix"]


def test_a_group_and_a_stranger_are_no_place(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "room", direct=False)
    store.write_sync(remember_place, "telegram", "dm-eve", "eve", True)
    meet(store, now, ADA[1], "dm-telegram")
    assert store.read_sync(list_other_places, "matrix:room") == []
    assert store.read_sync(list_other_places, "telegram:dm-telegram") == []


def test_who_moves_is_found_where_they_are_now(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm-old")
    meet(store, now, ADA[1], "dm-telegram")
    meet(store, now, ADA[0], "dm-new")
    assert store.read_sync(list_other_places, "telegram:dm-telegram") == ["matrix:dm-new"]


def test_whose_account_is_removed_is_not_found_there_any_more(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm-matrix")
    meet(store, now, ADA[1], "dm-telegram")
    store.write_sync(people.remove_account, "telegram", "ada@telegram")
    assert store.read_sync(list_other_places, "matrix:dm-matrix") == []


def test_an_address_with_a_colon_is_one_address(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "!room:example.org")
    meet(store, now, ADA[1], "-100:7")
    assert store.read_sync(list_other_places, "matrix:!room:example.org") == ["telegram:-100:7"]


def test_a_message_more_costs_no_row_and_no_write(store: Store, now: Now) -> None:
    meet(store, now, ADA[0], "dm")

    def written() -> int:
        before = now.at
        ((_, at),) = store.read_sync(
            lambda tx: tx.pairs(str, int, "direct_get", channel="matrix", account="ada@matrix")
        )
        assert at <= before
        return at

    first = written()
    for _ in range(100):
        meet(store, now, ADA[0], "dm")
    assert written() == first
    now.at += people.DIRECT_PLACE_REFRESH_MS
    meet(store, now, ADA[0], "dm")
    assert written() == now.at


LISTED = [PersonAccount("matrix", "ada@matrix", "ada", "member", "config")]


def test_what_the_configuration_lists_holds_and_what_it_lists_no_more_is_gone(store: Store) -> None:
    everybody = store.write_sync(people.replace_configured, LISTED, {"ada": "member"})
    mine = [one for one in everybody if one.name == "ada"]
    assert [(one.channel, one.role, one.origin) for one in mine] == [
        ("matrix", "member", "config"), ("telegram", "member", "added"), ("email", "member", "added"),
    ]  # fmt: skip
    with pytest.raises(people.AccountConfigured):
        store.write_sync(people.remove_account, "matrix", "ada@matrix")
    with pytest.raises(people.AccountConfigured):
        store.write_sync(people.save_account, ADA[0])
    assert store.write_sync(people.replace_configured, LISTED, {"ada": "member"}) == everybody
    left = store.write_sync(people.replace_configured, [], {})
    assert [one.channel for one in left if one.name == "ada"] == ["telegram", "email"]


def test_more_people_than_a_page_are_all_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "PAGE", 2)
    assert store.read_sync(people.list_accounts) == [*ADA, *BOB]
