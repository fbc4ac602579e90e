"""A real browser on a page of another origin, with the owner's token."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from http_house import TOKEN
from live_house import LiveHouse

from semel.faces.http import Settings

ASK = """((url, token) => {
  window.answer = null;
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "Idempotency-Key": "1" };
  fetch(url, { method: "POST", body: JSON.stringify({ text: "hi" }), headers }).then(
    (response) => { window.answer = `${response.status}`; },
    (error) => { window.answer = error.name; },
  );
})(...arguments)"""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    """The origin of a page that is not the gateway's."""
    (tmp_path / "index.html").write_text('<title>another page</title><link rel="icon" href="data:,">')
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(20)


def test_a_browser_lets_only_a_page_of_an_allowed_origin_read_answers(window: Browser, page: str) -> None:
    answers = {}
    for origins in ((), (page,)):
        house = LiveHouse(Settings(token=TOKEN, origins=origins))
        try:
            window.go(f"{page}/index.html")
            window.run(ASK, f"http://127.0.0.1:{house.port}/v1/sessions/s/messages", TOKEN)
            answers[origins] = window.until(lambda: window.run("window.answer"), "an answer")
            window.errors()  # the browser notes by itself that it refused
            entries = house.entries() if origins else []
        finally:
            house.close()
    assert answers == {(): "TypeError", (page,): "202"}
    assert [entry["text"] for entry in entries] == ["hi"]
