"""Reading over HTTP: transcripts, parts, files, numbers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from gateway_house import GatewayHouse

from semel.faces.http.operations.diagnostics import render_metrics
from semel.gateway import Gateway
from semel.gateway.api import reads
from semel.ledger.storage.location import LedgerLocation

SESSION = "/v1/sessions/main:web:1"


async def test_entries_after_a_rev_are_those_that_changed(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    script = await world.script("main:web:1")
    await script.entry("user", "hi")
    seq = await script.entry("agent", "hel", live=True)
    first = (await client.get(f"{SESSION}/entries")).json()
    await script.finish(seq, text="hello")
    again = (await client.get(f"{SESSION}/entries?after={first['rev']}")).json()

    assert [e["text"] for e in first["entries"]] == ["hi", "hel"]
    assert [(e["seq"], e["text"]) for e in again["entries"]] == [(seq, "hello")]
    assert again["rev"] > first["rev"]


async def test_html_is_added_to_final_agent_entries_only(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    script = await world.script("main:web:1")
    await script.entry("user", "*mine*")
    await script.entry("agent", "*done*")
    await script.entry("agent", "*not yet*", live=True)

    entries = (await client.get(f"{SESSION}/entries?html=1")).json()["entries"]
    assert [e.get("html") for e in entries] == [None, "<p><em>done</em></p>\n", None]
    assert all("html" not in e for e in (await client.get(f"{SESSION}/entries")).json()["entries"])
    history = (await client.get(f"{SESSION}/history?html=1")).json()
    assert [e.get("html") for e in history["entries"]] == [None, "<p><em>done</em></p>\n", None]


async def test_the_whole_output_of_a_tool_is_plain_text(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    script = await world.script("main:web:1")
    tool = await script.item("tool", title="x", status="done", text="<b>head", gap=3, tail="tail")
    await script.add_output(tool, "<b>headxxxtail")
    answer = await client.get(f"{SESSION}/outputs/{tool}")
    assert (answer.text, answer.headers["content-type"]) == ("<b>headxxxtail", "text/plain; charset=utf-8")
    assert (await client.get(f"{SESSION}/outputs/{tool + 1}")).status_code == 404


async def test_a_large_transcript_is_rendered_whole(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    script = await world.script("main:web:1")
    for number in range(40):
        await script.entry("agent", f"**{number}** " + "word " * 200)
    entries = (await client.get(f"{SESSION}/entries?html=1")).json()["entries"]
    assert [e["html"][:20] for e in entries] == [f"<p><strong>{n}</strong>"[:20] for n in range(40)]


async def test_history_is_read_backwards_page_by_page(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    script = await world.script("main:web:1")
    for number in range(5):
        await script.entry("user", str(number))
    newest = (await client.get(f"{SESSION}/history?limit=2")).json()
    older = (await client.get(f"{SESSION}/history?limit=10&before={newest['before']}")).json()

    assert [e["text"] for e in newest["entries"]] == ["3", "4"] and newest["more"]
    assert [e["text"] for e in older["entries"]] == ["0", "1", "2"] and not older["more"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=-1", "after"),
        ("after=x", "after"),
        ("limit=99999", "limit"),
        ("limit=0", "limit"),
        ("html=yes", "html"),
        ("afer=1", "afer"),
    ],
)
async def test_a_bad_query_names_its_parameter(
    client: httpx2.AsyncClient, world: GatewayHouse, query: str, field: str
) -> None:
    await world.script("main:web:1")
    answer = await client.get(f"{SESSION}/entries?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_an_unknown_session_is_not_found(client: httpx2.AsyncClient) -> None:
    for rest in ("entries", "history", "stream"):
        answer = await client.get(f"/v1/sessions/none/{rest}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:semel:problem:no-such-session")


async def test_a_held_part_is_decided_once(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    (part,) = await world.hold("hi")

    assert [p["id"] for p in (await client.get("/v1/parts?state=held")).json()["parts"]] == [part]
    assert (await client.get("/v1/parts?state=sent")).json() == {"parts": [], "more": False, "next": None}
    assert (await client.get(f"/v1/parts/{part}")).json()["text"] == "hi"
    assert (await client.post(f"/v1/parts/{part}/arrived", json={"by": "Ann"})).json()["state"] == "sent"
    assert "Ann said that it arrived" in (await client.get(f"/v1/why/p{part}")).text
    late = await client.post(f"/v1/parts/{part}/resend")
    assert (late.status_code, late.json()["type"]) == (409, "urn:semel:problem:wrong-state")


async def test_a_part_that_is_not_there_is_not_found(client: httpx2.AsyncClient) -> None:
    for path in ("/v1/parts/9", "/v1/parts/99999999999999999999", "/v1/parts/x"):
        assert (await client.get(path)).status_code == 404
    answer = await client.get("/v1/parts?state=lost")
    assert (answer.status_code, answer.json()["field"]) == (400, "state")


async def test_why_takes_any_reference(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    await gateway.say("s", "hi", key="a/b:example.org")
    for ref in ("e1", "s#1", "a/b:example.org"):
        answer = await client.get("/v1/why/" + ref.replace("/", "%2F").replace("#", "%23"))
        assert answer.json()["ref"] in ("e1", ref), answer.text
    nothing = await client.get("/v1/why/$abc%2Fdef:example.org")
    assert (nothing.status_code, "$abc/def:example.org" in nothing.json()["detail"]) == (404, True)


async def test_doctor_and_status_are_passed_on(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/v1/doctor")).json()["ok"] is True
    assert (await client.get("/v1/status")).json()["configured"] == ["main", "codex"]


async def test_metrics_are_prometheus_text(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE semel_uptime_seconds gauge\nsemel_uptime_seconds " in answer.text
    values = {'semel_refused_total{channel="a",reason="stranger"}': 3.0, "semel_uptime_seconds": 1.5}
    assert render_metrics(values).splitlines() == [
        "# HELP semel_refused_total Refused input, by reason; it leaves no row",
        "# TYPE semel_refused_total counter",
        'semel_refused_total{channel="a",reason="stranger"} 3',
        "# HELP semel_uptime_seconds Seconds since the start",
        "# TYPE semel_uptime_seconds gauge",
        "semel_uptime_seconds 1.5",
    ]


async def test_health_follows_the_ledger(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    assert (await client.get("/healthz")).json() == {"ok": True}
    await asyncio.to_thread(gateway.store.close)
    for path in ("/healthz", "/readyz"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:semel:problem:unavailable")
    assert answer.json()["detail"] == "The ledger is closed: the gateway is stopping."


async def test_an_image_is_shown_and_everything_else_is_saved(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    content = b"<script>alert(1)</script>"
    named = (
        ("cat.png", "image/png"),
        ("cat.svg", "image/svg+xml"),
        ('a"b\r\nc/ü.html', "text/html"),
        ("x", "text/plain"),
    )
    added = [await world.add_file(content + bytes(n), *names) for n, names in enumerate(named)]
    image_id, drawing_id, page_id, lost_id = (file["id"] for file in added)
    await asyncio.to_thread(world.gateway.file_store.content.remove, [lost_id])
    image = await client.get(f"/v1/blobs/{image_id}")
    assert image.headers["content-disposition"] == 'inline; filename="cat.png"'
    assert image.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in image.headers["content-security-policy"]
    assert (await client.get(f"/v1/blobs/{drawing_id}")).headers["content-disposition"].startswith("attachment")
    page = await client.get(f"/v1/blobs/{page_id}")
    assert page.headers["content-disposition"] == "attachment; filename*=utf-8''a_b__c_%C3%BC.html"
    assert page.content == content + bytes(2)
    for name in (lost_id, "none"):
        assert (await client.get(f"/v1/blobs/{name}")).status_code == 404


async def test_a_webhook_is_handed_over_raw(client: httpx2.AsyncClient) -> None:
    headers = {"webhook-signature": "v1,abc", "content-type": "text/x-anything", "host": "hooks.example.org"}
    answer = await client.post("/v1/hooks/ci", content=b"\xff{raw", headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"signed": "v1,abc", "bytes": 5})
    nowhere = await client.post("/v1/hooks/none", content=b"{}")
    assert (nowhere.status_code, nowhere.headers["content-type"]) == (404, "application/problem+json")
    assert nowhere.json()["detail"] == "no webhook channel is named 'none'"
    big = await client.post("/v1/hooks/ci", content=b"x" * (4 * 1024 * 1024 + 1))
    assert big.status_code == 413


async def test_the_address_of_a_webhook_is_confirmed_to_who_knows_the_channels_token(
    client: httpx2.AsyncClient,
) -> None:
    asked = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": "right"}
    answer = await client.get("/v1/hooks/ci", params=asked, headers={"host": "hooks.example.org"})
    assert (answer.status_code, answer.text) == (200, "1158201444")
    assert answer.headers["content-type"].startswith("text/plain")
    for change in ({"hub.verify_token": "wrong"}, {"hub.mode": "unsubscribe"}):
        refused = await client.get("/v1/hooks/ci", params=asked | change)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:semel:problem:channel-scope")
    assert (await client.get("/v1/hooks/none", params=asked)).status_code == 404


async def test_a_path_or_method_that_is_not_there_is_a_problem_too(client: httpx2.AsyncClient) -> None:
    nowhere = await client.get("/v1/nothing")
    assert (nowhere.status_code, nowhere.json()["type"]) == (404, "urn:semel:problem:no-such-path")
    assert (await client.get("/v1/sessions/")).status_code == 404
    for path in ("/v1/sessions/a/b/messages", "/v1/sessions/a%2Fb/entries", "/v1/sessions/a%2Fb"):
        slash = await client.get(path)
        assert (slash.status_code, "no blanks and no slashes" in slash.json()["detail"]) == (404, True)
    for path in ("/ag-ui", "/ag-ui/", "/ag-ui/main/", "/ag-ui/main/run"):
        agent = await client.post(path, json={})
        assert (agent.status_code, f"is {client.base_url}/ag-ui/AGENT" in agent.json()["detail"]) == (404, True)
    wrong = await client.delete(f"{SESSION}/messages")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["type"] == "urn:semel:problem:wrong-method"


async def test_only_a_gateway_of_a_cluster_asks_its_database_for_the_others(
    client: httpx2.AsyncClient, world: GatewayHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[LedgerLocation] = []
    monkeypatch.setattr(reads, "list_gateways", lambda ledger: asked.append(ledger) or [])
    assert (await client.get("/v1/status")).json()["gateways"] == [] and not asked
    monkeypatch.setattr(type(world.gateway), "cluster_name", "alpha")
    assert (await client.get("/v1/status")).json()["gateways"] == [] and len(asked) == 1


async def test_the_commands_of_gateway_and_agent_are_listed_with_what_to_write(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    offered = [
        {"name": "compact", "description": "Shorten the past", "input": {"hint": "what to keep"}},
        {"name": "model", "description": "Its own menu"},
    ]
    await (await world.script("s")).about(commands=offered)
    own = (await client.get("/v1/commands")).json()["commands"]
    assert {command["by"] for command in own} == {"gateway"} and len(own) == 12
    assert own[1] == {
        "name": "stop", "by": "gateway", "text": "/stop", "usage": "/stop", "takes": "nothing",
        "description": "Stop the running turn. What waits is taken next.",
    }  # fmt: skip
    of_session = (await client.get("/v1/commands", params={"session": "s"})).json()["commands"]
    assert of_session[:12] == own
    assert [(one["by"], one["text"], one["usage"], one["takes"]) for one in of_session[12:]] == [
        ("agent", "/compact", "/compact what to keep", "text"), ("agent", "//model", "//model", "nothing"),
    ]  # fmt: skip
    assert (await client.get("/v1/commands", params={"session": "none"})).status_code == 404


async def test_files_of_a_workspace_are_found_by_a_part_of_their_path(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    await world.script("s")
    workspace = Path(world.gateway.settings.agents["main"].cwd)
    (workspace / "clock.py").touch()
    found = (await client.get("/v1/sessions/s/workspace-files", params={"part": "CLO"})).json()
    assert found == {"files": ["clock.py"]}
    assert (await client.get("/v1/sessions/none/workspace-files")).status_code == 404
