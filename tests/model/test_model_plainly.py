"""OpenAI's client is given the conversation as it is to be sent, and gives it on as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_world import Answer, ModelServer
from pydantic import BaseModel
from pydantic_ai.direct import model_request_stream

from semel.agents.model import history, openai_patches
from semel.agents.model.provider import ConfiguredModel
from semel.gateway.ports import Past, Spoken
from semel.gateway.settings import AgentSettings

LENGTH = 400


def models(url: str, provider: str, path: Path) -> ConfiguredModel:
    model = f"{provider}:claude-opus-5"
    return ConfiguredModel(
        AgentSettings(name="main", kind="model", cwd=path, model=model, key="sk-secret", base_url=url)
    )


@pytest.mark.parametrize("provider", ["openai-chat", "openai"])
async def test_a_long_past_is_sent_word_for_word_and_looked_at_by_no_client(
    tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    spoken = tuple(Spoken(n, n // 2, "agent" if n % 2 else "user", f"text {n} ☃") for n in range(LENGTH))
    asked = history.build_messages(Past(LENGTH, spoken), "You are one.")
    history.append_prompt(asked, ["and now?"])
    async with ModelServer(Answer("well")) as api:
        one = models(f"{api.url}/v1", provider, tmp_path)
        from openai._utils import _transform  # what looks at each message

        look = _transform._async_transform_typeddict

        async def noted(data: Any, kind: Any) -> Any:
            looked.append(kind)
            return await look(data, kind)

        monkeypatch.setattr(_transform, "_async_transform_typeddict", noted)
        async with one.model, model_request_stream(one.model, asked, model_settings=one.request_options()) as stream:
            async for _ in stream:
                pass
        talk = api.requests[0].talk
    assert [text for _, text in talk] == [f"text {n} ☃" for n in range(LENGTH)] + ["and now?"]
    assert len(looked) < 20


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])
def test_no_client_retries_by_itself(tmp_path: Path, provider: str) -> None:
    one = models("http://127.0.0.1:9/v1", provider, tmp_path)
    client: Any = one.model.provider.client  # type: ignore[union-attr]
    assert client.max_retries == 0 or one.request_options().get("max_retries") == 0


async def test_what_is_no_json_goes_through_the_client() -> None:
    class Odd(BaseModel):
        text: str

    async def create(**given: Any) -> dict[str, Any]:
        return given

    odd = [{"role": "user", "content": Odd(text="x")}]
    assert await openai_patches._create_observed(create, "messages", messages=odd, n=1) == {"messages": odd, "n": 1}
    more = {"messages": ["m"], "extra_body": {"own": 1}, "n": 1}
    told = {"messages": [], "extra_body": {"messages": ["m"], "own": 1}, "n": 1}
    assert await openai_patches._create_observed(create, "messages", **more) == told
