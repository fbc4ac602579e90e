"""What a watcher is sent has the declared types, with no field beyond them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_house import MODES, GatewayHouse
from live_house import OPTIONS

from semel.acp_stream.view import fold
from semel.faces import api_types, frame_types
from semel.faces.fold import _read_lines
from semel.faces.http.openapi import make_document
from semel.faces.http.operations import operations
from semel.faces.http.status_types import AgentProcess, AgentUsage
from semel.gateway.turns.stream_view import _ITEM_KINDS, _make_body

Json = dict[str, Any]
TRACES = sorted((Path(__file__).parents[1] / "data" / "traces").rglob("*.jsonl*"))


def check(value: Json, type_: Any) -> None:
    """Fail if the value has another type, or a field that the type does not declare."""
    converted = msgspec.to_builtins(msgspec.convert(value, type_))
    assert not (extra := undeclared(value, converted)), f"{type_} lacks {extra}"


def undeclared(value: Any, converted: Any, path: str = "") -> list[str]:
    if isinstance(value, dict) and isinstance(converted, dict):
        lost = [f"{path}.{name}" for name in value.keys() - converted.keys() if value[name] not in DEFAULTS]
        return lost + [p for name in value if name in converted for p in undeclared(value[name], converted[name], name)]
    if isinstance(value, list):
        return [p for pair in zip(value, converted, strict=True) for p in undeclared(*pair, path)]
    return []


DEFAULTS = (None, False, 0, "", [], 1)
"""What an omitted field may stand for."""


def check_frame(frame: Json) -> None:
    check({**frame, "changes": []} if frame["type"] == "change" else frame, frame_types.Frame)
    for change in frame.get("changes", ()):
        if change["op"] == "item":
            check({name: value for name, value in change.items() if name != "op"}, api_types.Item)
        else:
            check(change, frame_types.Change)


async def test_every_frame_of_a_lively_session_has_the_declared_type(world: GatewayHouse) -> None:
    conversation = await world.begin("s")
    watch = world.gateway.watch("s")
    frames = [await anext(aiter(watch))]
    conversation.update("plan", entries=[{"content": "look", "priority": "high", "status": "pending"}])
    conversation.update("agent_thought_chunk", content={"type": "text", "text": "Hm."})
    conversation.update("usage_update", used=10, size=100, cost={"amount": 0.1, "currency": "EUR"})
    conversation.update("current_mode_update", currentModeId="code")
    conversation.update("available_commands_update", availableCommands=[{"name": "init", "description": "Begin"}])
    conversation.update("tool_call", toolCallId="t1", title="ls", status="pending", rawInput={"a": [1]})
    conversation.update("tool_call_update", toolCallId="t1", status="completed", rawOutput={"exit_code": 0})
    conversation.say("Done ")
    conversation.ask("Run?", OPTIONS)
    item = await world.open_request("s")
    await world.gateway.controls.answer("s", item, "y", "Ann")
    script = await world.script("s")
    await script.about(modes=MODES)
    await script.item(
        "ask", "Which?", live=True, state="open", options=[{"optionId": "a", "name": "a", "kind": "answer"}]
    )
    tool = await script.item("tool", "", live=True, title="make", status="running", gap=5, tail="end", lost=True)
    await script.output(tool, "more")
    conversation.say("and done.")
    conversation.end()
    await world.idle("s")
    await script.entry("agent", "the end", files=[{"id": "b", "name": "x", "mime": "text/plain", "size": 1}])

    async for frame in watch:
        frames.append(frame)
        if '"the end"' in msgspec.json.encode(frame).decode():
            break
    snapshot = await anext(aiter(world.gateway.watch("s")))
    (process,) = (await world.gateway.overview())["agents"]
    assert msgspec.convert(process, AgentProcess).usage == AgentUsage(10, 100, 10.0, {"amount": 0.1, "currency": "EUR"})
    assert {"snapshot", "change"} == {frame["type"] for frame in (*frames, snapshot)}
    kinds = {item["kind"] for item in snapshot["items"]}
    assert kinds == {"plan", "thought", "usage", "tool", "permission", "ask"}
    played = {item["kind"]: item for item in snapshot["items"] if item.get("turn")}
    assert all(item["at"] > 0 for item in played.values())
    assert {kind for kind, item in played.items() if item.get("ended_at", 0) >= item["at"]} >= {"tool", "thought"}
    for frame in (*frames, snapshot):
        check_frame(frame)


def test_every_item_of_every_recorded_agent_has_the_declared_type() -> None:
    for path in TRACES:
        for item in fold(line for _, line in _read_lines(path)):
            if item.kind not in _ITEM_KINDS:
                continue
            fields = {name: value for name, value in item.fields.items() if name not in ("call", "output")}
            body = _make_body(item.kind, fields)
            row = {"id": 1, "born": 1, "rev": 1, "text": "", "kind": item.kind, **body}
            check({name: value for name, value in row.items() if value is not None}, api_types.Item)


@pytest.mark.parametrize("name", frame_types.NAMED_UNIONS)
def test_a_union_has_one_schema_that_the_others_refer_to(name: str) -> None:
    document = make_document(operations())
    schemas = document["components"]["schemas"]
    assert {tuple(option) for option in schemas[name]["anyOf"]} == {("$ref",)}
    inlined = [place for place, schema in schemas.items() if place != name and schemas[name] in values(schema)]
    assert inlined == []


def values(schema: Any) -> list[Any]:
    """The schema and all that is in it."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return [schema, *(value for part in parts for value in values(part))]


def test_a_description_has_no_indentation() -> None:
    schemas = make_document(operations())["components"]["schemas"]
    indented = [name for name, schema in schemas.items() if "\n " in schema.get("description", "")]
    assert indented == []
