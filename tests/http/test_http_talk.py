"""Speaking into a session over HTTP: accepted once, and every refusal says what to do."""

from __future__ import annotations

import base64
from urllib.parse import quote

import httpx2
import pytest
from gateway_house import GatewayHouse

from semel.faces.http.operations.messages import check_accepted
from semel.faces.http.problems import Problem
from semel.gateway import Gateway

SESSION = "/v1/sessions/main:web:1"


async def test_a_message_is_accepted_after_it_is_heard(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    answer = await client.post(f"{SESSION}/messages", json={"text": "hello", "sender": "Ann", "id": "a1"})

    assert answer.status_code == 202
    assert answer.json() == {"event": 1, "status": "accepted"}
    entries, _ = await gateway.entries("main:web:1")
    assert [(e["role"], e["text"], e["sender"]) for e in entries] == [("user", "hello", "Ann")]


async def test_a_message_repeated_with_its_id_is_a_duplicate(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    first = await client.post(f"{SESSION}/messages", json={"text": "hello", "id": "a1"})
    again = await client.post(f"{SESSION}/messages", json={"text": "hello"}, headers={"Idempotency-Key": '"a1"'})

    assert again.status_code == 202
    assert again.json() == {"event": first.json()["event"], "status": "duplicate"}
    assert len((await gateway.entries("main:web:1"))[0]) == 1


async def test_a_key_of_another_session_is_a_conflict_that_names_that_session(gateway: Gateway) -> None:
    for session in ("main:web:1", "main:web:2"):
        heard = await gateway.report(session, "ci.done", "green", key="k", source="node:ci")
    with pytest.raises(Problem, match=r"The first content, for another session \(main:web:1\), stays"):
        check_accepted(heard)
    heard = await gateway.report("main:web:1", "ci.done", "red", key="k", source="node:ci")
    with pytest.raises(Problem, match=r"The first content stays"):
        check_accepted(heard)


async def test_other_content_under_a_used_id_is_a_conflict_that_shows_both_digests(
    client: httpx2.AsyncClient,
) -> None:
    await client.post(f"{SESSION}/messages", json={"text": "hello", "id": "a1"})
    answer = await client.post(f"{SESSION}/messages", json={"text": "goodbye", "id": "a1"})

    problem = answer.json()
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == "urn:semel:problem:conflict"
    assert problem["event"] == 1
    assert len({problem["kept"], problem["given"]}) == 2 and all((problem["kept"], problem["given"]))


async def test_an_id_and_a_header_that_differ_are_refused(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    answer = await client.post(
        f"{SESSION}/messages", json={"text": "hello", "id": "a1"}, headers={"Idempotency-Key": "a2"}
    )

    assert (answer.status_code, answer.json()["type"]) == (400, "urn:semel:problem:two-keys")
    assert await gateway.sessions() == []


@pytest.mark.parametrize("body", [{"text": "hello"}, {"text": "hello", "kind": "ci.failed"}])
async def test_the_idempotency_key_may_be_called_id_or_key(client: httpx2.AsyncClient, body: dict[str, str]) -> None:
    path = f"{SESSION}/{'events' if 'kind' in body else 'messages'}"
    answers = [await client.post(path, json={**body, name: "a1"}) for name in ("id", "key")]
    assert [answer.json()["status"] for answer in answers] == ["accepted", "duplicate"]
    refused = await client.post(path, json={**body, "id": "a1", "key": "a2"})
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:semel:problem:two-keys")


async def test_an_id_and_a_header_that_agree_are_one_key(client: httpx2.AsyncClient) -> None:
    answer = await client.post(
        f"{SESSION}/messages", json={"text": "hello", "id": "a1"}, headers={"Idempotency-Key": "a1"}
    )
    assert answer.status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_without_a_sensible_length_is_refused(client: httpx2.AsyncClient, key: str) -> None:
    answer = await client.post(f"{SESSION}/messages", json={"text": "hello", "id": key})
    assert (answer.status_code, answer.json()["field"]) == (400, "id")


async def test_an_event_is_reported_with_its_kind(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    body = {"kind": "ci.failed", "text": "build 7 failed", "key": "7", "data": {"n": 7}, "wakes": True}
    answers = [await client.post(f"{SESSION}/events", json=body) for _ in range(2)]

    assert [a.json()["status"] for a in answers] == ["accepted", "duplicate"]
    entries, _ = await gateway.entries("main:web:1")
    assert [(e["role"], e["kind"]) for e in entries] == [("event", "ci.failed")]


@pytest.mark.parametrize(
    "key", ["main:telegram:-1003774691294:topic-1", "a!b@c~d=e+f", "main:matrix:!room:example.org", "x" * 200]
)
async def test_every_session_key_works_percent_encoded(client: httpx2.AsyncClient, gateway: Gateway, key: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in key.encode())
    for path in (encoded, quote(key, safe=""), quote(key, safe=":@!+=~")):
        assert (await client.post(f"/v1/sessions/{path}/messages", json={"text": "hi"})).status_code == 202
    assert [row["key"] for row in await gateway.sessions()] == [key]


@pytest.mark.parametrize("key", ["a b", "ä", "x" * 201, "a%00b"])
async def test_what_is_no_session_key_is_refused_by_name(client: httpx2.AsyncClient, key: str) -> None:
    answer = await client.post(f"/v1/sessions/{key}/messages", json={"text": "hi"})
    assert (answer.status_code, answer.json()["field"]) == (400, "key")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"{", "bad-json", None),
        (b"", "bad-json", None),
        (b'{"text": "a\xff"}', "bad-json", None),
        (b'{"text": "\\ud800"}', "bad-json", None),
        (b"[" * 5000, "bad-field", None),
        (b"[]", "bad-field", None),
        (b'{"sender": "x"}', "bad-field", "text"),
        (b'{"text": 1}', "bad-field", "text"),
        (b'{"text": "hi", "sendr": "x"}', "bad-field", "sendr"),
        (b'{"text": "hi", "id": 5}', "bad-field", "id"),
    ],
)
async def test_a_bad_body_is_told_what_is_wrong_with_it(
    client: httpx2.AsyncClient, gateway: Gateway, body: bytes, code: str, field: str | None
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await client.post(f"{SESSION}/messages", content=body, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["type"] == f"urn:semel:problem:{code}"
    assert answer.json().get("field") == field
    assert answer.json()["detail"]
    assert await gateway.sessions() == []


async def test_a_word_that_is_not_one_of_a_few_is_answered_with_those(client: httpx2.AsyncClient) -> None:
    answer = await client.post(f"{SESSION}/messages", json={"text": "hi", "busy": "que"})
    assert (answer.status_code, answer.json()["field"]) == (400, "busy")
    assert "It is one of: queue, steer, interrupt, collect." in answer.json()["detail"]


async def test_what_the_gateway_finds_wrong_is_told_as_it_says_it(client: httpx2.AsyncClient) -> None:
    answer = await client.post(f"{SESSION}/messages", json={"text": "  "})
    assert (answer.status_code, answer.json()["detail"]) == (400, "text: a message needs a text that is not blank")
    assert (answer.json()["type"], answer.json()["field"]) == ("urn:semel:problem:bad-field", "text")
    answer = await client.post(
        f"{SESSION}/messages", json={"blocks": [{"type": "image", "data": "?", "mimeType": "a/b"}]}
    )
    assert (answer.json()["type"], answer.json()["field"]) == ("urn:semel:problem:bad-field", "blocks[0].data")
    answer = await client.post("/v1/schedules", json={"name": "tick", "text": "x", "cron": "* * * * *", "every": "5m"})
    assert (answer.json()["type"], "field" in answer.json()) == ("urn:semel:problem:bad-field", False), "of two fields"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""])
async def test_a_body_that_a_form_could_send_is_refused(client: httpx2.AsyncClient, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = await client.post(f"{SESSION}/messages", content=b'{"text":"hi"}', headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:semel:problem:not-json")


async def test_a_body_that_is_too_large_is_refused_whether_announced_or_not(
    client: httpx2.AsyncClient, gateway: Gateway
) -> None:
    big = b'{"text": "' + b"x" * 1024 * 1024 + b'"}'

    async def drip() -> object:
        for start in range(0, len(big), 65536):
            yield big[start : start + 65536]

    headers = {"Content-Type": "application/json"}
    for content in (big, drip()):
        answer = await client.post(f"{SESSION}/events", content=content, headers=headers)
        assert (answer.status_code, answer.json()["limit"]) == (413, 1024 * 1024)
    assert await gateway.sessions() == []


async def test_a_message_may_hold_an_image_of_megabytes(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    data = base64.b64encode(b"\x89PNG" * 700_000).decode()
    blocks = [{"type": "text", "text": "Look:"}, {"type": "image", "data": data, "mimeType": "image/png"}]
    answer = await client.post(f"{SESSION}/messages", json={"blocks": blocks, "id": "a1"})
    assert (answer.status_code, answer.json()) == (202, {"event": 1, "status": "accepted"})
    (entry,) = (await gateway.entries("main:web:1"))[0]
    assert (entry["text"], [file["size"] for file in entry["files"]]) == ("Look:", [2_800_000])


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "A message needs `text`, `files` or `blocks`."),
        ({"blocks": [{"type": "image"}]}, "blocks[0]: Object missing required field `data`"),
        ({"blocks": ["x"]}, "Expected `object`, got `str`"),
        ({"blocks": [{"type": "text", "text": "x"}], "text": "y"}, "either `text` or `blocks`"),
    ],
)
async def test_a_message_without_usable_content_is_refused(
    client: httpx2.AsyncClient, gateway: Gateway, body: dict[str, object], detail: str
) -> None:
    answer = await client.post(f"{SESSION}/messages", json=body)
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]
    assert await gateway.sessions() == []


