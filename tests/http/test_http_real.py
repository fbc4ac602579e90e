"""The whole house: the HTTP face and the page over a real gateway, its ledger and an agent's process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import browser
import httpx2
import msgspec
import pytest
from browser import KEYS, Browser
from http_house import House
from live_house import ROWS, bodies, shows, wait_live

from semel.faces.config.load import load_config
from semel.faces.http.operations import diagnostics, outbox, sessions, transcripts
from semel.faces.run import RunningGateway as Whole
from semel.faces.run import open_gateway
from semel.faces.view import SessionView
from semel.testing import scripted_agent

SESSION = "/v1/sessions/demo:web:1"
Json = dict[str, Any]


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[House]:
    path = tmp_path / "semel.toml"
    path.write_text(f"[agents.demo]\ncommand = {json.dumps(scripted_agent.command())}\n")
    config = load_config(path, data_dir=tmp_path, listen="127.0.0.1:0", env={})
    async with (
        open_gateway(config) as house,
        httpx2.AsyncClient(base_url=house.url, timeout=30, trust_env=False) as client,
    ):
        yield House(house.server, client)


async def watch_until_idle(house: House, said: str) -> SessionView:
    """What a watcher holds once the turn that answers `said` is over."""
    view = SessionView()
    async with asyncio.timeout(60):
        async for frame in house.frames(f"{SESSION}/stream"):
            view.apply(frame["data"])
            texts = [e["text"] for e in view.entries.values() if e["role"] == "user"]
            if said in texts and not view.is_busy and len(view.entries) > len(texts):
                return view
    raise AssertionError("the stream ended")


async def test_a_message_walks_through_the_house_and_everybody_tells_the_same(whole: House) -> None:
    send = {"call": "send_message", "arguments": {"text": "The backup is done"}, "meta": "claude"}
    said = scripted_agent.prompt(send, "The backup is done")
    heard = await whole.client.post(f"{SESSION}/messages", json={"text": said, "id": "1"})
    assert (heard.status_code, heard.json()["status"]) == (202, "accepted")
    view = await watch_until_idle(whole, said)

    entries = (await whole.client.get(f"{SESSION}/entries")).json()["entries"]
    recorded = sorted(entries, key=lambda entry: int(entry["seq"]))
    shown = [(e["role"], e["text"]) for e in view.ordered() if "seq" in e]
    recorded.sort(key=lambda e: int(e["born"]))  # they come in the order of their last changes
    assert shown == [(e["role"], e["text"]) for e in recorded]
    assert shown == [("user", said), ("agent", "The backup is done")]
    assert recorded[1]["echoes"] == 1
    again = await whole.client.post(f"{SESSION}/messages", json={"text": said, "id": "1"})
    assert again.json() == {"event": heard.json()["event"], "status": "duplicate"}
    assert (await whole.client.get("/v1/doctor")).json()["ok"] is True


async def test_the_real_answers_have_the_documented_shapes(whole: House) -> None:
    output_lines = [f"counting: {n}\n" for n in range(1, 6)]
    said = scripted_agent.prompt({"tool": "count to five", "output": output_lines}, "I counted to five.")
    await whole.client.post(f"{SESSION}/messages", json={"text": said})
    view = await watch_until_idle(whole, said)
    tool = next(item for item in view.items.values() if item["kind"] == "tool")

    documented: dict[str, Any] = {
        "/v1/sessions": sessions.Sessions,
        f"{SESSION}/entries?html=1": transcripts.Entries,
        f"{SESSION}/history?html=1": transcripts.History,
        "/v1/parts": outbox.Parts,
        "/v1/doctor": diagnostics.Doctor,
        "/v1/status": dict[str, Any],
        f"/v1/why/e{view.entries[1]['event']}": dict[str, Any],
        "/healthz": diagnostics.Health,
    }
    for path, shape in documented.items():
        answer = await whole.client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        msgspec.convert(answer.json(), shape)
    output = await whole.client.get(f"{SESSION}/outputs/{tool['id']}")
    assert output.text == "".join(output_lines)
    assert "semel_uptime_seconds" in (await whole.client.get("/metrics")).text


async def test_a_progress_bar_reads_the_same_live_in_a_snapshot_and_whole(whole: House) -> None:
    pieces = [f"\r\x1b[32m{percent:3}%" for percent in range(0, 101, 10)]
    steps = [{"tool": "build", "output": [*pieces, "\x1b[0m\ndone\n"], "delay": 0.05}, {"text": "built"}]
    said = f"[[script {json.dumps({'steps': steps})}]]"
    await whole.client.post(f"{SESSION}/messages", json={"text": said})
    live, seen = SessionView(), set[str]()
    async with asyncio.timeout(60):
        async for frame in whole.frames(f"{SESSION}/stream"):
            live.apply(frame["data"])
            tools = [item for item in live.items.values() if item["kind"] == "tool"]
            seen |= {tool["text"] for tool in tools}
            if tools and not live.is_busy and any(e["text"] == "built" for e in live.entries.values()):
                break
    (tool,) = tools
    assert tool["text"] == "100%\ndone\n"
    assert all(text.count("%") <= 1 and "\x1b" not in text for text in seen), seen
    again = await watch_until_idle(whole, said)
    assert again.items[tool["id"]]["text"] == tool["text"]
    output = f"{SESSION}/outputs/{tool['id']}"
    assert (await whole.client.get(output)).text == tool["text"]
    assert (await whole.client.get(f"{output}?raw=1")).text.startswith("\r\x1b[32m  0%\r\x1b[32m 10%")
    coloured = (await whole.client.get(f"{output}?colours=1")).text
    assert tool["coloured"] and coloured == "\x1b[0m\x1b[32m100%\x1b[0m\ndone\n"


async def test_what_the_real_gateway_refuses_is_a_problem_with_a_reason(whole: House) -> None:
    await whole.client.post(f"{SESSION}/events", json={"kind": "note", "text": "it happened", "wakes": False})
    asked: list[tuple[str, str, Any, int]] = [
        ("POST", f"{SESSION}/messages", {"text": " "}, 400),
        ("POST", f"{SESSION}/answers", {"item": 99, "option": "y"}, 404),
        ("PUT", f"{SESSION}/mode", {"mode": "no such mode"}, 400),
        ("POST", "/v1/parts/99/resend", None, 404),
        ("GET", "/v1/parts/99", None, 404),
        ("GET", "/v1/why/e99", None, 404),
        ("GET", "/v1/blobs/none", None, 404),
        ("GET", f"{SESSION}/outputs/99", None, 404),
        ("POST", "/v1/hooks/none", None, 404),
        ("GET", "/v1/sessions/none/stream", None, 404),
    ]
    for method, path, body, status in asked:
        answer = await whole.client.request(method, path, **({"json": body} if body is not None else {}))
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.json()["detail"]) > 10
    unknown = await whole.client.post(f"{SESSION}/answers", json={"item": 99, "option": "y"})
    assert unknown.json()["detail"].endswith("; give the id of an item whose kind is permission or ask")


async def test_a_mode_that_the_agent_does_not_have_is_told_as_its_refusal(whole: House) -> None:
    await whole.client.post(f"{SESSION}/messages", json={"text": "say: hello"})
    await watch_until_idle(whole, "say: hello")
    answer = await whole.client.put(f"{SESSION}/mode", json={"mode": "no such mode"})
    assert answer.status_code == 409, answer.text
    assert answer.json()["type"] == "urn:semel:problem:agent-refused"
    assert "no such mode" in answer.json()["detail"]


class Threaded:
    """A whole house on a thread, so that a browser may be waited for. It can be ended and started again."""

    def __init__(self, data: Path):
        self.data = data
        self.port = 0
        self.start()

    def start(self) -> None:
        self._ready, self._thread = threading.Event(), threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        assert self._ready.wait(60), "the house did not start"

    async def _live(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with open_gateway(load_config(data_dir=self.data, listen=f"127.0.0.1:{self.port}", env={})) as house:
            self.house: Whole = house
            self.port = house.server.port
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def books(self) -> bool:
        return bool(asyncio.run_coroutine_threadsafe(self.house.gateway.doctor(), self.loop).result(30)["ok"])


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Threaded]:
    house = Threaded(tmp_path)
    yield house
    house.stop()


@pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")
def test_the_page_talks_with_a_real_agent_through_a_restart(window: Browser, real: Threaded) -> None:
    window.go(f"{real.house.url}/")
    window.until(lambda: "first message" in (window.text("#welcome") or ""), "a first session")
    window.type("#text", f"send: done{KEYS['enter']}")
    bodies(window, "send: done", "done")
    shows(window, "#rows .mark", "also sent by tool")
    wait_live(window)

    window.type("#text", f"permission{KEYS['enter']}")
    window.click("#rows .request button")
    told = ["send: done", "done", "permission", "I would like to tidy up. ", "Thank you, it is tidy now."]
    window.until(lambda: window.texts("#rows .entry .body")[-1].startswith("Thank you"), "the answer is acted on")
    idle = "document.querySelector('#composer').dataset.state === 'idle'"
    window.until(lambda: window.run(idle), "the turn is over")
    before = window.texts(ROWS)
    assert [text.strip() for text in window.texts("#rows .entry .body")] == [text.strip() for text in told]

    real.stop()
    window.until(lambda: window.run("document.querySelector('#link').dataset.state") == "lost", "the loss")
    window.type("#text", f"hello{KEYS['enter']}")
    shows(window, "#outgoing .body", "hello")
    real.start()
    window.until(lambda: "You said: hello" in window.texts("#rows .entry .body")[-1], "it was sent, and answered")
    assert window.texts(ROWS)[: len(before)] == before
    assert window.texts("#outgoing li") == []
    window.errors()
    assert real.books()
