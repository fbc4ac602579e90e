"""A model agent in semel.toml: what it takes, and what a mistake is answered with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.agents.model import ModelAgent
from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings, McpSettings

FULL = """
[agents.main]
kind = "model"
model = "openai-chat:llama"
key = "env:MODEL_KEY"
base_url = "http://127.0.0.1:1/v1"
instructions = "RULES.md"
tools = ["read", "list"]
context = 32000
max_tokens = 900
max_requests = 7
compaction = false
permissions = "deny"
settings = { temperature = 0.2 }
[agents.main.mcp.git]
command = ["uvx", "mcp-server-git"]
env = { TOKEN = "file:token" }
[agents.main.mcp.web]
url = "https://example.org/mcp"
headers = { Authorization = "env:WEB_KEY" }
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SEMEL_CONFIG", "SEMEL_DATA", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(home: Path, text: str) -> AgentSettings:
    (home / "semel.toml").write_text(text)
    return next(iter(load_config().gateway.agents.values()))


def test_all_of_it_is_read_and_no_secret_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-1")
    monkeypatch.setenv("WEB_KEY", "Bearer 2")
    (home / "token").write_text("tok-3\n")
    agent = settings(home, FULL)
    assert agent == AgentSettings(
        name="main",
        kind="model",
        cwd=home / ".local/share/semel/workspaces/main",
        permissions="deny",
        model="openai-chat:llama",
        key="sk-1",
        base_url="http://127.0.0.1:1/v1",
        instructions="RULES.md",
        tools=("read", "list"),
        mcp={
            "git": McpSettings(command=("uvx", "mcp-server-git"), env={"TOKEN": "tok-3"}),
            "web": McpSettings(url="https://example.org/mcp", headers={"Authorization": "Bearer 2"}),
        },
        context=32000,
        max_tokens=900,
        max_requests=7,
        compaction=False,
        request_settings={"temperature": 0.2},
    )
    assert not [secret for secret in ("sk-1", "Bearer 2", "tok-3") if secret in repr(agent)]
    ModelAgent(agent).check()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'an agent of kind "model" needs a model'),
        ('model = "gpt"', 'model is "gpt", and should be PROVIDER:NAME'),
        ('model = "a:b"\ncommand = ["x"]', "has no command"),
        ('model = "a:b"\nkey = "sk-123"', "the key itself does not belong in this file"),
        ('model = "a:b"\nkey = "env:NO_SUCH"', "the environment variable NO_SUCH is not set"),
        ('model = "a:b"\ntools = ["dance"]', "\"tools\" item 1 is 'dance', and should be 'read', 'write'"),
        ('model = "a:b"\nbase_url = "localhost:11434/v1"', "should begin with https:// or http://"),
        ('model = "a:b"\nmodell = "x"', 'has no setting "modell"; did you mean "model"?'),
        ('model = "a:b"\n[agents.main.mcp_servers.git]\ncommand = ["x"]', '"mcp_servers"; did you mean "mcp"?'),
        ('model = "a:b"\nsettings = { max_retries = 2 }', "max_retries cannot be set"),
        ('model = "a:b"\n[agents.main.mcp.x]', "either a command"),
        ('model = "a:b"\n[agents.main.mcp.x]\nurl = "ftp://x"', "should begin with https://"),
        ('model = "a:b"\n[agents.main.mcp.x]\nurl = "http://x"\nenv = { A = "b" }', "env is for a command"),
    ],
)
def test_a_mistake_is_named(home: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(home, f'[agents.main]\nkind = "model"\n{text}')
    assert said in str(caught.value)


def test_its_settings_are_no_other_kinds(home: Path) -> None:
    with pytest.raises(ConfigError, match='max_tokens is for agents of kind "model"'):
        settings(home, '[agents.main]\ncommand = ["x"]\nmax_tokens = 5')


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "openai:gpt-5"}, 'key = "env:NAME"'),
        ({"model": "openai:gpt-5"}, "Set the `OPENAI_API_KEY` environment variable"),
        ({"model": "nobody:gpt-5", "key": "k"}, 'pydantic-ai knows no provider "nobody"'),
        ({"model": "groq:llama", "key": "k"}, "pip install"),
        ({"model": "openai:gpt-5", "request_settings": {"temprature": 1}}, 'did you mean "temperature"?'),
        ({"model": "deepseek:chat", "key": "k", "base_url": "http://127.0.0.1:1"}, 'model = "openai-chat:NAME"'),
    ],
)
def test_a_model_that_cannot_be_made_is_told_with_what_to_do(home: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentError) as caught:
        ModelAgent(AgentSettings(name="main", kind="model", cwd=home, **settings)).check()
    assert said in str(caught.value) and "Provider(" not in str(caught.value)
    assert "[agents.main]" in str(caught.value)


def test_nothing_of_a_model_library_is_loaded_where_no_model_agent_is_configured() -> None:
    code = (
        "import sys, semel.faces.run, semel.faces.config.load, semel.agents.model\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic_ai', 'openai', 'anthropic', 'fastmcp', 'mcp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_library_the_message_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AgentError, match=r"pip install 'mcp>=.* 'pydantic-ai-slim\[anthropic,mcp,openai\]"):
        ModelAgent(AgentSettings(name="main", kind="model", cwd=home, model="openai:x")).check()
