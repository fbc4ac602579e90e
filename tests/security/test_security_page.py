"""The page against what agents and strangers write, and against other pages: nothing of theirs becomes active."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest
from http_house import TOKEN, client_of
from system_house import House, script

from semel.faces.documents import FORMATS
from semel.faces.http import Settings
from semel.faces.http.markdown import render_html
from semel.faces.http.operations.files import INLINE_MEDIA_TYPES, _sanitise_name
from semel.gateway import Gateway

WEB = Path(__file__).parents[2] / "web"
PAGE_SOURCES = {".js", ".ts", ".tsx", ".html"}

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt&colon;alert(1))",
    "[a](java\tscript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x)",
    "[a](file:///etc/passwd)",
    "<javascript:alert(1)>",
    "![x](https://evil.example/beacon.png)",
    "![x](javascript:alert(1))",
    '[a](https://x "onmouseover=alert(1)")',
    '[a](https://x" onmouseover="alert(1))',
    "<a href=javascript:alert(1)>x</a>",
    "<iframe src=//evil></iframe><object data=x></object><embed src=x>",
    "<style>*{background:url(//evil)}</style><link rel=stylesheet href=//evil>",
    "<form action=//evil><input name=x><button formaction=//evil>",
    "<base href=//evil><meta http-equiv=refresh content=0;url=//evil>",
    "`<script>`\n\n```<img src=x onerror=alert(1)>\n</code></pre><script>alert(1)</script>\n```",
    "| <script> |\n|---|\n| <img onerror=x> |",
    "[x]: javascript:alert(1)\n[x]",
    "<!--[if IE]><script>x</script><![endif]-->",
    "<math><mtext></p><style><img src onerror=alert(1)></style>",
    "[/v1/sessions](/v1/sessions) [rel](evil.html) [proto](//evil.example/x)",
]
TAGS = {"a", "p", "br", "code", "pre", "em", "strong", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"}


class Active(HTMLParser):
    """What in a document could act: tags, handlers, addresses."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_is_written_is_active_on_the_page(text: str) -> None:
    found = Active(render_html(text) or "")
    assert found.tags <= TAGS, found.tags
    for name, value in found.attributes:
        assert name in ("href", "title", "rel", "target", "class", "align", "start"), (name, value)
        if name == "href":
            assert re.match(r"(https?|mailto|tel|xmpp|matrix):", value), value


def test_what_an_agent_writes_in_an_html_export_is_not_active_either() -> None:
    entry = {"line": "entry", "seq": 1, "at": 0, "role": "agent", "body": {}}
    document = FORMATS["html"]()
    head = {
        "line": "session",
        "title": "</title><script>x</script>",
        "key": "s",
        "agent": "<b>",
        "entries": 1,
        "exported": 0,
    }
    for text in HOSTILE:
        for role in ("agent", "user"):  # one is rendered, all others are text
            records = [head, {**entry, "role": role, "text": text, "sender": text, "kind": text, "title": text}]
            page = document.page(records).decode() + document.end().decode()
            found = Active(page.partition("</style>")[2])
            assert not found.tags & {
                "script",
                "img",
                "svg",
                "iframe",
                "object",
                "style",
                "form",
                "base",
                "meta",
                "link",
            }
            assert not [one for one in found.attributes if one[0].startswith("on")]
            links = [value for name, value in found.attributes if name == "href"]
            assert all(re.match(r"(#e1$|https?:|mailto:|tel:|xmpp:|matrix:)", link) for link in links), links
            assert "default-src 'none'" in page


