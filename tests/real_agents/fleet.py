"""How each real agent is started against a scripted model: its command, its environment, its files at home."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest


def _installer() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "scripts/agents_install.py"
    spec = importlib.util.spec_from_file_location("agents_install", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


INSTALLER = _installer()
ROOT: Path = INSTALLER.ROOT
Api = Literal["anthropic", "openai", "gemini"]
Env = dict[str, str]


@dataclass(frozen=True)
class RealAgent:
    """`start(home, port)` prepares a fresh home and answers (command, environment); the model listens at `port`.

    `memory`: the files below home that hold a message as soon as it is complete, before the turn is over. `tools`: its
    model calls Semel's tools as functions, from its first turn on; `tools_later`: from a later turn on. `asks`: it asks
    for permission. `asks_aside`: it asks its model once more about an answer, such as what to suggest next. `streams`:
    its model's words are shown as they come. `asks_in_order`: its questions come behind the call that they are about.
    `companion(command)`: the program that must run beside it; it listens at the port of `command`'s address.
    `no_tools`: why it has none of Semel's tools, as people are told. `refused_modes`: modes that it offers and then
    refuses, with a reason.
    """

    name: str
    api: Api
    start: Callable[[Path, int], tuple[list[str], Env]]
    memory: str | None = None
    tools: bool = True
    tools_later: bool = False
    asks: bool = True
    asks_aside: bool = False
    streams: bool = True
    asks_in_order: bool = True
    companion: Callable[[list[str]], list[str]] | None = None
    no_tools: str | None = None
    refused_modes: frozenset[str] = frozenset()


def _base(home: Path) -> Env:
    (home / "tmp").mkdir()
    node = Path(INSTALLER.node()).parent
    return {"HOME": str(home), "PATH": f"{node}:{os.environ['PATH']}", "TMPDIR": str(home / "tmp"), "NO_COLOR": "1"}


def _claude(home: Path, port: int) -> tuple[list[str], Env]:
    main = ROOT / "claude/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"
    return [INSTALLER.node(), str(main)], {
        **_base(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else our tools have to be searched for before they can be called
    }


def _codex_config(home: Path, port: int) -> Env:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(f"""
model = "gpt-5.4"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"
request_max_retries = 4
stream_max_retries = 5
""")
    keys = {"CODEX_HOME": str(home / ".codex"), "SCRIPTED_API_KEY": "none", "OPENAI_API_KEY": "none"}
    return {**_base(home), **keys, "NO_BROWSER": "1", "RUST_LOG": "warn"}


def _codex(home: Path, port: int) -> tuple[list[str], Env]:
    main = ROOT / "codex/node_modules/@agentclientprotocol/codex-acp/dist/index.js"
    env = _codex_config(home, port)
    env.update(CODEX_API_KEY="none", MODEL_PROVIDER="scripted")
    return [INSTALLER.node(), str(main)], env


def _codex_zed(home: Path, port: int) -> tuple[list[str], Env]:
    found = list((ROOT / "codex-zed/node_modules/@zed-industries").glob("codex-acp-*/bin/codex-acp"))
    assert len(found) == 1, f"one binary of codex-acp is wanted: {found}"
    return [str(found[0])], _codex_config(home, port)


def _opencode_config(home: Path, port: int, name: str) -> Env:
    (home / f".config/{name}").mkdir(parents=True)
    model = {
        "name": "Scripted", "reasoning": True, "tool_call": True, "interleaved": {"field": "reasoning_content"},
        "limit": {"context": 200000, "output": 32000},
    }  # fmt: skip
    provider = {
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted", "models": {"scripted": model},
        "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"},
    }  # fmt: skip
    config = {
        "autoupdate": False, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
        "permission": {"bash": "ask", "edit": "ask"}, "provider": {"scripted": provider},
    }  # fmt: skip
    (home / f".config/{name}/{name}.json").write_text(json.dumps(config))
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {**_base(home), **{f"{name.upper()}_DISABLE_{what}": "1" for what in quiet}}


def _opencode(home: Path, port: int) -> tuple[list[str], Env]:
    env = _opencode_config(home, port, "opencode")
    return [str(ROOT / "opencode/node_modules/.bin/opencode"), "acp"], env


def _kilo(home: Path, port: int) -> tuple[list[str], Env]:
    return [str(ROOT / "kilo/node_modules/.bin/kilo"), "acp"], _opencode_config(home, port, "kilo")


def _copilot(home: Path, port: int) -> tuple[list[str], Env]:
    env = {
        "COPILOT_OFFLINE": "true", "COPILOT_HOME": str(home / ".copilot"), "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{port}/v1", "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "scripted",
    }  # fmt: skip
    return [str(ROOT / "copilot/node_modules/.bin/copilot"), "--acp"], {**_base(home), **env}


def _gemini(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False}, "model": {"name": "gemini-2.5-flash"},
    }  # fmt: skip
    (home / ".gemini/settings.json").write_text(json.dumps(settings))
    keys = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}
    main = ROOT / "gemini/node_modules/@google/gemini-cli/bundle/gemini.js"
    return [INSTALLER.node(), str(main), "--acp"], {**_base(home), **keys, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".qwen").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False}, "model": {"name": "scripted"},
        "tools": {"toolSearch": {"enabled": False}},  # else our tools have to be searched for
        "ui": {"enableFollowupSuggestions": False},
    }  # fmt: skip
    (home / ".qwen/settings.json").write_text(json.dumps(settings))
    keys = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_MODEL": "scripted"}
    command = [
        str(ROOT / "qwen/node_modules/.bin/qwen"),
        "--acp",
        "--auth-type",
        "openai",
        "--approval-mode",
        "default",
    ]
    return [INSTALLER.node(), *command], {**_base(home), **keys}


def _pi(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".pi/agent").mkdir(parents=True)
    model = {
        "id": "scripted", "name": "Scripted", "reasoning": True, "input": ["text"], "contextWindow": 200000,
        "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }  # fmt: skip
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1", "api": "openai-completions", "apiKey": "none", "models": [model],
    }  # fmt: skip
    (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    settings = {"defaultProvider": "scripted", "defaultModel": "scripted", "quietStartup": True}
    (home / ".pi/agent/settings.json").write_text(json.dumps(settings))
    env = _base(home)
    env["PATH"] = f"{ROOT / 'pi/node_modules/.bin'}:{env['PATH']}"
    main = ROOT / "pi/node_modules/pi-acp/dist/index.js"
    return [INSTALLER.node(), str(main)], {**env, "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}


def _vibe(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".vibe").mkdir()
    (home / ".vibe/config.toml").write_text(f"""
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "scripted"
api_base = "http://127.0.0.1:{port}/v1"
api_key_env_var = "SCRIPTED_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
""")
    keys = {"VIBE_HOME": str(home / ".vibe"), "SCRIPTED_API_KEY": "none", "MISTRAL_API_KEY": "none"}
    return [str(ROOT / "vibe/bin/vibe-acp")], {**_base(home), **keys}


def _fast_agent(home: Path, port: int) -> tuple[list[str], Env]:
    keys = {"GENERIC_API_KEY": "none", "GENERIC_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    command = [str(ROOT / "fast-agent/bin/fast-agent-acp"), "--model", "generic.scripted", "-x"]
    return command, {**_base(home), **keys, "FAST_AGENT_DISABLE_UPDATE_CHECK": "1"}


def _kimi(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".kimi-code").mkdir()
    (home / ".kimi-code/config.toml").write_text(f"""
