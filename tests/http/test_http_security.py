"""Who may knock: a page the owner visits may not, a name made to point at us may not, a stranger may not."""

from __future__ import annotations

import httpx2
import pytest
from gateway_house import GatewayHouse
from http_house import TOKEN, client_of
from structlog.testing import capture_logs

from semel.faces.http import Settings, TokenNeeded, security
from semel.gateway import Gateway

MESSAGES = "/v1/sessions/s/messages"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def wide() -> Settings:
    return Settings(listen="0.0.0.0", token=TOKEN, hosts=frozenset({"chat.example.org"}))


async def say(client: httpx2.AsyncClient, **headers: str) -> tuple[int, str]:
    answer = await client.post(MESSAGES, json={"text": "hi"}, headers=headers)
    return answer.status_code, answer.json().get("type", "").rpartition(":")[2]


def test_beyond_loopback_there_is_no_gateway_without_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "gateway.example.org"):
        with pytest.raises(TokenNeeded, match="give the gateway a token"):
            Settings(listen=host)
    for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"):
        assert not Settings(listen=host).demands_token


# ---------------------------------------------------------------- loopback


async def test_on_loopback_no_token_is_needed_and_the_right_one_is_welcome(
    client: httpx2.AsyncClient,
) -> None:
    assert await say(client) == (202, "")
    assert await say(client, **BEARER) == (202, "")


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic abc", f"Basic {TOKEN}", "Bearer tökén"])
async def test_a_wrong_token_is_an_error_even_on_loopback(client: httpx2.AsyncClient, given: str) -> None:
    answer = await client.get("/v1/sessions", headers=[(b"Authorization", given.encode())])
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_where_no_token_is_set_none_is_right(gateway: Gateway) -> None:
    async with client_of(gateway, Settings()) as client:
        assert await say(client) == (202, "")
        assert await say(client, Authorization="Bearer ") == (401, "no-token")
        assert await say(client, Authorization="Bearer None") == (401, "no-token")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "192.168.1.5",
        "localhost.evil.example",
        "",
    ],
)
async def test_a_name_made_to_point_at_loopback_is_refused(client: httpx2.AsyncClient, host: str) -> None:
    assert await say(client, Host=host) == (403, "foreign-host")
    page = await client.get("/", headers={"Host": host})
    assert page.status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8420", "127.0.0.1:1", "[::1]:8420", "127.1.2.3", "semel.localhost"]
)
async def test_every_name_of_loopback_is_known(client: httpx2.AsyncClient, host: str) -> None:
    assert await say(client, Host=host) == (202, "")


async def test_a_configured_name_is_known(gateway: Gateway) -> None:
    async with client_of(gateway, Settings(hosts=frozenset({"chat.example.org"}))) as client:
        assert await say(client, Host="chat.example.org", Origin="https://chat.example.org") == (202, "")
        assert await say(client, Host="other.example.org") == (403, "foreign-host")
        own_port = client.base_url.port or 80
        for host, written in (
            ("Other.example.org:8443", "other.example.org:8443"),  # links need a proxy's unusual port
            ("other.example.org.:8443", "other.example.org:8443"),
            ("other.example.org:443", "other.example.org"),
            (f"other.example.org:{own_port}", "other.example.org"),
            ("other.example.org:no", "other.example.org"),
            ("other.example.org.", "other.example.org"),
        ):
            refused = await client.get("/v1/sessions", headers={"Host": host})
            assert f'semel.toml, written as "{written}".' in refused.json()["detail"], host
            assert Settings(hosts=(written,)).hosts == (written,)


async def test_by_a_configured_name_which_is_a_proxys_everybody_needs_the_token(gateway: Gateway) -> None:
    async with client_of(gateway, Settings(token=TOKEN, hosts=("chat.example.org", "b.example.org:8443"))) as client:
        assert await say(client, Host="chat.example.org") == (401, "no-token")
        for host in ("b.example.org:8443", "B.example.org", "chat.example.org:444", "chat.example.org."):
            assert await say(client, Host=host) == (401, "no-token"), host
        assert await say(client, Host="chat.example.org", Authorization=f"Bearer {TOKEN}") == (202, "")
        assert await say(client, Host="127.0.0.1:8420") == (202, "")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8420", "file://", ""],
)
async def test_another_page_may_not_speak_or_watch(
    client: httpx2.AsyncClient, world: GatewayHouse, origin: str
) -> None:
    await world.script("s")
    assert await say(client, Origin=origin) == (403, "foreign-origin")
    stream = await client.get("/v1/sessions/s/stream", headers={"Origin": origin})
    assert stream.status_code == 403
    assert await world.entries("s") == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_says_another_site_asks_is_believed(client: httpx2.AsyncClient, site: str) -> None:
    assert await say(client, **{"Sec-Fetch-Site": site}) == (403, "foreign-origin")
    image = await client.get("/v1/sessions", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})
    assert image.status_code == 403
    visit = await client.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})
    assert visit.status_code == 200


