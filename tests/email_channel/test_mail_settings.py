"""Settings that cannot work say so, and what to do, before anything is connected."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from letters import settings

from semel.channels import ChannelError, make
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings

GOOD: dict[str, Any] = {
    "address": "semel@example.org",
    "imap": "imap.example.org",
    "smtp": "smtp.example.org",
    "password": "a secret",
    "authserv": "mx.example.org",
}


def test_an_account_needs_little() -> None:
    channel = make(ChannelSettings("mail", "email", GOOD))
    assert channel.caps.safety is Safety.RECONCILABLE
    assert (channel.caps.settle, channel.caps.finds, channel.caps.files) == (300.0, True, True)
    assert not (channel.caps.edits or channel.caps.reactions or channel.caps.typing)


def test_the_ports_are_those_of_the_way_it_is_protected() -> None:
    assert (settings().port("imap"), settings().port("smtp")) == (993, 465)
    started = settings(imap_tls="starttls", smtp_tls="starttls")
    assert (started.port("imap"), started.port("smtp")) == (143, 587)
    assert settings(smtp_port=2525).port("smtp") == 2525


def test_the_password_is_in_no_text() -> None:
    assert "a secret" not in repr(settings())
    assert "a secret" not in repr(make(ChannelSettings("mail", "email", GOOD)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"address": "semel"}, "no mail address"),
        ({"address": "semel@example.org\r\nBcc: x@y.org"}, "control character"),
        ({"address": "a" * 60 + "@" + "b" * 60 + ".org"}, "at most 90"),
        ({"aliases": ["x"]}, "no mail address"),
        ({"aliases": "x@y.org"}, "list of strings"),
        ({"password": ""}, "env:NAME"),
        ({"password": "a\nb"}, "control character"),
        ({"password": 7}, "should be a string"),
        ({"imap": "imap.example.org:993"}, "imap_port"),
        ({"imap": "https://imap.example.org"}, "host's name"),
        ({"smtp": ""}, "smtp is empty"),
        ({"smtp_port": 0}, "1 to 65535"),
        ({"smtp_port": "25"}, "1 to 65535"),
        ({"imap_tls": "ssl"}, "one of: tls, starttls, none"),
        ({"imap_tls": "none"}, "allow_plaintext"),
        ({"smtp_tls": "none"}, "allow_plaintext"),
        ({"authserv": ""}, "authserv is missing"),
        ({"authserv": [""]}, "authserv is missing"),
        ({"authserv": 5}, "list of strings"),
        ({"verified_by": ["arc"]}, "there is dmarc"),
        ({"verified_by": []}, "empty"),
        ({"proof": "hope"}, "bcc, sent"),
        ({"quotes": "cut"}, "trim, keep"),
        ({"poll": 0}, "seconds"),
        ({"poll": 3600}, "seconds"),
        ({"settle": -1}, "seconds"),
        ({"timeout": "30s"}, "seconds"),
        ({"timeout": True}, "seconds"),
        ({"file_limit": 0}, "bytes"),
        ({"mail_limit": 1.5}, "bytes"),
        ({"mark_seen": "yes"}, "true or false"),
        ({"ca_file": "/nowhere/ca.pem"}, "is no file"),
        ({"mailbox": ""}, "mailbox is empty"),
        ({"mailbx": "INBOX"}, "did you mean 'mailbox'"),
    ],
)
def test_what_cannot_work_is_told(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ChannelError, match=r"\[channels\.mail\]") as error:
        make(ChannelSettings("mail", "email", GOOD | wrong))
    assert told in str(error.value)


def test_the_libraries_are_loaded_by_an_account_alone_and_their_absence_is_told() -> None:
    code = (
        "import sys, semel.channels as c\n"
        "from semel.gateway.settings import ChannelSettings as S\n"
        "assert not {'aiosmtplib', 'imap_tools'} & set(sys.modules), 'loaded without an account'\n"
        "import importlib.util\n"
        "importlib.util.find_spec = lambda name, *_: None\n"
        "sys.modules.pop('semel.channels.email')\n"
        "import semel.channels.email as e\n"
        f"settings = e.EmailSettings(**{GOOD!r})\n"
        "try:\n    e.make('mail', settings)\nexcept ValueError as no:\n    print(no)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'semel[email]'" in done.stdout
