"""Search over HTTP and on the page; exports as downloads that can do nothing, imports that are streamed."""

from __future__ import annotations

import httpx2
import pytest
from browser import Browser
from gateway_house import GatewayHouse
from live_house import LiveHouse, shows, visit, wait_live
from starlette.requests import Request

from semel.faces.http.problems import Problem, make_exception_handler


async def test_a_search_without_words_and_with_odd_parameters_is_told_so(client: httpx2.AsyncClient) -> None:
    for query, field in (("", "q"), ("?q=x&role=king", "role"), ("?q=x&limit=101", "limit"), ("?q=x&odd=1", "odd")):
        answer = await client.get(f"/v1/search{query}")
        assert answer.status_code == 400
        assert (answer.json()["type"], answer.json()["field"]) == ("urn:semel:problem:bad-field", field)


@pytest.mark.parametrize(
    ("format", "media"), [("md", "text/markdown"), ("html", "text/html"), ("jsonl", "application/jsonl")]
)
async def test_a_document_is_saved_and_can_do_nothing_if_it_is_opened(
    world: GatewayHouse, client: httpx2.AsyncClient, format: str, media: str
) -> None:
    await world.gateway.say("main:web:x", "hi", sender="Ann")
    answer = await client.get("/v1/sessions/main:web:x/export", params={"format": format})
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == media
    assert answer.headers["content-disposition"] == f'attachment; filename="main_web_x.{format}"'
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "hi" in answer.text


async def test_a_document_of_a_session_that_is_not_there_is_a_404(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/sessions/nowhere/export")
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:semel:problem:no-such-session"


async def test_an_import_is_streamed_past_the_limit_of_other_bodies(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    kind = {"Content-Type": "application/jsonl"}
    script = await world.script("s")
    await script.entries([("notice", "x" * 100_000, {}) for _ in range(20)])
    document = (await client.get("/v1/sessions/s/export")).content
    assert len(document) > 1_048_576
    answer = await client.post("/v1/import?as=k", content=document, headers=kind)
    assert answer.status_code == 201, answer.text
    assert answer.json() == {"session": "k", "status": "imported", "entries": 20, "added": 20}
    refused = await client.post("/v1/import", content=b"{}", headers={"Content-Type": "text/plain"})
    assert refused.json()["type"] == "urn:semel:problem:not-json"


def test_a_result_on_the_page_leads_to_its_message(page: Browser, live: LiveHouse) -> None:
    script, other = live.script(), live.script("other")
    live.do(lambda: script.entries([("user", f"plain {n}", {}) for n in range(300)]))
    live.do(lambda: other.entry("agent", "the <b>needle</b> is here"))
    live.do(lambda: script.entry("user", "newest"))
    page.type("#search-text", "needle")
    shows(page, "#found b", "other")
    assert page.run("document.querySelector('#found mark').textContent") == "needle"
    assert "the <b>needle</b> is here" in page.run("document.querySelector('#found').textContent")
    page.click("#found a")
    wait_live(page)
    shows(page, ".aimed .body", "the <b>needle</b> is here")
    assert page.run("location.hash") == "#/s/other/1"
    assert page.texts("#found b") == ["other"], "the results stay, for the next one"
    page.run("(document.querySelector('#search-text').value = '', document.querySelector('#search').requestSubmit())")
    page.until(lambda: page.texts("#sessions b"), "the sessions again")


def test_a_message_far_back_is_reached_and_the_way_back_is_there(page: Browser, live: LiveHouse) -> None:
    script = live.script("long")
    live.do(lambda: script.entries([("user", f"entry number {n + 1}", {}) for n in range(1500)]))
    visit(page, live, "long/1200")
    shows(page, ".aimed .body", "entry number 1200")
    assert page.texts("#apart") == []
    page.run("(location.hash = '#/s/long/7')")
    shows(page, ".aimed .body", "entry number 7")
    assert len(page.texts("#rows .entry")) < 200
    page.click("#later")
    page.until(lambda: len(page.texts("#rows .entry")) > 150, "the entries after it")
    page.click("#newest")
    wait_live(page)
    page.until(lambda: page.texts("#rows .entry .body")[-1:] == ["entry number 1500"], "the newest")
    assert page.texts("#apart") == []
    page.run("(location.hash = '#/s/long/99999')")
    page.until(lambda: "no longer exists" in (page.text("#busy") or ""), "that it is not there")


async def test_a_problem_is_shown_also_if_the_query_is_no_utf8() -> None:
    scope = {"type": "http", "method": "GET", "path": "/v1/search", "query_string": b"\xfd", "headers": []}
    response = await make_exception_handler([])(Request(scope), Problem("bad-field", "There is no such parameter."))
    assert response.status_code == 400
