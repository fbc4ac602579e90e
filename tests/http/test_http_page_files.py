"""The page in a real browser: files of agents, in entries and in tool calls."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from pathlib import Path
from typing import Any

import browser
import pytest
from browser import KEYS, Browser
from live_house import LiveHouse, shows, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

Json = dict[str, Any]


def picture(width: int, height: int) -> bytes:
    """A PNG in shades of blue."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([60, 90, 120 + 100 * y // height]) * width for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def sound() -> bytes:
    """Half a second of silence."""
    out = io.BytesIO()
    with wave.open(out, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(8000)
        written.writeframes(bytes(8000))
    return out.getvalue()


def put(live: LiveHouse, content: bytes, name: str, mime: str) -> Json:
    return dict(live.do(lambda: live.world.add_file(content, name, mime)))


LINK = {"name": "plan.pdf", "mime": "application/pdf", "size": 2048, "uri": "https://example.org/plan.pdf"}
ODD_LINK = {"name": "x.js", "mime": "text/plain", "uri": "javascript:alert(1)"}


def test_a_picture_and_a_sound_are_there_and_all_else_is_named(page: Browser, live: LiveHouse, tmp_path: Path) -> None:
    files = [
        put(live, picture(640, 320), "chart.png", "image/png"),
        {**put(live, sound(), "voice.wav", "audio/wav"), "voice": True, "transcript": "Grüße <b>& mehr"},
        put(live, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "drawing.svg", "image/svg+xml"),
        LINK, ODD_LINK,
    ]  # fmt: skip
    script = live.script()
    live.do(lambda: script.entry("agent", "Here is the chart."))
    live.do(lambda: script.entry("agent", "", kind="file", files=files))
    live.do(lambda: script.entry("agent", "As you see, it rises."))
    page.until(lambda: page.run("document.querySelector('#rows .file img')?.naturalWidth") == 640, "the picture")
    page.run("void document.querySelector('#rows audio').load()")
    page.run("void (document.querySelector('#rows audio').preload = 'auto')")
    page.until(lambda: page.run("document.querySelector('#rows audio')?.duration") == 0.5, "the sound")
    said = page.texts("#rows .file")
    assert said[1:] == [
        "voice.wav 8 KB", "drawing.svg 41 B", "plan.pdf 2 KB https://example.org/plan.pdf", "x.js javascript:alert(1)"
    ]  # fmt: skip
    links = page.run("[...document.querySelectorAll('#rows .file')].map((one) => one.getAttribute('href'))")
    assert links == [*(f"/v1/blobs/{file['id']}" for file in files[:3]), LINK["uri"], None]
    assert page.run("document.querySelectorAll('#rows img, #rows svg, #rows object, #rows iframe').length") == 1
    assert page.texts("#rows .sound .spoken") == ["Grüße <b>& mehr"]
    page.shot(tmp_path / "files.png")


def test_the_pictures_of_a_message_are_seen_large_one_after_another(page: Browser, live: LiveHouse) -> None:
    files = [put(live, picture(640, height), f"{height}.png", "image/png") for height in (320, 400)]
    files.append({**put(live, picture(100, 3000), "tall.png", "image/png"), "width": 100, "height": 3000})
    script = live.script()
    live.do(lambda: script.entry("agent", "", kind="file", files=files))
    page.click("#rows a.picture")
    shows(page, "#lightbox-name", "320.png · 1 of 3")
    large = "document.querySelector('#lightbox-picture').naturalHeight"
    page.until(lambda: page.run(large) == 320, "the first")
    page.type("#lightbox-close", KEYS["right"])
    shows(page, "#lightbox-name", "400.png · 2 of 3")
    page.until(lambda: page.run(large) == 400, "the second")
    page.type("#lightbox-close", KEYS["right"])
    page.until(lambda: page.run(large) == 3000, "the third")
    page.until(lambda: page.run("document.querySelector('#lightbox .frame').scrollHeight") == 3000, "at its width")
    small = (
        "(({offsetWidth, parentNode}) => [offsetWidth, parentNode.offsetHeight])(document.querySelector('.tall img'))"
    )
    assert page.run(small) == [100, 360], "of a tall one, the upper end is shown"
    page.type("#lightbox-close", KEYS["escape"])
    shows(page, "#lightbox-name")
    assert page.run("document.activeElement.title") == "320.png", "the focus is back where it was"


def test_a_picture_that_is_not_there_yet_has_the_room_that_it_will_take(page: Browser, live: LiveHouse) -> None:
    sizes = [(480, 180), (640, 720), (16, 16), (4000, 300), (100, 3000)]
    files = [
        {**put(live, picture(width, height), f"{width}.png", "image/png"), "width": width, "height": height}
        for width, height in sizes
    ]
    script = live.script("pictures")
    lines = "\n".join(f"- line {number}" for number in range(300))
    live.do(lambda: script.entries([("agent", "", {"kind": "file", "files": files}), ("agent", lines, {})]))
    visit(page, live, "pictures")
    rooms = "[...document.querySelectorAll('#rows .file img')].map((one) => [one.offsetWidth, one.offsetHeight])"
    complete = "[...document.querySelectorAll('#rows .file img')].filter((one) => one.complete).length"
    page.until(lambda: page.run("document.querySelectorAll('#rows li li').length") == 300, "all rows")
    room = page.run(rooms)
    assert page.run(complete) < len(sizes), "far above the screen, they are not loaded"
    assert room[:3] == [[480, 180], [320, 360], [16, 16]]
    page.run("void (document.querySelector('#scroller').scrollTop = 0)")
    page.until(lambda: page.run(complete) == len(sizes), "they are loaded")
    page.settle()
    assert page.run(rooms) == room


def test_a_tool_call_shows_the_files_of_its_result(page: Browser, live: LiveHouse, tmp_path: Path) -> None:
    file = put(live, picture(64, 32), "shot.png", "image/png")
    script = live.script()
    item = live.do(lambda: script.item("tool", title="Take a screenshot", status="done", files=[file]))
    shows(page, "#rows .tool .label", "Take a screenshot")
    page.click("#rows .tool summary")
    page.until(lambda: page.run("document.querySelector('#rows .tool img')?.naturalWidth") == 64, "the picture")
    page.run("void (window.node = document.querySelector('#rows .tool img'))")
    live.do(lambda: script.set_item(item, text="taken"))
    shows(page, "#rows .tool .output:not([hidden])", "taken")
    assert page.run("window.node === document.querySelector('#rows .tool img')"), "the reader's picture stays"
    assert page.texts("#rows .tool .none:not([hidden])") == []
