"""A real Synapse (Matrix), and people on it.

    with Synapse(tmp_path) as server:                  # @bot:localhost, @alice:localhost, @bob:localhost, password "pw"
        server.url                                     # http://127.0.0.1:PORT
        token = server.login("bot", device="SEMEL")    # for the channel: {"access_token", "device_id", "user_id"}
        alice = server.user("alice")
        room = await alice.create_room(invite=["bot"], name="Lobby")
        await server.user("bob").join(room)
        event = await alice.say(room, "hello")         # the event id
        await alice.send(room, "m.reaction", {...})    # anything else
        await alice.texts(room)                        # what alice reads there, all pages, oldest first
        await alice.events(room)                       # the same, as events
        server.limit("bot", per_second=1, burst=1)     # a real 429 from now on; server.limit("bot") ends it
        server.process.kill(); server.restart()        # on the same port, with the same data

Every method of a user is async and does not block the loop; those of the server block.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import itertools
import json
import os
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

from server_process import ServerProcess, free_ports, installed, started

Json = dict[str, Any]
SECRET = "a secret of the tests alone"
CONFIG = """
server_name: localhost
pid_file: {home}/synapse.pid
listeners:
  - port: {port}
    bind_addresses: ["127.0.0.1"]
    type: http
    resources: [{{names: [client], compress: false}}]
database: {{name: sqlite3, args: {{database: "{home}/homeserver.db"}}}}
log_config: "{home}/log.yaml"
media_store_path: "{home}/media"
registration_shared_secret: "{secret}"
macaroon_secret_key: "{secret}"
form_secret: "{secret}"
signing_key_path: "{home}/signing.key"
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
suppress_key_server_warning: true
presence: {{enabled: false}}
bcrypt_rounds: 4
max_upload_size: 5M
rc_message: {{per_second: 10000, burst_count: 10000}}
rc_login: {{address: {many}, account: {many}, failed_attempts: {many}}}
rc_joins: {{local: {many}, remote: {many}}}
rc_joins_per_room: {many}
rc_invites: {{per_room: {many}, per_user: {many}, per_issuer: {many}}}
rc_registration: {many}
rc_admin_redaction: {many}
rc_room_creation: {many}
"""
LOG = """
version: 1
formatters: {{plain: {{format: "%(asctime)s %(levelname)s %(name)s %(message)s"}}}}
handlers: {{file: {{class: logging.FileHandler, formatter: plain, filename: "{home}/homeserver.log"}}}}
root: {{level: WARNING, handlers: [file]}}
disable_existing_loggers: false
"""


class Refused(Exception):
    """The server's answer was no. `status`, `code` ("M_..."), `answer`."""

    def __init__(self, status: int, answer: Json) -> None:
        super().__init__(f"HTTP {status}: {answer}")
        self.status, self.answer, self.code = status, answer, answer.get("errcode", "")


