"""What leaves, and what comes back: nobody from outside chooses an address, and no answer fills the memory."""

from __future__ import annotations

import ast
import asyncio
import gzip
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import wire_server
from http_server import answers, serve
from test_xmpp_hearing import EMPTY, chat, running
from wire_server import WireServer

from semel.channels.http import post, request
from semel.channels.matrix import wire
from semel.gateway.ports import Offline, Unknown
from semel.testing.inbox import KeptInbox

ROOT = Path(__file__).parents[2] / "src/semel"


@cache
def calls(*names: str) -> list[tuple[str, ast.Call]]:
    """Where these are called in the sources, tests' doubles aside."""
    found = []
    for path in ROOT.rglob("*.py"):
        if "testing" in path.parts or "httpx2" not in (text := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
                found.append((str(path.relative_to(ROOT)), node))
    return found


def test_no_client_follows_a_redirect_or_takes_a_proxy_from_the_environment() -> None:
    """A public address could lead on to a private one, with our headers; a variable could send all of it elsewhere."""
    made = calls("AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport")
    assert {where for where, _ in made} >= {"channels/http.py", "channels/matrix/wire.py", "faces/client.py"}
    for where, call in made:
        given = {one.arg: one.value for one in call.keywords}
        assert isinstance(told := given.get("trust_env"), ast.Constant) and told.value is False, where
        follow = given.get("follow_redirects")
        assert follow is None or (isinstance(follow, ast.Constant) and follow.value is False), where
    asked = [
        where
        for where, call in calls("get", "post", "stream", "request", "send")
        for one in call.keywords
        if one.arg == "follow_redirects" and not (isinstance(one.value, ast.Constant) and one.value.value is False)
    ]
    assert asked == []


def test_only_the_configuration_and_the_platform_name_addresses() -> None:
    """Every place in a channel that asks for a URL, and where that comes from: a new one is looked at here."""
    asks = {where for where, call in calls("stream", "handle_async_request") if where.startswith("channels/")}
    assert asks == {
        "channels/http.py",
        "channels/matrix/wire.py",
        "channels/matrix/media.py",  # a path at the homeserver, made of an mxc:// address: two segments, quoted
        "channels/telegram/api.py",  # a path that the Bot API gave, behind its own address
    }
    users = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "channels").rglob("*.py")
        if re.search(r"^from semel\.channels\.http import .*\b(request|post)\b", path.read_text(), re.M)
    }
    assert users == {
        "channels/webhook.py",  # its setting `url`
        "channels/matrix/wire.py",  # its setting `homeserver`, and paths below it
        "channels/telegram/api.py",  # its setting `api`, and paths below it
        "channels/xmpp/files.py",  # the account's own server, and links that known people send: public addresses only
    }


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_an_answer_and_nobody_goes_there(status: int) -> None:
    async with serve(answers(200)) as inside, serve(answers(status, location=inside.url)) as outside:
        answer = await post(outside.url, b"{}", {}, timeout=20, allow_private=True)
        assert answer.status == status and inside.connections == 0


async def test_an_answer_is_read_up_to_its_bound_and_is_never_unpacked() -> None:
    bomb = gzip.compress(b"a" * 10_000_000)
    async with serve(answers(200, bomb * 20, content_encoding="gzip")) as server:
        answer = await request("GET", server.url, None, {}, timeout=20, allow_private=True, most=50_000)
    assert len(answer.body) == 50_000 and answer.body.startswith(bomb[:100])


@asynccontextmanager
async def link(way: Any) -> AsyncIterator[tuple[wire.Link, Any]]:
    async with serve(way) as server, wire.Link.open(server.url.removesuffix("/in"), 10.0) as opened:
        yield opened, server


async def test_a_homeserver_does_not_fill_the_memory_with_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "NEWS", 1_000_000)
    packed = zlib.compressobj(wbits=31)
    bomb = packed.compress(b'{"a": "' + b"x" * 30_000_000) + packed.flush()
    async with link(answers(200, bomb, content_encoding="gzip")) as (opened, _):
        with pytest.raises(Offline, match="more than"):
            await opened.get("/sync", "token")
    async with link(answers(200, b"{" + b" " * 2_000_000)) as (opened, _):
        with pytest.raises(Offline, match="more than"):
            await opened.get("/sync", "token")
    async with link(answers(200, b'{"a": 1}')) as (opened, _):
        assert (await opened.get("/sync", "token")).data == {"a": 1}


async def test_a_download_of_a_homeserver_comes_as_it_is_and_never_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    async with link(answers(200, b"content")) as (opened, server):
        async with opened.stream("/media", "token") as answer:
            assert await answer.aread() == b"content"
        assert server.requests[0].headers["accept-encoding"] == "identity"


LAUGHS = "<!DOCTYPE l [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {new} '{f'&{old};' * 10}'>" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
) + "]>"  # fmt: skip
LOOK = "<!DOCTYPE l [<!ENTITY i SYSTEM 'file:///etc/passwd'>]>"


@pytest.mark.parametrize("doctype", [LAUGHS, LOOK], ids=["entities without end", "a file as an entity"])
async def test_entities_of_xml_fill_no_memory_and_read_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doctype: str
) -> None:
    monkeypatch.setattr(wire_server, "HEADER", wire_server.HEADER.replace("<stream:stream", doctype + "<stream:stream"))
    archive = [chat("a1", "laugh &i; end"), chat("a2", "behind")]
    async with WireServer(archive=archive) as server:
        inbox = KeptInbox(tmp_path, EMPTY)
        try:
            async with running(server.channel(), inbox):
                async with asyncio.timeout(10):
                    await inbox.wait(1)
        except (Offline, Unknown, TimeoutError):
            pass
        told = "".join(one.text for one in inbox.events)
        assert len(told) < 10_000 and "root:" not in told