async def test_a_gateway_that_cannot_take_more_says_when_to_come_back(
    client: httpx2.AsyncClient, gateway: Gateway
) -> None:
    gateway.stopping = True
    answer = await client.post(f"{SESSION}/messages", json={"text": "hi"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["detail"] == "the gateway is stopping; nothing was accepted, try again after the start"


async def test_a_fault_of_ours_is_told_without_its_internals(
    client: httpx2.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(**_: object) -> None:
        raise RuntimeError("secret path /etc/secret")

    monkeypatch.setattr(gateway.inbox, "hear", fail)
    answer = await client.post(f"{SESSION}/messages", json={"text": "hi"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in answer.text


async def test_a_wrong_option_is_told_the_right_ones_and_why_tells_who_answered(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    agent = await world.begin("main:web:1")
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    agent.ask("Run it?", options)
    item = await world.open_request("main:web:1")
    wrong = await client.post(f"{SESSION}/answers", json={"item": item, "option": "yes"})
    assert wrong.status_code == 400
    assert f"'yes' is not one of the options of request {item}: y, n" in wrong.text
    missing = await client.post(f"{SESSION}/answers", json={"item": item, "by": "Ann"})  # null would cancel it
    assert (missing.status_code, missing.json()["field"]) == (400, "option")
    assert "`option` is the `optionId` of one of the request's options" in missing.json()["detail"]

    async def read_story() -> list[str]:
        lines = (await client.get("/v1/why/e1")).json()["lines"]
        return [line["text"].partition("; ")[2] for line in lines if "asked for a permission" in line["text"]]

    assert await read_story() == ["not answered yet: Run it?"]
    await client.post(f"{SESSION}/answers", json={"item": item, "option": "y", "by": "Ann"})
    assert await read_story() == ["Yes, by Ann: Run it?"]


async def test_the_name_of_who_answers_or_stops_is_one_line(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    """It is shown in titles and sentences, such as those of an editor."""
    agent = await world.begin("main:web:1")
    agent.ask("Run it?", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    item = await world.open_request("main:web:1")
    await client.post(f"{SESSION}/answers", json={"item": item, "option": "y", "by": "Ann\n# of Rome"})
    history = (await client.get(f"{SESSION}/history")).json()
    assert [row["by"] for row in history["items"] if row["id"] == item] == ["Ann # of Rome"]
    await client.post(f"{SESSION}/stop", json={"by": "Ben\n# of Rome"})
    history = (await client.get(f"{SESSION}/history")).json()
    assert "Ben # of Rome" in str([row["text"] for row in history["entries"] if row["role"] == "notice"])


async def test_stop_answers_mode_and_model_reach_the_gateway(client: httpx2.AsyncClient, world: GatewayHouse) -> None:
    agent = await world.begin("main:web:1")
    agent.ask("Run it?", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    item = await world.open_request("main:web:1")

    outcomes = [
        (await client.post(f"{SESSION}/answers", json={"item": item, "option": "y"})).json()["outcome"]
        for _ in range(2)
    ]
    assert outcomes == ["answered", "answered"]  # the same answer of the same person, as after a lost response
    other = await client.post(f"{SESSION}/answers", json={"item": item, "option": "y", "by": "Ben"})
    assert other.json() == {"outcome": "already"}
    assert agent.answers == {"1": "y"}

    assert (await client.put(f"{SESSION}/mode", json={"mode": "plan"})).status_code == 204
    assert (await client.put(f"{SESSION}/model", json={"model": "small"})).status_code == 204
    row = (await client.get("/v1/sessions")).json()["sessions"][0]
    assert (row["mode"], row["model"]) == ("plan", "small")

    turn = (await client.get(SESSION)).json()["turn"]
    assert (await client.post(f"{SESSION}/stop")).json() == {"stopped": True, "withdrawn": False}
    await world.idle("main:web:1")
    assert (await client.post(f"{SESSION}/stop", json={"by": "Ann"})).json()["stopped"] is False
    await world.begin("main:web:1")
    repeated = await client.post(f"{SESSION}/stop", json={"turn": turn})
    assert repeated.json()["stopped"] is False, "another turn runs by now"
    for wrong in (turn + 100, 0, 1 << 63):
        refused = await client.post(f"{SESSION}/stop", json={"turn": wrong})
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:semel:problem:bad-field"), refused.text
    running = (await client.get(SESSION)).json()["turn"]
    restored = await client.post(f"{SESSION}/stop", json={"turn": running, "seen": 7 << 32})
    assert restored.json()["stopped"] is False, "it was seen in another life of the ledger"
    now = {"turn": running, "seen": row["rev"]}
    assert (await client.post(f"{SESSION}/stop", json={"by": "Ann", **now})).json()["stopped"] is True
    await world.idle("main:web:1")
    notices = [entry["text"] for entry in await world.entries("main:web:1") if entry["role"] == "notice"]
    assert ["owner" in notices[0], "Ann" in notices[1]] == [True, True]


async def test_a_message_that_has_to_wait_is_told_how_and_in_which_place(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    await world.begin("main:web:1")
    said = [
        (await client.post(f"{SESSION}/messages", json={"text": "a", **more})).json()
        for more in ({}, {"busy": "collect"}, {"busy": "steer"}, {"automatic": True})
    ]
    automatic = said.pop()
    assert set(automatic) == {"event", "status"}, "a program's message asks for no turn"
    assert [(one["waiting"], one["place"]) for one in said] == [("queue", 1), ("collect", 2), ("queue", 3)]
    assert ["why" in one for one in said] == [False, False, True]
    entries = (await client.get(f"{SESSION}/entries")).json()["entries"][1:]
    assert [entry.get("waiting") for entry in entries] == ["queue", "collect", "queue", None]
    assert [entry.get("automatic", False) for entry in entries] == [False, False, False, True]


async def test_a_message_that_does_not_wait_is_told_nothing_of_it(client: httpx2.AsyncClient) -> None:
    answer = await client.post(f"{SESSION}/messages", json={"text": "a", "busy": "queue"})
    assert set(answer.json()) == {"event", "status"}


async def test_the_busy_mode_of_a_session_is_set_and_taken_back(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    await world.script("main:web:1")
    modes = []
    for mode in ("steer", None):
        assert (await client.put(f"{SESSION}/busy", json={"mode": mode})).status_code == 204
        modes.append((await client.get("/v1/sessions")).json()["sessions"][0].get("busy"))
    assert modes == ["steer", None]


@pytest.mark.parametrize(("method", "rest"), [("POST", "messages"), ("PUT", "busy")])
async def test_a_mode_that_there_is_not_is_refused_by_name(
    client: httpx2.AsyncClient, world: GatewayHouse, method: str, rest: str
) -> None:
    await world.script("main:web:1")
    body = {"text": "a", "busy": "stear"} if rest == "messages" else {"mode": "stear"}
    answer = await client.request(method, f"{SESSION}/{rest}", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "busy" if rest == "messages" else "mode")
    assert "stear" in answer.json()["detail"]


@pytest.mark.parametrize("rest", ["stop", "answers", "mode", "model", "busy"])
async def test_an_unknown_session_cannot_be_acted_on(client: httpx2.AsyncClient, rest: str) -> None:
    bodies = {"stop": {}, "answers": {"item": 1, "option": "y"}, "mode": {"mode": "x"}, "model": {"model": "x"}}
    bodies["busy"] = {"mode": None}
    method = "PUT" if rest in ("mode", "model", "busy") else "POST"
    answer = await client.request(method, f"/v1/sessions/none/{rest}", json=bodies[rest])
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:semel:problem:no-such-session")
    assert "none" in answer.json()["detail"]


async def test_a_list_of_sessions_says_that_there_are_more(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    for n in range(5):
        await gateway.say(f"s{n}", "hi")
    first = (await client.get("/v1/sessions?limit=3")).json()
    assert ([s["key"] for s in first["sessions"]], first["more"]) == (["s4", "s3", "s2"], True)
    rest = (await client.get("/v1/sessions?limit=3&before=s2")).json()
    assert [s["key"] for s in rest["sessions"]] == ["s1", "s0"]
    assert (first["next"], rest["more"], rest["next"]) == ("s2", False, None)
    assert (await client.get("/v1/sessions?limit=2000")).status_code == 400
    assert (await client.get("/v1/sessions?before=nobody")).status_code == 404
