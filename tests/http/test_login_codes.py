"""One-time login codes: each works once, for ten minutes, and the newest ones only."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.faces.http import page_urls
from semel.faces.http.login_codes import CODE_LIFETIME_S, MAX_OPEN_CODES, LoginCodes
from semel.faces.http.page_urls import list_own_addresses, list_page_urls


def test_a_code_works_once_and_no_other_text_is_one() -> None:
    codes = LoginCodes()
    made = codes.create()
    assert not codes.redeem("") and not codes.redeem(made.code + "x")
    assert codes.redeem(made.code)
    assert not codes.redeem(made.code)


def test_a_code_is_void_after_its_time() -> None:
    now = 1000.0
    codes = LoginCodes(lambda: now)
    made = codes.create()
    now += CODE_LIFETIME_S
    assert not codes.redeem(made.code)


def test_of_many_codes_the_oldest_are_void_and_none_is_kept_as_it_is() -> None:
    codes = LoginCodes()
    made = [codes.create().code for _ in range(MAX_OPEN_CODES + 1)]
    assert not codes.redeem(made[0]) and codes.redeem(made[1])
    assert not any(code in repr(vars(codes)) for code in made)


def test_the_page_is_named_by_its_proxy_first_and_by_the_address_that_it_listens_on() -> None:
    assert list_page_urls("10.0.0.7", 80, ["semel.example.org"]) == ["https://semel.example.org", "http://10.0.0.7:80"]
    assert list_page_urls("::1", 80) == ["http://[::1]:80"]
    assert list_page_urls("0.0.0.0", 80)[0] not in ("http://0.0.0.0:80", "http://[::]:80")
    assert all(":" not in address for address in list_own_addresses("0.0.0.0"))


def test_in_a_container_the_published_port_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / ".containerenv"
    monkeypatch.setattr(page_urls, "CONTAINER_MARKS", (mark,))
    outside = list_page_urls("0.0.0.0", 8420)
    mark.touch()
    inside = list_page_urls("0.0.0.0", 8420)
    assert inside[0] == "http://127.0.0.1:8420" and set(outside) <= set(inside)
    assert list_page_urls("10.0.0.7", 8420) == ["http://10.0.0.7:8420"]
    assert list_page_urls("0.0.0.0", 8420, ["semel.example.org"])[0] == "https://semel.example.org"