async def test_our_own_page_may(client: httpx2.AsyncClient) -> None:
    own = {"Origin": "http://127.0.0.1:8420", "Sec-Fetch-Site": "same-origin"}
    assert await say(client, **own) == (202, "")
    assert await say(client, **{"Sec-Fetch-Site": "none"}) == (202, "")


async def test_the_owners_program_may_come_by_any_name(client: httpx2.AsyncClient) -> None:
    """No page can know the token: with it there is nothing left to guard against."""
    assert await say(client, Host="tunnel.example", Origin="https://tunnel.example", **BEARER) == (202, "")


async def test_a_page_may_not_play_a_webhook(client: httpx2.AsyncClient) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await client.post("/v1/hooks/ci", content=b"{}", headers=headers)
        assert answer.status_code == 403


# ---------------------------------------------------------------- beyond loopback


async def test_beyond_loopback_everything_but_health_hooks_and_the_page_needs_the_token(
    gateway: Gateway, wide: Settings
) -> None:
    async with client_of(gateway, wide) as client:
        paths = ["/v1/sessions", "/v1/sessions/s/stream", "/v1/sessions/s/entries", "/metrics", "/v1/blobs/x"]
        paths += ["/v1/openapi.json", "/v1/doctor", "/v1/status", "/v1/why/1", "/v1/parts"]
        for path in paths:
            assert (await client.get(path)).status_code == 401, path
        assert await say(client) == (401, "no-token")
        assert await say(client, **BEARER) == (202, "")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/v1/hooks/ci", content=b"{}")).status_code == 202


async def test_the_page_logs_in_for_a_cookie_that_no_script_and_no_other_site_can_use(
    gateway: Gateway, wide: Settings
) -> None:
    async with client_of(gateway, wide) as client:
        wrong = await client.post("/v1/login", json={"token": "guess"})
        assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)

        right = await client.post("/v1/login", json={"token": TOKEN})
        cookie = right.headers["set-cookie"].lower()
        assert right.status_code == 204
        assert "httponly" in cookie and "samesite=strict" in cookie and TOKEN not in cookie
        assert (await client.get("/v1/sessions")).status_code == 200

        foreign = await client.post(MESSAGES, json={"text": "hi"}, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403

        await client.post("/v1/logout")
        assert (await client.get("/v1/sessions")).status_code == 401


async def test_a_login_ends_with_its_time_and_with_its_token(gateway: Gateway) -> None:
    short = Settings(listen="0.0.0.0", token=TOKEN, login_life=-1)
    async with client_of(gateway, short) as client:
        name, _, rest = (await client.post("/v1/login", json={"token": TOKEN})).headers["set-cookie"].partition("=")
        value = rest.partition(";")[0]
        expiry, _, mac = value.partition(".")
        later = f"{int(expiry) + 1000}.{mac}"
        for forged in (value, later, f"{later}x", "9999999999.", ".", "x.y", f"²{later}"):
            headers = [(b"Cookie", f"{name}={forged}".encode())]
            assert (await client.get("/v1/sessions", headers=headers)).status_code == 401, forged

    good = (await _login(gateway, Settings(listen="0.0.0.0", token=TOKEN))).split(";")[0]
    async with client_of(gateway, Settings(listen="0.0.0.0", token="another"), Cookie=good) as client:
        assert (await client.get("/v1/sessions")).status_code == 401


async def _login(gateway: Gateway, settings: Settings) -> str:
    async with client_of(gateway, settings) as client:
        return str((await client.post("/v1/login", json={"token": TOKEN})).headers["set-cookie"])


async def test_an_address_of_the_machine_is_a_good_host_where_a_token_is_demanded(
    gateway: Gateway, wide: Settings
) -> None:
    async with client_of(gateway, wide) as client:
        await client.post("/v1/login", json={"token": TOKEN})
        for host, status in (("192.168.1.5:8420", 202), ("chat.example.org", 202), ("evil.example", 403)):
            cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            assert (await say(client, Host=host, Cookie=cookies))[0] == status, host


# ---------------------------------------------------------------- headers


async def test_every_answer_carries_the_headers_that_bind_a_browser(client: httpx2.AsyncClient) -> None:
    answers = [
        await client.get("/"),
        await client.get("/v1/sessions"),
        await client.get("/v1/nothing"),
        await client.get("/", headers={"Host": "evil.example"}),
        await client.post(MESSAGES, content=b"x", headers={"Content-Type": "text/plain"}),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "default-src 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


# ---------------------------------------------------------------- pages of other origins

APP = "https://app.example"


@pytest.fixture
def with_app() -> Settings:
    return Settings(token=TOKEN, origins=(APP,))


def preflight(origin: str, method: str = "POST", headers: str = "authorization,content-type") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
        "Sec-Fetch-Site": "cross-site",
    }


async def test_a_page_of_an_allowed_origin_asks_first_and_then_speaks_with_the_token(
    gateway: Gateway, with_app: Settings
) -> None:
    async with client_of(gateway, with_app) as client:
        first = await client.options(MESSAGES, headers=preflight(APP, headers="authorization,idempotency-key"))
        assert (first.status_code, first.headers["access-control-allow-origin"]) == (200, APP)
        allowed_headers = first.headers["access-control-allow-headers"].split(", ")
        assert {"Idempotency-Key", "X-OpenWebUI-Chat-Id", "X-Semel-Session", "X-Semel-Progress"} <= set(allowed_headers)
        openai = preflight(APP, headers="authorization,content-type,x-semel-session,x-stainless-lang,x-stainless-os")
        assert (await client.options("/openai/v1/chat/completions", headers=openai)).status_code == 200
        assert "Origin" in first.headers["vary"]

        page = {"Origin": APP, "Sec-Fetch-Site": "cross-site", **BEARER}
        said = await client.post(MESSAGES, json={"text": "hi"}, headers=page)
        assert (said.status_code, said.headers["access-control-allow-origin"]) == (202, APP)
        assert said.headers["vary"] == "Origin"
        assert {"Retry-After", "WWW-Authenticate"} <= set(said.headers["access-control-expose-headers"].split(", "))
        missing = await client.get("/v1/sessions/none", headers=page)
        assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, APP)
        assert "Origin" in (await client.get("/v1/sessions")).headers["vary"]
        for answer in (first, said, missing):
            assert "access-control-allow-credentials" not in answer.headers