def test_the_page_makes_html_of_nothing_but_what_it_sanitised() -> None:
    """One module turns text into nodes. The page's policy forbids inline script and what is elsewhere."""
    unsafe = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|\.html\(|"
        r"setHTML|createContextualFragment|DOMParser|[Dd]ompurify|DOMPurify\."
    )
    found = {
        f"{path.name}: {line.strip()}"
        for path in (*(WEB / "src").rglob("*"), WEB / "index.html")
        if path.suffix in PAGE_SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if unsafe.search(line)
    }
    assert found == {
        'sanitised.ts: import DOMPurify from "dompurify";',
        "sanitised.ts: const nodes = DOMPurify.sanitize(html, {",
        "sanitised.ts: return DOMPurify.sanitize(html, {",
        "entities.ts: const parser = new DOMParser();",  # of one entity, whose text alone is read
    }
    index = (WEB / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", index)


FILES = {
    "page.html": b"<script>alert(1)</script>",
    "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>',
    "data.xml": b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><script>x</script></html>',
    "photo.png": b"<script>alert('photo')</script>",
    "app.js": b"alert(1)",
    "movie.pdf": b"%PDF-1.7 <script>",
    'a".html\r\nSet-Cookie: x=1.svg': b"<svg/>",
}


def test_a_file_of_an_agent_is_saved_and_never_run_under_the_gateways_address(house: House) -> None:
    work = next((house.data / "workspaces").iterdir())
    calls = []
    for name, content in FILES.items():
        (work / name).write_bytes(content)
        calls.append({"call": "send_file", "arguments": {"path": name}, "meta": "claude"})
    house.say("demo:web:files", script(*calls, "all sent"))
    house.idle("demo:web:files")
    sent = [one["files"][0] for one in house.entries("demo:web:files") if one.get("files")]
    named = {name.replace("\r\n", ""): content for name, content in FILES.items()}  # without what cannot be seen
    assert [one["name"] for one in sent] == list(named)
    for file in sent:
        got = httpx2.get(f"{house.url}/v1/blobs/{file['id']}", timeout=60)
        assert got.content == named[file["name"]]
        assert got.headers["x-content-type-options"] == "nosniff" and "set-cookie" not in got.headers
        policy = got.headers["content-security-policy"]
        assert "sandbox" in policy and "default-src 'none'" in policy and "allow" not in policy
        shown = got.headers["content-disposition"]
        assert shown.startswith("inline" if file["name"].endswith(".png") else "attachment"), file
        assert "\r" not in shown and "\n" not in shown
    assert not any(mime.startswith(("text/", "application/")) or "svg" in mime for mime in INLINE_MEDIA_TYPES)


def test_what_an_agent_says_to_be_a_picture_is_no_page_of_the_gateway(house: House) -> None:
    page = base64.b64encode(b"<script>alert(1)</script>").decode()
    kinds = ("image/svg+xml", "text/html", "image/png", 'image/png;x="\r\nSet-Cookie: a=1', "IMAGE/SVG+XML", "")
    blocks = [{"type": "image", "mimeType": kind, "data": page} for kind in kinds]
    blocks.append({"type": "resource", "resource": {"uri": "ui://x/app.html", "mimeType": "text/html", "text": "<b>x"}})
    for n, block in enumerate(blocks):
        update = {"update": {"sessionUpdate": "agent_message_chunk", "content": block}}
        house.say(f"demo:web:said{n}", script(update))
        house.idle(f"demo:web:said{n}")
        [file] = [file for one in house.entries(f"demo:web:said{n}") for file in one.get("files", [])]
        got = httpx2.get(f"{house.url}/v1/blobs/{file['id']}", timeout=60)
        assert got.headers["x-content-type-options"] == "nosniff" and "set-cookie" not in got.headers
        assert "sandbox" in got.headers["content-security-policy"]
        inline = got.headers["content-disposition"].startswith("inline")
        assert not inline or got.headers["content-type"] == "image/png", file


@pytest.mark.parametrize("name", ['a"b', "a\r\nX: y", "a\\b", "a/b", "\x7f", "", "é" * 400, "a;b=c"])
def test_a_name_in_a_header_stays_in_its_header(name: str) -> None:
    plain = _sanitise_name(name)
    assert plain and not re.search(r'[\x00-\x1f\x7f"\\/]', plain) and len(plain) <= 200


REBINDING = [
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "0x7f000001.evil",
    "",
]


@pytest.mark.parametrize("host", REBINDING)
def test_a_name_that_leads_here_opens_nothing_of_a_real_gateway(house: House, host: str) -> None:
    for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions/demo:web:csrf/messages"), ("GET", "/")):
        got = httpx2.request(method, house.url + path, headers={"Host": host}, timeout=60)
        assert got.status_code == 403, (method, path)
    assert house.session("demo:web:csrf") is None


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp"],
)
def test_what_another_site_can_make_a_browser_send_is_not_taken(house: House, kind: str) -> None:
    """Without Origin, as an old browser's form sends it: the content type is what a page cannot set unasked."""
    path = f"{house.url}/v1/sessions/demo:web:csrf/messages"
    got = httpx2.post(path, content=b'{"text": "hi"}', headers={"Content-Type": kind} if kind else {}, timeout=60)
    assert got.status_code == 415
    asked = httpx2.options(path, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    assert "access-control-allow-origin" not in asked.headers
    assert house.session("demo:web:csrf") is None


def test_another_page_can_neither_watch_a_stream_nor_open_a_web_socket(house: House) -> None:
    house.say("demo:web:watched", script("secret"))
    house.idle("demo:web:watched")
    url = f"{house.url}/v1/sessions/demo:web:watched/stream"
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        got = httpx2.get(url, headers={"Origin": origin}, timeout=60)
        assert got.status_code == 403 and "secret" not in got.text
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x" * 24,
    }
    got = httpx2.get(f"{house.url}/v1/sessions", headers={**upgrade, "Origin": "https://evil.example"}, timeout=60)
    assert got.status_code == 403, "it is a request like any other: there are no web sockets"


async def test_the_login_cookie_is_for_https_alone_where_the_page_came_by_it(gateway: Gateway) -> None:
    settings = Settings(listen="0.0.0.0", token=TOKEN, hosts=frozenset({"semel.example.org"}))
    async with client_of(gateway, settings) as client:
        for origin, secure in (("https://semel.example.org", True), ("http://semel.example.org", False)):
            got = await client.post(
                "/v1/login", json={"token": TOKEN}, headers={"Host": "semel.example.org", "Origin": origin}
            )
            assert got.status_code == 204 and ("secure" in got.headers["set-cookie"].lower()) is secure


def test_no_secret_travels_in_an_address() -> None:
    """`#token=` stands behind the hash, which no browser sends; the page takes it away at once."""
    sources = Path(__file__).parents[2] / "src/semel"
    asked = re.compile(r"[?&](token|secret|key|access_token)=", re.I)
    found = [
        (path.name, line.strip())
        for path in (*sources.rglob("*.py"), *(WEB / "src").rglob("*"))
        if path.suffix in {".py", *PAGE_SOURCES}
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line) and not line.lstrip().startswith(("#", '"""', "//"))
    ]
    assert found == []
    login = (WEB / "src/login.ts").read_text(encoding="utf-8")
    assert "history.replaceState" in login and "#(code|token)=" in login
