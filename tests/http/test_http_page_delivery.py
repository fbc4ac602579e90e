"""How the page comes to a browser: few requests, compressed, kept for good where a name stands for its content."""

from __future__ import annotations

import os
import re

import browser
import pytest
from browser import Browser
from http_house import client_of
from live_house import LiveHouse, wait_live

from semel.faces.http import Settings, static
from semel.gateway import Gateway

MAX_FILES = 6
MAX_COLD_LOAD_S = 2.2
MAX_BESIDE_OTHERS_S = 5.0  # where other tests take the processor


async def test_files_of_the_page_are_compressed_and_kept_and_the_page_itself_is_asked_for_again(
    gateway: Gateway,
) -> None:
    async with client_of(gateway, Settings()) as client:
        page = await client.get("/", headers={"Accept-Encoding": "gzip"})
        assert page.headers["cache-control"] == "no-cache"
        again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        paths = re.findall(r'(?:href|src)="(/page/[^"]+)"', page.text)
        assert {path.rpartition(".")[2] for path in paths} == {"js", "css", "svg"}
        for path in paths:
            packed = await client.get(path, headers={"Accept-Encoding": "br, gzip;q=0.8"})
            plain = await client.get(path, headers={"Accept-Encoding": "gzip;q=0"})
            assert (
                packed.headers["cache-control"]
                == plain.headers["cache-control"]
                == ("public, max-age=31536000, immutable")
            )
            assert (packed.headers.get("content-encoding"), plain.headers.get("content-encoding")) == ("gzip", None)
            assert packed.text == plain.text and "content-security-policy" in packed.headers


async def test_a_page_that_was_never_built_says_what_to_do(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "load_files", dict)
    async with client_of(gateway, Settings()) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.json()["detail"]) == (
            503,
            "The page is not built. In a clone of Semel: `make page`, then start it again.",
        )


@pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")
def test_on_a_slow_line_the_page_is_there_in_two_seconds(window: Browser, live: LiveHouse) -> None:
    """300 ms, 200 kB/s, and nothing kept by the browser; the best of three, as other tests run beside it."""
    live.script()
    times = []
    for _ in range(3):
        window.go("about:blank")
        window.forget_cache()
        with window.slow_line(latency_ms=300, bytes_per_s=200_000):
            window.go(f"{live.server.url}/#/s/s")
            wait_live(window)
            loaded = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/page/')).length"
            assert window.run(loaded) < MAX_FILES
            times.append(window.run("performance.now()") / 1000)
        busy = os.getloadavg()[0] > (os.cpu_count() or 1) / 2
        if times[-1] < (MAX_BESIDE_OTHERS_S if busy else MAX_COLD_LOAD_S):
            return
    raise AssertionError(f"it took {times} s")
