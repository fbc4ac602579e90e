"""The HTTP face over a real gateway: in process for requests, on a real socket for streams."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from semel.faces.http import Settings, make_app, serve

sys.path.insert(0, str(Path(__file__).parent))

import browser_fixtures
import gateway_house
from browser import Browser
from http_house import TOKEN, House, client_of
from live_house import LiveHouse, visit
from openai_help import Asker

from semel.gateway import Gateway

browser, live, window = browser_fixtures.browser, browser_fixtures.live, browser_fixtures.window
world, gateway = gateway_house.world, gateway_house.gateway


@pytest.fixture
def settings() -> Settings:
    return Settings(token=TOKEN)


@pytest.fixture
async def client(gateway: Gateway, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(gateway, settings) as client:
        yield client


@pytest.fixture
async def house(gateway: Gateway, settings: Settings) -> AsyncIterator[House]:
    server = await serve(make_app(gateway, settings), "127.0.0.1", 0)
    async with httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
        yield House(server, client)
    await server.stop()


@pytest.fixture
def page(window: Browser, live: LiveHouse) -> Iterator[Browser]:
    """The page of an empty session `s`; each house has its own port, so its own drafts and messages."""
    live.script()
    visit(window, live)
    yield window
    wrong = [message for message in window.errors() if "net::ERR" not in message and "status of 50" not in message]
    assert not wrong, "the page complained"


@pytest.fixture
def asker(world: gateway_house.GatewayHouse, client: httpx2.AsyncClient) -> Asker:
    return Asker(world, client)
