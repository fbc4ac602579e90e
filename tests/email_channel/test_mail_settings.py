"""Settings that cannot work say so, and what to do, before anything is connected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from letters import settings

from semel.channels import ChannelError, make
from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
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
    channel = make(ChannelSettings(name="mail", kind="email", options=GOOD))
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
    assert "a secret" not in repr(make(ChannelSettings(name="mail", kind="email", options=GOOD)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"address": "semel"}, "not a mail address"),
        ({"address": "semel@example.org\r\nBcc: x@y.org"}, "control character"),
        ({"address": "a" * 60 + "@" + "b" * 60 + ".org"}, "at most 90"),
        ({"aliases": ["x"]}, "not a mail address"),
        ({"password": ""}, "env:NAME"),
        ({"password": "a\nb"}, "control character"),
        ({"imap": "imap.example.org:993"}, "imap_port"),
        ({"imap": "https://imap.example.org"}, "host's name"),
        ({"smtp": ""}, "smtp is empty"),
        ({"smtp_port": 0}, "1 to 65535"),
        ({"imap_tls": "none"}, "allow_plaintext"),
        ({"smtp_tls": "none"}, "allow_plaintext"),
        ({"authserv": ""}, "authserv is missing"),
        ({"authserv": [""]}, "authserv is missing"),
        ({"verified_by": []}, "empty"),
        ({"poll": 0}, "seconds"),
        ({"poll": 3600}, "seconds"),
        ({"settle": -1}, "seconds"),
        ({"file_limit": 0}, "bytes"),
        ({"ca_file": "/nowhere/ca.pem"}, "is not a file"),
        ({"mailbox": ""}, "mailbox is empty"),
    ],
)
def test_what_cannot_work_is_told(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ChannelError, match=r"\[channels\.mail\]") as error:
        make(ChannelSettings(name="mail", kind="email", options=GOOD | wrong))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('aliases = "x@y.org"', '"aliases" should be a list'),
        ("password = 7", '"password" should be a string'),
        ('smtp_port = "25"', '"smtp_port" should be an integer'),
        ('imap_tls = "ssl"', "\"imap_tls\" should be 'tls', 'starttls' or 'none'"),
        ("authserv = 5", '"authserv" should be a list'),
        ('verified_by = ["arc"]', "\"verified_by\" should be 'dmarc', 'dkim', 'spf' or 'auth'"),
        ('proof = "hope"', "\"proof\" should be 'bcc' or 'sent'"),
        ('quotes = "cut"', "\"quotes\" should be 'trim' or 'keep'"),
        ('timeout = "soon"', '"timeout"'),
        ("timeout = true", '"timeout" should be a number'),
        ("mail_limit = 1.5", '"mail_limit" should be an integer'),
        ('mark_seen = "yes"', '"mark_seen" should be true or false, without quotes'),
        ('mailbx = "INBOX"', 'did you mean "mailbox"'),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    lines = [f'{key} = "{value}"' for key, value in GOOD.items() if key != line.partition(" ")[0]]
    config = tmp_path / "semel.toml"
    config.write_text("\n".join(["[channels.mail]", 'kind = "email"', *lines, line]))
    with pytest.raises(ConfigError, match=r"semel\.toml:\d+: \[channels\.mail\]") as error:
        load_config(config)
    assert problem in str(error.value)


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
    assert "pip install" in done.stdout and "'aiosmtplib>=" in done.stdout
