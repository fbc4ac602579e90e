"""The OpenAPI document says what is there, and what is there answers as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import httpx2
import msgspec
import pytest
from gateway_house import GatewayHouse

from semel.agents.known import find_agents_on_path
from semel.faces.http import static
from semel.faces.http.app import make_app
from semel.faces.http.openapi import list_error_codes, make_document, plain_path
from semel.faces.http.operations import agent_tools, operations
from semel.faces.http.problems import CODES
from semel.faces.http.routing import Operation
from semel.faces.http.settings import Settings
from semel.gateway import Gateway
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
TABLE = operations()

BODIES: dict[str, Any] = {
    "say": {"text": "hello"},
    "report": {"kind": "note", "text": "it happened"},
    "answer": {"option": "y"},
    "setMode": {"mode": "plan"},
    "setModel": {"model": "small"},
    "setOption": {"option": "search", "value": True},
    "findOrAddAgent": {"command": ["played"], "path": "/usr/bin"},
    "setMcpServers": {"servers": [{"name": "files", "command": "files-mcp", "args": [], "env": []}]},
    "login": {"token": "t"},
    "setBusy": {"mode": None},
    "markSeen": {"rev": 1},
    "changeSession": {"title": "x"},
    "addAccount": {"account": "chat:bob"},
    "pair": {"channel": "chat"},
    "createChatCompletion": {"model": "main", "messages": [{"role": "user", "content": "/help"}]},
    "runAgent": {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "/help"}]},
    "addSchedule": {"name": "daily", "text": "count", "cron": "@daily"},
}

QUERIES = {
    "search": "?q=hi", "importSession": "?as=copy",
    "confirmHook": "?hub.mode=subscribe&hub.challenge=12&hub.verify_token=right",
}  # fmt: skip
JSON_LINES = {"Content-Type": "application/jsonl"}


@pytest.fixture
def settings() -> Settings:
    return Settings(token="t")


@pytest.fixture
async def values(world: GatewayHouse, tmp_path: Path) -> dict[str, str]:
    """A gateway in which every operation finds what it is about; the values for paths."""
    gateway = world.gateway
    (tmp_path / "codex-acp").touch(0o700)
    gateway.list_installed_agents = lambda: [dict(agent) for agent in find_agents_on_path(str(tmp_path))]
    (part,) = await world.hold("hi")
    agent = await world.begin("s", "hi")
    agent.update("tool_call", toolCallId="t1", title="ls", status="completed")
    agent.ask("Run?", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    BODIES["answer"]["item"] = await world.open_request("s")
    script = await world.script("s")
    file = await world.add_file(b"x", "x.txt", "text/plain")
    await script.entry("agent", "*hello*", files=[file])
    await gateway.record.write(add_job, "job-1")
    await gateway.schedules.add("nightly", "count", cron="@daily")
    await gateway.people.add("chat:ada", "ada")
    (tool,) = [item for item in (await gateway.history("s", 1 << 60))["items"] if item["kind"] == "tool"]
    return {
        "item": str(tool["id"]), "key": "s", "ref": "e1", "channel": "ci", "name": "nightly", "account": "chat:ada",
        "part": str(part), "file": file["id"], "job": "job-1", "agent": "main", "model": "main",
    }  # fmt: skip


def add_job(tx: Tx, id: str) -> None:
    session = tx.one(SessionRow, "session_by_key", key="s")
    assert session is not None
    about = {"session": session.id, "agent": "main", "turn": None}
    tx.value(int, "job_add", run=id, command="make", name="", seconds=60, at=tx.now, gateway=None, **about)


def concrete(operation: Operation, values: Mapping[str, str]) -> str:
    ids = {"/v1/parts": "part", "/v1/blobs": "file", "/v1/jobs": "job"}
    if operation.name == "compareMemory":  # of a session in which no turn runs
        return "/v1/sessions/main:chat:room/memory"
    of = next((kind for start, kind in ids.items() if operation.path.startswith(start)), "")
    return re.sub(r"{(\w+)}", lambda m: values[of if m[1] == "id" else m[1]], plain_path(operation.path))


def test_every_route_is_documented_and_every_document_routed(gateway: Gateway, settings: Settings) -> None:
    routed = {plain_path(route.path) for route in make_app(gateway, settings).routes}  # type: ignore[attr-defined]
    internal = {operation.path for operation in (*static.router.operations, *agent_tools.router.operations)}
    assert routed - set(make_document(TABLE)["paths"]) == internal
    assert set(make_document(TABLE)["paths"]) <= routed


async def test_the_document_is_served_and_complete(client: httpx2.AsyncClient) -> None:
    served = (await client.get("/v1/openapi.json")).json()
    listed = {(path, method.upper()) for path, methods in served["paths"].items() for method in methods}

    assert served["openapi"].startswith("3.1")
    assert listed == {(plain_path(operation.path), operation.method) for operation in TABLE}
    names = [method["operationId"] for methods in served["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_of_the_document_leads_somewhere() -> None:
    whole = make_document(TABLE)
    for name in re.findall(r'"\$ref":"#/components/schemas/(\w+)"', msgspec.json.encode(whole).decode()):
        assert name in whole["components"]["schemas"]


def test_every_answer_and_every_array_of_the_document_has_a_type() -> None:
    answers = [(operation.name, returns) for operation in TABLE for returns in operation.returns.values()]
    untyped = {name for name, returns in answers if dict in (returns.type, get_origin(returns.type))}
    assert untyped - {"openapi", "hook"} == set()  # OpenAPI's own shape, and what a platform expects

    def list_arrays(schema: Any) -> Iterator[Mapping[str, Any]]:
        if isinstance(schema, dict):
            if schema.get("type") == "array":
                yield schema
            schema = list(schema.values())
        for part in schema if isinstance(schema, list) else ():
            yield from list_arrays(part)

    arrays = list(list_arrays(make_document(TABLE)))
    assert [array for array in arrays if "items" not in array and "prefixItems" not in array] == []


@pytest.mark.parametrize("operation", [o for o in TABLE if o.name not in ("watch", "watchList")], ids=lambda o: o.name)
async def test_an_operation_answers_with_a_documented_status_and_shape(
    values: dict[str, str], client: httpx2.AsyncClient, operation: Operation
) -> None:
    extra = {"json": BODIES[operation.name]} if operation.name in BODIES else {}
    if operation.name == "importSession":
        document = await client.get("/v1/sessions/main:chat:room/export")
        extra = {"content": document.content, "headers": JSON_LINES}
    if operation.name == "uploadFile":
        extra = {"content": b"x", "headers": {"Content-Type": "application/octet-stream"}}
    answer = await client.request(
        operation.method, concrete(operation, values) + QUERIES.get(operation.name, ""), **extra
    )

    assert answer.status_code in operation.returns, answer.text
    shape = operation.returns[answer.status_code]
    if shape.type is not None and shape.media == "application/json":
        assert answer.headers["content-type"] == "application/json"
        msgspec.convert(answer.json(), shape.type)
    elif shape.type is None:
        assert answer.content == b""


@pytest.mark.parametrize("operation", [o for o in TABLE if o.method != "GET"], ids=lambda o: o.name)
async def test_an_operation_refuses_with_a_documented_problem(
    values: dict[str, str], client: httpx2.AsyncClient, operation: Operation
) -> None:
    """Without a body, with a field too many, from a foreign page: always one of the codes it names."""
    path, seen = concrete(operation, values), []
    kind = {"Content-Type": "application/json"}
    seen.append(await client.request(operation.method, path, content=b'{"odd": 1}', headers=kind))
    content = b"x" * (4_200_000 if operation.name == "hook" else 1_100_000)
    seen.append(await client.request(operation.method, path, content=content, headers=kind))
    seen.append(await client.request(operation.method, path, json={}, headers={"Origin": "https://evil.example"}))
    if operation.error_format is not None:
        codes = [a.json()["error"]["code"] for a in seen if a.status_code >= 400]
    else:
        problems = [a.json() for a in seen if a.headers.get("content-type") == "application/problem+json"]
        codes = [problem["type"].rpartition(":")[2] for problem in problems]

    assert len(codes) >= 2
    assert set(codes) <= set(list_error_codes(operation))


def test_every_operation_and_every_problem_is_in_the_api_reference() -> None:
    text = DOCS.read_text()
    for operation in TABLE:
        assert f"### `{operation.method} {plain_path(operation.path)}`" in text, operation
        for param in (*operation.query, *operation.headers):
            assert f"`{param.name}`" in text, (operation, param.name)
    for code in CODES:
        assert f"`{code}`" in text, code


def test_every_field_of_a_body_or_answer_is_in_the_chapter_of_its_operations() -> None:
    chapters = DOCS.read_text().split("\n## ")
    described = make_document(TABLE)
    schemas = described["components"]["schemas"]
    text_of: dict[str, str] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            (chapter,) = [chapter for chapter in chapters if f"### `{method.upper()} {path}`" in chapter]
            for name in references(operation, schemas) - {"Problem"}:
                text_of[name] = text_of.get(name, "") + chapter
    (listings,) = [chapter for chapter in chapters if chapter.startswith("Listings\n")]
    assert "`more`" in listings and "`next`" in listings
    fields = [
        (name, field)
        for name in text_of
        for field in schemas[name].get("properties", ())
        if not (field in ("more", "next") and {"more", "next"} <= schemas[name]["properties"].keys())
    ]
    assert [f for f in fields if not re.search(rf'`{f[1]}`|"{f[1]}"', text_of[f[0]])] == []


def references(schema: Any, schemas: Mapping[str, Any]) -> set[str]:
    """The names of all schemas that this one is made of."""
    names, new = set[str](), [schema]
    while new:
        text = msgspec.json.encode(new.pop()).decode()
        found = set(re.findall(r'"#/components/schemas/(\w+)"', text)) - names
        names |= found
        new += [schemas[name] for name in found]
    return names
