"""What a gateway of a cluster answers while it waits, and nobody is known to be active."""

from __future__ import annotations

import httpx2

from semel.faces.http.forwarding import Forwarder
from semel.faces.http.settings import Settings
from semel.faces.http.waiting import make_waiting_app
from semel.gateway.seats import Lives


async def test_who_asks_a_gateway_that_knows_of_no_other_is_told_where_the_reason_is() -> None:
    settings = Settings()
    app = make_waiting_app(settings, Forwarder("alpha", settings, Lives()))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "no other one is known; nothing was accepted. `semel status` says why." in answer.text


async def test_while_no_gateway_is_active_a_reload_shows_the_page_and_not_a_problem_as_json() -> None:
    settings = Settings()
    app = make_waiting_app(settings, Forwarder("alpha", settings, Lives()))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        page = await client.get("/")
        style = await client.get("/page/" + page.text.split('href="/page/')[1].split('"')[0])
        other = await client.get("/v1/sessions")
    assert (page.status_code, style.status_code, other.status_code) == (200, 200, 503)
    assert "<title>Semel</title>" in page.text and "default-src 'none'" in page.headers["content-security-policy"]
