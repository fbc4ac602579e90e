"""The gateway under test: configure it, start, kill and query its process, and find its ledger."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2

import semel.channels
from semel.law.identity import escape_address
from semel.testing import scripted_agent
from semel.testing.conformance.fork_server import ForkedProcess, shared_fork_server
from semel.testing.conformance.package_paths import find_package_paths
from semel.testing.conformance.rig import ConformanceError, Rig, demand
from semel.text.json_types import Json

CHANNEL_NAME = "tested"
"""The channel's name in the gateway's configuration."""
WAIT_TIMEOUT_S = 120.0
"""How long to wait for something that takes no time on an idle machine."""
NEXT_ONLINE_TIMEOUT_S = 5.0
"""How long to wait for a channel to come online if it did not in an earlier check of this process."""
ONLINE_REMEDY = (
    "call inbox.online() in run: after each connect, once what was missed was put to the last page, also if there was "
    "nothing"
)
REPORT_INTERVAL_S = 5.0
"""How often a check says what it waits for."""
MAX_DUPLICATE_PAGES = 20
"""How many pages of messages a gateway may hear again after one start. With more, the cursor does not advance."""
T = TypeVar("T")
DeathPoint = Literal["received", "committed", "departing", "answered"]


class CursorStuck(ConformanceError):
    """The channel reads the same page for ever."""

    def __init__(self) -> None:
        super().__init__(
            "the channel puts the same messages again and again, and never gets to later ones: its cursor does not "
            "advance. Ask for what comes after the last message that you put, and save that place with it: "
            "`await inbox.put(messages, cursor)`"
        )


async def wait_until(condition: Callable[[], Awaitable[T]], broken: str, patience: float = WAIT_TIMEOUT_S) -> T:
    """Wait until `condition` returns a true value, and return it. A wait of some seconds is reported on stderr.

    Raises ConformanceError with the message `broken` after `patience` seconds.
    """
    begun = time.monotonic()
    reported = begun
    while not (result := await condition()):
        now = time.monotonic()
        demand(now - begun < patience, f"{broken}: not within {patience:g} s")
        if now - reported >= REPORT_INTERVAL_S:
            report_progress(f"waiting, for {now - begun:.0f} of {patience:g} s; if in vain: {broken}")
            reported = now
        await asyncio.sleep(0.05)  # poll, because conditions query another process
    return result


_kinds_never_online: set[str] = set()
"""The kinds of channels that did not come online when they last should have."""


async def wait_until_online(rig: Rig, is_online: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the rig's channel is online.

    Raises ConformanceError after WAIT_TIMEOUT_S. The later checks of this process wait only for NEXT_ONLINE_TIMEOUT_S
    then: a channel that is never online would cost minutes in each of them.
    """
    failed_before = rig.kind in _kinds_never_online
    patience = NEXT_ONLINE_TIMEOUT_S if failed_before else WAIT_TIMEOUT_S
    try:
        await wait_until(is_online, "the channel did not come online", patience)
    except CursorStuck:
        raise
    except ConformanceError as error:
        _kinds_never_online.add(rig.kind)
        earlier = (
            f", after {WAIT_TIMEOUT_S:g} s in an earlier check, which is the one to look at" if failed_before else ""
        )
        raise ConformanceError(f"{error}{earlier}: {ONLINE_REMEDY}") from None
    _kinds_never_online.discard(rig.kind)


def report_progress(text: str) -> None:
    """Print what a check does now to stderr, which `pytest -s` shows at once."""
    sys.stderr.write(f"conformance: {text}\n")


def format_toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {format_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value)


def has_accounts(rig: Rig) -> bool:
    """Return whether people have accounts on the rig's platform. A kind that nobody knows here is one of a package."""
    kind = semel.channels.kinds().get(rig.kind)
    return not rig.hooked if kind is None else kind.people


def make_config(rig: Rig, ports: Mapping[str, int]) -> str:
    """Return the gateway's configuration in TOML: the rig's channel, the person who writes there, and an agent.

    `ports`: the ports of the proxies, by name. Wakes are delayed for longer than a test lasts, so the agent never runs.
    """
    agent = scripted_agent.command()
    lines = ["[agents.main]", 'kind = "acp"', f"command = {format_toml(agent)}"]
    lines += [f"[channels.{CHANNEL_NAME}]", f"kind = {format_toml(rig.kind)}"]
    lines += [
        f"{key} = {format_toml(value)}"
        for key, value in {**rig.settings(ports), **rig.shared}.items()
        if value is not None
    ]
    if has_accounts(rig):  # else everybody who has the channel's secret may speak
        lines += ["[people.writer]", 'role = "owner"', f"accounts = {format_toml([f'{CHANNEL_NAME}:{rig.person}'])}"]
    lines += ['[sessions."*"]', 'wake = { debounce = "1h", max_wait = "1h" }']
    return "\n".join(lines) + "\n"


