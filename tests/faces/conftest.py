"""Every face and every channel's rendering, beside the houses that they are tested in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("gateway", "cli", "http", "faces")]

import browser_fixtures  # noqa: E402
from browser import Browser  # noqa: E402
from live_house import LiveHouse, visit  # noqa: E402

browser, live, window = browser_fixtures.browser, browser_fixtures.live, browser_fixtures.window


@pytest.fixture
def page(window: Browser, live: LiveHouse) -> Iterator[Browser]:
    """The page of an empty session `s`."""
    live.script()
    visit(window, live)
    yield window
    assert not [message for message in window.errors() if "net::ERR" not in message], "the page complained"
