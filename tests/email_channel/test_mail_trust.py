"""A From line proves nothing: who wrote a mail is what our own server found out."""

from __future__ import annotations

import pytest
from letters import PASSED, heard, mail

from semel.channels.email.sender_trust import parse_results

HERS = "ada@people.org"


def who(**headers: str | None) -> str:
    letter = heard(mail("Hi", **headers))
    assert letter.sender is not None
    assert letter.address.startswith(letter.sender.id)
    return letter.sender.id


@pytest.mark.parametrize(
    "line",
    [
        PASSED,
        "mx.example.org 1; dmarc=pass (p=NONE sp=NONE dis=NONE) header.from=people.org",
        "MX.Example.org; spf=pass smtp.mailfrom=bounce@people.org",
        "mx.example.org; spf=fail smtp.mailfrom=list.org; dkim=pass (2048-bit key) header.d=people.org header.b=abc",
        "mx.example.org; dkim=pass header.i=@people.org header.s=k1",
        'mx.example.org; dkim=pass reason="good; signature" header.d="people.org"',
        "mx.example.org; auth=pass smtp.auth=ada@people.org",
        "mx.example.org (a comment; dmarc=fail) ; dmarc = pass",
    ],
)
def test_a_sender_whom_our_server_verified_is_herself(line: str) -> None:
    assert who(authentication_results=line) == HERS


@pytest.mark.parametrize(
    "line",
    [
        None,
        "mx.example.org; none",
        "mx.example.org; dmarc=fail header.from=people.org",
        "mx.example.org; dmarc=fail header.from=people.org; dkim=pass header.d=people.org",
        "mx.example.org; dmarc=pass header.from=evil.org",
        "mx.example.org; dkim=pass header.d=evil.org",
        "mx.example.org; dkim=pass header.d=notpeople.org",
        "mx.example.org; dkim=pass header.d=org",
        "mx.example.org; dkim=pass",
        "mx.example.org; dkim=neutral header.d=people.org",
        "mx.example.org; spf=pass smtp.mailfrom=evil.org",
        "mx.example.org; spf=pass smtp.helo=people.org",
        'mx.example.org; spf=pass smtp.mailfrom="x; dmarc=pass header.from=people.org"@evil.org',
        'mx.example.org; spf=pass smtp.mailfrom="people.org"@evil.org',
        'mx.example.org; spf=pass smtp.mailfrom="ada@people.org"@evil.org',
        'mx.example.org; dkim=pass reason="header.d=people.org" header.d=evil.org',
        'mx.example.org; dkim=pass reason="x" " header.d=people.org" header.d=evil.org',
        "mx.example.org; spf=pass (dmarc=pass header.from=people.org) smtp.mailfrom=evil.org",
        "mx.example.org; auth=pass smtp.auth=bob@people.org",
        "evil.org; dmarc=pass header.from=people.org",
        "mx.example.org.evil.org; dmarc=pass header.from=people.org",
        "; dmarc=pass header.from=people.org",
        "mx.example.org; arc=pass header.from=people.org",
    ],
)
def test_a_sender_whom_our_server_did_not_verify_is_nobody(line: str | None) -> None:
    assert who(authentication_results=line) == f"unverified:{HERS}"


def test_only_the_topmost_line_of_our_server_counts() -> None:
    forged = "mx.example.org; dmarc=pass header.from=people.org"
    ours = b"Authentication-Results: mx.example.org; dmarc=fail header.from=people.org\r\n"
    letter = heard(ours + bytes(mail("Hi", authentication_results=forged)))
    assert letter.sender is not None
    assert letter.sender.id == f"unverified:{HERS}"


@pytest.mark.parametrize(
    "sender",
    [
        "ada@people.org, evil@evil.org",
        "ada@people.org <evil@evil.org>, x",
        "(ada@people.org) evil@evil.org",
        '"ada@people.org"@evil.org',
        "ada@people.org;evil@evil.org",
        "<ada@people.org><evil@evil.org>",
        "group: ada@people.org;",
        "ada@people.org\r\n evil@evil.org",
    ],
)
def test_a_from_line_that_readers_read_differently_is_nobodys(sender: str) -> None:
    head = f"Authentication-Results: {PASSED}\r\nFrom: {sender}\r\nMessage-ID: <1@x>\r\n\r\nHi"
    letter = heard(head.encode())
    assert letter.sender is None or letter.sender.id != HERS


def test_two_from_lines_are_nobodys() -> None:
    one = f"Authentication-Results: {PASSED}\r\nFrom: {HERS}\r\nFrom: evil@evil.org\r\nMessage-ID: <1@x>\r\n\r\nHi"
    letter = heard(one.encode())
    assert letter.sender is not None
    assert letter.sender.id == f"unverified:{HERS}"


def test_a_name_that_looks_like_an_address_is_a_name() -> None:
    letter = heard(mail("Hi", **{"from": '"ada@people.org" <evil@evil.org>'}))
    assert letter.sender is not None
    assert letter.sender.id == "unverified:evil@evil.org"


def test_only_the_methods_that_count_count() -> None:
    spf = mail("Hi", authentication_results="mx.example.org; spf=pass smtp.mailfrom=people.org")
    assert heard(spf, verified_by=["spf"]).address.startswith(HERS)
    assert heard(spf, verified_by=["dmarc", "dkim"]).address.startswith("unverified:")


def test_whoever_trusts_from_lines_gets_what_they_say() -> None:
    letter = heard(mail("Hi", authentication_results=None), authserv="", trust_from=True)
    assert letter.sender is not None
    assert (letter.sender.id, letter.data["verified"]) == (HERS, "trusted")


def test_a_subdomain_is_signed_for_by_its_domain() -> None:
    results = "mx.example.org; dkim=pass header.d=people.org"
    assert who(authentication_results=results, **{"from": "ada@mail.people.org"}) == "ada@mail.people.org"
    below = "mx.example.org; dkim=pass header.d=mail.people.org"
    assert who(authentication_results=below) == f"unverified:{HERS}"


def test_a_line_is_read_as_far_as_it_can_be() -> None:
    for odd in ("", ";", '"', "((((", "a; b", "a; b=", 'a; "x', "a" * 100_000, "a;" * 50_000, '("' * 40_000):
        name, _ = parse_results(odd)
        assert isinstance(name, str)