class GatewayProcess:
    """A gateway that is started and killed several times. `home` holds its configuration, data and log."""

    def __init__(self, home: Path, rig: Rig) -> None:
        self.home, self.rig = home, rig
        self.data = home / "data"
        self.url = ""
        self.kills = 0
        self._process: ForkedProcess | None = None
        self._is_death_expected = False
        self._client = httpx2.AsyncClient(trust_env=False, verify=False, timeout=WAIT_TIMEOUT_S)
        home.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<GatewayProcess {self.url or 'down'}, killed {self.kills} times>"

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"

    @property
    def session(self) -> str:
        """The key of the session for the address where the rig's `person` writes."""
        return f"main:{CHANNEL_NAME}:{escape_address(self.rig.home())}"

    @property
    def log(self) -> str:
        try:
            return (self.home / "gateway.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def configure(self, ports: Mapping[str, int], config: str = "") -> None:
        path = self.home / "semel.toml"
        path.write_text(config or make_config(self.rig, ports))
        path.chmod(0o600)

    # ------------------------------------------------------------ life and death

    async def start(self, *, die: tuple[DeathPoint, int] | None = None, cursor: list[str | None] | None = None) -> bool:
        """Start the gateway and wait until it answers. Returns False if it died before that, as planned by `die`.

        `die`: (POINT, n): the gateway kills itself when it passes POINT for the n-th time. `cursor`: a list with the
        cursor that the channel gets at its start instead of the one in the ledger. `semel.testing.killable_gateway` has
        details.
        """
        job: Json = {"config": str(self.home / "semel.toml"), "data": str(self.data), "channel": CHANNEL_NAME}
        job |= {"die": die} if die else {}
        job |= {"cursor": cursor} if cursor is not None else {}
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        paths = find_package_paths(self.rig.paths)
        job |= {"log": str(self.home / "gateway.log"), "cwd": str(self.home), "paths": paths}
        self._is_death_expected = die is not None
        self._process = await shared_fork_server().start(**job, env={**env, "HOME": str(self.home)})
        await wait_until(self._is_up, "the gateway did not start")
        if not self.alive:
            self._record_death()
            return False
        self.rig.reach(self.url)
        return True

    async def _is_up(self) -> bool:
        if not self.alive:
            return True
        try:
            announced = json.loads((self.data / "gateway.json").read_text())
        except (OSError, ValueError):
            return False
        self.url = str(announced["url"])
        return self._process is not None and bool(announced["pid"] == self._process.pid)

    def _record_death(self) -> None:
        assert self._process is not None
        if self._process.code != -signal.SIGKILL or not self._is_death_expected:
            raise ConformanceError(f"the gateway ended by itself ({self._process.code}):\n{self.log[-3000:]}")
        self.kills += 1
        self.url = ""

    async def wait_for_death(self) -> None:
        """Wait until the gateway is dead: by `kill`, or by its own SIGKILL at the point that `start(die=...)` named.

        Raises ConformanceError if it still runs after WAIT_TIMEOUT_S, or if it ended in any other way.
        """
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.wait(), WAIT_TIMEOUT_S)
        except TimeoutError:
            raise ConformanceError("the gateway did not get as far as where it was to be killed") from None
        self._record_death()

    def kill(self) -> None:
        """Kill the gateway with SIGKILL; await `wait_for_death` afterwards."""
        if self._process is not None and self._process.code is None:
            self._is_death_expected = True
            self._process.kill()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.code is None

    async def stop(self) -> None:
        """Stop the gateway with SIGTERM, or with SIGKILL after 30 s."""
        life, self._process, self.url = self._process, None, ""
        if life is None:
            return
        life.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(life.wait(), 30.0)
        except TimeoutError:
            life.kill()
            await life.wait()

    async def __aenter__(self) -> GatewayProcess:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
        await self._client.aclose()

    # ------------------------------------------------------------ queries over the API

    async def get(self, path: str) -> Json:
        answer = await self._client.get(self.url + path)
        if answer.status_code == 404:
            return {}
        demand(answer.status_code == 200, f"GET {path}: HTTP {answer.status_code}: {answer.text}")
        return dict(answer.json())

    async def heard_entries(self) -> list[Json]:
        """Return what people said in the session, in order, as the API shows it: {"text", "key"?, ...}."""
        answer = await self.get(f"/v1/sessions/{self.session}/entries")
        return [dict(entry) for entry in answer.get("entries", ()) if entry["role"] == "user"]

    async def heard_texts(self) -> list[str]:
        """Return the texts that people said in the session, in order."""
        return [entry["text"] for entry in await self.heard_entries()]

    async def channel_state(self) -> Json:
        """Return the channel's state as the API shows it: {"state", "counts", "error"?, ...}."""
        answer = await self.get("/v1/channels")
        return next(dict(channel) for channel in answer["channels"] if channel["name"] == CHANNEL_NAME)

    def check_progress(self, channel: Json) -> None:
        """Raise CursorStuck if the channel hears the same messages again and again. `channel`: its state."""
        if int(channel["counts"]["duplicate"]) > MAX_DUPLICATE_PAGES * self.rig.page:
            raise CursorStuck

    async def wait_until_online(self) -> None:
        """Wait until the channel is online."""

        async def hears() -> bool:
            state = await self.channel_state()
            self.check_progress(state)
            return str(state["state"]) == "online"

        try:
            await wait_until_online(self.rig, hears)
        except CursorStuck:
            raise
        except ConformanceError as error:
            raise ConformanceError(f"{error}; it says {await self.channel_state()}") from None

    async def wait_until_idle(self, patience: float) -> None:
        """Wait until nothing is left to send. Raises ConformanceError after `patience` seconds."""

        await wait_until(self.is_idle, "parts were still waiting to leave", patience)

    async def is_idle(self) -> bool:
        """Whether nothing is left to send: no part is queued, sending or unknown. False if the gateway is down."""
        try:  # one request: a part may change its state between two
            counts = (await self.get("/v1/status"))["parts"]
        except httpx2.HTTPError:
            return False
        return not any(counts[state] for state in ("queued", "sending", "unknown"))
