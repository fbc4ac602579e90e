"""The configurations of nginx and Caddy in deploy/, in the real programs, with TLS and a gateway behind them."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from system_house import DEMO, House, opened, script, until

ROOT = Path(__file__).parent.parent.parent
NAME = "semel.example.org"
GATEWAY = f'[gateway]\nhosts = ["{NAME}"]\n'


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def make_certificate(folder: Path) -> None:
    """A self-signed one, in cert.pem and key.pem."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run(
        [*command, *names, "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True
    )


def nginx(folder: Path, gateway: str, port: int) -> list[str]:
    """The file of deploy/ as a site of a whole configuration, on a port for everybody."""
    site = (ROOT / "deploy" / "nginx.conf").read_text().replace("127.0.0.1:8420", gateway)
    site = re.sub(r"listen \\[::\\].*\n|^ +listen 80;\n", "", site, flags=re.M)
    site = re.sub(r" +listen \[::\].*\n", "", site).replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace(
        "server {\n    server_name", f"server {{\n    listen 127.0.0.1:{find_port()};\n    server_name", 1
    )
    site = re.sub(r"/etc/letsencrypt\S+fullchain.pem", str(folder / "cert.pem"), site)
    site = re.sub(r"/etc/letsencrypt\S+privkey.pem", str(folder / "key.pem"), site)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    own = f"pid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{site}}}\n"
    (folder / "nginx.conf").write_text(own)
    return [
        "nginx",
        "-p",
        str(folder),
        "-c",
        str(folder / "nginx.conf"),
        "-e",
        str(folder / "log"),
        "-g",
        "daemon off;",
    ]


def caddy(folder: Path, gateway: str, port: int) -> list[str]:
    site = (ROOT / "deploy" / "Caddyfile").read_text().replace("127.0.0.1:8420", gateway)
    site = site.replace(
        f"{NAME} {{\n", f"{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {folder}/cert.pem {folder}/key.pem\n", 1
    )
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


PROXIES = {"nginx": nginx, "caddy": caddy}


@dataclass
class Proxy:
    """A proxy with a gateway behind it; requests go to it by name, with its certificate checked."""

    house: House
    client: httpx2.Client
    host: str
    process: subprocess.Popen[bytes]

    def send(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {"host": self.host, **more.pop("headers", {})}
        extensions = {"sni_hostname": NAME}
        return self.client.request(method, path, headers=headers, extensions=extensions, **more)

    @property
    def token(self) -> dict[str, str]:
        return {"authorization": f"Bearer {(self.house.data / 'owner.token').read_text().strip()}"}


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    folder, port = tmp_path_factory.mktemp(request.param), find_port()
    make_certificate(folder)
    with opened(House(tmp_path_factory.mktemp("behind"), GATEWAY + DEMO)) as house, contextlib.ExitStack() as stack:
        command = PROXIES[request.param](folder, house.url.removeprefix("http://"), port)
        env = {**house.environment, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=env)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        trust = ssl.create_default_context(cafile=folder / "cert.pem")
        client = stack.enter_context(
            httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, timeout=60, trust_env=False)
        )
        it = Proxy(house, client, f"{NAME}:{port}", process)
        until(lambda: answers(it) or process.poll() is not None, "the proxy runs")
        assert process.poll() is None, (folder / "output").read_text()
        yield it


def answers(proxy: Proxy) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return proxy.send("GET", "/readyz").status_code == 200
    return False


def test_nobody_gets_in_without_the_token_whatever_headers_they_send(proxy: Proxy) -> None:
    assert "<title>" in proxy.send("GET", "/").text
    forged = {
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-host": "localhost",
        "forwarded": "for=127.0.0.1;host=localhost",
    }
    for headers in ({}, forged):
        answer = proxy.send("GET", "/v1/sessions", headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:semel:problem:no-token")
    assert proxy.send("GET", "/v1/sessions", headers=proxy.token).status_code == 200


def test_the_page_logs_in_and_gets_a_cookie_for_https_alone(proxy: Proxy) -> None:
    origin, token = {"origin": f"https://{proxy.host}"}, proxy.token["authorization"].removeprefix("Bearer ")
    answer = proxy.send("POST", "/v1/login", json={"token": token}, headers=origin)
    assert answer.status_code == 204, answer.text
    cookie = answer.headers["set-cookie"]
    assert "Secure" in cookie and "HttpOnly" in cookie
    proxy.client.cookies.clear()
    known = {"cookie": cookie.partition(";")[0]}
    say = {"text": script("hello")}
    assert proxy.send("POST", "/v1/sessions/demo:web:a/messages", json=say, headers=known | origin).status_code == 202
    foreign = known | {"origin": "https://evil.example"}
    answer = proxy.send("POST", "/v1/sessions/demo:web:a/messages", json=say, headers=foreign)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:semel:problem:foreign-origin")


def test_text_is_shown_while_the_agent_still_writes(proxy: Proxy, tmp_path: Path) -> None:
    go, seen = tmp_path / "go", ""
    key = f"demo:web:{tmp_path.parent.name}"
    # The message that tells the agent what to do has these characters, too, but escaped; a single one is never cut.
    proxy.house.say(key, script("☀", {"wait": str(go)}, "☾"))
    path, headers = f"/v1/sessions/{key}/stream", {"host": proxy.host, **proxy.token}
    with proxy.client.stream("GET", path, headers=headers, extensions={"sni_hostname": NAME}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            seen += line
            if "☀" in seen and not go.exists():
                assert "☾" not in seen
                go.touch()  # only now the agent may go on: a proxy that buffers would never come here
            if "☾" in seen and go.exists():
                break
    assert "☾" in seen
    proxy.house.idle(key)
    until(lambda: proxy.house.get("/v1/status")["watchers"] == 0, "a reader who has gone is gone behind the proxy, too")


def test_an_import_larger_than_a_megabyte_goes_through(proxy: Proxy) -> None:
    for number in range(3):
        proxy.house.say("demo:web:long", script(f"{number}" + "x" * 500_000))
        proxy.house.idle("demo:web:long")
    exported = proxy.send("GET", "/v1/sessions/demo:web:long/export", headers=proxy.token)
    assert exported.status_code == 200 and len(exported.content) > 2**20
    kind = {"content-type": exported.headers["content-type"].partition(";")[0]}
    answer = proxy.send("POST", "/v1/import", content=exported.content, headers=proxy.token | kind)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_page_shows_the_file_as_it_is(name: str) -> None:
    page = (ROOT / "docs" / "behind-a-proxy.md").read_text()
    assert (ROOT / "deploy" / name).read_text().partition("\n")[2] in page
