"""Fixtures: a real server for all tests of a folder. In its conftest.py: `from real_servers import synapse`.

The tests are marked `channels`, and chosen by `make test-channels CHANNELS="matrix xmpp irc email"`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ircds import Inspircd, Ngircd
from mail import Mail
from prosody import Prosody
from synapse import Synapse


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    with Synapse(tmp_path_factory.mktemp("matrix")) as server:
        yield server


@pytest.fixture(scope="session")
def prosody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prosody]:
    with Prosody(tmp_path_factory.mktemp("xmpp")) as server:
        yield server


@pytest.fixture(scope="session")
def inspircd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspircd]:
    with Inspircd(tmp_path_factory.mktemp("irc"), accounts=False) as server:
        yield server


@pytest.fixture(scope="session")
def ngircd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ngircd]:
    with Ngircd(tmp_path_factory.mktemp("irc")) as server:
        yield server


@pytest.fixture(scope="session")
def mail_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mail]:
    with Mail(tmp_path_factory.mktemp("email")) as server:
        yield server
