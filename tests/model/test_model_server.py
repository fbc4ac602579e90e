"""Which server gets which key: a key of the environment goes to the provider's own host, and to no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_world import Answer, ModelServer

from semel.agents.model import ModelAgent
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings

SECRETS = {
    "OPENAI_API_KEY": "sk-openai",
    "OPENAI_ORG_ID": "org-secret",
    "OPENAI_PROJECT_ID": "project-secret",
    "OPENAI_CUSTOM_HEADERS": "X-Corp: corp-secret",
    "ANTHROPIC_API_KEY": "sk-anthropic",
    "ANTHROPIC_AUTH_TOKEN": "token-secret",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Corp: corp-secret",
}
REFUSED = Answer(status=401, body={"error": {"message": "who are you", "type": "authentication_error"}})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def make_agent(home: Path, model: str, **settings: Any) -> ModelAgent:
    return ModelAgent(AgentSettings(name="main", kind="model", cwd=home, model=model, **settings))


async def fail(agent: ModelAgent) -> str:
    """Ask, and return why that failed."""
    with pytest.raises(AgentError) as caught:
        await agent.ask("Hi")
    return str(caught.value)


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])
async def test_another_server_gets_nothing_of_the_environment(tmp_path: Path, provider: str) -> None:
    async with ModelServer(REFUSED) as api:
        url = f"{api.url}/v1"
        agent = make_agent(tmp_path, f"{provider}:m", base_url=url)
        problem = await fail(agent)
        [request] = api.requests
    assert not [value for value in SECRETS.values() if value.rpartition(" ")[2] in str(request.headers)]
    assert not {"authorization", "x-api-key"} & {name.lower() for name in request.headers}
    variable = f"{provider.partition('-')[0].upper()}_API_KEY"
    assert f"sends no key to {url}: {variable} of the environment goes to the provider's" in agent.describe_key()
    assert f"at {url} answered 401: who are you. It got no key, because {variable}" in problem
    assert 'write key = "env:NAME"' in problem


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
async def test_another_server_gets_the_key_that_the_settings_name(tmp_path: Path, provider: str) -> None:
    async with ModelServer(REFUSED) as api:
        url = f"{api.url}/v1"
        agent = make_agent(tmp_path, f"{provider}:m", base_url=url, key="sk-named")
        problem = await fail(agent)
        headers = api.requests[0].headers
    assert "sk-named" in (headers.get("authorization", "") + headers.get("x-api-key", ""))
    assert agent.describe_key() == f"sends the key of its setting `key` to {url}"
    assert "It got the key of the setting `key`" in problem


async def test_the_providers_own_host_gets_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(REFUSED, REFUSED) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{api.url}/v1")  # the provider's own, for whoever set it
        for settings in ({}, {"base_url": f"{api.url}/v2"}):
            problem = await fail(make_agent(tmp_path, "openai-chat:m", **settings))
            assert "It got the key of OPENAI_API_KEY" in problem
        assert [request.headers["authorization"] for request in api.requests] == ["Bearer sk-openai"] * 2
    remark = "sends the key of the environment variable OPENAI_API_KEY to https://api.openai.com/v1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    for settings in ({}, {"base_url": "https://api.openai.com:443/v1"}):
        agent = make_agent(tmp_path, "openai:gpt-5", **settings)
        agent.check()
        assert agent.describe_key().replace(":443", "") == remark


async def test_without_any_key_only_a_header_of_the_settings_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    async with ModelServer(REFUSED, REFUSED) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{api.url}/v1")
        await fail(make_agent(tmp_path, "openai-chat:m"))
        await fail(
            make_agent(tmp_path, "openai-chat:m", request_settings={"extra_headers": {"authorization": "Basic YTpi"}})
        )
        assert [request.headers.get("authorization") for request in api.requests] == [None, "Basic YTpi"]


@pytest.mark.parametrize(
    "url",
    [
        "http://api.openai.com/v1",
        "https://api.openai.com@127.0.0.1:9/v1",
        "https://api.openai.com.example.org/v1",
        "https://api.openai.com:8443/v1",
    ],
)
def test_a_url_that_only_looks_like_the_providers_gets_no_key(tmp_path: Path, url: str) -> None:
    agent = make_agent(tmp_path, "openai:gpt-5", base_url=url)
    agent.check()
    assert agent.describe_key().startswith("sends no key to ")


async def test_a_failure_names_the_address_without_its_password_and_what_to_do(tmp_path: Path) -> None:
    answers = [Answer(status=status, body={"error": {"message": "no"}}) for status in (404, 503)]
    async with ModelServer(*answers) as api:
        shown = f"{api.url}/v1"
        agent = make_agent(tmp_path, "openai-chat:llama", base_url=shown.replace("//", "//ada:pass@") + "?token=t")
        missing, faulty = await fail(agent), await fail(agent)
    refused = await fail(agent)
    assert missing == (
        f"the model's API at {shown} answered 404: no. Does it have the model 'llama', and is `base_url` the whole "
        "address of its API, which often ends with /v1?"
    )
    assert faulty.startswith(f"the model's API at {shown} answered 503: no. The fault is the server's")
    assert refused.startswith(f"the model's API at {shown} could not be reached: nothing listens there. Start that")
    agent = make_agent(tmp_path, "openai-chat:llama", base_url="http://no-such-host.invalid/v1")
    assert "http://no-such-host.invalid/v1 could not be reached: its host name was not found" in await fail(agent)


async def test_a_trial_shows_that_a_model_takes_no_tools_and_what_to_do(tmp_path: Path) -> None:
    message = "registry.ollama.ai/library/llama3:8b does not support tools"  # as Ollama says it
    async with ModelServer(Answer(status=400, body={"error": {"message": message}})) as api:
        problem = await fail(make_agent(tmp_path, "openai-chat:llama3:8b", base_url=f"{api.url}/v1"))
        assert api.requests[0].body["tools"]
    assert problem.endswith(f"{message}. Semel gives each model tools: set `model` to one that can call tools")