async def test_no_cookie_and_no_loopback_serves_an_allowed_origin_without_the_token(gateway: Gateway) -> None:
    for settings in (Settings(token=TOKEN, origins=(APP,)), Settings(listen="0.0.0.0", token=TOKEN, origins=(APP,))):
        async with client_of(gateway, settings) as client:
            assert (await client.post("/v1/login", json={"token": TOKEN})).status_code == 204
            assert (await client.get("/v1/sessions")).status_code == 200
            answer = await client.post(MESSAGES, json={"text": "hi"}, headers={"Origin": APP})
            assert (answer.status_code, answer.json()["type"]) == (401, "urn:semel:problem:no-token")
            assert "Bearer" in answer.json()["detail"]
            stream = await client.get("/v1/sessions/s/stream", headers={"Origin": APP})
            assert stream.status_code == 401


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example.evil.example", "http://app.example", "https://app.example:8443", "https://sub.app.example",
        "HTTPS://APP.EXAMPLE", "https://app.example/", "null", "",
    ],
)  # fmt: skip
async def test_an_origin_is_compared_exactly(gateway: Gateway, with_app: Settings, origin: str) -> None:
    async with client_of(gateway, with_app) as client:
        asked = await client.options(MESSAGES, headers=preflight(origin))
        said = await client.post(MESSAGES, json={"text": "hi"}, headers={"Origin": origin})
        for answer in (asked, said):
            assert answer.status_code == 403, origin
            assert "access-control-allow-origin" not in answer.headers
            assert "`origins` in the [gateway] section" in answer.json()["detail"]


async def test_without_the_setting_no_page_is_answered_and_the_answer_names_it(client: httpx2.AsyncClient) -> None:
    answer = await client.options(MESSAGES, headers=preflight(APP))
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:semel:problem:foreign-origin")
    assert "`origins`" in answer.json()["detail"]
    assert "access-control-allow-origin" not in answer.headers


async def test_an_allowed_page_may_neither_play_a_webhook_nor_add_other_methods(
    gateway: Gateway, with_app: Settings
) -> None:
    async with client_of(gateway, with_app) as client:
        assert (await client.post("/v1/hooks/ci", content=b"{}", headers={"Origin": APP})).status_code == 403
        assert (await client.options(MESSAGES, headers=preflight(APP, "TRACE"))).status_code == 400
        assert (await client.options(MESSAGES, headers=preflight(APP, headers="x-odd"))).status_code == 400


async def test_refused_origins_are_logged_with_the_setting_at_most_once_a_minute(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = security.RefusalLog()
    monkeypatch.setattr(security, "refusal_log", refusals)
    with capture_logs() as lines:
        await client.options(MESSAGES, headers=preflight(APP))
        await say(client, Origin="https://evil.example")
        refusals.logged_at -= security.REFUSAL_LOG_INTERVAL_S
        await say(client, Origin="https://other.example")
    told = [line for line in lines if "`origins` in [gateway]" in line["event"]]
    assert [line["origin"] for line in told] == [APP, "https://other.example"]
    assert told[1]["refused_since_the_last_line"] == 1
