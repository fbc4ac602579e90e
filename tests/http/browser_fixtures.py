"""A browser window for all tests of a run, skipped where there is no browser, and a gateway in memory with its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, missing
from live_house import LiveHouse


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if why := missing():
        pytest.skip(why)
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Browser]:
    """The browser's window. It is left empty: a page would look for its gateway until the end of the run."""
    yield browser
    browser.go("about:blank")


@pytest.fixture
def live() -> Iterator[LiveHouse]:
    house = LiveHouse()
    yield house
    house.close()