default_model = "scripted"
[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 200000
[providers.scripted]
type = "openai"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "none"
""")
    main = ROOT / "kimi/node_modules/@moonshot-ai/kimi-code/dist/main.mjs"
    env = {"KIMI_CODE_HOME": str(home / ".kimi-code"), "KIMI_CODE_NO_AUTO_UPDATE": "1"}
    return [INSTALLER.node(), str(main), "acp"], {**_base(home), **env}


def _hermes(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".hermes").mkdir()
    model = {
        "default": "scripted", "provider": "custom", "base_url": f"http://127.0.0.1:{port}/v1", "api_key": "none",
        "context_length": 200000,
    }  # fmt: skip
    memory = {"memory_enabled": False, "user_profile_enabled": False}
    config = {"model": model, "memory": memory, "approvals": {"mode": "manual"}}
    (home / ".hermes/config.yaml").write_text(json.dumps(config))
    env = {"HERMES_HOME": str(home / ".hermes"), "OPENAI_API_KEY": "none"}
    return [str(ROOT / "hermes/bin/hermes"), "acp"], {**_base(home), **env}


def _nanocoder(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".config/nanocoder").mkdir(parents=True)
    provider = {
        "name": "scripted", "baseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "none", "models": ["scripted"],
    }  # fmt: skip
    config = {"nanocoder": {"providers": [provider]}}
    (home / ".config/nanocoder/agents.config.json").write_text(json.dumps(config))
    command = [str(ROOT / "nanocoder/node_modules/.bin/nanocoder"), "--acp"]
    return [INSTALLER.node(), *command], {**_base(home), "NANOCODER_CONFIG_DIR": str(home / ".config/nanocoder")}


def _agentao(home: Path, port: int) -> tuple[list[str], Env]:
    keys = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_MODEL": "scripted"}
    return [str(ROOT / "agentao/bin/agentao"), "--acp", "--stdio"], {**_base(home), **keys}


def _cline(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".cline/data/settings").mkdir(parents=True)
    settings = {
        "provider": "openai-compatible", "apiKey": "none", "model": "scripted",
        "baseUrl": f"http://127.0.0.1:{port}/v1",
    }  # fmt: skip
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": provider}}
    (home / ".cline/data/settings/providers.json").write_text(json.dumps({**providers, "modes": {}}))
    env = {"CLINE_PROVIDER": "openai-compatible", "CLINE_API_KEY": "none", "CLINE_MODEL": "scripted"}
    return [str(ROOT / "cline/node_modules/.bin/cline"), "--acp"], {**_base(home), **env}


def _openhands(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".openhands").mkdir()
    llm = {"model": "openai/scripted", "api_key": "none", "base_url": f"http://127.0.0.1:{port}/v1"}
    (home / ".openhands/agent_settings.json").write_text(json.dumps({"kind": "Agent", "llm": llm}))
    return [str(ROOT / "openhands/bin/openhands"), "acp"], _base(home)


def _openclaw(home: Path, port: int) -> tuple[list[str], Env]:
    (home / ".openclaw").mkdir()
    model = {
        "id": "scripted", "name": "Scripted", "reasoning": True, "input": ["text"], "contextWindow": 200000,
        "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }  # fmt: skip
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "none", "api": "openai-completions", "models": [model],
    }  # fmt: skip
    defaults = {
        "model": {"primary": "scripted/scripted"}, "workspace": str(home.parent / "work"),
        "heartbeat": {"every": "0m"},  # else it prompts its model by itself
    }  # fmt: skip
    config = {
        "gateway": {"mode": "local"}, "models": {"mode": "merge", "providers": {"scripted": provider}},
        "agents": {"defaults": defaults},
    }  # fmt: skip
    (home / ".openclaw/openclaw.json").write_text(json.dumps(config))
    main = ROOT / "openclaw/node_modules/openclaw/openclaw.mjs"
    address = f"ws://127.0.0.1:{free_port()}"
    return [INSTALLER.node(), str(main), "acp", "--url", address, "--token", "none"], _base(home)


def _openclaw_gateway(command: list[str]) -> list[str]:
    port = command[4].rpartition(":")[2]
    return [*command[:2], "gateway", "run", "--port", port, "--auth", "token", "--token", "none"]


def _deepagents(home: Path, port: int) -> tuple[list[str], Env]:
    keys = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    quiet = {"DEEPAGENTS_CODE_OFFLINE": "1", "DEEPAGENTS_CODE_NO_UPDATE_CHECK": "1"}
    command = [str(ROOT / "deepagents/bin/dcode"), "--acp", "--model", "openai:scripted", "--no-mcp"]
    return command, {**_base(home), **keys, **quiet}


def _gptme(home: Path, port: int) -> tuple[list[str], Env]:
    keys = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "MODEL": "local/scripted"}
    return [str(ROOT / "gptme/bin/gptme-acp")], {**_base(home), **keys}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


_NOT_STARTED = "it has not started Semel's MCP server"
AGENTS = {
    one.name: one
    for one in (
        RealAgent("claude", "anthropic", _claude),
        RealAgent("codex-zed", "openai", _codex_zed, ".codex/sessions/**/*.jsonl"),
        RealAgent("opencode", "openai", _opencode),
        RealAgent("codex", "openai", _codex, ".codex/sessions/**/*.jsonl"),
        RealAgent("copilot", "openai", _copilot),
        RealAgent("qwen", "openai", _qwen, tools=False, tools_later=True, asks_aside=True),
        RealAgent("gemini", "gemini", _gemini),
        RealAgent("pi", "openai", _pi, tools=False, asks=False, no_tools=_NOT_STARTED),
        RealAgent("vibe", "openai", _vibe),
        RealAgent("fast-agent", "openai", _fast_agent, asks=False),
        RealAgent("kimi", "openai", _kimi),
        RealAgent("kilo", "openai", _kilo, asks_in_order=False),
        RealAgent("hermes", "openai", _hermes),
        RealAgent("nanocoder", "openai", _nanocoder, tools=False, no_tools=_NOT_STARTED),
        RealAgent("cline", "openai", _cline, tools=False, no_tools=_NOT_STARTED),
        RealAgent("agentao", "openai", _agentao, asks=False),  # it refuses dangerous commands by itself
        RealAgent("openhands", "openai", _openhands, streams=False, asks_in_order=False),
        RealAgent("deepagents", "openai", _deepagents, tools=False, no_tools=_NOT_STARTED),
        # Its model calls tools in the text of its answer; what the model has said comes in batches, the last one late.
        RealAgent("gptme", "openai", _gptme, tools=False, asks=False, streams=False),
        RealAgent(
            "openclaw",
            "openai",
            _openclaw,
            tools=False,
            asks=False,
            companion=_openclaw_gateway,
            no_tools="it refuses MCP servers",
            refused_modes=frozenset(("adaptive",)),
        ),
    )
}


def chosen() -> list[str]:
    """The agents of this run: those that the environment's AGENTS names; all if it names none, or is `all`."""
    names = os.environ.get("AGENTS", "all").split()
    names = list(AGENTS) if names in ([], ["all"]) else names
    if unknown := [name for name in names if name not in AGENTS]:
        raise pytest.UsageError(f"AGENTS names {unknown[0]!r}; there are {', '.join(AGENTS)}")
    return names


def installed(name: str) -> RealAgent:
    """The agent, or a failure that says how to learn why it is not installed."""
    if not INSTALLER.is_installed(name):
        pytest.fail(f"{name} is not installed. To see why: python scripts/agents_install.py {name}")
    return AGENTS[name]