class Synapse:
    """A homeserver called `localhost`. What it needs stands below `home`, which is made."""

    def __init__(self, home: Path, accounts: tuple[str, ...] = ("bot", "alice", "bob")) -> None:
        self.home = home / "synapse"
        self._python = installed("synapse", "matrix") / "venv/bin/python"
        self._accounts = accounts
        self._users: dict[str, MatrixUser] = {}
        self.port = 0

    def __repr__(self) -> str:
        return f"<Synapse {self.url}>"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Synapse:
        self.home.mkdir(parents=True)
        seed = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        (self.home / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        (self.home / "log.yaml").write_text(LOG.format(home=self.home))
        self.process = started(self._first)
        for name in (*self._accounts, "root"):
            self._register(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def _first(self) -> ServerProcess:
        (self.port,) = free_ports(1)
        many = "{per_second: 10000, burst_count: 10000}"
        config = CONFIG.format(home=self.home, port=self.port, secret=SECRET, many=many)
        (self.home / "homeserver.yaml").write_text(config)
        return self._start()

    def _start(self) -> ServerProcess:
        command = [self._python, "-m", "synapse.app.homeserver", "-c", self.home / "homeserver.yaml"]
        return ServerProcess(command, [self.port], self.home / "out.log")

    def restart(self) -> None:
        """After `process.kill()` or `process.stop()`: again, with the same data, on the same port."""
        self.process = self._start()

    def _register(self, name: str) -> None:
        nonce = call(self.port, "GET", "/_synapse/admin/v1/register")["nonce"]
        admin = name == "root"
        said = "\0".join([nonce, name, "pw", "admin" if admin else "notadmin"])
        mac = hmac.new(SECRET.encode(), said.encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": "pw", "admin": admin, "mac": mac, "inhibit_login": True}
        call(self.port, "POST", "/_synapse/admin/v1/register", body)

    def register(self, name: str) -> MatrixUser:
        """One account more."""
        self._register(name)
        return self.user(name)

    def login(self, name: str, device: str | None = None) -> Json:
        """{"access_token", "device_id", "user_id"} of a new login; `device` is kept if it is known."""
        body: Json = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": "pw"}
        return call(self.port, "POST", "/_matrix/client/v3/login", body | ({"device_id": device} if device else {}))

    def user(self, name: str) -> MatrixUser:
        """This person, logged in (once)."""
        if name not in self._users:
            self._users[name] = MatrixUser(self, name, self.login(name)["access_token"])
        return self._users[name]

    def limit(self, name: str, per_second: int | None = None, burst: int | None = None) -> None:
        """How often this account may send before it is answered 429; without numbers: as often as it likes."""
        path = f"/_synapse/admin/v1/users/{quote(f'@{name}:localhost')}/override_ratelimit"
        body = {"messages_per_second": per_second or 0, "burst_count": burst or 0}
        call(self.port, "POST", path, body, self.user("root").token)


class MatrixUser:
    """A person with a client of their own. `id` is `@name:localhost`."""

    _numbers = itertools.count()

    def __init__(self, server: Synapse, name: str, token: str) -> None:
        self.server, self.name, self.token = server, name, token
        self.id = f"@{name}:localhost"

    def __repr__(self) -> str:
        return f"<MatrixUser {self.id}>"

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> Json:
        """One request, `path` below `/_matrix/client/v3`. Raises Refused."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        whole = path if path.startswith("/_") else f"/_matrix/client/v3{path}"
        return await asyncio.to_thread(call, self.server.port, method, whole, body, self.token)

    async def create_room(self, invite: list[str] | None = None, name: str = "", **more: Any) -> str:
        """The room id. `invite` are account names; `direct=True` marks it as a direct conversation."""
        direct = bool(more.pop("direct", False))
        body = {"preset": "private_chat", "invite": [f"@{each}:localhost" for each in invite or []], **more}
        body |= {"name": name} if name else {}
        body |= {"is_direct": True} if direct else {}
        return str((await self.call("POST", "/createRoom", body))["room_id"])

    async def invite(self, room: str, name: str) -> None:
        await self.call("POST", f"/rooms/{quote(room)}/invite", {"user_id": f"@{name}:localhost"})

    async def join(self, room: str) -> None:
        await self.call("POST", f"/join/{quote(room)}", {})

    async def leave(self, room: str) -> None:
        await self.call("POST", f"/rooms/{quote(room)}/leave", {})

    async def send(self, room: str, type: str, content: Json) -> str:
        """Any event; its id."""
        txn = f"{self.name}-{time.time_ns()}-{next(self._numbers)}"
        path = f"/rooms/{quote(room)}/send/{quote(type)}/{txn}"
        return str((await self.call("PUT", path, content))["event_id"])

    async def say(self, room: str, text: str, **more: Any) -> str:
        """A text message; its event id. `more` goes into the content (`m.relates_to`, `m.mentions` ...)."""
        return await self.send(room, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    async def edit(self, room: str, event: str, text: str) -> str:
        new = {"msgtype": "m.text", "body": text}
        related = {"rel_type": "m.replace", "event_id": event}
        content = {"msgtype": "m.text", "body": f"* {text}", "m.new_content": new, "m.relates_to": related}
        return await self.send(room, "m.room.message", content)

    async def react(self, room: str, event: str, emoji: str) -> str:
        related = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        return await self.send(room, "m.reaction", {"m.relates_to": related})

    async def redact(self, room: str, event: str) -> None:
        await self.call("PUT", f"/rooms/{quote(room)}/redact/{quote(event)}/r{time.time_ns()}", {})

    async def upload(self, content: bytes, name: str, mime: str) -> str:
        """A file for the media store; its mxc URI."""
        path = f"/_matrix/media/v3/upload?{urllib.parse.urlencode({'filename': name})}"
        answer = await asyncio.to_thread(call, self.server.port, "POST", path, content, self.token, mime)
        return str(answer["content_uri"])

    async def download(self, mxc: str) -> bytes:
        path = f"/_matrix/client/v1/media/download/{mxc.removeprefix('mxc://')}"
        return bytes((await asyncio.to_thread(call, self.server.port, "GET", path, None, self.token, "", True))["raw"])

    async def events(self, room: str) -> list[Json]:
        """Every event of the room that this person may read, to the last page, oldest first."""
        found: list[Json] = []
        at: dict[str, str] = {}
        while True:
            page = await self.call("GET", f"/rooms/{quote(room)}/messages", None, dir="b", limit="100", **at)
            found += page["chunk"]
            if "end" not in page:
                return found[::-1]
            at = {"from": page["end"]}

    async def messages(self, room: str, sender: str | None = None) -> list[Json]:
        """The messages (edits are none) of the room, of one account if named, oldest first."""
        return [
            event
            for event in await self.events(room)
            if event["type"] == "m.room.message" and "body" in event["content"]
            if event["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
            if sender in (None, event["sender"].partition(":")[0][1:])
        ]

    async def texts(self, room: str, sender: str | None = None) -> list[str]:
        """Their bodies."""
        return [event["content"]["body"] for event in await self.messages(room, sender)]

    async def members(self, room: str) -> dict[str, str]:
        """user id -> membership."""
        found = (await self.call("GET", f"/rooms/{quote(room)}/members"))["chunk"]
        return {event["state_key"]: event["content"]["membership"] for event in found}


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def call(
    port: int, method: str, path: str, body: Any = None, token: str = "", mime: str = "", raw: bool = False
) -> Json:
    """One request; it blocks. `raw`: {"raw": bytes} instead of JSON. Raises Refused."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"content-type": mime or "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise Refused(answer.status, json.loads(content or b"{}"))
    return {"raw": content} if raw else dict(json.loads(content))
