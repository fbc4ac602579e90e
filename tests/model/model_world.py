"""A whole gateway around a model agent and a scripted model API: real ledger, real HTTP, real commands."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "gateway"))

from gateway_world import World, until
from model_server import Answer, ModelServer, Request

from semel.agents.acp import kill_group_if_same
from semel.agents.model import ModelAgent
from semel.gateway import Gateway
from semel.gateway.ports import Launch
from semel.gateway.settings import AgentSettings, GatewaySettings, McpSettings
from semel.ledger.sqlite.store import Store
from semel.tools.in_process_tools import InProcessTools

__all__ = ["Answer", "McpSettings", "ModelServer", "ModelWorld", "Request", "door", "until"]

Json = dict[str, Any]


def door(launch: Launch) -> InProcessTools:
    assert launch.inside is not None
    return InProcessTools(launch.inside.call, launch.token)


class ModelWorld(World):
    """`provider`: "openai-chat", "openai" or "anthropic". `model`: what differs in the settings of the model."""

    def __init__(self, path: Path, api: ModelServer, provider: str = "openai-chat", **settings: Any) -> None:
        self.path = path
        self.api = api
        self.work = path / "work"
        self.work.mkdir(exist_ok=True)
        self.channels = settings.pop("channels", {})
        if "channel_settings" in settings:
            settings["channels"] = settings.pop("channel_settings")
        url = api.url if provider == "anthropic" else f"{api.url}/v1"
        agent = AgentSettings(
            name="main", cwd=self.work, kind="model", env=settings.pop("env", {}),
            permissions=settings.pop("permissions", "allow"), attempts=settings.pop("attempts", 1),
            model=f"{provider}:claude-opus-5", key="sk-secret", base_url=url, **settings.pop("model", {}),
        )  # fmt: skip
        self.settings = GatewaySettings(
            data_dir=path, ledger=path / "ledger.db", agents={"main": agent}, grace_s=0.2, **settings
        )

    async def start(self) -> ModelWorld:
        store = await asyncio.to_thread(Store.open, self.settings.ledger)
        agents = {name: ModelAgent(agent, door) for name, agent in self.settings.agents.items()}
        self.gateway = Gateway(self.settings, store, agents, self.channels, reap=_reap)
        return await self.begin()

    async def items(self, kind: str, session: str = "s") -> list[Json]:
        """The items of one kind, in the order of the view."""
        async for told in self.gateway.watch(session, None):
            return [item for item in told["items"] if item["kind"] == kind]
        return []

    async def item(self, kind: str, session: str = "s", **fields: Any) -> Json:
        """The first item of that kind with these fields, waited for."""
        found: list[Json] = []

        async def there() -> bool:
            found[:] = [
                one for one in await self.items(kind, session) if all(one.get(k) == v for k, v in fields.items())
            ]
            return bool(found)

        await until(there)
        return found[0]


def _reap(left: Any) -> bool:
    return left.pid is not None and kill_group_if_same(left.pid, left.pgid, left.born)
