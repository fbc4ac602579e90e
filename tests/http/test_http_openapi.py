"""The OpenAPI document says what is there, and what is there answers as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from memory_gateway import MemoryGateway

from semel.faces.http.app import make_app, operations
from semel.faces.http.openapi import document, error_codes, plain_path
from semel.faces.http.problems import CODES
from semel.faces.http.settings import Settings
from semel.faces.http.table import Operation

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
TABLE = operations()

BODIES: dict[str, Any] = {
    "say": {"text": "hello"},
    "report": {"kind": "note", "text": "it happened"},
    "answer": {"item": 2, "option": "y"},
    "setMode": {"mode": "plan"},
    "setModel": {"model": "small"},
    "login": {"token": "t"},
    "setBusy": {"mode": None},
    "changeSession": {"title": "x"},
    "addAccount": {"account": "matrix:@bob:example.org"},
    "pair": {"channel": "matrix"},
    "addSchedule": {"name": "nightly", "text": "count", "cron": "@daily"},
}

QUERIES = {"search": "?q=hi"}
RAW: dict[str, Any] = {"importSession": {"content": b"", "headers": {"Content-Type": "application/jsonl"}}}


@pytest.fixture
def settings() -> Settings:
    return Settings(token="t")


@pytest.fixture
def furnished(gateway: MemoryGateway, tmp_path: Path) -> MemoryGateway:
    """A gateway in which every operation of the table finds what it is about."""
    script = gateway.script("s")
    script.entry("user", "hi", sender="Ann", event=1)
    seq = script.entry("agent", "*hello*", turn=1, claim=1, echoes=1, files=[{"id": "b", "name": "x.txt"}])
    script.item("tool", id=50, title="ls", status="done", text="a\nb")
    gateway._numbers = iter(range(2, 99))  # type: ignore[assignment]
    script.item("permission", state="open", title="Run?", options=[{"optionId": "y", "name": "Yes"}])
    assert script.held(seq, "telegram:7", "no answer") == 3
    (tmp_path / "b").write_bytes(b"x")
    gateway.blobs["b"] = (tmp_path / "b", "x.txt", "text/plain")
    return gateway


def concrete(operation: Operation) -> str:
    blob = operation.name == "readBlob"
    values = {"item": "50", "key": "s", "id": "b" if blob else "3", "ref": "1", "channel": "ci", "name": "nightly",
              "account": "matrix:@ada:example.org"}  # fmt: skip
    return re.sub(r"{(\w+)}", lambda m: values[m[1]], plain_path(operation.path))


def test_every_route_is_documented_and_every_document_routed(gateway: MemoryGateway, settings: Settings) -> None:
    routed = {plain_path(route.path) for route in make_app(gateway, settings).routes}  # type: ignore[attr-defined]
    assert routed - set(document(TABLE)["paths"]) == {"/", "/page/{name}"}
    assert set(document(TABLE)["paths"]) <= routed


async def test_the_document_is_served_and_complete(client: httpx2.AsyncClient) -> None:
    served = (await client.get("/v1/openapi.json")).json()
    listed = {(path, method.upper()) for path, methods in served["paths"].items() for method in methods}

    assert served["openapi"].startswith("3.1")
    assert listed == {(plain_path(operation.path), operation.method) for operation in TABLE}
    names = [method["operationId"] for methods in served["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_of_the_document_leads_somewhere() -> None:
    whole = document(TABLE)
    for name in re.findall(r'"\$ref":"#/components/schemas/(\w+)"', msgspec.json.encode(whole).decode()):
        assert name in whole["components"]["schemas"]


@pytest.mark.parametrize("operation", [o for o in TABLE if o.name != "watch"], ids=lambda o: o.name)
async def test_an_operation_answers_with_a_documented_status_and_shape(
    furnished: MemoryGateway, client: httpx2.AsyncClient, operation: Operation
) -> None:
    extra = {"json": BODIES[operation.name]} if operation.name in BODIES else RAW.get(operation.name, {})
    answer = await client.request(operation.method, concrete(operation) + QUERIES.get(operation.name, ""), **extra)

    assert answer.status_code in operation.answers, answer.text
    shape = operation.answers[answer.status_code]
    if shape.type is not None and shape.media == "application/json":
        assert answer.headers["content-type"] == "application/json"
        msgspec.convert(answer.json(), shape.type)
    elif shape.type is None:
        assert answer.content == b""


@pytest.mark.parametrize("operation", [o for o in TABLE if o.method != "GET"], ids=lambda o: o.name)
async def test_an_operation_refuses_with_a_documented_problem(
    furnished: MemoryGateway, client: httpx2.AsyncClient, operation: Operation
) -> None:
    """Without a body, with a field too many, from a foreign page: always one of the codes it names."""
    path, seen = concrete(operation), []
    kind = {"Content-Type": "application/json"}
    seen.append(await client.request(operation.method, path, content=b'{"odd": 1}', headers=kind))
    seen.append(await client.request(operation.method, path, content=b"x" * 1_100_000, headers=kind))
    seen.append(await client.request(operation.method, path, json={}, headers={"Origin": "https://evil.example"}))
    problems = [a for a in seen if a.headers.get("content-type") == "application/problem+json"]

    assert len(problems) >= 2
    assert {a.json()["type"].rpartition(":")[2] for a in problems} <= set(error_codes(operation))


def test_every_operation_and_every_problem_is_in_the_api_reference() -> None:
    text = DOCS.read_text()
    for operation in TABLE:
        assert f"`{operation.method} {plain_path(operation.path)}`" in text, operation
        for param in (*operation.query, *operation.headers):
            assert f"`{param.name}`" in text, (operation, param.name)
    for code in CODES:
        assert f"`{code}`" in text, code
