"""What OpenAI's chat API refuses, and that every refusal has the form that OpenAI's clients read."""

from __future__ import annotations

import httpx2
import pytest
from openai_help import CHAT, Json, assistant, error, user

from semel.gateway import Gateway

NO_BASE64 = "data:image/png;base64,=broken"


def look(part: Json) -> Json:
    return {"messages": [user("look"), {"role": "user", "content": [part]}]}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"messages": [assistant("and then")]}, "messages"),
        ({"messages": []}, "messages"),
        (look({"type": "image_url", "image_url": {}}), "messages[1].content[0].image_url.url"),
        (
            look({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}),
            "messages[1].content[0].image_url.url",
        ),
        (look({"type": "image_url", "image_url": {"url": NO_BASE64}}), "messages[1].content[0].image_url.url"),
        (look({"type": "input_audio", "input_audio": {}}), "messages[1].content[0].input_audio.data"),
        (look({"type": "file", "file": {"file_id": "file-7"}}), "messages[1].content[0].file"),
        (look({"type": "hologram"}), "messages[1].content[0]"),
        ({"messages": 7}, "messages"),
        ({"messages": [*[user("hi")] * 6, {"role": "user", "content": 7}, user("x")]}, "messages[6].content"),
        ({"messages": [user("hi"), {"role": "user", "content": [{"type": "text"}, 7]}]}, "messages[1].content[1]"),
        ({"messages": [{"content": "hi"}]}, "messages[0]"),
        ({"modalities": ["text", 7]}, "modalities[1]"),
        ({"metadata": {"session": "claude:web:x"}}, "metadata.session"),
        ({"metadata": {"session": "codex:web:x"}}, "metadata.session"),
        ({"metadata": {"session": "a b"}}, "metadata.session"),
        ({"stream": "yes"}, "stream"),
    ],
)
async def test_what_cannot_be_done_is_refused_and_nothing_is_said(
    client: httpx2.AsyncClient, gateway: Gateway, change: Json, param: str | None
) -> None:
    refused = await client.post(CHAT, json={"model": "main", "messages": [user("hi")], **change})
    assert (refused.status_code, error(refused)["param"]) == (400, param)
    assert await gateway.sessions() == []


async def test_a_session_named_after_an_agent_that_is_not_here_is_refused(client: httpx2.AsyncClient) -> None:
    body = {"model": "main", "messages": [user("hi")], "metadata": {"session": "claude:web:x"}}
    refused = await client.post(CHAT, json=body)
    message = error(refused)["message"]
    assert message.startswith("No agent is named 'claude', so session 'claude:web:x' would be main's. Begin"), message


async def test_a_session_that_a_header_names_is_refused_by_the_header(client: httpx2.AsyncClient) -> None:
    body = {"model": "main", "messages": [user("hi")]}
    refused = await client.post(CHAT, json=body, headers={"X-Semel-Session": "claude:web:x"})
    assert (refused.status_code, error(refused)["param"]) == (400, "X-Semel-Session")


async def test_an_unknown_path_or_method_is_an_error_of_openais_form(client: httpx2.AsyncClient) -> None:
    for method, path, status, code in (
        ("GET", "/openai/v1/embeddings", 404, "no-such-path"),
        ("POST", "/openai/v1", 404, "no-such-path"),
        ("GET", CHAT, 405, "wrong-method"),
        ("DELETE", "/openai/v1/models", 405, "wrong-method"),
    ):
        refused = await client.request(method, path)
        assert (refused.status_code, error(refused)["code"]) == (status, code)
        assert refused.headers["content-type"] == "application/json"
    assert (await client.get("/v1/nowhere")).headers["content-type"] == "application/problem+json"


async def test_a_client_with_a_wrong_base_address_is_told_the_right_one(client: httpx2.AsyncClient) -> None:
    right = f"the base URL of a client is {client.base_url}/openai/v1"
    for path in ("/v1/chat/completions", "/chat/completions", "/models", "/v1/models", "/v1/models/main"):
        refused = await client.post(path, json={"model": "main", "messages": [user("hi")]})
        assert (refused.status_code, error(refused)["code"]) == (404, "no-such-path")
        assert error(refused)["message"].endswith(right)
    assert error(await client.post("/openai/chat/completions", json={}))["message"].endswith(right)
    beside = await client.post("/openai/v1/embeddings", json={})
    assert "/openai/v1/chat/completions" in error(beside)["message"]
    assert (await client.get("/v1/nowhere")).json()["detail"] == "See /v1/openapi.json for what there is."


async def test_half_a_character_is_refused_in_words(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    body = b'{"model": "main", "messages": [{"role": "user", "content": "a\\ud83d b"}]}'
    refused = await client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 400
    assert error(refused)["message"].startswith("A text has half of a character")
    cut_off = await client.post(CHAT, content=body[:-9], headers={"Content-Type": "application/json"})
    assert "truncated" in error(cut_off)["message"]
    assert await gateway.sessions() == []


async def test_an_unknown_agent_is_a_model_not_found_with_the_list(client: httpx2.AsyncClient) -> None:
    for answer in (
        await client.post(CHAT, json={"model": "gpt-9", "messages": [user("hi")]}),
        await client.get("/openai/v1/models/gpt-9"),
    ):
        assert (answer.status_code, error(answer)["code"]) == (404, "model_not_found")
        assert "main, codex" in error(answer)["message"]
