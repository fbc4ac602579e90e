"""What leaves, and what comes back: nobody from outside chooses an address, and no answer fills the memory."""

from __future__ import annotations

import ast
import asyncio
import gzip
import json
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import wire_server
from http_server import Request, answers, serve
from test_xmpp_hearing import EMPTY, chat, running
from wire_server import WireServer

from semel.channels.discord.channel import DiscordChannel
from semel.channels.discord.settings import DiscordSettings
from semel.channels.http import request
from semel.channels.matrix import transport
from semel.channels.matrix.channel import MatrixChannel
from semel.channels.matrix.settings import MatrixSettings
from semel.channels.mattermost.channel import MattermostChannel
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.slack.channel import SlackChannel
from semel.channels.slack.settings import SlackSettings
from semel.channels.teams.channel import TeamsChannel
from semel.channels.teams.settings import TeamsSettings
from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.settings import TelegramSettings
from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.channels.whatsapp.channel import WhatsAppChannel
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.gateway.ports import Channel, NotSent, Offline, Op, Rejected, Unknown
from semel.testing.inbox import KeptInbox
from semel.testing.teams.model import APP_ID, TENANT

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


def calls_of_functions(name: str) -> list[tuple[str, ast.Call]]:
    """Where a function of this name is called in the channels."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path in (ROOT / "channels").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_no_client_follows_a_redirect_or_takes_a_proxy_from_the_environment() -> None:
    """A public address could lead on to a private one, with our headers; a variable could send all of it elsewhere."""
    made = calls("AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport")
    assert {where for where, _ in made} >= {
        "channels/http.py",
        "channels/matrix/transport.py",
        "faces/client/connection.py",
    }
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
        "channels/matrix/transport.py",
        "channels/matrix/downloads.py",  # a path at the homeserver, made of an mxc:// address: two segments, quoted
    }
    fetchers = {where for where, _ in calls_of_functions("stream_file")}
    assert fetchers == {
        "channels/discord/transport.py",  # the address of a file in a message, at one of Discord's hosts for files only
        "channels/mattermost/transport.py",  # the id of a file, behind its setting `url`
        "channels/slack/transport.py",  # the address of a file that Slack gave, at its own hosts only
        "channels/teams/transport.py",  # the address that Teams named: of a file, at SharePoint; of a picture, at Teams
        "channels/telegram/transport.py",  # a path that the Bot API gave, behind its own address
        "channels/whatsapp/transport.py",  # the address of a file that Meta gave, at its host for files only
    }
    users = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "channels").rglob("*.py")
        if re.search(r"^from semel\.channels\.http import .*\b(request|post)\b", path.read_text(), re.M)
    }
    assert users == {
        "channels/webhook.py",  # its setting `url`
        "channels/discord/transport.py",  # its setting `api`, and paths below it
        "channels/matrix/transport.py",  # its setting `homeserver`, and paths below it
        "channels/mattermost/transport.py",  # its setting `url`, and paths below it
        "channels/slack/transport.py",  # its setting `api` and methods below it; uploads at Slack's own hosts only
        "channels/teams/authentication.py",  # its setting `openid`, and the address of keys that is named there
        "channels/teams/transport.py",  # its setting `login`; the URL that a signed token named; uploads at SharePoint
        "channels/telegram/transport.py",  # its setting `api`, and paths below it
        "channels/whatsapp/transport.py",  # its setting `api`, and paths below it
        "channels/xmpp/files.py",  # the account's own server, and links that known people send: public addresses only
    }


TAKEN = json.dumps(
    {
        "ok": True, "result": {"message_id": 1, "date": 1, "chat": {"id": 7}},
        "user_id": "@bot:x", "device_id": "D", "event_id": "$e", "room_id": "!r:x", "id": "m1",
        "channel": "C7", "ts": "1.000001", "access_token": "t", "expires_in": 3600,
    }
).encode()  # fmt: skip
BOT = "123456:" + "A" * 35
DISCORD_TOKEN = f"{'A' * 26}.{'B' * 6}.{'C' * 38}"
CHANNELS: dict[str, tuple[Callable[[str], Channel], str, str]] = {
    "webhook": (lambda url: WebhookChannel("out", WebhookSettings(url=url, allow_private=True)), "7", r"POST /in"),
    "telegram": (
        lambda url: TelegramChannel("out", TelegramSettings(token=BOT, api=url, pace=0.0)), "7",
        rf"POST /in/bot{BOT}/\w+",
    ),
    "slack": (
        lambda url: SlackChannel("out", SlackSettings(f"xoxb-{BOT[7:]}", "xapp-1-A-1-abcdef", api=url)), "C7",
        r"POST /in/(chat\.postMessage|conversations\.open)",
    ),
    "discord": (
        lambda url: DiscordChannel("out", DiscordSettings(token=DISCORD_TOKEN, api=url, pace=0.0)), "7",
        r"POST /in/channels/[0-9]{1,20}/messages",
    ),
    "mattermost": (
        lambda url: MattermostChannel("out", MattermostSettings(url=url, token="t" * 26, pace=0.0)), "c" * 26,
        r"(POST /in/api/v4/(posts|channels/direct)|GET /in/api/v4/users/me)",
    ),
    "whatsapp": (
        lambda url: WhatsAppChannel("out", WhatsAppSettings("10000", BOT, "0" * 32, "0" * 16, api=url, settle=0.0)),
        "16505551234", r"POST /in/10000/messages",
    ),
    "teams": (
        lambda url: TeamsChannel(
            "out", TeamsSettings(APP_ID, TENANT, "0" * 16, pace=0.0, service_url=url, login=url, openid=url)
        ),
        "@7faf8ab2-3d56-4244-b585-20c8a42ed2b8",
        r"POST /in/(72f988bf-86f1-41af-91ab-2d7cd011db47/oauth2/v2\.0/token|v3/conversations(/[^/?]+/activities)?)",
    ),
    "matrix": (
        lambda url: MatrixChannel("out", MatrixSettings(homeserver=url.removesuffix("/in"), token="token-of-matrix")),
        "!room:x",
        r"\w+ /_matrix/client/v3/(account/whoami|createRoom|directory/room/%23[^/?]+|user/%40bot%3Ax/account_data/\S+"
        r"|rooms/%21[^/?]+/(state/m.room.(encryption|member/%40bot%3Ax)|send/m.room.message/[^/?]+))",
    ),
}  # fmt: skip
ADDRESSES = [
    "http://169.254.169.254/latest", "//evil.example/x", "@evil.example", "../../admin", "..", "a?b=1#c", "a/b",
    "a\r\nHost: evil.example\r\n\r\n", "%2e%2e%2fadmin", "!a/../../b:x", "#a/../../b:x",
    "@a/../../b:x", "!..", "-1/../../deleteWebhook",
]  # fmt: skip


async def takes(request: Request, writer: asyncio.StreamWriter) -> None:
    """Everything is taken, and a room has no state."""
    missing = b'{"errcode": "M_NOT_FOUND"}'
    await (answers(404, missing) if "/state/" in request.line else answers(200, TAKEN))(request, writer)


@pytest.mark.parametrize("name", CHANNELS)
async def test_an_address_never_chooses_where_a_request_goes(name: str) -> None:
    """A session's key names an address, and anybody who speaks in it may have chosen that: a server is asked at the
    paths that it is asked at for any address, and nobody else is asked."""
    make, plain, fits = CHANNELS[name]
    async with serve(takes) as elsewhere, serve(takes) as server:
        hostile = [*ADDRESSES, elsewhere.url, f"!r:127.0.0.1:{elsewhere.port}"]
        for n, address in enumerate([plain, *hostile]):
            channel = make(server.url)
            try:
                async with asyncio.timeout(20):
                    await channel.send(Op(f"key-{n}", "post", address, "text", session="s", at=time.time()))
            except (NotSent, Rejected, Unknown):
                pass
            if address == plain:
                said = [asked for asked in server.requests if re.search(rb'"text"|(^|&)text=', asked.body)]
                assert said, "it is sent there"
        assert elsewhere.connections == 0
    for asked in server.requests:
        assert re.fullmatch(rf"({fits}) HTTP/1\.1", asked.line), asked.line
        assert ".." not in re.split("[ /?]", asked.line) and asked.headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_an_answer_and_nobody_goes_there(status: int) -> None:
    async with serve(answers(200)) as inside, serve(answers(status, location=inside.url)) as outside:
        answer = await request("POST", outside.url, b"{}", {}, timeout=20, allow_private=True)
        assert answer.status == status and inside.connections == 0


async def test_an_answer_is_read_up_to_its_bound_and_is_never_unpacked() -> None:
    bomb = gzip.compress(b"a" * 10_000_000)
    async with serve(answers(200, bomb * 20, content_encoding="gzip")) as server:
        answer = await request("GET", server.url, None, {}, timeout=20, allow_private=True, most=50_000)
    assert len(answer.body) == 50_000 and answer.body.startswith(bomb[:100])


@asynccontextmanager
async def link(way: Any) -> AsyncIterator[tuple[transport.MatrixReadConnection, Any]]:
    async with (
        serve(way) as server,
        transport.MatrixReadConnection.open(server.url.removesuffix("/in"), 10.0) as opened,
    ):
        yield opened, server


async def test_a_homeserver_does_not_fill_the_memory_with_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_READ_ANSWER_BYTES", 1_000_000)
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
