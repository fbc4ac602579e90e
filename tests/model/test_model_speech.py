"""A model speaks by tool and by text: each thing once, in order, also what a steered message asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from model_world import Answer, ModelServer, ModelWorld, until

from semel.gateway.ports import Incoming, Person, Safety
from semel.gateway.settings import ChannelSettings, DestinationSettings, PersonSettings
from semel.ledger.storage.rows import ClaimRow
from semel.testing import FakeChannel


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))


async def wait_until_joined(w: ModelWorld) -> None:
    async def has_joined() -> bool:
        return any(e.get("joined") for e in await w.entries())

    await until(has_joined)


PROVIDERS = ("openai-chat", "openai", "anthropic")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_closing_text_that_repeats_what_was_sent_is_shown_once(tmp_path: Path, provider: str) -> None:
    answers = [
        Answer([], calls=[("send_message", {"text": "The build is green."})]),
        Answer(["The build ", "is green."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Build") == ["The build is green."]
        [entry] = [e for e in await w.entries() if e["role"] == "agent"]
        assert entry["echoes"] == 1
        [told] = [text for role, text in api.requests[1].talk if role == "result"]
        assert told.startswith("sent (id c")


@pytest.mark.parametrize("cut", ["reset", "close", "event"])
async def test_a_stream_that_is_cut_in_what_was_sent_leaves_no_fragment(tmp_path: Path, cut: Any) -> None:
    answers = [
        Answer([], calls=[("send_message", {"text": "The build is green."})]),
        Answer(["The build ", "is g"], cut=cut),
        Answer(["The build is green."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, attempts=2) as w:
        assert await w.ask("Build") == ["The build is green."]
        assert not any("is g" in text and "is green" not in text for _, text in api.requests[2].talk)


@pytest.mark.parametrize("stop", ["length", "filter"])
async def test_a_model_that_is_stopped_in_what_was_sent_leaves_no_fragment(tmp_path: Path, stop: str) -> None:
    answers = [
        Answer([], calls=[("send_message", {"text": "The build is green."})]),
        Answer(["The build ", "is g"], stop=stop),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        assert await w.ask("Build") == ["The build is green."]


async def test_text_before_a_call_is_recorded_before_it_and_other_text_is_said(tmp_path: Path) -> None:
    answers = [Answer(["Let me see."], calls=[("send_message", {"text": "Half way."})]), Answer(["All done."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        assert await w.ask("Go") == ["Let me see.", "Half way.", "All done."]
        [item] = await w.items("tool")
        assert (item["title"], item["status"]) == ("Send a message now", "done")
        assert item["input"] == {"text": "Half way."}
        claims = await w.gateway.record.read(lambda tx: [tx.one(ClaimRow, "claim_get", id=n) for n in (1, 2, 3)])
        assert [(c.how, c.tool) for c in claims] == [("block", None), ("tool", "1.1"), ("block", None)]


async def test_a_wrong_call_of_our_own_tool_tells_what_to_change(tmp_path: Path) -> None:
    calls = [("send_message", {"message": "x"}), ("send_message", {"text": "x", "to": "nowhere"})]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        assert await w.ask("Go") == ["Ok"]
        told = [text for role, text in api.requests[1].talk if role == "result"]
        assert "has no argument 'message'" in told[0]
        assert told[1].startswith("refused:")


async def test_files_of_the_workspace_are_sent_and_questions_asked(tmp_path: Path) -> None:
    calls = [("send_file", {"path": "a.txt", "text": "Here"}), ("ask", {"question": "Which?", "options": ["x", "y"]})]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "a.txt").write_text("content")
        await w.ask("Go")
        entries = [e for e in await w.entries() if e["role"] == "agent"]
        assert [e.get("kind") for e in entries] == ["file", "ask", None]
        assert entries[0]["files"][0]["name"] == "a.txt"
        [item] = await w.items("ask")
        await w.gateway.controls.answer("s", item["id"], "y", "me")


async def test_a_steered_message_is_read_before_the_next_request_of_the_turn(tmp_path: Path) -> None:
    answers = [
        Answer([], calls=[("shell", {"command": "while [ ! -e go ]; do sleep 0.02; done; echo over"})]),
        Answer(["Both done."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "First")
        await w.item("tool", status="running")
        await w.gateway.say("s", "Second", busy="steer")
        await wait_until_joined(w)
        (w.work / "go").touch()
        await w.idle()
        assert await w.texts("s", "agent") == ["Both done."]
        assert [text for role, text in api.requests[1].talk if role == "user"] == ["First", "Second"]
        assert len(api.requests) == 2


async def test_a_message_steered_into_the_last_answer_gets_one_request_more(tmp_path: Path) -> None:
    gate = asyncio.Event()
    first = Answer(["To the ", "first."], gate=gate)
    async with ModelServer(first, Answer(["To the second."])) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "First")
        await asyncio.wait_for(first.reached.wait(), 30)
        await w.gateway.say("s", "Second", busy="steer")
        await wait_until_joined(w)
        gate.set()
        await w.idle()
        assert await w.texts("s", "agent") == ["To the first.", "To the second."]
        assert api.requests[1].talk == [("user", "First"), ("assistant", "To the first."), ("user", "Second")]
        turns = {e["turn"] for e in await w.entries() if e["role"] == "agent"}
        assert len(turns) == 1


async def test_a_steered_answer_that_repeats_the_first_is_an_honest_repeat(tmp_path: Path) -> None:
    gate = asyncio.Event()
    first = Answer(["Yes, of course I will."], gate=gate)
    async with ModelServer(first, Answer(["Yes, of course I will."])) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "First")
        await asyncio.wait_for(first.reached.wait(), 30)
        await w.gateway.say("s", "Second", busy="steer")
        await wait_until_joined(w)
        gate.set()
        await w.idle()
        assert await w.texts("s", "agent") == ["Yes, of course I will."] * 2


async def test_a_turn_ends_at_its_limit_of_requests(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("list", {})]) for _ in range(5)]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, model={"max_requests": 3}) as w:
        await w.ask("Go")
        assert len(api.requests) == 3
        assert "limit of model requests" in (await w.texts("s", "notice"))[0]


async def test_results_that_outgrow_the_context_give_way_to_newer_ones(tmp_path: Path) -> None:
    answers = [*(Answer([], calls=[("read", {"path": "big"})]) for _ in range(5)), Answer(["Read."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, model={"context": 6_000}) as w:
        (w.work / "big").write_text("0123456789" * 500)
        assert await w.ask("Go") == ["Read."]
        told = [text for role, text in api.requests[-1].talk if role == "result"]
        assert "taken out to make room" in told[0]
        assert told[-1].startswith("0123456789")
        assert len(told) == 5


async def test_an_address_that_nobody_has_is_corrected_with_the_answer_in_mind(tmp_path: Path) -> None:
    answers = [Answer(['<message to="tem">Deployed.</message>']), Answer(['<message to="team">Deployed.</message>'])]
    team = {"team": DestinationSettings(name="team", channel="web", address="team", allow=("*",))}
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, destinations=team) as w:
        await w.ask("Tell the team")
        said = [(e["text"], e.get("to")) for e in await w.entries() if e["role"] == "agent"]
        assert said == [("Deployed.", "web:team")]
        talk = api.requests[1].talk
        assert talk[-2] == ("assistant", '<message to="tem">Deployed.</message>')
        assert "your text was held back" in talk[-1][1]


async def test_how_to_speak_elsewhere_is_known_in_every_turn(tmp_path: Path) -> None:
    team = {"team": DestinationSettings(name="team", channel="web", address="team", allow=("*",))}
    async with (
        ModelServer(Answer(["a1"]), Answer(["a2"])) as api,
        ModelWorld(tmp_path, api, destinations=team) as w,
    ):
        await w.ask("u1")
        await w.ask("u2")
        assert ['<message to="NAME">' in request.system for request in api.requests] == [True, True]
        assert api.requests[0].system == api.requests[1].system


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_unclosed_block_at_the_token_limit_is_delivered_home_and_corrected_elsewhere(
    tmp_path: Path, provider: str
) -> None:
    team = {"team": DestinationSettings(name="team", channel="web", address="team", allow=("*",))}
    cut = Answer(['Hm. <message to="home">Dear ', 'Ann,</message><message to="team">Dep'], stop="length")
    right = Answer(['Hm. <message to="team">Deployed.</message>'])
    async with ModelServer(cut, right) as api, ModelWorld(tmp_path, api, provider, destinations=team) as w:
        await w.ask("Tell them")
        said = [(e["text"], e.get("to")) for e in await w.entries() if e["role"] == "agent"]
        assert said == [("Hm. ", None), ("Dear Ann,", None), ("Deployed.", "web:team")]
        told = api.requests[1].talk[-1][1]
        assert "never was" not in told and "was never closed with </message>" in told
        assert "- already said to home: 'Dear Ann,'" in told


async def test_a_message_beside_the_last_allowed_request_is_a_prompt_of_its_own(tmp_path: Path) -> None:
    gate = asyncio.Event()
    first = Answer(["Look. "], calls=[("list", {})], gate=gate)
    second = Answer(["To the second."])
    async with ModelServer(first, second) as api, ModelWorld(tmp_path, api, model={"max_requests": 1}) as w:
        await w.gateway.say("s", "First")
        await asyncio.wait_for(first.reached.wait(), 30)
        await w.gateway.say("s", "Second", busy="steer")
        await wait_until_joined(w)
        gate.set()
        await w.idle()
        assert await w.texts("s", "agent") == ["Look. ", "To the second."]
        [limit] = await w.texts("s", "notice")
        assert "limit of model requests" in limit
        order = [e["text"] for e in await w.entries()]
        assert order.index(limit) < order.index("To the second.")
        assert len(api.requests) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_closing_text_that_repeats_what_somebody_deleted_is_said(tmp_path: Path, provider: str) -> None:
    wait = ("shell", {"command": "while [ ! -e go ]; do sleep 0.02; done; echo over"})
    answers = [Answer([], calls=[("send_message", {"text": "Alpha."})]), Answer([], calls=[wait]), Answer(["Alpha."])]
    chat, room = FakeChannel("chat", Safety.AT_MOST_ONCE), "main:chat:room"
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    people = {"ann": PersonSettings(name="ann", role="owner", accounts=("chat:ann",))}
    async with (
        ModelServer(*answers) as api,
        ModelWorld(tmp_path, api, provider, channels={"chat": chat}, channel_settings=settings, people=people) as w,
    ):
        await w.gateway.say(room, "Go")

        async def is_shown() -> bool:
            return bool(chat.platform.log)

        await until(is_shown)
        await w.sent()
        of = chat.platform.log[0].id
        await chat.tell(Incoming("delete", f"{of}/gone", "room", Person("ann", "Ann"), of=of))

        async def is_heard() -> bool:
            return any(entry.get("deleted") for entry in await w.entries(room))

        await until(is_heard)
        (w.work / "go").touch()
        await w.idle(room)
        await w.sent()
        assert [post.text for post in chat.platform.log] == ["Alpha.", "Alpha."]
